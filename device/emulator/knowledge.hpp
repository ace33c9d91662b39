// What does a thread know of the others? Vector clocks with one component per CUDA thread, per mbarrier (its
// phases) and per warpgroup (its wgmmas), in three copies: events that are ordered before (`seen`), and of
// these the ones that a proxy fence has passed to the asynchronous proxy, of shared memory (`fenced`) and of
// global memory (`passed`). Threads that leave a barrier share one immutable snapshot, and joins are
// remembered, so that a barrier of 128 threads costs a few vector operations and not 128. CTAs that
// communicate also know of each other: a snapshot of every other CTA's clocks.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace moe::device::emulator {

using Clock = std::int32_t;

class SnapshotPool;
class SnapshotRef;

/// What is known of each CTA of a group, by its number; a null entry is nothing. Never changes.
using Others = std::shared_ptr<const std::vector<SnapshotRef>>;

struct Snapshot {
  SnapshotPool* pool = nullptr;
  std::uint64_t id = 0;  // never reused: equal ids, equal contents
  std::uint32_t references = 0;
  Clock* seen = nullptr;
  Clock* fenced = nullptr;
  Clock* passed = nullptr;
  Others others;  // null: nothing, as always where CTAs do not communicate
};

/// Counted reference to a snapshot that no longer changes.
class SnapshotRef {
 public:
  SnapshotRef() = default;
  explicit SnapshotRef(Snapshot* s) : s_(s) { ++s_->references; }
  SnapshotRef(const SnapshotRef& o) : s_(o.s_) {
    if (s_) ++s_->references;
  }
  SnapshotRef(SnapshotRef&& o) noexcept : s_(std::exchange(o.s_, nullptr)) {}
  SnapshotRef& operator=(SnapshotRef o) noexcept {
    std::swap(s_, o.s_);
    return *this;
  }
  ~SnapshotRef();
  const Snapshot* operator->() const { return s_; }
  const Snapshot& operator*() const { return *s_; }
  explicit operator bool() const { return s_ != nullptr; }

 private:
  Snapshot* s_ = nullptr;
};

struct Knowledge;

/// All snapshots of one CTA.
class SnapshotPool {
 public:
  /// Forgets everything; all references must be gone.
  void reset(int components);
  /// Drops the remembered joins, which hold references into other CTAs' pools.
  void forget_joins() {
    for (Remembered& m : memo_) m = Remembered{};
  }
  int components() const { return components_; }
  int clocks() const { return 3 * components_; }
  SnapshotRef zero();
  SnapshotRef join(const SnapshotRef& a, const SnapshotRef& b);
  /// `a` with what is known of other CTAs raised to `others` (whose entry `self` is about this CTA).
  SnapshotRef join(const SnapshotRef& a, const Others& others, std::size_t self);
  /// `a` after fence.proxy.async: all that was seen is fenced; `global`: passed too, of every CTA.
  SnapshotRef fence(const SnapshotRef& a, bool global);
  /// `base` with its owner's clocks at component `self`, without what it knows of other CTAs.
  SnapshotRef alone(const Knowledge& k, int self);
  /// A copy that its owner may still change.
  Snapshot* copy(const Snapshot& s);
  void give_back(Snapshot* s) {
    s->others.reset();
    free_.push_back(s);
  }

 private:
  struct Remembered {
    std::uint64_t a = 0, b = 0;
    SnapshotRef result;
  };
  Snapshot* take();
  int components_ = 0;
  std::uint64_t next_id_ = 1;
  std::vector<std::unique_ptr<Snapshot>> all_;
  std::vector<std::unique_ptr<Clock[]>> storage_;
  std::vector<Snapshot*> free_;
  std::array<Remembered, 64> memo_;
};

inline SnapshotRef::~SnapshotRef() {
  if (s_ && --s_->references == 0) s_->pool->give_back(s_);
}

/// A thread's knowledge: a shared snapshot and its own two clocks.
struct Knowledge {
  SnapshotRef base;
  Clock own = 1, fenced_own = 0, passed_own = 0;
};

/// What an access is judged by: a thread's knowledge, or what all warps of a warpgroup have seen.
struct Observer {
  const Clock* seen;
  const Clock* fenced;
  int self;  // component of the thread, or -1
  Clock own, fenced_own;
  bool knows(int component, Clock event) const {
    return event <= (component == self ? own : seen[component]);
  }
  bool fenced_since(int component, Clock event) const {
    return event <= fenced[component] || (component == self && event <= fenced_own);
  }
};
inline Observer observer(const Knowledge& k, int self) {
  return {k.base->seen, k.base->fenced, self, k.own, k.fenced_own};
}

/// Element by element; a null side is nothing.
Others join_others(const Others& a, const Others& b);

/// Collects the knowledge of threads that arrive at a barrier.
class Gathering {
 public:
  bool empty() const { return !collected_; }
  void add(SnapshotPool& pool, const Knowledge& k, int self);
  /// The snapshot that the waiting threads acquire. `keep`: later additions build on this one (mbarrier
  /// phases).
  SnapshotRef publish(SnapshotPool& pool, bool keep);
  void raise(SnapshotPool& pool, int component, Clock value);
  void clear();
  ~Gathering() { clear(); }
  Gathering() = default;
  Gathering(Gathering&& o) noexcept
      : collected_(std::exchange(o.collected_, nullptr)), last_base_(o.last_base_) {}
  Gathering& operator=(Gathering&&) = delete;

 private:
  Snapshot* collected_ = nullptr;  // owned, still changing
  std::uint64_t last_base_ = 0;    // its last joined snapshot: joining it again changes nothing
};

/// Some a[i] > b[i]. n is a multiple of 8.
bool any_above(const Clock* a, const Clock* b, int n);
/// a[i] = max(a[i], b[i]); says whether a changed. n is a multiple of 8.
bool raise_all(Clock* a, const Clock* b, int n);

}  // namespace moe::device::emulator
