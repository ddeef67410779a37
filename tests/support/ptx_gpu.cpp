#include "tests/support/ptx_gpu.h"

#include <cstring>

#include "ir/error.h"
#include "tests/ptx/program.h"
#include "tests/ptx/units/tensor_map.h"

namespace anydim::tests {

namespace cuda = runtime::cuda;

namespace {

const ptx::Module& module_of(const std::shared_ptr<void>& module) {
  return *static_cast<ptx::Module*>(module.get());
}

ir::DType map_dtype(int type) {
  switch (type) {
    case cuda::map_u8: return ir::DType::U8;
    case cuda::map_u16: return ir::DType::U16;
    case cuda::map_u32: return ir::DType::U32;
    case cuda::map_i32: return ir::DType::I32;
    case cuda::map_u64: return ir::DType::U64;
    case cuda::map_i64: return ir::DType::I64;
    case cuda::map_f16: return ir::DType::F16;
    case cuda::map_f32: return ir::DType::F32;
    case cuda::map_f64: return ir::DType::F64;
    case cuda::map_bf16: return ir::DType::BF16;
    default:
      throw Error(ErrorKind::Inputs,
                  "a tensor map has one of the element types that runtime knows");
  }
}

int swizzle_bytes(int swizzle) { return swizzle == cuda::map_swizzle_none ? 0 : 16 << swizzle; }

}  // namespace

PtxGpu::PtxGpu(ptx::MachineOptions options) : machine_(std::move(options)) {
  machine_.options().check_overlap = true;
}
PtxGpu::~PtxGpu() = default;

Address PtxGpu::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  return machine_.allocate(bytes);
}

void PtxGpu::free(Address address) {
  const std::lock_guard lock(mutex_);
  machine_.free(address);
}

bool PtxGpu::write(Address address, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  try {
    machine_.write(address, bytes);
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool PtxGpu::read(Address address, std::span<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  try {
    machine_.read(address, bytes);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::shared_ptr<void> PtxGpu::load(const void* image) {
  return std::make_shared<ptx::Module>(ptx::parse_ptx(static_cast<const char*>(image)));
}

std::vector<std::size_t> PtxGpu::parameters(const std::shared_ptr<void>& module,
                                            const std::string& entry) {
  const ptx::Function* function = module_of(module).program->entry(entry);
  if (function == nullptr) return {};
  std::vector<std::size_t> bytes;
  for (const ptx::Parameter& parameter : function->parameters) bytes.push_back(parameter.bytes);
  return bytes;
}

Result PtxGpu::launch(const std::shared_ptr<void>& module, const std::string& entry,
                      const Shape& shape, const std::vector<std::vector<std::byte>>& parameters) {
  const std::lock_guard lock(mutex_);
  const ptx::Function& function = *module_of(module).program->entry(entry);
  std::vector<std::byte> block(function.parameter_bytes);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    std::memcpy(block.data() + function.parameters[i].offset, parameters[i].data(),
                parameters[i].size());
  machine_.options().early = shape.early;
  const ptx::Report report =
      machine_.launch(module_of(module), entry,
                      {shape.grid, shape.block, shape.cluster, shape.shared_bytes}, block);
  if (report.ok()) return cuda::success;
  if (findings_.empty()) findings_ = report.text();
  return cuda::launch_failed;
}

Result PtxGpu::encode(cuda::TensorMapBytes& map, int type, Address base,
                      std::span<const std::uint64_t> dims, std::span<const std::uint64_t> strides,
                      std::span<const unsigned> box, int swizzle) {
  try {
    const auto bytes = ptx::encode_tensor_map({.dtype = map_dtype(type),
                                               .address = base,
                                               .dims = {dims.begin(), dims.end()},
                                               .strides = {strides.begin(), strides.end()},
                                               .box = {box.begin(), box.end()},
                                               .swizzle_bytes = swizzle_bytes(swizzle)});
    std::memcpy(&map, bytes.data(), bytes.size());
    return cuda::success;
  } catch (const Error&) {
    return cuda::invalid_value;
  }
}

}  // namespace anydim::tests
