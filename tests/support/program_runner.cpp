#include "tests/support/program_runner.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <stdexcept>

#include "ir/error.h"
#include "ir/loops/loop_form.h"
#include "ir/shapes/bind.h"
#include "tests/support/loop_form_interpreter.h"

namespace anydim::tests {

using namespace ir;

namespace {

class Runner {
 public:
  Runner(const Program& program, std::vector<Tensor> inputs, std::vector<std::size_t> overwritable)
      : program_(program), inputs_(std::move(inputs)), overwritable_(std::move(overwritable)),
        slots_(static_cast<std::size_t>(program.entry().slots)),
        ready_(program.entry().buffers.size()), last_(program.entry().buffers.size(), -1) {
    std::int64_t position = 0;
    for (const auto& instruction : program.entry().instructions) {
      if (const auto* launch = std::get_if<Code::Launch>(&instruction))
        for (std::int32_t buffer : launch->buffers)
          last_[static_cast<std::size_t>(buffer)] = position;
      if (const auto* fetch = std::get_if<Code::Fetch>(&instruction))
        last_[static_cast<std::size_t>(fetch->buffer)] = position;
      ++position;
    }
  }

  std::vector<Tensor> run() {
    bind();
    for (position_ = 0; position_ < static_cast<std::int64_t>(program_.entry().instructions.size());
         ++position_)
      std::visit([&](const auto& instruction) { run(instruction); },
                 program_.entry().instructions[static_cast<std::size_t>(position_)]);
    std::vector<Tensor> results;
    for (const Code::Output& output : program_.entry().outputs) {
      std::vector<std::int64_t> dims;
      for (Code::Slot slot : output.dims) dims.push_back(at(slot));
      const Tensor held = read(output.buffer, output.dtype, dims);
      std::vector<std::int64_t> ones(dims.size(), 0);
      for (std::size_t i = 0; i < output.ones.size(); ++i) ones[i] = at(output.ones[i]);
      results.emplace_back(held.dtype(), without_ones(output.name, dims, ones), held.bytes(),
                           held.owner());
    }
    return results;
  }

 private:
  [[noreturn]] static void wrong(const std::string& what) {
    throw std::logic_error("the program is wrong: " + what);
  }

  std::int64_t at(Code::Slot slot) const {
    if (slot < 0 || slot >= program_.entry().slots)
      wrong("there is no slot " + std::to_string(slot));
    const auto& value = slots_[static_cast<std::size_t>(slot)];
    if (!value) wrong("slot " + std::to_string(slot) + " is read before it is filled");
    return *value;
  }

  void set(Code::Slot slot, std::int64_t value) {
    auto& entry = slots_.at(static_cast<std::size_t>(slot));
    if (entry) wrong("slot " + std::to_string(slot) + " is filled twice");
    entry = value;
  }

  void bind() {
    Function function;
    function.name = "main";
    function.symbols = program_.entry().symbols;
    for (const Code::Input& input : program_.entry().inputs)
      function.body.parameters.push_back(
          function.add_value(input.name, TensorType{input.dtype, input.dims}));
    SymbolValues values = bind_symbols(function, inputs_);
    for (std::size_t slot = 0; slot < program_.entry().leaf_symbols.size(); ++slot) {
      const std::string& symbol = program_.entry().leaf_symbols[slot];
      if (!symbol.empty()) set(static_cast<Code::Slot>(slot), values.at(symbol));
    }
  }

  void run(const Code::RunStage& instruction) {
    const Program::Stage& stage = program_.stages.at(static_cast<std::size_t>(instruction.stage));
    if (stage.leaves.size() != stage.shapes.leaves.size())
      wrong("a stage lacks slots of its leaves");
    std::vector<std::int64_t> leaves, values(stage.shapes.expressions.size());
    for (Code::Slot slot : stage.leaves) leaves.push_back(at(slot));
    if (ShapeInterpreter(stage.shapes).run(leaves, values) >= 0)
      throw Error(ErrorKind::Inputs, "a size overflows");
    for (std::size_t i = 0; i < values.size(); ++i)
      set(stage.first + static_cast<Code::Slot>(i), values[i]);
    for (const Program::Check& check : stage.checks)
      if (!holds(check.relation, at(check.left), at(check.right)))
        throw Error(ErrorKind::Inputs, check.what);
    if (segments_.size() <= static_cast<std::size_t>(instruction.stage))
      segments_.resize(static_cast<std::size_t>(instruction.stage) + 1);
    if (stage.arena_bytes >= 0)
      segments_[static_cast<std::size_t>(instruction.stage)].assign(
          static_cast<std::size_t>(at(stage.arena_bytes)), std::byte{0x7f});
  }

