// What audit-jit wrote (report FILE): a census that is accepted can be drawn.
#include "harness/html/charts.hpp"
#include "tests/fuzz/fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace moe;
  fuzz::accepted([&] {
    const harness::CompileCensus census = harness::census_from_json(fuzz::as_text(bytes, size), "audit.json");
    for (const harness::Figure& figure : harness::census_charts({census})) harness::figure_html(figure);
  });
  return 0;
}
