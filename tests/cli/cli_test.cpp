// The built program as a user meets it: exit codes, one error line, reports, help.
#include "tests/cli/program.hpp"

namespace {

using namespace moe::cli;

class Cli : public Program {};

TEST_F(Cli, HelpAndVersion) {
  EXPECT_EQ(run("--help").status, 0);
  EXPECT_EQ(run("check --help").status, 0);
  EXPECT_EQ(run("help predict").status, 0);
  EXPECT_EQ(run("--version").out, "moeproof 0.1.0\n");
  for (const char* command :
       {"check", "bench", "predict", "compare", "audit-jit", "reference", "list", "doctor"})
    EXPECT_NE(run("--help").out.find(std::string("\n  ") + command + " "), std::string::npos) << command;
}

TEST_F(Cli, BadInputGivesOneLineAndTwo) {
  refuses("", "no command");
  refuses("chekc", "did you mean 'check'");
  refuses("--seed 3 check", "stands before the command");
  refuses("check", "no problem given");
  refuses("check --model no-such-model", "no-such-model");
  refuses("check " + kSmall + "--tokens=-1", "given twice");
  refuses("check --model mixtral-8x7b --tokens -1", "'-1' is not a count");
  refuses("check --hidden 256 --intermediate 128 --experts 4 --top-k 5", "top_k");
  refuses("check --hidden 256 --intermediate 384 --tp 2 --experts 4 --top-k 2", "192");
  refuses("check " + kSmall + "--tile 256x256x128/s8", "227 KB");
  refuses("check " + kSmall + "--require-gpu --executor emulated", "contradict");
  refuses("check " + kSmall + "--see 3", "unknown option --see");
  refuses("predict " + kSmall + "--hardware h900", "h900");
  refuses("list nonsense", "no topic");
  refuses("audit-jit", "needs one of --kernel NAME");
  refuses("audit-jit --kernel inv_rope_quant", "--trace FILE or --tokens LIST");
  refuses("audit-jit --cache . --size groups=1", "belongs to audit-jit --kernel");
  refuses("audit-jit --kernel inv_rope_quant --tokens 4 --size grups=1", "has no size 'grups'");
  refuses("audit-jit --cache " + folder_.string(), "holds no compiled Triton kernel");
  refuses("audit-jit --log " + write("quiet.log", "all quiet\n").string(), "no line of vLLM's JIT monitor");
  refuses("compare", "needs a bench report");
  refuses("compare " + (folder_ / "none.json").string(), "none.json");
}

// Would catch a report without what a program asks it for: counts, and the argument that an annotation left.
TEST_F(Cli, AuditJitNamesWhatStillVaries) {
  const Outcome o = run("audit-jit --kernel inv_rope_quant --json - --trace " +
                        write("t.csv", "tokens\n1\n5\n16\n13\n5\n").string());
  ASSERT_EQ(o.status, 0) << o.err;
  const auto told = nlohmann::json::parse(o.out);
  EXPECT_EQ(told["variants_before"], 4);
  EXPECT_EQ(told["variants_after"], 2);
  EXPECT_EQ(told["remaining_arguments"], nlohmann::json({"scale_stride_k"}));
  EXPECT_EQ(told["before"][3]["row"], 4);
  EXPECT_EQ(told["before"][3]["because"], nlohmann::json({"scale_stride_k"}));
  const Outcome cache = run("audit-jit --cache " MOE_SOURCE_DIR "/fixtures/golden/triton/small");
  EXPECT_EQ(cache.status, 0);
  EXPECT_NE(cache.out.find("x_ptr: *fp32 | *fp32 %16"), std::string::npos) << cache.out;
}

// An empty value is no value: it would otherwise read as "not asked for", and a report be lost.
TEST_F(Cli, AnEmptyValueIsRefused) {
  for (const char* option : {"json", "html", "kernel", "weights", "activations", "model", "tokens"})
    refuses("predict " + kSizes + "--" + option + " ''", "empty value");
  refuses("reference " + kSmall + "--out ''", "empty value");
}

// Line ends, terminal escapes and bytes that are no UTF-8 in a value must not break the one line.
TEST_F(Cli, AnErrorIsOnePrintableLine) {
  refuses("check " + kSizes + "--tokens \"$(printf '1\\n2\\033\\377')\"", "'1\\x0a2\\x1b\\xff'");
  refuses("predict " + kSmall + "--load trace:" + write("b.csv", "\x80\x1b[31m\n").string(),
          "\\x80\\x1b[31m");
  refuses("help check extra", "extra");
}

// Catches: a typo that CI takes for a skip.
TEST_F(Cli, NothingRanSaysWhy) {
  refuses("check " + kSmall + "--executor reference --quiet --kernel nope",
          "has no kernel 'nope'; it has moeproof");
  const Outcome tile = run("check " + kSmall + "--quiet --tile 7x7x7");
  EXPECT_EQ(tile.status, 2) << tile.err;
  EXPECT_NE(tile.err.find("moeproof: nothing ran: none of 1 cases could run; the first: refused: no swap_ab "
                          "kernel has tile 7x7x7"),
            std::string::npos)
      << tile.err;
  refuses("check " + kSmall + "--executor reference --quiet --shard 2/2", "--shard", 77);
}

// Lost output must not look like success, whatever was printed.
TEST_F(Cli, AFullStandardOutputIsAnError) {
  for (const char* command : {"list", "doctor", "--version", "check --help"})
    for (const char* sink : {"/dev/full", "&-"}) {
      const int raw =
          std::system((std::string(MOE_BINARY) + " " + command + " 2>/dev/null >" + sink).c_str());
      EXPECT_EQ(WEXITSTATUS(raw), 3) << command << " >" << sink;
    }
}

// Logits from a file decide the routing of a prediction as a trace with the same picks does.
TEST_F(Cli, APredictionFollowsTheFilesLogits) {
  const std::string header = R"({"router_logits":{"dtype":"F32","shape":[9,4],"data_offsets":[0,144]}})";
  std::string bytes(8, '\0'), trace = "token,slot,expert\n";
  bytes[0] = char(header.size());
  bytes += header;
  for (int token = 0; token < 9; ++token) {
    for (const float logit : {9.0f, 8.0f, 0.0f, 0.0f}) bytes.append(reinterpret_cast<const char*>(&logit), 4);
    trace += std::to_string(token) + ",0,0\n" + std::to_string(token) + ",1,1\n";
  }
  const std::string logits = write("logits.safetensors", bytes), picks = write("picks.csv", trace);
  const std::string command = "predict " + kSmall + "--quiet --json - ";
  const auto counts = [&](const std::string& words) {
    return Json::parse(run(command + words).out).at("cases").at(0).at("prediction").at("counts");
  };
  EXPECT_EQ(counts("--activations " + logits), counts("--load trace:" + picks));
  EXPECT_NE(counts("--activations " + logits), counts("--load balanced"));
}

TEST_F(Cli, BadFilesGiveOneLineAndTwo) {
  refuses("predict --model " + write("config.json", "{\"hidden_size\": 64}").string(), "config.json");
  refuses("predict --model " + write("empty.json", "").string(), "empty.json");
  refuses("predict --model " + write("list.json", "[1, 2]").string(), "list.json");
  refuses("compare " + write("bench.json", "{\"schema\": 2}").string(), "schema");
  refuses("compare " + write("text.json", "hello").string(), "not JSON");
  write("trace.csv", "token,slot,expert,weight\n0,0,999,1\n");
  refuses("predict " + kSmall + "--load trace:" + (folder_ / "trace.csv").string(), "trace.csv");
  fs::create_directories(folder_ / "weights");
  write("weights/model.safetensors", std::string("\x40\0\0\0\0\0\0\0{\"a\":", 13));
  refuses("check " + kSmall + "--quiet --executor reference --weights " + (folder_ / "weights").string(),
          "model.safetensors");
  refuses("predict " + kSmall + "--weights " + (folder_ / "weights").string(), "model.safetensors");
  refuses("predict " + kSmall + "--activations " + (folder_ / "none").string(), "none");
  refuses("compare " + folder_.string(), "directory");
  refuses("predict --hidden 256 --intermediate 128 --experts 65536 --top-k 2 --tokens 1000000000",
          "use fewer");
}

// Would catch a table that lacks a figure, a score that is no JSON, and a bad file that ends in anything but
// one line.
TEST_F(Cli, ScoresTimesOfOthers) {
  const std::string dense = write("dense.csv", "m,n,k,time_us\n64,2112,7168,25\n128,4096,7168,26\n").string();
  const Outcome table = run("compare --against " + dense);
  EXPECT_EQ(table.status, 0) << table.err;
  for (const char* word : {"dense GEMMs", "mean", "median", "bias", "naive", "k-blocks > 40"})
    EXPECT_NE(table.out.find(word), std::string::npos) << word << "\n" << table.out;
  const Json json = Json::parse(run("compare --json - --against " + dense).out).at("against");
  EXPECT_EQ(json.at("n_scored"), 2);
  EXPECT_EQ(json.at("naive").at("n"), 2);
  EXPECT_EQ(run("compare --quiet --csv " + (folder_ / "rows.csv").string() + " --against " + dense).status,
            0);
  const std::string rows = text_of(folder_ / "rows.csv");
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 3) << rows;
  refuses("compare --against " + (folder_ / "none.csv").string(), "none.csv");
  refuses("compare --against " + folder_.string(), "directory");
  refuses("compare --against " + write("empty.csv", "").string(), "no line of column names");
  refuses("compare --against " + write("head.csv", "m,n,k,time_us\n").string(), "no row");
  refuses("compare --against " + write("other.csv", "a,b\n1,2\n").string(), "none of the known layouts");
  refuses("compare --against " + write("word.csv", "m,n,k,time_us\n64,x,7168,25\n").string(), "line 2: n");
  refuses("compare --against " + write("wide.csv", "m,n,k,time_us\n64,1,2,3,4\n").string(), "5 fields");
  refuses("compare --against " + write("cut.csv.gz", "\x1f\x8b\b").string(), "cut off");
  refuses("compare --tuned " + folder_.string() + " --against " + dense, "no tuned table");
  refuses("compare bench.json --against " + dense, "--against");
  refuses("compare --tuned " + folder_.string(), "--against");
}

