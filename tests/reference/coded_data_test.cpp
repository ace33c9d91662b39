// Do data=coded and data=impulse keep their promises (fixtures/README.md, "Data modes")? An output of coded
// data names the element that was read, also when a kernel read another one; an impulse changes the outputs
// of its scale, by what that scale is due to change, and no others.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "fixtures/problem/case.hpp"
#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/number_formats.hpp"
#include "reference/layer.hpp"
#include "reference/operands.hpp"
#include "reference/stage_rows.hpp"

namespace moe::reference {
namespace {

std::vector<float> output(const Problem& p, const TensorSet& inputs) {
  const Semantics s = semantics_preset("moeproof", p.quant);
  const StageTruth truth = grouped_gemm_truth(p, inputs, all_rows(p.shape.pairs()), {&s, true, false, 2});
  std::vector<float> c;
  for (const std::uint16_t code : truth.at("c").bits.as<std::uint16_t>()) c.push_back(decode_bf16(code));
  return c;
}

/// What 128 outputs of a row and a column block say was read: weights [expert, block * 128 .., k] under an
/// activation scale.
struct Read {
  int expert = -1;
  std::int64_t block = -1, k = -1;
  double a_scale = 0;  // times the code of the hot element, 1
  bool operator==(const Read&) const = default;
};

/// All reads that give these 128 outputs.
std::vector<Read> decode(const GroupedGemm& gemm, std::span<const float> outputs) {
  std::vector<Read> found;
  for (int e = 0; e < int(gemm.w.experts); ++e) {
    for (std::int64_t block = 0; block < gemm.w.n / 128; ++block) {
      for (std::int64_t k = 0; k < gemm.w.k; ++k) {
        const auto weight = [&](std::int64_t i) {
          const std::int64_t n = block * 128 + i;
          return double(decode_e4m3(gemm.w.row(e, n)[k])) * gemm.w.scale(e, n, k);
        };
        const double scale = outputs[0] / weight(0);
        bool all = scale > 0;
        for (std::int64_t i = 1; i < 128 && all; ++i) all = outputs[std::size_t(i)] == scale * weight(i);
        if (all) found.push_back({e, block, k, scale});
      }
    }
  }
  return found;
}

struct Coded {
  Case c = parse_case(
      "op=grouped_gemm contract=offsets tokens=12 hidden=640 inter=128 experts=3 top_k=1 load=balanced "
      "data=coded "
      "scale_layout=row layout=swap_ab");
  TensorSet inputs = make_inputs(c.problem, routing_of(c.problem), 2);
  GroupedGemm gemm = contract_gemm(c.problem, inputs);
  std::int64_t k = gemm.w.k, n = gemm.w.n;

