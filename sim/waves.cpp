#include "sim/waves.hpp"

#include <algorithm>
#include <utility>

namespace moe::sim {
namespace {

Traffic times(const Traffic& each, double n) {
  return {each.hbm_read * n, each.l2_read * n, each.l2_written * n, each.hbm_written * n};
}

}  // namespace

void Waves::close() {
  if (!waves_.empty() && waves_.back().tiles == open_.tiles && waves_.back().traffic == open_.traffic)
    waves_.back().count += open_.count;
  else
    waves_.push_back(open_);
  open_ = {};
}

void Waves::add(std::int64_t tiles, const Traffic& each) {
  while (tiles > 0) {
    const bool whole = open_.tiles == 0 && tiles >= slots_;
    const std::int64_t taken = whole ? slots_ : std::min(tiles, slots_ - open_.tiles);
    if (whole) open_.count = tiles / slots_;
    open_.tiles += taken;
    open_.traffic += times(each, double(taken));
    tiles -= taken * open_.count;
    if (open_.tiles == slots_) close();
  }
}

std::vector<Wave> Waves::take() {
  if (open_.tiles > 0) close();
  return std::move(waves_);
}

}  // namespace moe::sim