// Bars in the order of the launches that end where the time ends, and the parts that the other layout
// changes. Would catch a part that is left out and a change with the wrong sign.
TEST_F(Cli, ExplainsWhereTheTimeGoes) {
  const Outcome o = run("predict " + kSmall + "--why");
  EXPECT_EQ(o.status, 0) << o.err;
  for (const char* word :
       {"of which, in order", "gemm1", "combine", "###", "normal_mma", "instead", "tensor pipe", " -> "})
    EXPECT_NE(o.out.find(word), std::string::npos) << word << "\n" << o.out;
  EXPECT_EQ(run("predict " + kSmall).out.find("instead"), std::string::npos);
  const Json cases = Json::parse(run("predict " + kSmall + "--why --json -").out).at("cases");
  ASSERT_EQ(cases.size(), 2u);
  double parts = 0;
  for (const Json& part : cases.at(0).at("prediction").at("parts")) parts += part.at("seconds").get<double>();
  EXPECT_NEAR(parts, cases.at(0).at("prediction").at("seconds").get<double>(), 1e-9);
}

// A kernel with one tile is predicted in it, whatever `auto` means elsewhere.
TEST_F(Cli, PredictsADenseGemm) {
  const std::string dense =
      "predict --kernel cutlass_blockwise_dense --hidden 1024 --intermediate 512 --top-k 1 --tokens 64 ";
  const Outcome o = run(dense + "--op grouped_gemm --experts 1");
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.out.find("128x128x128"), std::string::npos) << o.out;
  refuses(dense + "--op grouped_gemm --experts 2", "one dense GEMM");
  refuses(dense + "--op grouped_gemm --experts 1 --tile 64x128x128", "128x128x128");
}

