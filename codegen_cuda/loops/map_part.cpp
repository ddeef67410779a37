#include "codegen_cuda/loops/map_part.h"

#include <fmt/format.h>

#include "codegen_cuda/loops/tile_transpose.h"
#include "codegen_cuda/scalars/linear_space.h"
#include "codegen_cuda/scalars/vector_lanes.h"

namespace anydim::codegen_cuda {

namespace {

// Blocks that the part keeps busy, each with a vector a thread.
Dim write_vectors(KernelWriter& kernel, CodeScope& entry, const ir::MapPart& part,
                  std::int64_t wanted_width, int threads) {
  const ir::Iteration none{ir::loop_leaf(ir::LoopRole::Made), Dim(1)};
  const ir::Iteration run = part.space.empty() ? none : part.space.back();
  const std::int64_t width = vector_width(part, wanted_width, kernel.symbols());
  const bool whole = ir::divisor(run.extent, kernel.symbols()) % width == 0;
  std::vector<ir::Iteration> vectors(part.space.begin(), part.space.end());
  if (vectors.empty()) vectors.push_back(none);
  // The last loop counts vectors.
  const ir::DimLeaf vector_leaf = ir::loop_leaf(ir::LoopRole::Vector, run.variable.element);
  vectors.back() = {vector_leaf, ir::simplify(ir::ceil_div(run.extent, width), kernel.symbols())};
  const LinearSpace space = linear_space(kernel, vectors);
  write_grid_stride(kernel, entry, space, threads, [&](CodeScope& at) {
    const IndexVariable vector = *at.find(vector_leaf);
    IndexVariable first = vector;
    if (width > 1)
      first = name_index(kernel, at, Dim::of(vector_leaf) * width, to_string(run.variable));
    at.define(run.variable, first);
    const auto points = [&](CodeScope& scope, std::int64_t lanes, const IndexVariable& start) {
      ScalarWriter program(kernel, part.program, scope, ir::roots_of(part));
      VectorLanes range(kernel, scope,
                        {.variable = run.variable,
                         .extent = run.extent,
                         .width = static_cast<int>(lanes),
                         .first = start});
      range.load(program);
      for (const ir::Store& store : part.stores) range.store(program, store);
      range.finish();
    };
    if (whole || width == 1) {
      points(at, width, first);
      return;
    }
    const std::string end = write_index(kernel, at, run.extent);
    kernel.block(at, fmt::format("if ({} + {} <= {})", first.name, width, end),
                 [&](CodeScope& inside) { points(inside, width, first); });
    const std::string counter = kernel.fresh(first.name);
    kernel.block(at,
                 fmt::format("else for ({0} {1} = {2}; {1} < {3}; ++{1})", index_type(first.wide),
                             counter, first.name, end),
                 [&](CodeScope& inside) { points(inside, 1, {counter, first.wide}); });
  });
  return ir::ceil_div(space.points, threads);
}

}  // namespace

std::int64_t vector_width(const ir::MapPart& part, std::int64_t wanted,
                          const ir::SymbolTable& symbols) {
  if (part.space.size() <= 1) return wanted;
  const std::int64_t multiple = ir::divisor(part.space.back().extent, symbols);
  std::int64_t width = wanted;
  while (width > 1 && multiple % width != 0) width /= 2;
  return width;
}

Dim write_map_part(KernelWriter& kernel, CodeScope& entry, const ir::MapPart& part,
                   std::int64_t width, int threads) {
  const auto transpose = find_transpose(kernel, part, threads);
  return transpose ? write_transpose(kernel, entry, part, *transpose, threads)
                   : write_vectors(kernel, entry, part, width, threads);
}

}  // namespace anydim::codegen_cuda
