#include "runtime/executable.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <numeric>
#include <utility>

#include "ir/error.h"
#include "runtime/cpu_device.h"
#include "runtime/memory.h"

namespace anydim::runtime {

Executable::Executable(ir::Program program, std::shared_ptr<const ir::Backend> backend,
                       std::shared_ptr<WorkerPool> pool, ExecutableOptions options)
    : program_(std::move(program)), backend_(std::move(backend)), options_(std::move(options)),
      device_(options_.device != nullptr ? options_.device : make_cpu_device()),
      pool_(std::move(pool)), constants_(device_->constants()) {
  lay_out_stages();
  add_signatures();
  input_binding_ = std::make_unique<InputBinding>(program_);
  for (const ir::Program::Stage& stage : program_.stages) interpreters_.emplace_back(stage.shapes);
  kernels_ =
      std::make_unique<KernelStore>(program_, options_.exact, backend_, *device_,
                                    options_.cache.get(), *pool_, options_.warn, options_.timeline);
  // Kernels first: packing reads every weight, and a kernel that does not compile is told before
  // that.
  kernels_->load(options_.background, options_.cancellation);
  pack_constants();
  options_.cancellation = nullptr;  // it may end with this call
}

void Executable::pack_constants() {
  if (options_.keep_originals)
    for (const ir::Program::Constant& constant : program_.constants)
      originals_.push_back(constant.tensor);
  std::vector<std::size_t> packed;
  for (std::size_t i = 0; i < program_.constants.size(); ++i) {
    if (program_.constants[i].layout) packed.push_back(i);
  }
  const auto read_as_it_is = [&](const ir::Tensor& tensor) {
    return std::ranges::any_of(program_.constants, [&](const ir::Program::Constant& other) {
      return !other.layout && other.tensor.shares(tensor);
    });
  };
  std::vector<bool> release(program_.constants.size());
  for (const std::size_t i : packed)
    release[i] =
        !program_.constants[i].tensor.is_sourced() && !read_as_it_is(program_.constants[i].tensor);
  const auto allocate = [&](ir::DType dtype, std::vector<std::int64_t> dims) {
    return constants_->allocate(dtype, std::move(dims));
  };

  std::vector<std::int64_t> bytes(program_.constants.size());
  constant_addresses_.resize(program_.constants.size());
  const auto keep = [&](std::size_t index) {
    ir::Program::Constant& constant = program_.constants[index];
    const ir::Tensor original = constant.tensor;
    if (constant.layout) {
      const ir::Region& region = program_.kernels[static_cast<std::size_t>(constant.region)].region;
      constant.tensor = {};
      constant.tensor = backend_->pack(region, static_cast<std::size_t>(constant.parameter),
                                       *constant.layout, original.opened(), allocate);
    } else if (original.is_sourced()) {
      constant.tensor = allocate(original.dtype(), original.dims());
      original.copy_to(constant.tensor.mutable_bytes());
    }
    bytes[index] = static_cast<std::int64_t>(constant.tensor.byte_size());
    constant_addresses_[index] = constants_->keep(constant.tensor);
    if (release[index]) release_file_pages(original.bytes().data(), original.bytes().size());
  };
  // What is packed first: tensors read as they are may lie on the same pages.
  std::vector<std::size_t> order = packed;
  for (std::size_t i = 0; i < program_.constants.size(); ++i) {
    if (!program_.constants[i].layout) order.push_back(i);
  }
  std::mutex mutex;
  std::exception_ptr first_failure;
  pool_->run(static_cast<std::int64_t>(order.size()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t i = begin; i < end; ++i) {
                 try {
                   check_cancelled(options_.cancellation);
                   keep(order[static_cast<std::size_t>(i)]);
                 } catch (...) {
                   const std::lock_guard lock(mutex);
                   if (!first_failure) first_failure = std::current_exception();
                 }
               }
             });
  if (first_failure) std::rethrow_exception(first_failure);
  constant_bytes_ = std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

void Executable::add_signatures() {
  for (const ir::Code& code : program_.functions) {
    ir::Function function;
    function.name = code.name;
    function.symbols = code.symbols;
    for (const ir::Code::Input& input : code.inputs)
      if (input.type.kind == ir::Type::Kind::Unknown)
        function.body.parameters.push_back(
            function.add_value(input.name, ir::TensorType{input.dtype, input.dims}));
    signatures_.push_back(std::move(function));
  }
}

void Executable::lay_out_stages() {
  stage_layouts_.resize(std::max<std::size_t>(program_.stages.size(), 1));
  for (const ir::Code& code : program_.functions) lay_out_stages(code);
}

void Executable::lay_out_stages(const ir::Code& code) {
  // The stage that sets a slot. Leaves are there before the first stage that needs them, so other
  // slots decide.
  std::vector<std::size_t> setter(static_cast<std::size_t>(code.slots), 0);
  for (const ir::Code::Instruction& instruction : code.instructions) {
    const auto* run = std::get_if<ir::Code::RunStage>(&instruction);
    if (run == nullptr) continue;
    const auto s = static_cast<std::size_t>(run->stage);
    const ir::Program::Stage& stage = program_.stages[s];
    for (std::size_t i = 0; i < stage.shapes.expressions.size(); ++i)
      setter[static_cast<std::size_t>(stage.first) + i] = s;
  }
  for (std::size_t b = 0; b < code.buffers.size(); ++b) {
    const ir::Code::Buffer& buffer = code.buffers[b];
    if (buffer.place != ir::Code::Buffer::Place::Arena) continue;
    std::size_t stage = static_cast<std::size_t>(buffer.segment);
    internal_check(
        stage < program_.stages.size() && buffer.offset >= 0 && buffer.offset < code.slots,
        "an arena buffer names a stage and the slot of its offset");
    stage = std::max(stage, setter[static_cast<std::size_t>(buffer.offset)]);
    stage_layouts_[stage].buffers.push_back(static_cast<std::int32_t>(b));
  }
  for (std::size_t o = 0; o < code.outputs.size(); ++o) {
    const ir::Code::Output& output = code.outputs[o];
    const ir::Code::Buffer& buffer = code.buffers[static_cast<std::size_t>(output.buffer)];
    if (buffer.place != ir::Code::Buffer::Place::Output ||
        buffer.index != static_cast<std::int32_t>(o))
      continue;
    internal_check(buffer.bytes >= 0 && buffer.bytes < code.slots,
                   "an output buffer names the slot of its size");
    // Its size may be a leaf that only a fetch before its stage sets.
    const std::size_t stage = std::max(static_cast<std::size_t>(buffer.segment),
                                       setter[static_cast<std::size_t>(buffer.bytes)]);
    internal_check(stage < stage_layouts_.size(), "an output buffer names a stage");
    stage_layouts_[stage].outputs.push_back(static_cast<std::int32_t>(o));
  }
}

}  // namespace anydim::runtime
