// What a user may name where a file is due, and what may stand in one: devices, pipes, labels with control
// characters. Test code.
#include "tests/cli/program.hpp"

namespace {

using namespace moe::cli;

class HostileFiles : public Program {};

// Would catch an option whose file is read without end, waited for, or taken for an empty one.
TEST_F(HostileFiles, DevicesAndFoldersAreNoFiles) {
  const std::string line = "--case 'op=combine tokens=9 hidden=256 inter=128 experts=4 top_k=2'";
  // /proc/kmsg is a regular file that waits for its next line; who may not open it is told that.
  for (const std::string& path : {std::string("/dev/zero"), std::string("/proc/kmsg"), folder_.string()}) {
    for (const std::string& command :
         {"predict " + kSmall + "--load trace:" + path, "check --executor reference --suite " + path,
          "compare --against " + path, "compare --ncu " + path + " " + line,
          "check --executor reference --suite corpus --resume " + path,
          "audit-jit --kernel " + path + " --tokens 1", "audit-jit --log " + path,
          "audit-jit --kernel inv_rope_quant --trace " + path, "report " + path, "merge " + path + " " + path,
          "compare " + path, "limits " + path, "route --against " + path,
          "predict " + kSmall + "--activations " + path})
      refuses(command, path);
  }
  for (const char* command :
       {"predict --model /dev/zero", "lint /dev/zero", "limits --public /dev/zero x.json",
        "compare --tuned /dev/zero --against /dev/zero"})
    refuses(command, "zero");
  refuses("predict " + kSmall + "--weights /dev/zero", "/dev/zero");
  for (const char* command : {"predict --model /proc/kmsg", "lint /proc/kmsg", "limits --public /proc/kmsg x.json",
                              "check --self-test build/none --resume /proc/kmsg"})
    refuses(command, "kmsg");
}

// Would catch a message as long as the file that it is about.
TEST_F(HostileFiles, AMessageIsShort) {
  const Outcome o =
      run("predict " + kSmall + "--load trace:" + write("x.csv", std::string(1 << 20, 'x')).string());
  EXPECT_EQ(o.status, 2);
  EXPECT_LT(o.err.size(), 5000u);
  EXPECT_NE(o.err.find("x.csv line 1"), std::string::npos) << o.err.substr(0, 200);
}

// Would catch a <(command) that is empty when the trace is read again, for the second case.
TEST_F(HostileFiles, ATraceComesThroughAPipe) {
  const std::string trace = write("t.csv", "token,slot,expert\n0,0,1\n0,1,2\n1,0,3\n1,1,0\n");
  const std::string out = folder_ / "out.csv";
  const std::string command = "cat '" + trace + "' | " + MOE_BINARY + " check " + kSizes +
                              "--executor reference --tokens 1,2 --quiet --load trace:/dev/stdin --csv '" +
                              out + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);
  const std::string rows = text_of(out);
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 3) << rows;
}

// Would catch a label of a file that moves the cursor, in any form of a report.
TEST_F(HostileFiles, ALabelIsPrintable) {
  const std::string evil = "\x1b[2J\x07\xC2\x9B\xFFred";
  fs::create_directories(folder_ / evil);
  const std::string file = write(evil + "/config.json",
                                 R"({"hidden_size": 256, "moe_intermediate_size": 128, "num_experts": 4,
      "num_experts_per_tok": 2})");
  std::string reports;
  for (const char* form : {"json", "csv", "junit", "markdown", "html"})
    reports += std::string(" --") + form + " '" + (folder_ / form).string() + "'";
  const Outcome o = run("check --executor reference --tokens 2 --model '" + file + "'" + reports);
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.out.find("red"), std::string::npos) << o.out;
  for (const std::string& text :
       {o.out, o.err, text_of(folder_ / "json"), text_of(folder_ / "csv"), text_of(folder_ / "junit"),
        text_of(folder_ / "markdown"), text_of(folder_ / "html")}) {
    EXPECT_NE(text, "");
    for (const char* raw : {"\x1b", "\x07", "\xC2\x9B", "\xFF"})
      EXPECT_EQ(text.find(raw), std::string::npos) << text.substr(0, 400);
  }
}

}  // namespace
