#include "device/emulator/symbolise.hpp"

#include <charconv>
#include <cstdio>
#include <filesystem>

#if defined(MOE_BACKTRACE_HEADER)
#  include MOE_BACKTRACE_HEADER
#endif

namespace moe::device::emulator {
namespace {

std::string hexadecimal(std::uint32_t pc) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%x", pc);
  return text;
}

/// "dir/./device/kernels/x.cuh" and 88 -> "device/kernels/x.cuh:88"
std::string tidy(const char* file, int line) {
  std::string place = std::filesystem::path(file).lexically_normal().string();
  while (place.starts_with("../")) place = place.substr(3);  // relative to the build folder
  return place + ":" + std::to_string(line);
}

bool in_layer(const std::string& place) {
  return place.find("device/hopper/emulated") != std::string::npos ||
         place.find("fixtures/problem/") != std::string::npos;
}

#if defined(MOE_BACKTRACE_HEADER)
/// Innermost frame first: the first one outside the layer is the kernel's line.
struct Search {
  std::string best;
  bool settled = false;
};
int look_at_frame(void* data, std::uintptr_t, const char* file, int line, const char*) {
  auto& search = *static_cast<Search*>(data);
  if (file == nullptr || line == 0) return 0;
  search.best = tidy(file, line);
  search.settled = !in_layer(search.best);
  return search.settled;  // other than 0: no further frames
}
void ignore_error(void*, const char*, int) {}

std::string place_of(std::uintptr_t address) {
  // never freed, and thread-safe: one for the program's life
  static backtrace_state* const state = backtrace_create_state(nullptr, 1, ignore_error, nullptr);
  Search search;
  if (state != nullptr) backtrace_pcinfo(state, address, look_at_frame, ignore_error, &search);
  return search.best;
}
#else
std::string place_of(std::uintptr_t) { return ""; }
#endif

}  // namespace

void Symboliser::prepare(const std::vector<std::uint32_t>& pcs) {
  for (std::uint32_t pc : pcs) {
    if (pc == 0 || known_.contains(pc)) continue;
    const std::string place = place_of(load_bias_ + pc - 1);  // the call, not what follows it
    known_[pc] = place.empty() ? "pc " + hexadecimal(pc) : place;
  }
}

std::string Symboliser::where(std::uint32_t pc) const {
  const auto it = known_.find(pc);
  return it != known_.end() ? it->second : pc == 0 ? "launch" : "pc " + hexadecimal(pc);
}

void Symboliser::collect(const std::string& text, std::vector<std::uint32_t>& pcs) {
  for (std::size_t i = text.find('\1'); i != std::string::npos; i = text.find('\1', i + 1)) {
    std::uint32_t pc = 0;
    std::from_chars(text.data() + i + 1, text.data() + text.size(), pc);
    pcs.push_back(pc);
  }
}

std::string Symboliser::resolve(const std::string& text) const {
  std::string out;
  std::size_t from = 0;
  for (std::size_t i; (i = text.find('\1', from)) != std::string::npos;) {
    out.append(text, from, i - from);
    std::uint32_t pc = 0;
    std::from_chars(text.data() + i + 1, text.data() + text.size(), pc);
    out += where(pc);
    from = text.find('\2', i) + 1;
  }
  return out.append(text, from);
}

}  // namespace moe::device::emulator
