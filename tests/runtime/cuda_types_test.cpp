// Our declarations of the driver interface against cuda.h.
#include "runtime/cuda_types.h"

#include <cuda.h>
#include <gtest/gtest.h>

namespace anydim::runtime::cuda {
namespace {

static_assert(sizeof(LaunchConfiguration) == sizeof(CUlaunchConfig));
static_assert(offsetof(LaunchConfiguration, shared_bytes) ==
              offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(LaunchConfiguration, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfiguration, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(LaunchConfiguration, attribute_count) == offsetof(CUlaunchConfig, numAttrs));
static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(offsetof(CUlaunchAttributeValue, clusterDim) == 0 &&
              offsetof(CUlaunchAttributeValue, programmaticStreamSerializationAllowed) == 0);
static_assert(sizeof(RowCopy) == sizeof(CUDA_MEMCPY2D) &&
              offsetof(RowCopy, source) == offsetof(CUDA_MEMCPY2D, srcDevice) &&
              offsetof(RowCopy, source_stride) == offsetof(CUDA_MEMCPY2D, srcPitch) &&
              offsetof(RowCopy, target_kind) == offsetof(CUDA_MEMCPY2D, dstMemoryType) &&
              offsetof(RowCopy, target) == offsetof(CUDA_MEMCPY2D, dstDevice) &&
              offsetof(RowCopy, target_stride) == offsetof(CUDA_MEMCPY2D, dstPitch) &&
              offsetof(RowCopy, bytes) == offsetof(CUDA_MEMCPY2D, WidthInBytes) &&
              offsetof(RowCopy, rows) == offsetof(CUDA_MEMCPY2D, Height));
static_assert(sizeof(KernelNode) == sizeof(CUDA_KERNEL_NODE_PARAMS) &&
              offsetof(KernelNode, shared_bytes) ==
                  offsetof(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes) &&
              offsetof(KernelNode, parameters) == offsetof(CUDA_KERNEL_NODE_PARAMS, kernelParams) &&
              offsetof(KernelNode, kernel) == offsetof(CUDA_KERNEL_NODE_PARAMS, kern) &&
              offsetof(KernelNode, context) == offsetof(CUDA_KERNEL_NODE_PARAMS, ctx));
static_assert(sizeof(TensorMapBytes) == sizeof(CUtensorMap) &&
              alignof(TensorMapBytes) == alignof(CUtensorMap));
static_assert(sizeof(Address) == sizeof(CUdeviceptr) && sizeof(DeviceNumber) == sizeof(CUdevice) &&
              sizeof(Result) == sizeof(CUresult));

TEST(CudaTypes, NumbersAreThoseOfTheHeader) {
  EXPECT_EQ(host_memory_mapped, unsigned{CU_MEMHOSTALLOC_DEVICEMAP});
  EXPECT_EQ(unsigned{device_memory_kind}, unsigned{CU_MEMORYTYPE_DEVICE});
  EXPECT_EQ(unsigned{host_memory_kind}, unsigned{CU_MEMORYTYPE_HOST});
  EXPECT_EQ(int{pointer_context}, int{CU_POINTER_ATTRIBUTE_CONTEXT});
  EXPECT_EQ(int{pointer_memory_kind}, int{CU_POINTER_ATTRIBUTE_MEMORY_TYPE});
  EXPECT_EQ(int{pointer_device}, int{CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL});
  EXPECT_EQ(int{pointer_range_start}, int{CU_POINTER_ATTRIBUTE_RANGE_START_ADDR});
  EXPECT_EQ(int{pointer_range_bytes}, int{CU_POINTER_ATTRIBUTE_RANGE_SIZE});
  EXPECT_EQ(event_without_time, unsigned{CU_EVENT_DISABLE_TIMING});
  EXPECT_EQ(not_capturing, CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(no_device, CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(invalid_image, CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(no_binary_for_device, CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(invalid_ptx, CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(unsupported_ptx_version, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_EQ(not_found, CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(not_ready, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(launch_out_of_resources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_EQ(contained_fault, CUDA_ERROR_CONTAINED);
  EXPECT_EQ(illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(launch_timeout, CUDA_ERROR_LAUNCH_TIMEOUT);
  EXPECT_EQ(assertion, CUDA_ERROR_ASSERT);
  EXPECT_EQ(hardware_stack_error, CUDA_ERROR_HARDWARE_STACK_ERROR);
  EXPECT_EQ(illegal_instruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
  EXPECT_EQ(misaligned_address, CUDA_ERROR_MISALIGNED_ADDRESS);
  EXPECT_EQ(invalid_address_space, CUDA_ERROR_INVALID_ADDRESS_SPACE);
  EXPECT_EQ(invalid_program_counter, CUDA_ERROR_INVALID_PC);
  EXPECT_EQ(launch_failed, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(uncorrectable_memory_error, CUDA_ERROR_ECC_UNCORRECTABLE);
  EXPECT_EQ(unknown_fault, CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(int{max_shared_bytes_per_block},
            int{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN});
  EXPECT_EQ(int{max_shared_bytes_per_multiprocessor},
            int{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR});
  EXPECT_EQ(int{multiprocessor_count}, int{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT});
  EXPECT_EQ(int{l2_cache_bytes}, int{CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE});
  EXPECT_EQ(int{clock_rate_khz}, int{CU_DEVICE_ATTRIBUTE_CLOCK_RATE});
  EXPECT_EQ(int{max_threads_per_multiprocessor},
            int{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR});
  EXPECT_EQ(int{max_blocks_per_multiprocessor},
            int{CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR});
  EXPECT_EQ(int{max_registers_per_multiprocessor},
            int{CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR});
  EXPECT_EQ(int{memory_clock_rate_khz}, int{CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE});
  EXPECT_EQ(int{memory_bus_width_bits}, int{CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH});
  EXPECT_EQ(int{compute_capability_major}, int{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR});
  EXPECT_EQ(int{compute_capability_minor}, int{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR});
  EXPECT_EQ(int{max_threads_per_block}, int{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK});
  EXPECT_EQ(int{max_registers_per_block}, int{CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK});
  EXPECT_EQ(int{memory_pools_supported}, int{CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED});
  EXPECT_EQ(int{function_max_threads}, int{CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK});
  EXPECT_EQ(int{local_bytes}, int{CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES});
  EXPECT_EQ(int{registers}, int{CU_FUNC_ATTRIBUTE_NUM_REGS});
  EXPECT_EQ(int{dynamic_shared_bytes}, int{CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES});
  EXPECT_EQ(int{non_portable_cluster_size},
            int{CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED});
  EXPECT_EQ(stream_non_blocking, unsigned{CU_STREAM_NON_BLOCKING});
  EXPECT_EQ(capture_thread_local, int{CU_STREAM_CAPTURE_MODE_THREAD_LOCAL});
  EXPECT_EQ(int{cluster_dimension}, int{CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION});
  EXPECT_EQ(int{programmatic_stream_serialization},
            int{CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION});
  EXPECT_EQ(int{map_u8}, int{CU_TENSOR_MAP_DATA_TYPE_UINT8});
  EXPECT_EQ(int{map_f16}, int{CU_TENSOR_MAP_DATA_TYPE_FLOAT16});
  EXPECT_EQ(int{map_f32}, int{CU_TENSOR_MAP_DATA_TYPE_FLOAT32});
  EXPECT_EQ(int{map_f64}, int{CU_TENSOR_MAP_DATA_TYPE_FLOAT64});
  EXPECT_EQ(int{map_bf16}, int{CU_TENSOR_MAP_DATA_TYPE_BFLOAT16});
  EXPECT_EQ(int{map_swizzle_128}, int{CU_TENSOR_MAP_SWIZZLE_128B});
  EXPECT_EQ(map_promotion_256, int{CU_TENSOR_MAP_L2_PROMOTION_L2_256B});
}

}  // namespace
}  // namespace anydim::runtime::cuda
