// How far is a long run? On a terminal one line that is drawn over: cases, rate, failures, time left; from
// the third second on. Elsewhere a line a case, so that a log names the one that took the machine with it.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <iosfwd>
#include <mutex>
#include <string>
#include <thread>

namespace moe::harness {

struct ProgressState {
  std::size_t planned = 0;  // 0: unknown
  std::size_t done = 0, failed = 0;
  double seconds = 0;  // since the run began
};

/// "12 of 400, 3.1 a second, 2 failed, about 2 min left"; at most 79 columns.
std::string progress_text(const ProgressState&);

class Progress {
 public:
  enum class Style { none, line, log };
  /// Of a command: nothing under --quiet, a line on a terminal, else a log.
  static Style style_of(bool quiet, bool is_terminal) {
    return quiet ? Style::none : is_terminal ? Style::line : Style::log;
  }
  /// `line` is drawn by a thread of its own, so that it goes on while a case runs.
  Progress(std::ostream& err, Style style);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void plan(std::size_t cases);
  /// A launch begins; its line goes into a log.
  void start(const std::string& case_line);
  void finish(bool failed);
  /// A case that an earlier run has done.
  void leave_out();
  /// Writes whole lines without tearing the one that is drawn.
  void say(const std::string& lines);
  /// Takes the line away: tables follow.
  void end();

 private:
  void draw_until_ended();
  void wipe();

  std::ostream& err_;
  Style style_;
  double begin_;
  ProgressState state_;
  std::size_t drawn_ = 0;  // columns on the screen
  bool ended_ = false;
  std::mutex mutex_;
  std::condition_variable change_;
  std::thread thread_;
};

}  // namespace moe::harness
