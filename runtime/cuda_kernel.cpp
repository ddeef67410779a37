#include "runtime/cuda_kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "ir/error.h"
#include "ir/region.h"

namespace anydim::runtime::cuda {

namespace {

constexpr std::int64_t shared_without_permission = 48 * 1024;
constexpr int portable_cluster_blocks = 8;
constexpr std::int64_t largest_grid[3] = {std::numeric_limits<std::int32_t>::max(), 65535, 65535};
// Far more than the maps of one program at all its capacities; reached, the cache starts anew.
constexpr std::size_t most_tensor_maps = 4096;

template <typename Number>
std::int64_t product(const std::array<Number, 3>& extents) {
  return std::int64_t{extents[0]} * extents[1] * extents[2];
}

int map_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::F32: return map_f32;
    case ir::DType::F64: return map_f64;
    case ir::DType::F16: return map_f16;
    case ir::DType::BF16: return map_bf16;
    case ir::DType::I32: return map_i32;
    case ir::DType::U32: return map_u32;
    case ir::DType::I64: return map_i64;
    case ir::DType::U64: return map_u64;
    case ir::DType::I16:
    case ir::DType::U16: return map_u16;
    case ir::DType::I8:
    case ir::DType::U8:
    case ir::DType::Bool: return map_u8;
  }
  internal_error("a dtype is one of the enumerators");
}

int map_swizzle(std::int32_t bytes) {
  switch (bytes) {
    case 0: return map_swizzle_none;
    case 32: return map_swizzle_32;
    case 64: return map_swizzle_64;
    case 128: return map_swizzle_128;
    default: internal_error("a swizzle spans 0, 32, 64 or 128 bytes");
  }
}

ir::ShapeProgram size_program(const ir::Region& region, const ir::CompiledKernel& kernel) {
  std::vector<ir::Dim> expressions{kernel.scratch_bytes};
  for (const ir::DeviceLaunch& launch : kernel.cuda().launches) {
    expressions.insert(expressions.end(), launch.grid.begin(), launch.grid.end());
    for (const ir::TensorMap& map : launch.tensor_maps) {
      expressions.insert(expressions.end(), map.dims.begin(), map.dims.end());
      expressions.insert(expressions.end(), map.strides.begin(), map.strides.end());
    }
  }
  return ir::shapes_over(region, std::move(expressions));
}

}  // namespace

bool grows_with_leaves(const ir::Dim& dim) {
  using Kind = ir::Dim::Kind;
  const auto all_grow = [](const std::vector<ir::Dim>& dims) {
    return std::ranges::all_of(dims, grows_with_leaves);
  };
  // Everything accepted is also never negative, which products and quotients need.
  switch (dim.kind()) {
    case Kind::Constant: return dim.constant_part() >= 0;
    case Kind::Symbol: return true;
    case Kind::Sum:
      return dim.constant_part() >= 0 &&
             std::ranges::all_of(dim.terms(), [&](const ir::Dim::Term& term) {
               return term.coefficient >= 0 && all_grow(term.factors);
             });
    case Kind::FloorDiv: {
      const auto divisor = dim.operands()[1].constant();
      return divisor && *divisor > 0 && grows_with_leaves(dim.operands()[0]);
    }
    case Kind::Min:
    case Kind::Max: return all_grow(dim.operands());
    case Kind::Value:
    case Kind::Mod:
    case Kind::Select:
    case Kind::Broadcast: return false;
  }
  internal_error("a dim's kind is one of the enumerators");
}

