// What do the program and a worker process say to each other? One JSON object a line, as adapters/README.md
// describes it in full; the program's own workers and other people's kernels speak the same lines.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "device/executor.hpp"
#include "fixtures/problem/case.hpp"
#include "fixtures/problem/kernel_info.hpp"
#include "harness/child_process.hpp"
#include "harness/record.hpp"

namespace moe::harness {

inline constexpr int kProtocolVersion = 1;

/// "eager", "graph", "crowded".
std::string_view run_mode_word(device::RunMode mode);
/// Throws BadInput for another word.
device::RunMode run_mode_of(std::string_view word);

/// One kernel of a worker, as its `hello` describes it. An empty list means: any.
struct WorkerKernel {
  std::string name;
  std::vector<Op> ops;
  std::vector<Contract> contracts;  // of grouped_gemm
  std::vector<QuantKind> quants;
  std::vector<std::string> outputs;  // of moe_layer; empty = all stages
  bool deterministic = true;
  std::optional<std::string> semantics;  // JSON text: a preset's name or an object; read by read_semantics
  KernelFamily family = KernelFamily::host;  // triton_fused_moe: the model predicts it
  int stages = 0, warps = 0;                 // num_stages and num_warps of such a kernel; 0 = Triton's usual
  bool takes(const Problem&) const;
};

/// Whose words an answer holds. A foreign child may say anything: what is wrong with it is the verdict of the
/// case in flight, and keys that only this program's workers use (`draws`, `resolved`) mean nothing.
enum class Trust { own, foreign };

/// Levels of lists and objects that an answer may hold; JSON that goes deeper is no answer.
inline constexpr int kDeepestAnswer = 32;

struct WorkerHello {
  std::string name;
  std::string refusal;  // why the worker can do nothing here; empty = it can
  std::vector<WorkerKernel> kernels;
  std::optional<DeviceFacts> device;
  bool graph = false;     // takes mode "graph"
  bool crowded = false;   // takes mode "crowded"
  bool ids = false;       // its answers bear the "id" of their request
  std::string described;  // the kernels as JSON: what a child must say again when it is started again
};

/// Reads the answer to `hello`; throws BadInput in one line that names the key. What it declares is good for
/// every scheme that its kernels take: no case finds a fault in it later.
WorkerHello read_hello(const nlohmann::ordered_json& answer);
/// "moeproof", or {"preset": "deepgemm", "promote_k": 64, ...} with members of Semantics by name. Throws
/// BadInput.
Semantics read_semantics(const nlohmann::ordered_json& declared, const QuantScheme& quant);

/// Everything a kernel needs to know about a case, as numbers and words.
nlohmann::ordered_json problem_to_json(const Case& c);

/// The kernel of the case or of this call refuses it, with a reason.
struct WorkerRefused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Sends one request, numbered by "id", and reads the answer. Throws WorkerLost where it bears another number
/// (or none, from a child that said it numbers), where the answer is no JSON object or says that
/// the kernel failed (the child is ended), WorkerRefused where it refuses, MachineFailure where it says that
/// the machine is broken, and BadInput where a worker of this program says so.
nlohmann::ordered_json ask_worker(ChildProcess& child, const nlohmann::ordered_json& request, double seconds,
                                  Trust trust);

/// Asks a foreign child `hello`; throws WorkerLost where the answer is none that fits (the child is ended).
WorkerHello greet(ChildProcess& child, double seconds);

}  // namespace moe::harness
