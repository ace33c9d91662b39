#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/files/models.hpp"
#include "fixtures/problem/errors.hpp"
#include "harness/cli.hpp"
#include "harness/expand.hpp"
#include "harness/reporters.hpp"
#include "harness/service/claims.hpp"
#include "harness/write_file.hpp"

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const sim::Range& r) { return {{"least", r.least}, {"middle", r.middle}, {"most", r.most}}; }

Json json_of(const Serving& s) {
  Json j;
  j["model"] = s.model;
  j["assumptions"] = s.assumptions;
  j["moe_layer_seconds"] = json_of(s.moe_layer);
  j["step_seconds"] = json_of(s.decode.total);
  j["moe_share"] = json_of(s.decode.share);
  j["tokens_per_s"] = json_of(s.tokens_per_s);
  j["first_token_seconds"] = json_of(s.first_token);
  return j;
}

Json json_of(const Claim& c) {
  return {{"claim", c.text},
          {"claimed", {{"least", c.claimed_least}, {"most", c.claimed_most}}},
          {"predicted", json_of(c.predicted)},
          {"verdict", c.verdict},
          {"assumptions", c.assumptions}};
}

std::string model_name(const Options& o) {
  if (o.problem.model.empty()) throw BadInput("service needs --model, or --claims");
  const std::string name = find_model(o.problem.model).name;
  if (sim::find_service_model(name)) return name;
  std::string known;
  for (const sim::ServiceModel& m : sim::service_models())
    known += (known.empty() ? "" : ", ") + std::string(m.name);
  throw BadInput(fmt::format("the other layers of '{}' are not known; known are those of {}", name, known));
}

}  // namespace

int cmd_service(const Options& o, const Streams& s) {
  require_writable(o.output);
  const Hardware hardware = load_hardware(o.hardware);
  Json j;
  j["schema"] = 1;
  j["tool"] = {
      {"name", "moeproof"}, {"version", tool_version()}, {"command", "service"}, {"hardware", hardware.name}};
  std::string text;
  if (o.service.claims) {
    const auto claims = public_claims(hardware);
    text = claims_text(claims);
    for (const Claim& c : claims) j["claims"].push_back(json_of(c));
  } else {
    const std::string name = model_name(o);
    const Serving serving = serve(name, base_problem(o.problem), o.problem.choice, o.service, hardware, {});
    text = serving_text(serving);
    j["service"] = json_of(serving);
  }
  if (!o.output.quiet && !reports_to_stdout(o.output)) s.out << text;
  if (!o.output.json.empty())
    write_whole(o.output.json, j.dump(1, ' ', false, Json::error_handler_t::replace) + "\n", s.out);
  return 0;
}

}  // namespace moe::harness