  template <typename Other>
  void run(const Other&) {
    wrong("it has control flow, which this runner does not know");
  }

  void run(const Code::Fetch& fetch) {
    const Code::Buffer& buffer =
        program_.entry().buffers.at(static_cast<std::size_t>(fetch.buffer));
    if (buffer.place == Code::Buffer::Place::Input) {
      const Tensor& input = inputs_.at(static_cast<std::size_t>(buffer.index));
      if (input.dtype() != fetch.dtype) wrong("a fetch reads another dtype");
      set(fetch.slot, input.integer_at(fetch.element));
      return;
    }
    std::int64_t elements = at(buffer.bytes) / static_cast<std::int64_t>(size_of(fetch.dtype));
    if (fetch.element >= elements) wrong("a fetch reads past the end");
    set(fetch.slot, read(fetch.buffer, fetch.dtype, {elements}).integer_at(fetch.element));
  }

  void run(const Code::Launch& launch) {
    const Program::Kernel& kernel = program_.kernels.at(static_cast<std::size_t>(launch.kernel));
    const Function& body = kernel.region.body;
    std::vector<std::int64_t> extents, keys;
    for (Code::Slot slot : launch.extents) extents.push_back(at(slot));
    for (Code::Slot slot : launch.keys) keys.push_back(at(slot));
    const auto& entries = kernel.table.entries;
    if (std::none_of(entries.begin(), entries.end(),
                     [&](const auto& entry) { return entry.bucket.contains(keys); }))
      wrong("no kernel of " + kernel.region.name + " takes these sizes");
    auto value = [&](const Dim& dim) {
      return dim.evaluate([&](const DimLeaf& leaf) {
        const auto& names = body.symbols.names();
        return extents.at(static_cast<std::size_t>(
            std::find(names.begin(), names.end(), leaf.symbol) - names.begin()));
      });
    };
    for (std::size_t i = 0; i < kernel.region.keys.size(); ++i)
      if (value(kernel.region.keys[i]) != keys[i])
        wrong("a key of " + kernel.region.name + " is not what its dim says");
    auto dims_of = [&](ValueId id) {
      std::vector<std::int64_t> dims;
      for (const Dim& dim : body.tensor_type(id).dims) dims.push_back(value(dim));
      return dims;
    };
    std::vector<Tensor> operands;
    std::size_t parameters = body.body.parameters.size();
    for (std::size_t i = 0; i < parameters; ++i) {
      ValueId id = body.body.parameters[i];
      operands.push_back(read(launch.buffers.at(i), body.tensor_type(id).dtype, dims_of(id)));
    }
    std::vector<Tensor> results =
        run_loop_form(kernel.region, *loop_form_of(kernel.region), operands, extents);
    std::set<std::size_t> overwritten;
    for (const std::size_t parameter : overwritable_) {
      if (parameter < parameters && ends_in_place(launch, launch.buffers[parameter], parameters))
        overwritten.insert(parameter);
    }
    for (const std::size_t parameter : overwritten)
      ready_[static_cast<std::size_t>(launch.buffers[parameter])] = false;
    // Everything is written before anything could be read: other results of one launch may not
    // share memory with its operands.
    for (std::size_t i = 0; i < results.size(); ++i)
      write(launch.buffers.at(parameters + i), results[i]);
    for (std::size_t i = 0; i < parameters; ++i) {
      if (overwritten.contains(i)) continue;
      ValueId id = body.body.parameters[i];
      if (!read(launch.buffers[i], body.tensor_type(id).dtype, dims_of(id)).same_bits(operands[i]))
        wrong("a result overwrites an operand of its launch");
    }
  }

  // Whether no instruction after the launch uses the buffer, and its first result lies there.
  bool ends_in_place(const Code::Launch& launch, std::int32_t buffer, std::size_t parameters) {
    const std::int32_t result = launch.buffers.at(parameters);
    const auto in_arena = [&](std::int32_t index) {
      return program_.entry().buffers.at(static_cast<std::size_t>(index)).place ==
             Code::Buffer::Place::Arena;
    };
    if (!in_arena(buffer) || !in_arena(result) ||
        last_[static_cast<std::size_t>(buffer)] != position_ ||
        std::ranges::count(launch.buffers, buffer) != 1)
      return false;
    const std::span<std::byte> from = memory(buffer), to = memory(result);
    return from.data() == to.data() && from.size() == to.size();
  }

