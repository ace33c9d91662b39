// Which source line does a code address belong to? Read from the program's own debug information (libbacktrace,
// part of GCC); where that is not there the address itself is the answer, never an error.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace moe::device::emulator {

class Symboliser {
 public:
  /// Code addresses are relative to `load_bias`, where the system has put the program.
  explicit Symboliser(std::uintptr_t load_bias) : load_bias_(load_bias) {}
  /// Looks up what is not known yet.
  void prepare(const std::vector<std::uint32_t>& pcs);
  /// file:line of the innermost frame outside device/hopper, or "pc 0x..." .
  std::string where(std::uint32_t pc) const;
  /// Replaces \1 number \2 by where(number).
  std::string resolve(const std::string& text) const;
  static void collect(const std::string& text, std::vector<std::uint32_t>& pcs);

 private:
  std::uintptr_t load_bias_;
  std::map<std::uint32_t, std::string> known_;
};

}  // namespace moe::device::emulator
