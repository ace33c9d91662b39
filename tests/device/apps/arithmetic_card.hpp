// What does a card make of a batch of tiles? Uploads the operands once and runs the kernels of
// device/hopper/conformance/arithmetic_params.hpp on them, form by form.
#pragma once
#include <cstring>
#include <span>

#include "device/cuda/cuda_machine.hpp"
#include "device/hopper/conformance/arithmetic_params.hpp"
#include "tests/reference/golden/arithmetic.hpp"

namespace moe::test {

namespace conformance = hopper::conformance;

/// One way to issue an arithmetic: a kernel, and N for wgmma (256 columns otherwise, in blocks of 8).
struct Form {
  int kernel, arithmetic, n;
  std::string name() const {
    const conformance::ArithmeticKernel& k = conformance::kArithmeticKernels[kernel];
    const std::string types = k.entry;
    if (is_wgmma(k.instruction)) return "wgmma_m64n" + std::to_string(n) + "k32_" + types;
    return (k.instruction == conformance::Instruction::mma_fp8 ? "mma_m16n8k32" : "mma_m16n8k16") +
           types.substr(3);
  }
};
/// All forms of one arithmetic.
inline std::vector<Form> forms(int arithmetic) {
  std::vector<Form> list;
  if (arithmetic >= 8) return {Form{arithmetic + 8, arithmetic, 8}};
  for (int kernel : {arithmetic, arithmetic + 8})
    for (int n : conformance::kWgmmaN) list.push_back({kernel, arithmetic, n});
  return list;
}

class ArithmeticCard {
 public:
  /// `cubin`: the machine code of arithmetic_kernels.cu. Memory for up to `tiles` tiles is taken at once.
  ArithmeticCard(std::string_view cubin, int tiles) : machine_(0, images(cubin)), tiles_(std::size_t(tiles)) {
    static_assert(conformance::kTileRows == kRows && conformance::kTileColumns == kColumns &&
                  conformance::kTileBytes == kRowBytes);
    const auto take = [&](std::size_t bytes) {
      return machine_.allocate(tiles_ * bytes, device::BufferUse::workspace, "tiles");
    };
    a_ = take(kRows * kRowBytes);
    b_ = take(kColumns * kRowBytes);
    c_ = take(kOutputs * 4);
    d_ = take(kOutputs * 4);
    scale_d_ = take(4);
  }
  std::string_view device() const { return machine_.name(); }

  /// Where c is not used it holds NaN.
  void upload(const Arithmetic& x, std::span<const Tile> tiles) {
    std::vector<std::uint8_t> a, b, c;
    std::vector<std::uint32_t> scale_d;
    for (const Tile& t : tiles) {
      a.insert(a.end(), t.a.begin(), t.a.end());
      b.insert(b.end(), t.b.begin(), t.b.end());
      scale_d.push_back(t.c.empty() ? 0 : 1);
      const auto bytes = as_stored(x, t.c.empty() ? std::vector<std::uint32_t>(kOutputs, 0x7FFF7FFFu) : t.c);
      c.insert(c.end(), bytes.begin(), bytes.end());
    }
    machine_.upload(a_, a.data(), a.size());
    machine_.upload(b_, b.data(), b.size());
    machine_.upload(c_, c.data(), c.size());
    machine_.upload(scale_d_, scale_d.data(), 4 * scale_d.size());
  }

  /// Outputs of the uploaded tiles, [tile][64][256] as stored; columns that the form does not cover are 0xFF
  /// bytes.
  void run(const Form& form, int tiles, std::vector<std::uint8_t>& d) {
    d.resize(std::size_t(tiles) * kOutputs * std::size_t(result_bytes(arithmetic(form.arithmetic))));
    machine_.fill(d_, 0xFF, d.size());
    conformance::ArithmeticParams p;
    p.a = reinterpret_cast<const std::uint8_t*>(a_);
    p.b = reinterpret_cast<const std::uint8_t*>(b_);
    p.c = reinterpret_cast<const void*>(c_);
    p.d = reinterpret_cast<void*>(d_);
    p.scale_d = reinterpret_cast<const std::uint32_t*>(scale_d_);
    p.n = form.n;
    const device::LaunchConfig config{unsigned(tiles), conformance::kArithmeticThreads,
                                      conformance::kArithmeticSharedBytes};
    device::launch(machine_, form.kernel, config, p);
    machine_.synchronize();
    machine_.download(d.data(), d_, d.size());
  }
  /// Damaged guards of the buffers.
  std::vector<std::string> take_reports() { return machine_.take_reports(); }

 private:
  static constexpr std::size_t kOutputs = std::size_t(kRows) * kColumns;
  static std::span<const device::CubinImage> images(std::string_view cubin) {
    static std::vector<device::CubinImage> list;
    for (int i = 0; list.size() < conformance::kArithmeticKernelCount; ++i)
      list.push_back({i, conformance::kArithmeticKernels[i].entry, cubin});
    return list;
  }

  device::CudaMachine machine_;
  std::size_t tiles_;
  device::Address a_ = 0, b_ = 0, c_ = 0, d_ = 0, scale_d_ = 0;
};

}  // namespace moe::test
