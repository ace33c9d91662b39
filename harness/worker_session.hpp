// What is a case that is open in another process? A Session whose calls become lines to a worker and whose
// tensors lie in shared memory. A kernel that writes in place finds poisoned outputs between guards; what it
// did to guards and inputs is looked at after every run.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "device/executor.hpp"
#include "harness/child_process.hpp"
#include "harness/worker_protocol.hpp"

namespace moe::harness {

/// What a session asks of its worker.
struct WorkerManners {
  double seconds = 300;              // patience with one answer
  Trust trust = Trust::foreign;      // own: it makes generated weights itself and gives files of its own
  std::vector<std::string> outputs;  // of moe_layer: the tensors that the kernel gives
};

/// `child` has answered `open` for `resolved`.
std::unique_ptr<device::Session> make_worker_session(std::shared_ptr<ChildProcess> child, Case resolved,
                                                     WorkerManners manners);

/// One line about a write of a foreign worker into outputs or inputs after its last answers, as far as one
/// has happened by now; empty = none, or a session of another kind. Costs a reading of the tensors.
std::string late_write(const device::Session& session);

}  // namespace moe::harness
