#include "device/emulator/wgmma_operand.hpp"

#include <algorithm>
#include <cstring>

namespace moe::device::emulator {

void read_operand(const Cta& c, std::uint64_t descriptor, int first, int last, std::uint8_t* to) {
  const Operand operand(descriptor);
  for (int r = first; r < last; ++r)
    for (int k = 0; k < kWgmmaStepBytes; k += 16)
      std::memcpy(to + r * kWgmmaStepBytes + k, c.shared + operand.offset(std::uint32_t(r), std::uint32_t(k)),
                  16);
}

namespace {

/// A tile that a tensor copy has laid out with one swizzle is no operand with another.
void check_swizzle(Cta& c, const WgmmaOp& op, bool is_b, const Operand& operand) {
  const int rows = is_b ? op.n : kWgmmaRows;
  for (int r = 0; r < rows; ++r) {
    const std::uint32_t at = operand.offset(std::uint32_t(r), 0);
    const Granule& g = c.granules[at / kGranule];
    if (!g.tma_bar || g.swizzle == hopper::Swizzle::none || g.swizzle == operand.swizzle) continue;
    return report(c, "descriptor", op.pc, "matrix descriptor ", is_b ? "B" : "A", " reads shared offset ", at,
                  " with the ", row_bytes(operand.swizzle), "-byte ",
                  operand.swizzle == hopper::Swizzle::none ? "rows of no swizzle" : "swizzle",
                  "; the copy issued at ", At{g.tma_pc}, " wrote it with the ", row_bytes(g.swizzle),
                  "-byte swizzle");
  }
}

}  // namespace

void check_operand(Cta& c, const WgmmaOp& op, bool is_b, const Observer* seen, AsyncReader reader) {
  const Operand operand(is_b ? op.desc_b : op.desc_a);
  const std::uint32_t rows = is_b ? std::uint32_t(op.n) : std::uint32_t(kWgmmaRows), start = operand.start;
  const std::uint32_t atom = 8 * operand.row;
  const char* letter = is_b ? "B" : "A";
  if (operand.group != atom)
    report(c, "descriptor", op.pc, "matrix descriptor ", letter, " has ", operand.group,
           " bytes between 8-row groups; a K-major tile with its ", operand.row, "-byte rows has ", atom);
  if (operand.swizzle != hopper::Swizzle::none && start % atom >= operand.row)
    report(c, "alignment", op.pc, "matrix descriptor ", letter, " starts at shared offset ", start,
           ": with the ", operand.row, "-byte swizzle the tile must be ", atom, "-byte aligned");
  if (operand.swizzle != hopper::Swizzle::none && start % operand.row + kWgmmaStepBytes > operand.row)
    report(c, "descriptor", op.pc, "matrix descriptor ", letter, " starts at byte ", start % operand.row,
           " of a row of ", operand.row, ": the ", kWgmmaStepBytes,
           " bytes of the instruction leave the tile");
  const std::uint32_t last = operand.offset(rows - 1, 0), past = operand.offset(rows - 1, 16);
  const std::uint32_t end = std::max(last, past) / operand.row * operand.row + operand.row;
  if (end > c.shared_bytes) {
    report(c, "smem-bounds", op.pc, "matrix descriptor ", letter, " covers shared memory up to offset ", end,
           " of ", c.shared_bytes);
    stop(c);
  }
  if (!seen) return;
  check_swizzle(c, op, is_b, operand);
  const char* what = is_b ? "wgmma (operand B)" : "wgmma (operand A)";
  for (std::uint32_t r = 0; r < rows; ++r)
    for (std::uint32_t k = 0; k < std::uint32_t(kWgmmaStepBytes); k += 16)
      async_read(c, operand.offset(r, k), 16, *seen, op.pc, what, reader);
}

}  // namespace moe::device::emulator
