#include "harness/option_table.hpp"

#include <fmt/format.h>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/process_executor.hpp"
#include "harness/properties/property.hpp"

namespace moe::harness {
namespace {

constexpr const char* kProblems = "check bench predict reference infer-semantics upstream-check profile";
constexpr const char* kLayers =
    "check bench predict reference infer-semantics upstream-check tune route profile service";
constexpr const char* kRuns = "check bench upstream-check";
constexpr const char* kOneRun = "check bench infer-semantics";
constexpr const char* kTwoRuns = "upstream-check";
constexpr const char* kReports = "check bench predict compare upstream-check report merge";
constexpr std::int64_t kMostSize = std::int64_t(1) << 31;

int to_int(const std::string& text, std::int64_t least, std::int64_t most) {
  return int(parse_count(text, least, most));
}

std::vector<LoadSpec> parse_loads(const std::string& text) {
  std::vector<LoadSpec> loads;
  if (text.starts_with("trace:")) return {parse_load(text)};  // a path may hold commas
  for (const std::string& item : split(text, ',')) loads.push_back(parse_load(item));
  return loads;
}

std::vector<DataMode> parse_data(const std::string& text) {
  std::vector<DataMode> modes;
  for (const std::string& item : split(text, ',')) modes.push_back(parse_name("data", item, DataMode::file));
  return modes;
}

/// "block128", "block128:ue8m0", "block128:ue8m0:row".
QuantScheme parse_quant(const std::string& text) {
  const auto parts = split(text, ':');
  QuantScheme scheme;
  scheme.kind = parse_name("quantisation", parts[0], QuantKind::block128);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i] == "ue8m0" || parts[i] == "f32") {
      scheme.scale_format = parts[i] == "f32" ? ScaleFormat::f32 : ScaleFormat::ue8m0;
    } else if (parts[i] == "row" || parts[i] == "mn_major") {
      scheme.scale_layout = parts[i] == "row" ? ScaleLayout::row : ScaleLayout::mn_major;
    } else {
      throw BadInput(fmt::format("'{}' after the scheme is not f32, ue8m0, row or mn_major", parts[i]));
    }
  }
  return scheme;
}

TileConfig parse_checked_tile(const std::string& text) {
  const TileConfig tile = parse_tile(text);
  validate_tile(tile);
  return tile;
}

std::string parse_executor(const std::string& text) {
  if (text == "emulated" || text == "cuda" || text == "reference") return text;
  if (text.starts_with(kProcessPrefix) && text.size() > std::string_view(kProcessPrefix).size()) return text;
  throw BadInput(
      fmt::format("'{}' is not an executor; write emulated, cuda, reference or process:COMMAND", text));
}

std::vector<std::string> parse_fail_on(const std::string& text) {
  static const std::vector<std::string_view> allowed{"failed",  "mistrusted", "refused", "skipped",
                                                     "crashed", "timed_out",  "slow",    "ambiguous",
                                                     "off",     "outside",    "differs", "unexplained"};
  std::vector<std::string> words = split(text, ',');
  for (const std::string& word : words) {
    bool known = false;
    for (std::string_view a : allowed) known = known || a == word;
    if (!known) bad_word("verdict", word, allowed);
  }
  return words;
}

void set_allow(Options& o, const std::string& v) {
  if (v != "mistrusted") throw BadInput(fmt::format("'{}' cannot be allowed; write mistrusted", v));
  o.run.allow_mistrusted = true;
}

void set_semantics(Options& o, const std::string& v) {
  semantics_preset(v, {});  // throws for a name that is no preset
  o.run.semantics = v;
}

void set_properties(Options& o, const std::string& v) {
  find_properties(v);  // throws for a name that is none
  o.run.properties = v;
}

void require_word(const char* what, const std::string& given, std::string_view only) {
  if (given != only) bad_word(what, given, std::vector<std::string_view>{only});
}

