#include "harness/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/process_marks.hpp"

namespace moe::harness {
namespace {

using Clock = std::chrono::steady_clock;

/// How often a silent child is looked after: its own children may keep its output open behind its death.
constexpr int kLookMs = 200;
/// How long a child that closed its output may take to end.
constexpr int kEndMs = 2000;

/// Characters of an answer that a reason quotes.
constexpr std::size_t kExcerpt = 120;
/// How many pieces of a child's standard error are read in one go: one that writes without end is not
/// followed without end.
constexpr int kLogReads = 64;

/// Heads of the process groups that run, where a signal handler finds them: fixed room and no lock, since a
/// handler may neither allocate nor wait. A group too many is only not ended by a signal.
std::array<std::atomic<pid_t>, 64> groups{};

/// What the marks of all children begin with, where a signal handler finds it.
std::array<char, 64> all_marks{};

void swap_group(pid_t from, pid_t to) {
  for (std::atomic<pid_t>& group : groups)
    if (pid_t expected = from; group.compare_exchange_strong(expected, to)) return;
}

Clock::time_point in(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

int checked(int result, const char* what) {
  if (result < 0)
    throw MachineFailure(fmt::format("cannot start a worker: {}: {}", what, std::strerror(errno)));
  return result;
}

/// The same file behind a number that no standard descriptor collides with.
Descriptor moved_up(int fd) {
  Descriptor low(fd);
  return Descriptor(checked(::fcntl(fd, F_DUPFD_CLOEXEC, 16), "fcntl"));
}

/// What happens between vfork and exec: system calls only, since the memory is the parent's.
[[noreturn]] void become(char* const* argv, char* const* envp, const int (&standard)[3], pid_t parent,
                         volatile int& error) {
  ::setpgid(0, 0);                     // a group of its own, so that its own children end with it
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // it does not outlive its program, hung as it may be
  for (int fd = 0; fd < 3; ++fd) ::dup2(standard[fd], fd);
  if (::getppid() == parent) ::execve(argv[0], argv, envp);
  error = errno;
  ::_exit(127);
}

/// As exec takes them: ended by a null; they point into `words`.
std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> all;
  for (const std::string& word : words) all.push_back(const_cast<char*>(word.c_str()));
  all.push_back(nullptr);
  return all;
}

pid_t spawn(const std::string& program, const std::vector<std::string>& words, const std::string& mark,
            const int (&standard)[3]) {
  std::vector<std::string> line{program};
  line.insert(line.end(), words.begin(), words.end());
  const std::vector<std::string> environment = marked_environment(mark);
  const std::vector<char*> argv = pointers(line), envp = pointers(environment);
  const pid_t parent = ::getpid();
  volatile int error = 0;
  const pid_t pid = ::vfork();
  if (pid == 0) become(argv.data(), envp.data(), standard, parent, error);
  if (pid > 0 && error != 0) ::waitpid(pid, nullptr, 0);
  if (pid < 0 || error != 0)
    throw MachineFailure(
        fmt::format("cannot start a worker: {}: {}", program, std::strerror(pid < 0 ? errno : error)));
  return pid;
}

std::string ending_text(int status) {
  int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  // a shell passes on that its command was ended by a signal as 128 + the signal
  if (WIFEXITED(status) && WEXITSTATUS(status) > 128 && WEXITSTATUS(status) <= 128 + SIGSYS)
    signal = WEXITSTATUS(status) - 128;
  if (signal != 0) return fmt::format("ended by signal {} ({})", signal, ::strsignal(signal));
  return fmt::format("ended with exit status {}", WEXITSTATUS(status));
}

/// The last line that holds anything, fit for a reason.
std::string last_line(const std::string& log) {
  const auto end = log.find_last_not_of(" \r\n");
  if (end == std::string::npos) return "";
  const auto begin = log.rfind('\n', end) + 1;  // npos + 1 = 0
  return one_line(log.substr(begin, end + 1 - begin));
}

}  // namespace

void end_all_children() noexcept {
  bool any = false;
  for (const std::atomic<pid_t>& group : groups)
    if (const pid_t head = group; head > 0) any = true, ::kill(-head, SIGKILL);
  if (any) kill_marked(all_marks.data());
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

ChildProcess::ChildProcess(const std::string& program, const std::vector<std::string>& words, bool forward)
    : forward_(forward) {
  const std::string all = mark_of_all();
  std::copy_n(all.c_str(), std::min(all.size() + 1, all_marks.size()), all_marks.begin());
  int pair[2];
  checked(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), "socketpair");
  input_ = moved_up(pair[0]);  // a socket: writing to a dead child is an error, not a signal
  const Descriptor in = moved_up(pair[1]);
  checked(::pipe2(pair, O_CLOEXEC), "pipe");
  output_ = moved_up(pair[0]);
  const Descriptor out = moved_up(pair[1]);
  checked(::pipe2(pair, O_CLOEXEC), "pipe");
  log_pipe_ = moved_up(pair[0]);
  const Descriptor log = moved_up(pair[1]);
  checked(::fcntl(log_pipe_.get(), F_SETFL, O_NONBLOCK), "fcntl");
  mark_ = new_mark();
  pid_ = spawn(program, words, mark_, {in.get(), out.get(), log.get()});
  swap_group(0, pid_);
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) end_child(Ending::killed);
}

