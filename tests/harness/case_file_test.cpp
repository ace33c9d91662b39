#include "harness/case_file.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "fixtures/files/embedded.hpp"
#include "fixtures/problem/errors.hpp"
#include "harness/propose.hpp"
#include "harness/values.hpp"

namespace moe::harness {
namespace {

const std::string kLine =
    "op=moe_layer tokens=3 hidden=128 inter=128 experts=4 top_k=2 tp=1 load=uniform quant=block128 seed=1 "
    "kernel=moeproof layout=swap_ab tile=8x128x128";

std::string error_of(const std::string& text) {
  try {
    parse_cases(text, "file.txt");
  } catch (const BadInput& e) {
    return e.what();
  }
  return "";
}

// Catches: a reason that is lost or that a line behind it inherits.
TEST(CaseFile, CommentsAboveALineAreItsReason) {
  const auto cases =
      parse_cases("# head\n\n# why\n#  https://x\n" + kLine + "\n" + kLine + "\r\n\t" + kLine, "f");
  ASSERT_EQ(cases.size(), 3u);
  EXPECT_EQ(cases[0].reason, "why https://x");
  EXPECT_EQ(cases[0].line, 5);
  EXPECT_EQ(cases[1].reason, "");
  EXPECT_EQ(cases[2].c, parse_case(kLine));
}

// Catches: an error that does not say where it is.
TEST(CaseFile, ErrorsNameTheLine) {
  EXPECT_EQ(error_of("# x\n\n" + kLine + "\nop=moe_layer tokens=x\n").substr(0, 12), "file.txt:4: ");
  EXPECT_NE(error_of("op=nothing"), "");
  EXPECT_NE(error_of("").find("holds no case"), std::string::npos);
  EXPECT_NE(error_of("# only a comment\n").find("holds no case"), std::string::npos);
  EXPECT_THROW(load_cases("/no/such/file"), BadInput);
}

// Would catch a reader that crashes on some bytes.
RC_GTEST_PROP(CaseFile, AnyBytesGiveCasesOrOneLine, ()) {
  const auto bytes = *rc::gen::container<std::string>(
      rc::gen::oneOf(rc::gen::arbitrary<char>(), rc::gen::element('\n', '#', '=', ' ', '"'),
                     rc::gen::element('o', 'p', 'l', '1')));
  try {
    RC_ASSERT(!parse_cases(bytes, "f").empty());
  } catch (const BadInput& e) {
    RC_ASSERT(std::string(e.what()).find('\n') == std::string::npos);
  }
}

// The corpus is worth what it names: every line is canonical, valid, once there, and has a public address.
TEST(CaseFile, BuiltInSuitesAreCanonical) {
  for (const char* name : {"corpus", "large"}) {
    std::set<std::string> lines, written;
    const EmbeddedFile* file = find_embedded(std::string("suites/") + name + ".txt");
    ASSERT_NE(file, nullptr);
    for (const std::string& line : split(file->bytes, '\n')) written.insert(line);
    for (const FileCase& c : load_cases(name)) {
      EXPECT_TRUE(written.contains(to_line(c.c))) << name << ":" << c.line << " is canonical as\n"
                                                  << to_line(c.c);
      EXPECT_TRUE(lines.insert(to_line(c.c)).second) << name << ":" << c.line << " stands there twice";
      EXPECT_NE(c.reason.find("https://github.com/"), std::string::npos) << name << ":" << c.line;
      EXPECT_FALSE(c.c.choice.tile.automatic()) << name << ":" << c.line;
    }
    EXPECT_GE(lines.size(), std::string(name) == "corpus" ? 55u : 5u);
  }
}

// Catches: corpus lines that a foreign kernel or the command line has excluded.
TEST(CaseFile, LinesKeepToTheFrame) {
  ProposalFrame frame;
  frame.plain = true;
  frame.quants = {QuantKind::block128};
  int layers = 0;
  for (const FileCase& f : load_cases("corpus")) {
    if (!fits(frame, f.c)) continue;
    const Problem& p = f.c.problem;
    EXPECT_TRUE(p.op == Op::moe_layer || p.op == Op::grouped_gemm);
    EXPECT_TRUE(p.quant.block() && p.shape.ep == 1 && !p.shape.bias && p.routing.ids <= IdKind::none)
        << to_line(f.c);
    ++layers;
  }
  EXPECT_GT(layers, 20);
  frame = {};
  frame.op_given = true;
  frame.op = Op::topk;
  for (const FileCase& f : load_cases("corpus")) EXPECT_EQ(fits(frame, f.c), f.c.problem.op == Op::topk);
}

}  // namespace
}  // namespace moe::harness
