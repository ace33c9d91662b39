// The parts of the worker protocol that a child cannot show: words of declarations, any answer at all, sparse
// files.
#include "harness/worker_protocol.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fixtures/problem/errors.hpp"
#include "harness/due_outputs.hpp"
#include "harness/tensor_file.hpp"

namespace moe::harness {
namespace {

constexpr QuantScheme kTensor{.kind = QuantKind::tensor_dynamic};

using Json = nlohmann::ordered_json;

std::string text_of(const Semantics& s) {
  std::ostringstream out;
  out << s;
  return out.str();
}

// Would catch a table of words in another order than its enumerators: a kernel would be held to bits it never
// claimed.
TEST(WorkerProtocol, EveryWordOfSemanticsMeansItself) {
  for (const char* word :
       {"product_fma", "act_weight_fma", "weight_act_fma", "act_weight_mul_add", "product_mul_add"})
    EXPECT_NE(text_of(read_semantics({{"scale_order", word}}, {})).find(word), std::string::npos) << word;
  for (const char* word : {"divide", "multiply_inverse", "multiply_ratio"})
    EXPECT_NE(
        text_of(read_semantics({{"quant_formula", word}}, {})).find(std::string("quant_formula ") + word),
        std::string::npos)
        << word;
  for (const char* word : {"combine", "gemm2", "input"})
    EXPECT_NE(text_of(read_semantics({{"weight_place", word}}, {})).find(std::string("weight_place ") + word),
              std::string::npos)
        << word;
  EXPECT_EQ(read_semantics({{"accumulator", "hmma"}}, {}).accumulator, Accumulator::hmma);
  EXPECT_EQ(read_semantics({{"hmma_order", "interleaved4"}}, {}).hmma_order, HmmaOrder::interleaved4);
  EXPECT_EQ(read_semantics({{"scale_formula", "reciprocal"}}, {}).scale_formula, ScaleFormula::reciprocal);
  EXPECT_EQ(read_semantics({{"gate_rounding", "bf16"}}, {}).gate_rounding, GateRounding::bf16);
  EXPECT_EQ(read_semantics({{"product_rounding", "bf16"}}, {}).product_rounding, ProductRounding::bf16);
  EXPECT_EQ(read_semantics({{"promote_k", 64}}, {}).promote_k, 64);
  EXPECT_EQ(read_semantics("vllm-triton", {}), semantics_preset("vllm-triton", {}));
  EXPECT_EQ(read_semantics({{"preset", "cutlass"}}, kTensor), semantics_preset("cutlass", kTensor));
}

// A misspelt declaration must not quietly leave the default.
TEST(WorkerProtocol, AWrongDeclarationIsSaid) {
  EXPECT_THROW(read_semantics({{"promotek", 64}}, {}), BadInput);
  EXPECT_THROW(read_semantics({{"promote_k", 33}}, {}), BadInput);
  EXPECT_THROW(read_semantics({{"promote_k", "128"}}, {}), BadInput);
  EXPECT_THROW(read_semantics({{"accumulator", "fma"}}, {}), BadInput);
  EXPECT_THROW(read_semantics(7, {}), BadInput);
  EXPECT_THROW(read_semantics({{"promote_k", 4294967328}}, {}), BadInput);  // 32 in the low half
  EXPECT_THROW(read_semantics({{"promote_k", -32}}, {}), BadInput);
  EXPECT_THROW(read_semantics({{"promote_k", 64.0}}, {}), BadInput);
  EXPECT_THROW(read_semantics({{"promote_k", 18446744073709551615u}}, {}), BadInput);
  EXPECT_THROW(read_semantics({{"amax_floor", 1e30}}, {}), BadInput);
  EXPECT_THROW(read_semantics({{"amax_floor", -1}}, {}), BadInput);
  EXPECT_THROW(read_semantics({{"promote_k", 96}}, {}), BadInput);  // block128: no case could be judged
  EXPECT_EQ(read_semantics({{"promote_k", 96}}, kTensor).promote_k, 96);
  EXPECT_THROW(read_semantics("no-such-preset", {}), BadInput);
}

Json greeting_of(const char* quants, const char* semantics) {
  return Json::parse(std::string(R"({"protocol":1,"kernels":[{"name":"k","quants":)") + quants +
                     R"(,"semantics":)" + semantics + "}]}");
}

// A declaration that some scheme of the kernel cannot have must be said before a case costs anything; one
// that all its schemes can have must not be refused.
// Would catch outputs that no op of the kernel has, which would be waited for in vain.
TEST(WorkerProtocol, OutputsAreThoseOfTheKernelsOps) {
  const auto hello = [](const char* ops, const char* outputs) {
    return Json::parse(std::string(R"({"protocol":1,"kernels":[{"name":"k","ops":)") + ops +
                       R"(,"outputs":)" + outputs + "}]}");
  };
  EXPECT_NO_THROW(read_hello(hello(R"(["moe_layer"])", R"(["gemm1","out"])")));
  EXPECT_NO_THROW(read_hello(hello("[]", R"(["sorted_token_ids","o_codes","c"])")));
  EXPECT_THROW(read_hello(hello(R"(["combine"])", R"(["c"])")), BadInput);
  try {
    read_hello(hello(R"(["combine"])", R"(["nope"])"));
    ADD_FAILURE() << "an unknown output was taken";
  } catch (const BadInput& e) {
    EXPECT_STREQ(e.what(), "outputs: 'nope' is none of out");
  }
  for (int op = 0; op <= int(Op::inv_rope_quant); ++op) {
    Problem p;
    p.op = Op(op);
    const auto names = output_names(Op(op));
    for (const DueTensor& due : due_outputs(p))
      EXPECT_NE(std::find(names.begin(), names.end(), due.name), names.end()) << due.name;
    EXPECT_FALSE(names.empty());
  }
}

// Would catch a refusal whose text is lost, and true taken for the number 1.
TEST(WorkerProtocol, ARefusalKeepsItsWords) {
  EXPECT_EQ(read_hello(Json::parse(R"({"protocol":1,"refusal":""})")).refusal,
            "refused without a reason (an empty text)");
  try {
    read_hello(Json::parse(R"({"refusal":"no GPU here"})"));
    ADD_FAILURE() << "a greeting without a protocol was taken";
  } catch (const BadInput& e) {
    EXPECT_STREQ(e.what(),
                 "the worker says no 'protocol', this program speaks 1; the worker refuses: no GPU here");
  }
  EXPECT_THROW(read_semantics({{"amax_floor", true}}, {}), BadInput);
}

TEST(WorkerProtocol, ADeclarationIsReadForTheSchemesOfItsKernel) {
  EXPECT_NO_THROW(read_hello(greeting_of(R"(["token_channel"])", R"({"promote_k":96})")));
  EXPECT_THROW(read_hello(greeting_of(R"(["token_channel","block128"])", R"({"promote_k":96})")), BadInput);
  EXPECT_THROW(read_hello(greeting_of("[]", R"({"promote_k":0})")), BadInput);
  for (const std::string_view preset : semantics_presets())
    EXPECT_NO_THROW(read_hello(greeting_of("[]", ('"' + std::string(preset) + '"').c_str()))) << preset;
}

// 2^32 + 1 is no 1, and a name with blanks would break the line that replays a case.
TEST(WorkerProtocol, NumbersAndNamesOfAGreetingAreWhole) {
  const Json right = greeting_of("[]", "null");
  EXPECT_EQ(read_hello(right).kernels.front().name, "k");
  for (const char* version : {"4294967297", "1.5", "true", "\"1\""}) {
    Json wrong = right;
    wrong["protocol"] = Json::parse(version);
    EXPECT_THROW(read_hello(wrong), BadInput) << version;
  }
  Json twice = right;
  twice["kernels"].push_back(twice["kernels"][0]);  // which of the two would be judged?
  EXPECT_THROW(read_hello(twice), BadInput);
  Json blank = right;
  blank["kernels"][0]["name"] = "two words";
  EXPECT_THROW(read_hello(blank), BadInput);
}

// Whatever a child greets with is read or refused in one line; nothing else is thrown.
RC_GTEST_PROP(WorkerProtocol, AnyGreetingIsReadOrRefused, ()) {
  const std::string greeting =
      R"({"protocol":1,"name":"n","graph":true,"device":{"name":"d","sms":1},"kernels":[{"name":"k","ops":["topk"],)"
      R"("contracts":["masked"],"quants":["block128"],"outputs":["out"],"deterministic":true,"semantics":"deepgemm"}]})";
  std::string text = greeting;
  const std::vector<std::string> pieces{"null", "7", "[]", "{}", "\"x\"", "true", "1e99", "-1"};
  for (int i = *rc::gen::inRange(1, 4); i > 0; --i) {
    const auto colon = text.find(':', *rc::gen::inRange<std::size_t>(0, text.size()));
    if (colon == std::string::npos) continue;
    const auto end = text.find_first_of(",}]", colon);
    text.replace(colon + 1, end - colon - 1, *rc::gen::elementOf(pieces));
  }
  const Json answer = Json::parse(text, nullptr, false);
  if (answer.is_discarded()) return;  // ask_worker stands in front of it
  try {
    read_hello(answer);
  } catch (const BadInput& e) {
    RC_ASSERT(std::string(e.what()).find('\n') == std::string::npos);
  }
}

TensorSet one_tensor(std::int64_t groups, std::int64_t bytes) {
  TensorSet set;
  set.add(Tensor("w", DType::e4m3, {groups, bytes}));
  return set;
}

// A weight tensor of hundreds of experts costs only those that have rows.
TEST(TensorFile, GroupsThatWereNeverFilledStayHoles) {
  TensorSet set = one_tensor(64, 1 << 20);
  set.at("w").filled_groups.assign(64, 0);
  set.at("w").filled_groups[5] = 1;
  set.at("w").as<std::uint8_t>()[5 << 20] = 42;
  const TensorFile file = TensorFile::of(set);
  struct stat info {};
  ASSERT_EQ(::stat(file.path().c_str(), &info), 0);
  EXPECT_GT(info.st_size, 64 << 20);
  EXPECT_LT(info.st_blocks * 512, 4 << 20);
  const TensorSet read = read_tensor_file(file.path());
  EXPECT_EQ(read.at("w").filled_groups, set.at("w").filled_groups);
  EXPECT_EQ(read.at("w").as<std::uint8_t>()[5 << 20], 42);
}

// A byte written into weights of an expert without rows must show, and looking for it must not fill the
// holes.
TEST(TensorFile, AWriteIntoAHoleShows) {
  TensorSet set = one_tensor(64, 1 << 20);
  set.at("w").filled_groups.assign(64, 0);
  set.at("w").filled_groups[5] = 1;
  std::memset(set.at("w").data() + (5 << 20), 42, 1 << 20);
  const TensorFile file = TensorFile::of(set);
  const Tensor& shared = file.tensors().at("w");
  EXPECT_FALSE(file.holes_were_filled(shared));
  struct stat info {};
  ASSERT_EQ(::stat(file.path().c_str(), &info), 0);
  EXPECT_LT(info.st_blocks * 512, 4 << 20);
  std::byte* const bytes = const_cast<std::byte*>(shared.data());
  bytes[3 << 20] = std::byte{0};  // what a reader leaves: memory, but nothing in it
  EXPECT_FALSE(file.holes_were_filled(shared));
  for (const std::size_t at : {std::size_t(6) << 20, (std::size_t(64) << 20) - 1}) {
    bytes[at] = std::byte{1};
    EXPECT_TRUE(file.holes_were_filled(shared)) << at;
    bytes[at] = std::byte{0};
  }
}

// Would catch a family that is taken for one that has a model, and stages that are cut down to what fits.
TEST(Hello, NamesTheFamilyThatIsPredicted) {
  Json answer{{"protocol", 1}, {"ids", true}, {"kernels", {{{"name", "k"}, {"family", "triton_fused_moe"}}}}};
  answer["kernels"][0]["stages"] = 4;
  const WorkerHello hello = read_hello(answer);
  EXPECT_TRUE(hello.ids);
  EXPECT_EQ(hello.kernels.front().family, KernelFamily::triton_fused_moe);
  EXPECT_EQ(hello.kernels.front().stages, 4);
  EXPECT_EQ(hello.kernels.front().warps, 0);
  answer["kernels"][0]["stages"] = 400;
  EXPECT_THROW(read_hello(answer), BadInput);
  answer["kernels"][0] = {{"name", "k"}, {"family", "tma_persistent"}};
  EXPECT_THROW(read_hello(answer), BadInput) << "nothing but a kernel of this program is one";
}

// Would catch integers that start as a right answer: -1 is one of expert ids.
TEST(TensorFile, OutputsStartAsNoRightAnswer) {
  TensorSet set;
  set.add(Tensor("ids", DType::i32, {3}));
  set.add(Tensor("c", DType::bf16, {3}));
  const TensorFile file = TensorFile::poisoned(set);
  for (const std::int32_t id : file.tensors().at("ids").as<std::int32_t>()) EXPECT_LT(id, -1);
  for (const std::uint16_t bits : file.tensors().at("c").as<std::uint16_t>()) EXPECT_EQ(bits, 0xFFFF);
}

// The guard between two tensors belongs to both: the nearer one is named.
TEST(TensorFile, AWriteBesideATensorNamesIt) {
  TensorSet set = one_tensor(1, 100);
  set.add(Tensor("c", DType::bf16, {3}));
  for (const auto& [name, offset, words] : {std::tuple{"w", 100, "1 bytes behind the end of 'w'"},
                                            {"w", -1, "1 bytes in front of 'w'"},
                                            {"c", -3, "3 bytes in front of 'c'"},
                                            {"c", 6, "1 bytes behind the end of 'c'"}}) {
    const TensorFile file = TensorFile::poisoned(set);
    EXPECT_EQ(file.damage(), "");
    const_cast<std::byte*>(file.tensors().at(name).data())[offset] = std::byte{0};
    EXPECT_NE(file.damage().find(words), std::string::npos) << file.damage();
  }
}

}  // namespace
}  // namespace moe::harness
