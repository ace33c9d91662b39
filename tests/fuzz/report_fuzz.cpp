// Reports that `compare` reads: one that is accepted can be written again, and that is accepted too.
#include <nlohmann/json.hpp>

#include "harness/json_codec.hpp"
#include "tests/fuzz/fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace moe;
  fuzz::accepted([&] {
    const harness::Report read = harness::report_from_json(fuzz::as_text(bytes, size), "report.json");
    const std::string text = harness::to_json(read).dump();
    fuzz::require(fuzz::accepted([&] { harness::report_from_json(text, "report.json"); }),
                  "a written report is accepted");
  });
  return 0;
}
