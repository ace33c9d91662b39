// How is a Report shown? One function a format, one file each; all are pure. `write_reports` sends the ones
// that were asked for to their files, whole or not at all.
#pragma once
#include <iosfwd>
#include <string>

#include "fixtures/problem/hardware.hpp"
#include "harness/options.hpp"
#include "harness/record.hpp"

namespace moe::harness {

/// 80 columns; colours only where the output is a terminal.
std::string table_report(const Report&, bool colours);
/// Whether cases that were refused or skipped are told by reason, or counted in one line (none where all
/// were: then "nothing ran" says why).
enum class Refusals { by_reason, counted };
/// Choice, verdict and replay line of every case that failed; then of refused and skipped ones how many and
/// why. Empty when all passed.
std::string failures_text(const Report&, Refusals refusals = Refusals::by_reason);
std::string json_report(const Report&);
std::string csv_report(const Report&);
std::string junit_report(const Report&);
std::string markdown_report(const Report&);
std::string html_report(const Report&);

/// Throws MachineFailure where a file cannot be written; the other reports are complete.
void write_reports(const Report&, const OutputOptions&, std::ostream& standard_output);
/// Throws MachineFailure where a file could not be written now: before a run, so that none is lost to a
/// typing error.
void require_writable(const OutputOptions&);
/// True where a report takes standard output, so that no table may be mixed in.
bool reports_to_stdout(const OutputOptions&);

// Parts that several formats share.

/// "deepseek-v3 tp 8" or "E 8 top 2 H 256 I 256".
std::string shape_text(const Problem&);
/// "failed: 128 of 2048 wrong, gemm1 expert 5 ..." or "passed".
std::string verdict_text(const Verdict&);
/// Text with <, >, &, quotes escaped and control characters dropped: for XML and HTML.
std::string escape_markup(std::string_view text);
/// Text on one line in which a cell of a Markdown table does not end.
std::string markdown_cell(std::string_view text);
/// A Markdown code span whose fence is longer than any run of backticks inside.
std::string markdown_code(const std::string& text);
/// Layout, tile and tile_down where it differs: "swap_ab 16x128x128".
std::string choice_text(const Choice&);
/// "2 passed, 1 failed" with every word that occurs.
std::string summary_text(const Report&);
/// "predicted for NVIDIA H200; a gain is known to 12 %", or that no prediction for that card was held to a
/// measurement.
std::string prediction_text(const Report&);
/// What passes rest on where it is not the declared bits, each reason once: "2 passed: semantics inferred:
/// ...".
std::string notes_text(const Report&);
/// A line a property that was asked for: held, failed, skipped and why; one that never applied says so. Empty
/// where none was.
std::string properties_text(const Report&);
/// "P12 9 held, 1 skipped (it needs two tokens)".
std::string property_line(const PropertyCount&);
/// The self-test's rows: fault, who found it, seeds, distance; then a line a kind of fault.
std::string self_test_text(const std::vector<KillRow>&);
/// A row of it.
std::string kill_line(const KillRow&);
/// The same as two tables.
std::string self_test_markdown(const std::vector<KillRow>&);
/// "NVIDIA H200", "NVIDIA H20 (public figures)": predictions from figures nobody measured say so.
std::string hardware_text(const Hardware&);
/// What a report says of the card that its predictions are for.
void describe_hardware(Report&, const Hardware&);
/// "passed", "passed (bounds)" where the bits of some stage could not be compared, "passed (exp)" where an
/// exp with an error leaves elements more than one right value, "passed (77 %)" where a budget left rows
/// unjudged.
std::string verdict_word(const Verdict&);

}  // namespace moe::harness
