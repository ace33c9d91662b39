// How does the program talk to a child process and notice that it died, hangs or talks nonsense? One line to
// its standard input, one line back from its standard output, with a deadline; its standard error is kept.
#pragma once
#include <cstdint>
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
  WorkerLost(const std::string& what, bool hung, std::string last_words)
      : std::runtime_error(what), timed_out(hung), log(std::move(last_words)) {}
  bool timed_out;
  std::string log;  // the end of what it wrote to standard error
};

/// Bytes of standard error that are kept: the end of it.
inline constexpr std::size_t kLogBytes = 4096;
/// The longest answer: a child that writes more without a line end is lost.
inline constexpr std::size_t kLongestAnswer = std::size_t(16) << 20;

class ChildProcess {
 public:
  /// Starts `program words...` as the head of a process group of its own; throws MachineFailure where it
  /// cannot. `forward`: what it writes to standard error also goes to ours.
  ChildProcess(const std::string& program, const std::vector<std::string>& words, bool forward);
  ~ChildProcess();  // ends the child and its own children
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Sends one line and returns the line that answers it. Throws WorkerLost when the child ends first ("ended
  /// by signal 11 (Segmentation fault)"), does not answer within `seconds`, or wrote a line that no request
  /// asked for; the child is gone then. Blank lines are no lines.
  std::string ask(std::string_view line, double seconds);
  /// Ends the child and throws WorkerLost: it answered `why`.
  [[noreturn]] void give_up(const std::string& why);
  /// The same where the child has written more than the answer it gave, or does so within `wait_ms`: the
  /// second line would be taken for the answer to the next request.
  void refuse_more(int wait_ms);
  bool alive() const { return pid_ > 0; }

  /// Requests are numbered; `echoes` is set where the child said that its answers bear the number of what
  /// they answer.
  std::int64_t next_request() { return ++requests_; }
  bool echoes = false;

 private:
  enum class Ending { by_itself, killed };
  void send_line(std::string_view line);
  bool take_line(std::string& answer);
  void read_answer();
  void read_log();
  void look_after();
  std::string wait_for_line(double seconds);
  [[noreturn]] void lose();
  std::string end_child(Ending ending);  // how it ended, in words

  Descriptor input_, output_, log_pipe_;  // our ends
  int pid_ = -1;
  std::string mark_;  // what all bear that it starts
  std::int64_t requests_ = 0;
  bool forward_ = false;
  bool asked_ = false;        // a first request was sent
  std::string pending_;       // bytes behind the last line
  std::size_t searched_ = 0;  // bytes of pending_ that hold no line end
  std::string log_;
};

/// Kills every child that runs with all that it started, so that an interrupted program leaves nobody behind.
/// Safe in a signal handler; only for a process that ends.
void end_all_children() noexcept;

}  // namespace moe::harness
