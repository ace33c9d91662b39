#include "harness/worker_protocol.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "fixtures/files/json_access.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/due_outputs.hpp"
#include "harness/json_reading.hpp"

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;

std::string excerpt(const std::string& text, std::size_t most = 120) {
  return one_line(text.size() > most ? text.substr(0, most) + "..." : text);
}

/// How long a second answer is waited for: a child that prints two does so at once.
constexpr int kSecondAnswerMs = 2;
/// Characters of a refusal or of what a kernel raised that a verdict keeps.
constexpr std::size_t kLongestReason = 2000;

/// What stands for a refusal's text where there is none.
constexpr std::string_view kNoReason = "refused without a reason (an empty text)";

/// How deep the lists and objects of a JSON text go. Asked before it is parsed: what copies and prints a
/// document calls itself for each level.
int depth_of(std::string_view text) {
  int depth = 0, deepest = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && (text[i] == '[' || text[i] == '{')) {
      deepest = std::max(deepest, ++depth);
    } else if (!quoted && (text[i] == ']' || text[i] == '}')) {
      --depth;
    }
  }
  return deepest;
}

/// The member `key`, or `otherwise` where it is absent or null.
template <class T>
T get_or(const Json& j, const char* key, T otherwise) {
  if (!j.contains(key) || j.at(key).is_null()) return otherwise;
  return json_value<T>(j.at(key), key);
}

/// A whole number of `least` to `most`: one that does not fit is said, not cut down.
int whole_or(const Json& j, const char* key, int otherwise, int least, int most) {
  if (!j.contains(key) || j.at(key).is_null()) return otherwise;
  const Json& value = j.at(key);
  const bool fits = value.is_number_unsigned() ? value.get<std::uint64_t>() <= std::uint64_t(most)
                                               : value.is_number_integer();
  if (!fits || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
    throw BadInput(
        fmt::format("'{}' is {}, no whole number of {} to {}", key, excerpt(value.dump()), least, most));
  return value.get<int>();
}

template <class E>
std::vector<E> words(const Json& j, const char* key, E last) {
  std::vector<E> all;
  for (const std::string& word : get_or<std::vector<std::string>>(j, key, {}))
    all.push_back(parse_name(key, excerpt(word), last));
  return all;
}

template <class T>
bool holds(const std::vector<T>& allowed, T value) {
  return allowed.empty() || std::find(allowed.begin(), allowed.end(), value) != allowed.end();
}

/// What the model needs to know of a kernel; only families that it can predict.
void read_family(const Json& j, WorkerKernel& k) {
  const std::string word = get_or<std::string>(j, "family", "");
  if (word.empty()) return;
  if (word != name(KernelFamily::triton_fused_moe))
    throw BadInput(fmt::format("'family' is '{}'; the model knows {}", excerpt(word),
                               name(KernelFamily::triton_fused_moe)));
  k.family = KernelFamily::triton_fused_moe;
  k.stages = whole_or(j, "stages", 0, 1, 16);
  k.warps = whole_or(j, "warps", 0, 1, 32);
}

/// An output that the kernel's ops do not have would only be waited for in vain.
void check_outputs(const WorkerKernel& k) {
  std::vector<std::string_view> known;
  for (int op = 0; op <= int(Op::inv_rope_quant); ++op)
    if (holds(k.ops, Op(op)))
      for (const std::string_view name : output_names(Op(op)))
        if (!holds(known, name) || known.empty()) known.push_back(name);
  for (const std::string& output : k.outputs)
    if (!holds(known, std::string_view(output))) bad_word("outputs", excerpt(output), known);
}

/// A wrong declaration is said now, not at a case: it is read for every scheme that the kernel takes.
void check_declaration(const Json& declared, const WorkerKernel& kernel) {
  for (int kind = 0; kind <= int(QuantKind::block128); ++kind)
    if (holds(kernel.quants, QuantKind(kind))) read_semantics(declared, {.kind = QuantKind(kind)});
}

WorkerKernel read_kernel(const Json& j) {
  if (!j.is_object()) throw BadInput("a kernel is no object");
  WorkerKernel k;
  k.name = get_or<std::string>(j, "name", "");
  if (k.name.empty()) throw BadInput("a kernel has no 'name'");
  const auto printable = [](unsigned char c) { return c > 0x20 && c != 0x7F; };
  if (k.name.size() > 200 || !std::all_of(k.name.begin(), k.name.end(), printable))
    throw BadInput(
        fmt::format("the name '{}' of a kernel has blanks or more than 200 characters", excerpt(k.name)));
  k.ops = words(j, "ops", Op::inv_rope_quant);
  k.contracts = words(j, "contracts", Contract::offsets);
  k.quants = words(j, "quants", QuantKind::block128);
  k.outputs = get_or<std::vector<std::string>>(j, "outputs", {});
  check_outputs(k);
  k.deterministic = get_or<bool>(j, "deterministic", true);
  if (j.contains("semantics") && !j["semantics"].is_null()) k.semantics = j["semantics"].dump();
  if (k.semantics) check_declaration(j["semantics"], k);
  read_family(j, k);
  return k;
}

/// The value of a field of Semantics whose words stand in the order of its enumerators.
template <class E, std::size_t N>
void read_word(const Json& j, const char* key, const std::array<std::string_view, N>& known, E& field) {
  if (!j.contains(key)) return;
  const auto word = get_or<std::string>(j, key, "");
  const auto at = std::find(known.begin(), known.end(), word);
  if (at == known.end()) bad_word(key, word, known);
  field = E(at - known.begin());
}

/// The longest chain that promote_k may name: as long as a K may be.
constexpr int kLongestChain = 1 << 20;

constexpr std::array<std::string_view, 13> kSemanticsKeys = {
    "preset",           "amax_floor",   "scale_formula", "quant_formula", "accumulator",
    "hmma_order",       "promote_k",    "scale_order",   "exp",           "gate_rounding",
    "product_rounding", "weight_place", "combine_fma"};

}  // namespace

