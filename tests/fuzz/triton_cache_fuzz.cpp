// A folder of a Triton cache (audit-jit --cache DIR): the first line is NAME.json, the rest NAME.ttir.
#include "fixtures/files/compiled_kernels.hpp"
#include "harness/jit/compiled_audit.hpp"
#include "tests/fuzz/fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace moe;
  const std::string_view text = fuzz::as_text(bytes, size);
  const std::size_t end = std::min(text.find('\n'), text.size());
  fuzz::accepted([&] {
    const CompiledKernel k =
        parse_cached_kernel(text.substr(0, end), text.substr(std::min(end + 1, size)), "input");
    const auto groups = harness::audit_compiled({k, k}, {});
    fuzz::require(groups.size() == 1 && groups[0].distinct == 1 && groups[0].causes.empty(),
                  "twice the same is one variant");
  });
  return 0;
}
