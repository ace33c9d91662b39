// Every property must hold for a right kernel where it applies, and fail for a kernel with the fault that it
// names.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <stdexcept>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/number_formats.hpp"
#include "harness/properties/property.hpp"
#include "harness/properties/tensor_changes.hpp"
#include "harness/propose.hpp"
#include "sim/counts.hpp"
#include "tests/harness/planted_executor.hpp"

namespace moe::harness {
namespace {

constexpr const char* kLayer =
    "op=moe_layer tokens=7 hidden=256 inter=256 experts=8 top_k=2 tp=1 load=uniform quant=block128 seed=3 "
    "kernel=moeproof layout=swap_ab tile=8x128x128";
constexpr const char* kGemm =
    "op=grouped_gemm contract=masked tokens=7 hidden=256 inter=256 experts=4 top_k=2 tp=1 load=uniform "
    "quant=block128 "
    "seed=3 kernel=moeproof layout=swap_ab tile=8x128x128";
constexpr const char* kRouter =
    "op=topk tokens=5 hidden=0 inter=0 experts=8 top_k=2 tp=1 load=uniform quant=block128 seed=3 "
    "kernel=moeproof "
    "layout=swap_ab tile=8x128x128";
constexpr const char* kBiasedRouter =
    "op=topk tokens=5 hidden=0 inter=0 experts=8 top_k=2 tp=1 router=sigmoid_bias load=uniform "
    "quant=block128 seed=3 "
    "kernel=moeproof layout=swap_ab tile=8x128x128";

using Change = std::function<void(const Case&, TensorSet& inputs)>;
using Spoil = std::function<void(const Case&, const TensorSet& inputs, TensorSet& outputs)>;

/// Reads wrongly, or writes wrongly.
PlantedKernel reads(Change change) {
  return [change](const Case& c, const TensorSet& inputs, device::RunMode, int) {
    TensorSet read = own_copy(inputs);
    try {
      change(c, read);
    } catch (const std::out_of_range&) {  // the case's own run has logits where the fault reads ids
    }
    return right_outputs(c, read);
  };
}
PlantedKernel writes(Spoil spoil) {
  return [spoil](const Case& c, const TensorSet& inputs, device::RunMode, int) {
    TensorSet out = right_outputs(c, inputs);
    try {
      if (c.problem.shape.tokens > 0) spoil(c, inputs, out);
    } catch (const std::out_of_range&) {
    }
    return out;
  };
}

std::span<float> floats(TensorSet& set, const char* name) { return set.at(name).as<float>(); }
std::span<std::uint16_t> out_of(TensorSet& set) { return set.at("out").as<std::uint16_t>(); }
void spoil_row(TensorSet& set, const char* name, std::int64_t row) { fill_row(set.at(name), row, 0x3F); }
bool any_nan(const Tensor& t) {
  if (t.dtype() == DType::bf16)
    return std::any_of(t.as<std::uint16_t>().begin(), t.as<std::uint16_t>().end(),
                       [](std::uint16_t x) { return std::isnan(decode_bf16(x)); });
  return std::any_of(t.as<float>().begin(), t.as<float>().end(), [](float x) { return std::isnan(x); });
}
void all_nan(TensorSet& set) { std::fill(out_of(set).begin(), out_of(set).end(), std::uint16_t(0x7FC0)); }

void swap_halves(TensorSet& set) {
  for (const char* name : {"w13", "w13_scale"}) {
    const Tensor& t = set.at(name);
    RowMap rows;
    for (std::int64_t i = 0; i < t.dim(1); ++i) rows.push_back((i + t.dim(1) / 2) % t.dim(1));
    take_middle(set, name, rows);
  }
}

void drop_last_block(TensorSet& set, const char* name) {
  const Tensor& t = set.at(name);
  RowMap columns = identity_map(t.shape().back());
  std::fill(columns.end() - 128, columns.end(), -1);
  take_columns(set, name, columns);
}

float largest(const Tensor& t) {
  float most = 0;
  for (const std::uint16_t x : t.as<std::uint16_t>()) most = std::max(most, std::fabs(decode_bf16(x)));
  return most;
}

struct Fault {
  const char* property;
  const char* line;
  const char* what;
  PlantedKernel kernel;
};

std::vector<Fault> token_faults() {
  const auto last_row = writes([](const Case& c, const TensorSet&, TensorSet& out) {
    spoil_row(out, "out", c.problem.shape.tokens - 1);
  });
  const auto spreading = [](const char* tensor) {
    return writes([tensor](const Case&, const TensorSet& in, TensorSet& out) {
      if (any_nan(in.at(tensor))) all_nan(out);
    });
  };
  return {
      {"P1", kLayer, "the last row is not written", last_row},
      {"P1", kGemm, "the first row of a group is zero",
       writes(
           [](const Case&, const TensorSet&, TensorSet& out) { std::memset(out.at("c").data(), 0, 512); })},
      {"P3", kLayer, "slot 1 counts twice", reads([](const Case& c, TensorSet& in) {
         for (std::size_t i = 1; i < floats(in, "topk_weights").size();
              i += std::size_t(c.problem.shape.top_k))
           floats(in, "topk_weights")[i] *= 2;
       })},
      {"P7", kLayer, "more than four tokens are scaled", reads([](const Case& c, TensorSet& in) {
         if (c.problem.shape.tokens > 4) scale_all(in, "topk_weights", 2);
       })},
      {"P8", kLayer, "the last row is not written", last_row},
      {"P19", kLayer, "NaN of a token spreads", spreading("hidden")},
      {"P19b", kLayer, "NaN of an expert spreads", spreading("w13_scale")},
      {"P21", kLayer, "0/0 of a row of zeros", writes([](const Case& c, const TensorSet& in, TensorSet& out) {
         const auto x = in.at("hidden").as<std::uint16_t>();
         if (std::all_of(x.begin(), x.begin() + c.problem.shape.hidden, [](auto v) { return v == 0; }))
           all_nan(out);
       })},
      {"P41", kLayer, "one token is taken for none",
       writes([](const Case& c, const TensorSet&, TensorSet& out) {
         if (c.problem.shape.tokens == 1) spoil_row(out, "out", 0);
       })},
      {"P42", kLayer, "a third row of an expert overwrites the first",
       writes([](const Case&, const TensorSet& in, TensorSet& out) {
         const auto ids = in.at("topk_ids").as<std::int32_t>();
         if (std::count(ids.begin(), ids.end(), ids[0]) > 4) spoil_row(out, "out", 0);
       })},
  };
}

std::vector<Fault> expert_faults() {
  return {
      {"P2", kLayer, "all experts use the scales of the first", reads([](const Case&, TensorSet& in) {
         for (std::int64_t e = 1; e < in.at("w2_scale").dim(0); ++e) copy_row(in.at("w2_scale"), 0, e);
       })},
      {"P6", kLayer, "an unused expert is run", writes([](const Case&, const TensorSet& in, TensorSet& out) {
         if (any_nan(in.at("w2_scale"))) all_nan(out);
       })},
      {"P6", kGemm, "padding leaks into the first row",
       writes([](const Case&, const TensorSet& in, TensorSet& out) {
         if (any_nan(in.at("a_scale"))) std::memset(out.at("c").data(), 0x7F, 256);
       })},
      {"P22", kLayer, "an expert of zeros leaves a stale row",
       writes([](const Case&, const TensorSet& in, TensorSet& out) {
         const auto ids = in.at("topk_ids").as<std::int32_t>();
         const Tensor& w = in.at("w2");
         const auto* bytes = w.data() + std::size_t(ids[0]) * row_bytes(w);
         if (std::all_of(bytes, bytes + row_bytes(w), [](std::byte b) { return b == std::byte{0}; }))
           spoil_row(out, "out", 0);
       })},
      {"P24", kLayer, "the second shard's offset is taken twice",
       writes([](const Case& c, const TensorSet&, TensorSet& out) {
         if (c.problem.rank > 0) std::memset(out.at("out").data(), 0, out.at("out").bytes());
       })},
      {"P30", kLayer, "an odd number of experts wraps around",
       writes([](const Case& c, const TensorSet&, TensorSet& out) {
         if (c.problem.shape.experts % 2 == 1) spoil_row(out, "out", 0);
       })},
      {"P40", kLayer, "-1 is the first expert", reads([](const Case&, TensorSet& in) {
         for (std::int32_t& id : in.at("topk_ids").as<std::int32_t>()) id = std::max(id, 0);
       })},
      {"P40", kLayer, "a stale id is the first token's expert", reads([](const Case&, TensorSet& in) {
         const auto ids = in.at("topk_ids").as<std::int32_t>();
         for (std::int32_t& id : ids) id = id > 1'000'000 ? ids[0] : id;
       })},
      {"P44d", kLayer, "a second slot of one expert is dropped", reads([](const Case& c, TensorSet& in) {
         const auto ids = in.at("topk_ids").as<std::int32_t>();
         for (std::size_t i = 1; i < ids.size(); ++i)
           if (i % std::size_t(c.problem.shape.top_k) != 0 && ids[i] == ids[i - 1]) ids[i] = -1;
       })},
  };
}

std::vector<Fault> number_faults() {
  const auto at_least = reads([](const Case&, TensorSet& in) {
    for (float& w : floats(in, "topk_weights")) w = std::max(w, 0.05f);
  });
  return {
      {"P4a", kLayer, "the scales of the last GEMM are left out", reads([](const Case&, TensorSet& in) {
         std::fill(floats(in, "w2_scale").begin(), floats(in, "w2_scale").end(), 1.0f);
       })},
      {"P4b", kLayer, "gate and up are exchanged",
       reads([](const Case&, TensorSet& in) { swap_halves(in); })},
      {"P4c", kLayer, "activations are clamped", reads([](const Case&, TensorSet& in) {
         for (std::uint16_t& x : in.at("hidden").as<std::uint16_t>())
           x = encode_bf16(std::clamp(decode_bf16(x), -0.5f, 0.5f));
       })},
      {"P4d", kLayer, "weights are normalised again", reads([](const Case&, TensorSet& in) {
         for (std::size_t i = 0; i + 1 < floats(in, "topk_weights").size(); i += 2) {
           const float sum = floats(in, "topk_weights")[i] + floats(in, "topk_weights")[i + 1];
           for (int j = 0; j < 2; ++j) floats(in, "topk_weights")[i + std::size_t(j)] /= sum;
         }
       })},
      {"P9", kLayer, "weights have a least value", reads([](const Case&, TensorSet& in) {
         for (float& w : floats(in, "topk_weights")) w = std::max(w, 0.4f);
       })},
      {"P10", kLayer, "weights have a least value", at_least},
      {"P11", kLayer, "weights have a least value", at_least},
      {"P20", kLayer, "large activations become NaN",
       writes([](const Case&, const TensorSet& in, TensorSet& out) {
         if (largest(in.at("hidden")) > 64) all_nan(out);
       })},
      {"P23", kLayer, "the reciprocal of a tiny scale",
       writes([](const Case&, const TensorSet& in, TensorSet& out) {
         for (const float s : in.at("w2_scale").as<float>())
           if (s > 0 && s < 1e-30f) all_nan(out);
       })},
      {"P32", kGemm, "one k block's scale is used for all", reads([](const Case&, TensorSet& in) {
         const Tensor t = in.at("a_scale");
         take_rows(in, "a_scale", RowMap(std::size_t(t.dim(0)), 0));
       })},
      {"P33", kGemm, "columns are shifted by one", reads([](const Case&, TensorSet& in) {
         RowMap rows;
         for (std::int64_t i = 0; i < in.at("w").dim(1); ++i) rows.push_back((i + 1) % in.at("w").dim(1));
         take_middle(in, "w", rows);
       })},
      {"P34", kGemm, "all experts use the scales of the first", reads([](const Case&, TensorSet& in) {
         for (std::int64_t e = 1; e < in.at("w_scale").dim(0); ++e) copy_row(in.at("w_scale"), 0, e);
       })},
      {"P34", kGemm, "scales of a neighbour block", reads([](const Case&, TensorSet& in) {
         take_middle(in, "w_scale", RowMap(std::size_t(in.at("w_scale").dim(1)), 0));
       })},
      {"P35", kLayer, "gate and up are exchanged",
       reads([](const Case&, TensorSet& in) { swap_halves(in); })},
  };
}

std::vector<Fault> shape_faults() {
  const auto wrong_tile = [](Layout layout, int block_m) {
    return writes([=](const Case& c, const TensorSet&, TensorSet& out) {
      if (c.choice.layout == layout && (block_m == 0 || c.choice.tile.block_m == block_m))
        spoil_row(out, "out", 0);
    });
  };
  return {
      {"P5", kLayer, "the unswapped kernel writes a wrong row", wrong_tile(Layout::normal_wgmma, 0)},
      {"P25", kLayer, "a shard reads the scales of the first", reads([](const Case& c, TensorSet& in) {
         if (c.problem.shape.tp > 1) scale_all(in, "w2_scale", 2);
       })},
      {"P26", kGemm, "a narrow output is tiled wrongly",
       writes([](const Case& c, const TensorSet&, TensorSet& out) {
         if (c.problem.shape.intermediate < 256) std::memset(out.at("c").data(), 0, 256);
       })},
      {"P27", kGemm, "one k block's scale is used for all", reads([](const Case&, TensorSet& in) {
         const Tensor t = in.at("a_scale");
         take_rows(in, "a_scale", RowMap(std::size_t(t.dim(0)), 0));
       })},
      {"P28", kLayer, "the last k block is left out",
       reads([](const Case&, TensorSet& in) { drop_last_block(in, "w13"); })},
      {"P28", kGemm, "the last k block is left out",
       reads([](const Case&, TensorSet& in) { drop_last_block(in, "w"); })},
      {"P29", kLayer, "the last k block is left out",
       reads([](const Case&, TensorSet& in) { drop_last_block(in, "w2"); })},
      {"P31", kLayer, "one tile writes a wrong row", wrong_tile(Layout::normal_mma, 32)},
      {"P44", kGemm, "scales are always read in columns",
       writes([](const Case& c, const TensorSet&, TensorSet& out) {
         if (c.problem.quant.scale_layout == ScaleLayout::row) std::memset(out.at("c").data(), 0, 256);
       })},
  };
}

std::vector<Fault> router_faults() {
  const auto to_first = [](auto is_wrong) {
    return writes([is_wrong](const Case&, const TensorSet& in, TensorSet& out) {
      if (is_wrong(in.at("router_logits").as<float>())) {
        const auto ids = out.at("topk_ids").as<std::int32_t>();
        std::reverse(ids.begin(), ids.end());
      }
    });
  };
  return {
      {"P37", kRouter, "of equals the last comes first", to_first([](auto l) { return l[0] == l[1]; })},
      {"P38", kRouter, "negative logits lose to nothing",
       to_first([](auto l) { return std::all_of(l.begin(), l.end(), [](float x) { return x < 0; }); })},
      {"P38b", kBiasedRouter, "the weight holds the bias",
       writes([](const Case&, const TensorSet& in, TensorSet& out) {
         for (float& w : floats(out, "topk_weights")) w += in.at("router_bias").as<float>()[0];
       })},
      {"P39", kRouter, "NaN gives one expert twice",
       writes([](const Case&, const TensorSet& in, TensorSet& out) {
         if (std::isnan(in.at("router_logits").as<float>()[0]))
           out.at("topk_ids").as<std::int32_t>()[1] = out.at("topk_ids").as<std::int32_t>()[0];
       })},
  };
}

/// Kernels that keep something between runs.
std::vector<Fault> run_faults() {
  const auto remembers = [](auto wrong, auto keep) {
    using Kept = decltype(keep(std::declval<const Case&>(), std::declval<const TensorSet&>()));
    auto kept = std::make_shared<Kept>();
    return writes([=](const Case& c, const TensorSet& in, TensorSet& out) {
      if (wrong(c, in, *kept)) spoil_row(out, "out", 0);
      *kept = keep(c, in);
    });
  };
  return {
      {"P12", kLayer, "every third run differs",
       [](const Case& c, const TensorSet& in, device::RunMode, int run) {
         TensorSet out = right_outputs(c, in);
         if (run % 3 == 2) spoil_row(out, "out", 0);
         return out;
       }},
      {"P13", kLayer, "a row hangs on which CTAs run together",
       [](const Case& c, const TensorSet& in, device::RunMode mode, int) {
         TensorSet out = right_outputs(c, in);
         if (mode == device::RunMode::crowded) spoil_row(out, "out", 0);
         return out;
       }},
      {"P14", kLayer, "a graph keeps the first inputs",
       [first = std::make_shared<TensorSet>()](const Case& c, const TensorSet& in, device::RunMode mode,
                                               int) {
         if (first->all().empty()) *first = own_copy(in);
         return right_outputs(c, mode == device::RunMode::graph ? *first : in);
       }},
      {"P16", kLayer, "ids are sorted in place", writes([](const Case&, const TensorSet& in, TensorSet&) {
         const_cast<std::byte*>(in.at("topk_weights").data())[0] ^= std::byte{1};
       })},
      {"P18", kLayer, "NaN stays in a workspace",
       remembers([](const Case&, const TensorSet&, bool kept) { return kept; },
                 [](const Case&, const TensorSet& in) { return any_nan(in.at("hidden")); })},
      {"P46", kLayer, "a workspace keeps its largest size",
       remembers(
           [](const Case& c, const TensorSet&, std::int64_t kept) { return kept > c.problem.shape.tokens; },
           [](const Case& c, const TensorSet&) { return c.problem.shape.tokens; })},
  };
}

PropertyOutcome outcome_of(const char* property, const char* line, const PlantedKernel& kernel) {
  PlantedExecutor executor(kernel);
  static const Hardware hardware = load_hardware("h200");
  RunPlan plan;
  plan.executor = &executor;
  plan.hardware = &hardware;
  plan.threads = 2;
  plan.graph = plan.crowded = true;
  plan.properties = {find_properties(property)};
  std::erase_if(plan.properties, [&](const Property* p) { return p->id != property; });
  const Case c = parse_case(line);
  const CaseRecord record = run_problem(c.problem, {c.choice}, plan).front();
  if (record.properties.size() != 1) return {property, PropertyState::skipped, "it was not tried"};
  if (record.properties[0].state == PropertyState::failed) {
    EXPECT_EQ(record.verdict->correctness, Correctness::failed) << property;
  }
  return record.properties[0];
}

PlantedKernel right_kernel() {
  return [](const Case& c, const TensorSet& in, device::RunMode, int) { return right_outputs(c, in); };
}

std::vector<Fault> all_faults() {
  std::vector<Fault> all;
  for (auto part :
       {token_faults(), expert_faults(), number_faults(), shape_faults(), router_faults(), run_faults()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

// A property that cannot fail is worth nothing: each has a fault here that it finds, on a case on which it
// holds for the right kernel.
TEST(Properties, EachFindsItsFault) {
  for (const Fault& fault : all_faults()) {
    const PropertyOutcome right = outcome_of(fault.property, fault.line, right_kernel());
    EXPECT_EQ(right.state, PropertyState::held) << fault.property << " on a right kernel: " << right.reason;
    const PropertyOutcome wrong = outcome_of(fault.property, fault.line, fault.kernel);
    EXPECT_EQ(wrong.state, PropertyState::failed)
        << fault.property << " does not find: " << fault.what << ": " << wrong.reason;
  }
}

/// A right kernel that counts its work, and does `more` tiles than are due.
class Counting : public PlantedExecutor {
 public:
  explicit Counting(int more) : PlantedExecutor(right_kernel()), more_(more) {}
  device::Opened open(const Case& c) override {
    device::Opened opened = PlantedExecutor::open(c);
    opened.session = std::make_unique<Session>(std::move(opened.session), more_);
    return opened;
  }

 private:
  class Session : public device::Session {
   public:
    Session(std::unique_ptr<device::Session> inner, int more) : inner_(std::move(inner)), more_(more) {}
    void bind(const TensorSet& inputs) override { inner_->bind(inputs); }
    device::RunResult run(device::RunMode mode) override {
      device::RunResult result = inner_->run(mode);
      const Case c = resolved();
      result.counts = sim::count(c.problem, c.choice,
                                 routing_of(c.problem).load(0, c.problem.shape.local_experts()), 132);
      result.counts.tiles += more_;
      result.counted = true;
      return result;
    }
    Measurement time(const device::TimingPlan&) override { return {}; }
    Case resolved() const override { return inner_->resolved(); }

   private:
    std::unique_ptr<device::Session> inner_;
    int more_;
  };
  int more_;
};

// Catches: counts that are not compared, or that depend on the machine's SMs.
TEST(Properties, WorkThatIsNotDueIsFound) {
  static const Hardware hardware = load_hardware("h200");
  for (const char* line : {kLayer, kGemm})
    for (const int more : {0, 1}) {
      Counting executor(more);
      RunPlan plan;
      plan.executor = &executor;
      plan.hardware = &hardware;
      plan.properties = find_properties("P54");
      const Case c = parse_case(line);
      const CaseRecord record = run_problem(c.problem, {c.choice}, plan).front();
      ASSERT_EQ(record.properties.size(), 1u);
      EXPECT_EQ(record.properties[0].state, more ? PropertyState::failed : PropertyState::held)
          << record.properties[0].reason;
    }
}

// Catches a property that nobody proves: P15, P45 and P49 are about executors that a planted kernel is not,
// P54 has its own test.
TEST(Properties, NoneIsLeftUnproven) {
  std::set<std::string_view> proven{"P15", "P45", "P49", "P54"};
  for (const Fault& fault : all_faults()) proven.insert(fault.property);
  for (const Property& p : properties()) EXPECT_TRUE(proven.contains(p.id)) << p.id;
}

// False alarms: random cases of every op on the right kernel; would catch a property whose conditions are too
// weak.
TEST(Properties, HoldOnRandomCases) {
  PlantedExecutor executor(right_kernel());
  static const Hardware hardware = load_hardware("h200");
  RunPlan plan;
  plan.executor = &executor;
  plan.hardware = &hardware;
  plan.threads = 2;
  plan.properties = find_properties("all");
  for (int trial = 0; trial < 8; ++trial) {
    const Case c = propose_case({}, 5, trial);
    const CaseRecord record = run_problem(c.problem, {c.choice}, plan).front();
    for (const PropertyOutcome& o : record.properties)
      EXPECT_NE(o.state, PropertyState::failed) << o.id << ": " << o.reason << "\n" << record.verdict->replay;
  }
}

TEST(Properties, AreFoundByName) {
  EXPECT_EQ(find_properties("all").size(), properties().size());
  EXPECT_EQ(find_properties("P12,P5").size(), 2u);
  EXPECT_EQ(find_properties("P12,P5").front()->id, "P5");
  EXPECT_EQ(find_properties("P4").size(), 4u);
  EXPECT_EQ(find_properties("P4a,P4").size(), 4u);
  for (const char* wrong : {"", "P", "P999", "4", "P51", "all,P0", "P5,"})
    EXPECT_THROW(find_properties(wrong), BadInput) << wrong;
  std::set<std::string_view> ids;
  for (const Property& p : properties()) {
    EXPECT_TRUE(ids.insert(p.id).second) << p.id;
    EXPECT_TRUE(p.statement.ends_with(".")) << p.id;
    EXPECT_FALSE(p.catches.empty()) << p.id;
  }
  for (const OtherProperty& p : other_properties()) EXPECT_TRUE(ids.insert(p.id).second) << p.id;
}

}  // namespace
}  // namespace moe::harness
