// Which cases does a file of Case lines hold? One line a case; empty lines and lines that begin with `#` are
// skipped, and the comment right above a line is its reason. `--suite` reads such files; fixtures/suites has
// the embedded ones.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "fixtures/problem/case.hpp"

namespace moe::harness {

struct FileCase {
  int line = 0;  // from 1
  Case c;
  std::string reason;  // comment lines above, joined by blanks
};

/// Throws BadInput "NAME:12: case: unknown key .." for the first line that is no case, and where there is
/// none at all.
std::vector<FileCase> parse_cases(std::string_view text, std::string_view name);

/// "corpus" (embedded: fixtures/suites/corpus.txt) or a path. Throws BadInput.
std::vector<FileCase> load_cases(const std::string& name_or_path);

}  // namespace moe::harness
