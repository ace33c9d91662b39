#include "harness/cli.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <ostream>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/exit_code.hpp"
#include "harness/record.hpp"
#include "harness/worker.hpp"
#include "harness/write_file.hpp"

namespace moe::harness {
namespace {

int run_command(const Options& o, const Streams& s) {
  if (o.command == "check") return cmd_check(o, s);
  if (o.command == "bench") return cmd_bench(o, s);
  if (o.command == "upstream-check") return cmd_upstream_check(o, s);
  if (o.command == "predict") return cmd_predict(o, s);
  if (o.command == "compare") return cmd_compare(o, s);
  if (o.command == "infer-semantics") return cmd_infer_semantics(o, s);
  if (o.command == "report") return cmd_report(o, s);
  if (o.command == "merge") return cmd_merge(o, s);
  if (o.command == "audit-jit") return cmd_audit_jit(o, s);
  if (o.command == "reference") return cmd_reference(o, s);
  if (o.command == "tune") return o.aot ? cmd_aot(o, s) : cmd_tune(o, s);
  if (o.command == "route") return cmd_route(o, s);
  if (o.command == "calibrate") return cmd_calibrate(o, s);
  if (o.command == "profile") return cmd_profile(o, s);
  if (o.command == "service") return cmd_service(o, s);
  if (o.command == "lint") return cmd_lint(o, s);
  if (o.command == "limits") return cmd_limits(o, s);
  if (o.command == "list") return cmd_list(o, s);
  if (o.command == "completion") return cmd_completion(o, s);
  if (o.command == "man") return cmd_man(o, s);
  return cmd_doctor(o, s);
}

const Command& known_command(const std::string& name) {
  if (const Command* command = find_command(name)) return *command;
  std::vector<std::string_view> names;
  for (const Command& c : commands()) names.push_back(c.name);
  throw BadInput(fmt::format("unknown command '{}'{}; there are {}", name, hint(name, names), join(names)));
}

bool asks_for_help(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(),
                     [](const std::string& w) { return w == "--help" || w == "-h"; });
}

int dispatch(const std::vector<std::string>& words, const Streams& s) {
  if (words.empty()) throw BadInput("no command; see moeproof --help");
  const std::string& first = words.front();
  if (first == "--version") return s.out << "moeproof " << tool_version() << "\n", 0;
  if (first == kWorkerCommand) return run_worker(words);
  if (first == "--help" || first == "-h" || (first == "help" && words.size() == 1)) return s.out << help(), 0;
  if (first == "help" && words.size() > 2)
    throw BadInput(fmt::format("unexpected word '{}'; write moeproof help {}", words[2], words[1]));
  if (first == "help") return s.out << help(known_command(words[1])), 0;
  if (first.starts_with("-"))
    throw BadInput(
        fmt::format("'{}' stands before the command; write moeproof COMMAND {} ...", first, first));
  const Command& command = known_command(first);
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (asks_for_help(rest)) return s.out << help(command), 0;
  return run_command(parse_options(command, rest), s);
}

int complain(const Streams& s, const std::string& line, ExitCode code) {
  constexpr std::size_t kLongest = 4000;  // what was wrong may be a line of a whole file
  s.err << "moeproof: " << one_line(line.substr(0, kLongest)) << (line.size() > kLongest ? "..." : "")
        << "\n";
  return int(code);
}

}  // namespace

int run_command_line(const std::vector<std::string>& words, const Streams& s) {
  try {
    const int status = dispatch(words, s);
    flush_output(s.out);
    return status;
  } catch (const BadInput& e) {
    return complain(s, e.what(), ExitCode::usage);
  } catch (const MachineFailure& e) {
    return complain(s, e.what(), ExitCode::infrastructure);
  } catch (const std::bad_alloc&) {
    return complain(s, "out of memory; use fewer tokens or a smaller model", ExitCode::infrastructure);
  } catch (const std::exception& e) {
    return complain(s, fmt::format("internal error: {}", e.what()), ExitCode::infrastructure);
  }
}

}  // namespace moe::harness
