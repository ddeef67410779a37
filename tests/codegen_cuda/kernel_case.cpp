#include "tests/codegen_cuda/kernel_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>

#include "codegen_cuda/nvrtc.h"
#include "tests/ptx/memory.h"
#include "tests/ptx/units/tensor_map.h"

namespace anydim::codegen_cuda::testing {

namespace {

using tests::value_at;
using tests::values_at;

std::uint64_t bytes_of(const ir::TensorType& type, const Symbols& symbols) {
  return static_cast<std::uint64_t>(ir::element_count(values_at(type.dims, symbols))) *
         ir::size_of(type.dtype);
}

std::vector<ir::TensorType> buffer_types(const ir::Function& body) {
  std::vector<ir::TensorType> types;
  for (const ir::ValueId value : body.body.parameters) types.push_back(body.tensor_type(value));
  for (const ir::ValueId value : body.body.results) types.push_back(body.tensor_type(value));
  return types;
}

// A kernel's parameters, laid out as PTX does: each at its natural alignment.
class ParameterBlock {
 public:
  template <typename T>
  void add(const T& value, std::size_t alignment = alignof(T)) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof value);
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

ptx::TensorMapBytes encode(const ir::TensorMap& map, ptx::DeviceAddress address,
                           const Symbols& symbols) {
  ptx::TensorMapLayout layout;
  layout.dtype = map.dtype;
  layout.address = address;
  for (const ir::Dim& dim : map.dims)
    layout.dims.push_back(static_cast<std::uint64_t>(value_at(dim, symbols)));
  for (const ir::Dim& stride : map.strides)
    layout.strides.push_back(static_cast<std::uint64_t>(value_at(stride, symbols)));
  for (const std::int32_t elements : map.box)
    layout.box.push_back(static_cast<std::uint32_t>(elements));
  layout.swizzle_bytes = map.swizzle_bytes;
  return ptx::encode_tensor_map(layout);
}

template <typename Draw>
std::vector<ir::Tensor> drawn_inputs(const TestRegion& region, const Symbols& symbols,
                                     std::uint32_t seed, const Draw& draw) {
  std::mt19937 random(seed);
  std::vector<ir::Tensor> inputs;
  for (const ir::ValueId parameter : region.region.body.body.parameters) {
    const ir::TensorType& type = region.region.body.tensor_type(parameter);
    ir::Tensor tensor(type.dtype, values_at(type.dims, symbols));
    for (std::int64_t i = 0; i < tensor.elements(); ++i) draw(tensor, i, random);
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

void draw_integer(ir::Tensor& tensor, std::int64_t i, std::mt19937& random) {
  const bool boolean = tensor.dtype() == ir::DType::Bool;
  const std::int64_t value =
      std::uniform_int_distribution<std::int64_t>(boolean ? 0 : -3, boolean ? 1 : 3)(random);
  if (ir::is_float(tensor.dtype())) tensor.set_real(i, static_cast<double>(value));
  else tensor.set_integer(i, value);
}

}  // namespace

std::shared_ptr<const TestRegion> make_region(const std::string& text,
                                              std::vector<std::uint32_t> weights) {
  return std::make_shared<TestRegion>(tests::make_region(text, std::move(weights)));
}

CudaTarget small_target(const std::string& part) {
  auto target = target_named(part);
  if (!target) throw std::logic_error("no part is called " + part);
  target->multiprocessors = 2;
  return *target;
}

KernelCase build_case(const std::shared_ptr<const TestRegion>& region, const CudaTarget& target,
                      const KernelKind& kind, const ir::Bucket& bucket,
                      const ir::Schedule& schedule, bool checked) {
  const PlanInputs inputs{.target = target, .region = region->region, .form = region->form};
  if (!kind.accepts(inputs))
    throw std::logic_error(std::string(kind.name()) + " does not accept the region");
  if (const auto reason = kind.misfit(inputs, schedule))
    throw std::logic_error(to_string(schedule) + " does not fit: " + *reason);
  EmittedKernel emitted = kind.emit(inputs, bucket, schedule, checked);
  const NvrtcOutput output = Nvrtc::open()->compile(emitted.source, region->region.name,
                                                    target.architecture, CudaOutput::Ptx);
  return {.region = region,
          .source = std::move(emitted.source),
          .ptx = std::string(reinterpret_cast<const char*>(output.code.data()), output.code.size()),
          .launches = std::move(emitted.launches),
          .workspace_bytes = emitted.workspace_bytes};
}

CaseRun run_case(const KernelCase& kernel, const ptx::Module& module, const Symbols& symbols,
                 const std::vector<ir::Tensor>& inputs, const CaseOptions& options) {
  const ir::Function& body = kernel.region->region.body;
  const Symbols& capacity = options.capacity.empty() ? symbols : options.capacity;
  const std::vector<ir::TensorType> types = buffer_types(body);
  ptx::Machine machine(options.machine);
  constexpr std::uint64_t least = 16;  // an empty tensor has an address too
  std::vector<ptx::DeviceAddress> buffers;
  for (std::size_t i = 0; i < types.size(); ++i) {
    buffers.push_back(machine.allocate(std::max(least, bytes_of(types[i], capacity))));
    if (i >= inputs.size() || inputs[i].bytes().empty()) continue;
    std::vector<std::byte> whole(bytes_of(types[i], capacity),
                                 ptx::poison);  // what lies behind was an earlier call's
    std::ranges::copy(inputs[i].bytes(), whole.begin());
    machine.write(buffers.back(), whole);
  }
  std::vector<std::int64_t> extents;
  for (const std::string& name : body.symbols.names()) extents.push_back(symbols.at(name));
  const ptx::DeviceAddress extents_address =
      machine.allocate(std::max<std::uint64_t>(least, extents.size() * sizeof(std::int64_t)));
  if (!extents.empty()) machine.write(extents_address, std::as_bytes(std::span(extents)));
  CaseRun result;
  const ptx::DeviceAddress error_address = machine.allocate(sizeof(ir::KernelError));
  machine.write(error_address, std::as_bytes(std::span(&result.error, 1)));
  const auto workspace_bytes =
      static_cast<std::uint64_t>(value_at(kernel.workspace_bytes, capacity));
  const ptx::DeviceAddress workspace = machine.allocate(std::max(least, workspace_bytes));

  for (const ptx::DeviceAddress address : {extents_address, error_address})
    machine.mark_steady(address);
  for (const std::uint32_t weight : kernel.region->region.weights)
    machine.mark_steady(buffers.at(weight));
  for (const ir::DeviceLaunch& launch : kernel.launches) {
    ptx::LaunchShape shape;
    bool nothing = false;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      shape.grid[axis] = static_cast<std::uint32_t>(value_at(launch.grid[axis], capacity));
      shape.block[axis] = static_cast<std::uint32_t>(launch.block[axis]);
      shape.cluster[axis] = static_cast<std::uint32_t>(launch.cluster[axis]);
      nothing |= shape.grid[axis] == 0;
    }
    if (nothing) continue;
    shape.shared_bytes = static_cast<std::uint32_t>(launch.shared_bytes);
    ParameterBlock parameters;
    for (const ptx::DeviceAddress buffer : buffers) parameters.add(buffer);
    for (const ptx::DeviceAddress address : {extents_address, error_address, workspace})
      parameters.add(address);
    for (const ir::TensorMap& map : launch.tensor_maps) {
      const ptx::DeviceAddress base =
          map.buffer < 0 ? workspace : buffers.at(static_cast<std::size_t>(map.buffer));
      parameters.add(encode(map, base, capacity), ptx::tensor_map_alignment);
    }
    machine.options().dependent = launch.dependent;
    const ptx::Report report = machine.launch(module, launch.entry, shape, parameters.bytes());
    result.instructions += report.instructions;
    machine.read(error_address, std::as_writable_bytes(std::span(&result.error, 1)));
    if (!report.ok()) {
      result.findings += report.text();
      return result;
    }
  }
  for (std::size_t i = body.body.parameters.size(); i < types.size(); ++i) {
    ir::Tensor output(types[i].dtype, values_at(types[i].dims, symbols));
    std::vector<std::byte> whole(bytes_of(types[i], capacity));
    if (!whole.empty()) machine.read(buffers[i], whole);
    std::ranges::copy_n(whole.begin(), static_cast<std::ptrdiff_t>(output.bytes().size()),
                        output.mutable_bytes().begin());
    const auto behind =
        std::ranges::find_if(whole.begin() + static_cast<std::ptrdiff_t>(output.bytes().size()),
                             whole.end(), [](std::byte value) { return value != ptx::poison; });
    if (behind != whole.end())
      result.findings += fmt::format("output {} is written at byte {}, behind its {} bytes\n",
                                     i - body.body.parameters.size(), behind - whole.begin(),
                                     output.bytes().size());
    result.outputs.push_back(std::move(output));
  }
  return result;
}

std::vector<ir::Tensor> integer_inputs(const TestRegion& region, const Symbols& symbols,
                                       std::uint32_t seed) {
  return drawn_inputs(region, symbols, seed, draw_integer);
}

std::vector<ir::Tensor> real_inputs(const TestRegion& region, const Symbols& symbols,
                                    std::uint32_t seed) {
  return drawn_inputs(region, symbols, seed,
                      [](ir::Tensor& tensor, std::int64_t i, std::mt19937& random) {
                        if (ir::is_float(tensor.dtype()))
                          tensor.set_real(i, std::uniform_real_distribution<double>(-1, 1)(random));
                        else draw_integer(tensor, i, random);
                      });
}

std::string compare(const std::vector<ir::Tensor>& got, const std::vector<ir::Tensor>& expected,
                    double tolerance) {
  if (got.size() != expected.size())
    return fmt::format("{} results instead of {}", got.size(), expected.size());
  for (std::size_t output = 0; output < got.size(); ++output) {
    if (got[output].dtype() != expected[output].dtype() ||
        got[output].dims() != expected[output].dims())
      return fmt::format("result {} has another type", output);
    for (std::int64_t i = 0; i < got[output].elements(); ++i) {
      const double a = got[output].real_at(i), b = expected[output].real_at(i);
      if (a == b || (std::isnan(a) && std::isnan(b)) ||
          std::abs(a - b) <= tolerance * (1 + std::abs(b)))
        continue;
      std::string place;
      std::int64_t rest = i;
      for (std::size_t axis = got[output].rank(); axis > 0; --axis) {
        const std::int64_t extent = got[output].dims()[axis - 1];
        place = fmt::format("{}{}{}", rest % extent, place.empty() ? "" : ", ", place);
        rest /= extent;
      }
      return fmt::format("result {} at [{}] is {} instead of {}", output, place, a, b);
    }
  }
  return {};
}

std::string check_case(const KernelCase& kernel, const ptx::Module& module, const Symbols& symbols,
                       const CaseOptions& options, double tolerance) {
  const std::vector<ir::Tensor> inputs = tolerance == 0 ? integer_inputs(*kernel.region, symbols)
                                                        : real_inputs(*kernel.region, symbols);
  const CaseRun run = run_case(kernel, module, symbols, inputs, options);
  if (!run.findings.empty()) return run.findings;
  if (run.error.check != -1)
    return fmt::format("check {} failed with {}", run.error.check, run.error.value);
  return compare(run.outputs, reference(*kernel.region, inputs), tolerance);
}

}  // namespace anydim::codegen_cuda::testing
