#include <fmt/format.h>

#include <algorithm>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/generate.hpp"
#include "harness/service/claims.hpp"
#include "harness/units.hpp"
#include "sim/predict.hpp"

namespace moe::harness {
namespace {

sim::Range layer_range(Problem layer, std::int64_t tokens, const Choice& choice, const Hardware& hardware) {
  layer.shape.tokens = tokens;
  const Prediction p = sim::predict(layer, choice, hardware, routing_of(layer));
  return {p.seconds * std::max(1 - p.uncertainty, 0.0), p.seconds, p.seconds * (1 + p.uncertainty)};
}

std::string range_text(const sim::Range& r) {
  return fmt::format("{} to {}", seconds_text(r.least), seconds_text(r.most));
}

std::string bytes_an_element(const sim::Range& r) {
  return r.least == r.most ? fmt::format("{:.0f} byte", r.most)
                           : fmt::format("{:.0f} to {:.0f} bytes", r.least, r.most);
}

std::vector<std::string> words_of(const sim::ServiceAssumptions& a, const sim::ServiceModel& m, int tp) {
  std::vector<std::string> words = {
      fmt::format("other layers' sizes: {}", m.source),
      fmt::format("their weights {} an element, at {:.0f} to {:.0f} % of the card's rates",
                  bytes_an_element(a.weight_bytes), 100 * a.efficiency.least, 100 * a.efficiency.most),
      fmt::format("{:.0f} to {:.0f} launches a layer beside its MoE, nodes of a graph", a.kernels.least,
                  a.kernels.most),
      fmt::format("{} a step on the host that no kernel hides", range_text(a.host))};
  if (tp > 1)
    words.push_back(fmt::format("all-reduce: {}, then {:.0f} to {:.0f} GB/s (NVLink's 450 in one direction)",
                                range_text(a.all_reduce_latency), a.nvlink.least / 1e9, a.nvlink.most / 1e9));
  if (a.eager.most > 0)
    words.push_back(fmt::format("a prompt's step is no graph: {} a launch more", range_text(a.eager)));
  return words;
}

}  // namespace

Serving serve(const std::string& name, const Problem& layer, const Choice& choice,
              const ServiceOptions& service, const Hardware& hardware,
              const sim::ServiceAssumptions& assumptions) {
  const sim::ServiceModel* model = sim::find_service_model(name);
  if (!model) throw BadInput(fmt::format("the layers beside the MoE of '{}' are not known", name));
  if (layer.shape.ep != 1) throw BadInput("service knows tensor parallelism only; leave --ep at 1");
  const double sequences = service.concurrency;
  sim::ServiceAssumptions decode = assumptions;
  decode.eager = {};
  Serving s;
  s.model = name;
  s.assumptions = words_of(assumptions, *model, layer.shape.tp);
  s.moe_layer = layer_range(layer, service.concurrency, choice, hardware);
  s.decode = step_time(*model, {sequences, 1, double(service.context), layer.shape.tp}, s.moe_layer, hardware,
                       decode);
  const sim::Range prompt_layer = layer_range(layer, service.prompt, choice, hardware);
  s.prefill =
      step_time(*model, {1, double(service.prompt), 0, layer.shape.tp}, prompt_layer, hardware, assumptions);
  s.tokens_per_s = {sequences / s.decode.total.most, sequences / s.decode.total.middle,
                    sequences / s.decode.total.least};
  // a prompt arrives while a step runs: it waits for none to all of it
  s.first_token = {s.prefill.total.least, s.prefill.total.middle + s.decode.total.middle / 2,
                   s.prefill.total.most + s.decode.total.most};
  return s;
}

std::string serving_text(const Serving& s) {
  std::string text = fmt::format("{}\n", s.model);
  const auto line = [&](const char* name, const sim::Range& r) {
    text += fmt::format("  {:<28}{:>12}{:>12}{:>12}\n", name, seconds_text(r.least), seconds_text(r.middle),
                        seconds_text(r.most));
  };
  text += fmt::format("  {:<28}{:>12}{:>12}{:>12}\n", "a decoding step", "least", "middle", "most");
  line("routed MoE layers", s.decode.moe);
  line("attention", s.decode.attention);
  line("dense and shared experts", s.decode.dense);
  if (s.decode.other.most > 0) line("recurrent layers", s.decode.other);
  line("head", s.decode.head);
  line("all-reduce", s.decode.all_reduce);
  line("host", s.decode.host);
  line("step", s.decode.total);
  text += fmt::format("  {:<28}{:>11.0f} %{:>10.0f} %{:>10.0f} %\n", "share of the MoE",
                      100 * s.decode.share.least, 100 * s.decode.share.middle, 100 * s.decode.share.most);
  text += fmt::format("  {:<28}{:>12.0f}{:>12.0f}{:>12.0f}\n", "tokens a second", s.tokens_per_s.least,
                      s.tokens_per_s.middle, s.tokens_per_s.most);
  line("time to first token", s.first_token);
  text += "  assumed:\n";
  for (const std::string& word : s.assumptions) text += "    " + word + "\n";
  return text;
}

}  // namespace moe::harness
