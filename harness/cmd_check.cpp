#include "harness/case_file.hpp"
#include "harness/cli.hpp"
#include "harness/run_cases.hpp"

namespace moe::harness {

int cmd_check(const Options& given, const Streams& s) {
  if (!given.run.self_test.empty()) return cmd_self_test(given, s);
  Options o = given;
  const bool many = o.run.trials > 0 || !o.run.suite.empty();
  if (!o.run.suite.empty()) load_cases(o.run.suite);  // a wrong line is said before a process is started
  if (!many) require_problem(o.problem);
  Suite suite = open_suite(o, s);
  const std::vector<Work> works = settle_works(o, suite);
  if (!many || suite.plan.executor == nullptr)
    run_works(suite, works);
  else if (o.run.trials > 0)
    run_trials(suite);
  else
    run_case_file(suite);
  return close_suite(suite);
}

}  // namespace moe::harness
