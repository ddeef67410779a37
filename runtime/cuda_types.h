// The CUDA driver interface as far as it is used here, declared by ourselves: nothing of CUDA's is
// needed to build. Names, layouts and numbers are those of cuda.h (tests/runtime compares them
// where a toolkit is installed).
#pragma once

#include <cstddef>
#include <cstdint>

namespace anydim::runtime::cuda {

using Result = int;
using DeviceNumber = int;
using Address = std::uint64_t;  // of device memory
using Context = struct ContextObject*;
using Module = struct ModuleObject*;
using Function = struct FunctionObject*;
using Stream = struct StreamObject*;
using Event = struct EventObject*;
using Graph = struct GraphObject*;
using GraphNode = struct GraphNodeObject*;
using GraphExecutable = struct GraphExecutableObject*;

// ---- Results ----
inline constexpr Result success = 0, invalid_value = 1, out_of_memory = 2, no_device = 100,
                        invalid_image = 200, no_binary_for_device = 209, invalid_ptx = 218,
                        unsupported_ptx_version = 222, not_found = 500, not_ready = 600,
                        launch_out_of_resources = 701;
// These end the context: every later call on it fails.
inline constexpr Result contained_fault = 226, illegal_address = 700, launch_timeout = 702,
                        assertion = 710, hardware_stack_error = 714, illegal_instruction = 715,
                        misaligned_address = 716, invalid_address_space = 717,
                        invalid_program_counter = 718, launch_failed = 719,
                        uncorrectable_memory_error = 214, unknown_fault = 999;

// ---- Attributes ----
enum DeviceAttribute : int {
  max_threads_per_block = 1,
  max_registers_per_block = 12,
  clock_rate_khz = 13,
  multiprocessor_count = 16,
  memory_clock_rate_khz = 36,
  memory_bus_width_bits = 37,
  l2_cache_bytes = 38,
  max_threads_per_multiprocessor = 39,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  max_shared_bytes_per_multiprocessor = 81,
  max_registers_per_multiprocessor = 82,
  max_shared_bytes_per_block = 97,  // with permission, see dynamic_shared_bytes
  max_blocks_per_multiprocessor = 106,
  memory_pools_supported = 115,
};
enum FunctionAttribute : int {
  function_max_threads = 0,
  local_bytes = 3,
  registers = 4,
  dynamic_shared_bytes = 8,       // settable; needed above 48 KB
  non_portable_cluster_size = 14  // settable; needed above 8 blocks
};
inline constexpr unsigned host_memory_mapped = 2;
inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned event_default = 0, event_without_time = 2;
inline constexpr int capture_thread_local = 1, not_capturing = 0;
enum PointerAttribute : int {
  pointer_context = 1,  // null for memory of a pool
  pointer_memory_kind = 2,
  pointer_device = 9,
  pointer_range_start = 11,
  pointer_range_bytes = 12,
};

// ---- Launches ----
enum LaunchAttributeName : int { cluster_dimension = 4, programmatic_stream_serialization = 6 };
union LaunchAttributeValue {
  char bytes[64];
  struct {
    unsigned x, y, z;
  } cluster;
  int programmatic_serialization;
};
struct LaunchAttribute {
  LaunchAttributeName name;
  char padding[8 - sizeof(LaunchAttributeName)];
  LaunchAttributeValue value;
};
struct LaunchConfiguration {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

// CUDA_KERNEL_NODE_PARAMS: a launch of an executable graph; its attributes stay as captured.
struct KernelNode {
  Function function = nullptr;
  unsigned grid_x = 0, grid_y = 0, grid_z = 0;
  unsigned block_x = 0, block_y = 0, block_z = 0;
  unsigned shared_bytes = 0;
  void** parameters = nullptr;
  void** extra = nullptr;
  void* kernel = nullptr;  // read without a function only, as is the context
  Context context = nullptr;
};

// ---- Copies ----
enum MemoryKind : unsigned { host_memory_kind = 1, device_memory_kind = 2 };
// What drivers report as CU_DEVICE_ATTRIBUTE_MAX_PITCH.
inline constexpr std::size_t longest_row_stride = 2147483647;
// CUDA_MEMCPY2D: `rows` pieces of `bytes` bytes, so far apart.
struct RowCopy {
  std::size_t source_x = 0, source_y = 0;
  MemoryKind source_kind{};
  const void* source_host = nullptr;
  Address source = 0;
  void* source_array = nullptr;
  std::size_t source_stride = 0;
  std::size_t target_x = 0, target_y = 0;
  MemoryKind target_kind{};
  void* target_host = nullptr;
  Address target = 0;
  void* target_array = nullptr;
  std::size_t target_stride = 0;
  std::size_t bytes = 0, rows = 0;
};

// ---- Tensor maps ----
struct alignas(128) TensorMapBytes {
  std::uint64_t words[16];
};
enum TensorMapType : int {
  map_u8 = 0,
  map_u16,
  map_u32,
  map_i32,
  map_u64,
  map_i64,
  map_f16,
  map_f32,
  map_f64,
  map_bf16
};
inline constexpr int map_interleave_none = 0, map_promotion_256 = 3, map_fill_zeros = 0;
enum TensorMapSwizzle : int {
  map_swizzle_none = 0,
  map_swizzle_32,
  map_swizzle_64,
  map_swizzle_128
};

}  // namespace anydim::runtime::cuda
