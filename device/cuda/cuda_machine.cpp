#include "device/cuda/cuda_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "device/cuda/driver.hpp"
#include "device/cuda/nvml.hpp"
#include "device/kernels/generate_weights_params.hpp"
#include "device/kernels/variants.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/sm90.hpp"

namespace moe::device {
namespace {

static_assert(kVariantCount == MOE_CUBIN_COUNT, "the build compiles one cubin for each line of variants.hpp");

constexpr std::size_t kGuardBytes = 1024;
constexpr std::uint8_t kGuardByte = 0xA5, kPoisonByte = 0xFF;
/// Buffers up to this size come from the stream's pool: a small case has forty, and cuMemAlloc and cuMemFree
/// would be most of its time. Larger ones, whose pages times depend on, have allocations of their own.
constexpr std::size_t kPooledBytes = std::size_t(4) << 20;
/// What the pool keeps from case to case.
/// The kernel that runs beside others: it fills this much again and again, with a CTA on every SM.
constexpr std::size_t kCrowdBytes = std::size_t(16) << 20;
constexpr int kCrowdLaunches = 64;
constexpr cuuint64_t kKeptBytes = cuuint64_t(512) << 20;

int attribute(CUdevice_attribute which, CUdevice device) {
  int value = 0;
  check(driver().device_get_attribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

}  // namespace

CudaMachine::CudaMachine(int ordinal, std::span<const CubinImage> images) : images_(images) {
  const Driver& d = driver();
  check(d.init(0), "cuInit");
  check(d.driver_get_version(&driver_version_), "cuDriverGetVersion");
  check(d.device_get(&device_, ordinal), "cuDeviceGet");
  char text[256] = {};
  check(d.device_get_name(text, sizeof text - 1, device_), "cuDeviceGetName");
  device_name_ = text;
  check(d.device_get_pci_bus_id(text, sizeof text - 1, device_), "cuDeviceGetPCIBusId");
  bus_id_ = text;
  const int major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device_);
  const int minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device_);
  if (major != 9 || minor != 0)
    throw MachineFailure(fmt::format("device {} ({}) is sm_{}{}; the kernels are for sm_90", ordinal,
                                     device_name_, major, minor));
  sms_ = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device_);
  l2_bytes_ = std::size_t(attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device_));
  check(d.primary_ctx_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
  check(d.ctx_set_current(context_), "cuCtxSetCurrent");
  check(d.stream_create(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  CUmemoryPool pool = nullptr;
  check(d.device_get_default_mem_pool(&pool, device_), "cuDeviceGetDefaultMemPool");
  cuuint64_t kept = kKeptBytes;
  check(d.mem_pool_set_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept), "cuMemPoolSetAttribute");
  check(d.event_create(&start_, CU_EVENT_DEFAULT), "cuEventCreate");
  check(d.event_create(&stop_, CU_EVENT_DEFAULT), "cuEventCreate");
}

CudaMachine::~CudaMachine() {
  // After a sticky error every call fails; the process is about to be replaced, so results are not looked at.
  const Driver& d = driver();
  for (CUgraphExec graph : graphs_) d.graph_exec_destroy(graph);
  for (auto& [address, buffer] : buffers_)
    buffer.pooled ? d.mem_free_async(buffer.raw, stream_) : d.mem_free(buffer.raw);
  if (guards_) d.mem_free(guards_);
  for (auto& [variant, k] : kernels_) d.module_unload(k.module);
  if (flush_buffer_) d.mem_free(flush_buffer_);
  if (crowd_buffer_) d.mem_free(crowd_buffer_);
  if (crowd_stream_) d.stream_destroy(crowd_stream_);
  d.event_destroy(start_);
  d.event_destroy(stop_);
  d.stream_destroy(stream_);
  d.primary_ctx_release(device_);
}

Address CudaMachine::allocate(std::size_t bytes, BufferUse use, std::string name) {
  const std::size_t padded = (bytes + 255) / 256 * 256, whole = padded + 2 * kGuardBytes;
  Buffer buffer{0, bytes, use, std::move(name), whole <= kPooledBytes};
  const CUresult result = buffer.pooled ? driver().mem_alloc_async(&buffer.raw, whole, stream_)
                                        : driver().mem_alloc(&buffer.raw, whole);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    std::size_t free_bytes = 0, total = 0;
    driver().mem_get_info(&free_bytes, &total);
    throw MachineFailure(
        fmt::format("out of device memory: '{}' needs {:.1f} GB, {:.1f} of {:.1f} GB are free", buffer.name,
                    bytes / 1e9, free_bytes / 1e9, total / 1e9));
  }
  check(result, "cuMemAlloc");
  const CUdeviceptr data = buffer.raw + kGuardBytes;
  fill(buffer.raw, kGuardByte, kGuardBytes);
  fill(data + bytes, kGuardByte, padded - bytes + kGuardBytes);
  if (use != BufferUse::input) fill(data, kPoisonByte, bytes);
  buffers_.emplace(data, std::move(buffer));
  return data;
}

