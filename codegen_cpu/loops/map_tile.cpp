#include "codegen_cpu/loops/map_tile.h"

#include <algorithm>

#include "codegen_cpu/work_estimate.h"
#include "ir/loops/kernel_program.h"

namespace anydim::codegen_cpu {

namespace {

// A tile's code has the program once for each of its lines.
constexpr std::size_t most_steps = 12, most_loads = 2;
constexpr std::int64_t longest_side = 16, register_bytes = 64;

// Whether the step reads everywhere, at places that other steps do not compute.
bool reads_plainly(const ir::KernelProgram& program, std::int32_t position) {
  const ScalarStep& step = program.step(position);
  return step.is<ir::step::Load>() && step.dtype != ir::DType::Bool &&
         program.mask(position).alternatives.empty() &&
         std::ranges::none_of(program.leaves(position), &ir::DimLeaf::is_step);
}

}  // namespace

std::optional<MapTile> tile_of(const ir::MapPart& part, const ir::LoopForm& form) {
  const std::vector<ScalarStep>& steps = part.program.steps;
  if (part.space.size() < 2 || steps.size() > most_steps) return std::nullopt;
  ir::SymbolTable own = form.symbols;
  const ir::KernelProgram program(part.program, ir::roots_of(part), 0, own);
  const std::size_t last = part.space.size() - 1;
  std::vector<MapTile> tiles(last);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto position = static_cast<std::int32_t>(i);
    if (!reads_plainly(program, position)) continue;
    const auto& [buffer, index] = steps[i].as<ir::step::Load>();
    const ir::TensorType& type = form.parameters[static_cast<std::size_t>(buffer)];
    const Dim offset = ir::linear_offset(index, type.dims, form.symbols);
    const auto stride = [&](std::size_t axis) {
      return stride_along(offset, part.space[axis].variable);
    };
    if (stride(last) != Stride::Other) continue;
    for (std::size_t axis = 0; axis < last; ++axis) {
      if (stride(axis) != Stride::One) continue;
      tiles[axis].axis = axis;
      tiles[axis].loads.push_back(position);
      const auto bytes = static_cast<std::int64_t>(ir::size_of(type.dtype));
      tiles[axis].lanes = std::min(longest_side, register_bytes / std::max<std::int64_t>(bytes, 4));
    }
  }
  const auto best =
      std::ranges::max_element(tiles, {}, [](const MapTile& tile) { return tile.loads.size(); });
  if (best->loads.empty() || best->loads.size() > most_loads) return std::nullopt;
  return *best;
}

}  // namespace anydim::codegen_cpu
