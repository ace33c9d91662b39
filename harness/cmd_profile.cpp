#include <fmt/format.h>

#include <filesystem>
#include <ostream>

#include "device/cuda/probe.hpp"
#include "fixtures/files/hardware_file.hpp"
#include "fixtures/files/read_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "harness/cli.hpp"
#include "harness/expand.hpp"
#include "harness/ncu/ncu_compare.hpp"
#include "harness/ncu/run_ncu.hpp"
#include "harness/reporters.hpp"
#include "harness/run_problem.hpp"
#include "harness/write_file.hpp"
#include "sim/predict.hpp"

namespace moe::harness {
namespace {

std::string pasteable(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

/// Why ncu is not started here; empty: it can be.
std::string why_not() {
  if (device::probe_driver().state != device::DriverProbe::State::ready) return "no usable card here";
  if (find_program("ncu").empty()) return "no ncu among the folders of PATH";
  return {};
}

void report(const std::string& text, const std::string& where, const Case& trial, const Options& o,
            const Streams& s) {
  const Hardware hardware = load_hardware(o.hardware);
  const auto stages = compare_ncu(parse_ncu(text, where), trial, hardware, where);
  if (!o.output.quiet && !reports_to_stdout(o.output)) s.out << ncu_text(stages, to_line(trial));
  if (!o.output.json.empty())
    write_whole(o.output.json, ncu_json(stages, to_line(trial), hardware.name), s.out);
}

/// The one case that the options mean; its kernel is one that this program can launch.
Case one_case(const Options& o) {
  const auto works = expand(o.problem, {});
  if (works.size() != 1 || works[0].choices.size() != 1)
    throw BadInput("profile takes one case: one number of tokens, one load, one layout");
  const Case trial{works[0].problem, works[0].choices[0]};
  if (!trial.choice.kernel.starts_with(sim::kOwnKernel))
    throw BadInput(
        "profile runs the built-in kernels; run ncu on a kernel of yours and give its CSV to compare --ncu");
  return trial;
}

}  // namespace

int cmd_profile(const Options& o, const Streams& s) {
  require_writable(o.output);
  const Case trial = one_case(o);
  if (!o.output.quiet && !reports_to_stdout(o.output))
    s.out << pasteable(ncu_command(s.program, to_line(trial))) << "\n";
  if (const std::string reason = why_not(); !reason.empty()) {
    s.err << fmt::format(
        "profile: not run ({}); run it on a machine with a card, then {} compare --ncu FILE --case {}\n",
        reason, s.program, shell_word(to_line(trial)));
    return 0;
  }
  auto words = ncu_command(std::filesystem::read_symlink("/proc/self/exe").string(), to_line(trial));
  words[0] = find_program("ncu");
  const std::string text = output_of(words);
  if (!o.output.csv.empty()) write_whole(o.output.csv, text, s.out);
  report(text, "ncu", trial, o, s);
  return 0;
}

int cmd_ncu(const Options& o, const Streams& s) {
  if (!o.problem.replay)
    throw BadInput("--ncu needs the case that was counted: --case 'op=... layout=... tile=...'");
  if (!o.words.empty() || !o.tuned.empty())
    throw BadInput("--ncu compares one file by itself; leave reports and --tuned away");
  for (const std::string* path : {&o.output.junit, &o.output.markdown, &o.output.html, &o.output.csv})
    if (!path->empty()) throw BadInput("--ncu writes --json; the other reports hold cases");
  if (!o.run.fail_on.empty()) throw BadInput("--fail-on belongs to a bench report, not to --ncu");
  require_writable(o.output);
  report(read_file(o.ncu), o.ncu, *o.problem.replay, o, s);
  return 0;
}

}  // namespace moe::harness
