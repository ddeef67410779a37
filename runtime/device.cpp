#include "runtime/device.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/shapes/bind.h"

namespace anydim::runtime {

ir::Tensor Device::foreign(ir::DType dtype, std::vector<std::int64_t> dims, void*,
                           std::shared_ptr<const void>) {
  throw Error(ErrorKind::Inputs,
              "a tensor {} in device memory was given to a model that runs on the CPU: "
              "expected a tensor in host memory",
              ir::shape_text(dtype, dims));
}

void MemoryBudget::spend(std::int64_t CallMemory::* part, std::int64_t bytes) {
  if (bytes < 0)
    throw Error(ErrorKind::Inputs, "a buffer's size comes out as {} bytes for these inputs", bytes);
  const std::int64_t total = used_.arena + used_.pool + used_.scratch + used_.outputs + bytes;
  if (!limit_ || total <= *limit_) {
    used_.*part += bytes;
    most_.*part = std::max(most_.*part, used_.*part);
  } else {
    throw Error(ErrorKind::Resource,
                "this call needs at least {} bytes for activations, scratch and outputs, over the "
                "memory limit of {} bytes; give smaller inputs or raise --memory-limit",
                total, *limit_);
  }
}

namespace {

const ir::KernelCheck& check_of(const ir::Program::Kernel& kernel, const ir::KernelError& error) {
  const auto position = static_cast<std::size_t>(error.check);
  internal_check(position < kernel.checks.size(), "a kernel reports one of its checks");
  return kernel.checks[position];
}

// The code, the entry's or a function's, that the launch is an instruction of.
const ir::Code& code_of(const ir::Program& program, const ir::Code::Launch& launch) {
  const auto has = [&](const ir::Code& code) {
    return std::ranges::any_of(code.instructions, [&](const auto& instruction) {
      return std::get_if<ir::Code::Launch>(&instruction) == &launch;
    });
  };
  const auto found = std::ranges::find_if(program.functions, has);
  internal_check(found != program.functions.end(), "a launch is an instruction of its program");
  return *found;
}

}  // namespace

std::int64_t value_in_region(const ir::Dim& dim, const ir::Region& region,
                             std::span<const std::int64_t> extents) {
  const std::vector<std::string>& symbols = region.body.symbols.names();
  return dim.evaluate([&](const ir::DimLeaf& leaf) {
    const auto found = std::ranges::find(symbols, leaf.symbol);
    internal_check(found != symbols.end(), "a kernel's dims are over its region's symbols");
    return extents[static_cast<std::size_t>(found - symbols.begin())];
  });
}

bool may_report(const ir::Program& program, const ir::Code::Launch& launch,
                std::span<const std::int64_t> extents, const ir::KernelError& error) {
  const ir::Program::Kernel& kernel = program.kernels[static_cast<std::size_t>(launch.kernel)];
  const ir::KernelCheck& check = check_of(kernel, error);
  if (check.kind != ir::KernelCheck::Kind::Index) return true;
  const std::int64_t extent = value_in_region(check.extent, kernel.region, extents);
  return error.value < -extent || error.value >= extent;
}

void report_check(const ir::Program& program, const ir::Code::Launch& launch,
                  std::span<const std::int64_t> extents, const ir::KernelError& error) {
  const ir::Program::Kernel& kernel = program.kernels[static_cast<std::size_t>(launch.kernel)];
  const ir::KernelCheck& check = check_of(kernel, error);
  const std::int64_t extent = value_in_region(check.extent, kernel.region, extents);
  // Without a node's name the kernel's first result says where.
  const std::size_t first_result = kernel.region.body.body.parameters.size();
  const std::string node =
      !check.source.empty() || first_result >= launch.buffers.size()
          ? fmt::format("'{}'", check.source)
          : "%" + code_of(program, launch)
                      .buffers[static_cast<std::size_t>(launch.buffers[first_result])]
                      .name;
  switch (check.kind) {
    case ir::KernelCheck::Kind::Index:
      throw Error(ErrorKind::Inputs, ir::index_out_of_range(check.what, node, error.value, extent));
    case ir::KernelCheck::Kind::Divisor:
      throw Error(ErrorKind::Inputs, ir::division_by_zero(check.what, node));
    case ir::KernelCheck::Kind::Offsets:
      throw Error(ErrorKind::Inputs, ir::offsets_misfit(check.what, node, extent, error.value));
    case ir::KernelCheck::Kind::Work:
      throw Error(ErrorKind::Inputs, ir::work_misfit(check.what, node, extent, error.value));
  }
  internal_error("a check is of one of four kinds");
}

std::int64_t appended_bytes(const ir::Code::Append& append, std::span<std::int64_t> slots) {
  const auto slot = [&](ir::Code::Slot position) -> std::int64_t& {
    return slots[static_cast<std::size_t>(position)];
  };
  const std::int64_t count = slot(append.counter);
  for (std::size_t i = 0; i < append.dims.size(); ++i) {
    const std::int64_t extent = slot(append.dims[i]);
    if (count == 0) slot(append.first[i]) = extent;
    if (slot(append.first[i]) == extent) continue;
    throw Error(
        ErrorKind::Inputs,
        "{}: dimension {} of a scanned value: expected {} as in the first iteration, got {}",
        append.source, i, slot(append.first[i]), extent);
  }
  std::int64_t needed = 0;
  if (__builtin_mul_overflow(slot(append.bytes), count + 1, &needed))
    throw Error(ErrorKind::Resource, "{}: a scanned result of {} elements of {} bytes is too large",
                append.source, count + 1, slot(append.bytes));
  return needed;
}

std::int64_t appended_room(const ir::Code::Append& append, std::span<const std::int64_t> slots,
                           std::int64_t needed, std::int64_t held) {
  const auto slot = [&](ir::Code::Slot position) {
    return slots[static_cast<std::size_t>(position)];
  };
  std::int64_t room = 0;
  if (append.expected < 0 ||
      __builtin_mul_overflow(slot(append.bytes), slot(append.expected), &room))
    room = slot(append.counter) == 0 ? needed : 2 * held;
  return std::max(room, needed);
}

std::vector<std::int64_t> output_dims(const ir::Code::Output& output,
                                      std::span<const std::int64_t> slots) {
  std::vector<std::int64_t> dims;
  dims.reserve(output.dims.size());
  for (const ir::Code::Slot slot : output.dims)
    dims.push_back(slots[static_cast<std::size_t>(slot)]);
  if (output.ones.empty()) return dims;
  std::vector<std::int64_t> ones;
  ones.reserve(output.ones.size());
  for (const ir::Code::Slot slot : output.ones)
    ones.push_back(slots[static_cast<std::size_t>(slot)]);
  return ir::without_ones(output.name, dims, ones);
}

}  // namespace anydim::runtime
