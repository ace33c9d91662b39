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

bool equal(const Snapshot& a, const Snapshot& b, int components) {
  return std::memcmp(a.seen, b.seen, sizeof(Clock) * 2 * std::size_t(components)) == 0;
}

constexpr std::uint64_t kFence = ~std::uint64_t(0);

}  // namespace

bool raise_all(Clock* a, const Clock* b, int n) {
  const bool avx2 = __builtin_cpu_supports("avx2");
  return avx2 ? raise_all_avx2(a, b, n) : raise_all_plain(a, b, n);
}

void SnapshotPool::reset(int components) {
  for (Remembered& m : memo_) m = Remembered{};
  const int padded = (components + 7) / 8 * 8;
  if (padded == components_) return;  // what the last CTA used is all in free_
  components_ = padded;
  free_.clear();
  all_.clear();
  storage_.clear();
}

Snapshot* SnapshotPool::take() {
  if (free_.empty()) {
    storage_.push_back(std::make_unique<Clock[]>(2 * std::size_t(components_)));
    all_.push_back(std::make_unique<Snapshot>());
    Snapshot* s = all_.back().get();
    s->pool = this;
    s->seen = storage_.back().get();
    s->fenced = s->seen + components_;
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
  std::memset(s->seen, 0, sizeof(Clock) * 2 * std::size_t(components_));
  return SnapshotRef(s);
}

Snapshot* SnapshotPool::copy(const Snapshot& other) {
  Snapshot* s = take();
  std::memcpy(s->seen, other.seen, sizeof(Clock) * 2 * std::size_t(components_));
  return s;
}

SnapshotRef SnapshotPool::join(const SnapshotRef& a, const SnapshotRef& b) {
  if (a->id == b->id) return a;
  Remembered& m = memo_[(a->id * 7 + b->id) % memo_.size()];
  if (m.a == a->id && m.b == b->id) return m.result;
  Snapshot* joined = copy(*a);
  SnapshotRef result(joined);
  if (!raise_all(joined->seen, b->seen, 2 * components_))
    result = a;
  else if (equal(*joined, *b, components_))
    result = b;
  m.a = a->id;
  m.b = b->id;
  m.result = result;
  return result;
}

SnapshotRef SnapshotPool::fence(const SnapshotRef& a) {
  Remembered& m = memo_[(a->id * 7 + kFence) % memo_.size()];
  if (m.a == a->id && m.b == kFence) return m.result;
  Snapshot* s = copy(*a);
  std::memcpy(s->fenced, s->seen, sizeof(Clock) * std::size_t(components_));
  m.a = a->id;
  m.b = kFence;
  m.result = SnapshotRef(s);
  return m.result;
}

void Gathering::add(SnapshotPool& pool, const Knowledge& k, int self) {
  if (!collected_) {
    collected_ = pool.copy(*k.base);
    last_base_ = k.base->id;
  } else if (last_base_ != k.base->id) {
    raise_all(collected_->seen, k.base->seen, 2 * pool.components());
    last_base_ = k.base->id;
  }
  collected_->seen[self] = std::max(collected_->seen[self], k.own);
  collected_->fenced[self] = std::max(collected_->fenced[self], k.fenced_own);
}

void Gathering::raise(int component, Clock value) {
  if (collected_) collected_->seen[component] = std::max(collected_->seen[component], value);
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
