// How is a wrong kernel put in front of the judge? A kernel is a function from inputs to outputs; it declares
// the Semantics of the built-in kernels and is run and judged by run_problem as any other.
#pragma once
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "device/executor.hpp"
#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/generate.hpp"
#include "harness/reference_executor.hpp"
#include "harness/run_problem.hpp"
#include "tests/harness/common_metrics.hpp"
#include "tests/own_copy.hpp"

namespace moe::harness {

/// `run` counts the runs of a session from 0.
using PlantedKernel =
    std::function<TensorSet(const Case&, const TensorSet& inputs, device::RunMode, int run)>;

/// What a right kernel gives: the reference's bits.
inline TensorSet right_outputs(const Case& c, const TensorSet& inputs) {
  auto session = make_reference_executor(2)->open(c).session;
  session->bind(inputs);
  return session->run(device::RunMode::eager).outputs;
}

/// A kernel that computes rightly from inputs that it misread.
inline PlantedKernel misreading(std::function<void(TensorSet& inputs)> misread) {
  return [misread](const Case& c, const TensorSet& inputs, device::RunMode, int) {
    TensorSet read = own_copy(inputs);
    misread(read);
    return right_outputs(c, read);
  };
}
/// A kernel that computes rightly and spoils what it writes.
inline PlantedKernel miswriting(std::function<void(const Case&, TensorSet& outputs)> miswrite) {
  return [miswrite](const Case& c, const TensorSet& inputs, device::RunMode, int) {
    TensorSet out = right_outputs(c, inputs);
    miswrite(c, out);
    return out;
  };
}

class PlantedExecutor : public device::Executor {
 public:
  explicit PlantedExecutor(PlantedKernel kernel) : kernel_(std::move(kernel)) {}
  std::string_view name() const override { return "planted"; }
  std::vector<KernelInfo> kernels() const override { return make_reference_executor(1)->kernels(); }
  device::Opened open(const Case& c) override {
    if (c.problem.op == Op::align)
      return {nullptr, "the reference, which works for this kernel, has no op align"};
    return {std::make_unique<Running>(c, kernel_), ""};
  }

 private:
  class Running : public device::Session {
   public:
    Running(Case c, PlantedKernel kernel) : case_(std::move(c)), kernel_(std::move(kernel)) {}
    void bind(const TensorSet& inputs) override { inputs_ = inputs; }
    device::RunResult run(device::RunMode mode) override {
      device::RunResult result;
      result.outputs = kernel_(case_, inputs_, mode, run_++);
      return result;
    }
    Measurement time(const device::TimingPlan&) override { return {}; }
    Case resolved() const override { return case_; }

   private:
    Case case_;
    PlantedKernel kernel_;
    TensorSet inputs_;
    int run_ = 0;
  };
  PlantedKernel kernel_;
};

/// One case with a wrong kernel: what it gave, what is due, and the harness's verdict.
struct Trial {
  Case c;
  TensorSet inputs, got, due;
  Verdict verdict;
};

inline Verdict verdict_on(const Case& c, const PlantedKernel& kernel, bool graph = false, int repeats = 1) {
  PlantedExecutor executor(kernel);
  static const Hardware hardware = load_hardware("h200");
  RunPlan plan;
  plan.executor = &executor;
  plan.hardware = &hardware;
  plan.threads = 2;
  plan.judge_budget = 1e12;
  plan.graph = graph;
  plan.repeats = repeats;
  return *run_problem(c.problem, {c.choice}, plan).front().verdict;
}

/// Also shows that the harness passes the right kernel on this case, so that its "failed" means something.
inline Trial try_kernel(const std::string& line, const PlantedKernel& kernel) {
  Trial t;
  t.c = parse_case(line);
  t.inputs = make_inputs(t.c.problem, t.c.choice, routing_of(t.c.problem), 2);
  t.due = right_outputs(t.c, t.inputs);
  t.got = kernel(t.c, t.inputs, device::RunMode::eager, 0);
  t.verdict = verdict_on(t.c, kernel);
  const TensorSet& due = t.due;
  const Verdict right = verdict_on(t.c, [&](const auto&, const auto&, auto, int) { return due; });
  EXPECT_EQ(right.correctness, Correctness::passed) << right.reason;
  return t;
}

/// The blind spot: the common rule passes the wrong output, moeproof fails it. Prints both.
inline void expect_blind(const char* fault, const metrics::Metric& m, const Verdict& v) {
  std::printf("  %s\n    %s: %.6g (%s): %s\n    moeproof: %s: %s; looks like %s\n", fault, m.name.c_str(),
              m.value, m.limit.c_str(), m.passes ? "passes" : "fails",
              std::string(name(v.correctness)).c_str(), v.reason.c_str(), v.fault_class.c_str());
  EXPECT_TRUE(m.passes) << "the common rule is not blind here: this test shows nothing";
  EXPECT_EQ(v.correctness, Correctness::failed);
  EXPECT_FALSE(v.fault_class.empty());
}

}  // namespace moe::harness
