// How do the results of several files become one? Shards of a run, or check, bench and self-test beside one
// another for a page. Cases stand in the order of the files; counts are added.
#pragma once
#include <string>
#include <vector>

#include "harness/html/page.hpp"
#include "harness/record.hpp"

namespace moe::harness {

struct NamedReport {
  std::string path;
  Report report;
};

/// Whatever the reports are of. Throws BadInput where there is none.
Report combine(std::vector<NamedReport> reports);
/// Shards of one run: throws BadInput where two are of another command, executor or card, or hold the same
/// case twice.
void require_shards(const std::vector<NamedReport>& reports);

/// What the files hold: journals, reports as JSON, and what audit-jit wrote. Throws BadInput that names the
/// file.
PageContent read_results(const std::vector<std::string>& paths);
/// As above, of reports alone.
std::vector<NamedReport> read_reports(const std::vector<std::string>& paths);

}  // namespace moe::harness
