// What did the user ask for? The words after a command become one Options value; anything unknown, repeated
// or contradictory throws BadInput in one line that says what is allowed.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/executor.hpp"
#include "fixtures/problem/case.hpp"
#include "harness/layouts.hpp"
#include "harness/values.hpp"

namespace moe::harness {

/// Sizes given one by one; each overrides the model's.
struct ShapeOverrides {
  std::optional<std::int64_t> hidden, intermediate;
  std::optional<int> experts, top_k;
  HeadShape heads;  // op=inv_rope_quant
};

/// Which problems and choices: what `expand` turns into work.
struct ProblemOptions {
  std::string model;  // preset or path of a config.json
  ShapeOverrides shape;
  std::vector<std::int64_t> tokens{16};
  bool tokens_given = false;
  int tp = 1, ep = 1, rank = 0;
  std::vector<LoadSpec> loads{LoadSpec{}};
  std::optional<QuantScheme> quant;  // unset: what the model's config says, else block128
  LayoutRequest layout = LayoutRequest::swap_ab;
  Choice choice;  // kernel and tiles; its layout is not used
  Op op = Op::moe_layer;
  bool op_given = false;
  Contract contract = Contract::contiguous;
  bool contract_given = false;
  int gemm = 1;
  std::vector<DataMode> data{DataMode::normal};
  FileData files;
  std::uint64_t seed = 1;
  std::optional<Case> replay;  // --case: everything above is in the line
};

struct RunOptions {
  std::string executor = "emulated";
  bool executor_given = false;
  bool isolate = false;       // cuda is always isolated
  std::string semantics;      // preset that --executor reference follows
  bool infer = false;         // judge by inferred Semantics although the kernel declares its own
  int trials = 0;             // 0: no random cases
  int trial_size = 0;         // sizes of random cases grow up to it; 0: as far as is usual
  std::string properties;     // "P5,P12" or "all"; empty: none (harness/properties)
  std::string suite;          // file of Case lines, or an embedded one ("corpus")
  std::string self_test;      // program with planted faults; empty: no self-test
  int self_test_seeds = 20;   // of random cases a fault
  std::string faults;         // of the self-test: "M06,P12"; empty: all
  std::string journal;        // file of a run that may be resumed
  double judge_budget = 2e9;  // multiply-adds the judge may spend on one choice
  int schedules = 1;          // orders of the emulated SM's asynchronous completions, the plain one first
  int first_schedule = 1;     // number of the first one behind the plain one
  bool allow_mistrusted = false;
  std::optional<double> time_budget_s;
  double case_time_s = 300;  // the watchdog's patience with one run
  bool require_gpu = false;
  int card = 0;                      // ordinal of the GPU that is used
  bool all_cards = false;            // a lane or more on each
  int jobs = 1;                      // lanes of a run of many cases, on each card
  std::vector<std::string> fail_on;  // words of Correctness, Speed and ModelAgreement
  Shard shard;
  int samples = 30;
};

/// The two sides of upstream-check; an executor each, as --executor is written. What a side leaves open is
/// what --layout, --tile and --tile-down (or the --case line) say for both.
struct SideOptions {
  std::string executor, kernel;  // kernel: empty = the first that takes the case
  std::optional<Layout> layout;
  TileConfig tile, tile_down;  // automatic: not given
  bool chooses() const { return layout || !tile.automatic() || !tile_down.automatic(); }
  bool operator==(const SideOptions&) const = default;
};

/// What audit-jit reads: a Triton cache, a monitor's log, or a stream of launches of --kernel (else
/// --tokens).
struct AuditOptions {
  std::string trace, cache, log;
  std::vector<std::pair<std::string, std::int64_t>> sizes;  // instead of the rules'
  std::optional<double> compile_s;                          // seconds a compilation, where the user knows it
};

/// What limits takes beside bench reports.
struct LimitOptions {
  std::string public_times;     // CSV of public kernels' times
  double read_bytes_per_s = 0;  // of the run, 0 = not measured
  std::string commit;           // what was built, kept in the file
};

/// What service assumes of the serving around the layer.
struct ServiceOptions {
  int concurrency = 64;         // sequences that decode together
  std::int64_t context = 4096;  // tokens that each of them has behind it
  std::int64_t prompt = 2048;   // tokens of a prompt, for the time to its first token
  bool claims = false;          // the public claims instead of a model of the command line
};

struct OutputOptions {
  std::string json, csv, junit, markdown, html;  // path, "-" = standard output, empty = not asked for
  bool quiet = false;
};

struct Options {
  std::string command;
  ProblemOptions problem;
  RunOptions run;
  SideOptions before, after;
  AuditOptions audit;
  LimitOptions limits;
  ServiceOptions service;
  OutputOptions output;
  std::string hardware = "h200";   // preset or path
  std::string out;                 // reference: file to write
  bool why = false;                // predict: where the time goes, and what the other operand order changes
  std::string against;             // compare, route: CSV of times that others measured
  bool measure = false;            // route: time the paths on the card
  bool aot = false;                // tune: prove that no shape of a deployment needs a compilation
  std::string ncu;                 // compare: what Nsight Compute counted of the --case
  std::string device_name;         // tune: device in the table's name; empty: the card's
  std::string tuned;               // compare: tuned tables for --against, a folder, a table or a CSV
  std::vector<std::string> words;  // positional: files of compare, topic of list
};

struct Command {
  std::string name, summary, words;  // words: how positional arguments are called, empty = none
  std::size_t most_words = 0;
  std::vector<std::string> examples;
};
/// Commands that exist, in the order of the help.
const std::vector<Command>& commands();
const Command* find_command(std::string_view name);

/// Parses the words after the command's name.
Options parse_options(const Command& command, const std::vector<std::string>& words);

/// Help of the program and of one command, 80 columns.
std::string help();
std::string help(const Command& command);

}  // namespace moe::harness
