// Cards (--hardware FILE): one that is accepted writes and reads back to an equal one.
#include "fixtures/files/hardware_file.hpp"
#include "tests/fuzz/fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace moe;
  fuzz::accepted([&] {
    const Hardware read = parse_hardware(fuzz::as_text(bytes, size), "card.json");
    const std::string text = to_json(read);
    Hardware again;
    fuzz::require(fuzz::accepted([&] { again = parse_hardware(text, "card.json"); }),
                  "a written card is accepted");
    fuzz::require(to_json(again) == text, "a written card reads back to the same");
  });
  return 0;
}
