// How do records become JSON and come back? One place for the schema (schema 1): keys in fixed order, times
// in seconds, a field that a command did not fill is absent. Readers throw BadInput naming the key that is
// missing or wrong.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "harness/record.hpp"

namespace moe::harness {

nlohmann::ordered_json to_json(const Counts&);
nlohmann::ordered_json to_json(const Prediction&);
nlohmann::ordered_json to_json(const Measurement&);
nlohmann::ordered_json to_json(const Verdict&);
/// With the sums of a verdict that was read back, whose right blocks nobody kept.
nlohmann::ordered_json to_json(const Verdict&, const BlockSums&);
nlohmann::ordered_json to_json(const CaseRecord&);
nlohmann::ordered_json to_json(const KillRow&);
nlohmann::ordered_json to_json(const Report&);

/// What a journal keeps of a record: verdict and properties, without prediction, measurement and blocks.
CaseRecord record_from_json(const nlohmann::ordered_json&);
KillRow kill_row_from_json(const nlohmann::ordered_json&);
Counts counts_from_json(const nlohmann::ordered_json&);
Measurement measurement_from_json(const nlohmann::ordered_json&);
Prediction prediction_from_json(const nlohmann::ordered_json&);
/// `blocks` are the wrong ones.
Verdict verdict_from_json(const nlohmann::ordered_json&);
BlockSums sums_from_json(const nlohmann::ordered_json& verdict);
/// A report that this program wrote, whole; `path` is for the error line.
Report report_from_json(std::string_view text, std::string_view path);

}  // namespace moe::harness
