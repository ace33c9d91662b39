#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "fixtures/problem/errors.hpp"
#include "harness/cli.hpp"
#include "harness/exit_code.hpp"
#include "harness/expand.hpp"
#include "harness/infer/report.hpp"
#include "harness/run_problem.hpp"
#include "harness/suite.hpp"
#include "harness/write_file.hpp"

namespace moe::harness {
namespace {

/// Each kernel, choice and scheme once: neither tokens nor data change how a kernel rounds, a tile may.
std::vector<Case> cases_of(const std::vector<Work>& works) {
  std::vector<Case> cases;
  std::set<std::string> seen;
  for (const Work& work : works)
    for (const Choice& choice : work.choices) {
      Case c{work.problem, choice};
      if (seen.insert(to_line(small_case(c))).second) cases.push_back(std::move(c));
    }
  return cases;
}

nlohmann::ordered_json document(const Report& report) {
  nlohmann::ordered_json j{{"schema", 1}};
  j["tool"] = {{"name", "moeproof"},
               {"version", tool_version()},
               {"command", report.command},
               {"executor", report.executor}};
  j["device"] = nullptr;
  if (const auto& d = report.device)
    j["device"] = {{"name", d->name}, {"driver", d->driver}, {"sms", d->sms}};
  j["inferred"] = nlohmann::ordered_json::array();
  return j;
}

}  // namespace

int cmd_infer_semantics(const Options& given, const Streams& s) {
  Options o = given;
  require_problem(o.problem);  // before a process is started
  Suite suite = open_suite(o, s);
  const std::vector<Case> cases = cases_of(settle_works(o, suite));
  if (stages_of(cases.empty() ? o.problem.op : cases.front().problem.op).empty())
    throw BadInput(
        fmt::format("op {} has no Semantics to find: ask moe_layer, grouped_gemm, quantize, act_quant or "
                    "combine",
                    name(o.problem.op)));
  if (suite.plan.executor == nullptr) {
    s.err << "moeproof: nothing ran: " << suite.chosen.why_not << "\n";
    return int(o.run.require_gpu ? ExitCode::infrastructure : ExitCode::nothing_ran);
  }
  nlohmann::ordered_json report = document(suite.report);
  const bool table = !o.output.quiet && o.output.json != "-";
  if (table) s.out << fmt::format("infer-semantics  executor {}\n", o.run.executor);
  int known = 0, refused = 0;
  for (const Case& c : cases) {
    const Inference& found = suite.finder->of(c);
    const auto declared = declared_semantics(*suite.plan.executor, {found.layer, c.choice});
    if (table) s.out << "\n" << inference_text(found, declared);
    if (!found.known()) s.err << fmt::format("{}: {}\n", name(c.choice.layout), found.summary());
    report["inferred"].push_back(to_json(found, declared));
    known += found.known();
    refused += !found.refusal.empty();
  }
  if (!o.output.json.empty())
    write_whole(o.output.json, report.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n",
                s.out);
  if (refused == int(cases.size())) return int(ExitCode::nothing_ran);
  return known == int(cases.size()) ? 0 : int(ExitCode::failed);
}

}  // namespace moe::harness
