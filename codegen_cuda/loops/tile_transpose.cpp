#include "codegen_cuda/loops/tile_transpose.h"

#include <fmt/format.h>

#include "codegen_cuda/scalars/linear_space.h"
#include "codegen_cuda/scalars/scalar_writer.h"
#include "ir/dims/affine.h"

namespace anydim::codegen_cuda {

namespace {

constexpr int tile = 32;
constexpr std::size_t most_tiles = 4;    // operands; 4 * 32 * 33 * 8 bytes of shared memory at most
constexpr std::int64_t worthwhile = 16;  // points of a loop that fill at least half of a tile

bool runs_along(const Dim& offset, const ir::DimLeaf& variable) {
  const auto affine = ir::affine_in(offset, variable);
  return affine && affine->stride.is_constant(1);
}

bool strides_along(const Dim& offset, const ir::DimLeaf& variable) {
  return offset.mentions(variable) && !runs_along(offset, variable);
}

}  // namespace

std::optional<TileTranspose> find_transpose(KernelWriter& kernel, const ir::MapPart& part,
                                            int threads) {
  if (part.space.size() < 2 || threads % tile != 0 || threads > tile * tile) return std::nullopt;
  const auto long_enough = [&](const ir::Iteration& loop) {
    return kernel.interval_of(loop.extent).high >= worthwhile;
  };
  const ir::Iteration& run = part.space.back();
  if (!long_enough(run)) return std::nullopt;
  CodeScope nowhere;
  ScalarWriter program(kernel, part.program, nowhere, ir::roots_of(part));
  for (const ir::Store& store : part.stores) {
    if (!runs_along(program.store_offset(store), run.variable)) return std::nullopt;
  }
  std::optional<TileTranspose> best;
  for (std::size_t along = 0; along + 1 < part.space.size(); ++along) {
    if (!long_enough(part.space[along])) continue;
    TileTranspose found{.along = along, .loads = {}};
    for (std::size_t i = 0; i < program.program().steps().size(); ++i) {
      const auto position = static_cast<std::int32_t>(i);
      if (!program.program().steps()[i].is<ir::step::Load>() || program.conditional(position))
        continue;
      const Dim offset = program.load_offset(position);
      if (program.index_varies(position, run.variable) ||
          program.index_varies(position, part.space[along].variable))
        continue;
      if (runs_along(offset, part.space[along].variable) && strides_along(offset, run.variable))
        found.loads.push_back(position);
    }
    if (found.loads.size() > (best ? best->loads.size() : 0)) best = found;
  }
  if (best && best->loads.size() > most_tiles) return std::nullopt;
  return best;
}

Dim write_transpose(KernelWriter& kernel, CodeScope& entry, const ir::MapPart& part,
                    const TileTranspose& transpose, int threads) {
  const ir::Iteration &run = part.space.back(), &along = part.space[transpose.along];
  const ir::DimLeaf run_tile = ir::loop_leaf(ir::LoopRole::Tile, run.variable.element),
                    along_tile = ir::loop_leaf(ir::LoopRole::Tile, along.variable.element);
  std::vector<ir::Iteration> tiles;
  for (std::size_t i = 0; i + 1 < part.space.size(); ++i) {
    if (i != transpose.along) tiles.push_back(part.space[i]);
  }
  tiles.push_back({along_tile, ir::simplify(ir::ceil_div(along.extent, tile), kernel.symbols())});
  tiles.push_back({run_tile, ir::simplify(ir::ceil_div(run.extent, tile), kernel.symbols())});
  const LinearSpace space = linear_space(kernel, tiles);

  const int rows = threads / tile;
  const std::string column = kernel.fresh("column"), row = kernel.fresh("row");
  entry.line("const int {} = threadIdx.x % {}, {} = threadIdx.x / {};", column, tile, row, tile);
  std::vector<std::string> names;
  for (const std::int32_t load : transpose.loads) {
    names.push_back(kernel.fresh("tile"));
    const ir::DType dtype = part.program.steps[static_cast<std::size_t>(load)].dtype;
    entry.line("__shared__ {} {}[{}][{}];", storage_type(dtype), names.back(), tile, tile + 1);
  }
  const bool wide = counter_is_wide(kernel, space.points);
  const std::string count = kernel.fresh("tiles"), number = kernel.fresh("number");
  entry.line("const {} {} = {};", index_type(wide), count,
             bare(write_index(kernel, entry, space.points)));
  kernel.block(
      entry,
      fmt::format("for ({0} {1} = blockIdx.x; {1} < {2}; {1} += gridDim.x)", index_type(wide),
                  number, count),
      [&](CodeScope& at) {
        define_point(kernel, at, space, {number, wide});
        const IndexVariable run_first =
            name_index(kernel, at, Dim::of(run_tile) * tile, to_string(run.variable));
        const IndexVariable along_first =
            name_index(kernel, at, Dim::of(along_tile) * tile, to_string(along.variable));
        const std::string run_end = write_index(kernel, at, run.extent),
                          along_end = write_index(kernel, at, along.extent);
        // One pass over the tile: `along_at` and `run_at` are the thread's place in it.
        const auto pass = [&](const std::string& along_at, const std::string& run_at,
                              const std::string& step, const PointBody& body) {
          kernel.block(at,
                       fmt::format("#pragma unroll\nfor (int {0} = {1}; {0} < {2}; {0} += {3})",
                                   step, row, tile, rows),
                       [&](CodeScope& inner) {
                         const std::string along_index = kernel.fresh(along.variable),
                                           run_index = kernel.fresh(run.variable);
                         inner.line("const {} {} = {} + {};", index_type(along_first.wide),
                                    along_index, along_first.name, along_at);
                         inner.line("const {} {} = {} + {};", index_type(run_first.wide), run_index,
                                    run_first.name, run_at);
                         kernel.block(inner,
                                      fmt::format("if ({} < {} && {} < {})", along_index, along_end,
                                                  run_index, run_end),
                                      [&](CodeScope& point) {
                                        point.define(along.variable,
                                                     {along_index, along_first.wide});
                                        point.define(run.variable, {run_index, run_first.wide});
                                        body(point);
                                      });
                       });
        };
        const std::string step = kernel.fresh("step");
        at.line("__syncthreads();  // the tile before has been used");
        pass(column, step, step, [&](CodeScope& point) {
          ScalarWriter program(kernel, part.program, point, ir::roots_of(part));
          for (std::size_t i = 0; i < names.size(); ++i) {
            point.line("{}[{}][{}] = *({});", names[i], step, column,
                       program.address(point, transpose.loads[i]));
          }
        });
        at.line("__syncthreads();");
        pass(step, column, step, [&](CodeScope& point) {
          ScalarWriter program(kernel, part.program, point, ir::roots_of(part));
          for (std::size_t i = 0; i < names.size(); ++i) {
            const std::int32_t load = transpose.loads[i];
            const std::string name = kernel.fresh_numbered("element");
            const ir::DType dtype = program.dtype(load);
            point.line("const {} {} = {};", value_type(dtype), name,
                       widened(kernel, dtype, fmt::format("{}[{}][{}]", names[i], column, step)));
            program.set_step(load, name, point);
          }
          for (const ir::Store& store : part.stores) program.store(point, store);
        });
      });
  return space.points;
}

}  // namespace anydim::codegen_cuda
