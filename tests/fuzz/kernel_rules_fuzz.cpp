// Kernel rules (audit-jit --kernel FILE): what is accepted has names and can be audited.
#include "fixtures/files/kernel_rules.hpp"
#include "harness/jit/trace_audit.hpp"
#include "tests/fuzz/fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace moe;
  fuzz::accepted([&] {
    const KernelRules rules = parse_kernel_rules(fuzz::as_text(bytes, size), "input");
    fuzz::require(!rules.arguments.empty(), "a kernel has arguments");
    const harness::TraceAudit audit =
        harness::audit_trace(rules, ColumnTrace{{"tokens"}, {{1}, {16}, {1 << 20}}}, {});
    fuzz::require(audit.after.size() <= audit.before.size() && audit.left <= audit.after.size(),
                  "annotations add no variant");
  });
  return 0;
}