// What `tune` writes is what `lint` and `--tuned` read; a folder with one broken table ends with 1, without
// any with 2. Would catch a file name that no framework looks for, and errors that end with 0.
TEST_F(Cli, WritesAndLintsTunedTables) {
  const std::string folder = folder_.string();
  const Outcome tuned = run("tune " + kSizes + "--tokens 1,16 --out " + folder);
  EXPECT_EQ(tuned.status, 0) << tuned.err;
  const fs::path table =
      folder_ / "E=4,N=128,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";
  const Json json = Json::parse(text_of(table));
  EXPECT_EQ(json.size(), 2u);
  EXPECT_EQ(json.at("16").size(), 6u);
  const Json report = Json::parse(run("tune " + kSizes + "--tokens 1 --json -").out).at("tune");
  EXPECT_EQ(report.at("file"), table.filename().string());
  EXPECT_LE(report.at("batches").at(0).at("best").at(0).at("seconds"),
            report.at("batches").at(0).at("default_seconds"));

  const Outcome clean = run("lint " + folder);
  EXPECT_EQ(clean.status, 0) << clean.out << clean.err;
  EXPECT_NE(clean.out.find("1 tables: 0 errors"), std::string::npos) << clean.out;
  write("E=8,N=64,device_name=NVIDIA_H200.json", text_of(table).substr(0, 60));
  const Outcome broken = run("lint --json - " + folder);
  EXPECT_EQ(broken.status, 1) << broken.err;
  const Json lint = Json::parse(broken.out).at("lint");
  EXPECT_EQ(lint.at("errors"), 1);
  EXPECT_EQ(lint.at("tables"), 2);
  fs::create_directories(folder_ / "none");
  refuses("lint " + (folder_ / "none").string(), "no tuned table");
  refuses("lint " + (folder_ / "missing").string(), "missing");
  refuses("lint", "lint needs");
  refuses("tune --out " + folder, "no problem given");
  refuses("tune " + kSizes + "--space all", "vllm");
  refuses("tune " + kSizes + "--device-name a/b", "file's name");
}

