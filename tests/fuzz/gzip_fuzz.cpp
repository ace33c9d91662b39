// Packed tables (FILE.csv.gz of compare --against, --tuned, route): what is unpacked keeps to its limit.
#include <algorithm>

#include "fixtures/files/gzip.hpp"
#include "tests/fuzz/fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace moe;
  constexpr std::size_t kMost = 1 << 18;
  const std::string_view packed = fuzz::as_text(bytes, size);
  std::string text;
  if (!fuzz::accepted([&] { text = gunzip(packed, "t.gz", kMost); })) return 0;
  fuzz::require(text.size() <= kMost, "no more is unpacked than is allowed");
  fuzz::require(is_gzip(packed), "what is unpacked was packed");
  const std::size_t enough = std::max(text.size(), packed.size());
  fuzz::require(
      fuzz::accepted([&] { fuzz::require(gunzip(packed, "t.gz", enough) == text, "twice the same"); }),
      "the limit itself is allowed");
  if (text.size() > packed.size())
    fuzz::require(!fuzz::accepted([&] { gunzip(packed, "t.gz", text.size() - 1); }),
                  "one byte above it is not");
  return 0;
}
