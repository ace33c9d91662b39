#include <fmt/format.h>

#include <ostream>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/generate.hpp"
#include "harness/cli.hpp"
#include "harness/exit_code.hpp"
#include "harness/reporters.hpp"
#include "harness/route/peers.hpp"
#include "harness/route/report.hpp"
#include "harness/suite.hpp"
#include "harness/write_file.hpp"

namespace moe::harness {
namespace {

void check(const Options& o) {
  if (!o.against.empty() && o.measure)
    throw BadInput("--against reads times that others measured, --measure takes them; leave one away");
  if (!o.against.empty() && (!o.problem.model.empty() || o.problem.shape.hidden || o.problem.tokens_given))
    throw BadInput("--against takes its problems from the file; leave --model, sizes and --tokens away");
}

std::string subject_of(const Problem& p) {
  const MoeShape& s = p.shape;
  std::string text = p.model.empty()
                         ? fmt::format("E {} top {} H {} I {}", s.experts, s.top_k, s.hidden, s.intermediate)
                         : p.model;
  if (s.tp > 1) text += fmt::format(" tp {}", s.tp);
  if (s.ep > 1) text += fmt::format(" ep {}", s.ep);
  return text + fmt::format(", {}", name(p.quant.kind));
}

/// A sweep a load, tokens ascending.
RouteReport predicted_paths(const Options& o, const Hardware& hardware) {
  RouteReport report;
  report.hardware = hardware_text(hardware);
  const Problem base = base_problem(o.problem);
  report.subject = subject_of(base);
  for (const LoadSpec& load : o.problem.loads) {
    ProblemOptions one = o.problem;
    one.loads = {load};
    std::sort(one.tokens.begin(), one.tokens.end());
    std::vector<RoutePoint> sweep;
    for (const Work& work : expand(one, {})) {
      if (work.problem.shape.tokens == 0)
        throw BadInput("--tokens 0: a rank without tokens launches nothing");
      sweep.push_back(path_point(work.problem, routing_of(work.problem), hardware));
      sweep.back().label =
          fmt::format("{} tokens, {}", work.problem.shape.tokens, to_string(work.problem.routing.load));
    }
    report.sweeps.push_back(std::move(sweep));
  }
  return report;
}

/// Times every arm on the card, judged like a bench; the words of all verdicts.
std::vector<Correctness> measure(RouteReport& report, Options o, const Streams& s) {
  o.run.executor = "cuda";
  const bool quiet = o.output.quiet;
  o.output = {};
  o.output.quiet = quiet;
  Suite suite = open_suite(o, s);
  if (suite.plan.executor == nullptr) throw MachineFailure("route --measure: " + suite.chosen.why_not);
  suite.plan.timing = device::TimingPlan{};
  suite.plan.timing->samples = o.run.samples;
  suite.plan.timing->per_stage = false;
  suite.plan.judge_budget = 1e8;  // a sample: the numbers must come from a right kernel
  std::vector<Correctness> words;
  for (auto& sweep : report.sweeps)
    for (RoutePoint& point : sweep) {
      Work work{point.problem, {}};
      for (const Arm& arm : point.arms) work.choices.push_back(arm.choice);
      suite.report.cases.clear();
      run_works(suite, {work});
      for (std::size_t i = 0; i < suite.report.cases.size(); ++i) {
        const CaseRecord& r = suite.report.cases[i];
        words.push_back(r.verdict->correctness);
        if (r.verdict->correctness == Correctness::passed && r.measurement && !r.measurement->seconds.empty())
          point.arms[i].measured = r.measurement->median();
        else
          s.err << fmt::format("moeproof: {} of {}: {} {}\n", point.arms[i].backend, point.label,
                               name(r.verdict->correctness), r.verdict->reason);
      }
    }
  return words;
}

}  // namespace

int cmd_route(const Options& o, const Streams& s) {
  check(o);
  require_writable(o.output);
  const Hardware hardware = load_hardware(o.hardware);
  RouteReport report = o.against.empty() ? predicted_paths(o, hardware) : peer_report(o.against, hardware);
  int status = 0;
  if (o.measure) {
    const std::vector<Correctness> words = measure(report, o, s);
    status = int(exit_code(words, false, true, false));
  }
  if (!o.output.quiet && !reports_to_stdout(o.output)) {
    s.out << route_table(report);
    if (o.against.empty()) s.out << "\n" << route_rule(report);
  }
  if (!o.output.json.empty()) write_whole(o.output.json, route_json(report), s.out);
  return status;
}

}  // namespace moe::harness
