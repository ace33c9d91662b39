#include "harness/man_page.hpp"

#include <fmt/format.h>

#include "harness/option_table.hpp"
#include "harness/record.hpp"

namespace moe::harness {
namespace {

/// A backslash and a minus are written as such, and a line does not begin with a request.
std::string roff(const std::string& text) {
  std::string out = text.starts_with('.') || text.starts_with('\'') ? "\\&" : "";
  for (const char c : text)
    out += c == '\\' ? std::string("\\e") : c == '-' ? std::string("\\-") : std::string(1, c);
  return out;
}

std::string command_text(const Command& c) {
  std::string out = fmt::format(".SS moeproof {}{}\n{}\n", roff(c.name),
                                c.words.empty() ? "" : " \\fI" + roff(c.words) + "\\fR", roff(c.summary));
  if (c.examples.empty()) return out;
  out += ".P\n.nf\n";
  for (const std::string& example : c.examples) out += roff("moeproof " + example) + "\n";
  return out + ".fi\n";
}

std::string option_text(const OptionRow& row) {
  const std::string value = row.value.empty() ? "" : " \\fI" + roff(row.value) + "\\fR";
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n(of {})\n", roff("--" + row.name), value, roff(row.text),
                     roff(row.commands));
}

const char* const kExits =
    ".SH EXIT STATUS\n.TP\n0\nall passed\n.TP\n1\na verdict failed, crashed, timed out or is mistrusted, or "
    "\\-\\-fail\\-on was hit\n.TP\n2\nusage or unreadable input\n.TP\n3\nbroken machine or unwritable "
    "report\n"
    ".TP\n4\nthe time budget ended first\n.TP\n77\nnothing could run here\n";

}  // namespace

std::string man_page() {
  std::string out = fmt::format(
      ".TH MOEPROOF 1 \"\" \"moeproof {}\"\n.SH NAME\nmoeproof \\- proves FP8 Mixture\\-of\\-Experts kernels "
      "for "
      "NVIDIA Hopper right and fast\n.SH SYNOPSIS\n.B moeproof\n\\fICOMMAND\\fR [\\fIWORD\\fR...] "
      "[\\fIOPTION\\fR...]\n.SH DESCRIPTION\nIs a kernel right, to the bit or within a derived bound; how "
      "fast "
      "does the hardware let it be; is what was measured what the model says?\n.SH COMMANDS\n",
      tool_version());
  for (const Command& c : commands()) out += command_text(c);
  out += ".SH OPTIONS\nNo abbreviations; each at most once.\n";
  std::string group;
  for (const OptionRow& row : option_table()) {
    if (row.group != group) out += ".SS " + roff(row.group) + "\n";
    group = row.group;
    out += option_text(row);
  }
  return out + kExits;
}

}  // namespace moe::harness
