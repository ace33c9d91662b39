#include "device/emulator/global_order.hpp"

#include <algorithm>
#include <cstring>

#include "device/emulator/cta_group.hpp"
#include "device/emulator/engine.hpp"

namespace moe::device::emulator {
namespace {
constexpr std::uint8_t kWholeWord = 15;  // a bit a byte
}  // namespace

void GlobalOrder::clear() {
  pages_.clear();
  last_page_ = ~std::uintptr_t(0);
  last_cells_ = nullptr;
  sets_.assign(1, {});
  free_sets_.clear();
  split_cells_.resize(1);
  free_cells_.clear();
  released_.clear();
  earlier_.clear();
}

void GlobalOrder::find_page(std::uintptr_t page) {
  std::unique_ptr<GlobalCell[]>& cells = pages_[page];
  if (!cells) cells = std::make_unique<GlobalCell[]>(kPageBytes / 4);
  last_page_ = page;
  last_cells_ = cells.get();
}

std::uint32_t GlobalOrder::take_set() {
  if (free_sets_.empty()) {
    sets_.emplace_back();
    return std::uint32_t(sets_.size() - 1);
  }
  const std::uint32_t number = free_sets_.back();
  free_sets_.pop_back();
  sets_[number].clear();
  return number;
}

GlobalCell& GlobalOrder::take_apart(GlobalCell& cell, std::uint8_t bytes) {
  if (free_cells_.empty()) {
    split_cells_.emplace_back();
    free_cells_.push_back(std::uint32_t(split_cells_.size() - 1));
  }
  const std::uint32_t number = free_cells_.back();
  free_cells_.pop_back();
  GlobalCell& part = split_cells_[number];
  part = cell;
  if (cell.readers) {
    part.readers = take_set();
    sets_[part.readers] = sets_[cell.readers];
  }
  part.missing = kWholeWord & ~bytes;
  cell.missing |= bytes;
  cell.next = number;
  return part;
}

void GlobalOrder::put_together(GlobalCell& word) {
  while (word.next) {
    GlobalCell& part = split_cells_[word.next];
    forget_reads(part);
    free_cells_.push_back(word.next);
    word.next = part.next;
  }
  word.missing = 0;
}

void GlobalOrder::forget_reads(GlobalCell& cell) {
  if (cell.readers) free_sets_.push_back(cell.readers);
  cell.readers = 0;
  cell.read = Event{};
}

Others GlobalOrder::released(std::uintptr_t a) const {
  const auto it = released_.find(a / 4);
  return it == released_.end() ? Others() : it->second;
}

void GlobalOrder::release(std::uintptr_t a, const Others& known, bool continues) {
  Others& word = released_[a / 4];
  word = continues ? join_others(word, known) : known;
}

void GlobalOrder::overwrite(std::uintptr_t a, std::uint64_t bytes) {
  if (released_.empty() && earlier_.empty()) return;
  for (std::uintptr_t word = a / 4; word <= (a + bytes - 1) / 4; ++word) {
    released_.erase(word);
    earlier_.erase(word);
  }
}

namespace {

GlobalOrder& order_of(Cta& c) { return c.together ? c.together->order : c.order; }

/// What an access is judged by: the thread's clocks and what it knows of other CTAs.
struct View {
  Cta& c;
  const Thread& t;
  const Observer own;

