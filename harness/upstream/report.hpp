// How is a change shown to its reviewers? The Markdown block of a pull request, JSON for programs, and one
// record a pair for the formats of every other command.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "harness/upstream/compare_pair.hpp"

namespace moe::harness {

struct UpstreamSide {
  std::string executor;  // as on the command line
  std::optional<DeviceFacts> device;
};

struct UpstreamReport {
  UpstreamSide before, after;
  std::string hardware;  // that the model predicts for
  std::vector<PairRecord> pairs;
};

/// "2 pairs passed; 35 of 5,120 elements differ, unexplained; speed same".
std::string upstream_summary(const UpstreamReport&);
std::string upstream_markdown(const UpstreamReport&);
/// Schema 1. Each case is after's record, as `bench` writes it, with `before`, `bits` and `timing` beside it:
/// `compare` reads it like any bench report.
std::string upstream_json(const UpstreamReport&);
/// One record a pair: its verdict, after's times. A confirmed slow is `failed` here, since CSV, JUnit and
/// HTML know no other word for what must stop a merge.
Report upstream_records(const UpstreamReport&);

}  // namespace moe::harness
