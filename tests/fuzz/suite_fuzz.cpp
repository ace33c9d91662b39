// Files of Case lines (--suite FILE): every case that is accepted prints and parses back.
#include "harness/case_file.hpp"
#include "tests/fuzz/fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace moe;
  fuzz::accepted([&] {
    for (const harness::FileCase& file_case : harness::parse_cases(fuzz::as_text(bytes, size), "suite.txt"))
      fuzz::require(parse_case(to_line(file_case.c)) == file_case.c, "a case of a suite is its line");
  });
  return 0;
}
