#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/cli.hpp"
#include "harness/exit_code.hpp"
#include "harness/process_executor.hpp"
#include "harness/progress.hpp"
#include "harness/reporters.hpp"
#include "harness/suite.hpp"
#include "harness/upstream/report.hpp"
#include "harness/write_file.hpp"

namespace moe::harness {
namespace {

/// What one side says of its choice, put over what the command line says for both.
void take_choice(const SideOptions& side, Choice& choice) {
  choice.kernel = side.kernel.empty() ? Choice{}.kernel : side.kernel;
  if (!side.tile.automatic()) choice.tile = side.tile;
  if (!side.tile_down.automatic()) choice.tile_down = side.tile_down;
}

LayoutRequest request_of(Layout layout) { return parse_layout_request(name(layout)); }

/// The options as they would be for one side alone.
Options options_of(const Options& o, const SideOptions& side) {
  Options alone = o;
  alone.run.executor = side.executor;
  alone.run.executor_given = true;
  take_choice(side, alone.problem.choice);
  if (side.layout) alone.problem.layout = request_of(*side.layout);
  if (alone.problem.replay) {
    Choice& choice = alone.problem.replay->choice;
    if (!side.tile.automatic()) choice.tile_down = TileConfig{};  // the line's belongs to the line's tile
    take_choice(side, choice);
    if (side.layout) choice.layout = *side.layout;
  }
  alone.output.quiet = true;  // progress is told once, below
  return alone;
}

/// One problem and the choices that are held against each other.
struct PairWork {
  Problem problem;
  std::vector<Choice> before, after;
};

/// The works of both sides. A process's only kernel says what the line leaves open, for both; --after's
/// before --before's, since a reviewer has the new kernel in mind.
std::vector<PairWork> settle_pairs(Options& before_options, Suite& before, Options& after_options,
                                   Suite& after) {
  const bool asks_after = !before_options.run.executor.starts_with(kProcessPrefix);  // it has all ops
  Options &asked = asks_after ? after_options : before_options,
          &other = asks_after ? before_options : after_options;
  const std::vector<Work> first = settle_works(asked, asks_after ? after : before);
  other.problem.op = asked.problem.op;
  other.problem.contract = asked.problem.contract;
  other.problem.quant = asked.problem.quant;
  const std::vector<Work> second = expand(other.problem, other.run.shard);
  std::vector<PairWork> pairs;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const Work &b = asks_after ? second[i] : first[i], &a = asks_after ? first[i] : second[i];
    pairs.push_back({b.problem, b.choices, a.choices});
  }
  return pairs;
}

PairRecord not_run(const Problem& problem, const Choice& before, const Choice& after, Correctness word,
                   const std::string& why) {
  PairRecord pair;
  pair.before.trial.choice = before;
  pair.after.trial.choice = after;
  for (CaseRecord* side : {&pair.before, &pair.after}) {
    side->trial.problem = problem;
    side->verdict = Verdict{};
    side->verdict->correctness = word;
    side->verdict->reason = why;
  }
  pair.untimed = why;
  return pair;
}

/// Blocks of the routed contract follow the tile, and so does the whole output of align.
bool same_inputs(const Problem& problem, const Choice& before, const Choice& after) {
  if (!inputs_follow_tile(problem) || before.tile.block_m == after.tile.block_m) return true;
  if (problem.op == Op::align)
    throw BadInput(
        fmt::format("op align: before has {} tokens a block and after {}; both sides need the same",
                    before.tile.block_m, after.tile.block_m));
  return false;
}

/// Both sides of one problem in each of its layouts. Two processes hold the inputs: each side has half the
/// room.
void run_work(const PairWork& work, const PairPlan& plan, Progress& progress, UpstreamReport& report) {
  const Routing routing = routing_of(work.problem);
  std::string why = no_room(work.problem, routing, plan.before);
  if (why.empty()) why = no_room(work.problem, routing, plan.after);
  const auto make = [&](const Choice& c) {
    return make_inputs(work.problem, c, routing, plan.before.threads);
  };
  TensorSet inputs, of_after;
  for (std::size_t i = 0; i < work.before.size(); ++i) {
    const Choice &before = work.before[i], &after = work.after[i];
    if (!why.empty()) {
      report.pairs.push_back(not_run(work.problem, before, after, Correctness::refused, why));
      progress.leave_out();
      continue;
    }
    const bool same = same_inputs(work.problem, before, after);
    if (i == 0 || inputs_follow_tile(work.problem)) inputs = make(before);
    of_after = same ? inputs : make(after);
    report.pairs.push_back(compare_pair(work.problem, {before, inputs}, {after, of_after}, routing, plan));
    progress.finish(is_bad(report.pairs.back().after) || is_bad(report.pairs.back().before));
  }
}

RunPlan side_plan(Suite& suite, Progress& progress, const char* side, Progress::Style style) {
  RunPlan plan = suite.plan;
  plan.hardware = &suite.hardware;
  plan.room.host /= 2;
  plan.room.card /= 2;
  plan.timing = device::TimingPlan{};
  if (style == Progress::Style::log)
    plan.before_launch = [&progress, side](const std::string& line) {
      progress.say(fmt::format("running {}: {}\n", side, line));
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
  if (o.output.quiet || reports_to_stdout(o.output)) s.err << failures_text(records, Refusals::counted);
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
  const std::vector<PairWork> works = settle_pairs(before_options, before, after_options, after);
  const Progress::Style style = Progress::style_of(o.output.quiet, s.err_is_terminal);
  Progress progress(s.err, style);
  for (const PairWork& work : works) progress.plan(work.before.size());
  PairPlan plan{side_plan(before, progress, "before", style), side_plan(after, progress, "after", style)};
  plan.samples = o.run.samples;
  UpstreamReport report{{o.before.executor, before.report.device},
                        {o.after.executor, after.report.device},
                        before.hardware.name,
                        {}};
  bool out_of_time = false;
  for (const PairWork& work : works) {
    out_of_time = before.budget.over();
    if (out_of_time) break;
    if (why_not.empty()) run_work(work, plan, progress, report);
    for (std::size_t i = 0; !why_not.empty() && i < work.before.size(); ++i)
      report.pairs.push_back(
          not_run(work.problem, work.before[i], work.after[i], Correctness::skipped, why_not));
  }
  progress.end();
  return finish(report, o, s, out_of_time);
}

}  // namespace moe::harness
