#include <link.h>

#include "device/emulator/engine.hpp"
#include "device/emulator/symbolise.hpp"

namespace moe::device::emulator {
namespace {

std::uintptr_t find_load_bias() {
  std::uintptr_t bias = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        *static_cast<std::uintptr_t*>(out) = info->dlpi_addr;
        return 1;  // the first object is the program
      },
      &bias);
  return bias;
}

}  // namespace

const std::uintptr_t load_bias = find_load_bias();

void append(std::string& s, std::string_view text) { s += text; }
void append(std::string& s, At at) {
  s += '\1';
  s += std::to_string(at.pc);
  s += '\2';
}
void append(std::string& s, Who who) {
  s += "thread " + std::to_string(who.thread) + " (warp " + std::to_string(who.thread / 32) + " lane " +
       std::to_string(who.thread % 32) + ")";
}
void append(std::string& s, Where where) {
  const Thread::Place& p = where.thread.place;
  if (p.expert >= 0)
    s += " (tile of expert " + std::to_string(p.expert) + ", row " + std::to_string(p.row) + ", panel " +
         std::to_string(p.panel);
  if (p.k_block >= 0)
    s += (p.expert >= 0 ? "; k-block " : " (k-block ") + std::to_string(p.k_block) + ", stage " +
         std::to_string(p.stage);
  if (p.expert >= 0 || p.k_block >= 0) s += ")";
}
void append(std::string& s, std::int64_t number) { s += std::to_string(number); }

bool is_new_report(const Cta& c, const char* check, Pc pc) {
  for (const RawReport& r : c.reports)
    if (r.pc == pc && std::string_view(r.check) == check) return false;
  return true;
}

void add_report(Cta& c, const char* check, Pc pc, std::string text) {
  if (c.running) append(text, Where{*c.running});
  c.reports.push_back({check, pc, std::move(text)});
  if (int(c.reports.size()) < c.options->max_reports) return;
  c.stopped = true;
  if (c.running) stop(c);
}

std::string Report::sentence() const { return where + ": " + text + " [" + check + "]"; }

}  // namespace moe::device::emulator
