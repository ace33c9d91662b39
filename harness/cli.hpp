// How does the program start and end? The first word is the command; errors become one line and an exit code
// here, and nowhere else.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "harness/options.hpp"

namespace moe::harness {

/// Where a command writes. Progress and errors go to `err`, tables and reports to `out`.
struct Streams {
  std::ostream& out;
  std::ostream& err;
  bool out_is_terminal = false, err_is_terminal = false;
  std::string program = "moeproof";  // as the user called it, so that printed commands can be pasted
};

/// Runs one command line (without the program's name) and returns the exit status.
int run_command_line(const std::vector<std::string>& words, const Streams& streams);

// One function a command; they return an exit status and throw BadInput or MachineFailure.
int cmd_check(const Options&, const Streams&);
int cmd_self_test(const Options&, const Streams&);  // check --self-test
int cmd_bench(const Options&, const Streams&);
int cmd_upstream_check(const Options&, const Streams&);
int cmd_predict(const Options&, const Streams&);
int cmd_compare(const Options&, const Streams&);
int cmd_against(const Options&, const Streams&);  // compare --against
int cmd_infer_semantics(const Options&, const Streams&);
int cmd_merge(const Options&, const Streams&);
int cmd_report(const Options&, const Streams&);
int cmd_audit_jit(const Options&, const Streams&);
int cmd_reference(const Options&, const Streams&);
int cmd_tune(const Options&, const Streams&);
int cmd_aot(const Options&, const Streams&);  // tune --aot
int cmd_route(const Options&, const Streams&);
int cmd_lint(const Options&, const Streams&);
int cmd_limits(const Options&, const Streams&);
int cmd_ncu(const Options&, const Streams&);      // compare --ncu
int cmd_profile(const Options&, const Streams&);
int cmd_service(const Options&, const Streams&);
int cmd_calibrate(const Options&, const Streams&);
int cmd_list(const Options&, const Streams&);
int cmd_completion(const Options&, const Streams&);
int cmd_man(const Options&, const Streams&);
int cmd_doctor(const Options&, const Streams&);

}  // namespace moe::harness
