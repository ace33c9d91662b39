// Which driver functions does the `cuda` executor call? libcuda is opened at run time, so one binary serves
// machines with and without a driver. Every call goes through check(), which turns an error into
// MachineFailure with its name.
#pragma once
#include <cuda.h>

#include <source_location>

namespace moe::device {

struct Driver {
  decltype(&cuInit) init;
  decltype(&cuDriverGetVersion) driver_get_version;
  decltype(&cuGetErrorName) get_error_name;
  decltype(&cuGetErrorString) get_error_string;
  decltype(&cuDeviceGet) device_get;
  decltype(&cuDeviceGetName) device_get_name;
  decltype(&cuDeviceGetAttribute) device_get_attribute;
  decltype(&cuDeviceGetPCIBusId) device_get_pci_bus_id;
  decltype(&cuDevicePrimaryCtxRetain) primary_ctx_retain;
  decltype(&cuDevicePrimaryCtxRelease) primary_ctx_release;
  decltype(&cuCtxSetCurrent) ctx_set_current;
  decltype(&cuMemAlloc) mem_alloc;
  decltype(&cuMemFree) mem_free;
  decltype(&cuMemGetInfo) mem_get_info;
  decltype(&cuMemAllocAsync) mem_alloc_async;
  decltype(&cuMemFreeAsync) mem_free_async;
  decltype(&cuDeviceGetDefaultMemPool) device_get_default_mem_pool;
  decltype(&cuMemPoolSetAttribute) mem_pool_set_attribute;
  decltype(&cuMemcpyHtoDAsync) memcpy_htod_async;
  decltype(&cuMemcpyDtoHAsync) memcpy_dtoh_async;
  decltype(&cuMemcpyDtoDAsync) memcpy_dtod_async;
  decltype(&cuMemsetD8Async) memset_d8_async;
  decltype(&cuModuleLoadData) module_load_data;
  decltype(&cuModuleUnload) module_unload;
  decltype(&cuModuleGetFunction) module_get_function;
  decltype(&cuModuleGetGlobal) module_get_global;
  decltype(&cuFuncSetAttribute) func_set_attribute;
  decltype(&cuFuncGetParamInfo) func_get_param_info;
  decltype(&cuLaunchKernelEx) launch_kernel_ex;
  decltype(&cuStreamCreate) stream_create;
  decltype(&cuStreamDestroy) stream_destroy;
  decltype(&cuStreamSynchronize) stream_synchronize;
  decltype(&cuStreamBeginCapture) stream_begin_capture;
  decltype(&cuStreamEndCapture) stream_end_capture;
  decltype(&cuGraphInstantiate) graph_instantiate;
  decltype(&cuGraphLaunch) graph_launch;
  decltype(&cuGraphDestroy) graph_destroy;
  decltype(&cuGraphExecDestroy) graph_exec_destroy;
  decltype(&cuEventCreate) event_create;
  decltype(&cuEventDestroy) event_destroy;
  decltype(&cuEventRecord) event_record;
  decltype(&cuEventSynchronize) event_synchronize;
  decltype(&cuEventElapsedTime) event_elapsed_time;
  decltype(&cuTensorMapEncodeTiled) tensor_map_encode_tiled;
};

/// The loaded driver; throws MachineFailure (what is missing) when there is none. Loaded once, thread-safe.
const Driver& driver();

/// Throws MachineFailure "<call site>: CUDA_ERROR_...: text" unless `result` is success.
void check(CUresult result, const char* what, std::source_location where = std::source_location::current());

}  // namespace moe::device
