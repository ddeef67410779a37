#include "codegen_cuda/matmul/matmul_parts.h"

#include <fmt/format.h>

#include <limits>

namespace anydim::codegen_cuda {

using ir::Dim;

IndexVariable write_variable(CodeScope& scope, KernelWriter& kernel, std::string_view stem,
                             bool wide, const std::string& expression) {
  IndexVariable variable{.name = kernel.fresh(stem), .wide = wide};
  scope.line(fmt::format("const {} {} = {};", index_type(wide), variable.name, expression));
  return variable;
}

void reserve_names(KernelWriter& kernel) {
  for (const char* name :
       {"memory", "shared",    "depth_tiles", "warp",  "ring",          "pieces",
        "step",   "warpgroup", "split",       "rank",  "share",         "first_tile",
        "round",  "advance",   "tiles",       "other", "sums",          "piece",
        "fetch",  "store",     "tile",        "to",    "piece_of_warp", "box_of_warp",
        "place",  "row",       "chunk",       "line",  "chunk_number",  "values",
        "word",   "part",      "i",           "j",     "first_depth"}) {
    kernel.fresh(name);
  }
}

bool fits_with(const KernelWriter& kernel, const Dim& dim, std::int64_t slack) {
  return kernel.interval_of(dim).high <= std::numeric_limits<std::int32_t>::max() - slack;
}

std::string converted(KernelWriter& kernel, ir::DType from, ir::DType to,
                      const std::string& value) {
  const ir::ScalarStep cast{to, ir::step::Apply{ir::Op::cast}};
  return elementwise(kernel, cast, from, {value});
}

void write_depth_share(KernelWriter& kernel, CodeScope& entry, std::int64_t split) {
  if (split == 1) {
    entry.line("const int first_tile = 0, tiles = depth_tiles;");
    return;
  }
  kernel.use("cluster");
  entry.line(fmt::format("constexpr int split = {};", split));
  entry.line(
      "const int rank = (int)(blockIdx.x % split), share = (depth_tiles + split - 1) / split;");
  entry.line(
      "const int first_tile = rank * share, tiles = depth_tiles - first_tile < share ? depth_tiles "
      "- first_tile : share;");
}

void write_unrolled(CodeScope& scope, std::int64_t count,
                    const std::function<void(CodeScope&)>& body) {
  CodeScope loop(&scope);
  body(loop);
  scope.line("#pragma unroll");
  scope.line(fmt::format("for (int i = 0; i < {}; ++i) {{", count));
  scope.append(loop.text());
  scope.line("}");
}

void write_operand_chunk(
    KernelWriter& kernel, CodeScope& scope, const ir::MatmulForm& form, const MatmulNames& names,
    const OperandChunk& chunk,
    const std::function<void(ScalarWriter& writer, CodeScope& point, const std::string& lane,
                             std::int32_t last)>& at_point) {
  const std::string first = fmt::format("chunk * {}", chunk.width);
  const IndexVariable row = write_variable(
      scope, kernel, to_string(chunk.row.variable), chunk.wide_row,
      fmt::format("{} + {}", chunk.first_row, chunk.along_rows ? first : chunk.line));
  const IndexVariable depth =
      write_variable(scope, kernel, to_string(form.k.variable), chunk.wide_depth,
                     fmt::format("first_depth + {}", chunk.along_rows ? chunk.line : first));
  kernel.block(
      scope,
      fmt::format("if ({} < {} && {} < {})", row.name, chunk.row_extent, depth.name,
                  names.depth.name),
      [&](CodeScope& inside) {
        if (chunk.along_rows) inside.define(form.k.variable, depth);
        else inside.define(chunk.row.variable, row);
        const LaneRange range{.variable = chunk.along_rows ? chunk.row.variable : form.k.variable,
                              .extent = chunk.along_rows ? chunk.row.extent : form.k.extent,
                              .width = chunk.width,
                              .first = chunk.along_rows ? row : depth,
                              .may_end = true};
        const auto last = static_cast<std::int32_t>(chunk.program.steps.size()) - 1;
        write_lanes(
            kernel, inside, range,
            {.program = chunk.program,
             .roots = {last},
             .stores = {},
             .at_point = [&](ScalarWriter& writer, CodeScope& point, const std::string& lane) {
               at_point(writer, point, lane, last);
             }});
      });
}

MatmulNames write_extents(KernelWriter& kernel, CodeScope& entry, const ir::MatmulForm& form,
                          bool with_depth) {
  return {
      .rows = name_index(kernel, entry, form.m.extent, "rows"),
      .columns = name_index(kernel, entry, form.n.extent, "columns"),
      .depth = with_depth ? name_index(kernel, entry, form.k.extent, "depth") : IndexVariable{}};
}

Dim tile_count(const ir::MatmulForm& form, const TileShape& shape) {
  Dim count = ir::ceil_div(form.m.extent, shape.rows) * ir::ceil_div(form.n.extent, shape.columns);
  for (const ir::Iteration& iteration : form.batch) count = count * iteration.extent;
  return count;
}

TileNames write_tile_counts(KernelWriter& kernel, CodeScope& entry, const ir::MatmulForm& form,
                            const MatmulNames& names, const TileShape& shape) {
  const auto tiles = [&](const char* stem, const IndexVariable& extent, std::int64_t size) {
    const std::string name = kernel.fresh(stem);
    entry.line(
        fmt::format("const int {} = (int)(({} + {}) / {});", name, extent.name, size - 1, size));
    return name;
  };
  TileNames result;
  result.down = tiles("tiles_down", names.rows, shape.rows);
  result.across = tiles("tiles_across", names.columns, shape.columns);
  std::string count = result.down + " * " + result.across;
  for (const ir::Iteration& iteration : form.batch)
    count += " * (int)" + write_index(kernel, entry, iteration.extent);
  result.count = kernel.fresh("tiles_in_all");
  entry.line(fmt::format("const int {} = {};", result.count, count));
  return result;
}

TilePlace write_tile_place(KernelWriter& kernel, CodeScope& scope, const ir::MatmulForm& form,
                           const TileNames& tiles, const TileShape& shape,
                           const std::string& tile) {
  kernel.use("matmul_tiles");
  kernel.use("index");
  const std::string place = kernel.fresh("place");
  scope.line(fmt::format("const TilePlace {} = place_tile<{}, {}>({}, {}, {});", place, shape.group,
                         form.batch.empty(), tile, tiles.down, tiles.across));
  TilePlace result;
  const bool wide_rows = !fits_with(kernel, form.m.extent, 1024),
             wide_columns = !fits_with(kernel, form.n.extent, 1024);
  result.first_row =
      write_variable(scope, kernel, "first_row", wide_rows,
                     fmt::format("({}){}.down * {}", index_type(wide_rows), place, shape.rows));
  result.first_column = write_variable(
      scope, kernel, "first_column", wide_columns,
      fmt::format("({}){}.across * {}", index_type(wide_columns), place, shape.columns));
  std::string rest = place + ".point";
  for (std::size_t i = form.batch.size(); i > 0; --i) {
    const ir::Iteration& iteration = form.batch[i - 1];
    if (i == 1) {
      scope.define(iteration.variable,
                   write_variable(scope, kernel, to_string(iteration.variable), false, rest));
      break;
    }
    const std::string extent = "(int)" + write_index(kernel, scope, iteration.extent);
    scope.define(iteration.variable,
                 write_variable(scope, kernel, to_string(iteration.variable), false,
                                fmt::format("remainder({}, {})", rest, extent)));
    rest = write_variable(scope, kernel, "points", false,
                          fmt::format("quotient({}, {})", rest, extent))
               .name;
  }
  return result;
}

void write_epilogue(KernelWriter& kernel, CodeScope& scope, const ir::MatmulForm& form,
                    const MatmulNames& names, const SumPiece& piece, const ResultBox* box) {
  kernel.use("vectors");
  const std::string place = kernel.fresh("element");
  const std::string start = fmt::format("{} * {}", piece.thread, piece.width);
  CodeScope loop(&scope);
  const std::string row = kernel.fresh("row_of_piece"), column = kernel.fresh("column_of_piece");
  if (piece.transposed) {
    const std::int64_t vectors = piece.rows / piece.width;  // down the piece
    loop.line(fmt::format("const int {0} = {2} / {3} % {4} * {3}, {1} = {2} / {5};", row, column,
                          place, piece.width, vectors, piece.rows));
  } else {
    loop.line(fmt::format("const int {0} = {2} / {3}, {1} = {2} % {3};", row, column, place,
                          piece.columns));
  }
  const std::string &row_of_product = piece.transposed ? column : row,
                    &column_of_product = piece.transposed ? row : column;
  const bool wide_m = !fits_with(kernel, form.m.extent, 1024),
             wide_n = !fits_with(kernel, form.n.extent, 1024);
  const std::string steps =
      piece.row_step == 1 ? row_of_product : fmt::format("{} * {}", row_of_product, piece.row_step);
  const IndexVariable m = write_variable(loop, kernel, to_string(form.m.variable), wide_m,
                                         fmt::format("{} + {}", piece.first_row, steps));
  const IndexVariable n =
      write_variable(loop, kernel, to_string(form.n.variable), wide_n,
                     fmt::format("{} + {}", piece.first_column, column_of_product));
  loop.line(fmt::format("if ({} >= {} || {} >= {}) continue;", m.name, names.rows.name, n.name,
                        names.columns.name));
  loop.define(form.m.variable, m);

  const std::string sum = kernel.fresh("sum");
  loop.line(fmt::format("{} {}[{}];", value_type(form.accumulate), sum, piece.width));
  const std::string from =
      fmt::format("{} + {} * {} + {}", piece.base, row_of_product, piece.pitch, column_of_product);
  if (piece.split > 1) {
    kernel.use("cluster");
    loop.line("#pragma unroll");
    loop.line(fmt::format("for (int i = 0; i < {}; ++i) {}[i] = 0;", piece.width, sum));
    loop.line("#pragma unroll");
    kernel.block(loop, fmt::format("for (int other = 0; other < {}; ++other)", piece.split),
                 [&](CodeScope& each) {
                   // No two blocks read the same one's memory at a time.
                   each.line(fmt::format("add_remote({}, {}, (rank + other) % {});", sum, from,
                                         piece.split));
                 });
  } else {
    loop.line(fmt::format("load_vector({}, {});", sum, from));
  }
  const LaneRange space{.variable = form.n.variable,
                        .extent = form.n.extent,
                        .width = piece.width,
                        .first = n,
                        .may_end = true};
  LaneProgram program{.program = form.epilogue, .roots = {}, .stores = form.stores, .at_point = {}};
  std::string results;
  if (box != nullptr) {
    program.roots = {box->result.step};
    program.stores.clear();
    const ir::DType dtype = kernel.output_type(static_cast<std::size_t>(box->result.output)).dtype;
    results = kernel.fresh("results");
    loop.line(fmt::format("{} {}[{}];", storage_type(dtype), results, piece.width));
  }
  program.at_point = [&](ScalarWriter& writer, CodeScope& point, const std::string& lane) {
    writer.set_accumulated(0, fmt::format("{}[{}]", sum, lane), point);
    if (box != nullptr)
      point.line(
          fmt::format("{}[{}] = {};", results, lane, writer.stored_value(point, box->result)));
  };
  write_lanes(kernel, loop, space, program);
  if (box != nullptr)
    loop.line(fmt::format("store_vector({} + {} * {} + {}, {});", box->memory, row, piece.columns,
                          column, results));

  scope.line(fmt::format("for (int {0} = {1}; {0} < {2}; {0} += {3} * {4}) {{", place, start,
                         piece.rows * piece.columns, piece.threads, piece.width));
  scope.append(loop.text());
  scope.line("}");
}

}  // namespace anydim::codegen_cuda
