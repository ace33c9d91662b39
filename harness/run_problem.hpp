// What happens to one problem? Routing, inputs and reference once, then each choice: predict, open, run,
// judge, verdict.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/executor.hpp"
#include "fixtures/problem/hardware.hpp"
#include "harness/memory_need.hpp"
#include "harness/record.hpp"

namespace moe::harness {

class SemanticsFinder;
struct Property;

struct RunPlan {
  device::Executor* executor = nullptr;
  std::string program = "moeproof";  // what a replay line begins with
  std::string options;               // what it needs besides, "--judge-budget 1e12 "
  std::string patience;              // those of them that a line of infer-semantics needs
  const Hardware* hardware = nullptr;
  int threads = 1;
  double judge_budget = 2e9;
  bool judge = true;                  // bench judges one run before it times
  int repeats = 1;                    // runs of one session; each is judged, all must agree to the bit
  int first_schedule = 1;             // number of the emulated order that the second run takes
  SemanticsFinder* finder = nullptr;  // asked about kernels that declare nothing; null: none is asked
  bool infer = false;                 // ask it about every kernel, whatever it declares
  bool graph = false;    // one more run, as a captured graph: a card replays the layer so when it serves
  bool crowded = false;  // properties may run it beside another kernel
  std::vector<const Property*> properties;  // tried on every case that ran
  std::optional<device::TimingPlan> timing;
  bool isolated = false;  // the executor works in another process
  MemoryRoom room;        // a problem that needs more is refused before its inputs are made
  std::function<double()> now = [] { return 0.0; };  // seconds, for the time a case took
  /// Told the replay line before every launch, so that a crash of the whole machine still leaves it.
  std::function<void(const std::string&)> before_launch = [](const std::string&) {};
};

/// One record a choice, in order, speedups filled in.
std::vector<CaseRecord> run_problem(const Problem& problem, const std::vector<Choice>& choices,
                                    const RunPlan& plan);

struct Inference;

/// What one choice is judged by: what its kernel declares, else what was inferred, else nothing.
struct Ground {
  std::optional<Semantics> declared;
  const Inference* inferred = nullptr;   // owned by the plan's finder
  const Inference* full_size = nullptr;  // the same with probes of the case's size, where they were needed
  bool sparse_weights = false;          // a scales twin: nothing is
};

/// One choice that was opened, bound, run and judged; its session stays open, to be timed.
struct OpenTrial {
  CaseRecord record;
  std::unique_ptr<device::Session> session;  // null where the executor refused
  TensorSet outputs;                         // of the first run
  Ground ground;
  std::optional<int> failed_run;  // the first whose verdict is bad: a replay needs no other
  bool ask_full_size = false;     // only probes of the case's own size can decide
  std::string replay;             // what repeats the verdict, where the case's line does not
  bool passed() const { return record.verdict->correctness == Correctness::passed; }
};
OpenTrial open_trial(const Case& c, const Routing& routing, const TensorSet& inputs, const RunPlan& plan);
/// Does `work` with the trial's session; where the process is lost or refuses, that is the trial's verdict.
void in_trial(OpenTrial& trial, const RunPlan& plan, const std::function<void()>& work);
/// Runs and judges once more, after a timing: many launches in a row may break what one left whole (a
/// counter, a workspace, a carve-out of L2).
void judge_again(OpenTrial& trial, const TensorSet& inputs, const RunPlan& plan);

/// Why the problem does not fit into memory; empty where it does.
std::string no_room(const Problem& problem, const Routing& routing, const RunPlan& plan);
/// Blocks of the routed contract are as long as the tile has tokens: such inputs are made anew for each
/// choice.
bool inputs_follow_tile(const Problem& problem);

/// "moeproof check --case '...' --executor emulated".
/// `failed_run`: the one that is to be seen again, instead of all.
std::string replay_line(const Case& c, const RunPlan& plan, std::optional<int> failed_run = {});

/// `text` as one word of a shell's command line.
std::string shell_word(std::string_view text);

/// Semantics that the executor's kernel declares for this case; empty where it declares none.
std::optional<Semantics> declared_semantics(const device::Executor& executor, const Case& c);

/// What the kernel says of itself: two right answers may differ only where it says so.
bool is_deterministic(const device::Executor& executor, const Case& c);

}  // namespace moe::harness
