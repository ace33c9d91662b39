// Reports that `compare`, `report` and `merge` read: one that is accepted can be written again, that is
// accepted too, and it makes a page.
#include <nlohmann/json.hpp>

#include "harness/html/page.hpp"
#include "harness/json_codec.hpp"
#include "tests/fuzz/fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace moe;
  fuzz::accepted([&] {
    const harness::Report read = harness::report_from_json(fuzz::as_text(bytes, size), "report.json");
    using Json = nlohmann::ordered_json;
    const std::string text = harness::to_json(read).dump(-1, ' ', false, Json::error_handler_t::replace);
    fuzz::require(fuzz::accepted([&] { harness::report_from_json(text, "report.json"); }),
                  "a written report is accepted");
    fuzz::require(harness::html_page({read, {}, {}}).ends_with("</html>\n"), "a page is whole");
  });
  return 0;
}
