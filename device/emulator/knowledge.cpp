#include "device/emulator/knowledge.hpp"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace moe::device::emulator {
namespace {

__attribute__((target("avx2"))) bool raise_all_avx2(Clock* a, const Clock* b, int n) {
  __m256i changed = _mm256_setzero_si256();
  for (int i = 0; i < n; i += 8) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + i));
    const __m256i y = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + i));
    changed = _mm256_or_si256(changed, _mm256_cmpgt_epi32(y, x));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(a + i), _mm256_max_epi32(x, y));
  }
  return !_mm256_testz_si256(changed, changed);
}

bool raise_all_plain(Clock* a, const Clock* b, int n) {
  bool changed = false;
  for (int i = 0; i < n; ++i) {
    changed |= b[i] > a[i];
    a[i] = std::max(a[i], b[i]);
  }
  return changed;
}

__attribute__((target("avx2"))) bool any_above_avx2(const Clock* a, const Clock* b, int n) {
  __m256i above = _mm256_setzero_si256();
  for (int i = 0; i < n; i += 8) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + i));
    const __m256i y = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + i));
    above = _mm256_or_si256(above, _mm256_cmpgt_epi32(x, y));
  }
  return !_mm256_testz_si256(above, above);
}

bool any_above_plain(const Clock* a, const Clock* b, int n) {
  for (int i = 0; i < n; ++i)
    if (a[i] > b[i]) return true;
  return false;
}

bool equal(const Snapshot& a, const Snapshot& b, int clocks) {
  return std::memcmp(a.seen, b.seen, sizeof(Clock) * std::size_t(clocks)) == 0 && a.others == b.others;
}

constexpr std::uint64_t kFence = ~std::uint64_t(0), kGlobalFence = kFence - 1;

}  // namespace

bool any_above(const Clock* a, const Clock* b, int n) {
  return __builtin_cpu_supports("avx2") ? any_above_avx2(a, b, n) : any_above_plain(a, b, n);
}

bool raise_all(Clock* a, const Clock* b, int n) {
  const bool avx2 = __builtin_cpu_supports("avx2");
  return avx2 ? raise_all_avx2(a, b, n) : raise_all_plain(a, b, n);
}

void SnapshotPool::reset(int components) {
  forget_joins();
  const int padded = (components + 7) / 8 * 8;
  if (padded == components_) return;  // what the last CTA used is all in free_
  components_ = padded;
  free_.clear();
  all_.clear();
  storage_.clear();
}

Snapshot* SnapshotPool::take() {
  if (free_.empty()) {
    storage_.push_back(std::make_unique<Clock[]>(std::size_t(clocks())));
    all_.push_back(std::make_unique<Snapshot>());
    Snapshot* s = all_.back().get();
    s->pool = this;
    s->seen = storage_.back().get();
    s->fenced = s->seen + components_;
    s->passed = s->fenced + components_;
    free_.push_back(s);
  }
  Snapshot* s = free_.back();
  free_.pop_back();
  s->id = next_id_++;
  s->references = 0;
  return s;
}

SnapshotRef SnapshotPool::zero() {
  Snapshot* s = take();
  std::memset(s->seen, 0, sizeof(Clock) * std::size_t(clocks()));
  return SnapshotRef(s);
}

Snapshot* SnapshotPool::copy(const Snapshot& other) {
  Snapshot* s = take();
  std::memcpy(s->seen, other.seen, sizeof(Clock) * std::size_t(clocks()));
  s->others = other.others;
  return s;
}

SnapshotRef SnapshotPool::join(const SnapshotRef& a, const SnapshotRef& b) {
  if (a->id == b->id) return a;
  Remembered& m = memo_[(a->id * 7 + b->id) % memo_.size()];
  if (m.a == a->id && m.b == b->id) return m.result;
  Snapshot* joined = copy(*a);
  SnapshotRef result(joined);
  joined->others = join_others(a->others, b->others);
  if (!raise_all(joined->seen, b->seen, clocks()) && joined->others == a->others)
    result = a;
  else if (equal(*joined, *b, clocks()))
    result = b;
  m.a = a->id;
  m.b = b->id;
  m.result = result;
  return result;
}

