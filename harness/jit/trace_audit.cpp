#include "harness/jit/trace_audit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"

namespace moe::harness {
namespace {

using Values = std::vector<std::int64_t>;
using Sizes = std::vector<std::pair<std::string, std::int64_t>>;
using Remedies = std::vector<std::pair<std::string, JitRemedy>>;

/// Launches that bring the same values: one key each, whatever the annotations are.
struct Launches {
  Values values;  // one an argument
  std::size_t first_row = 0, count = 0;
};

/// Where the names of one formula come from: a column, or a size.
struct Binding {
  int column = -1;
  std::int64_t size = 0;
};

Sizes overridden(const KernelRules& rules, const Sizes& given) {
  Sizes sizes = rules.sizes;
  for (const auto& [key, value] : given) {
    const auto at = std::find_if(sizes.begin(), sizes.end(), [&](const auto& s) { return s.first == key; });
    if (at == sizes.end()) {
      std::vector<std::string_view> names;
      for (const auto& s : sizes) names.push_back(s.first);
      throw BadInput(fmt::format("kernel {} has no size '{}'; it has {}", rules.name, one_line(key),
                                 names.empty() ? "none" : join(names)));
    }
    at->second = value;
  }
  return sizes;
}

std::vector<Binding> bind(const SizeFormula& formula, const KernelArgument& a, const KernelRules& rules,
                          const Sizes& sizes, const ColumnTrace& trace) {
  std::vector<Binding> bindings;
  for (const std::string& name : formula.names()) {
    const auto column = std::find(trace.columns.begin(), trace.columns.end(), name);
    const auto size =
        std::find_if(sizes.begin(), sizes.end(), [&](const auto& s) { return s.first == name; });
    if (column != trace.columns.end())
      bindings.push_back({int(column - trace.columns.begin()), 0});
    else if (size != sizes.end())
      bindings.push_back({-1, size->second});
    else
      throw BadInput(
          fmt::format("argument {} of kernel {} depends on '{}', which is no column of the trace and no size "
                      "of the kernel",
                      a.name, rules.name, name));
  }
  return bindings;
}

std::vector<Launches> launches_of(const KernelRules& rules, const ColumnTrace& trace, const Sizes& sizes) {
  std::vector<std::vector<Binding>> bindings;
  for (const KernelArgument& a : rules.arguments)
    bindings.push_back(a.value ? bind(*a.value, a, rules, sizes, trace) : std::vector<Binding>{});
  std::map<Values, std::size_t> seen;  // row -> which launches
  std::vector<Launches> all;
  for (std::size_t row = 0; row < trace.rows.size(); ++row) {
    const auto [at, fresh] = seen.try_emplace(trace.rows[row], all.size());
    if (fresh) {
      Launches l{{}, row, 0};
      for (std::size_t i = 0; i < rules.arguments.size(); ++i) {
        Values names;
        for (const Binding& b : bindings[i])
          names.push_back(b.column < 0 ? b.size : trace.rows[row][std::size_t(b.column)]);
        try {
          l.values.push_back(rules.arguments[i].value ? rules.arguments[i].value->value(names) : 0);
        } catch (const BadInput& error) {
          throw BadInput(fmt::format("row {} of the trace, argument {}: {}", row + 1, rules.arguments[i].name,
                                     error.what()));
        }
      }
      all.push_back(std::move(l));
    }
    ++all[at->second].count;
  }
  return all;
}

/// Arguments in which it differs from the nearest of those before it.
std::vector<std::string> reasons(const KernelRules& rules, const JitVariant& v,
                                 const std::vector<JitVariant>& earlier) {
  std::optional<std::vector<std::string>> nearest;
  for (const JitVariant& e : earlier) {
    std::vector<std::string> differ;
    for (std::size_t i = 0; i < v.arguments.size(); ++i)
      if (v.arguments[i] != e.arguments[i]) differ.push_back(rules.arguments[i].name);
    if (!nearest || differ.size() < nearest->size()) nearest = std::move(differ);
  }
  return nearest.value_or(std::vector<std::string>{});
}

std::vector<JitVariant> compile(const KernelRules& rules, const std::vector<Launches>& launches) {
  std::map<std::vector<Specialised>, std::size_t> keys;
  std::vector<JitVariant> variants;
  for (const Launches& l : launches) {
    JitVariant v{{}, l.first_row, 0, {}};
    for (std::size_t i = 0; i < rules.arguments.size(); ++i)
      v.arguments.push_back(specialise(rules.arguments[i], l.values[i]));
    const auto [at, fresh] = keys.try_emplace(v.arguments, variants.size());
    if (fresh) {
      v.because = reasons(rules, v, variants);
      variants.push_back(std::move(v));
    }
    variants[at->second].launches += l.count;
  }
  return variants;
}

std::vector<std::string> varying(const KernelRules& rules, const std::vector<JitVariant>& variants) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < rules.arguments.size(); ++i)
    if (std::any_of(variants.begin(), variants.end(),
                    [&](const JitVariant& v) { return v.arguments[i] != variants.front().arguments[i]; }))
      names.push_back(rules.arguments[i].name);
  return names;
}