CudaKernel::CudaKernel(std::shared_ptr<DeviceContext> context, const ir::Region& region,
                       const ir::DispatchTable::Entry& entry, const ir::CompiledKernel& kernel,
                       std::optional<KernelTrial> trial, std::shared_ptr<const CublasLt> library)
    : context_(std::move(context)), library_(std::move(library)),
      name_(fmt::format("region {}, schedule {}", region.name, to_string(entry.schedule))),
      symbols_(region.body.symbols.names()), launches_(kernel.cuda().launches),
      sizes_(size_program(region, kernel)) {
  const Driver& driver = context_->driver();
  const Properties& device = context_->properties();
  const auto refuse = [&](const std::string& why) {
    return Error(ErrorKind::Resource, "{}: {} ({})", name_, why, device.name);
  };
  internal_check(!launches_.empty(), "a kernel for CUDA has launches");
  if (trial) {
    checked_form_ = std::make_unique<const CudaKernel>(context_, region, entry, trial->checked_form,
                                                       std::nullopt);
    passed_ = std::move(trial->passed);
    const bool alike = std::ranges::equal(launches_, checked_form_->launches_,
                                          [](ir::DeviceLaunch mine, const ir::DeviceLaunch& other) {
                                            mine.shared_bytes = other.shared_bytes;
                                            return mine == other;
                                          });
    internal_check(alike,
                   "a kernel's checked form has the same launches but for their shared memory");
  }
  waits_ = kernel.cuda().waits;
  size_count_ = size_program(region, kernel).expressions.size();
  grids_grow_ = grows_with_leaves(kernel.scratch_bytes);
  for (const ir::DeviceLaunch& launch : launches_) {
    const std::int64_t threads = product(launch.block);
    if (threads > device.threads_per_block)
      throw refuse(fmt::format("the schedule wants {} threads a block, the GPU has at most {}",
                               threads, device.threads_per_block));
    if (launch.shared_bytes > device.shared_per_block) {
      throw refuse(fmt::format(
          "the schedule wants {} bytes of shared memory a block, the GPU has at most {}",
          launch.shared_bytes, device.shared_per_block));
    }
    grids_grow_ = grids_grow_ && std::ranges::all_of(launch.grid, grows_with_leaves);
  }
  internal_check(library_ != nullptr || !wants_library(kernel),
                 "products for the library come with it");
  functions_.resize(launches_.size());
  if (std::ranges::all_of(
          launches_, [](const ir::DeviceLaunch& launch) { return launch.product.has_value(); }))
    return;

  context_->enter();
  std::vector<std::byte> image = kernel.code;
  image.push_back(std::byte{0});  // PTX is text that ends with a zero; a cubin knows its length
  switch (const Result result = driver.module_load(&module_, image.data())) {
    case success: break;
    case invalid_image:
    case no_binary_for_device:
    case invalid_ptx:
    case unsupported_ptx_version:
      throw refuse(
          fmt::format("the driver (CUDA {}) does not accept the compiled kernel, {}; a driver as "
                      "new as the NVRTC library, or an older NVRTC library, helps",
                      version_text(device.driver_version), cuda::describe(driver, result)));
    default: context_->fail(result, fmt::format("loading the kernel of {}", name_));
  }
  try {
    for (std::size_t i = 0; i < launches_.size(); ++i) {
      const ir::DeviceLaunch& launch = launches_[i];
      if (launch.product) continue;
      Function& function = functions_[i];
      context_->check(driver.module_function(&function, module_, launch.entry.c_str()),
                      fmt::format("{}: entry {}", name_, launch.entry));
      int registers_used = 0;
      context_->check(driver.function_attribute(&registers_used, registers, function), name_);
      if (registers_used * product(launch.block) > device.registers_per_block) {
        throw refuse(fmt::format("{} threads of {} registers each are more than a block may hold",
                                 product(launch.block), registers_used));
      }
      if (launch.shared_bytes > shared_without_permission) {
        context_->check(driver.set_function_attribute(function, dynamic_shared_bytes,
                                                      static_cast<int>(launch.shared_bytes)),
                        fmt::format("{}: {} bytes of shared memory", name_, launch.shared_bytes));
      }
      if (product(launch.cluster) > portable_cluster_blocks) {
        context_->check(driver.set_function_attribute(function, non_portable_cluster_size, 1),
                        fmt::format("{}: clusters of {} blocks", name_, product(launch.cluster)));
      }
    }
  } catch (...) {
    driver.module_unload(module_);
    throw;
  }
}

CudaKernel::~CudaKernel() {
  if (module_ == nullptr || !context_->enter_quietly()) return;
  context_->driver().module_unload(module_);
}

void CudaKernel::set_proven() const {
  std::call_once(told_, [this] {
    if (passed_) passed_();
  });
  proven_.store(true, std::memory_order_release);
}

CudaKernel::Sizes CudaKernel::sizes(std::span<const std::int64_t> extents) const {
  std::vector<std::int64_t> values(size_count_);
  const auto too_large = [&] {
    return Error(ErrorKind::Inputs,
                 "{}: the work is too large to count or to launch for these inputs",
                 describe(extents));
  };
  if (sizes_.run(extents, values) >= 0) throw too_large();
  Sizes sizes;
  auto next = values.begin();
  sizes.workspace_bytes = *next++;
  for (const ir::DeviceLaunch& launch : launches_) {
    std::array<std::int64_t, 3> grid{};
    std::copy_n(next, 3, grid.begin());
    next += 3;
    if (std::ranges::find_if(grid, [](std::int64_t blocks) { return blocks <= 0; }) != grid.end())
      grid = {0, 0, 0};
    for (std::size_t axis = 0; axis < 3; ++axis)
      if (grid[axis] > largest_grid[axis]) throw too_large();
    sizes.grids.push_back(grid);
    for (const ir::TensorMap& map : launch.tensor_maps) {
      const auto end = next + static_cast<std::ptrdiff_t>(map.dims.size() + map.strides.size());
      sizes.map_values.emplace_back(next, end);
      next = end;
    }
  }
  return sizes;
}