SnapshotRef SnapshotPool::join(const SnapshotRef& a, const Others& others, std::size_t self) {
  if (!others) return a;
  SnapshotRef result = a;
  if (const SnapshotRef& mine = (*others)[self]) result = join(a, mine);
  const Others all = join_others(result->others, others);
  if (all == result->others) return result;
  Snapshot* s = copy(*result);
  s->others = all;
  return SnapshotRef(s);
}

SnapshotRef SnapshotPool::fence(const SnapshotRef& a, bool global) {
  const std::uint64_t key = global ? kGlobalFence : kFence;
  Remembered& m = memo_[(a->id * 7 + key) % memo_.size()];
  if (m.a == a->id && m.b == key) return m.result;
  Snapshot* s = copy(*a);
  const std::size_t bytes = sizeof(Clock) * std::size_t(components_);
  std::memcpy(s->fenced, s->seen, bytes);
  if (global) {
    std::memcpy(s->passed, s->seen, bytes);
    if (a->others) {
      std::vector<SnapshotRef> all;
      for (const SnapshotRef& other : *a->others)
        all.push_back(other ? other->pool->fence(other, true) : SnapshotRef());
      s->others = std::make_shared<const std::vector<SnapshotRef>>(std::move(all));
    }
  }
  m.a = a->id;
  m.b = key;
  m.result = SnapshotRef(s);
  return m.result;
}

SnapshotRef SnapshotPool::alone(const Knowledge& k, int self) {
  Snapshot* s = copy(*k.base);
  s->others.reset();
  s->seen[self] = std::max(s->seen[self], k.own);
  s->fenced[self] = std::max(s->fenced[self], k.fenced_own);
  s->passed[self] = std::max(s->passed[self], k.passed_own);
  return SnapshotRef(s);
}

Others join_others(const Others& a, const Others& b) {
  if (!b || a == b) return a;
  if (!a) return b;
  std::vector<SnapshotRef> all(a->size());
  bool as_a = true, as_b = true;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const SnapshotRef &x = (*a)[i], &y = (*b)[i];
    all[i] = !x ? y : !y ? x : x->pool->join(x, y);
    const std::uint64_t id = all[i] ? all[i]->id : 0;
    as_a &= id == (x ? x->id : 0);
    as_b &= id == (y ? y->id : 0);
  }
  if (as_a || as_b) return as_a ? a : b;
  return std::make_shared<const std::vector<SnapshotRef>>(std::move(all));
}

void Gathering::add(SnapshotPool& pool, const Knowledge& k, int self) {
  if (!collected_) {
    collected_ = pool.copy(*k.base);
    last_base_ = k.base->id;
  } else if (last_base_ != k.base->id) {
    raise_all(collected_->seen, k.base->seen, pool.clocks());
    collected_->others = join_others(collected_->others, k.base->others);
    last_base_ = k.base->id;
  }
  collected_->seen[self] = std::max(collected_->seen[self], k.own);
  collected_->fenced[self] = std::max(collected_->fenced[self], k.fenced_own);
  collected_->passed[self] = std::max(collected_->passed[self], k.passed_own);
}

void Gathering::raise(SnapshotPool& pool, int component, Clock value) {
  if (!collected_) collected_ = pool.copy(*pool.zero());  // nobody has arrived yet
  collected_->seen[component] = std::max(collected_->seen[component], value);
}

SnapshotRef Gathering::publish(SnapshotPool& pool, bool keep) {
  if (!collected_) return pool.zero();
  if (keep) return SnapshotRef(pool.copy(*collected_));
  last_base_ = 0;
  return SnapshotRef(std::exchange(collected_, nullptr));
}

void Gathering::clear() {
  if (collected_) collected_->pool->give_back(collected_);
  collected_ = nullptr;
  last_base_ = 0;
}

}  // namespace moe::device::emulator
