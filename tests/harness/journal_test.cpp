#include "harness/journal.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "fixtures/files/read_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "harness/propose.hpp"

namespace moe::harness {
namespace {

class JournalTest : public testing::Test {
 protected:
  JournalTest() : path_(testing::TempDir() + "journal_" + std::to_string(::getpid()) + ".jsonl") {}
  ~JournalTest() override { std::remove(path_.c_str()); }
  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

  std::string path_;
};

Case case_of(int number) { return propose_case({}, 3, number); }

CaseRecord record_of(int number, Correctness word) {
  CaseRecord r;
  r.trial = case_of(number);
  r.verdict = Verdict{};
  r.verdict->correctness = word;
  r.verdict->judged_by = "bits";
  r.verdict->checked = 100 + number;
  r.verdict->reason = word == Correctness::passed ? "" : "3 of 5 are wrong; \"x\"\n";
  r.verdict->replay = "moeproof check";
  r.properties = {{"P1", PropertyState::held, ""}, {"P8", PropertyState::skipped, "it needs 2 tokens"}};
  return r;
}

/// Three cases: passed, failed, and one in which the program ended.
void write_three(const std::string& path) {
  Journal journal(path, "seed=3");
  journal.announce(0, {case_of(0), case_of(1), case_of(2)});
  journal.start(0);
  journal.finish(0, record_of(0, Correctness::passed));
  journal.start(1);
  journal.finish(1, record_of(1, Correctness::failed));
  journal.start(2);
}

TEST_F(JournalTest, GoesOnWhereItEnded) {
  write_three(path_);
  Journal journal(path_, "seed=3");
  const CaseRecord* first = journal.done(0, case_of(0));
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->verdict->checked, 100);
  EXPECT_EQ(first->properties.size(), 2u);
  EXPECT_EQ(journal.done(1, case_of(1))->verdict->reason, record_of(1, Correctness::failed).verdict->reason);
  EXPECT_EQ(journal.done(2, case_of(2)), nullptr);
  EXPECT_EQ(journal.lost(2), 1);
  EXPECT_EQ(journal.lost(0), 0);
  EXPECT_THROW(journal.done(0, case_of(7)), BadInput);  // other options make other cases
}

TEST_F(JournalTest, ItsReportCounts) {
  write_three(path_);
  const Report report = report_of(read_journal(path_));
  EXPECT_EQ(count_of(report, Correctness::passed), 1);
  EXPECT_EQ(count_of(report, Correctness::failed), 1);
  EXPECT_EQ(judged_elements(report).checked, 201);
  ASSERT_EQ(report.properties.size(), 2u);
  EXPECT_EQ(report.properties[0].held, 2);
  EXPECT_EQ(report.properties[1].skipped, 2);
}

// A program is killed at any moment: every prefix of a journal is read, and gone on with.
TEST_F(JournalTest, EveryPrefixIsReadable) {
  write_three(path_);
  const std::string whole = read_file(path_);
  std::size_t most = 0;
  for (std::size_t bytes = 0; bytes <= whole.size();
       bytes += bytes < 60 || bytes + 60 > whole.size() ? 1 : 17) {
    write(whole.substr(0, bytes));
    const std::size_t done = read_journal(path_).done.size();
    EXPECT_GE(done, most) << bytes;
    most = done;
    Journal again(path_, "seed=3");
    again.start(1);
    EXPECT_NO_THROW(read_journal(path_)) << bytes;
  }
  EXPECT_EQ(most, 2u);
}

TEST_F(JournalTest, RefusesWhatIsNotItsOwn) {
  write_three(path_);
  EXPECT_THROW(Journal(path_, "seed=4"), BadInput);
  {
    Journal open(path_, "seed=3");
    EXPECT_THROW(Journal(path_, "seed=3"), BadInput);  // two runs in one file
  }
  write("{\"schema\":1}\n");
  EXPECT_THROW(Journal(path_, "seed=3"), BadInput);
  write(std::string("{\"moeproof_journal\":1,\"options\":\"seed=3\"}\n{\"done\":0,\"record\":{}}\n"));
  try {
    read_journal(path_);
    FAIL();
  } catch (const BadInput& e) {
    EXPECT_NE(std::string(e.what()).find(":2: "), std::string::npos) << e.what();
  }
  EXPECT_THROW(Journal("/no/such/folder/file", "seed=3"), MachineFailure);
}

}  // namespace
}  // namespace moe::harness