std::string_view run_mode_word(device::RunMode mode) {
  switch (mode) {
    case device::RunMode::eager:
      return "eager";
    case device::RunMode::graph:
      return "graph";
    case device::RunMode::crowded:
      return "crowded";
  }
  return "?";
}

device::RunMode run_mode_of(std::string_view word) {
  for (const auto mode : {device::RunMode::eager, device::RunMode::graph, device::RunMode::crowded})
    if (word == run_mode_word(mode)) return mode;
  throw BadInput(
      fmt::format("no run mode '{}'; there are eager, graph and crowded", excerpt(std::string(word))));
}

bool WorkerKernel::takes(const Problem& p) const {
  return holds(ops, p.op) && (p.op != Op::grouped_gemm || holds(contracts, p.contract)) &&
         holds(quants, p.quant.kind);
}

Semantics read_semantics(const Json& declared, const QuantScheme& quant) {
  if (declared.is_string()) return semantics_preset(declared.get<std::string>(), quant);
  if (!declared.is_object()) throw BadInput("'semantics' is neither a preset's name nor an object");
  for (const auto& item : declared.items())
    if (std::find(kSemanticsKeys.begin(), kSemanticsKeys.end(), item.key()) == kSemanticsKeys.end())
      bad_word("key of semantics", item.key(), kSemanticsKeys);
  Semantics s = semantics_preset(get_or<std::string>(declared, "preset", "moeproof"), quant);
  s.amax_floor = get_or<double>(declared, "amax_floor", s.amax_floor);
  s.promote_k = whole_or(declared, "promote_k", s.promote_k, 0, kLongestChain);
  s.combine_fma = get_or<bool>(declared, "combine_fma", s.combine_fma);
  using Words2 = std::array<std::string_view, 2>;
  using Words3 = std::array<std::string_view, 3>;
  read_word(declared, "scale_formula", Words2{"divide", "reciprocal"}, s.scale_formula);
  read_word(declared, "quant_formula", Words3{"divide", "multiply_inverse", "multiply_ratio"},
            s.quant_formula);
  read_word(declared, "accumulator", Words2{"wgmma", "hmma"}, s.accumulator);
  read_word(declared, "hmma_order", Words2{"contiguous", "interleaved4"}, s.hmma_order);
  read_word(declared, "scale_order",
            std::array<std::string_view, 5>{"product_fma", "act_weight_fma", "weight_act_fma",
                                            "act_weight_mul_add", "product_mul_add"},
            s.scale_order);
  read_word(declared, "exp", Words3{"recipe", "within_2_ulp", "fast"}, s.exp_form);
  read_word(declared, "gate_rounding", Words2{"none", "bf16"}, s.gate_rounding);
  read_word(declared, "product_rounding", Words2{"none", "bf16"}, s.product_rounding);
  read_word(declared, "weight_place", Words3{"combine", "gemm2", "input"}, s.weight_place);
  if (!(s.amax_floor >= 0 && s.amax_floor <= 1))
    throw BadInput(fmt::format("'amax_floor' is {:g}, no number of 0 to 1", s.amax_floor));
  if (s.promote_k % 32 != 0) throw BadInput(fmt::format("'promote_k' is {}, no multiple of 32", s.promote_k));
  if (quant.kind == QuantKind::block128 && (s.promote_k == 0 || 128 % s.promote_k != 0))
    throw BadInput(
        fmt::format("'promote_k' is {}: under block128 scales a chain is 32, 64 or 128 long", s.promote_k));
  return s;
}

