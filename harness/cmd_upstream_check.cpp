#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/cli.hpp"
#include "harness/exit_code.hpp"
#include "harness/process_executor.hpp"
#include "harness/reporters.hpp"
#include "harness/suite.hpp"
#include "harness/upstream/report.hpp"
#include "harness/write_file.hpp"

namespace moe::harness {
namespace {

/// The options as they would be for one side alone.
Options options_of(const Options& o, const SideOptions& side) {
  Options alone = o;
  alone.run.executor = side.executor;
  alone.run.executor_given = true;
  alone.problem.choice.kernel = side.kernel.empty() ? Choice{}.kernel : side.kernel;
  if (alone.problem.replay) alone.problem.replay->choice.kernel = alone.problem.choice.kernel;
  alone.output.quiet = true;  // progress is told once, below
  return alone;
}

Choice with_kernel(Choice choice, const SideOptions& side) {
  choice.kernel = side.kernel.empty() ? Choice{}.kernel : side.kernel;
  return choice;
}

PairRecord not_run(const Problem& problem, const Choice& choice, Correctness word, const std::string& why) {
  PairRecord pair;
  for (CaseRecord* side : {&pair.before, &pair.after}) {
    side->trial = {problem, choice};
    side->verdict = Verdict{};
    side->verdict->correctness = word;
    side->verdict->reason = why;
  }
  pair.untimed = why;
  return pair;
}

/// Both sides of one problem in each of its layouts. Two processes hold the inputs: each side has half the
/// room.
void run_work(const Work& work, const Options& o, const PairPlan& plan, UpstreamReport& report) {
  const Routing routing = routing_of(work.problem);
  std::string why = no_room(work.problem, routing, plan.before);
  if (why.empty()) why = no_room(work.problem, routing, plan.after);
  TensorSet inputs;
  for (const Choice& choice : work.choices) {
    const Choice before = with_kernel(choice, o.before), after = with_kernel(choice, o.after);
    if (!why.empty()) {
      report.pairs.push_back(not_run(work.problem, after, Correctness::refused, why));
      continue;
    }
    if (inputs.all().empty() || inputs_follow_tile(work.problem))
      inputs = make_inputs(work.problem, choice, routing, plan.before.threads);
    report.pairs.push_back(compare_pair(work.problem, before, after, routing, inputs, plan));
  }
}

RunPlan side_plan(Suite& suite, const Streams& s, const char* side, bool quiet) {
  RunPlan plan = suite.plan;
  plan.hardware = &suite.hardware;
  plan.room.host /= 2;
  plan.room.card /= 2;
  plan.timing = device::TimingPlan{};
  if (!quiet)
    plan.before_launch = [&err = s.err, side](const std::string& line) {
      err << "running " << side << ": " << line << std::endl;
    };
  return plan;
}

bool hits(const UpstreamReport& report, const std::vector<std::string>& words) {
  Report sides;  // every word of either side
  for (const PairRecord& pair : report.pairs) {
    sides.cases.push_back(pair.before);
    sides.cases.push_back(pair.after);
  }
  if (hits_fail_on(sides, words)) return true;
  return std::any_of(report.pairs.begin(), report.pairs.end(), [&](const PairRecord& p) {
    return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
      return word == name(p.bits.word) || (word == "differs" && all_stages(p.stages).different > 0);
    });
  });
}

/// A slow one stops a merge, and so does a pair of which one side could not run while the other could.
ExitCode code_of(const UpstreamReport& report, const Options& o, bool out_of_time) {
  std::vector<Correctness> words;
  bool slow = false;
  for (const PairRecord& pair : report.pairs) {
    words.push_back(pair.verdict().correctness);
    slow = slow || pair.verdict().speed == Speed::slow;
  }
  const ExitCode code = exit_code(words, o.run.allow_mistrusted, false, out_of_time);
  return slow || hits(report, o.run.fail_on) ? ExitCode::failed : code;
}

int finish(const UpstreamReport& report, const Options& o, const Streams& s, bool out_of_time) {
  const std::string block = upstream_markdown(report);
  const Report records = upstream_records(report);
  if (!o.output.quiet && !reports_to_stdout(o.output)) s.out << block;
  if (o.output.quiet || reports_to_stdout(o.output)) s.err << failures_text(records);
  OutputOptions others = o.output;
  others.json.clear();
  others.markdown.clear();
  if (!o.output.markdown.empty()) write_whole(o.output.markdown, block, s.out);
  if (!o.output.json.empty()) write_whole(o.output.json, upstream_json(report), s.out);
  write_reports(records, others, s.out);
  if (out_of_time) s.err << "moeproof: the time budget ended before all cases ran\n";
  const ExitCode code = code_of(report, o, out_of_time);
  if (code == ExitCode::nothing_ran)
    s.err << "moeproof: nothing was compared: "
          << (records.cases.empty() ? "no case is in this --shard"
                                    : one_line(records.cases.front().verdict->reason))
          << "\n";
  return int(code);
}

/// Which side cannot run on this machine, and why; empty where both can.
std::string obstacle(const Suite& before, const Suite& after) {
  if (before.plan.executor == nullptr) return "--before: " + before.chosen.why_not;
  return after.plan.executor == nullptr ? "--after: " + after.chosen.why_not : "";
}

}  // namespace

int cmd_upstream_check(const Options& o, const Streams& s) {
  require_problem(o.problem);
  Options before_options = options_of(o, o.before), after_options = options_of(o, o.after);
  Suite before = open_suite(before_options, s), after = open_suite(after_options, s);
  const std::string why_not = obstacle(before, after);
  const bool asks_after = !o.before.executor.starts_with(kProcessPrefix);  // it has all ops
  const std::vector<Work> works =
      asks_after ? settle_works(after_options, after) : settle_works(before_options, before);
  PairPlan plan{side_plan(before, s, "before", o.output.quiet), side_plan(after, s, "after", o.output.quiet)};
  plan.samples = o.run.samples;
  UpstreamReport report{{o.before.executor, before.report.device},
                        {o.after.executor, after.report.device},
                        before.hardware.name,
                        {}};
  bool out_of_time = false;
  for (const Work& work : works) {
    out_of_time = before.budget.over();
    if (out_of_time) break;
    if (why_not.empty()) run_work(work, o, plan, report);
    for (const Choice& choice : why_not.empty() ? std::vector<Choice>{} : work.choices)
      report.pairs.push_back(not_run(work.problem, choice, Correctness::skipped, why_not));
  }
  return finish(report, o, s, out_of_time);
}

}  // namespace moe::harness
