// What does Triton make of one argument's value? The pair (type, key) that goes into a variant's key: two
// launches share a compilation where all pairs (and the options) are equal. Triton 3.6 to 3.7,
// python/triton/runtime/jit.py and python/src/specialize.cc; held against what they gave by a test.
#pragma once
#include <cstdint>
#include <string>

#include "fixtures/files/kernel_rules.hpp"

namespace moe::harness {

struct Specialised {
  std::string type;  // "i32", "*bf16", "constexpr"
  std::string key;   // as Python prints it: 'D' (a multiple of 16), '' (not), None, or a constant's value
  bool operator==(const Specialised&) const = default;
  auto operator<=>(const Specialised&) const = default;
};

/// `value` is that of the argument's formula; ignored where it has none.
/// integer: 1 becomes a constexpr, a multiple of 16 (0 too) has key 'D'; i32 where it fits, else i64. With
/// do_not_specialize only the width is left, with do_not_specialize_on_alignment the width and the 1.
/// An annotated type stays as it is, and 1 then is a key of its own.
/// pointer: 'D' where the address is a multiple of 16. floating, boolean: never a key. constant: its value.
Specialised specialise(const KernelArgument& argument, std::int64_t value);

/// Triton's text of a pair: "('i32', 'D')".
std::string to_text(const Specialised& s);

}  // namespace moe::harness
