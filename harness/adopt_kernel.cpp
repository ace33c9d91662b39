#include "harness/adopt_kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "fixtures/files/models.hpp"
#include "fixtures/problem/errors.hpp"

namespace moe::harness {
namespace {

using Kernels = std::vector<const KernelInfo*>;

/// A list of names ends behind so many.
constexpr std::size_t kNamed = 8;

template <class Word>
bool any_or(const std::vector<Word>& all, Word one) {
  return all.empty() || std::find(all.begin(), all.end(), one) != all.end();
}

/// "first, second and 52 more"; with their ops where those are asked for.
std::string names_of(const Kernels& kernels, bool with_ops) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kernels.size(), kNamed); ++i) {
    text += (i > 0 ? ", " : "") + kernels[i]->name;
    if (!with_ops) continue;
    std::string ops;
    for (const Op op : kernels[i]->ops) ops += fmt::format("{}{}", ops.empty() ? "" : " ", name(op));
    text += fmt::format(" ({})", ops.empty() ? "any op" : ops);
  }
  return kernels.size() > kNamed ? fmt::format("{} and {} more", text, kernels.size() - kNamed) : text;
}

/// The one that is named or alone, else those that fit what is given.
Kernels meant(const ProblemOptions& o, const std::vector<KernelInfo>& kernels) {
  Kernels fitting;
  for (const KernelInfo& k : kernels) {
    if (k.name == o.choice.kernel || kernels.size() == 1) return {&k};
    const bool fits = (!o.op_given || any_or(k.ops, o.op)) &&
                      (!o.contract_given || o.op != Op::grouped_gemm || any_or(k.contracts, o.contract)) &&
                      (!o.quant || any_or(k.quants, o.quant->kind));
    if (fits) fitting.push_back(&k);
  }
  return fitting;
}

/// Keeps those of several for which `stays` holds.
template <class Predicate>
void keep(Kernels& kernels, Predicate stays) {
  if (kernels.size() > 1) std::erase_if(kernels, [&](const KernelInfo* k) { return !stays(*k); });
}

/// The single word that all kernels have in the list, if they do.
template <class Word>
std::optional<Word> agreed(const Kernels& kernels, std::vector<Word> KernelInfo::*list) {
  for (const KernelInfo* k : kernels)
    if ((k->*list).size() != 1 || (k->*list).front() != (kernels.front()->*list).front()) return std::nullopt;
  return (kernels.front()->*list).front();
}

void require_named(const ProblemOptions& o, const std::vector<KernelInfo>& kernels,
                   const std::string& option) {
  if (o.choice.kernel == Choice{}.kernel || kernels.empty()) return;
  Kernels all;
  for (const KernelInfo& k : kernels) {
    if (k.name == o.choice.kernel) return;
    all.push_back(&k);
  }
  throw BadInput(fmt::format("{}: the process has no kernel '{}'; it has {}", option, o.choice.kernel,
                             names_of(all, true)));
}

/// Of several kernels none of which takes the default there is nothing to choose one by.
void require_choice(const Kernels& before, const Kernels& fitting, const char* what,
                    const std::string& option) {
  if (!fitting.empty()) return;
  throw BadInput(fmt::format("the process serves {} kernels of several {}s: {}; name one by {}, or say --{}",
                             before.size(), what, names_of(before, std::string_view(what) == "op"), option,
                             what));
}

QuantScheme scheme_of(const ProblemOptions& o) {
  return o.model.empty() ? QuantScheme{} : load_model(o.model).quant;
}

/// What was put into the options, in words.
struct Filled {
  std::string text;
  void say(const char* what, std::string_view word) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, word);
  }
};

void fill_op(ProblemOptions& o, const Kernels& kernels, Filled& filled) {
  const auto op = agreed(kernels, &KernelInfo::ops);
  if (!op || o.op_given) return;
  o.op = *op;
  o.op_given = true;
  filled.say("op", name(o.op));
}

void fill_contract(ProblemOptions& o, const Kernels& kernels, Filled& filled) {
  const auto contract = agreed(kernels, &KernelInfo::contracts);
  if (o.op != Op::grouped_gemm || o.contract_given || !contract) return;
  o.contract = *contract;
  filled.say("contract", name(o.contract));
}

void fill_quant(ProblemOptions& o, const Kernels& kernels, Filled& filled) {
  const auto kind = agreed(kernels, &KernelInfo::quants);
  if (!kind || o.quant) return;
  const QuantScheme usual = scheme_of(o);
  o.quant = usual;
  if (usual.kind != *kind) o.quant = QuantScheme{}, o.quant->kind = *kind;
  if (!filled.text.empty() || o.quant->kind != usual.kind) filled.say("quant", name(o.quant->kind));
}

/// The contract and scheme of `fitting`, whose op is settled; leaves those that take them.
void settle(ProblemOptions& o, Kernels& fitting, const std::string& option, Filled& filled) {
  fill_contract(o, fitting, filled);
  if (const Kernels before = fitting; o.op == Op::grouped_gemm) {
    keep(fitting, [&](const KernelInfo& k) { return any_or(k.contracts, o.contract); });
    require_choice(before, fitting, "contract", option);
  }
  fill_quant(o, fitting, filled);
  const QuantKind kind = o.quant ? o.quant->kind : scheme_of(o).kind;
  keep(fitting, [&](const KernelInfo& k) { return any_or(k.quants, kind); });
}

}  // namespace

bool takes(const KernelInfo& kernel, const Problem& p) {
  return any_or(kernel.ops, p.op) && (p.op != Op::grouped_gemm || any_or(kernel.contracts, p.contract)) &&
         any_or(kernel.quants, p.quant.kind);
}

std::string adopt_kernel(ProblemOptions& o, const std::vector<KernelInfo>& kernels, const std::string& option,
                         bool any_op) {
  if (o.replay) return "";
  require_named(o, kernels, option);
  Kernels fitting = meant(o, kernels);
  if (fitting.empty()) return "";
  Filled filled;
  fill_op(o, fitting, filled);
  if (any_op && !o.op_given) return "";
  const Kernels of_all_ops = fitting;
  keep(fitting, [&](const KernelInfo& k) { return any_or(k.ops, o.op); });
  require_choice(of_all_ops, fitting, "op", option);
  const Kernels of_the_op = fitting;
  if (any_op) fitting.resize(1);  // whose contract and scheme all cases have
  settle(o, fitting, option, filled);
  if (fitting.empty()) return "";
  o.choice.kernel = fitting.front()->name;
  const Kernels& choices = any_op ? of_the_op : fitting;
  if (choices.size() > 1)
    filled.text += fmt::format("{}the first of {}: {} chooses", filled.text.empty() ? "" : "; ",
                               names_of(choices, false), option);
  return filled.text.empty() ? "" : fmt::format("kernel {}: {}", o.choice.kernel, filled.text);
}

}  // namespace moe::harness
