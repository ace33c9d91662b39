#include "device/cuda/driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string_view>

#include "fixtures/problem/errors.hpp"

namespace moe::device {
namespace {

struct Loader {
  void* library;
  template <class F>
  void operator()(F& slot, const char* name) const {
    slot = reinterpret_cast<F>(dlsym(library, name));
    if (!slot) throw MachineFailure(fmt::format("the NVIDIA driver is too old: it has no {}", name));
  }
};

void load_memory_and_modules(Driver& d, const Loader& load) {
  load(d.mem_alloc, "cuMemAlloc_v2");
  load(d.mem_free, "cuMemFree_v2");
  load(d.mem_get_info, "cuMemGetInfo_v2");
  load(d.mem_alloc_async, "cuMemAllocAsync");
  load(d.mem_free_async, "cuMemFreeAsync");
  load(d.device_get_default_mem_pool, "cuDeviceGetDefaultMemPool");
  load(d.mem_pool_set_attribute, "cuMemPoolSetAttribute");
  load(d.memcpy_htod_async, "cuMemcpyHtoDAsync_v2");
  load(d.memcpy_dtoh_async, "cuMemcpyDtoHAsync_v2");
  load(d.memcpy_dtod_async, "cuMemcpyDtoDAsync_v2");
  load(d.memset_d8_async, "cuMemsetD8Async");
  load(d.module_load_data, "cuModuleLoadData");
  load(d.module_unload, "cuModuleUnload");
  load(d.module_get_function, "cuModuleGetFunction");
  load(d.module_get_global, "cuModuleGetGlobal_v2");
  load(d.func_set_attribute, "cuFuncSetAttribute");
  load(d.func_get_param_info, "cuFuncGetParamInfo");
  load(d.launch_kernel_ex, "cuLaunchKernelEx");
  load(d.tensor_map_encode_tiled, "cuTensorMapEncodeTiled");
}

void load_streams_and_events(Driver& d, const Loader& load) {
  load(d.stream_create, "cuStreamCreate");
  load(d.stream_destroy, "cuStreamDestroy_v2");
  load(d.stream_synchronize, "cuStreamSynchronize");
  load(d.stream_begin_capture, "cuStreamBeginCapture_v2");
  load(d.stream_end_capture, "cuStreamEndCapture");
  load(d.graph_instantiate, "cuGraphInstantiateWithFlags");
  load(d.graph_launch, "cuGraphLaunch");
  load(d.graph_destroy, "cuGraphDestroy");
  load(d.graph_exec_destroy, "cuGraphExecDestroy");
  load(d.event_create, "cuEventCreate");
  load(d.event_destroy, "cuEventDestroy_v2");
  load(d.event_record, "cuEventRecord");
  load(d.event_synchronize, "cuEventSynchronize");
  load(d.event_elapsed_time, "cuEventElapsedTime");
}

Driver load_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) throw MachineFailure("no NVIDIA driver: libcuda.so.1 is not on this machine");
  const Loader load{library};
  Driver d{};
  load(d.init, "cuInit");
  load(d.driver_get_version, "cuDriverGetVersion");
  load(d.get_error_name, "cuGetErrorName");
  load(d.get_error_string, "cuGetErrorString");
  load(d.device_get, "cuDeviceGet");
  load(d.device_get_name, "cuDeviceGetName");
  load(d.device_get_attribute, "cuDeviceGetAttribute");
  load(d.device_get_pci_bus_id, "cuDeviceGetPCIBusId");
  load(d.primary_ctx_retain, "cuDevicePrimaryCtxRetain");
  load(d.primary_ctx_release, "cuDevicePrimaryCtxRelease_v2");
  load(d.ctx_set_current, "cuCtxSetCurrent");
  load_memory_and_modules(d, load);
  load_streams_and_events(d, load);
  return d;
}

}  // namespace

const Driver& driver() {
  static const Driver loaded = load_driver();
  return loaded;
}

void check(CUresult result, const char* what, std::source_location where) {
  if (result == CUDA_SUCCESS) return;
  const char *name = "unknown error", *text = "";
  driver().get_error_name(result, &name);
  driver().get_error_string(result, &text);
  const std::string_view file = where.file_name();
  throw MachineFailure(fmt::format("{} failed ({}:{}): {}: {}", what, file.substr(file.rfind('/') + 1),
                                   where.line(), name ? name : "", text ? text : ""));
}

}  // namespace moe::device
