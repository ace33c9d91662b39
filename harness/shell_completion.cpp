#include "harness/shell_completion.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "fixtures/problem/errors.hpp"
#include "harness/value_words.hpp"

namespace moe::harness {
namespace {

/// In single quotes of a POSIX shell (and of zsh): nothing in it is expanded.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// fish escapes a quote by a backslash.
std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + "'";
}

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

std::vector<const OptionRow*> options_of(const Command& c) {
  std::vector<const OptionRow*> rows;
  for (const OptionRow& row : option_table())
    if (takes(row, c.name)) rows.push_back(&row);
  return rows;
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command& c : commands()) names.push_back(c.name);
  names.push_back("help");
  return names;
}

std::vector<std::string> option_names(const Command& c) {
  std::vector<std::string> names;
  for (const OptionRow* row : options_of(c)) names.push_back("--" + row->name);
  names.push_back("--help");
  return names;
}

std::string bash_values() {
  std::string out;
  for (const OptionRow& row : option_table()) {
    if (row.value.empty()) continue;
    const ValueWords v = value_words(row);
    out += fmt::format("    --{}) words={}; files={};;\n", row.name, quoted(joined(v.words)), int(v.files));
  }
  return out;
}

std::string bash_commands() {
  std::string out;
  for (const Command& c : commands()) {
    const ValueWords v = value_words(c);
    out += fmt::format("    {}) words={}; files={};;\n", c.name,
                       quoted(joined(option_names(c)) + " " + joined(v.words)), int(v.files));
  }
  return out + fmt::format("    help) words={};;\n", quoted(joined(command_names())));
}

std::string bash_script() {
  return "# bash: source <(moeproof completion bash)\n"
         "_moeproof() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} words='' files=0\n"
         "  COMPREPLY=()\n"
         "  if [ \"$COMP_CWORD\" = 1 ]; then\n" +
         fmt::format("    words={}\n", quoted(joined(command_names()) + " --help --version")) +
         "  else\n    case $previous in\n" + bash_values() + "    *) case ${COMP_WORDS[1]} in\n" +
         bash_commands() +
         "    esac;;\n    esac\n  fi\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
         "  if [ \"$files\" = 1 ]; then\n"
         "    local path\n"
         "    while read -r path; do COMPREPLY+=(\"$path\"); done < <(compgen -f -- \"$current\")\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -o nosort -F _moeproof moeproof\n";
}

/// "--layout[text]:NAME:(a b)" for _arguments; : and [ ] have a meaning there.
std::string zsh_escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == ':' || c == '[' || c == ']' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out;
}

std::string zsh_action(const ValueWords& v) {
  if (v.words.empty()) return v.files ? "_files" : " ";
  std::vector<std::string> words;
  for (const std::string& word : v.words) words.push_back(zsh_escaped(word));
  const std::string list = fmt::format("({})", fmt::join(words, " "));
  return v.files ? fmt::format("_alternative \"words:word:{}\" \"files:file:_files\"", list) : list;
}

std::string zsh_command(const Command& c) {
  std::string out = fmt::format("    {})\n      _arguments \\\n", c.name);
  for (const OptionRow* row : options_of(c)) {
    std::string entry = fmt::format("--{}[{}]", row->name, zsh_escaped(row->text));
    if (!row->value.empty())
      entry += fmt::format(":{}:{}", zsh_escaped(row->value), zsh_action(value_words(*row)));
    out += "        " + quoted(entry) + " \\\n";
  }
  const ValueWords v = value_words(c);
  if (v.files || !v.words.empty())
    out += "        " + quoted(fmt::format("*:{}:{}", zsh_escaped(c.words), zsh_action(v))) + " \\\n";
  return out + "        '--help[what it does and its options]'\n      ;;\n";
}

std::string zsh_script() {
  std::string out =
      "#compdef moeproof\n# zsh: moeproof completion zsh > a folder of $fpath, as _moeproof\n"
      "_moeproof() {\n  local -a commands\n  commands=(\n";
  for (const Command& c : commands()) out += "    " + quoted(c.name + ":" + zsh_escaped(c.summary)) + "\n";
  out +=
      "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
      "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n";
  for (const Command& c : commands()) out += zsh_command(c);
  return out +
         "  esac\n}\nif [[ $funcstack[1] = _moeproof ]]; then\n  _moeproof \"$@\"\nelse\n"
         "  compdef _moeproof moeproof\nfi\n";
}

std::string fish_option(const Command& c, const OptionRow& row) {
  std::string line = fmt::format("complete -c moeproof -n '__fish_seen_subcommand_from {}' -l {} -d {}",
                                 c.name, row.name, fish_quoted(row.text));
  if (row.value.empty()) return line + "\n";
  const ValueWords v = value_words(row);
  line += v.files ? " -r -F" : " -x";
  if (!v.words.empty()) line += " -a " + fish_quoted(joined(v.words));
  return line + "\n";
}

std::string fish_script() {
  std::string out =
      "# fish: moeproof completion fish > ~/.config/fish/completions/moeproof.fish\ncomplete -c moeproof "
      "-f\n";
  for (const Command& c : commands())
    out += fmt::format("complete -c moeproof -n __fish_use_subcommand -a {} -d {}\n", c.name,
                       fish_quoted(c.summary));
  for (const Command& c : commands()) {
    const ValueWords v = value_words(c);
    if (v.files) out += fmt::format("complete -c moeproof -n '__fish_seen_subcommand_from {}' -F\n", c.name);
    if (!v.words.empty())
      out += fmt::format("complete -c moeproof -n '__fish_seen_subcommand_from {}' -a {}\n", c.name,
                         fish_quoted(joined(v.words)));
    for (const OptionRow* row : options_of(c)) out += fish_option(c, *row);
  }
  return out;
}

}  // namespace

std::string completion_script(std::string_view shell) {
  if (shell == "bash") return bash_script();
  if (shell == "zsh") return zsh_script();
  if (shell == "fish") return fish_script();
  throw BadInput(fmt::format("'{}' is no shell known here; write bash, zsh or fish", shell));
}

}  // namespace moe::harness
