#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "fixtures/files/embedded.hpp"
#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/errors.hpp"

namespace moe::sim {
namespace {

using Json = nlohmann::json;

std::vector<Json> cards() {
  std::vector<Json> cards;
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.name.starts_with("hardware/")) cards.push_back(Json::parse(file.bytes));
  }
  return cards;
}

// A value without a source, or two sources that claim the same value.
TEST(Hardware, EachValueHasExactlyOneSource) {
  ASSERT_FALSE(cards().empty());
  for (const Json& card : cards()) {
    std::multiset<std::string> sourced;
    for (const Json& source : card.at("sources")) {
      for (const Json& key : source.at("keys")) sourced.insert(key.get<std::string>());
      for (const char* field : {"kind", "device", "date", "row"})
        EXPECT_FALSE(source.at(field).empty()) << source;
    }
    for (const auto& [key, value] : card.items()) {
      if (key == "name" || key == "source" || key == "date" || key == "sources") continue;
      EXPECT_EQ(sourced.count(key), 1u) << card.at("name") << ": " << key;
      sourced.erase(key);
    }
    EXPECT_TRUE(sourced.empty()) << "a source for no value: " << *sourced.begin();
  }
}

// A time of a GEMM or MoE kernel that slipped into the constants: then the model would be fitted to what it
// predicts. Measured values may only name the sections of the microbenchmark program; anything else must say
// that it is estimated, scaled or taken from a data sheet.
TEST(Hardware, MeasuredValuesComeFromMicrobenchmarksOnly) {
  const std::array sections = {"info,", "wgmma,",  "promo,", "mmasync,", "mainloop,",  "hbm,",   "l2,",
                               "lat,",  "launch,", "sync,",  "power,",   "TMA stream", "loader,"};
  const std::set<std::string> kinds = {"microbenchmark", "estimated", "specification", "public figure",
                                       "scaled"};
  for (const Json& card : cards()) {
    for (const Json& source : card.at("sources")) {
      const std::string kind = source.at("kind"), row = source.at("row");
      EXPECT_TRUE(kinds.contains(kind)) << kind;
      for (const char* word :
           {"grouped", "fused_moe", "MoE", "DeepGEMM", "cuBLAS", "CUTLASS", "vLLM", "SGLang"})
        EXPECT_EQ(row.find(word), std::string::npos) << row;
      if (kind != "microbenchmark") continue;
      bool known = false;
      for (const char* section : sections) known = known || row.starts_with(section);
      EXPECT_TRUE(known) << row;
    }
  }
}

// A file that lacks a key must be refused with one line that names it, whichever key it is.
TEST(Hardware, ReaderRefusesEachMissingKey) {
  const EmbeddedFile* file = find_embedded("hardware/h200.json");
  ASSERT_NE(file, nullptr);
  const Json whole = Json::parse(file->bytes);
  for (const auto& [key, value] : whole.items()) {
    if (key == "sources") continue;
    Json cut = whole;
    cut.erase(key);
    try {
      parse_hardware(cut.dump(), "cut.json");
      ADD_FAILURE() << "accepted without " << key;
    } catch (const BadInput& error) {
      const std::string line = error.what();
      EXPECT_NE(line.find(key), std::string::npos) << line;
      EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    }
  }
}

}  // namespace
}  // namespace moe::sim
