#include "harness/isolated_executor.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "fixtures/problem/errors.hpp"
#include "harness/json_codec.hpp"
#include "harness/shared_tensors.hpp"

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;

/// Sends a request; what the worker threw is thrown again here.
Json ask(ChildProcess& child, const Json& request, double seconds) {
  const Json answer = Json::parse(child.ask(request.dump(), seconds), nullptr, false);
  if (answer.is_discarded()) throw MachineFailure("a worker process answered something that is not JSON");
  if (!answer.contains("error")) return answer;
  const auto message = answer.value("message", std::string());
  if (answer["error"] == "bad_input") throw BadInput(message);
  throw MachineFailure(message);
}

/// Inputs that the worker cannot make from the case alone.
TensorSet given_inputs(const TensorSet& inputs) {
  TensorSet given;
  for (const Tensor& t : inputs.all())
    if (!t.generated) given.add(t);
  return given;
}

class IsolatedSession : public device::Session {
 public:
  IsolatedSession(std::shared_ptr<ChildProcess> child, Case resolved, double seconds)
      : child_(std::move(child)), resolved_(std::move(resolved)), seconds_(seconds) {}

  void bind(const TensorSet& inputs) override {
    Json request{{"do", "bind"}};
    request["tensors"] = put_tensors(child_->input_memory(), given_inputs(inputs));
    ask(*child_, request, seconds_);
  }

  device::RunResult run(device::RunMode mode) override {
    const Json answer =
        ask(*child_, {{"do", "run"}, {"mode", mode == device::RunMode::graph ? "graph" : "eager"}}, seconds_);
    device::RunResult result;
    result.outputs = get_tensors(child_->output_memory(), answer.at("tensors"), true);
    result.reports = answer.at("reports").get<std::vector<std::string>>();
    result.counted = answer.contains("counts");
    if (result.counted) result.counts = counts_from_json(answer["counts"]);
    return result;
  }

  Measurement time(const device::TimingPlan& plan) override {
    const Json request{{"do", "time"},
                       {"samples", plan.samples},
                       {"cold", plan.cold},
                       {"graph", plan.mode == device::RunMode::graph},
                       {"per_stage", plan.per_stage},
                       {"time_limit_s", plan.time_limit_s}};
    return measurement_from_json(ask(*child_, request, seconds_ + plan.time_limit_s).at("measurement"));
  }

  Case resolved() const override { return resolved_; }

 private:
  std::shared_ptr<ChildProcess> child_;
  Case resolved_;
  double seconds_;
};

}  // namespace

IsolatedExecutor::IsolatedExecutor(std::unique_ptr<device::Executor> inner, WorkerPlan plan)
    : inner_(std::move(inner)), plan_(std::move(plan)) {}

device::Opened IsolatedExecutor::open(const Case& c) {
  if (child_ == nullptr || !child_->alive())
    child_ = std::make_shared<ChildProcess>(plan_.program, plan_.words);
  const Json answer = ask(*child_, {{"do", "open"}, {"case", to_line(c)}}, plan_.seconds);
  if (answer.contains("refusal")) return {nullptr, answer["refusal"].get<std::string>()};
  const Case resolved = parse_case(answer.at("resolved").get<std::string>());
  return {std::make_unique<IsolatedSession>(child_, resolved, plan_.seconds), ""};
}

}  // namespace moe::harness
