#include "harness/printable_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace moe::harness {
namespace {

constexpr char kEscape = '\x1b', kLatin = '\xC2';  // \xC2\x80 .. \xC2\x9F are control characters (C1)

/// Whether `text` is "\x1b[" digits "m", or the begin of one.
enum class Colour { whole, begun, none };
Colour colour_of(const std::string& text) {
  constexpr std::size_t kLongest = 5;  // "\x1b[32m"
  if (text.size() > 1 && text[1] != '[') return Colour::none;
  if (text.size() > 2 && text.back() == 'm') return Colour::whole;
  const bool digits = std::all_of(text.begin() + std::min<std::ptrdiff_t>(2, std::ptrdiff_t(text.size())),
                                  text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits && text.size() < kLongest ? Colour::begun : Colour::none;
}

}  // namespace

bool PrintableBuffer::write(const std::string& text) {
  return to_->sputn(text.data(), std::streamsize(text.size())) == std::streamsize(text.size());
}

/// What was held is no colour: its first byte is shown, the others are looked at anew.
bool PrintableBuffer::release() {
  if (held_.empty()) return true;
  const std::string rest = held_.substr(1), first = held_.substr(0, 1);
  held_.clear();
  bool good = write(first[0] == kEscape ? "\\x1b" : first);
  for (const char c : rest) good = put(c) && good;
  return good;
}

bool PrintableBuffer::put(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (!held_.empty() && held_[0] == kLatin) {
    if (byte < 0x80 || byte >= 0xA0) return release() && put(c);
    held_.clear();
    return write("?");  // as DEL below: \x.. would break a JSON text on standard output
  }
  if (!held_.empty()) {
    held_ += c;
    const Colour colour = colour_of(held_);
    if (colour == Colour::none) return release();
    return colour == Colour::begun || write(std::exchange(held_, ""));
  }
  if (c == kEscape || c == kLatin) return held_ = c, true;
  if (c == '\x7F') return write("?");
  const bool passes = byte >= 0x20 || c == '\n' || c == '\t' || (c == '\r' && redraws_);
  return write(passes ? std::string(1, c) : fmt::format("\\x{:02x}", byte));
}

PrintableBuffer::int_type PrintableBuffer::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  return put(traits_type::to_char_type(c)) ? c : traits_type::eof();
}

int PrintableBuffer::sync() { return release() ? to_->pubsync() : -1; }

}  // namespace moe::harness
