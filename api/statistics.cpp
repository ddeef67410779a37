#include "api/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "api/model.h"
#include "ir/error.h"
#include "ir/printable.h"
#include "ir/shapes/bind.h"

namespace anydim {

namespace {

using Extents = std::map<std::string, std::vector<std::int64_t>>;

// What the model's symbols are in a call of these shapes.
ir::SymbolValues symbols_of_shapes(const Model& model, const Extents& shapes) {
  for (const auto& [name, dims] : shapes)
    if (std::ranges::find(model.inputs(), name, &InputInfo::name) == model.inputs().end())
      throw Error(ErrorKind::Inputs, "the model has no input '{}'", ir::printable(name));
  ir::Function function;
  function.name = "main";
  function.symbols = model.symbols();
  std::vector<ir::InputShape> bound;
  for (const InputInfo& input : model.inputs()) {
    if (input.any_shape) continue;
    const auto shape = shapes.find(input.name);
    if (shape == shapes.end())
      throw Error(ErrorKind::Inputs, "the shape of input '{}' is missing; the model takes {}",
                  ir::printable(input.name), to_string(input));
    function.body.parameters.push_back(
        function.add_value(input.name, ir::TensorType{input.dtype, input.dims}));
    bound.push_back({input.dtype, shape->second});
  }
  return ir::bind_symbols(function, bound);
}

void at_most(ir::SymbolTable& symbols, const ir::Dim& dim, std::int64_t most) {
  if (dim.kind() != ir::Dim::Kind::Symbol) return;
  const ir::SymbolInfo* known = symbols.find(dim.leaf().symbol);
  ir::SymbolInfo info = known == nullptr ? ir::SymbolInfo{} : *known;
  info.high = std::min(info.high, most);
  info.low = std::min(info.low, info.high);
  symbols.declare(dim.leaf().symbol, info);
}

// The packed program's own symbols are known by what they count: tokens and the longest sequence
// are at most what the mask has.
void bound_row_vectors(ir::SymbolTable& symbols, const Model& model, const ir::Program& program,
                       const ir::SymbolValues& values) {
  const auto& mask = model.inputs().at(model.packing()->mask).dims;
  const auto value = [&](const ir::Dim& dim) {
    return dim.evaluate([&](const ir::DimLeaf& leaf) { return values.at(leaf.symbol); });
  };
  const std::int64_t sequence = value(mask.at(1)),
                     rows = ir::element_count({value(mask.at(0)), sequence});
  for (std::size_t i = 0; i < model.packing()->vectors.size(); ++i) {
    const ir::Dim& extent = program.entry().inputs.at(model.inputs().size() + i).dims.at(0);
    switch (model.packing()->vectors[i]) {
      case runtime::RowVector::Rows:
      case runtime::RowVector::Positions:
      case runtime::RowVector::Sequences: at_most(symbols, extent, rows); break;
      case runtime::RowVector::Steps: at_most(symbols, extent, sequence); break;
      case runtime::RowVector::Offsets:
      case runtime::RowVector::Places:
      case runtime::RowVector::Work: break;  // over the model's symbols
    }
  }
}

}  // namespace

ModelStatistics Model::statistics() const {
  ModelStatistics statistics;
  statistics.calls = calls_.read();
  const auto add = [&](const runtime::Executable& executable) {
    const runtime::KernelProgress kernels = executable.kernels().progress();
    statistics.kernels.entries += kernels.entries;
    statistics.kernels.from_cache += kernels.from_cache;
    statistics.kernels.compiled += kernels.compiled;
    statistics.kernels.failed += kernels.failed;
    statistics.kernels.pending += kernels.pending;
    statistics.kernels.code_bytes += kernels.code_bytes;
    statistics.kernels.compiler_calls += kernels.compiler_calls;
    statistics.memory.constant_bytes += executable.constant_bytes();
  };
  for (const auto& executable : compiled()) add(*executable);
  if (const auto general = compiled_general())
    for (const auto& executable : general->compiled()) add(*executable);
  statistics.memory.code_bytes = statistics.kernels.code_bytes;
  statistics.memory.held_bytes = statistics.calls.held_bytes;
  return statistics;
}

MemoryCeiling Model::memory_ceiling(const Extents& shapes) const {
  std::vector<std::vector<std::int64_t>> extents;
  for (const InputInfo& input : inputs_) {
    const auto shape = shapes.find(input.name);
    extents.push_back(shape == shapes.end() ? std::vector<std::int64_t>{} : shape->second);
  }
  if (!equal_dims_.hold(extents)) return general()->memory_ceiling(shapes);
  const ir::SymbolValues values = symbols_of_shapes(*this, shapes);
  MemoryCeiling ceiling;
  ceiling.arena_bytes = 0;
  std::shared_ptr<const RaggedProgram> ragged;
  {
    const std::lock_guard lock(mutex_);
    ragged = ragged_;
  }
  for (const auto& executable : compiled()) {
    ceiling.constant_bytes += executable->constant_bytes();
    if (ragged != nullptr && executable == ragged->executable)
      continue;  // whose calls have no such shapes
    const ir::Program& program = executable->program();
    ir::SymbolTable symbols = program.entry().symbols;
    for (const auto& [name, value] : values)
      if (symbols.contains(name)) {
        ir::SymbolInfo known;
        known.low = known.high = value;
        symbols.declare(name, known);
      }
    if (executable == packed_) bound_row_vectors(symbols, *this, program, values);
    const std::int64_t most = ir::bounds(program.arena_ceiling, symbols).high;
    if (!program.unbounded.empty() || most == std::numeric_limits<std::int64_t>::max()) {
      ceiling.arena_bytes.reset();
      ceiling.unbounded_because =
          program.unbounded.empty()
              ? fmt::format("{} has no bound", program.arena_ceiling.to_string())
              : program.unbounded;
    } else if (ceiling.arena_bytes) {
      ceiling.arena_bytes = std::max(*ceiling.arena_bytes, most);
    }
  }
  return ceiling;
}

}  // namespace anydim
