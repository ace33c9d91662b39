#include "harness/isolated_executor.hpp"

#include <nlohmann/json.hpp>

#include "harness/worker_protocol.hpp"
#include "harness/worker_session.hpp"

namespace moe::harness {

IsolatedExecutor::IsolatedExecutor(std::unique_ptr<device::Executor> inner, WorkerPlan plan)
    : inner_(std::move(inner)), plan_(std::move(plan)) {}

device::Opened IsolatedExecutor::open(const Case& c) {
  if (child_ == nullptr || !child_->alive())
    child_ = std::make_shared<ChildProcess>(plan_.program, plan_.words, true);
  try {
    const auto answer =
        ask_worker(*child_, {{"do", "open"}, {"case", to_line(c)}}, plan_.seconds, Trust::own);
    const Case resolved = parse_case(answer.at("resolved").get<std::string>());
    return {make_worker_session(child_, resolved, {plan_.seconds, Trust::own, {}}), ""};
  } catch (const WorkerRefused& refused) {
    return {nullptr, refused.what()};
  }
}

}  // namespace moe::harness
