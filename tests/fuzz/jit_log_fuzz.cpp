// Logs with lines of vLLM's JIT monitor (audit-jit --log FILE).
#include "fixtures/files/compiled_kernels.hpp"
#include "harness/jit/compiled_audit.hpp"
#include "tests/fuzz/fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace moe;
  fuzz::accepted([&] {
    const CompiledKernels found = parse_jit_log(fuzz::as_text(bytes, size), "input");
    std::size_t compiled = 0;
    for (const harness::CompiledGroup& g : harness::audit_compiled(found.kernels, 0.1)) {
      fuzz::require(g.left >= 1 && g.left <= g.distinct && g.distinct <= g.compiled,
                    "variants are no more than compilations");
      compiled += g.compiled;
    }
    fuzz::require(compiled == found.kernels.size(), "every compilation belongs to a kernel");
  });
  return 0;
}
