#include "harness/adopt_kernel.hpp"

#include <fmt/format.h>

#include "fixtures/files/models.hpp"

namespace moe::harness {
namespace {

/// The one kernel that is meant; null where there are several or none.
const KernelInfo* only_kernel(const ProblemOptions& o, const std::vector<KernelInfo>& kernels) {
  for (const KernelInfo& k : kernels)
    if (k.name == o.choice.kernel) return &k;
  return kernels.size() == 1 ? &kernels.front() : nullptr;
}

QuantScheme scheme_of(const ProblemOptions& o) {
  return o.model.empty() ? QuantScheme{} : load_model(o.model).quant;
}

}  // namespace

std::string adopt_kernel(ProblemOptions& o, const std::vector<KernelInfo>& kernels) {
  const KernelInfo* kernel = only_kernel(o, kernels);
  if (o.replay || kernel == nullptr) return "";
  std::string filled;
  const auto say = [&](const char* what, std::string_view word) {
    filled += fmt::format("{}{} {}", filled.empty() ? "" : ", ", what, word);
  };
  if (!o.op_given && kernel->ops.size() == 1) {
    o.op = kernel->ops.front();
    o.op_given = true;
    say("op", name(o.op));
  }
  if (o.op == Op::grouped_gemm && !o.contract_given && kernel->contracts.size() == 1) {
    o.contract = kernel->contracts.front();
    say("contract", name(o.contract));
  }
  if (!o.quant && kernel->quants.size() == 1) {
    const QuantScheme usual = scheme_of(o);
    o.quant = usual;
    if (usual.kind != kernel->quants.front()) o.quant = QuantScheme{}, o.quant->kind = kernel->quants.front();
    if (!filled.empty() || o.quant->kind != usual.kind) say("quant", name(o.quant->kind));
  }
  return filled.empty() ? "" : fmt::format("kernel {}: {}", kernel->name, filled);
}

}  // namespace moe::harness
