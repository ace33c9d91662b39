#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/aot/coverage.hpp"
#include "harness/cli.hpp"
#include "harness/exit_code.hpp"
#include "harness/expand.hpp"
#include "harness/record.hpp"
#include "harness/reporters.hpp"
#include "harness/route/points.hpp"
#include "harness/units.hpp"
#include "harness/write_file.hpp"

namespace moe::harness {
namespace {

/// Paths and layouts of the built-in layer; rows fetched one by one are built for wgmma alone.
std::vector<PathCoverage> cover_all(const Problem& layer, const std::vector<std::int64_t>& tokens) {
  std::vector<PathCoverage> all;
  for (const auto& [backend, kernel] : path_backends())
    for (const Layout layout : {Layout::normal_mma, Layout::normal_wgmma, Layout::swap_ab})
      if (backend != "fused" || layout != Layout::normal_mma)
        all.push_back(cover(layer, tokens, kernel, layout));
  return all;
}

std::string deployment_text(const Problem& p, const std::vector<std::int64_t>& tokens) {
  const MoeShape& s = p.shape;
  const std::string model =
      p.model.empty() ? fmt::format("E {} top {} H {} I {}", s.experts, s.top_k, s.hidden, s.intermediate)
                      : p.model;
  return fmt::format("{} tp {} ep {}, {}, {} token counts from {} to {}", model, s.tp, s.ep,
                     name(p.quant.kind), count_text(std::int64_t(tokens.size())), tokens.front(),
                     tokens.back());
}

std::string text_of(const std::vector<PathCoverage>& all, const std::string& deployment) {
  std::string text = fmt::format("tune --aot  {}\n", deployment);
  std::set<std::string> variants;
  std::int64_t shapes = 0;
  bool covered = true;
  for (const PathCoverage& p : all) {
    text += fmt::format("  {:<18}{:<14}", p.kernel, name(p.layout));
    if (p.covered())
      text +=
          fmt::format("{:>9} shapes -> {:>2} compiled kernels\n", count_text(p.shapes), p.variants.size());
    else
      text +=
          fmt::format("outside: {}\n    nearest inside: {}\n    {}\n", one_line(p.outside->reason),
                      p.outside->nearest.empty() ? "none" : p.outside->nearest, to_line(p.outside->shape));
    variants.insert(p.variants.begin(), p.variants.end());
    shapes += p.shapes;
    covered = covered && p.covered();
  }
  if (covered)
    text += fmt::format(
        "covered: {} shapes under every routing map to {} kernels of this binary; none is "
        "compiled at run time\n",
        count_text(shapes), variants.size());
  return text;
}

std::string json_of(const std::vector<PathCoverage>& all, const std::string& deployment) {
  nlohmann::ordered_json j;
  j["schema"] = 1;
  j["tool"] = {{"name", "moeproof"}, {"version", tool_version()}, {"command", "tune"}};
  auto& aot = j["aot"];
  aot["deployment"] = deployment;
  aot["covered"] = std::ranges::all_of(all, [](const PathCoverage& p) { return p.covered(); });
  for (const PathCoverage& p : all) {
    nlohmann::ordered_json path{
        {"kernel", p.kernel}, {"layout", name(p.layout)}, {"shapes", p.shapes}, {"variants", p.variants}};
    if (!p.covered())
      path["outside"] = {{"case", to_line(p.outside->shape)},
                         {"reason", one_line(p.outside->reason)},
                         {"nearest", p.outside->nearest}};
    aot["paths"].push_back(path);
  }
  return j.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

int cmd_aot(const Options& o, const Streams& s) {
  if (!o.out.empty() || !o.device_name.empty())
    throw BadInput("--aot writes no table: leave --out and --device-name away");
  if (!o.problem.tokens_given)
    throw BadInput("--aot needs the deployment's token counts, as --tokens 1:4096");
  require_writable(o.output);
  const Problem layer = base_problem(o.problem);
  std::vector<std::int64_t> tokens = o.problem.tokens;
  std::sort(tokens.begin(), tokens.end());
  const std::vector<PathCoverage> all = cover_all(layer, tokens);
  const std::string deployment = deployment_text(layer, tokens);
  if (!o.output.quiet && !reports_to_stdout(o.output)) s.out << text_of(all, deployment);
  if (!o.output.json.empty()) write_whole(o.output.json, json_of(all, deployment), s.out);
  const bool covered = std::ranges::all_of(all, [](const PathCoverage& p) { return p.covered(); });
  return int(covered ? ExitCode::passed : ExitCode::failed);
}

}  // namespace moe::harness
