#include "codegen_cuda/rows/row_parts.h"

#include <fmt/format.h>

namespace anydim::codegen_cuda {

RowParts row_parts(KernelWriter& kernel, std::span<const ir::Iteration> rows,
                   std::span<const ir::Iteration> inner, std::int64_t split, std::int64_t tile) {
  RowParts parts{.rows = linear_space(kernel, rows),
                 .inner = linear_space(kernel, inner),
                 .split = split,
                 .tile = tile};
  parts.wide = counter_is_wide(kernel, parts.inner.points);
  parts.row = kernel.fresh("row");
  parts.part = kernel.fresh("part");
  parts.points = kernel.fresh("points");
  parts.first = kernel.fresh("first");
  parts.last = kernel.fresh("last");
  parts.point = kernel.fresh("point");
  return parts;
}

void write_row_parts(KernelWriter& kernel, CodeScope& entry, const RowParts& parts,
                     const std::function<void(CodeScope&)>& body) {
  kernel.use("index");
  const std::string count = kernel.fresh("rows"), work = kernel.fresh("work"),
                    type = index_type(parts.wide);
  entry.line("const long long {} = {};", count,
             bare(write_index(kernel, entry, parts.rows.points)));
  entry.line("const {} {} = {};", type, parts.points,
             bare(write_index(kernel, entry, parts.inner.points)));
  kernel.block(entry,
               fmt::format("for (long long {0} = blockIdx.x; {0} < {1} * {2}; {0} += gridDim.x)",
                           work, count, parts.split),
               [&](CodeScope& at) {
                 at.line("const long long {0} = {1} / {2}, {3} = {1} % {2};", parts.row, work,
                         parts.split, parts.part);
                 const std::string range = kernel.fresh("range");
                 at.line("const auto {} = part_of_row<{}, {}>({}, {});", range, parts.split,
                         parts.tile, parts.points, parts.part);
                 at.line("const {} {} = {}.first, {} = {}.last;", type, parts.first, range,
                         parts.last, range);
                 define_point(kernel, at, parts.rows, {parts.row, true});
                 body(at);
               });
}

ir::Dim grid_of(const KernelWriter& kernel, const RowParts& parts, std::int64_t threads) {
  const ir::Dim most((2048 / threads) * kernel.target().multiprocessors);
  return ir::min(parts.rows.points * parts.split, most);
}

}  // namespace anydim::codegen_cuda
