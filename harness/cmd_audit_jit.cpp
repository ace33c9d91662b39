#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "fixtures/files/column_trace.hpp"
#include "fixtures/files/compiled_kernels.hpp"
#include "harness/cli.hpp"
#include "harness/jit/compiled_audit.hpp"
#include "harness/jit/compiled_report.hpp"
#include "harness/jit/trace_audit.hpp"
#include "harness/jit/trace_report.hpp"
#include "harness/record.hpp"
#include "harness/write_file.hpp"

namespace moe::harness {
namespace {

ColumnTrace launches_of(const Options& o) {
  if (!o.audit.trace.empty()) return read_column_trace(o.audit.trace);
  ColumnTrace trace{{"tokens"}, {}};
  for (const std::int64_t tokens : o.problem.tokens) trace.rows.push_back({tokens});
  return trace;
}

/// Text for people; the members go into `report`.
std::string audit_stream(const Options& o, nlohmann::ordered_json& report) {
  const KernelRules rules = load_kernel_rules(o.problem.choice.kernel);
  const ColumnTrace trace = launches_of(o);
  const std::string path = o.audit.trace.empty() ? "of --tokens" : o.audit.trace;
  const TraceAudit audit = audit_trace(rules, trace, o.audit.sizes);
  report.update(to_json(rules, trace, path, audit, o.audit.compile_s));
  return trace_audit_text(rules, trace, path, audit, o.audit.compile_s);
}

std::string audit_files(const AuditOptions& a, nlohmann::ordered_json& report) {
  const CompiledKernels found = a.cache.empty() ? read_jit_log(a.log) : read_triton_cache(a.cache);
  const std::string source = a.cache.empty() ? "log " + a.log : "cache " + a.cache;
  const std::vector<CompiledGroup> groups = audit_compiled(found.kernels, a.compile_s);
  report.update(to_json(source, groups, found.left_out));
  return compiled_audit_text(source, groups, found.left_out);
}

}  // namespace

int cmd_audit_jit(const Options& o, const Streams& s) {
  nlohmann::ordered_json report{{"schema", 1}};
  report["tool"] = {{"name", "moeproof"}, {"version", tool_version()}, {"command", o.command}};
  report["device"] = nullptr;
  const bool files = !o.audit.cache.empty() || !o.audit.log.empty();
  const std::string text = files ? audit_files(o.audit, report) : audit_stream(o, report);
  if (!o.output.quiet && o.output.json != "-") s.out << text;
  if (!o.output.json.empty()) {
    using Json = nlohmann::ordered_json;  // a path may hold bytes that are not UTF-8: replaced, not refused
    write_whole(o.output.json, report.dump(1, ' ', false, Json::error_handler_t::replace) + "\n", s.out);
  }
  return 0;
}

}  // namespace moe::harness
