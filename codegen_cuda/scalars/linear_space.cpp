#include "codegen_cuda/scalars/linear_space.h"

#include <fmt/format.h>

#include <algorithm>

namespace anydim::codegen_cuda {

LinearSpace linear_space(KernelWriter& kernel, std::span<const ir::Iteration> iterations) {
  LinearSpace space{.iterations = {iterations.begin(), iterations.end()}, .points = Dim(1)};
  for (const ir::Iteration& iteration : iterations) {
    space.points = space.points * iteration.extent;
    if (kernel.symbols().find(iteration.variable) != nullptr) continue;
    ir::SymbolInfo info;
    info.below = iteration.extent;
    kernel.symbols().declare(iteration.variable, info);
  }
  return space;
}

bool counter_is_wide(const KernelWriter& kernel, const Dim& points) {
  constexpr std::int64_t most = std::int64_t{1} << 30;  // a grid's stride on top stays below 2^31
  return kernel.interval_of(points).high > most;
}

void define_point(KernelWriter& kernel, CodeScope& scope, const LinearSpace& space,
                  const IndexVariable& point) {
  kernel.use("index");
  IndexVariable rest = point;
  for (std::size_t i = space.iterations.size(); i-- > 0;) {
    const ir::Iteration& iteration = space.iterations[i];
    if (iteration.extent.is_constant(1)) {
      scope.define(iteration.variable, {"0", false});
      continue;
    }
    const bool outermost = std::all_of(
        space.iterations.begin(), space.iterations.begin() + static_cast<std::ptrdiff_t>(i),
        [](const ir::Iteration& outer) { return outer.extent.is_constant(1); });
    if (outermost) {
      const bool wide = rest.wide && !kernel.fits_int(iteration.extent);
      if (rest.wide && !wide) {
        const std::string name = kernel.fresh(iteration.variable);
        scope.line("const int {} = (int){};", name, rest.name);
        rest = {name, false};
      }
      scope.define(iteration.variable, rest);
      rest = {"0", false};
      continue;
    }
    const std::string extent = write_index(kernel, scope, iteration.extent);
    const bool wide_extent = !kernel.fits_int(iteration.extent), wide = rest.wide || wide_extent;
    const std::string divisor = (wide && !wide_extent ? "(long long)" : "") + extent,
                      dividend = (wide && !rest.wide ? "(long long)" : "") + rest.name;
    const IndexVariable index{kernel.fresh(iteration.variable), wide_extent};
    scope.line("const {} {} = {}remainder({}, {});", index_type(wide_extent), index.name,
               wide && !wide_extent ? "(int)" : "", dividend, divisor);
    scope.define(iteration.variable, index);
    const std::string whole = kernel.fresh("rest");
    scope.line("const {} {} = quotient({}, {});", index_type(wide), whole, dividend, divisor);
    rest = {whole, wide};
  }
}

void write_grid_stride(KernelWriter& kernel, CodeScope& scope, const LinearSpace& space,
                       int threads, const PointBody& body) {
  const bool wide = counter_is_wide(kernel, space.points);
  const std::string points = kernel.fresh("points"), point = kernel.fresh("point");
  scope.line("const {} {} = {};", index_type(wide), points,
             bare(write_index(kernel, scope, space.points)));
  const std::string first = wide ? fmt::format("blockIdx.x * {}ll + threadIdx.x", threads)
                                 : fmt::format("(int)(blockIdx.x * {} + threadIdx.x)", threads);
  const std::string step = wide ? fmt::format("gridDim.x * {}ll", threads)
                                : fmt::format("(int)(gridDim.x * {})", threads);
  kernel.block(scope, counting_loop(wide, point, first, points, step), [&](CodeScope& at) {
    define_point(kernel, at, space, {point, wide});
    body(at);
  });
}

}  // namespace anydim::codegen_cuda
