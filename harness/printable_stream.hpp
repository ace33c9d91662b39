// What may reach a terminal? A stream's buffer that lets text, line breaks and the program's own colours pass
// and shows every other control character: names come from files and from other people's processes, and one
// that held an escape sequence would move the cursor or hide a line.
#pragma once
#include <streambuf>
#include <string>

namespace moe::harness {

class PrintableBuffer : public std::streambuf {
 public:
  /// Writes to `to`; `redraws`: \r passes too, as a progress line needs it.
  PrintableBuffer(std::streambuf* to, bool redraws) : to_(to), redraws_(redraws) {}

 protected:
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  bool put(char c);
  bool write(const std::string& text);
  bool release();

  std::streambuf* to_;
  bool redraws_;
  std::string held_;  // the begin of what may be a colour or a control character of two bytes
};

}  // namespace moe::harness