/// Part of a file's name.
std::string parse_device_name(const std::string& text) {
  if (text.find_first_of("/,=[]") != std::string::npos)
    throw BadInput(
        fmt::format("'{}' cannot stand in a file's name; write it as NVIDIA_H200", one_line(text)));
  return text;
}

using Text = const std::string&;

std::vector<OptionRow> problem_rows() {
  const char* g = "Problem";
  return {
      {"model", "NAME|FILE", kLayers, g, "a preset (moeproof list models) or a Hugging Face config.json",
       [](Options& o, Text v) { o.problem.model = v; }},
      {"hidden", "N", kLayers, g, "model width, instead of the model's",
       [](Options& o, Text v) { o.problem.shape.hidden = parse_count(v, 1, kMostSize); }},
      {"intermediate", "N", kLayers, g, "intermediate size of one expert before tensor parallelism",
       [](Options& o, Text v) { o.problem.shape.intermediate = parse_count(v, 1, kMostSize); }},
      {"experts", "N", kLayers, g, "routed experts of the whole model",
       [](Options& o, Text v) { o.problem.shape.experts = to_int(v, 1, 65536); }},
      {"top-k", "N", kLayers, g, "experts a token",
       [](Options& o, Text v) { o.problem.shape.top_k = to_int(v, 1, 65536); }},
      {"heads", "N", kProblems, g, "of --op inv_rope_quant: attention heads of the model (default 64)",
       [](Options& o, Text v) { o.problem.shape.heads.heads = to_int(v, 1, 65536); }},
      {"head-groups", "N", kProblems, g, "groups that the output projection takes them in (default 8)",
       [](Options& o, Text v) { o.problem.shape.heads.groups = to_int(v, 1, 65536); }},
      {"tp", "N", kLayers, g, "ranks that share the intermediate size (default 1)",
       [](Options& o, Text v) { o.problem.tp = to_int(v, 1, 65536); }},
      {"ep", "N", kLayers, g, "ranks that share the experts (default 1)",
       [](Options& o, Text v) { o.problem.ep = to_int(v, 1, 65536); }},
      {"rank", "R", kLayers, g, "expert-parallel rank that is computed (default 0)",
       [](Options& o, Text v) { o.problem.rank = to_int(v, 0, 65535); }},
      {"tokens", "LIST",
       "check bench predict reference infer-semantics upstream-check tune route audit-jit profile", g,
       "16 or 1,2,4 or 1:4096:x2 or 0:64:+16 (default 16)",
       [](Options& o, Text v) { o.problem.tokens = parse_counts(v, 0), o.problem.tokens_given = true; }},
      {"load", "LIST", kLayers, g,
       "uniform, zipf:1.2, hot:0.5, balanced, empty:0.25, only:0-3, except:2-2, trace:FILE (default uniform)",
       [](Options& o, Text v) { o.problem.loads = parse_loads(v); }},
      {"quant", "SCHEME", kLayers, g,
       "block128, token_channel, tensor_static, tensor_dynamic; then :ue8m0 or :row (default the model's)",
       [](Options& o, Text v) { o.problem.quant = parse_quant(v); }},
      {"op", "OP", kProblems, g,
       "moe_layer, grouped_gemm, topk, align, quantize, act_quant, combine, inv_rope_quant (default "
       "moe_layer)",
       [](Options& o, Text v) {
         o.problem.op = parse_name("op", v, Op::inv_rope_quant), o.problem.op_given = true;
       }},
      {"contract", "NAME", kProblems, g, "of grouped_gemm: routed, contiguous, masked or offsets",
       [](Options& o, Text v) {
         o.problem.contract = parse_name("contract", v, Contract::offsets), o.problem.contract_given = true;
       }},
      {"gemm", "1|2", kProblems, g, "of grouped_gemm: 1 = up and gate, 2 = down (default 1)",
       [](Options& o, Text v) { o.problem.gemm = to_int(v, 1, 2); }},
      {"seed", "N", kLayers, g, "same seed, same bytes, same verdict (default 1)",
       [](Options& o, Text v) { o.problem.seed = parse_seed(v); }},
      {"data", "LIST", kProblems, g, "normal, exact, coded, impulse, nasty or file (default normal)",
       [](Options& o, Text v) { o.problem.data = parse_data(v); }},
      {"weights", "DIR", kProblems, g, "safetensors folder with the layer's experts; makes --data file",
       [](Options& o, Text v) { o.problem.files.weights_dir = v; }},
      {"layer", "L", kProblems, g, "which layer of --weights (default 0)",
       [](Options& o, Text v) { o.problem.files.layer = to_int(v, 0, 100000); }},
      {"activations", "FILE", kProblems, g,
       "safetensors with hidden_states and router_logits; makes --data file",
       [](Options& o, Text v) { o.problem.files.activations = v; }},
      {"case", "LINE", "check bench predict reference infer-semantics upstream-check profile compare", g,
       "the line of key=value that a report printed: all of the above at once",
       [](Options& o, Text v) { o.problem.replay = parse_case(v); }},
  };
}

