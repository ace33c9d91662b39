#include "harness/journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "fixtures/files/read_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/json_codec.hpp"
#include "harness/json_reading.hpp"

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kFormat = 1;

/// What is worth keeping of a record: no prediction, no counts, no blocks.
Json kept(CaseRecord record) {
  record.prediction.reset();
  record.counts.reset();
  record.speedup.reset();
  if (record.verdict) record.verdict->blocks.clear();
  Json j = to_json(record);
  if (!record.measurement) j.erase("measurement");
  j["elapsed_s"] = record.elapsed_s;
  return j;
}

void read_line(const Json& j, JournalContent& content) {
  if (j.contains("done")) {
    const auto number = json_get<std::size_t>(j, "done");
    CaseRecord record = record_from_json(j.at("record"));
    if (!record.verdict) throw BadInput("the record has no verdict");
    record.elapsed_s = json_get_or<double>(j.at("record"), "elapsed_s", 0);
    content.done[number] = std::move(record);
    content.started.erase(number);
  } else if (j.contains("start")) {
    ++content.started[json_get<std::size_t>(j, "start")];
  } else if (!j.contains("next")) {
    throw BadInput("it is none of start, done and next");
  }
}

void read_heading(const Json& j, JournalContent& content) {
  if (!j.is_object() || !j.contains("moeproof_journal")) throw BadInput("it is no journal of moeproof");
  if (json_get<int>(j, "moeproof_journal") != kFormat)
    throw BadInput(fmt::format("its format is not {}, the one this program reads", kFormat));
  content.options = json_get<std::string>(j, "options");
}

}  // namespace

JournalContent parse_journal(std::string_view text, const std::string& path) {
  JournalContent content;
  for (int line = 1;; ++line) {
    const std::size_t end = text.find('\n', content.whole_bytes);
    if (end == std::string_view::npos) break;  // the rest is what a killed program had begun to write
    try {
      const Json j = Json::parse(text.substr(content.whole_bytes, end - content.whole_bytes));
      line == 1 ? read_heading(j, content) : read_line(j, content);
    } catch (const BadInput& e) {
      throw BadInput(fmt::format("{}:{}: {}", path, line, e.what()));
    } catch (const nlohmann::json::exception&) {
      throw BadInput(fmt::format("{}:{}: it is no line of a journal", path, line));
    }
    content.whole_bytes = end + 1;
  }
  constexpr std::string_view kBegin = "{\"moeproof_journal\":";
  const std::size_t common = std::min(kBegin.size(), text.size());  // of a program that was killed at once
  if (content.whole_bytes == 0 && text.substr(0, common) != kBegin.substr(0, common))
    throw BadInput(fmt::format("{} is no journal of moeproof", path));
  return content;
}

namespace {

[[noreturn]] void fail(const std::string& path) {
  throw MachineFailure(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

}  // namespace

JournalContent read_journal(const std::string& path) {
  return parse_journal(read_file(path), one_line(path));
}

Report report_of(const JournalContent& content) {
  Report report;
  report.command = "check";
  for (const auto& [number, record] : content.done) {
    for (const PropertyOutcome& o : record.properties) {
      const bool known = std::any_of(report.properties.begin(), report.properties.end(),
                                     [&](const PropertyCount& p) { return p.id == o.id; });
      if (known) continue;
      report.properties.emplace_back();
      report.properties.back().id = o.id;
    }
  }
  for (const auto& [number, record] : content.done) list_case(report, record);
  return report;
}

Journal::Journal(const std::string& path, const std::string& options) : path_(path) {
  require_regular(path, "a journal");
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0) fail(path);
  try {
    if (::flock(file_, LOCK_EX | LOCK_NB) != 0)
      throw BadInput(fmt::format("{}: another run writes it now", one_line(path)));
    content_ = read_journal(path);
    if (::ftruncate(file_, off_t(content_.whole_bytes)) != 0) fail(path);
    if (content_.whole_bytes == 0) {
      write(Json{{"moeproof_journal", kFormat}, {"tool", tool_version()}, {"options", options}}.dump(), true);
    } else if (content_.options != options) {
      throw BadInput(fmt::format("{} belongs to other options: it has '{}', these are '{}'", one_line(path),
                                 one_line(content_.options), one_line(options)));
    }
  } catch (...) {
    ::close(file_);
    throw;
  }
}

Journal::~Journal() {
  if (file_ >= 0) ::close(file_);
}

const CaseRecord* Journal::done(std::size_t number, const Case& c) const {
  const auto found = content_.done.find(number);
  if (found == content_.done.end()) return nullptr;
  const Verdict& v = *found->second.verdict;
  // A failure is recorded as the case it shrank to.
  if (v.correctness == Correctness::passed && !(found->second.trial.problem == c.problem))
    throw BadInput(fmt::format("{}: case {} is '{}', these options make '{}': begin another file",
                               one_line(path_), number, to_line(found->second.trial), to_line(c)));
  return &found->second;
}

int Journal::lost(std::size_t number) const {
  const auto found = content_.started.find(number);
  return found == content_.started.end() ? 0 : found->second;
}

void Journal::write(const std::string& text, bool to_disk) {
  const std::string line = text + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t n = ::write(file_, line.data() + sent, line.size() - sent);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(path_);
    sent += std::size_t(n);
  }
  if (to_disk && ::fdatasync(file_) != 0 && errno != EINVAL) fail(path_);  // a pipe or device has no disk
}

void Journal::announce(std::size_t number, const std::vector<Case>& cases) {
  Json j{{"next", number}, {"cases", Json::array()}};
  for (const Case& c : cases) j["cases"].push_back(to_line(c));
  write(j.dump(), true);
}

void Journal::start(std::size_t number) { write(fmt::format("{{\"start\":{}}}", number), false); }

void Journal::finish(std::size_t number, const CaseRecord& record) {
  write(Json{{"done", number}, {"record", kept(record)}}.dump(-1, ' ', false, Json::error_handler_t::replace),
        false);
}

}  // namespace moe::harness