// Where there is no card, or no CUDA compiler was there at build time: would catch a skip that passes for a
// result.
TEST_F(Cli, CudaThatCannotRunIsSkippedWithItsReason) {
  const std::string doctor = run("doctor").out, words = "not available: ";
  const auto line = doctor.find("\n  cuda ");
  ASSERT_NE(line, std::string::npos);
  const std::string cuda = doctor.substr(line + 1, doctor.find('\n', line + 1) - line - 1);
  if (cuda.find(words) == std::string::npos) GTEST_SKIP() << "there is a card here";
  const std::string reason = cuda.substr(cuda.find(words) + words.size());
  for (const auto& [option, status] : {std::pair{"", 77}, std::pair{" --require-gpu", 3}}) {
    const Outcome o = run("check " + kSmall + "--executor cuda" + option);
    EXPECT_EQ(o.status, status) << option;
    EXPECT_NE(o.out.find(reason), std::string::npos) << o.out;
  }
}

TEST_F(Cli, PredictExplainsBothLayouts) {
  const Outcome o = run("predict --model deepseek-v3 --tp 8 --tokens 16 --load zipf:1.2 --layout both");
  EXPECT_EQ(o.status, 0) << o.err;
  for (const char* word : {"normal_mma", "swap_ab", "tensor pipe active", "useful FLOP", "padding", "waves",
                           "bytes from HBM", "limited by", "against normal_mma"})
    EXPECT_NE(o.out.find(word), std::string::npos) << word << "\n" << o.out;
}

