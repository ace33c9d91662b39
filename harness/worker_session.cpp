#include "harness/worker_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/due_outputs.hpp"
#include "harness/json_codec.hpp"
#include "harness/tensor_file.hpp"
#include "harness/worker_protocol.hpp"
#include "reference/operands.hpp"

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a.bytes() == 0) return true;
  if (a.filled_groups.empty()) return std::memcmp(a.data(), b.data(), a.bytes()) == 0;
  const std::size_t group = a.bytes() / a.filled_groups.size();
  for (std::size_t g = 0; g < a.filled_groups.size(); ++g)
    if (a.filled_groups[g] && std::memcmp(a.data() + g * group, b.data() + g * group, group) != 0)
      return false;
  return true;
}

Tensor tensor_of(const char* name, DType type, const std::vector<std::int64_t>& shape, const void* bytes) {
  Tensor t(name, type, shape);
  if (!t.empty()) std::memcpy(t.data(), bytes, t.bytes());
  return t;
}

/// Bytes that a foreign worker's own file of outputs may have: this many times what is due, and this much.
constexpr std::size_t kFileTimes = 8, kFileSlack = std::size_t(64) << 20;
/// Reports of one run that are kept, and their characters.
constexpr std::size_t kMostReports = 16, kLongestReport = 500;

/// Generated weights are copied to a worker of this program up to so many bytes: drawing them there again
/// takes several times as long, and needs the routing again.
constexpr std::size_t kCopiedUpTo = std::size_t(16) << 20;

/// Runs whose outputs stay in memory, so that a write behind the answer is seen later, and
/// the most bytes of one.
constexpr std::size_t kWatchedRuns = 2, kMostWatched = std::size_t(256) << 20;

/// A number that tells contents apart but for a chance of 2^-64; eight bytes at a time, so that it costs no
/// more than a copy.
std::uint64_t content_sum(const std::byte* bytes, std::size_t size) {
  std::uint64_t sum = size;
  for (std::size_t at = 0; at < size; at += sizeof sum) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, std::min(sizeof word, size - at));
    sum = (sum ^ word) * 0x9E3779B97F4A7C15ull;  // 2^64 / golden ratio, odd: no two words give one product
    sum ^= sum >> 32;
  }
  return sum;
}

/// The outputs of a run as they were when its answer was read.
struct Shown {
  TensorFile file;
  std::vector<std::uint64_t> sums;  // of its tensors
};

class WorkerSession : public device::Session {
 public:
  WorkerSession(std::shared_ptr<ChildProcess> child, Case resolved, WorkerManners manners)
      : child_(std::move(child)), case_(std::move(resolved)), manners_(std::move(manners)) {}

  void bind(const TensorSet& inputs) override;
  device::RunResult run(device::RunMode mode) override;
  Measurement time(const device::TimingPlan& plan) override;
  Case resolved() const override { return case_; }
  std::string late_write() const;

 private:
  TensorSet given_inputs() const;
  void add_routing(TensorSet& set) const;
  TensorSet like_outputs() const;
  void own_file(const std::string& path, device::RunResult& result) const;
  void clear_unowned_rows(TensorSet& outputs) const;
  void report_changes(device::RunResult& result) const;
  void watch(TensorFile file, const TensorSet& as_read);
  std::string late_output() const;
  Json ask_run(const Json& request);

  std::shared_ptr<ChildProcess> child_;
  Case case_;
  WorkerManners manners_;
  bool ran_ = false;
  bool own() const { return manners_.trust == Trust::own; }

  TensorSet inputs_, given_;          // given_: what a foreign worker was shown, as it was
  std::optional<TensorFile> shared_;  // the inputs as the worker sees them
  std::vector<Shown> shown_;          // the outputs of the last runs of a foreign worker
};

/// The routing that the harness works out: a layer kernel may take it instead of the logits.
void WorkerSession::add_routing(TensorSet& set) const {
  const Routing routing = routing_of(case_.problem);
  const std::vector<std::int64_t> shape{routing.tokens, routing.top_k};
  set.add(tensor_of("topk_ids", DType::i32, shape, routing.ids.data()));
  set.add(tensor_of("topk_weights", DType::f32, shape, routing.weights.data()));
}

