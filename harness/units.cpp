#include "harness/units.hpp"

#include <fmt/format.h>

#include <cmath>

namespace moe::harness {
namespace {

/// Three significant digits without an exponent.
std::string three_digits(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

}  // namespace

std::string seconds_text(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  if (seconds >= 1) return three_digits(seconds) + " s";
  if (seconds >= 1e-3) return three_digits(seconds * 1e3) + " ms";
  return three_digits(seconds * 1e6) + " us";
}

std::string bytes_text(double bytes) {
  if (bytes >= 1e9) return three_digits(bytes / 1e9) + " GB";
  if (bytes >= 1e6) return three_digits(bytes / 1e6) + " MB";
  if (bytes >= 1e3) return three_digits(bytes / 1e3) + " KB";
  return fmt::format("{:.0f} B", bytes);
}

std::string percent_text(double fraction) { return fmt::format("{:.0f} %", 100 * fraction); }

std::string ratio_text(double ratio) { return three_digits(ratio) + "x"; }

std::string count_text(std::int64_t count) {
  std::string digits = fmt::format("{}", count);
  for (int at = int(digits.size()) - 3; at > (count < 0); at -= 3) digits.insert(std::size_t(at), 1, ',');
  return digits;
}

}  // namespace moe::harness
