#include <fmt/format.h>

#include <ostream>

#include "fixtures/files/embedded.hpp"
#include "fixtures/files/kernel_rules.hpp"
#include "fixtures/files/models.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/cli.hpp"
#include "harness/executors.hpp"
#include "harness/properties/property.hpp"

namespace moe::harness {
namespace {

/// Names of the embedded files below `folder`, without their ending.
std::vector<std::string> embedded_names(std::string_view folder, std::string_view ending) {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_files())
    if (file.name.starts_with(folder) && file.name.ends_with(ending))
      names.emplace_back(file.name.substr(folder.size(), file.name.size() - folder.size() - ending.size()));
  return names;
}

void list_models(std::ostream& out) {
  for (const ModelPreset& m : model_presets()) {
    const MoeShape& s = m.shape;
    out << fmt::format("{:<20} hidden {:>5} inter {:>5} experts {:>3} top {:<2} {}\n", m.name, s.hidden,
                       s.intermediate, s.experts, s.top_k, moe::name(m.quant.kind));
  }
}

void list_hardware(std::ostream& out) {
  for (const std::string& name : embedded_names("hardware/", ".json")) out << name << "\n";
}

void list_kernels(std::ostream& out) {
  for (const char* name : {"emulated", "cuda", "reference"}) {
    const ExecutorChoice chosen = choose_executor({name});
    if (chosen.executor == nullptr) {
      out << fmt::format("{}: not available: {}\n", name, chosen.why_not);
      continue;
    }
    for (const KernelInfo& kernel : chosen.executor->kernels()) {
      std::vector<std::string_view> ops;
      for (const Op op : kernel.ops) ops.push_back(moe::name(op));
      out << fmt::format("{}: {} ({}): {}\n", name, kernel.name, moe::name(kernel.family), join(ops));
    }
  }
}

void list_layouts(std::ostream& out) {
  out << "normal_mma    tokens are rows of f16 mma.sync, FP8 converted; 16 or 32 tokens a block\n"
         "normal_wgmma  tokens padded to the 64-row M of wgmma; 64 or 128 tokens a block\n"
         "swap_ab       weights are M, tokens are N of wgmma; 8, 16, 32, 64 or 128 tokens a block\n"
         "both          swap_ab beside what it replaces: normal_mma below 64 tokens a block, normal_wgmma "
         "from 64\n"
         "all           the three\n";
}

void list_ops(std::ostream& out) {
  out << "topk          router: scores, groups, the top_k experts of a token and their weights\n"
         "align         rows of each expert, padded to whole blocks\n"
         "quantize      bf16 to FP8 codes and scales\n"
         "grouped_gemm  one GEMM an expert (--gemm 1|2) under --contract routed, contiguous, masked or "
         "offsets\n"
         "act_quant     activation of GEMM 1's output and its quantisation\n"
         "combine       weighted sum of a token's experts\n"
         "moe_layer     all of them, from router logits to the combined output\n"
         "inv_rope_quant inverse RoPE of attention heads and their quantisation, in front of the output "
         "projection\n";
}

void list_properties(std::ostream& out) {
  for (const Property& p : properties())
    out << fmt::format("{:<4} {:<8} {}\n              if: {}\n              catches: {}\n", p.id,
                       name(p.kind), p.statement, p.conditions.empty() ? "always" : p.conditions, p.catches);
  out << "not tried by --properties:\n";
  for (const OtherProperty& p : other_properties())
    out << fmt::format("{:<4} {} ({})\n", p.id, p.statement, p.where);
}

void list_jit_kernels(std::ostream& out) {
  for (const KernelRules& k : kernel_rules_presets())
    out << fmt::format("{:<16} {} arguments; {}\n", k.name, k.arguments.size(), k.source);
}

struct Topic {
  const char* name;
  void (*list)(std::ostream&);
};
constexpr Topic kTopics[] = {
    {"models", list_models},          {"hardware", list_hardware}, {"kernels", list_kernels},
    {"layouts", list_layouts},        {"ops", list_ops},           {"properties", list_properties},
    {"jit-kernels", list_jit_kernels}};

}  // namespace

int cmd_list(const Options& o, const Streams& s) {
  bool found = false;
  for (const Topic& topic : kTopics) {
    if (!o.words.empty() && o.words[0] != topic.name) continue;
    if (o.words.empty()) s.out << (found ? "\n" : "") << topic.name << "\n";
    topic.list(s.out);
    found = true;
  }
  if (!found)
    throw BadInput(fmt::format(
        "'{}' is no topic; write models, hardware, kernels, layouts, ops or properties", o.words[0]));
  return 0;
}

}  // namespace moe::harness
