// Traces of launches (audit-jit --trace FILE): rows that are accepted are as wide as the header.
#include "fixtures/files/column_trace.hpp"
#include "tests/fuzz/fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace moe;
  const fuzz::MemoryFile file(bytes, size);
  fuzz::accepted([&] {
    const ColumnTrace trace = read_column_trace(file.path());
    fuzz::require(!trace.columns.empty() && !trace.rows.empty(), "a trace has columns and rows");
    for (const auto& row : trace.rows) fuzz::require(row.size() == trace.columns.size(), "a value a column");
  });
  return 0;
}
