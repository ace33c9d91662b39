// The worker process of isolated_executor_test.cpp: serves the faulty executor.
#include "harness/worker.hpp"
#include "tests/harness/faulty_executor.hpp"

int main() {
  moe::harness::FaultyExecutor executor;
  return moe::harness::serve_worker(executor);
}
