#include "harness/jit/specialise.hpp"

#include <fmt/format.h>

#include <limits>

namespace moe::harness {
namespace {

std::string alignment_key(const KernelArgument& a, std::int64_t value) {
  if (a.do_not_specialize) return "None";
  return !a.do_not_specialize_on_alignment && value % 16 == 0 ? "'D'" : "''";
}

std::string width_of(std::int64_t value) {
  const bool narrow =
      value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max();
  return narrow ? "i32" : "i64";
}

Specialised integer(const KernelArgument& a, std::int64_t value) {
  const bool one = value == 1 && !a.do_not_specialize;
  if (!a.type.empty()) return {a.type, one ? "1" : alignment_key(a, value)};
  if (one) return {"constexpr", "1"};
  return {width_of(value), alignment_key(a, value)};
}

}  // namespace

Specialised specialise(const KernelArgument& a, std::int64_t value) {
  switch (a.kind) {
    case ArgumentKind::constant:
      return {"constexpr", a.value ? fmt::format("{}", value) : a.constant};
    case ArgumentKind::integer:
      return integer(a, value);
    case ArgumentKind::pointer:
      return {a.type, alignment_key(a, a.value ? value : 0)};
    case ArgumentKind::floating:
    case ArgumentKind::boolean:
      break;
  }
  return {a.type, "None"};
}

std::string to_text(const Specialised& s) { return fmt::format("('{}', {})", s.type, s.key); }

}  // namespace moe::harness
