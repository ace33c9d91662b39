#include "harness/progress.hpp"

#include <fmt/format.h>

#include <chrono>
#include <ostream>

namespace moe::harness {
namespace {

constexpr double kSilent = 2;  // seconds without a line: most runs are over by then
constexpr std::chrono::milliseconds kPeriod{200};
constexpr std::size_t kColumns = 79;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string duration_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.0f} s", seconds);
  if (seconds < 3600) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

std::string rate_text(double cases_per_second) {
  return cases_per_second >= 0.1 ? fmt::format("{:.3g} a second", cases_per_second)
                                 : fmt::format("{:.3g} a minute", 60 * cases_per_second);
}

}  // namespace

std::string progress_text(const ProgressState& p) {
  const std::size_t done = p.done;
  std::string text = p.planned > 0 ? fmt::format("{} of {}", done, p.planned) : fmt::format("{} done", done);
  if (done > 0 && p.seconds > 0) text += ", " + rate_text(double(done) / p.seconds);
  if (p.failed > 0) text += fmt::format(", {} failed", p.failed);
  if (done > 0 && p.planned > done)
    text +=
        fmt::format(", about {} left", duration_text(p.seconds * double(p.planned - done) / double(done)));
  else
    text += fmt::format(", {}", duration_text(p.seconds));
  return text.substr(0, kColumns);
}

Progress::Progress(std::ostream& err, Style style) : err_(err), style_(style), begin_(now()) {
  if (style == Style::line) thread_ = std::thread([this] { draw_until_ended(); });
}

Progress::~Progress() { end(); }

void Progress::plan(std::size_t cases) {
  const std::lock_guard lock(mutex_);
  state_.planned += cases;
}

void Progress::start(const std::string& case_line) {
  const std::lock_guard lock(mutex_);
  if (style_ != Style::log) return;
  if (state_.planned > 1) err_ << fmt::format("{}/{} ", state_.done + 1, state_.planned);
  err_ << "running: " << case_line << std::endl;
}

void Progress::finish(bool failed) {
  const std::lock_guard lock(mutex_);
  ++state_.done, state_.failed += failed;
}

void Progress::leave_out() {
  const std::lock_guard lock(mutex_);
  if (state_.planned > 0) --state_.planned;
}

void Progress::say(const std::string& lines) {
  const std::lock_guard lock(mutex_);
  wipe();
  err_ << lines << std::flush;
}

void Progress::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    wipe();
  }
  change_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Progress::wipe() {
  if (drawn_ > 0) err_ << "\r" << std::string(drawn_, ' ') << "\r" << std::flush;
  drawn_ = 0;
}

void Progress::draw_until_ended() {
  std::unique_lock lock(mutex_);
  while (!change_.wait_for(lock, kPeriod, [this] { return ended_; })) {
    state_.seconds = now() - begin_;
    if (state_.seconds < kSilent) continue;
    std::string text = progress_text(state_);
    const std::size_t columns = text.size();
    if (columns < drawn_) text.resize(drawn_, ' ');
    err_ << "\r" << text << std::flush;
    drawn_ = columns;
  }
}

}  // namespace moe::harness
