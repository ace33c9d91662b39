// Journals of long runs (--resume, report FILE): what is accepted becomes a report that is written and read.
#include <nlohmann/json.hpp>

#include "harness/journal.hpp"
#include "harness/json_codec.hpp"
#include "tests/fuzz/fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace moe;
  const fuzz::MemoryFile file(bytes, size);
  fuzz::accepted([&] {
    const harness::JournalContent content = harness::read_journal(file.path());
    fuzz::require(content.whole_bytes <= size, "whole lines lie inside the file");
    using Json = nlohmann::ordered_json;
    const std::string text =
        harness::to_json(harness::report_of(content)).dump(-1, ' ', false, Json::error_handler_t::replace);
    fuzz::require(fuzz::accepted([&] { harness::report_from_json(text, "report.json"); }),
                  "a journal's report is accepted");
  });
  return 0;
}
