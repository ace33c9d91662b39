#include "harness/printable_stream.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <ostream>
#include <sstream>

namespace moe::harness {
namespace {

std::string shown(const std::string& text, bool redraws = false) {
  std::stringbuf to;
  PrintableBuffer buffer(&to, redraws);
  std::ostream(&buffer) << text << std::flush;
  return to.str();
}

// Would catch a control character that reaches a terminal, and text or a colour that is changed on its way.
TEST(PrintableBuffer, ShowsWhatWouldMoveTheCursor) {
  EXPECT_EQ(shown("\x1b[32mpassed\x1b[0m 5 \xC2\xB5s caf\xC3\xA9\n\tx"),
            "\x1b[32mpassed\x1b[0m 5 \xC2\xB5s caf\xC3\xA9\n\tx");
  EXPECT_EQ(shown("a\x1b[2Jb\x1b]0;t\x07"), "a\\x1b[2Jb\\x1b]0;t\\x07");
  EXPECT_EQ(shown("\x1b\x1b[31mx\x1b["), "\\x1b\x1b[31mx\\x1b[");
  EXPECT_EQ(shown("\x1b[1234m\x1b[;m"), "\\x1b[1234m\\x1b[;m");
  EXPECT_EQ(shown("a\rb"), "a\\x0db");
  EXPECT_EQ(shown("a\rb", true), "a\rb");
  EXPECT_EQ(shown(std::string("a\0b\x7F", 4)), "a\\x00b?");
  EXPECT_EQ(shown("\xC2\x9B"
                  "2J\xC2"),
            "?2J\xC2");  // CSI as one character of two bytes
}

// Would catch any other sequence that slips through, and a byte of plain text that is lost.
RC_GTEST_PROP(PrintableBuffer, NoOtherControlCharacterPasses, ()) {
  const auto text = *rc::gen::container<std::string>(
      rc::gen::oneOf(rc::gen::element('\x1b', '[', 'm', '3', '\xC2', '\x9B', '\x85', '\r', '\n'),
                     rc::gen::arbitrary<char>()));
  const std::string out = shown(text);
  std::string plain_in, plain_out;
  for (const char c : text)
    if (c >= 'a' && c <= 'l') plain_in += c;  // "\x1b" and "?" are made of others, but for b
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto c = static_cast<unsigned char>(out[i]);
    if (c == 0x1b) {
      std::size_t end = i + 2;
      while (end < out.size() && out[end] >= '0' && out[end] <= '9') ++end;
      RC_ASSERT(i + 1 < out.size() && out[i + 1] == '[' && end < out.size() && out[end] == 'm' &&
                end - i < 5);
      continue;
    }
    RC_ASSERT(c >= 0x20 || c == '\n' || c == '\t');
    RC_ASSERT(c != 0x7F);
    if (i > 0 && out[i - 1] == '\xC2') RC_ASSERT(c < 0x80 || c >= 0xA0);
    if (out[i] == '\\' && i + 3 < out.size() && out[i + 1] == 'x')
      i += 3;  // a control character that is shown; a "\x" of the text itself is looked at less closely
    else if (c >= 'a' && c <= 'l')
      plain_out += out[i];
  }
  if (text.find('\\') == std::string::npos) RC_ASSERT(plain_in == plain_out);
}

}  // namespace
}  // namespace moe::harness