/// All, or of large ones those that a worker of this program cannot make from the case alone.
TensorSet WorkerSession::given_inputs() const {
  std::size_t drawn = 0;
  for (const Tensor& t : inputs_.all()) drawn += t.generated ? t.bytes() : 0;
  TensorSet given;
  for (const Tensor& t : inputs_.all())
    if (!own() || !t.generated || drawn <= kCopiedUpTo) given.add(t);
  if (!own() && case_.problem.op == Op::moe_layer && !given.has("topk_ids")) add_routing(given);
  return given;
}

void WorkerSession::bind(const TensorSet& inputs) {
  inputs_ = inputs;
  const TensorSet given = given_inputs();
  const bool complete = given.all().size() >= inputs.all().size();  // nothing is left to draw
  if (!own()) given_ = given;
  shared_.emplace(TensorFile::of(given));
  ask_worker(*child_, {{"do", "bind"}, {"inputs", shared_->path()}, {"complete", complete}}, manners_.seconds,
             manners_.trust);
}

TensorSet WorkerSession::like_outputs() const {
  TensorSet like;
  const auto& wanted = manners_.outputs;
  for (const DueTensor& due : all_due_outputs(case_, inputs_))
    if (case_.problem.op != Op::moe_layer ||
        std::find(wanted.begin(), wanted.end(), due.name) != wanted.end())
      like.add(Tensor(due.name, due.type, due.shape));
  return like;
}

/// A file that the worker made: whatever is wrong with it is a finding. What a foreign one made may change or
/// end while it is read, so it is copied before anything is looked at, and no longer than it has reason to
/// be.
void WorkerSession::own_file(const std::string& path, device::RunResult& result) const {
  try {
    if (own()) {
      result.outputs = copy_of(read_tensor_file(path));
      return;
    }
    std::size_t due = 0;
    const TensorSet like = like_outputs();
    for (const Tensor& t : like.all()) due += t.bytes();
    result.outputs = copy_tensor_file(path, kFileSlack + kFileTimes * due);
  } catch (const BadInput& e) {
    result.reports.push_back(fmt::format("the kernel's outputs cannot be read: {}", e.what()));
  }
}

/// Rows that no group owns may hold anything: they are made equal, so that two runs can be compared.
void WorkerSession::clear_unowned_rows(TensorSet& outputs) const {
  Tensor* c = outputs.find("c");
  if (case_.problem.op != Op::grouped_gemm || c == nullptr || c->shape().empty() ||
      c->dim(int(c->shape().size()) - 1) == 0)
    return;
  const std::size_t row_bytes = std::size_t(c->shape().back()) * size_of(c->dtype());
  std::vector<std::uint8_t> owned(c->bytes() / row_bytes, 0);
  for (const reference::GemmRow& row : reference::contract_gemm(case_.problem, inputs_).rows)
    if (std::size_t(row.out) < owned.size()) owned[std::size_t(row.out)] = 1;
  for (std::size_t row = 0; row < owned.size(); ++row)
    if (!owned[row]) std::memset(c->data() + row * row_bytes, 0, row_bytes);
}

void WorkerSession::report_changes(device::RunResult& result) const {
  for (const Tensor& t : shared_->tensors().all()) {
    const Tensor* before = given_.find(t.name());
    if (before != nullptr && (!same_bytes(*before, t) || shared_->holes_were_filled(t)))
      result.reports.push_back(fmt::format("the kernel changed its input '{}'", t.name()));
  }
  if (std::string damage = shared_->damage(); !damage.empty()) result.reports.push_back(damage);
}

void WorkerSession::watch(TensorFile file, const TensorSet& as_read) {
  std::size_t bytes = 0;
  for (const Tensor& t : as_read.all()) bytes += t.bytes();
  if (bytes > kMostWatched) return;
  Shown shown{std::move(file), {}};
  for (const Tensor& t : as_read.all()) shown.sums.push_back(content_sum(t.data(), t.bytes()));
  if (shown_.size() == kWatchedRuns) shown_.erase(shown_.begin());
  shown_.push_back(std::move(shown));
}

/// The first output of an earlier run that is not what it was when the answer came.
std::string WorkerSession::late_output() const {
  for (const Shown& shown : shown_) {
    const std::vector<Tensor>& tensors = shown.file.tensors().all();
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (content_sum(tensors[i].data(), tensors[i].bytes()) != shown.sums[i])
        return fmt::format("the kernel wrote into '{}' after its answer", tensors[i].name());
    if (const std::string damage = shown.file.damage(); !damage.empty()) return damage + ", after its answer";
  }
  return "";
}