std::int64_t CudaKernel::blocks(const Sizes& sizes) {
  std::int64_t total = 0;
  for (const auto& grid : sizes.grids) total += product(grid);
  return total;
}

CublasLt::Algorithm CudaKernel::algorithm(const LibraryProduct& product) const {
  constexpr std::size_t most = 4096;
  const std::lock_guard lock(algorithms_mutex_);
  if (const auto found = algorithms_.find(product.m); found != algorithms_.end())
    return found->second;
  if (algorithms_.size() >= most) algorithms_.clear();
  return algorithms_.emplace(product.m, library_->algorithms(product, 1).front()).first->second;
}

std::string CudaKernel::describe(std::span<const std::int64_t> extents) const {
  std::string text = name_;
  for (std::size_t i = 0; i < std::min(symbols_.size(), extents.size()); ++i)
    text += fmt::format(", {} = {}", symbols_[i], extents[i]);
  return text;
}

std::string describe_wait(const ir::KernelError& error) {
  const auto bits = [&](int from, int count) {
    return error.value >> from & ((std::int64_t{1} << count) - 1);
  };
  return fmt::format("block {}, thread {}, barrier {}, parity {}, iteration {}", bits(40, 23),
                     bits(28, 12), bits(20, 8), bits(19, 1), bits(0, 19));
}

bool wants_library(const ir::CompiledKernel& kernel) {
  return std::ranges::any_of(kernel.cuda().launches, [](const ir::DeviceLaunch& launch) {
    return launch.product.has_value();
  });
}

const TensorMapBytes& TensorMapCache::encode(const ir::TensorMap& map, Address base,
                                             std::span<const std::int64_t> values,
                                             const CudaKernel& kernel) {
  const std::size_t rank = map.dims.size();
  std::vector<std::int64_t> key{static_cast<std::int64_t>(base),
                                static_cast<std::int64_t>(map.dtype), map.swizzle_bytes};
  key.insert(key.end(), values.begin(), values.end());
  key.insert(key.end(), map.box.begin(), map.box.end());
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  if (known_.size() >= most_tensor_maps) known_.clear();

  std::vector<std::uint64_t> dims(rank), strides(rank - 1);
  // An empty dim cannot be described and is never read.
  for (std::size_t i = 0; i < rank; ++i)
    dims[i] = static_cast<std::uint64_t>(std::max<std::int64_t>(values[i], 1));
  for (std::size_t i = 0; i + 1 < rank; ++i)
    strides[i] = static_cast<std::uint64_t>(values[rank + i]);
  const std::vector<unsigned> box(map.box.begin(), map.box.end()), steps(rank, 1);
  TensorMapBytes encoded{};
  const Result result = context_->driver().encode_tensor_map(
      &encoded, map_type(map.dtype), static_cast<unsigned>(rank), reinterpret_cast<void*>(base),
      dims.data(), strides.data(), box.data(), steps.data(), map_interleave_none,
      map_swizzle(map.swizzle_bytes), map_promotion_256, map_fill_zeros);
  context_->check(result, fmt::format("{}: describing a tensor of dims [{}] at {:#x} to the GPU",
                                      kernel.describe({}), fmt::join(dims, ", "), base));
  return known_.emplace(std::move(key), encoded).first->second;
}

