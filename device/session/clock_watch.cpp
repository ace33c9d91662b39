#include "device/session/clock_watch.hpp"

#include <algorithm>
#include <chrono>

namespace moe::device {
namespace {

constexpr std::chrono::milliseconds kPeriod{2};

}  // namespace

ClockWatch::ClockWatch(std::function<double()> read) : read_(std::move(read)) {
  if (read_) thread_ = std::thread([this] { watch(); });
}

ClockWatch::~ClockWatch() { median(); }

void ClockWatch::watch() {
  do {
    std::this_thread::sleep_for(kPeriod);
    if (const double hz = read_(); hz > 0) readings_.push_back(hz);
  } while (!over_.load());
}

double ClockWatch::median() {
  over_ = true;
  if (thread_.joinable()) thread_.join();
  if (readings_.empty()) return 0;
  const auto middle = readings_.begin() + std::ptrdiff_t(readings_.size() / 2);
  std::nth_element(readings_.begin(), middle, readings_.end());
  return *middle;
}

}  // namespace moe::device
