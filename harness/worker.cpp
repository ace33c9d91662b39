#include "harness/worker.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/generate.hpp"
#include "harness/executors.hpp"
#include "harness/json_codec.hpp"
#include "harness/tensor_file.hpp"
#include "harness/values.hpp"
#include "harness/worker_protocol.hpp"

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;

/// The next line of the parent, or false when it is gone.
bool read_line(std::string& pending, std::string& line) {
  for (;;) {
    if (const auto end = pending.find('\n'); end != std::string::npos) {
      line = pending.substr(0, end);
      pending.erase(0, end + 1);
      return true;
    }
    char bytes[65536];
    const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof(bytes));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    pending.append(bytes, std::size_t(n));
  }
}

bool write_line(int to, const std::string& text) {
  const std::string line = text + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t n = ::write(to, line.data() + sent, line.size() - sent);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += std::size_t(n);
  }
  return true;
}

class Server {
 public:
  explicit Server(device::Executor& executor) : executor_(executor) {}
  Json answer(const Json& request);

 private:
  Json hello() const;
  Json open(const Json& request);
  Json bind(const Json& request);
  Json run(const Json& request);
  Json time(const Json& request);
  device::Session& session();

  device::Executor& executor_;
  Case case_;
  std::unique_ptr<device::Session> session_;
  std::optional<TensorFile> outputs_;  // of the last run, until the next
};

device::Session& Server::session() {
  if (session_ == nullptr) throw MachineFailure("no case is open in this worker");
  return *session_;
}

Json Server::hello() const {
  Json answer{{"protocol", kProtocolVersion}, {"name", executor_.name()}, {"draws", true}, {"graph", true}};
  answer["crowded"] = executor_.name() == "cuda";
  answer["kernels"] = Json::array();
  for (const KernelInfo& kernel : executor_.kernels()) {
    Json one{{"name", kernel.name}, {"outputs", kernel.stages}, {"deterministic", kernel.deterministic}};
    one["ops"] = Json::array();
    for (const Op op : kernel.ops) one["ops"].push_back(name(op));
    answer["kernels"].push_back(one);
  }
  return answer;
}

Json Server::open(const Json& request) {
  session_.reset();  // its memory goes before the next case's comes
  outputs_.reset();
  case_ = parse_case(request.at("case").get<std::string>());
  device::Opened opened = executor_.open(case_);
  if (opened.session == nullptr) return {{"refusal", opened.refusal}};
  session_ = std::move(opened.session);
  return {{"resolved", to_line(session_->resolved())}};
}

/// What the parent gave counts; the rest, if there is any, follows from the case's seed.
Json Server::bind(const Json& request) {
  TensorSet inputs = read_tensor_file(request.at("inputs").get<std::string>());
  const Problem& p = case_.problem;
  TensorSet own;
  if (!request.value("complete", false)) own = make_inputs(p, case_.choice, routing_of(p));
  for (Tensor& t : own.all())
    if (!inputs.has(t.name())) inputs.add(t);
  session().bind(inputs);
  return Json::object();
}

Json Server::run(const Json& request) {
  const device::RunResult result = session().run(run_mode_of(request.at("mode").get<std::string>()));
  outputs_.emplace(TensorFile::of(result.outputs));
  Json answer{{"outputs", outputs_->path()}, {"reports", result.reports}};
  if (result.counted) answer["counts"] = to_json(result.counts);
  return answer;
}

Json Server::time(const Json& request) {
  device::TimingPlan plan;
  plan.samples = request.at("samples").get<int>();
  plan.cold = request.at("cold").get<bool>();
  plan.mode = run_mode_of(request.at("mode").get<std::string>());
  plan.per_stage = request.at("per_stage").get<bool>();
  plan.time_limit_s = request.at("time_limit_s").get<double>();
  return {{"measurement", to_json(session().time(plan))}};
}

Json Server::answer(const Json& request) {
  const auto what = request.at("do").get<std::string>();
  if (what == "hello") return hello();
  if (what == "open") return open(request);
  if (what == "bind") return bind(request);
  if (what == "run") return run(request);
  if (what == "time") return time(request);
  throw MachineFailure("unknown request '" + what + "'");
}

/// No memory is left to this process: then what went wrong is neither a wrong input nor a broken machine.
bool memory_is_short() {
  constexpr std::size_t kLittle = std::size_t(64) << 20;
  void* const probe = ::mmap(nullptr, kLittle, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) return true;
  ::munmap(probe, kLittle);
  return false;
}

Json error_of(const char* kind, const char* message) {
  return {{"error", memory_is_short() ? "memory" : kind}, {"message", message}};
}

Json guarded_answer(Server& server, const std::string& line) {
  try {
    return server.answer(Json::parse(line));
  } catch (const BadInput& e) {
    return error_of("bad_input", e.what());
  } catch (const MachineFailure& e) {
    return error_of("failure", e.what());
  } catch (const std::bad_alloc& e) {
    return error_of("memory", e.what());
  } catch (const std::exception& e) {  // a fault of the session's own: the verdict of its case
    return {{"error", "kernel"}, {"message", e.what()}};
  }
}

}  // namespace

int serve_worker(device::Executor& executor) {
  const int answers = ::dup(STDOUT_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);  // what a kernel prints is no answer
  std::signal(SIGPIPE, SIG_IGN);
  Server server(executor);
  std::string pending, line;
  while (read_line(pending, line))
    if (!write_line(answers,
                    guarded_answer(server, line).dump(-1, ' ', false, Json::error_handler_t::replace)))
      return 0;
  return 0;
}

int run_worker(const std::vector<std::string>& words) {
  const auto executor = make_executor(plan_from_words(words));
  return serve_worker(*executor);
}

}  // namespace moe::harness
