#include "harness/options.hpp"

#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <filesystem>
#include <map>
#include <set>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/option_table.hpp"
#include "harness/process_executor.hpp"

namespace moe::harness {
namespace {

namespace po = boost::program_options;

/// Given names, in the table's order; empty value for a switch.
using Given = std::map<std::string, std::string>;

std::vector<const OptionRow*> rows_of(const Command& command) {
  std::vector<const OptionRow*> rows;
  for (const OptionRow& row : option_table())
    if (takes(row, command.name)) rows.push_back(&row);
  return rows;
}

std::string unknown_option(const Command& command, std::string written) {
  written = written.substr(0, written.find('='));
  const std::string bare = written.substr(std::min(written.find_first_not_of('-'), written.size()));
  std::vector<std::string_view> names;
  for (const OptionRow* row : rows_of(command)) names.push_back(row->name);
  for (const OptionRow& row : option_table())
    if (row.name == bare)
      return fmt::format("--{} does not belong to {} (it is for: {})", bare, command.name, row.commands);
  return fmt::format("unknown option {}{}; see moeproof {} --help", written, hint(bare, names), command.name);
}

/// One parse of all words: long options only, no abbreviations, each at most once, the rest are words.
Given parse_words(const Command& command, const std::vector<std::string>& words,
                  std::vector<std::string>& rest) {
  po::options_description known;
  for (const OptionRow* row : rows_of(command)) {
    if (row->value.empty())
      known.add_options()(row->name.c_str(), po::bool_switch());
    else
      known.add_options()(row->name.c_str(), po::value<std::string>());
  }
  known.add_options()("words", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("words", -1);
  using Style = po::command_line_style::style_t;
  const int style = Style::allow_long | Style::long_allow_adjacent | Style::long_allow_next;
  const po::parsed_options parsed =
      po::command_line_parser(words).options(known).positional(positional).style(style).run();
  Given given;
  for (const auto& option : parsed.options) {
    if (option.string_key == "words") {
      rest.insert(rest.end(), option.value.begin(), option.value.end());
      continue;
    }
    if (given.count(option.string_key)) throw BadInput(fmt::format("--{} is given twice", option.string_key));
    given[option.string_key] = option.value.empty() ? "" : option.value.front();
  }
  return given;
}

Given parse_or_explain(const Command& command, const std::vector<std::string>& words,
                       std::vector<std::string>& rest) {
  try {
    return parse_words(command, words, rest);
  } catch (const po::unknown_option& e) {
    throw BadInput(unknown_option(command, e.get_option_name()));
  } catch (const po::invalid_command_line_syntax& e) {
    if (e.kind() == po::invalid_syntax::extra_parameter)
      throw BadInput(fmt::format("{} takes no value", e.get_option_name()));
    throw BadInput(
        fmt::format("{} needs a value; see moeproof {} --help", e.get_option_name(), command.name));
  } catch (const po::error& e) {
    throw BadInput(fmt::format("{}; see moeproof {} --help", e.what(), command.name));
  }
}

void refuse_together(const Given& given, const std::string& one, const std::string& other, const char* why) {
  if (given.count(one) && given.count(other))
    throw BadInput(fmt::format("--{} and --{} contradict each other: {}", one, other, why));
}

/// --case holds the whole problem and choice; any option of those groups beside it would contradict it.
void check_replay(const Given& given) {
  for (const OptionRow& row : option_table()) {
    if ((row.group == "Problem" || row.group == "Choice") && row.name != "case")
      refuse_together(given, "case", row.name, "the line already says it");
  }
  refuse_together(given, "case", "trials", "one case or random cases");
  refuse_together(given, "case", "suite", "one case or a file of them");
}

void check_files(const Given& given, Options& o) {
  const bool files = given.count("weights") || given.count("activations");
  if (files && !given.count("data")) o.problem.data = {DataMode::file};
  for (const DataMode mode : o.problem.data) {
    if (files && mode != DataMode::file)
      throw BadInput(fmt::format("--data {} and --{} contradict each other: files are read under --data file",
                                 name(mode), given.count("weights") ? "weights" : "activations"));
    if (!files && mode == DataMode::file)
      throw BadInput("--data file needs --weights DIR or --activations FILE");
  }
  if (given.count("layer") && !given.count("weights")) throw BadInput("--layer needs --weights DIR");
}

bool runs_a_process(const Options& o) {
  for (const std::string* executor : {&o.run.executor, &o.before.executor, &o.after.executor})
    if (executor->starts_with(kProcessPrefix)) return true;
  return false;
}

void check_op(const Given& given, Options& o) {
  // What a process's only kernel is for is filled in later; contract and gemm say the op.
  if (runs_a_process(o) && !o.problem.op_given && (given.count("contract") || given.count("gemm"))) {
    o.problem.op = Op::grouped_gemm;
    o.problem.op_given = true;
  }
  for (const char* only : {"gemm", "contract"}) {
    if (given.count(only) && o.problem.op != Op::grouped_gemm)
      throw BadInput(fmt::format("--{} belongs to --op grouped_gemm, not to {}", only, name(o.problem.op)));
  }
  for (const char* only : {"heads", "head-groups"})
    if (given.count(only) && o.problem.op != Op::inv_rope_quant)
      throw BadInput(fmt::format("--{} belongs to --op inv_rope_quant, not to {}", only, name(o.problem.op)));
  if (given.count("tile-down") && o.problem.op != Op::moe_layer)
    throw BadInput(fmt::format("--tile-down belongs to --op moe_layer, not to {}", name(o.problem.op)));
}

void check_fail_on(const Options& o) {
  for (const char* word : {"differs", "unexplained"})
    for (const std::string& asked : o.run.fail_on)
      if (asked == word && o.command != "upstream-check")
        throw BadInput(fmt::format("--fail-on {} belongs to upstream-check, not to {}", word, o.command));
}

void check_sides(const Given& given, const Options& o) {
  for (const char* needed : {"before", "after"})
    if (!given.count(needed))
      throw BadInput(fmt::format(
          "upstream-check needs --{0}: the executor of the kernel {0} the change, as process:COMMAND",
          needed));
  if (o.before == o.after)
    throw BadInput(
        "--before and --after are the same kernel; name --before-kernel and --after-kernel, or "
        "--before-layout and --after-layout");
  const bool several = o.problem.layout == LayoutRequest::both || o.problem.layout == LayoutRequest::all;
  for (const char* one : {"before-layout", "after-layout"})
    if (several && given.count(one))
      throw BadInput(fmt::format(
          "--layout {0} and --{1} contradict each other: {0} gives each side several layouts, --{1} one",
          given.at("layout"), one));
}

void check_audit(const Given& given) {
  int sources = 0;
  for (const char* source : {"kernel", "cache", "log"}) sources += int(given.count(source));
  if (sources != 1)
    throw BadInput(
        "audit-jit needs one of --kernel NAME (with --trace FILE or --tokens LIST), --cache DIR, --log FILE");
  if (given.count("kernel") && given.count("trace") == given.count("tokens"))
    throw BadInput("audit-jit --kernel needs its launches: --trace FILE or --tokens LIST");
  for (const char* only : {"trace", "tokens", "size"})
    if (given.count(only) && !given.count("kernel"))
      throw BadInput(
          fmt::format("--{} belongs to audit-jit --kernel: a cache or a log says what was compiled", only));
}

/// Runs of many cases: random ones, a file's, a self-test's.
void check_many(const Given& given) {
  const bool self_test = given.count("self-test") > 0;
  if (given.count("resume") && !given.count("trials") && !given.count("suite") && !self_test)
    throw BadInput("--resume belongs to long runs: --trials N, --suite FILE or --self-test PROGRAM");
  const bool cases = given.count("trials") > 0 || given.count("suite") > 0;
  if (given.count("jobs") && !cases)
    throw BadInput("--jobs belongs to runs of many cases: --trials N or --suite FILE");
  for (const char* only : {"fault-seeds", "faults"})
    if (given.count(only) && !self_test)
      throw BadInput(fmt::format("--{} belongs to --self-test PROGRAM", only));
  for (const char* other : {"suite", "case", "executor", "isolate", "properties"})
    refuse_together(given, "self-test", other, "it chooses cases and kernels itself");
  for (const char* other : {"csv", "junit", "html"})
    refuse_together(given, "self-test", other, "its reports are --json and --markdown");
  refuse_together(given, "trials", "suite", "random cases begin with the corpus; a suite is run by itself");
  for (const char* other :
       {"model", "tokens", "load", "hidden", "intermediate", "experts", "top-k", "tp", "ep", "rank", "op",
        "quant", "data", "tile", "tile-down", "layout", "kernel", "weights", "activations"})
    refuse_together(given, "suite", other, "each line says it");
  for (const char* other :
       {"model", "tokens", "load", "hidden", "intermediate", "experts", "top-k", "tp", "ep", "rank"})
    refuse_together(given, "trials", other, "random cases choose it themselves");
}

void check_run(const Given& given, Options& o) {
  if (o.run.require_gpu) {
    if (o.run.executor_given && o.run.executor != "cuda")
      throw BadInput(fmt::format(
          "--require-gpu and --executor {} contradict each other: only cuda uses a GPU", o.run.executor));
    o.run.executor = "cuda";
  }
  for (const char* one : {"schedules", "first-schedule"})
    if (given.count(one) && o.run.executor != "emulated")
      throw BadInput(fmt::format("--{} belongs to --executor emulated, not to {}", one, o.run.executor));
  if (given.count("device") && o.run.executor != "cuda")
    throw BadInput(fmt::format("--device belongs to --executor cuda, not to {}", o.run.executor));
  if (o.run.all_cards && !given.count("trials") && !given.count("suite"))
    throw BadInput("--device all belongs to runs of many cases: --trials N or --suite FILE");
  if (given.count("first-schedule") && o.run.schedules < 2)
    throw BadInput("--first-schedule needs --schedules 2 or more: the first one is always the plain order");
  if (given.count("semantics") && o.run.executor != "reference")
    throw BadInput(
        fmt::format("--semantics belongs to --executor reference, not to {}: a kernel rounds as it does",
                    o.run.executor));
  const bool process = o.run.executor.starts_with(kProcessPrefix);
  const bool sides = o.command == "upstream-check";  // which isolates what needs it
  if (given.count("case-timeout") && !sides && !o.run.isolate && !process && o.run.self_test.empty() &&
      o.run.executor != "cuda")
    throw BadInput("--case-timeout needs a worker process: add --isolate");
}

/// The file behind `path`, however it is written; empty for what may be written twice (standard output, a
/// device).
std::string file_behind(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (path.empty() || path == "-" || fs::is_character_file(path, ignored)) return "";
  const fs::path real = fs::weakly_canonical(fs::absolute(path, ignored), ignored);
  return real.empty() ? path : real.string();
}

void check_outputs(const OutputOptions& output) {
  int to_stdout = 0;
  std::set<std::string> paths;
  for (const std::string* path : {&output.json, &output.csv, &output.junit, &output.markdown, &output.html}) {
    to_stdout += *path == "-";
    const std::string file = file_behind(*path);
    if (!file.empty() && !paths.insert(file).second)
      throw BadInput(fmt::format("two reports would go to the same file '{}'", *path));
  }
  if (to_stdout > 1) throw BadInput("only one report can go to standard output ('-')");
}

void check_words(const Command& command, const std::vector<std::string>& words) {
  if (words.size() <= command.most_words) return;
  const std::string& extra = words[command.most_words];
  throw BadInput(fmt::format("unexpected word '{}'; {} takes {}", extra, command.name,
                             command.most_words == 0 ? std::string("only options") : command.words));
}

}  // namespace

Options parse_options(const Command& command, const std::vector<std::string>& words) {
  Options o;
  o.command = command.name;
  const Given given = parse_or_explain(command, words, o.words);
  check_words(command, o.words);
  for (const OptionRow* row : rows_of(command)) {
    const auto value = given.find(row->name);
    if (value == given.end()) continue;
    if (value->second.empty() && !row->value.empty())
      throw BadInput(
          fmt::format("--{} is given an empty value; write --{} {}", row->name, row->name, row->value));
    try {
      row->set(o, value->second);
    } catch (const BadInput& e) {
      throw BadInput(fmt::format("--{}: {}", row->name, e.what()));
    }
  }
  if (given.count("case")) check_replay(given);
  check_files(given, o);
  if (!given.count("case")) check_op(given, o);
  check_run(given, o);
  check_many(given);
  check_fail_on(o);
  if (o.command == "upstream-check") check_sides(given, o);
  if (o.command == "audit-jit") check_audit(given);
  check_outputs(o.output);
  return o;
}

}  // namespace moe::harness