/// The same, and the inputs, which nobody may write to by now.
std::string WorkerSession::late_write() const {
  if (std::string late = late_output(); !late.empty() || own() || !shared_) return late;
  device::RunResult now;
  report_changes(now);
  return now.reports.empty() ? "" : now.reports.front() + ", after its answer";
}

/// What an answer to `run` holds beside the outputs. Throws BadInput or a JSON exception where it has no such
/// form.
void read_findings(const Json& answer, Trust trust, device::RunResult& result) {
  if (answer.contains("reports")) {
    result.reports = answer["reports"].get<std::vector<std::string>>();
    if (trust == Trust::foreign) result.reports.resize(std::min(result.reports.size(), kMostReports));
    for (std::string& report : result.reports)
      if (trust == Trust::foreign)
        report = report.empty() ? "the kernel reports a fault and does not say which (an empty text)"
                                : one_line(report.substr(0, kLongestReport));
  }
  result.counted = answer.contains("counts");
  if (result.counted) result.counts = counts_from_json(answer["counts"]);
}

/// A kernel that ran the case takes it: refusing it afterwards would hide what it did.
Json WorkerSession::ask_run(const Json& request) {
  try {
    Json answer = ask_worker(*child_, request, manners_.seconds, manners_.trust);
    ran_ = true;
    return answer;
  } catch (const WorkerRefused& refused) {
    if (!ran_ || request["mode"] != "eager") throw;
    child_->give_up(fmt::format("the kernel ran the case and then refused it: {}", refused.what()));
  }
}

device::RunResult WorkerSession::run(device::RunMode mode) {
  Json request{{"do", "run"}, {"mode", run_mode_word(mode)}};
  std::optional<TensorFile> prepared;
  if (!own()) {
    prepared.emplace(TensorFile::poisoned(like_outputs()));
    request["outputs"] = prepared->path();
  }
  const Json answer = ask_run(request);
  device::RunResult result;
  try {
    read_findings(answer, manners_.trust, result);
    if (answer.contains("outputs")) own_file(answer["outputs"].get<std::string>(), result);
  } catch (const nlohmann::json::exception& e) {
    child_->give_up("the worker process answered 'run' with a wrong type: " +
                    one_line(answer.dump().substr(0, kLongestReport)));
  } catch (const BadInput& e) {
    child_->give_up(fmt::format("the worker process answered 'run' with wrong counts: {}", e.what()));
  }
  if (prepared) {
    if (std::string late = late_output(); !late.empty()) result.reports.push_back(late);
    if (!answer.contains("outputs")) result.outputs = copy_of(prepared->tensors());
    if (std::string damage = prepared->damage(); !damage.empty()) result.reports.push_back(damage);
    if (!answer.contains("outputs") && result.reports.empty()) watch(std::move(*prepared), result.outputs);
    clear_unowned_rows(result.outputs);
    report_changes(result);
  }
  const bool only_out = result.outputs.all().size() <= 1;
  if (prepared && case_.problem.op == Op::moe_layer && !only_out && !inputs_.has("topk_ids") &&
      !result.outputs.has("topk_ids"))
    add_routing(result.outputs);  // it used the routing it was given
  return result;
}

Measurement WorkerSession::time(const device::TimingPlan& plan) {
  const Json request{{"do", "time"},
                     {"samples", plan.samples},
                     {"cold", plan.cold},
                     {"mode", run_mode_word(plan.mode)},
                     {"per_stage", plan.per_stage},
                     {"time_limit_s", plan.time_limit_s}};
  const Json answer = ask_worker(*child_, request, manners_.seconds + plan.time_limit_s, manners_.trust);
  if (!answer.contains("measurement") || answer["measurement"].is_null()) return {};
  try {
    return measurement_from_json(answer["measurement"]);
  } catch (const BadInput& e) {
    child_->give_up(fmt::format("the worker process answered 'time' with a wrong measurement: {}", e.what()));
  }
}

}  // namespace

std::string late_write(const device::Session& session) {
  const auto* worker = dynamic_cast<const WorkerSession*>(&session);
  return worker == nullptr ? "" : worker->late_write();
}

std::unique_ptr<device::Session> make_worker_session(std::shared_ptr<ChildProcess> child, Case resolved,
                                                     WorkerManners manners) {
  return std::make_unique<WorkerSession>(std::move(child), std::move(resolved), std::move(manners));
}

}  // namespace moe::harness
