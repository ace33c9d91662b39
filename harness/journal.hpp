// How does a long run survive its own end? A file of JSON lines: the lines of the next cases are on disk
// before the first of them is launched, each record follows when it is done. `--resume FILE` writes one and
// goes on where an earlier one ended; whatever kills the program, the file is readable to its last whole line
// (`moeproof report FILE`).
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/record.hpp"

namespace moe::harness {

/// What a journal says: the options that chose its cases, and the records by the case's number.
struct JournalContent {
  std::string options;
  std::map<std::size_t, CaseRecord> done;
  std::map<std::size_t, int> started;  // how often a case was begun and not ended
  std::size_t whole_bytes = 0;         // up to the last whole line
};
/// Throws BadInput "PATH:LINE: what is wrong".
JournalContent parse_journal(std::string_view text, const std::string& path);
JournalContent read_journal(const std::string& path);
Report report_of(const JournalContent& content);

class Journal {
 public:
  /// Opens or begins `path`. Throws BadInput where the file is no journal or was written under other
  /// `options`, or by a run that still goes on; MachineFailure where it cannot be written.
  Journal(const std::string& path, const std::string& options);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// The record of case `number` where an earlier run has it; throws BadInput where that was another case.
  const CaseRecord* done(std::size_t number, const Case& c) const;
  /// How often the program ended while it ran this case.
  int lost(std::size_t number) const;

  /// The cases that come next, from `number` on: on disk when it returns.
  void announce(std::size_t number, const std::vector<Case>& cases);
  void start(std::size_t number);
  void finish(std::size_t number, const CaseRecord& record);

 private:
  void write(const std::string& line, bool to_disk);

  std::string path_;
  JournalContent content_;
  int file_ = -1;
};

}  // namespace moe::harness
