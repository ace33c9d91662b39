// What Nsight Compute printed, or a table of it (compare --ncu FILE): counts that a comparison can use.
#include <cmath>
#include <set>

#include "harness/ncu/ncu_file.hpp"
#include "tests/fuzz/fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace moe;
  fuzz::accepted([&] {
    std::set<int> ids;
    for (const harness::NcuLaunch& launch : harness::parse_ncu(fuzz::as_text(bytes, size), "ncu.csv")) {
      fuzz::require(launch.id >= 0 && ids.insert(launch.id).second, "a launch is listed once");
      for (const auto& [name, value] : launch.metrics) {
        fuzz::require(std::isfinite(value) && value >= 0, "a count is a number of 0 or more");
        fuzz::require(launch.value(name) == value, "a metric is found by its name");
      }
    }
  });
  return 0;
}