std::string ChildProcess::end_child(Ending ending) {
  int status = 0;
  bool ended = false;
  for (const auto patience = Clock::now() + std::chrono::milliseconds(kEndMs);
       ending == Ending::by_itself && !ended && Clock::now() < patience;) {
    const pid_t found = ::waitpid(pid_, &status, WNOHANG);
    ended = found == pid_ || (found < 0 && errno != EINTR);
    if (!ended) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ::kill(-pid_, SIGKILL);      // what it started goes with it,
  kill_marked(mark_.c_str());  // also what left its group
  swap_group(pid_, 0);         // before its number may become another's
  while (!ended && ::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  read_log();
  return ended ? ending_text(status) : "closed its standard output and was ended";
}

void ChildProcess::lose() {
  const std::string how = end_child(Ending::by_itself), wrote = last_line(log_);
  throw WorkerLost(fmt::format("the worker process {}{}", how, wrote.empty() ? "" : "; it wrote: " + wrote),
                   false, log_);
}

void ChildProcess::give_up(const std::string& why) {
  end_child(Ending::killed);
  throw WorkerLost(why, false, log_);
}

void ChildProcess::send_line(std::string_view line) {
  const std::string message = std::string(line) + "\n";
  for (std::size_t sent = 0; sent < message.size();) {
    const ssize_t n = ::send(input_.get(), message.data() + sent, message.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) lose();
    sent += std::size_t(n);
  }
}

bool ChildProcess::take_line(std::string& answer) {
  const auto blank = std::min(pending_.find_first_not_of("\r\n"), pending_.size());
  if (blank > 0) pending_.erase(0, blank), searched_ = 0;
  const auto end = pending_.find('\n', searched_);  // a long line comes in thousands of pieces
  searched_ = end == std::string::npos ? pending_.size() : 0;
  if (end == std::string::npos) return false;
  answer = pending_.substr(0, end);
  pending_.erase(0, end + 1);
  return true;
}

void ChildProcess::read_answer() {
  char bytes[65536];
  const ssize_t n = ::read(output_.get(), bytes, sizeof(bytes));
  if (n < 0 && errno == EINTR) return;
  if (n <= 0) lose();
  pending_.append(bytes, std::size_t(n));
  if (pending_.size() > kLongestAnswer)
    give_up(
        "the worker process wrote 16 MB without a line end: an answer is one short line, tensors go into "
        "files");
}

/// Everything that stands in the pipe now.
void ChildProcess::read_log() {
  char bytes[16384];
  for (int reads = 0; reads < kLogReads; ++reads) {
    const ssize_t n = ::read(log_pipe_.get(), bytes, sizeof(bytes));
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) log_pipe_ = Descriptor();  // closed: nothing more will come
    if (n <= 0) return;
    if (forward_ && ::write(STDERR_FILENO, bytes, std::size_t(n)) < 0) forward_ = false;
    log_.append(bytes, std::size_t(n));
    if (log_.size() > 2 * kLogBytes) log_.erase(0, log_.size() - kLogBytes);
  }
}

/// A child whose own children hold its output open is noticed here.
void ChildProcess::look_after() {
  siginfo_t info{};
  if (::waitid(P_PID, id_t(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_) lose();
}

void ChildProcess::refuse_more(int wait_ms) {
  pollfd output{output_.get(), POLLIN, 0};  // a child that ended behind its answer has POLLHUP alone
  while (::poll(&output, 1, wait_ms) > 0 && (output.revents & POLLIN) != 0) read_answer(), wait_ms = 0;
  if (std::string line; take_line(line) || !pending_.empty())
    give_up("the worker process answered more than once: '" +
            one_line((line.empty() ? pending_ : line).substr(0, kExcerpt)) + "'");
}

std::string ChildProcess::wait_for_line(double seconds) {
  const auto deadline = in(seconds);
  auto looked = Clock::now();
  for (std::string answer;;) {
    if (take_line(answer)) return answer;
    const auto now = Clock::now();
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - now).count();
    if (left <= 0) {
      end_child(Ending::killed);
      const std::string part =
          pending_.empty() ? "" : fmt::format(" ({} bytes came, without a line end)", pending_.size());
      throw WorkerLost(fmt::format("no answer within {:g} s{}; the worker process was ended", seconds, part),
                       true, log_);
    }
    pollfd waits[2] = {{output_.get(), POLLIN, 0}, {log_pipe_.get(), POLLIN, 0}};
    const int ready = ::poll(waits, 2, int(std::min<long long>(left, kLookMs)));
    if (ready > 0 && waits[1].revents != 0) read_log();
    if (ready > 0 && waits[0].revents != 0) {
      read_answer();
    } else if (now - looked >= std::chrono::milliseconds(kLookMs)) {  // whoever still writes the log
      look_after();
      looked = now;
    }
  }
}

std::string ChildProcess::ask(std::string_view line, double seconds) {
  if (pid_ < 0) throw MachineFailure("the worker process is gone");
  if (asked_) refuse_more(0);  // a child may say hello before it is asked, however fast it starts
  asked_ = true;
  send_line(line);
  std::string answer = wait_for_line(seconds);
  refuse_more(0);
  return answer;
}

}  // namespace moe::harness
