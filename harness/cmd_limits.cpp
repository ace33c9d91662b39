#include <fmt/format.h>

#include <ostream>

#include "fixtures/files/read_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "harness/cli.hpp"
#include "harness/json_codec.hpp"
#include "harness/kernel_limits.hpp"
#include "harness/reporters.hpp"
#include "harness/write_file.hpp"

namespace moe::harness {

int cmd_limits(const Options& o, const Streams& s) {
  if (o.words.empty()) throw BadInput("limits needs bench reports: moeproof limits BENCH.json...");
  require_writable(o.output);
  const std::string& path = o.limits.public_times;
  const std::vector<PublicTime> known =
      path.empty() ? std::vector<PublicTime>{} : parse_public_times(read_file(path), path);
  std::vector<LimitCell> cells;
  for (const std::string& word : o.words) {
    const std::vector<LimitCell> some =
        limit_cells(report_from_json(read_file(word), word), o.limits.read_bytes_per_s, known);
    if (some.empty())
      throw BadInput(fmt::format("'{}' holds no measured layer; write it with moeproof bench --json", word));
    cells.insert(cells.end(), some.begin(), some.end());
  }
  if (!o.output.quiet && !reports_to_stdout(o.output)) s.out << limit_table(cells, o.limits.read_bytes_per_s);
  if (!o.output.json.empty())
    write_whole(o.output.json, limit_json(cells, o.limits.read_bytes_per_s, o.limits.commit), s.out);
  return 0;
}

}  // namespace moe::harness
