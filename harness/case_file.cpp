#include "harness/case_file.hpp"

#include <fmt/format.h>

#include "fixtures/files/embedded.hpp"
#include "fixtures/files/read_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"

namespace moe::harness {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

void add_comment(std::string& reason, std::string_view comment) {
  comment = trimmed(comment.substr(1));
  if (comment.empty()) return;
  if (!reason.empty()) reason += ' ';
  reason += comment;
}

}  // namespace

std::vector<FileCase> parse_cases(std::string_view text, std::string_view name) {
  std::vector<FileCase> cases;
  std::string reason;
  for (int line = 1; !text.empty(); ++line) {
    const std::size_t end = text.find('\n');
    const std::string_view content = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (content.empty()) {
      reason.clear();
    } else if (content.front() == '#') {
      add_comment(reason, content);
    } else {
      try {
        cases.push_back({line, parse_case(content), reason});
      } catch (const BadInput& error) {
        throw BadInput(fmt::format("{}:{}: {}", one_line(name), line, error.what()));
      }
      reason.clear();
    }
  }
  if (cases.empty())
    throw BadInput(fmt::format("{} holds no case: write one line of key=value each", one_line(name)));
  return cases;
}

std::vector<FileCase> load_cases(const std::string& name_or_path) {
  if (const EmbeddedFile* file = find_embedded("suites/" + name_or_path + ".txt"))
    return parse_cases(file->bytes, name_or_path);
  return parse_cases(read_file(name_or_path), name_or_path);
}

}  // namespace moe::harness