namespace {

/// The member, or `otherwise` where it is absent or null.
Json member_or(const Json& j, const char* key, Json otherwise) {
  return j.contains(key) && !j.at(key).is_null() ? j.at(key) : otherwise;
}

/// Why a worker does nothing here, as it says; empty = it does.
std::string refusal_in(const Json& answer) {
  const auto text = get_or<std::string>(answer, "refusal", "");
  const bool there = answer.contains("refusal") && !answer.at("refusal").is_null();
  return there && text.empty() ? std::string(kNoReason) : excerpt(text, kLongestReason);
}

void check_version(const Json& answer, const std::string& refusal) {
  const Json version = member_or(answer, "protocol", Json());
  if (version == kProtocolVersion) return;
  const std::string spoken =
      version.is_null() ? "says no 'protocol'" : "speaks protocol " + excerpt(version.dump());
  throw BadInput(fmt::format("the worker {}, this program speaks {}{}", spoken, kProtocolVersion,
                             refusal.empty() ? "" : "; the worker refuses: " + refusal));
}

}  // namespace

WorkerHello read_hello(const Json& answer) {
  WorkerHello hello;
  hello.refusal = refusal_in(answer);
  check_version(answer, hello.refusal);
  hello.name = excerpt(get_or<std::string>(answer, "name", ""));
  hello.graph = get_or<bool>(answer, "graph", false);
  hello.crowded = get_or<bool>(answer, "crowded", false);
  hello.ids = get_or<bool>(answer, "ids", false);
  if (const Json device = member_or(answer, "device", Json()); !device.is_null()) {
    if (!device.is_object()) json_wrong(device, "device", "an object");
    hello.device = DeviceFacts{excerpt(get_or<std::string>(device, "name", "")),
                               excerpt(get_or<std::string>(device, "driver", "")),
                               whole_or(device, "sms", 0, 0, 1 << 20)};
  }
  const Json kernels = member_or(answer, "kernels", Json::array());
  if (!kernels.is_array()) throw BadInput("'kernels' is no list");
  std::set<std::string> names;
  for (const Json& kernel : kernels) {
    hello.kernels.push_back(read_kernel(kernel));
    if (const std::string& name = hello.kernels.back().name; !names.insert(name).second)
      throw BadInput(fmt::format("two kernels are called '{}'", excerpt(name)));
  }
  hello.described = kernels.dump();
  if (hello.kernels.empty() && hello.refusal.empty()) throw BadInput("the worker names no kernel");
  return hello;
}

Json problem_to_json(const Case& c) {
  const Problem& p = c.problem;
  const MoeShape& s = p.shape;
  Json j;
  j["op"] = name(p.op);
  if (p.op == Op::grouped_gemm) {
    j["contract"] = name(p.contract);
    j["gemm"] = p.gemm;
    j["n"] = p.gemm == 1 ? s.up_rows() : s.hidden;
    j["k"] = p.gemm == 1 ? s.hidden : s.local_intermediate();
  }
  if (p.op == Op::inv_rope_quant) j["heads"] = p.local_heads(), j["head_groups"] = p.local_groups();
  j["tokens"] = s.tokens, j["top_k"] = s.top_k, j["pairs"] = s.pairs();
  j["hidden"] = s.hidden, j["intermediate"] = s.local_intermediate();
  j["experts"] = s.experts, j["local_experts"] = s.local_experts();
  j["first_expert"] = p.rank * s.local_experts();
  j["tp"] = s.tp, j["ep"] = s.ep, j["rank"] = p.rank;
  j["activation"] = name(s.activation);
  if (s.activation == Activation::silu_mul_clamped)
    j["limit"] = s.limit, j["alpha"] = s.alpha, j["beta"] = s.beta;
  j["weight_on_input"] = s.weight_on_input, j["bias"] = s.bias;
  const RouterSpec& router = p.routing.router;
  j["router"] = {{"kind", name(router.kind)},
                 {"groups", router.groups},
                 {"topk_groups", router.topk_groups},
                 {"renormalise", router.renormalise},
                 {"scale", router.scale}};
  j["quant"] = name(p.quant.kind);
  j["scale_format"] = name(p.quant.scale_format), j["scale_layout"] = name(p.quant.scale_layout);
  j["layout"] = name(c.choice.layout);
  j["block_m"] = c.choice.tile.block_m, j["block_n"] = c.choice.tile.block_n,
  j["block_k"] = c.choice.tile.block_k;
  return j;
}

