// At what clock did the card run while it was timed? A thread reads it again and again until asked for the
// median.
#pragma once
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace moe::device {

class ClockWatch {
 public:
  /// `read` gives Hz, or 0 where it cannot; an empty function: nothing is watched. The first reading is taken
  /// after one period of about 2 ms, so that the card is under load by then.
  explicit ClockWatch(std::function<double()> read);
  ~ClockWatch();
  ClockWatch(const ClockWatch&) = delete;
  ClockWatch& operator=(const ClockWatch&) = delete;

  /// Ends the watch: the median of the readings in Hz, 0 where there was none.
  double median();

 private:
  void watch();
  std::function<double()> read_;
  std::vector<double> readings_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace moe::device
