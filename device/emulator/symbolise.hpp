// Which source line does a code address belong to? Asked of addr2line once per batch of addresses; without
// addr2line or debug information the address itself is the answer, never an error.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace moe::device::emulator {

class Symboliser {
 public:
  /// Looks up what is not known yet, in one call of addr2line.
  void prepare(const std::vector<std::uint32_t>& pcs);
  /// file:line of the innermost frame outside device/hopper, or "pc 0x..." .
  std::string where(std::uint32_t pc) const;
  /// Replaces \1 number \2 by where(number).
  std::string resolve(const std::string& text) const;
  static void collect(const std::string& text, std::vector<std::uint32_t>& pcs);

 private:
  std::map<std::uint32_t, std::string> known_;
};

}  // namespace moe::device::emulator