// Same seed, same bytes: two runs of the program write the same report.
TEST_F(Cli, TheReferenceChecksItselfTheSameTwice) {
  const std::string command = "check " + kSmall + "--executor reference --layout all --quiet --json ";
  const Outcome first = run(command + "-"), second = run(command + "-");
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(first.out, second.out);
  const Json j = Json::parse(first.out);
  ASSERT_EQ(j["cases"].size(), 3u);
  for (const auto& c : j["cases"]) {
    EXPECT_EQ(c["verdict"]["correctness"], "passed");
    EXPECT_GT(c["prediction"]["seconds"], 0);
  }
}

// The replay line must run, and run the same case.
TEST_F(Cli, AReplayLineReplays) {
  const Outcome first = run("check " + kSmall + "--executor reference --layout swap_ab --quiet --json -");
  const std::string replay = Json::parse(first.out)["cases"][0]["verdict"]["replay"];
  const std::string program = MOE_BINARY;  // as it was called, so that the line can be pasted
  ASSERT_TRUE(replay.starts_with(program + " check ")) << replay;
  const Outcome again = run(replay.substr(program.size() + 1) + " --quiet --json -");
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(Json::parse(again.out)["cases"][0]["case"], Json::parse(first.out)["cases"][0]["case"]);
}

// Catches: a replay line that judges with another budget or another number of schedules than the run it
// stands for.
TEST_F(Cli, AReplayLineHoldsTheOptionsOfItsVerdict) {
  const Outcome o = run("check " + kSmall +
                        "--judge-budget 1e5 --schedules 2 --isolate --case-timeout 9s --quiet --json -");
  const std::string replay = Json::parse(o.out)["cases"][0]["verdict"]["replay"];
  for (const char* option : {"--judge-budget 100000 ", "--schedules 2 ", "--isolate ", "--case-timeout 9s "})
    EXPECT_NE(replay.find(option), std::string::npos) << replay;
  const Outcome again = run(replay.substr(std::string(MOE_BINARY).size() + 1) + " --quiet --json -");
  EXPECT_EQ(Json::parse(again.out)["cases"][0]["verdict"]["coverage"],
            Json::parse(o.out)["cases"][0]["verdict"]["coverage"]);
}

TEST_F(Cli, AWorkerGivesTheSameVerdict) {
  const std::string command = "check " + kSmall + "--executor reference --quiet --json - ";
  EXPECT_EQ(run(command).out, run(command + "--isolate").out);
}

TEST_F(Cli, AnIdleRankPasses) {
  EXPECT_EQ(run("check " + kSizes + "--tokens 0 --executor reference --quiet").status, 0);
}

TEST_F(Cli, RandomTrialsRun) {
  const Outcome o = run("check --trials 6 --executor reference --seed 3 --quiet --allow mistrusted --json -");
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_GE(Json::parse(o.out)["cases"].size(), 6u + 50u);  // the corpus comes first
  const Outcome topk = run("check --trials 6 --op topk --executor reference --quiet --json -");
  EXPECT_LT(Json::parse(topk.out)["cases"].size(), 6u + 15u) << "lines of other ops are left out";
}

