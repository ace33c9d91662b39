#include "harness/jit/compiled_audit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace moe::harness {
namespace {

constexpr std::string_view kAligned = " %16";

/// One property over the variants of a group.
struct Column {
  std::string name;
  bool argument = true;
  std::vector<std::string> states;  // one a variant, "" = absent
  bool operator==(const Column&) const = default;
};

std::string type_of(const std::string& state) {
  return state.ends_with(kAligned) ? state.substr(0, state.size() - kAligned.size()) : state;
}

bool is_constant(const std::string& state) { return state.starts_with("= "); }
bool is_gone(const std::string& state) { return state.empty() || state == "= 1" || state == "= None"; }
bool is_width(const std::string& type) { return type == "i32" || type == "i64" || type == "u64"; }

/// Columns in the order of their first appearance.
std::vector<Column> columns_of(const std::vector<const CompiledKernel*>& group) {
  std::vector<Column> columns;
  const auto put = [&](std::size_t i, const std::string& name, bool argument, const std::string& state) {
    auto at = std::find_if(columns.begin(), columns.end(),
                           [&](const Column& c) { return c.name == name && c.argument == argument; });
    if (at == columns.end())
      at = columns.insert(at, {name, argument, std::vector<std::string>(group.size())});
    at->states[i] = state;
  };
  for (std::size_t i = 0; i < group.size(); ++i) {
    for (const auto& [name, state] : group[i]->arguments) put(i, name, true, state);
    for (const auto& [name, state] : group[i]->options) put(i, name, false, state);
    put(i, "source line", false, group[i]->place);
  }
  return columns;
}

/// A log names arguments beside their types and numbers those of the key ("#6"): where the types of just one
/// name run as those of a number do, they are the same argument, and the number's alignment is the name's.
void merge_numbers(std::vector<Column>& columns) {
  for (std::size_t i = columns.size(); i-- > 0;) {
    if (!columns[i].name.starts_with('#')) continue;
    std::vector<std::string> types;
    for (const std::string& state : columns[i].states) types.push_back(type_of(state));
    Column* same = nullptr;
    int matches = 0;
    for (Column& c : columns)
      if (c.argument && !c.name.starts_with('#') && c.states == types) same = &c, ++matches;
    const bool constant = is_constant(types.front()) && std::set(types.begin(), types.end()).size() == 1;
    const bool cut =
        std::find(types.begin(), types.end(), "") != types.end();  // a line's key ended before it
    if (matches == 1 && !cut) same->states = columns[i].states;
    if (matches == 1 || constant || cut) columns.erase(columns.begin() + std::ptrdiff_t(i));
  }
}

/// How many variants are told apart by the columns that `use` takes.
template <class Use>
std::size_t distinct(const std::vector<Column>& columns, std::size_t variants, Use use) {
  std::set<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < variants; ++i) {
    std::vector<std::string> row;
    for (const Column& c : columns) row.push_back(use(c, c.states[i]));
    rows.insert(std::move(row));
  }
  return rows.size();
}

/// What of a state is left when a cause is ended.
std::string without(CauseKind kind, const std::string& state) {
  switch (kind) {
    case CauseKind::alignment:
    case CauseKind::pointer_alignment:
      return type_of(state);
    case CauseKind::width:
      return state.starts_with("i32") || state.starts_with("i64") || state.starts_with("u64")
                 ? "int" + state.substr(3)
                 : state;
    case CauseKind::folded:  // as an argument that is not specialised
      return state.starts_with('*') ? state : "argument";
    default:
      return "";
  }
}

std::string advice_for(CauseKind kind, const std::string& property) {
  const std::string what = property.starts_with('#') ? "argument " + property.substr(1) : property;
  switch (kind) {
    case CauseKind::folded:
      return fmt::format("was 1 (or None) once: do_not_specialize {}", what);
    case CauseKind::alignment:
      return fmt::format("a multiple of 16 or not: do_not_specialize {}, or pad it to 16", what);
    case CauseKind::pointer_alignment:
      return fmt::format(
          "a tensor that begins at 16 bytes or not: align it (do_not_specialize_on_alignment {} would "
          "cost the vector loads)",
          what);
    case CauseKind::width:
      return fmt::format("32 or 64 bits wide: annotate {} as tl.int64", what);
    case CauseKind::type:
      return "different types, or a tensor and None: two uses, not one compiled twice";
    case CauseKind::constant:
      return "a constexpr with several values: an argument, or fewer values";
    case CauseKind::option:
      return "launched with different options, as an autotuner does";
    case CauseKind::version:
      return "two versions or GPUs share the folder: the older one's are dead";
    case CauseKind::moved:
      break;
  }
  return "its line in the source moved: an edited or upgraded file is compiled again";
}

