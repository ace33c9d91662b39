#include "harness/value_words.hpp"

#include "fixtures/files/embedded.hpp"
#include "fixtures/files/models.hpp"
#include "fixtures/problem/problem.hpp"
#include "fixtures/problem/semantics.hpp"
#include "fixtures/problem/verdict.hpp"

namespace moe::harness {
namespace {

using Words = std::vector<std::string>;

template <class Enum>
Words names_up_to(Enum last) {
  Words words;
  for (int i = 0; i <= int(last); ++i) words.emplace_back(name(Enum(i)));
  return words;
}

Words plus(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words models() {
  Words words;
  for (const ModelPreset& m : model_presets()) words.push_back(m.name);
  return words;
}

Words hardware() {
  Words words;
  constexpr std::string_view folder = "hardware/", ending = ".json";
  for (const EmbeddedFile& file : embedded_files())
    if (file.name.starts_with(folder))
      words.emplace_back(file.name.substr(folder.size(), file.name.size() - folder.size() - ending.size()));
  return words;
}

Words semantics() {
  Words words;
  for (const std::string_view preset : semantics_presets()) words.emplace_back(preset);
  return words;
}

struct Entry {
  const char* option;
  Words (*words)();
};

const Words kLayoutNames{"normal_mma", "normal_wgmma", "swap_ab"};

const Entry kEntries[] = {
    {"model", models},
    {"hardware", hardware},
    {"semantics", semantics},
    {"op", [] { return names_up_to(Op::inv_rope_quant); }},
    {"contract", [] { return names_up_to(Contract::offsets); }},
    {"quant", [] { return plus(names_up_to(QuantKind::block128), {"block128:ue8m0"}); }},
    {"data", [] { return names_up_to(DataMode::file); }},
    {"layout",
     [] {
       return plus(kLayoutNames, {"both", "all"});
     }},
    {"before-layout", [] { return kLayoutNames; }},
    {"after-layout", [] { return kLayoutNames; }},
    {"executor",
     [] {
       return Words{"emulated", "cuda", "reference", "process:"};
     }},
    {"before",
     [] {
       return Words{"emulated", "cuda", "reference", "process:"};
     }},
    {"after",
     [] {
       return Words{"emulated", "cuda", "reference", "process:"};
     }},
    {"load", [] { return Words{"uniform", "zipf:1.2", "hot:0.5", "balanced", "empty:0.25", "trace:"}; }},
    {"gemm",
     [] {
       return Words{"1", "2"};
     }},
    {"suite",
     [] {
       return Words{"corpus", "large"};
     }},
    {"properties", [] { return Words{"all"}; }},
    {"allow", [] { return Words{"mistrusted"}; }},
    {"fail-on", [] { return Words{"slow", "ambiguous", "off", "outside", "refused", "skipped"}; }},
    {"family", [] { return Words{"triton_fused_moe"}; }},
    {"space", [] { return Words{"vllm"}; }},
    {"kernel",
     [] {
       return Words{"moeproof", "triton_fused_moe", "inv_rope_quant"};
     }},
};

bool names_a_path(const std::string& value) {
  return value.find("FILE") != std::string::npos || value.find("DIR") != std::string::npos ||
         value == "PROGRAM";
}

}  // namespace

ValueWords value_words(const OptionRow& row) {
  ValueWords found{{}, names_a_path(row.value)};
  for (const Entry& e : kEntries)
    if (row.name == e.option) found.words = e.words();
  return found;
}

ValueWords value_words(const Command& c) {
  if (c.name == "list")
    return {{"models", "hardware", "kernels", "layouts", "ops", "properties", "jit-kernels"}, false};
  if (c.name == "completion") return {{"bash", "zsh", "fish"}, false};
  return {{}, c.most_words > 0};
}

}  // namespace moe::harness