// Catches: a file of cases whose errors do not say where, a property that nobody counts, a replay without its
// name.
TEST_F(Cli, SuitesAndPropertiesRun) {
  const std::string line =
      "op=moe_layer tokens=5 hidden=128 inter=128 experts=4 top_k=2 tp=1 load=uniform quant=block128 seed=1 "
      "kernel=moeproof layout=swap_ab tile=8x128x128\n";
  const fs::path file = write("two.txt", "# why\n" + line + line);
  const Outcome o =
      run("check --suite " + file.string() + " --executor reference --properties P8,P14 --json - --quiet");
  EXPECT_EQ(o.status, 0) << o.err;
  const Json report = Json::parse(o.out);
  EXPECT_EQ(report["cases"].size(), 2u);
  EXPECT_EQ(report["properties"][0]["held"], 2);
  EXPECT_EQ(report["properties"][1]["held"], 0);
  // A worker has one case open: a property that opens another must not leave the next without one.
  const Outcome isolated = run("check --case '" + line.substr(0, line.size() - 1) +
                               "' --executor reference --isolate --properties all --json - --quiet");
  EXPECT_EQ(isolated.status, 0) << isolated.err;
  const Outcome table = run("check --suite " + file.string() + " --executor reference --properties P8,P14");
  EXPECT_NE(table.out.find("P14  never applied: the executor captures no graph"), std::string::npos)
      << table.out;
  refuses("check --suite " + write("bad.txt", line + "\nop=moe_layer x=1\n").string(), "bad.txt:3: ");
  refuses("check --suite /no/file", "/no/file");
  refuses("check --suite corpus --tokens 3", "each line says it");
  refuses("check " + kSmall + "--resume j", "belongs to long runs");
  refuses("check " + kSmall + "--properties P999", "is no property");
  refuses("report", "needs files");
  refuses("merge one.json", "two shards or more");
  refuses("check --trials 3 --faults M06", "--faults belongs to --self-test");
  refuses("check --self-test x --suite corpus", "it chooses cases and kernels itself");
  refuses("check --self-test x --html y", "its reports are --json and --markdown");
  refuses("check --self-test x --faults nope", "no fault 'nope' is planted");
  EXPECT_NE(run("list properties").out.find("P4b"), std::string::npos);
}

// Catches: a run whose death loses what it had done, or that begins again, or that counts a case twice.
TEST_F(Cli, AKilledRunGoesOn) {
  const std::string journal = (folder_ / "j.jsonl").string();
  const std::string command =
      "check --executor reference --allow mistrusted --quiet --resume " + journal + " ";
  const int ignored = std::system(
      ("timeout -s KILL 1 " + std::string(MOE_BINARY) + " " + command + "--trials 100000 >/dev/null 2>&1")
          .c_str());
  EXPECT_NE(ignored, 0);
  const Json so_far = Json::parse(run("report " + journal + " --json -").out);
  const std::size_t before = so_far["cases"].size();
  EXPECT_GT(before, 0u);
  const Outcome rest = run(command + "--trials 5 --json -");
  EXPECT_EQ(rest.status, 0) << rest.err;
  const Json whole = Json::parse(rest.out);
  const Json after = Json::parse(run("report " + journal + " --json -").out);
  EXPECT_EQ(after["cases"].size(), std::max(before, whole["cases"].size()));
  refuses(command + "--trials 5 --seed 9", "belongs to other options");
}

// Catches: a property that divides by the number of rows, and takes the program with it.
TEST_F(Cli, PropertiesHoldWhereThereIsNothingToDo) {
  std::string lines;
  const std::string sizes =
      " tokens=3 hidden=128 inter=128 experts=6 top_k=1 ep=2 load=only:5-5 quant=block128 seed=3\n";
  for (const char* op : {"moe_layer", "topk", "quantize", "act_quant", "combine", "inv_rope_quant"})
    lines += "op=" + std::string(op) + sizes;
  for (const char* contract : {"routed", "contiguous", "masked", "offsets"})
    for (const char* gemm : {"1", "2"})
      lines += "op=grouped_gemm gemm=" + std::string(gemm) + " contract=" + contract + sizes;
  const Outcome o = run("check --executor reference --properties all --quiet --allow mistrusted --suite " +
                        write("none.txt", lines).string());
  EXPECT_EQ(o.status, 0) << o.err;
}

TEST_F(Cli, ATimeBudgetEndsTheRun) {
  const Outcome o =
      run("check " + kSmall + "--executor reference --load uniform,balanced --time-budget 0.000001s --quiet");
  EXPECT_EQ(o.status, 4) << o.err;
}

// A report that cannot be written is exit 3 and leaves no half file.
TEST_F(Cli, UnwritableReports) {
  const std::string command = "predict " + kSmall + "--quiet --json ";
  refuses(command + "/dev/full", "/dev/full", 3);
  refuses(command + (folder_ / "no" / "dir.json").string(), "dir.json", 3);
  refuses("predict " + kSmall + "--json r --csv ./r", "same file");
  refuses("reference " + kSmall + "--out /dev/full --quiet", "/dev/full", 3);
  const std::string good = folder_ / "r.json";
  EXPECT_EQ(run(command + good).status, 0);
  EXPECT_NO_THROW(Json::parse(text_of(good)));
}

