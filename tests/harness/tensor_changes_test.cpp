// Do the changes of a property reach every tensor that they are about?
#include "harness/properties/tensor_changes.hpp"

#include <gtest/gtest.h>

#include "fixtures/problem/case.hpp"
#include "fixtures/problem/generate.hpp"

namespace moe::harness {
namespace {

// Catches: more tokens than some input has rows: a kernel reads behind it. (inv_rope_quant's o and positions
// did.)
TEST(TensorChanges, TokensAreTakenFromEveryInput) {
  for (const char* line :
       {"op=inv_rope_quant tokens=11 hidden=0 inter=0 experts=1 top_k=1 tp=1 heads=8 head_groups=4 "
        "load=uniform "
        "quant=block128",
        "op=moe_layer tokens=11 hidden=128 inter=128 experts=4 top_k=2 tp=1 load=uniform quant=block128",
        "op=quantize tokens=11 hidden=128 inter=128 experts=4 top_k=2 tp=1 load=uniform quant=block128",
        "op=act_quant tokens=11 hidden=128 inter=128 experts=4 top_k=2 tp=1 load=uniform quant=block128",
        "op=combine tokens=11 hidden=128 inter=128 experts=4 top_k=2 tp=1 load=uniform quant=block128"}) {
    const Case c = parse_case(std::string(line) +
                              " seed=3 kernel=moeproof layout=swap_ab tile=8x128x128 tile_down=8x128x128");
    const TensorSet before = make_inputs(c.problem, c.choice, routing_of(c.problem), 1);
    TensorSet after = before;
    take_tokens(c.problem, after, RowMap{0, 1, 2});
    for (const Tensor& t : before.all()) {
      const std::int64_t rows = t.dim(0), now = after.at(t.name()).dim(0);
      EXPECT_TRUE((rows != 11 && rows != 22) || now == 3 * rows / 11)
          << line << " " << t.name() << " " << now;
    }
  }
}

}  // namespace
}  // namespace moe::harness
