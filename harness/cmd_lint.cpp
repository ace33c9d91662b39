#include <ostream>

#include "fixtures/problem/errors.hpp"
#include "harness/cli.hpp"
#include "harness/exit_code.hpp"
#include "harness/reporters.hpp"
#include "harness/tuned/lint.hpp"
#include "harness/write_file.hpp"

namespace moe::harness {

int cmd_lint(const Options& o, const Streams& s) {
  if (o.words.empty()) throw BadInput("lint needs tuned tables: moeproof lint FOLDER|FILE.json|FILE.csv");
  require_writable(o.output);
  const LintResult result = lint_path(o.words[0]);
  if (!o.output.quiet && !reports_to_stdout(o.output)) s.out << lint_table_text(result);
  if (!o.output.json.empty()) write_whole(o.output.json, lint_json(result, o.words[0]), s.out);
  return result.count(Severity::error) > 0 ? int(ExitCode::failed) : 0;
}

}  // namespace moe::harness