namespace {

/// Whether an answer has the member; null is none.
bool says(const Json& answer, const char* key) { return answer.contains(key) && !answer.at(key).is_null(); }

/// The words of a member of the answer to `what`. Anything but text tells nobody what happened.
std::string words_in(ChildProcess& child, const Json& answer, const char* key, const std::string& what) {
  const Json& words = answer.at(key);
  if (!words.is_string())
    child.give_up(fmt::format("the worker process answered '{}' with '{}': {}, where a text is due", what,
                              key, excerpt(words.dump())));
  return excerpt(words.get<std::string>(), kLongestReason);
}

/// Of two members of one name it cannot be known which one is meant.
void refuse_twins(ChildProcess& child, std::string_view line, const std::string& what) {
  try {
    json::parse_object(line, "the answer to '" + what + "' of a worker process");
  } catch (const BadInput& e) {
    child.give_up(e.what());
  }
}

/// The answer to an earlier request, however late, is no answer to this one.
void check_number(ChildProcess& child, const Json& answer, std::int64_t number, const std::string& what) {
  const bool numbered = answer.contains("id");
  if (numbered ? answer["id"] == number : !child.echoes) return;
  child.give_up(fmt::format("the worker process answered '{}', request {}, with {}", what, number,
                            numbered ? "the id " + excerpt(answer["id"].dump()) : "no id"));
}

}  // namespace

Json ask_worker(ChildProcess& child, const Json& asked, double seconds, Trust trust) {
  Json request = asked;
  const std::int64_t number = child.next_request();
  if (trust == Trust::foreign) request["id"] = number;
  const std::string line = child.ask(request.dump(-1, ' ', false, Json::error_handler_t::replace), seconds);
  const auto what = request.at("do").get<std::string>();
  if (trust == Trust::foreign) child.refuse_more(kSecondAnswerMs);
  if (depth_of(line) > kDeepestAnswer)
    child.give_up(fmt::format("the worker process answered '{}' to '{}', which has more than {} levels",
                              excerpt(line), what, kDeepestAnswer));
  Json answer = Json::parse(line, nullptr, false);
  if (!answer.is_object())
    child.give_up(fmt::format("the worker process answered '{}' to '{}', which is no JSON object",
                              excerpt(line), what));
  if (trust == Trust::foreign) refuse_twins(child, line, what);
  if (trust == Trust::foreign) check_number(child, answer, number, what);
  if (says(answer, "refusal") && what != "hello") {
    const std::string why = words_in(child, answer, "refusal", what);
    throw WorkerRefused(why.empty() ? std::string(kNoReason) : why);
  }
  if (!says(answer, "error")) return answer;
  const std::string kind = words_in(child, answer, "error", what);
  const std::string message =
      says(answer, "message") ? words_in(child, answer, "message", what) : "(without saying what)";
  if (kind == "bad_input" && trust == Trust::own) throw BadInput(message);
  if (kind == "memory" && trust == Trust::own)
    child.give_up("the worker process ran out of memory: " + message);
  if (kind == "failure") throw MachineFailure(message);
  if (kind == "kernel" || trust == Trust::own) child.give_up("the kernel raised " + message);
  child.give_up(fmt::format(
      "the worker process answered '{}' with the error kind '{}', where kernel or failure is due; it says {}",
      what, excerpt(kind), message));
}

WorkerHello greet(ChildProcess& child, double seconds) {
  const Json answer =
      ask_worker(child, {{"do", "hello"}, {"protocol", kProtocolVersion}}, seconds, Trust::foreign);
  try {
    WorkerHello hello = read_hello(answer);
    child.echoes = hello.ids;
    return hello;
  } catch (const BadInput& e) {
    child.give_up(fmt::format("the answer to 'hello' of a worker process: {}", e.what()));
  }
}

}  // namespace moe::harness