  std::span<std::byte> memory(std::int32_t index) {
    const Code::Buffer& buffer = program_.entry().buffers.at(static_cast<std::size_t>(index));
    auto bytes = static_cast<std::size_t>(at(buffer.bytes));
    if (buffer.place == Code::Buffer::Place::Output) {
      auto& output = outputs_[buffer.index];
      if (output.size() < bytes) output.resize(bytes);
      return {output.data(), bytes};
    }
    auto offset = static_cast<std::size_t>(at(buffer.offset));
    auto& segment = segments_.at(static_cast<std::size_t>(buffer.segment));
    if (offset % 64 != 0 || offset + bytes > segment.size())
      wrong("buffer " + buffer.name + " does not lie in its segment");
    return {segment.data() + offset, bytes};
  }

  Tensor read(std::int32_t index, DType dtype, const std::vector<std::int64_t>& dims) {
    const Code::Buffer& buffer = program_.entry().buffers.at(static_cast<std::size_t>(index));
    using Place = Code::Buffer::Place;
    if (buffer.place == Place::Input || buffer.place == Place::Constant) {
      const Tensor& tensor =
          buffer.place == Place::Input
              ? inputs_.at(static_cast<std::size_t>(buffer.index))
              : program_.constants.at(static_cast<std::size_t>(buffer.index)).tensor;
      if (tensor.dtype() != dtype || element_count(dims) != tensor.elements())
        wrong("buffer " + buffer.name + " is read as another type");
      return Tensor(dtype, dims, tensor.bytes(), tensor.owner());
    }
    if (!ready_[static_cast<std::size_t>(index)])
      wrong("buffer " + buffer.name + " is read before it is written");
    std::span<std::byte> bytes = memory(index);
    if (static_cast<std::int64_t>(bytes.size()) != byte_count(dtype, dims))
      wrong("buffer " + buffer.name + " has another size than its type");
    Tensor tensor(dtype, dims);
    if (!bytes.empty()) std::memcpy(tensor.mutable_bytes().data(), bytes.data(), bytes.size());
    return tensor;
  }

  void write(std::int32_t index, const Tensor& tensor) {
    const Code::Buffer& buffer = program_.entry().buffers.at(static_cast<std::size_t>(index));
    std::span<std::byte> bytes = memory(index);
    if (bytes.size() != tensor.bytes().size())
      wrong("buffer " + buffer.name + " has another size than its result");
    for (std::size_t other = 0; other < program_.entry().buffers.size(); ++other) {
      const Code::Buffer& entry = program_.entry().buffers[other];
      if (static_cast<std::int32_t>(other) == index || !ready_[other] || last_[other] < position_ ||
          entry.place != Code::Buffer::Place::Arena || buffer.place != Code::Buffer::Place::Arena ||
          entry.segment != buffer.segment)
        continue;
      std::span<std::byte> theirs = memory(static_cast<std::int32_t>(other));
      if (!theirs.empty() && !bytes.empty() && bytes.data() < theirs.data() + theirs.size() &&
          theirs.data() < bytes.data() + bytes.size())
        wrong("buffer " + buffer.name + " lies over " + entry.name);
    }
    if (!bytes.empty()) std::memcpy(bytes.data(), tensor.bytes().data(), bytes.size());
    ready_[static_cast<std::size_t>(index)] = true;
  }

  const Program& program_;
  std::vector<Tensor> inputs_;
  std::vector<std::size_t> overwritable_;
  std::vector<std::optional<std::int64_t>> slots_;
  std::vector<std::vector<std::byte>> segments_;
  std::map<std::int32_t, std::vector<std::byte>> outputs_;
  std::vector<bool> ready_;
  std::vector<std::int64_t> last_;  // position of the last instruction that uses a buffer
  std::int64_t position_ = 0;
};

}  // namespace

std::vector<Tensor> run_program(const Program& program, std::vector<Tensor> inputs,
                                std::vector<std::size_t> overwritable) {
  return Runner(program, std::move(inputs), std::move(overwritable)).run();
}

}  // namespace anydim::tests
