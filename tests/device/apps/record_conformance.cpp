// record_conformance CUBIN: runs the conformance cases on the card and prints their lines, as they stand in
// fixtures/golden/conformance_h200.txt.
#include <cstdio>
#include <fstream>
#include <sstream>

#include "device/cuda/cuda_machine.hpp"
#include "tests/device/conformance_cases.hpp"

int main(int argc, char** argv) {
  using namespace moe;
  if (argc != 2) {
    std::fputs("usage: record_conformance CUBIN\n", stderr);
    return 2;
  }
  std::ostringstream cubin;
  cubin << std::ifstream(argv[1], std::ios::binary).rdbuf();
  const std::string bytes = cubin.str();
  std::vector<device::CubinImage> images;
  for (int i = 0; i < hopper::conformance::kKernelCount; ++i)
    images.push_back({i, hopper::conformance::kKernels[i].name, bytes});
  try {
    device::CudaMachine machine(0, images);
    for (const std::string& line : test::ConformanceRun(machine).lines()) std::puts(line.c_str());
    for (const std::string& report : machine.take_reports()) std::fprintf(stderr, "%s\n", report.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
