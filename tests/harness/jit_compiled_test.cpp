// What audit-jit says of caches and logs that Triton wrote (fixtures/golden/triton).
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

#include "harness/jit/compiled_audit.hpp"

namespace moe::harness {
namespace {

const std::string kGolden = MOE_SOURCE_DIR "/fixtures/golden/triton/";

std::vector<CompiledGroup> cache(const std::string& name) {
  return audit_compiled(read_triton_cache(kGolden + name).kernels, {});
}

const CompiledGroup& group(const std::vector<CompiledGroup>& groups, const std::string& function) {
  return *std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.function == function; });
}

std::vector<std::string> causes(const CompiledGroup& g) {
  std::vector<std::string> list;
  for (const CompiledCause& c : g.causes) list.push_back(c.property + " " + std::string(name(c.kind)));
  std::sort(list.begin(), list.end());
  return list;
}

// Would catch the wrong argument blamed: one reason each, planted in tests/jit/kernels.py.
TEST(JitCompiled, NamesThePlantedReason) {
  const auto groups = cache("small");
  const std::map<std::string, std::vector<std::string>> expected{{"by_value", {"n alignment", "n folded"}},
                                                                 {"by_pointer", {"x_ptr pointer_alignment"}},
                                                                 {"by_width", {"stride width"}},
                                                                 {"by_option", {"num_warps option"}},
                                                                 {"by_constexpr", {}},
                                                                 {"once", {}}};
  ASSERT_EQ(groups.size(), expected.size());
  for (const auto& [function, reasons] : expected)
    EXPECT_EQ(causes(group(groups, function)), reasons) << function;
  EXPECT_EQ(group(groups, "by_value").compiled, 3u);
  EXPECT_EQ(group(groups, "by_value").left, 1u);
  EXPECT_EQ(group(groups, "by_option").left, 2u);  // no annotation helps
  EXPECT_EQ(group(groups, "by_constexpr").compiled, 2u);
  EXPECT_EQ(group(groups, "by_constexpr").distinct, 1u);
}

// Would catch a cache that is told otherwise than the trace that filled it: 4 variants, 2 as annotated, and
// what is left to do.
TEST(JitCompiled, AgreesWithTheTraceThatFilledTheCache) {
  const auto plain = cache("inv_rope_plain"), annotated = cache("inv_rope_annotated");
  ASSERT_EQ(plain.size(), 1u);
  EXPECT_EQ(plain[0].distinct, 4u);
  EXPECT_EQ(causes(plain[0]), (std::vector<std::string>{"num_tokens alignment", "num_tokens folded",
                                                        "scale_stride_k alignment"}));
  for (const CompiledCause& c : plain[0].causes)
    EXPECT_EQ(c.left, c.kind == CauseKind::folded ? 2u : 3u) << c.property;
  EXPECT_EQ(plain[0].left, 1u);
  EXPECT_EQ(annotated[0].distinct, 2u);
  EXPECT_EQ(causes(annotated[0]), std::vector<std::string>{"scale_stride_k alignment"});
  EXPECT_EQ(annotated[0].left, 1u);
}

// Would catch an estimate of lost time that counts what no annotation saves, or is made up where nobody knows
// it.
TEST(JitCompiled, CountsTheTimeThatCouldBeSaved) {
  std::vector<CompiledKernel> kernels = read_triton_cache(kGolden + "inv_rope_plain").kernels;
  for (CompiledKernel& k : kernels) k.compile_s.reset();
  EXPECT_FALSE(audit_compiled(kernels, {})[0].seconds);
  const CompiledGroup g = audit_compiled(kernels, 0.5)[0];
  EXPECT_DOUBLE_EQ(*g.seconds, 2.0);
  EXPECT_DOUBLE_EQ(*g.avoidable_s, 1.5);
  kernels[0].compile_s = 1.5;  // what a file tells is worth more
  EXPECT_DOUBLE_EQ(*audit_compiled(kernels, 0.5)[0].seconds, 3.0);
}

// Would catch a log whose numbered key entries are not brought together with the names.
TEST(JitCompiled, ReadsTheLogOfTheSameCompilations) {
  const auto groups = audit_compiled(read_jit_log(kGolden + "monitor.log").kernels, {});
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].compiled, 7u);
  EXPECT_EQ(groups[0].distinct,
            3u);  // scale_stride_k stands behind the 120 characters of a key that a log keeps
  EXPECT_TRUE(groups[0].shortened);
  EXPECT_EQ(causes(groups[0]), (std::vector<std::string>{"num_tokens alignment", "num_tokens folded"}));
}

// Would catch counts that depend on the order in which a folder is read, a cause without a difference, a
// count of variants that a remedy raises, and a group lost.
RC_GTEST_PROP(JitCompiled, AnyOrderGivesTheSameAudit, ()) {
  const auto draw = [](std::vector<std::string> states) { return *rc::gen::elementOf(states); };
  std::vector<CompiledKernel> kernels;
  const int count = *rc::gen::inRange(1, 8);
  for (int i = 0; i < count; ++i) {
    CompiledKernel k;
    k.function = draw({"f", "g"});
    k.place = draw({"a.py:1", "a.py:2", "b.py:1"});
    k.arguments_known = true;
    for (const char* name : {"n", "m"})
      if (const std::string state =
              draw({"", "i32", "i32 %16", "i64", "i64 %16", "= 1", "= 8", "*bf16", "*bf16 %16"});
          !state.empty())
        k.arguments.emplace_back(name, state);
    k.options = {{"num_warps", draw({"4", "8"})}};
    kernels.push_back(std::move(k));
  }
  const auto groups = audit_compiled(kernels, 1.0);
  std::size_t compiled = 0;
  for (const CompiledGroup& g : groups) {
    compiled += g.compiled;
    RC_ASSERT(g.distinct >= 1u && g.distinct <= g.compiled && g.left >= 1u && g.left <= g.distinct);
    RC_ASSERT(g.causes.empty() == (g.distinct == 1));
    for (const CompiledCause& c : g.causes) RC_ASSERT(c.states.size() > 1 && c.left <= g.distinct);
  }
  RC_ASSERT(compiled == kernels.size());
  std::reverse(kernels.begin(), kernels.end());
  const auto again = audit_compiled(kernels, 1.0);
  RC_ASSERT(again.size() == groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i)
    RC_ASSERT(again[i].distinct == groups[i].distinct && again[i].left == groups[i].left &&
              again[i].function == groups[i].function);
}

}  // namespace
}  // namespace moe::harness
