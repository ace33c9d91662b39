// Tuned tables and tables of measured times (lint, compare --against, --tuned): what is accepted can be used.
#include <cmath>

#include "fixtures/files/csv.hpp"
#include "fixtures/files/gzip.hpp"
#include "fixtures/files/tuned_table.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

void require_usable(const moe::TunedTable& table) {
  moe::fuzz::require(!table.entries.empty(), "a table has an entry");
  for (const moe::TunedEntry& e : table.entries) {
    moe::fuzz::require(e.tokens > 0 && e.tile.block_m > 0 && e.tile.stages > 0,
                       "batches and sides are positive");
    moe::fuzz::require(table.nearest(e.tokens).tokens == e.tokens, "a batch finds itself");
  }
  const moe::TunedTable back = moe::parse_tuned_table(moe::to_json(table), table.name, "back");
  moe::fuzz::require(back.nearest(7).tokens > 0, "what is written is read");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace moe;
  const std::string_view text = fuzz::as_text(bytes, size);
  fuzz::accepted([&] { require_usable(parse_tuned_table(text, {}, "t.json")); });
  fuzz::accepted([&] {
    const TunedName name = parse_tuned_name(text);
    fuzz::require(parse_tuned_name(to_file_name(name)) == name, "a name comes back");
  });
  fuzz::accepted([&] {
    for (const TunedTable& table : parse_tuned_csv(text, "t.csv"))
      fuzz::require(!table.entries.empty(), "a table has an entry");
  });
  fuzz::accepted([&] {
    const Csv csv = parse_csv(text, "t.csv");
    for (const Csv::Row& row : csv.rows)
      fuzz::require(row.fields.size() == csv.header.size(), "rows are as wide");
  });
  fuzz::accepted([&] { gunzip(text, "t.gz", 1 << 20); });
  return 0;
}
