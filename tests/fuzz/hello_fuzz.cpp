// What a foreign child says of itself: kernels that are accepted have names, and declared Semantics that are
// read.
#include <nlohmann/json.hpp>

#include "harness/worker_protocol.hpp"
#include "tests/fuzz/fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace moe;
  const auto answer = nlohmann::ordered_json::parse(fuzz::as_text(bytes, size), nullptr, false);
  if (!answer.is_object()) return 0;  // no answer: that is said before
  fuzz::accepted([&] {
    for (const harness::WorkerKernel& kernel : harness::read_hello(answer).kernels) {
      fuzz::require(!kernel.name.empty(), "a kernel has a name");
      if (kernel.semantics && !kernel.quants.empty())
        harness::read_semantics(nlohmann::ordered_json::parse(*kernel.semantics),
                                {.kind = kernel.quants.front()});
    }
  });
  return 0;
}
