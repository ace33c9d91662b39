// Models (--model FILE): Hugging Face's config.json and the presets' own form. What is accepted has a layer
// in it.
#include "fixtures/files/hf_config.hpp"
#include "fixtures/files/models.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

void require_layer(const moe::MoeShape& shape) {
  moe::fuzz::require(shape.hidden > 0 && shape.intermediate > 0, "sizes are positive");
  moe::fuzz::require(shape.top_k > 0 && shape.experts > 0,
                     "there are experts");  // how many fit: the problem's check
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace moe;
  const std::string_view text = fuzz::as_text(bytes, size);
  fuzz::accepted([&] { require_layer(parse_hf_config(text, "config.json").shape); });
  fuzz::accepted([&] { require_layer(parse_model(text, "model.json").shape); });
  return 0;
}