std::vector<CauseKind> kinds_of(const Column& c) {
  const std::set<std::string> states(c.states.begin(), c.states.end());
  if (states.size() < 2) return {};
  if (!c.argument) {
    if (c.name == "source line") return {CauseKind::moved};
    return {c.name == "triton_version" || c.name == "arch" ? CauseKind::version : CauseKind::option};
  }
  std::set<std::string> types;
  bool gone = false, constants = true, pointer = false, aligned = false, unaligned = false;
  for (const std::string& state : states) {
    constants = constants && (is_constant(state) || state.empty());
    pointer = pointer || state.starts_with('*');
    if (is_gone(state)) {
      gone = true;
      continue;
    }
    types.insert(type_of(state));
    (type_of(state) != state ? aligned : unaligned) = true;
  }
  if (constants) return {CauseKind::constant};
  if (pointer && gone) return {CauseKind::type};  // a tensor or None
  std::vector<CauseKind> kinds;
  if (gone) kinds.push_back(CauseKind::folded);
  if (types.size() > 1)
    kinds.push_back(std::all_of(types.begin(), types.end(), is_width) ? CauseKind::width : CauseKind::type);
  if (aligned && unaligned) kinds.push_back(pointer ? CauseKind::pointer_alignment : CauseKind::alignment);
  return kinds;
}

/// An annotation or padding ends it; the others are told only.
bool curable(CauseKind k) {
  return k == CauseKind::folded || k == CauseKind::alignment || k == CauseKind::pointer_alignment ||
         k == CauseKind::width;
}

void find_causes(CompiledGroup& g, const std::vector<Column>& columns) {
  std::map<std::string, std::vector<CauseKind>> cured;
  for (const Column& c : columns)
    for (const CauseKind kind : kinds_of(c)) {
      const std::set<std::string> states(c.states.begin(), c.states.end());
      CompiledCause cause{c.name, kind, {states.begin(), states.end()}, advice_for(kind, c.name), 0};
      cause.left = distinct(columns, g.compiled, [&](const Column& other, const std::string& state) {
        return other == c ? without(kind, state) : state;
      });
      if (curable(kind)) cured[c.name].push_back(kind);
      g.causes.push_back(std::move(cause));
    }
  g.left = distinct(columns, g.compiled, [&](const Column& c, std::string state) {
    if (const auto at = cured.find(c.name); c.argument && at != cured.end())
      for (const CauseKind kind : at->second) state = without(kind, state);
    return state;
  });
}

CompiledGroup audit_group(const std::vector<const CompiledKernel*>& kernels,
                          std::optional<double> compile_s) {
  CompiledGroup g;
  g.function = kernels.front()->function;
  g.file = kernels.front()->place.substr(0, kernels.front()->place.find(':'));
  g.compiled = kernels.size();
  std::vector<Column> columns = columns_of(kernels);
  merge_numbers(columns);
  g.distinct = distinct(columns, g.compiled, [](const Column&, const std::string& state) { return state; });
  find_causes(g, columns);
  double seconds = 0;
  bool told = true;
  for (const CompiledKernel* k : kernels) {
    g.arguments_known = g.arguments_known && k->arguments_known;
    g.shortened = g.shortened || k->shortened;
    const std::optional<double> one = k->compile_s ? k->compile_s : compile_s;
    seconds += one.value_or(0);
    told = told && one;
  }
  if (told) {
    g.seconds = seconds;
    g.avoidable_s = seconds * double(g.distinct - g.left) / double(g.compiled);
  }
  return g;
}

}  // namespace

std::string_view name(CauseKind k) {
  static constexpr std::string_view kNames[] = {"folded",   "alignment", "pointer_alignment", "width", "type",
                                                "constant", "option",    "version",           "moved"};
  return kNames[static_cast<int>(k)];
}

std::vector<CompiledGroup> audit_compiled(const std::vector<CompiledKernel>& kernels,
                                          std::optional<double> compile_s) {
  std::map<std::pair<std::string, std::string>, std::vector<const CompiledKernel*>> by_kernel;
  for (const CompiledKernel& k : kernels)
    by_kernel[{k.function, k.place.substr(0, k.place.find(':'))}].push_back(&k);
  std::vector<CompiledGroup> groups;
  for (const auto& [key, group] : by_kernel) groups.push_back(audit_group(group, compile_s));
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.compiled > b.compiled; });
  return groups;
}

}  // namespace moe::harness