  const Snapshot* of(unsigned cta) const {
    const Others& others = t.knows.base->others;
    const SnapshotRef* s = others ? &(*others)[cta] : nullptr;
    return s && *s ? s->operator->() : nullptr;
  }
  /// The clock of the event, or 0 where nobody can know it yet.
  Clock clock_of(const Event& e) const {
    if (!e.bulk) return e.clock;
    const Cta& owner = c.together ? *c.together->ctas[e.cta] : c;
    return owner.bulk_stores[e.bulk - 1].written_known;
  }
  bool knows(const Event& e) const {
    const Clock clock = clock_of(e);
    if (clock == 0) return false;
    if (e.cta == c.slot) return own.knows(e.component, clock);
    const Snapshot* s = of(e.cta);
    return s && clock <= s->seen[e.component];
  }
  bool passed(const Event& e) const {
    if (e.cta != c.slot) {
      const Snapshot* s = of(e.cta);
      return s && e.clock <= s->passed[e.component];
    }
    return e.clock <= t.knows.base->passed[e.component] ||
           (e.component == t.id && e.clock <= t.knows.passed_own);
  }
};

/// "thread 3 (warp 0 lane 3) of CTA 2 wrote", "a bulk store of CTA 2 writes"
std::string did(const View& v, const Event& e, bool write) {
  const auto cta = std::uint64_t(v.c.together ? v.c.together->ctas[e.cta]->index : v.c.index);
  if (e.via == Via::copy)
    return say(write ? "the bulk store of CTA " : "a copy of CTA ", cta, write ? " writes" : " reads",
               " (issued at ", At{e.pc}, ")");
  return say(Who{int(e.component)}, " of CTA ", cta, write ? " wrote at " : " read at ", At{e.pc});
}

void unordered(const View& v, const char* doing, std::uintptr_t a, const Event& other, bool other_writes,
               Pc pc) {
  const Region* r = v.c.memory->find(a);
  const char* check = other.cta == v.c.slot ? "race" : "cta-race";
  if (!is_new_report(v.c, check, pc)) return;
  std::string text =
      say(Who{v.t.id}, " of CTA ", std::uint64_t(v.c.index), " ", doing, " byte ",
          std::uint64_t(r ? a - r->lo : 0), " of '", r ? std::string_view(r->name) : "?", "', which ",
          did(v, other, other_writes),
          other.bulk ? "; nothing that waited for it (cp.async.bulk.wait_group) is ordered before"
          : other.cta == v.c.slot ? " without a barrier in between"
                                  : "; no release and acquire orders the two");
  add_report(v.c, check, pc, std::move(text));  // may not return: nothing else may be left on the stack
}

void not_fenced(const View& v, const char* doing, std::uintptr_t a, const Event& write, Pc pc) {
  const Region* r = v.c.memory->find(a);
  report(v.c, "missing-proxy-fence", pc, doing, " through the async proxy byte ",
         std::uint64_t(r ? a - r->lo : 0), " of '", r ? std::string_view(r->name) : "?",
         "', written with an ordinary store at ", At{write.pc},
         "; no fence.proxy.async of global memory in between");
}

bool same_thread(const Event& a, const Event& b) {
  return a.cta == b.cta && a.component == b.component && !a.bulk && !b.bulk;
}

/// Two instructions that may race: both strong.
bool may_race(const Event& a, const Event& b) { return a.via == Via::strong && b.via == Via::strong; }

void note_read(GlobalOrder& order, const View& v, GlobalCell& cell, const Event& now) {
  if (!cell.readers) {
    if (!cell.read.clock || same_thread(cell.read, now) || v.knows(cell.read)) {
      cell.read = now;
      return;
    }
    cell.readers = order.take_set();
    order.readers(cell.readers).push_back(cell.read);
  }
  for (Event& e : order.readers(cell.readers))
    if (same_thread(e, now)) {
      e = now;
      return;
    }
  order.readers(cell.readers).push_back(now);
}

void check_readers(GlobalOrder& order, const View& v, GlobalCell& cell, std::uintptr_t a, const Event& now,
                   const char* doing) {
  const auto check = [&](const Event& e) {
    if (!e.clock || same_thread(e, now) || may_race(e, now) || v.knows(e)) return;
    unordered(v, doing, a, e, false, now.pc);
  };
  if (!cell.readers) return check(cell.read);
  for (const Event& e : order.readers(cell.readers)) check(e);
}

/// All bytes of the cell are accessed, the first of them at `a`. `now` must not be kept across a report that
/// ends the thread.
void touch_cell(GlobalOrder& order, const View& v, GlobalCell& cell, std::uintptr_t a, bool write,
                const Event& now, const char* doing) {
  if (cell.written()) {
    if (!same_thread(cell.write, now) && !may_race(cell.write, now) && !v.knows(cell.write))
      unordered(v, doing, a, cell.write, true, now.pc);
    else if (now.via == Via::copy && cell.write.via != Via::copy && !v.passed(cell.write))
      not_fenced(v, doing, a, cell.write, now.pc);
  }
  if (!write) return note_read(order, v, cell, now);
  check_readers(order, v, cell, a, now, doing);
  order.forget_reads(cell);
  cell.write = now;
}

void touch(Cta& c, std::uintptr_t a, std::uint64_t bytes, bool write, const Event& now, const char* doing) {
  GlobalOrder& order = order_of(c);
  const View v{c, *c.running, observer(c.running->knows, c.running->id)};
  for (std::uintptr_t word = a / 4 * 4; word < a + bytes; word += 4) {
    GlobalCell& first = order.cell(word);
    const std::uintptr_t lo = std::max(word, a), hi = std::min(word + 4, std::uintptr_t(a + bytes));
    const auto bits = std::uint8_t(((1u << (hi - lo)) - 1) << (lo - word));
    for (GlobalCell* cell = &first; cell; cell = order.next(*cell)) {
      const auto mine = std::uint8_t(kWholeWord & ~cell->missing), touched = std::uint8_t(mine & bits);
      if (!touched) continue;
      if (touched != mine) cell = &order.take_apart(*cell, touched);
      touch_cell(order, v, *cell, word + std::uintptr_t(__builtin_ctz(touched)), write, now, doing);
    }
    if (write && bits == kWholeWord && first.next) order.put_together(first);
  }
  if (write && now.via != Via::strong) order.overwrite(a, bytes);
}

/// All that the thread knows, as others can take it over.
Others exported(Cta& c, const Thread& t) {
  const Others& known = t.knows.base->others;
  std::vector<SnapshotRef> all =
      known ? *known : std::vector<SnapshotRef>(c.together ? c.together->ctas.size() : 1);
  all[c.slot] = c.snapshots.alone(t.knows, t.id);
  return std::make_shared<const std::vector<SnapshotRef>>(std::move(all));
}

void learn(Cta& c, Thread& t, const Others& what) {
  if (c.together)
    t.knows.base = c.snapshots.join(t.knows.base, what, c.slot);
  else if (what)
    t.knows.base = c.snapshots.join(t.knows.base, what->front());
}

}  // namespace

void order_access(Cta& c, std::uintptr_t a, std::uint64_t bytes, bool write, Via via, Pc pc) {
  const Thread& t = *c.running;
  const char* doing = via == Via::strong ? (write ? "updates" : "polls") : write ? "writes" : "reads";
  touch(c, a, bytes, write, {t.knows.own, c.slot, std::uint16_t(t.id), pc, 0, via}, doing);
}

void order_copy_read(Cta& c, std::uintptr_t a, std::uint64_t bytes, Pc pc, int bar, std::uint32_t phase) {
  touch(c, a, bytes, false,
        {Clock(phase), c.slot, std::uint16_t(c.mbarrier_component(bar)), pc, 0, Via::copy}, "reads");
}

void order_copy_write(Cta& c, std::uintptr_t a, std::uint64_t bytes, Pc pc, std::uint32_t number) {
  const auto thread = std::uint16_t(c.running->id);
  touch(c, a, bytes, true, {1, c.slot, thread, pc, number + 1, Via::copy}, "writes");
}

void release_word(Cta& c, std::uintptr_t a, bool continues) {
  if (!c.check) return;
  Thread& t = *c.running;
  order_of(c).release(a, exported(c, t), continues);
  tick(c, t);
}

void relaxed_red(Cta& c, std::uintptr_t a) {
  if (c.check && c.running->fenced_release) order_of(c).release(a, c.running->fenced_release, true);
}

void keep_earlier(Cta& c, std::uintptr_t a) {
  if (!c.check || !c.together || c.options->mode != Mode::deterministic) return;
  c.together->order.keep_earlier(a, __atomic_load_n(reinterpret_cast<std::uint32_t*>(a), __ATOMIC_RELAXED));
}

const std::uint32_t* acquire_earlier(Cta& c, std::uintptr_t a) {
  if (!c.check || !c.together || c.options->mode != Mode::deterministic) return nullptr;
  Thread& t = *c.running;
  if (std::find(t.looked_at.begin(), t.looked_at.end(), a) != t.looked_at.end()) return nullptr;
  t.looked_at.push_back(a);
  GlobalOrder& order = c.together->order;
  const GlobalOrder::Earlier* earlier = order.earlier(a);
  const Event& update = order.cell(a).write;
  const View v{c, t, observer(t.knows, t.id)};
  if (!earlier || update.via != Via::strong || v.knows(update) ||
      (update.cta == c.slot && update.component == t.id))
    return nullptr;
  std::memcpy(t.polled.value, &earlier->value, sizeof earlier->value);  // the next look is another one
  learn(c, t, earlier->released);
  return &earlier->value;
}

void acquire_words(Cta& c, std::uintptr_t a, std::uint64_t bytes) {
  if (!c.check) return;
  for (std::uintptr_t word = a / 4 * 4; word < a + bytes; word += 4)
    learn(c, *c.running, order_of(c).released(word));
}

void relaxed_read_words(Cta& c, std::uintptr_t a, std::uint64_t bytes) {
  if (!c.check) return;
  Others& later = c.running->to_acquire;
  for (std::uintptr_t word = a / 4 * 4; word < a + bytes; word += 4)
    later = join_others(later, order_of(c).released(word));
}

void fence_gpu(Cta& c) {
  if (!c.check) return;
  Thread& t = *c.running;
  learn(c, t, t.to_acquire);
  t.to_acquire.reset();
  t.fenced_release = exported(c, t);
  tick(c, t);
}

}  // namespace moe::device::emulator
