// A libnvidia-ml of one card, "0000:1B:00.0", at 1755 MHz with 100 GB free, for tests/device/nvml_test.cpp.
#include <cstring>

namespace {
int starts = 0, card = 0;
}

extern "C" {
int nvmlInit_v2() { return ++starts, 0; }
int nvmlShutdown() { return --starts, 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** handle) {
  if (starts <= 0 || std::strcmp(bus_id, "0000:1B:00.0") != 0) return 6;  // NVML_ERROR_NOT_FOUND
  *handle = &card;
  return 0;
}
int nvmlDeviceGetClockInfo(void* handle, int type, unsigned* mhz) {
  if (starts <= 0 || handle != &card) return 1;
  *mhz = type == 1 ? 1755 : 9999;  // NVML_CLOCK_SM
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* handle, void* info) {
  if (starts <= 0 || handle != &card) return 1;
  auto* total_free_used = static_cast<unsigned long long*>(info);
  total_free_used[0] = 140'000'000'000, total_free_used[1] = 100'000'000'000;
  total_free_used[2] = 40'000'000'000;
  return 0;
}
}