void CudaMachine::release(const Buffer& buffer) {
  if (buffer.pooled)
    check(driver().mem_free_async(buffer.raw, stream_), "cuMemFreeAsync");
  else
    check(driver().mem_free(buffer.raw), "cuMemFree");
}

void CudaMachine::release_all() {
  check(driver().stream_synchronize(stream_), "cuStreamSynchronize");
  for (CUgraphExec graph : graphs_) driver().graph_exec_destroy(graph);
  graphs_.clear();
  for (auto& [address, buffer] : buffers_) release(buffer);
  buffers_.clear();
}

void CudaMachine::upload(Address to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  check(driver().memcpy_htod_async(to, from, bytes, stream_), "cuMemcpyHtoDAsync");
  check(driver().stream_synchronize(stream_), "cuStreamSynchronize");
}

void CudaMachine::download(void* to, Address from, std::size_t bytes) {
  if (bytes == 0) return;
  check(driver().memcpy_dtoh_async(to, from, bytes, stream_), "cuMemcpyDtoHAsync");
  check(driver().stream_synchronize(stream_), "cuStreamSynchronize");
}

void CudaMachine::fill(Address to, std::uint8_t byte, std::size_t bytes) {
  if (bytes) check(driver().memset_d8_async(to, byte, bytes, stream_), "cuMemsetD8Async");
}

hopper::TensorMap CudaMachine::tensor_map(Address base, std::uint64_t rows, std::uint64_t cols,
                                          std::uint64_t stride, unsigned box_rows, hopper::Swizzle swizzle) {
  static_assert(sizeof(CUtensorMap) == sizeof(hopper::TensorMap));
  CUtensorMap map;
  const cuuint64_t sizes[2] = {cols, rows}, strides[1] = {stride};
  static constexpr CUtensorMapSwizzle kModes[] = {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                                  CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_32B};
  const cuuint32_t box[2] = {hopper::row_bytes(swizzle), box_rows}, steps[2] = {1, 1};
  check(driver().tensor_map_encode_tiled(
            &map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, reinterpret_cast<void*>(base), sizes, strides, box, steps,
            CU_TENSOR_MAP_INTERLEAVE_NONE, kModes[std::size_t(swizzle)], CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "cuTensorMapEncodeTiled");
  hopper::TensorMap out;
  std::memcpy(&out, &map, sizeof out);
  return out;
}

CudaMachine::Kernel& CudaMachine::kernel(int variant) {
  if (const auto it = kernels_.find(variant); it != kernels_.end()) return it->second;
  const CubinImage* image = nullptr;
  for (const CubinImage& candidate : images_)
    if (candidate.variant == variant) image = &candidate;
  if (!image)
    throw MachineFailure(fmt::format("the binary carries no machine code for kernel variant {}", variant));
  Kernel k;
  check(driver().module_load_data(&k.module, image->bytes.data()), "cuModuleLoadData");
  check(driver().module_get_function(&k.function, k.module, std::string(image->entry).c_str()),
        "cuModuleGetFunction");
  std::size_t offset = 0;
  check(driver().func_get_param_info(k.function, 0, &offset, &k.params_bytes), "cuFuncGetParamInfo");
  if (plants_) tell_planted(k);
  return kernels_.emplace(variant, k).first->second;
}

/// Only machines that plant ask for the words: kernels of a release have none, and the driver's answer to
/// that is an error that compute-sanitizer counts.
void CudaMachine::tell_planted(const Kernel& k) {
  CUdeviceptr words = 0;
  std::size_t bytes = 0;
  if (driver().module_get_global(&words, &bytes, k.module, "moe_planted") == CUDA_SUCCESS)
    upload(words, planted_, sizeof planted_);
}

void CudaMachine::plant(std::int32_t fault, std::uint32_t delays) {
  plants_ = true;
  planted_[0] = fault;
  planted_[1] = std::int32_t(delays);
  for (const auto& [variant, k] : kernels_) tell_planted(k);
}

void CudaMachine::launch_on(CUstream stream, int variant, const LaunchConfig& config, const void* params,
                            std::size_t params_bytes) {
  Kernel& k = kernel(variant);
  if (params_bytes != k.params_bytes)
    throw MachineFailure(fmt::format("kernel variant {} takes {} parameter bytes, the launch gives {}",
                                     variant, k.params_bytes, params_bytes));
  if (config.shared_bytes > k.shared_bytes) {
    check(driver().func_set_attribute(k.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                      int(config.shared_bytes)),
          "cuFuncSetAttribute");
    k.shared_bytes = config.shared_bytes;
  }
  CUlaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (config.dependent) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[count++].value.programmaticStreamSerializationAllowed = 1;
  }
  if (config.cooperative) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attributes[count++].value.cooperative = 1;
  }
  CUlaunchConfig launch{};
  launch.gridDimX = config.grid;
  launch.gridDimY = launch.gridDimZ = 1;
  launch.blockDimX = config.block;
  launch.blockDimY = launch.blockDimZ = 1;
  launch.sharedMemBytes = unsigned(config.shared_bytes);
  launch.hStream = stream;
  launch.attrs = attributes;
  launch.numAttrs = count;
  void* arguments[] = {const_cast<void*>(params)};
  check(driver().launch_kernel_ex(&launch, k.function, arguments, nullptr), "cuLaunchKernelEx");
}

