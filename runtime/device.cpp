#include "runtime/device.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"

namespace anydim::runtime {

void MemoryBudget::spend(std::int64_t CallMemory::* part, std::int64_t bytes) {
  if (bytes < 0) throw Error(ErrorKind::Inputs, fmt::format("a buffer's size comes out as {} bytes for these inputs", bytes));
  const std::int64_t total = used_.arena + used_.pool + used_.scratch + used_.outputs + bytes;
  if (!limit_ || total <= *limit_) {
    used_.*part += bytes;
    most_.*part = std::max(most_.*part, used_.*part);
  } else {
    throw Error(ErrorKind::Resource,
                fmt::format("this call needs at least {} bytes for activations, scratch and outputs, over the memory limit of {} "
                            "bytes; give smaller inputs or raise --memory-limit",
                            total, *limit_));
  }
}

namespace {

[[noreturn]] void refuse_control() {
  throw Error(ErrorKind::Unsupported, "this device runs straight programs only; if, loop, calls and lists run with --device cpu");
}

}  // namespace

void DeviceSession::step(const ir::Code::Instruction&, std::span<std::int64_t>) { refuse_control(); }
void DeviceSession::enter(const ir::Code&, std::int32_t, std::span<const std::int32_t>) { refuse_control(); }
void DeviceSession::leave(std::span<const std::int64_t>, std::span<const std::int32_t>) { refuse_control(); }
DeviceSession::FunctionValue DeviceSession::function_value(std::int32_t) const { refuse_control(); }

void report_check(const ir::Program& program, const ir::Program::Launch& launch, std::span<const std::int64_t> extents,
                  const ir::KernelError& error) {
  const ir::Program::Kernel& kernel = program.kernels[static_cast<std::size_t>(launch.kernel)];
  const auto position = static_cast<std::size_t>(error.check);
  internal_check(position < kernel.checks.size(), "a kernel reports one of its checks");
  const ir::KernelCheck& check = kernel.checks[position];
  const std::vector<std::string>& symbols = kernel.region.body.symbols.names();
  const std::int64_t extent = check.extent.evaluate([&](const ir::DimLeaf& leaf) {
    const auto found = std::ranges::find(symbols, leaf.symbol);
    internal_check(found != symbols.end(), "a check's extent is over its region's symbols");
    return extents[static_cast<std::size_t>(found - symbols.begin())];
  });
  const std::string what = fmt::format("{} of '{}'", check.what, check.source);
  switch (check.kind) {
    case ir::KernelCheck::Kind::Index:
      throw Error(ErrorKind::Inputs, fmt::format("{}: expected from {} to {}, got {}", what, -extent, extent - 1, error.value));
    case ir::KernelCheck::Kind::Divisor: throw Error(ErrorKind::Inputs, fmt::format("{}: the divisor is 0", what));
    case ir::KernelCheck::Kind::Offsets:
      throw Error(ErrorKind::Inputs,
                  fmt::format("{}: they must start with 0, never fall, and end with {}; the first that does not fit is {}", what, extent,
                              error.value));
  }
  internal_error("a check is of one of three kinds");
}

std::vector<std::int64_t> output_dims(const ir::Program::Output& output, std::span<const std::int64_t> slots) {
  std::vector<std::int64_t> dims;
  dims.reserve(output.dims.size());
  for (const ir::Program::Slot slot : output.dims) dims.push_back(slots[static_cast<std::size_t>(slot)]);
  return dims;
}

}  // namespace anydim::runtime
