// Case lines (--case, suites): a line that is accepted prints and parses back to the same Case, and means the
// same.
#include "fixtures/problem/case.hpp"
#include "tests/fuzz/fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace moe;
  fuzz::accepted([&] {
    const Case read = parse_case(fuzz::as_text(bytes, size));
    const std::string line = to_line(read);
    Case again;
    fuzz::require(fuzz::accepted([&] { again = parse_case(line); }), "a printed case is accepted");
    fuzz::require(again == read, "a printed case parses back to the same");
    fuzz::require(to_line(again) == line, "and prints the same");
  });
  return 0;
}