std::vector<OptionRow> choice_rows() {
  const char* g = "Choice";
  return {
      {"layout", "NAME", kProblems, g,
       "normal_mma, normal_wgmma, swap_ab, all, or both: swap_ab with its true baseline (default swap_ab)",
       [](Options& o, Text v) { o.problem.layout = parse_layout_request(v); }},
      {"tile", "MxNxK", kProblems, g,
       "tokens x output columns x K, as 16x128x128 or 16x128x128/s5; auto (default)",
       [](Options& o, Text v) { o.problem.choice.tile = parse_checked_tile(v); }},
      {"tile-down", "MxNxK", kProblems, g, "tile of the second GEMM (default --tile)",
       [](Options& o, Text v) { o.problem.choice.tile_down = parse_checked_tile(v); }},
      {"kernel", "NAME", "check bench predict reference infer-semantics audit-jit profile service", g,
       "which kernel answers (default moeproof, of a process the first that takes the case; predict knows "
       "triton_fused_moe and cutlass_blockwise_dense "
       "too); of audit-jit: whose "
       "argument rules (moeproof list jit-kernels), or a JSON file of yours",
       [](Options& o, Text v) { o.problem.choice.kernel = v; }},
  };
}

std::vector<OptionRow> run_rows() {
  const char* g = "Run";
  return {
      {"before", "EXECUTOR", kTwoRuns, g, "the kernel as it was: emulated, cuda, reference or process:CMD",
       [](Options& o, Text v) { o.before.executor = parse_executor(v); }},
      {"after", "EXECUTOR", kTwoRuns, g, "the kernel as it shall be",
       [](Options& o, Text v) { o.after.executor = parse_executor(v); }},
      {"before-kernel", "NAME", kTwoRuns, g,
       "which kernel of --before (default the first that takes the case)",
       [](Options& o, Text v) { o.before.kernel = v; }},
      {"after-kernel", "NAME", kTwoRuns, g, "which kernel of --after, for an executor that has both",
       [](Options& o, Text v) { o.after.kernel = v; }},
      {"before-layout", "NAME", kTwoRuns, g,
       "normal_mma, normal_wgmma or swap_ab of --before alone (default --layout)",
       [](Options& o, Text v) { o.before.layout = parse_layout(v); }},
      {"after-layout", "NAME", kTwoRuns, g, "the same of --after",
       [](Options& o, Text v) { o.after.layout = parse_layout(v); }},
      {"before-tile", "MxNxK", kTwoRuns, g, "tile of --before alone (default --tile)",
       [](Options& o, Text v) { o.before.tile = parse_checked_tile(v); }},
      {"after-tile", "MxNxK", kTwoRuns, g, "the same of --after",
       [](Options& o, Text v) { o.after.tile = parse_checked_tile(v); }},
      {"before-tile-down", "MxNxK", kTwoRuns, g,
       "the second GEMM's (default --tile-down, else the side's tile)",
       [](Options& o, Text v) { o.before.tile_down = parse_checked_tile(v); }},
      {"after-tile-down", "MxNxK", kTwoRuns, g, "the same of --after",
       [](Options& o, Text v) { o.after.tile_down = parse_checked_tile(v); }},
      {"executor", "NAME", kOneRun, g,
       "emulated (the same kernels on an emulated SM), cuda, reference, or process:CMD, a kernel of yours",
       [](Options& o, Text v) { o.run.executor = parse_executor(v), o.run.executor_given = true; }},
      {"isolate", "", kOneRun, g,
       "run in a worker process, so that a crash or a hang becomes a verdict (always for cuda)",
       [](Options& o, Text) { o.run.isolate = true; }},
      {"infer", "", "check", g,
       "judge to the bit by the Semantics that probes find, also where the kernel declares its own",
       [](Options& o, Text) { o.run.infer = true; }},
      {"semantics", "PRESET", "check infer-semantics", g,
       "whose roundings --executor reference follows: moeproof, vllm-triton, ... (default the built-in "
       "kernels')",
       set_semantics},
      {"trials", "N", "check", g,
       "random cases, proposed from the seed; of --self-test: a seed (default 120)",
       [](Options& o, Text v) { o.run.trials = to_int(v, 1, 1000000); }},
      {"trial-size", "N", "check", g,
       "how far random cases grow: to 2(4+N) tokens and 3+N/4 experts (default 100; of --self-test 48)",
       [](Options& o, Text v) { o.run.trial_size = to_int(v, 4, 400); }},
      {"suite", "NAME|FILE", "check", g,
       "a file of Case lines; corpus (public bug reports, run first by --trials) and large are built in",
       [](Options& o, Text v) { o.run.suite = v; }},
      {"resume", "FILE", "check", g,
       "journal of a long run (--trials, --suite, --self-test): begun where there is none, else gone on with",
       [](Options& o, Text v) { o.run.journal = v; }},
      {"self-test", "PROGRAM", "check", g,
       "prove this harness on build/moeproof_faulty, the built-in kernels with planted faults: who finds "
       "which",
       [](Options& o, Text v) { o.run.self_test = v; }},
      {"fault-seeds", "N", "check", g,
       "seeds of random cases that --self-test tries on each fault (default 20)",
       [](Options& o, Text v) { o.run.self_test_seeds = to_int(v, 1, 10'000); }},
      {"faults", "LIST", "check", g, "the faults that --self-test tries, as M06,P12 (default all)",
       [](Options& o, Text v) { o.run.faults = v; }},
      {"properties", "LIST", "check", g,
       "try what must hold for every correct kernel: all, or P5,P12 of moeproof list properties",
       set_properties},
      {"judge-budget", "N", "check upstream-check", g,
       "multiply-adds to spend on judging one choice (default 2e9)",
       [](Options& o, Text v) { o.run.judge_budget = parse_amount(v); }},
      {"schedules", "N", "check", g,
       "orders of asynchronous completion to try on the emulated SM (default 1)",
       [](Options& o, Text v) { o.run.schedules = to_int(v, 1, 100'000); }},
      {"first-schedule", "I", "check", g, "number of the first one behind the plain order (default 1)",
       [](Options& o, Text v) { o.run.first_schedule = to_int(v, 1, 1'000'000); }},
      {"allow", "VERDICT", "check upstream-check report merge", g,
       "mistrusted: a trial that could prove nothing does not fail the run", set_allow},
      {"samples", "N", "bench upstream-check route", g, "timed launches a case (default 30)",
       [](Options& o, Text v) { o.run.samples = to_int(v, 1, 100000); }},
      {"time-budget", "TIME", kRuns, g,
       "90s, 10m or 2h; cases that did not start by then are not run (exit 4)",
       [](Options& o, Text v) { o.run.time_budget_s = parse_duration(v); }},
      {"case-timeout", "TIME", "check bench infer-semantics upstream-check", g,
       "how long one run in a worker may take (default 5m)",
       [](Options& o, Text v) { o.run.case_time_s = parse_duration(v); }},
      {"require-gpu", "", kOneRun, g,
       "no usable GPU is an error (exit 3), not a skip; implies --executor cuda",
       [](Options& o, Text) { o.run.require_gpu = true; }},
      {"device", "N|all", "check bench", g,
       "which GPU, counted from 0 (default 0); all: random cases and suites use every one",
       [](Options& o, Text v) {
         o.run.all_cards = v == "all";
         if (!o.run.all_cards) o.run.card = to_int(v, 0, 4095);
       }},
      {"jobs", "N", "check", g,
       "of --trials and --suite: so many cases at a time, each in a worker process of its own (default 1)",
       [](Options& o, Text v) { o.run.jobs = to_int(v, 1, 256); }},
      {"fail-on", "LIST", "check bench compare upstream-check report merge", g,
       "words of a verdict that make exit 1, as slow,off,refused",
       [](Options& o, Text v) { o.run.fail_on = parse_fail_on(v); }},
      {"shard", "I/N", "check bench predict upstream-check", g,
       "only every N-th problem, starting at the I-th",
       [](Options& o, Text v) { o.run.shard = parse_shard(v); }},
      {"hardware", "NAME|FILE",
       "check bench predict compare doctor upstream-check tune route calibrate profile service", g,
       "what the model predicts for (default h200; moeproof list hardware)",
       [](Options& o, Text v) { o.hardware = v; }},
      {"why", "", "predict", g,
       "where the time goes, launch by launch, and what the other operand order would change",
       [](Options& o, Text) { o.why = true; }},
      {"against", "FILE", "compare route", g,
       "times that others measured, CSV or CSV.gz: compare scores the model by dense GEMMs, MoE layers or "
       "Triton configs; route routes between kernels as shipped",
       [](Options& o, Text v) { o.against = v; }},
      {"ncu", "FILE", "compare", g,
       "what Nsight Compute counted of the --case (moeproof profile), beside what the model says of its "
       "GEMMs",
       [](Options& o, Text v) { o.ncu = v; }},
      {"concurrency", "N", "service", g, "sequences that decode together (default 64)",
       [](Options& o, Text v) { o.service.concurrency = to_int(v, 1, 65536); }},
      {"context", "N", "service", g, "tokens that each sequence has behind it (default 4096)",
       [](Options& o, Text v) { o.service.context = parse_count(v, 1, 1 << 24); }},
      {"prompt", "N", "service", g, "tokens of a prompt, for the time to its first token (default 2048)",
       [](Options& o, Text v) { o.service.prompt = parse_count(v, 1, 1 << 20); }},
      {"claims", "", "service", g, "three public claims beside what the model says of them",
       [](Options& o, Text) { o.service.claims = true; }},
      {"measure", "", "route", g, "time every path on the card (no usable GPU: exit 3)",
       [](Options& o, Text) { o.measure = true; }},
      {"aot", "", "tune", g,
       "prove that every shape of the deployment (model, --tp, --ep, --tokens) maps to a built kernel",
       [](Options& o, Text) { o.aot = true; }},
      {"family", "NAME", "tune", g, "kernel family that is tuned: triton_fused_moe (default, the only one)",
       [](Options&, Text v) { require_word("family", v, "triton_fused_moe"); }},
      {"space", "NAME", "tune", g, "tiles to rank: vllm (default), the 1,920 of its tuner",
       [](Options&, Text v) { require_word("space", v, "vllm"); }},
      {"device-name", "NAME", "tune", g,
       "device in the table's name (default the --hardware's, as NVIDIA_H200)",
       [](Options& o, Text v) { o.device_name = parse_device_name(v); }},
      {"public", "FILE", "limits", g,
       "CSV of public kernels' times: model, tp, ep, tokens, stage, us, name, kind, read_tb_per_s",
       [](Options& o, Text v) { o.limits.public_times = v; }},
      {"read-bandwidth", "BYTES/S", "limits", g,
       "best read-only stream of the same run, as 4.62e12; counts where it is above 4.57e12",
       [](Options& o, Text v) { o.limits.read_bytes_per_s = parse_amount(v); }},
      {"commit", "TEXT", "limits", g, "what was built, kept in the file",
       [](Options& o, Text v) { o.limits.commit = v; }},
      {"tuned", "DIR|CSV", "compare", g, "tuned tables that the layers of --against ran with",
       [](Options& o, Text v) { o.tuned = v; }},
  };
}

/// "groups=1,heads_per_group=8".
std::vector<std::pair<std::string, std::int64_t>> parse_sizes(const std::string& text) {
  std::vector<std::pair<std::string, std::int64_t>> sizes;
  for (const std::string& item : split(text, ',')) {
    const std::size_t equals = item.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw BadInput(fmt::format("'{}' is no size; write NAME=N or a list of them", item));
    sizes.emplace_back(item.substr(0, equals),
                       parse_count(item.substr(equals + 1), 0, std::int64_t(1) << 40));
  }
  return sizes;
}

std::vector<OptionRow> audit_rows() {
  const char* g = "Audit";
  const char* c = "audit-jit";
  return {
      {"trace", "FILE", c, g, "launches in their order: a CSV with a column tokens (or more columns)",
       [](Options& o, Text v) { o.audit.trace = v; }},
      {"size", "NAME=N", c, g,
       "sizes of the kernel instead of those in its rules, as groups=1,heads_per_group=8",
       [](Options& o, Text v) { o.audit.sizes = parse_sizes(v); }},
      {"cache", "DIR", c, g,
       "a Triton cache folder (~/.triton/cache): what was compiled, and why more than once",
       [](Options& o, Text v) { o.audit.cache = v; }},
      {"log", "FILE", c, g, "a log of vLLM with its JIT monitor's lines (--jit-monitor-verbose tells most)",
       [](Options& o, Text v) { o.audit.log = v; }},
      {"compile-time", "TIME", c, g, "what one compilation costs where you know it, as 0.3s",
       [](Options& o, Text v) { o.audit.compile_s = parse_duration(v); }},
  };
}

std::vector<OptionRow> output_rows() {
  const char* g = "Output ('-' is standard output)";
  return {
      {"json", "FILE",
       "check bench predict compare infer-semantics upstream-check report merge audit-jit tune route lint "
       "limits "
       "service "
       "profile",
       g, "everything, keys in fixed order, times in seconds", [](Options& o, Text v) { o.output.json = v; }},
      {"csv", "FILE", "check bench predict compare upstream-check report merge calibrate profile", g,
       "one row a case; calibrate: all that was measured; profile: what ncu printed",
       [](Options& o, Text v) { o.output.csv = v; }},
      {"junit", "FILE", kReports, g, "for a CI server", [](Options& o, Text v) { o.output.junit = v; }},
      {"markdown", "FILE", kReports, g, "a table for a pull request",
       [](Options& o, Text v) { o.output.markdown = v; }},
      {"html", "FILE", kReports, g, "one self-contained page", [](Options& o, Text v) { o.output.html = v; }},
      {"out", "FILE|DIR", "reference tune calibrate", g,
       "reference: safetensors file for inputs and stage outputs; tune: folder for the table; calibrate: "
       "hardware file",
       [](Options& o, Text v) { o.out = v; }},
      {"quiet", "",
       "check bench predict compare reference infer-semantics upstream-check report merge audit-jit tune "
       "route "
       "lint "
       "limits calibrate "
       "service profile",
       g, "no table and no progress; failures go to stderr", [](Options& o, Text) { o.output.quiet = true; }},
  };
}

}  // namespace

const std::vector<OptionRow>& option_table() {
  static const std::vector<OptionRow> table = [] {
    std::vector<OptionRow> rows = problem_rows();
    for (const auto& more : {choice_rows(), run_rows(), audit_rows(), output_rows()})
      rows.insert(rows.end(), more.begin(), more.end());
    return rows;
  }();
  return table;
}

bool takes(const OptionRow& row, const std::string& command) {
  for (const std::string& word : split(row.commands, ' '))
    if (word == command) return true;
  return false;
}

}  // namespace moe::harness
