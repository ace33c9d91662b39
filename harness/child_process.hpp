// How does the program talk to a worker process and notice that it died or hangs? One line out, one line
// back, with a deadline; bulk bytes travel through two memory files that both sides map.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace moe::harness {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return fd_; }

 private:
  int fd_;
};

/// The worker ended or was ended: what the case in flight gets as its verdict.
struct WorkerLost : std::runtime_error {
  WorkerLost(const std::string& what, bool hung) : std::runtime_error(what), timed_out(hung) {}
  bool timed_out;
};

/// Descriptors that a worker finds open.
inline constexpr int kWorkerSocket = 3, kWorkerInput = 4, kWorkerOutput = 5;

class ChildProcess {
 public:
  /// Starts `program words...`; throws MachineFailure where it cannot.
  ChildProcess(const std::string& program, const std::vector<std::string>& words);
  ~ChildProcess();  // ends the child
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Sends one line and returns the line that answers it. Throws WorkerLost when the child ends first ("ended
  /// by signal 11 (Segmentation fault)") or does not answer within `seconds`; the child is gone then.
  std::string ask(std::string_view line, double seconds);
  bool alive() const { return pid_ > 0; }
  int input_memory() const { return input_.get(); }
  int output_memory() const { return output_.get(); }

 private:
  [[noreturn]] void lose(const std::string& why, bool hung);
  std::string end_child(bool kill);  // how it ended, in words

  Descriptor socket_, input_, output_;
  int pid_ = -1;
  std::string pending_;  // bytes behind the last line
};

}  // namespace moe::harness