void CudaMachine::crowd() {
  if (!crowd_stream_) {
    check(driver().stream_create(&crowd_stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    check(driver().mem_alloc(&crowd_buffer_, kCrowdBytes), "cuMemAlloc");
  }
  const auto variant = std::find_if(std::begin(kVariants), std::end(kVariants),
                                    [](const Variant& v) { return v.kind == KernelKind::generate_weights; });
  GenerateWeightsParams params;
  params.codes = reinterpret_cast<std::uint8_t*>(crowd_buffer_);
  params.stride = params.columns = std::int64_t(kCrowdBytes);
  params.rows = 1;
  for (int i = 0; i < kCrowdLaunches; ++i)
    launch_on(crowd_stream_, variant->index, {unsigned(sms_), unsigned(variant->threads), 0, false, false},
              &params, sizeof params);
}

void CudaMachine::synchronize() {
  check(driver().stream_synchronize(stream_), "a kernel");
  if (crowd_stream_) check(driver().stream_synchronize(crowd_stream_), "the kernel beside");
}

std::vector<std::uint8_t> CudaMachine::read_guards() {
  const std::size_t bytes = 2 * kGuardBytes * buffers_.size();
  if (bytes > guards_bytes_) {
    if (guards_) check(driver().mem_free(guards_), "cuMemFree");
    guards_ = 0, guards_bytes_ = 0;
    check(driver().mem_alloc(&guards_, bytes), "cuMemAlloc");
    guards_bytes_ = bytes;
  }
  CUdeviceptr to = guards_;
  const auto gather = [&](CUdeviceptr guard) {
    check(driver().memcpy_dtod_async(to, guard, kGuardBytes, stream_), "cuMemcpyDtoDAsync");
    to += kGuardBytes;
  };
  for (const auto& [address, buffer] : buffers_) gather(buffer.raw), gather(address + buffer.bytes);
  std::vector<std::uint8_t> guards(bytes);
  download(guards.data(), guards_, bytes);
  return guards;
}

std::vector<std::string> CudaMachine::take_reports() {
  std::vector<std::string> reports;
  const std::vector<std::uint8_t> guards = read_guards();
  auto guard = guards.begin();
  const auto next_is_whole = [&] {
    const auto begin = guard;
    guard += std::ptrdiff_t(kGuardBytes);
    return std::all_of(begin, guard, [](std::uint8_t b) { return b == kGuardByte; });
  };
  for (const auto& [address, buffer] : buffers_) {
    if (!next_is_whole()) reports.push_back(fmt::format("write in front of buffer '{}'", buffer.name));
    if (!next_is_whole()) reports.push_back(fmt::format("write past the end of buffer '{}'", buffer.name));
  }
  return reports;
}

int CudaMachine::record(const std::function<void()>& body) {
  for (const CubinImage& image : images_)
    kernel(image.variant);  // no module is loaded while a stream is captured
  check(driver().stream_begin_capture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture");
  body();
  CUgraph graph = nullptr;
  check(driver().stream_end_capture(stream_, &graph), "cuStreamEndCapture");
  CUgraphExec executable = nullptr;
  check(driver().graph_instantiate(&executable, graph, 0), "cuGraphInstantiate");
  driver().graph_destroy(graph);
  graphs_.push_back(executable);
  return int(graphs_.size()) - 1;
}

void CudaMachine::replay(int graph) {
  check(driver().graph_launch(graphs_.at(std::size_t(graph)), stream_), "cuGraphLaunch");
}

double CudaMachine::time_of(const std::function<void()>& body) {
  check(driver().event_record(start_, stream_), "cuEventRecord");
  body();
  check(driver().event_record(stop_, stream_), "cuEventRecord");
  check(driver().event_synchronize(stop_), "a timed kernel");
  float milliseconds = 0;
  check(driver().event_elapsed_time(&milliseconds, start_, stop_), "cuEventElapsedTime");
  return double(milliseconds) * 1e-3;
}

std::function<double()> CudaMachine::clock_reader() {
  const ManagedCard card(bus_id_);
  if (!card.sm_clock_hz()) return {};
  return [card] { return card.sm_clock_hz().value_or(0); };
}

void CudaMachine::flush_l2() {
  const std::size_t bytes = 4 * l2_bytes_;
  if (!flush_buffer_) check(driver().mem_alloc(&flush_buffer_, bytes), "cuMemAlloc");
  fill(flush_buffer_, 0, bytes);
}

}  // namespace moe::device
