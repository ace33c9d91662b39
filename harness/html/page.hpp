// What does a person read of a run? One self-contained page: no network, no server, style and script inside,
// every chart with its numbers. Light, dark, paper and phone are the style's business.
#pragma once
#include <string>
#include <vector>

#include "harness/html/compile_census.hpp"
#include "harness/record.hpp"

namespace moe::harness {

struct PageContent {
  Report report;
  std::vector<CompileCensus> censuses;
  std::vector<std::string> sources;  // files it was made of; none: of the run itself
};

std::string html_page(const PageContent&);

/// Parts of it that are text and tables, not charts.
std::string case_section(const Report&);
std::string finding_section(const Report&);
std::string property_section(const Report&);
/// Facts for which a row has no room, of the first cases, those that were not passed in front.
std::string detail_section(const Report&);

}  // namespace moe::harness