  explicit Coded(const char* quant = "block128") {
    c.problem.quant.kind =
        parse_case(std::string("op=quantize tokens=1 hidden=128 inter=128 experts=1 top_k=1 quant=") + quant)
            .problem.quant.kind;
    inputs = make_inputs(c.problem, routing_of(c.problem), 2);
    gemm = contract_gemm(c.problem, inputs);
  }
  std::int64_t hot(std::int64_t row) const {
    const std::uint8_t* codes = gemm.a.codes + row * k;
    return std::find_if(codes, codes + k, [](std::uint8_t x) { return x != 0; }) - codes;
  }
  Read due(std::int64_t row, std::int64_t block) const {
    return {gemm.rows[std::size_t(row)].expert, block, hot(row), gemm.a.scale(row, hot(row))};
  }
  /// The reads that a kernel's output names, one for each row and column block.
  std::vector<Read> reads(const std::vector<float>& out) const {
    std::vector<Read> all;
    for (std::size_t first = 0; first < out.size(); first += 128) {
      const auto found = decode(gemm, std::span(out).subspan(first, 128));
      EXPECT_EQ(found.size(), 1u) << "row " << first / std::size_t(n) << " names no element, or several";
      all.push_back(found.empty() ? Read{} : found[0]);
    }
    return all;
  }
  /// What is named by a kernel that misreads the inputs so.
  std::vector<Read> reads_of(const std::function<void(TensorSet&)>& misread) const {
    TensorSet read;
    for (const Tensor& t : inputs.all()) {
      Tensor mine(t.name(), t.dtype(), t.shape());
      std::memcpy(mine.data(), t.data(), t.bytes());
      read.add(std::move(mine));
    }
    misread(read);
    return reads(output(c.problem, read));
  }
  template <class Change>
  void expect(const std::vector<Read>& named, Change change) const {
    for (std::int64_t row = 0; row < 12; ++row) {
      for (std::int64_t block = 0; block < n / 128; ++block) {
        const Read got = named[std::size_t(row * (n / 128) + block)], want = change(row, block);
        EXPECT_TRUE(got == want) << "row " << row << " block " << block << ": expert " << got.expert
                                 << " block " << got.block << " k " << got.k << " scale " << got.a_scale
                                 << ", due " << want.expert << " " << want.block << " " << want.k << " "
                                 << want.a_scale;
      }
    }
  }
};

void exchange(Tensor& t, std::size_t a, std::size_t b, std::size_t bytes) {
  std::swap_ranges(t.data() + a, t.data() + a + bytes, t.data() + b);
}

// Would catch coded data with two elements that give one output, in any scheme.
TEST(CodedData, EachOutputNamesItsElement) {
  for (const char* quant : {"block128", "token_channel", "tensor_static"}) {
    const Coded d(quant);
    d.expect(d.reads(output(d.c.problem, d.inputs)), [&](auto row, auto block) { return d.due(row, block); });
  }
}

// Rows 1 and 4 exchanged (codes and scales): each names the other's hot column and scale, under its own
// expert.
TEST(CodedData, ExchangedRowsAreNamed) {
  const Coded d;
  const auto named = d.reads_of([&](TensorSet& in) {
    exchange(in.at("a_codes"), 1 * 640, 4 * 640, 640);
    exchange(in.at("a_scale"), 1 * 5 * 4, 4 * 5 * 4, 5 * 4);
  });
  d.expect(named, [&](std::int64_t row, std::int64_t block) {
    const std::int64_t source = row == 1 ? 4 : row == 4 ? 1 : row;
    Read r = d.due(source, block);
    r.expert = d.due(row, block).expert;
    return r;
  });
}

// Experts 0 and 2 exchanged: rows of one name the other.
TEST(CodedData, ExchangedExpertsAreNamed) {
  const Coded d;
  const auto named = d.reads_of([&](TensorSet& in) {
    for (const char* name : {"w", "w_scale"})
      exchange(in.at(name), 0, in.at(name).bytes() / 3 * 2, in.at(name).bytes() / 3);
  });
  d.expect(named, [&](std::int64_t row, std::int64_t block) {
    Read r = d.due(row, block);
    r.expert = 2 - r.expert;
    return r;
  });
}

// Column blocks 0 and 1 of every expert exchanged.
TEST(CodedData, ExchangedColumnBlocksAreNamed) {
  const Coded d;
  const auto named = d.reads_of([&](TensorSet& in) {
    for (std::size_t e = 0; e < 3; ++e) {
      exchange(in.at("w"), e * 256 * 640, (e * 256 + 128) * 640, 128 * 640);
      exchange(in.at("w_scale"), e * 2 * 5 * 4, (e * 2 + 1) * 5 * 4, 5 * 4);
    }
  });
  d.expect(named, [&](std::int64_t row, std::int64_t block) {
    Read r = d.due(row, block);
    r.block = 1 - block;
    return r;
  });
}

// The k32 steps of every 128 read one too late: the outputs name the k's they were read at.
TEST(CodedData, AShiftedKIsNamed) {
  const Coded d;
  const auto shifted = [](std::int64_t k) { return k / 128 * 128 + (k + 32) % 128; };
  const auto named = d.reads_of([&](TensorSet& in) {
    const auto w = in.at("w").as<std::uint8_t>();
    const std::vector<std::uint8_t> before(w.begin(), w.end());
    for (std::size_t i = 0; i < w.size(); ++i)
      w[i] = before[i / 640 * 640 + std::size_t(shifted(std::int64_t(i % 640)))];
  });
  d.expect(named, [&](std::int64_t row, std::int64_t block) {
    Read r = d.due(row, block);
    r.k = shifted(r.k);
    return r;
  });
}

// The activation scale of the k-block behind: the factor names the scale that was read.
TEST(CodedData, AScaleOfAnotherBlockIsNamed) {
  const Coded d;
  const auto named = d.reads_of([&](TensorSet& in) {
    const auto s = in.at("a_scale").as<float>();
    for (std::size_t row = 0; row < 12; ++row)
      std::rotate(s.begin() + std::ptrdiff_t(row * 5), s.begin() + std::ptrdiff_t(row * 5 + 1),
                  s.begin() + std::ptrdiff_t(row * 5 + 5));
  });
  int changed = 0;
  d.expect(named, [&](std::int64_t row, std::int64_t block) {
    Read r = d.due(row, block);
    const double read = d.gemm.a.scale(row, (r.k / 128 + 1) % 5 * 128);
    changed += read != r.a_scale;
    r.a_scale = read;
    return r;
  });
  EXPECT_GT(changed, 10);
}

/// What one impulse changed, element by element.
struct Changed {
  std::int64_t owned = 0, doubled = 0, others = 0, moved = 0;
  double worst = 0;  // |change - due change| of an owned output over what rounding to bf16 may hide
};

Changed changes(const std::string& line) {
  const Case impulse = parse_case(line + " data=impulse"), normal = parse_case(line + " data=normal");
  const Problem& p = impulse.problem;
  const Routing routing = routing_of(p);
  const Impulse where = *impulse_of(p, routing);
  const TensorSet inputs = make_inputs(p, routing, 2), before = make_inputs(normal.problem, routing, 2);
  const std::vector<float> a = output(normal.problem, before), b = output(p, inputs);
  const GroupedGemm gemm = contract_gemm(p, before);
  const std::int64_t scales = inputs.at("w_scale").size() / p.shape.local_experts(),
                     at = where.index % scales;
  const std::int64_t k_blocks = (gemm.w.k + 127) / 128;
  Changed c;
  for (const GemmRow& row : gemm.rows) {
    for (std::int64_t n = 0; n < gemm.w.n; ++n) {
      const auto i = std::size_t(row.out * gemm.w.n + n);
      const bool owns = row.expert == where.expert &&
                        (p.quant.tensor() || (p.quant.block() ? at / k_blocks == n / 128 : at == n));
      if (!owns) {
        ++c.others;
        c.moved += a[i] != b[i];
        continue;
      }
      double due = 0;
      const std::int64_t first = p.quant.block() ? at % k_blocks * 128 : 0,
                         last = p.quant.block() ? first + 128 : gemm.w.k;
      for (std::int64_t k = first; k < last; ++k)
        due += double(decode_e4m3(gemm.a.codes[row.act * gemm.w.k + k])) * gemm.a.scale(row.act, k) *
               decode_e4m3(gemm.w.row(row.expert, n)[k]) * gemm.w.scale(row.expert, n, k);
      ++c.owned;
      c.doubled += b[i] == 2 * a[i];
      const double rounding = std::ldexp(std::fabs(a[i]) + std::fabs(b[i]), -8) + 0.01;
      c.worst = std::max(c.worst, std::fabs(double(b[i]) - a[i] - due) / rounding);
    }
  }
  return c;
}

// Would catch an impulse that leaks, that misses an output, or that changes one by another amount: exactly
// twice where the scale covers all of K, by its block's share of the sum where it does not.
TEST(ImpulseData, ChangesExactlyTheOutputsOfItsScale) {
  for (int seed = 1; seed <= 6; ++seed) {
    for (const char* quant : {"block128", "token_channel", "tensor_static"}) {
      for (const int k : {128, 512}) {
        const Changed c = changes("op=grouped_gemm contract=offsets tokens=9 hidden=" + std::to_string(k) +
                                  " inter=128 experts=3 top_k=1 scale_layout=row layout=swap_ab seed=" +
                                  std::to_string(seed) + " quant=" + quant);
        EXPECT_GT(c.owned, 0);
        EXPECT_GT(c.others, 0);
        EXPECT_EQ(c.moved, 0) << quant << " " << k;
        EXPECT_LT(c.worst, 1) << quant << " " << k;
        const bool whole = quant[0] != 'b' || k == 128;
        if (whole) {
          EXPECT_EQ(c.doubled, c.owned) << quant << " " << k;
        } else {
          EXPECT_LT(c.doubled, c.owned / 10) << quant << " " << k;
        }
      }
    }
  }
}

}  // namespace
}  // namespace moe::reference
