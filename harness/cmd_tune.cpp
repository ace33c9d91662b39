#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/parallel.hpp"
#include "harness/cli.hpp"
#include "harness/expand.hpp"
#include "harness/record.hpp"
#include "harness/reporters.hpp"
#include "harness/tuned/rank.hpp"
#include "harness/units.hpp"
#include "harness/write_file.hpp"

namespace moe::harness {
namespace {

/// A folder for the table; one that is there is fine.
void make_folder(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  if (failed)
    throw BadInput(fmt::format("--out {}: no folder can be made there: {}", path, failed.message()));
}

using Json = nlohmann::ordered_json;

constexpr std::size_t kShown = 4;  // tiles to measure first

struct Batch {
  std::int64_t tokens = 0;
  std::vector<Ranked> best;  // the first few
  std::size_t ranked = 0;
  double standard = 0;  // seconds of the framework's default tile
};

Batch tune(const BatchLoads& loads, std::int64_t tokens, const std::vector<TileConfig>& space,
           const Hardware& hardware) {
  const Problem p = loads.problem(tokens);
  Batch batch;
  batch.tokens = tokens;
  batch.best = rank_tiles(p, loads.at(tokens), space, hardware);
  batch.ranked = batch.best.size();
  batch.best.resize(std::min(batch.best.size(), kShown));
  const TileConfig standard = vllm_default_tile(tokens, p.shape.local_experts(), p.quant.block(), true);
  batch.standard = layer_seconds(p, loads.at(tokens), effective_tile(standard, table_name(p, "")), hardware);
  return batch;
}

std::string text_of(const std::vector<Batch>& batches, const TunedTable& table, std::size_t space) {
  std::string text =
      fmt::format("{}\n{} tiles a batch, fastest by prediction\n\n{:>7}  {:<28}{:>10}{:>10}{:>8}\n",
                  to_file_name(table.name), space, "batch", "tile", "layer", "default", "gain");
  for (const Batch& b : batches)
    text += fmt::format("{:>7}  {:<28}{:>10}{:>10}{:>+7.1f}%\n", b.tokens, to_string(b.best[0].tile),
                        seconds_text(b.best[0].seconds), seconds_text(b.standard),
                        100 * (b.standard / b.best[0].seconds - 1));
  return text;
}

Json json_of(const std::vector<Batch>& batches, const TunedTable& table, const Hardware& hardware) {
  Json j;
  j["schema"] = 1;
  j["tool"] = {
      {"name", "moeproof"}, {"version", tool_version()}, {"command", "tune"}, {"hardware", hardware.name}};
  j["tune"]["file"] = to_file_name(table.name);
  for (const Batch& b : batches) {
    Json tiles = Json::array();
    for (const Ranked& r : b.best) tiles.push_back({{"tile", to_string(r.tile)}, {"seconds", r.seconds}});
    j["tune"]["batches"].push_back(
        {{"tokens", b.tokens}, {"ranked", b.ranked}, {"default_seconds", b.standard}, {"best", tiles}});
  }
  return j;
}

std::vector<std::int64_t> batches_of(const Options& o) {
  if (!o.problem.tokens_given) return {usual_batches().begin(), usual_batches().end()};
  for (const std::int64_t tokens : o.problem.tokens)
    if (tokens < 1) throw BadInput("--tokens: a table has batches of 1 token and more");
  return o.problem.tokens;
}

}  // namespace

int cmd_tune(const Options& o, const Streams& s) {
  require_writable(o.output);
  if (!o.out.empty()) make_folder(o.out);
  Problem layer = base_problem(o.problem);
  layer.routing.load = o.problem.loads.at(0);
  validate(layer);
  const Hardware hardware = load_hardware(o.hardware);
  const std::vector<TileConfig> space = vllm_space();
  const std::vector<std::int64_t> tokens = batches_of(o);
  BatchLoads loads(layer);
  loads.draw(tokens);
  std::vector<Batch> batches(tokens.size());
  parallel(std::int64_t(tokens.size()), 0, [&](std::int64_t i) {
    const std::size_t at = tokens.size() - 1 - std::size_t(i);  // the longest first
    batches[at] = tune(loads, tokens[at], space, hardware);
  });
  TunedTable table;
  table.name = table_name(layer, o.device_name.empty() ? device_name(hardware) : o.device_name);
  for (const Batch& b : batches) table.entries.push_back({b.tokens, b.best.at(0).tile, {}});
  if (!o.output.quiet && !reports_to_stdout(o.output)) s.out << text_of(batches, table, space.size());
  if (!o.output.json.empty())
    write_whole(o.output.json,
                json_of(batches, table, hardware).dump(1, ' ', false, Json::error_handler_t::replace) + "\n",
                s.out);
  if (!o.out.empty())
    write_whole((std::filesystem::path(o.out) / to_file_name(table.name)).string(), to_json(table), s.out);
  return 0;
}

}  // namespace moe::harness