PreparedLaunch::PreparedLaunch(const CudaKernel& kernel, std::size_t index, std::size_t first_map,
                               const CudaKernel::Sizes& sizes, const Places& places,
                               TensorMapCache& maps)
    : kernel_(&kernel), index_(index) {
  const ir::DeviceLaunch& launch = kernel.launches()[index];
  const auto& grid = sizes.grids[index];
  if (launch.product) {
    const ir::LibraryProduct& wanted = *launch.product;
    const auto place = [&](std::int32_t buffer) {
      return buffer < 0 ? Address{0} : places.buffers[static_cast<std::size_t>(buffer)];
    };
    const LibraryProduct shape{.m = grid[0],
                               .n = wanted.n,
                               .k = wanted.k,
                               .dtype = wanted.dtype,
                               .bias = wanted.bias >= 0,
                               .w_by_columns = wanted.w_by_columns,
                               .activation = wanted.activation,
                               .tf32 = wanted.tf32};
    product_ = {
        kernel.library(),
        shape,
        {place(wanted.x), place(wanted.w), place(wanted.bias), place(wanted.d), places.workspace},
        kernel.algorithm(shape)};
    return;
  }
  configuration_.grid_x = static_cast<unsigned>(grid[0]);
  configuration_.grid_y = static_cast<unsigned>(grid[1]);
  configuration_.grid_z = static_cast<unsigned>(grid[2]);
  configuration_.block_x = static_cast<unsigned>(launch.block[0]);
  configuration_.block_y = static_cast<unsigned>(launch.block[1]);
  configuration_.block_z = static_cast<unsigned>(launch.block[2]);
  configuration_.shared_bytes = static_cast<unsigned>(launch.shared_bytes);
  cluster_ = launch.cluster;
  dependent_ = launch.dependent;
  words_.assign(places.buffers.begin(), places.buffers.end());
  words_.insert(words_.end(), {places.extents, places.error, places.workspace});
  for (std::size_t m = 0; m < launch.tensor_maps.size(); ++m) {
    const ir::TensorMap& map = launch.tensor_maps[m];
    const Address base =
        map.buffer < 0 ? places.workspace : places.buffers[static_cast<std::size_t>(map.buffer)];
    maps_.push_back(maps.encode(map, base, sizes.map_values[first_map + m], kernel));
  }
  for (Address& word : words_) parameters_.push_back(&word);
  for (TensorMapBytes& map : maps_) parameters_.push_back(&map);
}

Result PreparedLaunch::issue(const Driver& driver, Stream stream, bool behind_kernel) {
  if (product_) {
    product_->library->enqueue(product_->shape, product_->operands, product_->algorithm, stream);
    return success;
  }
  return start(driver, stream, dependent_ && behind_kernel, kernel_->function(index_));
}

Result PreparedLaunch::issue_checked(const Driver& driver, Stream stream) {
  const CudaKernel& checked_form = *kernel_->checked_form();
  configuration_.shared_bytes = static_cast<unsigned>(checked_form.launches()[index_].shared_bytes);
  const Result result = start(driver, stream, false, checked_form.function(index_));
  configuration_.shared_bytes = static_cast<unsigned>(kernel_->launches()[index_].shared_bytes);
  return result;
}

bool PreparedLaunch::fixes(std::int32_t buffer) const {
  const ir::DeviceLaunch& launch = kernel_->launches()[index_];
  if (launch.product) {
    const ir::LibraryProduct& product = *launch.product;
    return buffer == product.x || buffer == product.w || buffer == product.bias ||
           buffer == product.d;
  }
  return std::ranges::any_of(launch.tensor_maps,
                             [&](const ir::TensorMap& map) { return map.buffer == buffer; });
}

Result PreparedLaunch::update(const Driver& driver, GraphExecutable graph) {
  if (product_) return success;
  if (node_ == nullptr) return invalid_value;
  const KernelNode kernel{.function = kernel_->function(index_),
                          .grid_x = configuration_.grid_x,
                          .grid_y = configuration_.grid_y,
                          .grid_z = configuration_.grid_z,
                          .block_x = configuration_.block_x,
                          .block_y = configuration_.block_y,
                          .block_z = configuration_.block_z,
                          .shared_bytes = configuration_.shared_bytes,
                          .parameters = parameters_.data()};
  return driver.graph_set_kernel(graph, node_, &kernel);
}

Result PreparedLaunch::start(const Driver& driver, Stream stream, bool early, Function function) {
  LaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (product(cluster_) > 1) {
    LaunchAttribute& attribute = attributes[count++];
    attribute.name = cluster_dimension;
    attribute.value.cluster = {static_cast<unsigned>(cluster_[0]),
                               static_cast<unsigned>(cluster_[1]),
                               static_cast<unsigned>(cluster_[2])};
  }
  if (early) {
    LaunchAttribute& attribute = attributes[count++];
    attribute.name = programmatic_stream_serialization;
    attribute.value.programmatic_serialization = 1;
  }
  configuration_.stream = stream;
  configuration_.attributes = attributes;
  configuration_.attribute_count = count;
  return driver.launch(&configuration_, function, parameters_.data(), nullptr);
}

std::vector<PreparedLaunch> prepare(const CudaKernel& kernel, const CudaKernel::Sizes& sizes,
                                    const PreparedLaunch::Places& places, TensorMapCache& maps) {
  std::vector<PreparedLaunch> prepared;
  std::size_t first_map = 0;
  for (std::size_t i = 0; i < kernel.launches().size(); ++i) {
    if (product(sizes.grids[i]) > 0)
      prepared.emplace_back(kernel, i, first_map, sizes, places, maps);
    first_map += kernel.launches()[i].tensor_maps.size();
  }
  return prepared;
}

}  // namespace anydim::runtime::cuda
