#include <fmt/format.h>

#include "harness/option_table.hpp"
#include "harness/options.hpp"

namespace moe::harness {
namespace {

constexpr std::size_t kColumns = 80, kTextFrom = 26;

/// Words of `text` in lines that fit between `from` and the last column; lines after the first are indented
/// by `from`.
std::string wrap(const std::string& text, std::size_t from) {
  std::string out;
  std::size_t at = from;
  for (const std::string& word : split(text, ' ')) {
    if (at + word.size() + (at > from) > kColumns && at > from) {
      out += "\n" + std::string(from, ' ');
      at = from;
    }
    if (at > from) out += ' ', ++at;
    out += word;
    at += word.size();
  }
  return out;
}

std::string entry(const std::string& head, const std::string& text) {
  std::string line = "  " + head;
  if (line.size() + 2 > kTextFrom)
    line += "\n" + std::string(kTextFrom, ' ');
  else
    line.resize(kTextFrom, ' ');
  return line + wrap(text, kTextFrom) + "\n";
}

/// A command line as a shell takes it, broken in front of options that would not fit.
std::string command_lines(const std::string& command) {
  std::vector<std::string> groups;  // an option and its value stay together
  for (const std::string& word : split(command, ' ')) {
    if (groups.empty() || word.starts_with("--"))
      groups.push_back(word);
    else
      groups.back() += " " + word;
  }
  std::string out, line = "  moeproof";
  for (const std::string& group : groups) {
    if (line.size() + 1 + group.size() + 2 > kColumns) {
      out += line + " \\\n";
      line = "     ";
    }
    line += " " + group;
  }
  return out + line + "\n";
}

const char* const kExitCodes =
    "Exit codes: 0 all passed, 1 a verdict failed, 2 usage or unreadable input,\n"
    "3 broken machine or unwritable report, 4 time budget ended, 77 nothing ran.\n";

}  // namespace

std::string help() {
  std::string out =
      "moeproof: is an FP8 Mixture-of-Experts kernel for Hopper right, how fast can it\n"
      "be, and is what was measured what the model says?\n\nUsage: moeproof COMMAND "
      "[OPTION...]\n\nCommands\n";
  for (const Command& c : commands()) out += entry(c.name, c.summary);
  out += entry("help [COMMAND]", "this text, or a command's options (as COMMAND --help)");
  out += entry("--version", "the program's version");
  return out + "\n" + kExitCodes;
}

std::string help(const Command& command) {
  std::string out = fmt::format("moeproof {}: {}\n\nUsage: moeproof {}{} [OPTION...]\n", command.name,
                                wrap(command.summary, command.name.size() + 11), command.name,
                                command.words.empty() ? "" : " " + command.words);
  std::string group;
  for (const OptionRow& row : option_table()) {
    if (!takes(row, command.name)) continue;
    if (row.group != group) out += "\n" + row.group + "\n";
    group = row.group;
    out += entry(fmt::format("--{}{}{}", row.name, row.value.empty() ? "" : " ", row.value), row.text);
  }
  if (!command.examples.empty()) out += "\nExamples\n";
  for (const std::string& example : command.examples) out += command_lines(example);
  return out + "\n" + kExitCodes;
}

}  // namespace moe::harness