TEST_F(Cli, ReferenceWritesATensorFile) {
  const std::string file = folder_ / "layer.safetensors";
  const Outcome o = run("reference " + kSmall + "--out " + file);
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.out.find("gemm2"), std::string::npos);
  const std::string bytes = text_of(file);
  ASSERT_GT(bytes.size(), 8u);
  const std::size_t header = std::size_t(std::uint8_t(bytes[0])) + 256 * std::size_t(std::uint8_t(bytes[1]));
  const Json j = Json::parse(bytes.substr(8, header));
  EXPECT_EQ(j["out"]["dtype"], "BF16");
  EXPECT_EQ(j["out"]["shape"], Json({9, 256}));
}

// Measured at twice the predicted time the model is off; measured as predicted it agrees; twice as long is
// slow.
TEST_F(Cli, CompareJudgesTheModel) {
  Json j = Json::parse(run("predict " + kSmall + "--layout both --quiet --json -").out);
  for (auto& c : j["cases"]) {
    const double seconds = c["prediction"]["seconds"];
    c["measurement"] = {{"seconds", {seconds * 2, seconds * 2.01, seconds * 2.02}}};
  }
  const std::string twice = write("twice.json", j.dump());
  EXPECT_EQ(run("compare " + twice).status, 0);
  EXPECT_EQ(run("compare " + twice + " --fail-on off --quiet").status, 1);
  EXPECT_EQ(run("compare " + twice + " " + twice + " --fail-on slow --quiet").status, 0);
  for (auto& c : j["cases"])
    for (auto& s : c["measurement"]["seconds"]) s = s.get<double>() / 2;
  const std::string once = write("once.json", j.dump());
  EXPECT_EQ(run("compare " + once + " --fail-on off --quiet").status, 0);
  EXPECT_EQ(run("compare " + twice + " " + once + " --fail-on slow --quiet").status, 1);
  EXPECT_EQ(run("compare " + once + " " + twice + " --fail-on slow --quiet").status, 0);
}

TEST_F(Cli, ListAndDoctorAnswer) {
  const Outcome list = run("list models");
  EXPECT_EQ(list.status, 0);
  for (const char* model : {"deepseek-v3", "mixtral-8x7b", "qwen3-235b"})
    EXPECT_NE(list.out.find(model), std::string::npos) << model;
  const Outcome doctor = run("doctor");
  EXPECT_EQ(doctor.status, 0) << doctor.err;
  for (const char* word : {"driver", "cuda", "emulated", "reference", "hardware"})
    EXPECT_NE(doctor.out.find(word), std::string::npos) << word;
}

// Would catch an exit 1 that does not say why: --quiet drops the table, never what was not passed.
TEST_F(Cli, quiet_still_names_what_was_not_passed) {
  const std::string nasty =
      "check --hidden 256 --intermediate 128 --experts 4 --top-k 2 --tokens 1 --data nasty --quiet";
  const Outcome o = run(nasty);
  EXPECT_EQ(o.status, 1) << o.err;
  EXPECT_EQ(o.out, "");
  EXPECT_NE(o.err.find("mistrusted"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find(std::string("replay: ") + MOE_BINARY + " check"), std::string::npos) << o.err;
  EXPECT_EQ(run(nasty + " --allow mistrusted").status, 0);
}

// Would catch a prediction of one kernel under another's name.
TEST_F(Cli, predict_refuses_a_kernel_without_a_model) {
  refuses("predict --model deepseek-v3 --tp 8 --kernel nope",
          "kernel 'nope' has no model; moeproof, moeproof_fused, moeproof_grouped, triton_fused_moe and "
          "cutlass_blockwise_dense have");
}

}  // namespace
