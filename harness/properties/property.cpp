#include "harness/properties/property.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "fixtures/problem/errors.hpp"
#include "harness/values.hpp"

namespace moe::harness {
namespace {

/// "P4a" -> (4, "a").
std::pair<int, std::string_view> order_of(std::string_view id) {
  if (id.size() < 2) return {0, id};
  int number = 0;
  std::size_t i = 1;
  for (; i < id.size() && std::isdigit(static_cast<unsigned char>(id[i])); ++i)
    number = 10 * number + (id[i] - '0');
  return {number, id.substr(i)};
}

const OtherProperty kElsewhere[] = {
    {"P17", "Every output element is written.", "every run: outputs are poisoned with NaN and then judged"},
    {"P33b", "A large block of K does not swallow small ones behind it.",
     "infer-semantics: the probe `chains`"},
    {"P36", "Every row lies within its bound.", "check itself: each stage and row"},
    {"P43", "Token counts around a tile are right.", "check --trials: tile - 2 .. tile + 2 are drawn"},
    {"P44b", "Base pointers at other offsets give the same bits.",
     "not tried: executors align their own tensors"},
    {"P44c", "Ids of 32 and 64 bits give the same.", "not tried: the contract has 32 bits"},
    {"P47", "Offsets behind 2^31 are right.", "check --suite large, on a card"},
    {"P48", "Fewer SMs give the same bits.", "tests/agreement: the emulated SM with other counts"},
    {"P50", "Dependent launch changes no bit.",
     "every run on the emulated SM: it checks what is read in front of the wait"},
    {"P51", "One compilation serves a sweep of tokens.", "not tried: built-in kernels are compiled ahead"},
    {"P52", "Errors grow no faster in K than the bound.", "reference/README.md: bound_alarm"},
    {"P53", "Time grows with the tokens, and the model ranks layouts as measured.", "bench, compare"},
};

}  // namespace

std::string_view name(PropertyClass kind) {
  switch (kind) {
    case PropertyClass::exact:
      return "exact";
    case PropertyClass::bounded:
      return "bounded";
    case PropertyClass::contract:
      return "contract";
  }
  return "?";
}

std::span<const Property> properties() {
  static const std::vector<Property> all = [] {
    std::vector<Property> list;
    for (const auto part : {token_properties(), expert_properties(), scale_properties(), value_properties(),
                            shape_properties(), router_properties(), run_properties()})
      list.insert(list.end(), part.begin(), part.end());
    std::sort(list.begin(), list.end(),
              [](const Property& a, const Property& b) { return order_of(a.id) < order_of(b.id); });
    return list;
  }();
  return all;
}

std::span<const OtherProperty> other_properties() { return kElsewhere; }

std::vector<const Property*> find_properties(std::string_view text) {
  std::vector<bool> asked(properties().size(), false);
  for (const std::string& word : split(text, ',')) {
    bool found = false;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const std::string_view id = properties()[i].id;
      const bool family = order_of(id).first == order_of(word).first && order_of(word).second.empty() &&
                          word == fmt::format("P{}", order_of(id).first);
      if (word != "all" && word != id && !family) continue;
      asked[i] = found = true;
    }
    if (found) continue;
    for (const OtherProperty& other : other_properties())
      if (other.id == word) throw BadInput(fmt::format("'{}' is not tried here; {}", word, other.where));
    throw BadInput(
        fmt::format("'{}' is no property; write all or some of moeproof list properties, as P5,P12", word));
  }
  std::vector<const Property*> chosen;
  for (std::size_t i = 0; i < asked.size(); ++i)
    if (asked[i]) chosen.push_back(&properties()[i]);
  return chosen;
}

}  // namespace moe::harness
