#include "reference/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace moe::reference {

void parallel_for(std::int64_t count, int threads, const std::function<void(std::int64_t)>& body) {
  const std::int64_t workers = std::min<std::int64_t>(std::max(threads, 1), count);
  if (workers <= 1) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  std::atomic<std::int64_t> next{0};
  std::exception_ptr first;
  std::mutex guard;
  const auto work = [&] {
    for (std::int64_t i = next++; i < count; i = next++) {
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(guard);
        if (!first) first = std::current_exception();
        next = count;
      }
    }
  };
  std::vector<std::jthread> pool;
  for (std::int64_t t = 1; t < workers; ++t) pool.emplace_back(work);
  work();
  pool.clear();  // joins
  if (first) std::rethrow_exception(first);
}

}  // namespace moe::reference