KernelRules without_annotations(KernelRules rules) {
  for (KernelArgument& a : rules.arguments) a.do_not_specialize = a.do_not_specialize_on_alignment = false;
  return rules;
}

/// How many variants are compiled with these remedies on top of what `rules` has.
std::size_t count_with(KernelRules rules, std::vector<Launches> launches, const Remedies& remedies) {
  for (const auto& [argument, remedy] : remedies) {
    const auto at = std::find_if(rules.arguments.begin(), rules.arguments.end(),
                                 [&](const auto& a) { return a.name == argument; });
    const auto i = std::size_t(at - rules.arguments.begin());
    if (remedy == JitRemedy::do_not_specialize) at->do_not_specialize = true;
    if (remedy == JitRemedy::do_not_specialize_on_alignment) at->do_not_specialize_on_alignment = true;
    if (remedy == JitRemedy::annotate_i64) at->type = "i64";
    if (remedy != JitRemedy::pad_to_16) continue;
    for (Launches& l : launches)
      if (l.values[i] <= std::numeric_limits<std::int64_t>::max() - 16)
        l.values[i] += (16 - (l.values[i] % 16 + 16) % 16) % 16;
  }
  return compile(rules, launches).size();
}

std::vector<JitRemedy> remedies_of(const KernelArgument& a) {
  using enum JitRemedy;
  if (a.kind == ArgumentKind::integer && a.type.empty())
    return {do_not_specialize, do_not_specialize_on_alignment, annotate_i64, pad_to_16};
  if (a.kind == ArgumentKind::integer || a.kind == ArgumentKind::pointer)
    return {do_not_specialize, do_not_specialize_on_alignment, pad_to_16};
  return {};  // a constexpr: nothing but making it an argument helps
}

/// The remedies that are left when every one that changes nothing is taken out again, last first: annotations
/// that help only together are found so, which adding one at a time would miss.
Remedies fewest(const KernelRules& rules, const std::vector<Launches>& launches,
                const std::vector<std::string>& names) {
  Remedies chosen;
  for (const KernelArgument& a : rules.arguments) {
    if (std::find(names.begin(), names.end(), a.name) == names.end()) continue;
    // An unaligned pointer costs vector loads if it is not specialised: the caller aligns it.
    if (a.kind == ArgumentKind::pointer) chosen.emplace_back(a.name, JitRemedy::pad_to_16);
    if (a.kind == ArgumentKind::integer) chosen.emplace_back(a.name, JitRemedy::do_not_specialize);
    if (a.kind == ArgumentKind::integer && a.type.empty())
      chosen.emplace_back(a.name, JitRemedy::annotate_i64);
  }
  const std::size_t best = count_with(rules, launches, chosen);
  for (std::size_t i = chosen.size(); i-- > 0;) {
    Remedies fewer = chosen;
    fewer.erase(fewer.begin() + std::ptrdiff_t(i));
    if (count_with(rules, launches, fewer) == best) chosen = std::move(fewer);
  }
  return chosen;
}

}  // namespace

std::string_view name(JitRemedy r) {
  switch (r) {
    case JitRemedy::do_not_specialize:
      return "do_not_specialize";
    case JitRemedy::do_not_specialize_on_alignment:
      return "do_not_specialize_on_alignment";
    case JitRemedy::annotate_i64:
      return "annotate_i64";
    case JitRemedy::pad_to_16:
      break;
  }
  return "pad_to_16";
}

TraceAudit audit_trace(const KernelRules& rules, const ColumnTrace& trace, const Sizes& given) {
  const std::vector<Launches> launches = launches_of(rules, trace, overridden(rules, given));
  const KernelRules bare = without_annotations(rules);
  TraceAudit audit;
  audit.rows = trace.rows.size();
  audit.before = compile(bare, launches);
  audit.after = compile(rules, launches);
  audit.varying = varying(bare, audit.before);
  audit.remaining = varying(rules, audit.after);
  for (const KernelArgument& a : rules.arguments) {
    if (std::find(audit.varying.begin(), audit.varying.end(), a.name) == audit.varying.end()) continue;
    for (const JitRemedy remedy : remedies_of(a)) {
      const RemedyEffect effect{a.name, remedy, count_with(bare, launches, {{a.name, remedy}}),
                                count_with(rules, launches, {{a.name, remedy}})};
      if (effect.alone < audit.before.size() || effect.added < audit.after.size())
        audit.effects.push_back(effect);
    }
  }
  audit.enough = fewest(rules, launches, audit.remaining);
  audit.left = count_with(rules, launches, audit.enough);
  return audit;
}

}  // namespace moe::harness
