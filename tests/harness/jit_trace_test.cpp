// The model of Triton's specialisation against what Triton itself gave (fixtures/golden/triton).
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "fixtures/files/read_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "harness/jit/trace_audit.hpp"
#include "harness/values.hpp"

namespace moe::harness {
namespace {

const std::string kGolden = MOE_SOURCE_DIR "/fixtures/golden/triton/";

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  for (const std::string& line : split(read_file(path), '\n'))
    if (!line.empty() && line[0] != '#') lines.push_back(line);
  return lines;
}

ColumnTrace tokens_trace(const std::vector<std::int64_t>& tokens) {
  ColumnTrace trace{{"tokens"}, {}};
  for (const std::int64_t t : tokens) trace.rows.push_back({t});
  return trace;
}

KernelArgument argument(const std::string& kind, const std::string& annotation, bool flag, bool alignment) {
  KernelArgument a;
  a.name = "a";
  a.type = annotation == "-" ? "" : annotation;
  a.kind = kind == "pointer"    ? ArgumentKind::pointer
           : kind == "integer"  ? ArgumentKind::integer
           : kind == "floating" ? ArgumentKind::floating
           : kind == "boolean"  ? ArgumentKind::boolean
                                : ArgumentKind::constant;
  a.value = SizeFormula("v");
  a.do_not_specialize = flag, a.do_not_specialize_on_alignment = alignment;
  return a;
}

// Would catch any rule of a single argument that Triton does not have: 341 pairs that it gave itself.
TEST(JitTrace, SpecialisesAsTritonDid) {
  const auto lines = lines_of(kGolden + "keys.txt");
  EXPECT_EQ(lines.size(), 341u);
  for (const std::string& line : lines) {
    std::istringstream in(line);
    std::string kind, annotation, value, rest;
    bool flag = false, alignment = false;
    in >> kind >> annotation >> value >> flag >> alignment;
    std::getline(in >> std::ws, rest);
    const std::int64_t number = kind == "floating" ? 0 : std::stoll(value);
    EXPECT_EQ(to_text(specialise(argument(kind, annotation, flag, alignment), number)), rest) << line;
  }
}

/// The first 14 pairs of a key: the arguments that the two kernels have in common; constants follow.
std::string run_time_part(const std::string& key) {
  std::size_t end = 0;
  for (int pairs = 0; pairs < 14; ++pairs) end = key.find(')', end) + 1;
  return key.substr(0, end);
}

std::string key_of(const JitVariant& v) {
  std::string key = "[";
  for (const Specialised& s : v.arguments) key += (key.size() > 1 ? ", " : "") + to_text(s);
  return key + "]";
}

// Would catch a compilation that the model expects and Triton did not do, one that it misses, and one at
// another launch.
TEST(JitTrace, CompilesWhereTritonDid) {
  KernelRules rules = load_kernel_rules("inv_rope_quant");
  std::vector<std::int64_t> tokens;
  std::vector<JitVariant> expected;
  std::size_t next = 0, streams = 0;
  for (const std::string& line : lines_of(kGolden + "streams.txt")) {
    const auto words = split(line, ' ');
    if (words[0] == "tokens") {
      for (std::size_t i = 1; i < words.size(); ++i) tokens.push_back(std::stoll(words[i]));
    } else if (words[0] == "do_not_specialize") {
      EXPECT_EQ(next, expected.size()) << "before " << line;
      const auto names = split(words[1], ',');
      for (KernelArgument& a : rules.arguments)
        a.do_not_specialize = std::find(names.begin(), names.end(), a.name) != names.end();
      expected = audit_trace(rules, tokens_trace(tokens), {}).after;
      next = 0, ++streams;
    } else {
      ASSERT_LT(next, expected.size()) << line;
      EXPECT_EQ(std::to_string(expected[next].first_row + 1), words[1]) << line;
      const std::string key = line.substr(line.find('['));
      EXPECT_EQ(run_time_part(key_of(expected[next])), run_time_part(key)) << line;
      ++next;
    }
  }
  EXPECT_EQ(next, expected.size());
  EXPECT_EQ(streams, 3u);
}

// Would catch a wrong count or a wrong argument in the case that vLLM pull request 42849 left: 4 variants, 2,
// then 1.
TEST(JitTrace, NamesWhatStillVaries) {
  std::vector<std::int64_t> tokens;
  for (int t = 1; t <= 4096; ++t) tokens.push_back(t);
  const TraceAudit audit = audit_trace(load_kernel_rules("inv_rope_quant"), tokens_trace(tokens), {});
  EXPECT_EQ(audit.before.size(), 4u);
  EXPECT_EQ(audit.after.size(), 2u);
  EXPECT_EQ(audit.varying, (std::vector<std::string>{"num_tokens", "scale_stride_k"}));
  EXPECT_EQ(audit.remaining, std::vector<std::string>{"scale_stride_k"});
  EXPECT_EQ(
      audit.enough,
      (std::vector<std::pair<std::string, JitRemedy>>{{"scale_stride_k", JitRemedy::do_not_specialize}}));
  EXPECT_EQ(audit.left, 1u);
  EXPECT_EQ(audit.before[0].first_row, 0u);                                        // 1 token
  EXPECT_EQ(audit.before[1].because, std::vector<std::string>{"num_tokens"});      // 2 tokens: no longer 1
  EXPECT_EQ(audit.before[2].because, std::vector<std::string>{"scale_stride_k"});  // 13: padded to 16
}

// Would catch a model without the width of integers: one group of 4096 bytes a token passes 2^31 at 524288
// tokens.
TEST(JitTrace, SeesTheWidthOfAStride) {
  const TraceAudit audit =
      audit_trace(load_kernel_rules("inv_rope_quant"), tokens_trace({8, 524280, 524296}), {});
  ASSERT_EQ(audit.after.size(), 2u);
  EXPECT_EQ(audit.after[1].first_row, 2u);
  EXPECT_EQ(audit.remaining, std::vector<std::string>{"fp8_stride_group"});
  ASSERT_EQ(audit.enough.size(), 1u);
  EXPECT_EQ(audit.enough[0].second, JitRemedy::annotate_i64);
  EXPECT_EQ(audit.left, 1u);
  // Eight groups of a rank with one: smaller sizes, other strides, no 64 bits yet.
  EXPECT_EQ(audit_trace(load_kernel_rules("inv_rope_quant"), tokens_trace({8, 524280, 524296}),
                        {{"heads_per_group", 4}})
                .after.size(),
            1u);
}

KernelRules random_rules() {
  static const char* const kValues[] = {"t",     "t * u",  "round_up(t, 4)", "u",
                                        "t - u", "16 * t", "u * 1000000000", "1"};
  KernelRules rules;
  rules.name = rules.function = "k";
  rules.sizes = {{"u", *rc::gen::inRange<std::int64_t>(1, 40)}};
  const int count = *rc::gen::inRange(1, 6);
  for (int i = 0; i < count; ++i) {
    KernelArgument a;
    a.name = "a" + std::to_string(i);
    a.kind = *rc::gen::element(ArgumentKind::integer, ArgumentKind::integer, ArgumentKind::pointer,
                               ArgumentKind::constant);
    if (a.kind == ArgumentKind::pointer)
      a.type = "*bf16";
    else if (a.kind == ArgumentKind::integer && *rc::gen::inRange(0, 4) == 0)
      a.type = "i64";
    a.value =
        SizeFormula(*rc::gen::elementOf(std::vector<std::string>(std::begin(kValues), std::end(kValues))));
    if (a.kind != ArgumentKind::constant) a.do_not_specialize = *rc::gen::inRange(0, 4) == 0;
    if (a.kind != ArgumentKind::constant) a.do_not_specialize_on_alignment = *rc::gen::inRange(0, 4) == 0;
    rules.arguments.push_back(std::move(a));
  }
  return rules;
}

// Would catch counts that do not belong together: an annotation that adds variants, launches lost or counted
// twice, an advice that does not hold when it is followed, reasons that are no difference.
RC_GTEST_PROP(JitTrace, AnAuditIsConsistent, ()) {
  KernelRules rules = random_rules();
  const auto tokens = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 70)));
  ColumnTrace trace{{"t"}, {}};
  for (const std::int64_t t : tokens) trace.rows.push_back({t});
  const TraceAudit audit = audit_trace(rules, trace, {});
  for (const auto* variants : {&audit.before, &audit.after}) {
    std::size_t launches = 0;
    std::set<std::vector<Specialised>> keys;
    for (std::size_t i = 0; i < variants->size(); ++i) {
      const JitVariant& v = (*variants)[i];
      launches += v.launches;
      RC_ASSERT(keys.insert(v.arguments).second);
      RC_ASSERT(v.because.empty() == (i == 0));
      if (i > 0)
        RC_ASSERT((*variants)[i - 1].first_row < v.first_row);  // RC_ASSERT evaluates both sides of ||
    }
    RC_ASSERT(launches == tokens.size());
  }
  RC_ASSERT(audit.after.size() <= audit.before.size());
  RC_ASSERT(audit.remaining.empty() == (audit.after.size() == 1));
  RC_ASSERT(audit.left <= audit.after.size());
  for (const RemedyEffect& e : audit.effects) {
    RC_ASSERT(e.alone <= audit.before.size());
    RC_ASSERT(e.added >= audit.left || e.remedy == JitRemedy::pad_to_16);
  }
  for (const auto& [name, remedy] : audit.enough)
    for (KernelArgument& a : rules.arguments) {
      if (a.name != name) continue;
      if (remedy == JitRemedy::do_not_specialize) a.do_not_specialize = true;
      if (remedy == JitRemedy::annotate_i64) a.type = "i64";
      if (remedy == JitRemedy::pad_to_16) a.value = SizeFormula("round_up(" + a.value->text() + ", 16)");
    }
  RC_ASSERT(audit_trace(rules, trace, {}).after.size() == audit.left);
}

// Would catch a name that is silently 0, and a size that exists nowhere.
TEST(JitTrace, RefusesNamesThatNobodyGives) {
  const auto refusal = [](auto call) -> std::string {
    try {
      call();
    } catch (const BadInput& e) {
      return e.what();
    }
    return "";
  };
  const KernelRules rules = load_kernel_rules("inv_rope_quant");
  EXPECT_NE(refusal([&] {
              audit_trace(rules, ColumnTrace{{"rows"}, {{1}}}, {});
            }).find("'tokens', which is no column"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              audit_trace(rules, tokens_trace({1}), {{"grups", 1}});
            }).find("no size 'grups'"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              audit_trace(rules, tokens_trace({1, INT64_MAX}), {});
            }).find("row 2 of the trace, argument fp8_stride_group"),
            std::string::npos);
}

}  // namespace
}  // namespace moe::harness
