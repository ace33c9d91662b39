// How does work spread over the threads that a caller allows? Indices are handed out one by one; results must
// not depend on who takes which, so the same input gives the same bytes for any number of threads.
#pragma once
#include <cstdint>
#include <functional>

namespace moe::reference {

/// Calls body(i) once for each i in [0, count), from up to `threads` threads (the caller's among them).
/// The first exception that a body throws is thrown again here, after all threads have stopped.
void parallel_for(std::int64_t count, int threads, const std::function<void(std::int64_t)>& body);

}  // namespace moe::reference
