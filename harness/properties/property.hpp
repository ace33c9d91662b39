// Which statements hold for every correct kernel, whatever its arithmetic? One object each: what it says,
// under which conditions, what it would catch, and how it is tried on a kernel (any executor's). `check
// --properties` runs them, `list properties` prints them.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moe::harness {

class Subject;

/// exact: to the bit. bounded: within a bound that is derived here. contract: what no kernel may do.
enum class PropertyClass { exact, bounded, contract };
std::string_view name(PropertyClass kind);

struct Property {
  std::string_view id;  // "P4a"
  PropertyClass kind = PropertyClass::exact;
  std::string_view statement;   // one sentence
  std::string_view conditions;  // of a case, in words
  std::string_view catches;     // faults that break it
  /// Why the case does not meet the conditions; empty = it does.
  std::string (*not_met)(const Subject&) = nullptr;
  /// Runs the kernel; what it did that it must not, in one line; empty = the statement held.
  std::string (*broken)(Subject&) = nullptr;
};

/// All of them, in the order of their numbers.
std::span<const Property> properties();
/// "all", "P5,P12", "P4" (P4a to P4d); throws BadInput for a name that is none. In the table's order, each
/// once.
std::vector<const Property*> find_properties(std::string_view text);

/// A statement of the same list that something else tries, or nothing: the number and who or why.
struct OtherProperty {
  std::string_view id, statement, where;
};
std::span<const OtherProperty> other_properties();

// The table's parts, a file each.
std::span<const Property> token_properties();
std::span<const Property> expert_properties();
std::span<const Property> scale_properties();
std::span<const Property> value_properties();
std::span<const Property> shape_properties();
std::span<const Property> router_properties();
std::span<const Property> run_properties();

}  // namespace moe::harness
