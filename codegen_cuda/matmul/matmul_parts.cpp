#include "codegen_cuda/matmul/matmul_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "codegen_cuda/matmul/matmul_operands.h"
#include "ir/loops/scalar_program.h"

namespace anydim::codegen_cuda {

IndexVariable write_variable(CodeScope& scope, KernelWriter& kernel, std::string_view stem,
                             bool wide, const std::string& expression) {
  IndexVariable variable{.name = kernel.fresh(stem), .wide = wide};
  scope.line("const {} {} = {};", index_type(wide), variable.name, expression);
  return variable;
}

void reserve_names(KernelWriter& kernel) {
  for (const char* name : {"memory",
                           "shared",
                           "depth_tiles",
                           "warp",
                           "pieces",
                           "rank",
                           "share",
                           "sums",
                           "piece",
                           "fetch",
                           "store",
                           "tile",
                           "tiles",
                           "to",
                           "place",
                           "row",
                           "piece_of_warp",
                           "chunk",
                           "chunk_number",
                           "values",
                           "word",
                           "part",
                           "i",
                           "j",
                           "first_depth",
                           "other",
                           "line",
                           "column",
                           "box",
                           "boxes",
                           "stage",
                           "full",
                           "results",
                           "finish",
                           "place_of",
                           "Tile",
                           "Place",
                           "Kernel",
                           "fetch_columns",
                           "fetch_rows"}) {
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

void write_unrolled(CodeScope& scope, std::int64_t count,
                    const std::function<void(CodeScope&)>& body) {
  CodeScope loop(&scope);
  body(loop);
  scope.line("#pragma unroll");
  scope.line("for (int i = 0; i < {}; ++i) {{", count);
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
        const std::int32_t last = ir::last_step(chunk.program);
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
  return ir::ceil_div(form.m.extent, shape.rows) * ir::ceil_div(form.n.extent, shape.columns) *
         ir::points_of(form.batch);
}

TileNames write_tile_counts(KernelWriter& kernel, CodeScope& entry, const ir::MatmulForm& form,
                            const MatmulNames& names, const TileShape& shape) {
  const auto tiles = [&](const char* stem, const IndexVariable& extent, std::int64_t size) {
    const std::string name = kernel.fresh(stem);
    entry.line("const int {} = (int)(({} + {}) / {});", name, extent.name, size - 1, size);
    return name;
  };
  TileNames result;
  result.down = tiles("tiles_down", names.rows, shape.rows);
  result.across = tiles("tiles_across", names.columns, shape.columns);
  std::string count = result.down + " * " + result.across;
  for (const ir::Iteration& iteration : form.batch)
    count += " * (int)" + write_index(kernel, entry, iteration.extent);
  result.count = kernel.fresh("tiles_in_all");
  entry.line("const int {} = {};", result.count, count);
  return result;
}

TilePlace write_tile_place(KernelWriter& kernel, CodeScope& scope, const ir::MatmulForm& form,
                           const TileNames& tiles, const TileShape& shape,
                           const std::string& tile) {
  kernel.use("matmul_tiles");
  kernel.use("index");
  const std::string place = kernel.fresh("place");
  scope.line("const TilePlace {} = place_tile<{}, {}>({}, {}, {});", place, shape.group,
             form.batch.empty(), tile, tiles.down, tiles.across);
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

namespace {

// Where an element of a piece lies, in the piece and in the product.
struct PieceElement {
  std::string row_of_product, column_of_product;  // in the piece
  IndexVariable m, n;
};

// Finds where element number `element` lies; the loop goes on where the product has no such one.
PieceElement write_element(KernelWriter& kernel, CodeScope& loop, const ir::MatmulForm& form,
                           const MatmulNames& names, const SumPiece& piece,
                           const std::string& element) {
  const std::string row = kernel.fresh("row_of_piece"), column = kernel.fresh("column_of_piece");
  if (piece.transposed) {
    const std::int64_t vectors = piece.rows / piece.width;  // down the piece
    loop.line(
        "const int {row} = {element} / {width} % {vectors} * {width}, {column} = {element} / "
        "{rows};",
        fmt::arg("row", row), fmt::arg("element", element), fmt::arg("width", piece.width),
        fmt::arg("vectors", vectors), fmt::arg("column", column), fmt::arg("rows", piece.rows));
  } else {
    loop.line("const int {0} = {2} / {3}, {1} = {2} % {3};", row, column, element, piece.columns);
  }
  PieceElement result{.row_of_product = piece.transposed ? column : row,
                      .column_of_product = piece.transposed ? row : column,
                      .m = {},
                      .n = {}};
  const std::string steps = piece.row_step == 1
                                ? result.row_of_product
                                : fmt::format("{} * {}", result.row_of_product, piece.row_step);
  result.m = write_variable(loop, kernel, to_string(form.m.variable),
                            !fits_with(kernel, form.m.extent, 1024),
                            fmt::format("{} + {}", piece.first_row, steps));
  result.n = write_variable(loop, kernel, to_string(form.n.variable),
                            !fits_with(kernel, form.n.extent, 1024),
                            fmt::format("{} + {}", piece.first_column, result.column_of_product));
  loop.line("if ({} >= {} || {} >= {}) continue;", result.m.name, names.rows.name, result.n.name,
            names.columns.name);
  loop.define(form.m.variable, result.m);
  return result;
}

// Loads of an epilogue that differ from row to row, all of a thread's under way together: behind a
// store to what may be the same memory each would wait for the one before.
struct RowFetches {
  std::int64_t together = 1;  // of a thread's vectors; 1: none is fetched ahead
  std::string turn;           // counts them
  std::string arrays, loop;   // declarations, and the body of a loop over turns
  std::vector<FetchedLoad> loads;
};

RowFetches fetch_rows(KernelWriter& kernel, CodeScope& scope, const ir::MatmulForm& form,
                      const MatmulNames& names, const SumPiece& piece, const std::string& element,
                      const LaneProgram& program) {
  constexpr std::int64_t most_registers = 16;
  RowFetches fetches{
      .together = 1, .turn = kernel.fresh("turn"), .arrays = {}, .loop = {}, .loads = {}};
  CodeScope all(&scope), loop(&all);
  const PieceElement at = write_element(kernel, loop, form, names, piece, element);
  const LaneRange space{.variable = form.n.variable,
                        .extent = form.n.extent,
                        .width = piece.width,
                        .first = at.n,
                        .may_end = true};
  fetches.loads = write_fetches(kernel, loop, space, program, form.m.variable, [&] {
    return fmt::format("{}[{}]", kernel.fresh_numbered("fetched"), fetches.turn);
  });
  std::int64_t registers = 0;
  for (const FetchedLoad& load : fetches.loads) {
    const auto bytes = piece.width * static_cast<std::int64_t>(ir::size_of(load.dtype));
    registers += (bytes + 3) / 4;
  }
  if (registers == 0 || 2 * registers > most_registers) return {};
  const std::int64_t vectors = piece.vectors_of_thread(), fitting = most_registers / registers,
                     rounds = (vectors + fitting - 1) / fitting;
  fetches.together = (vectors + rounds - 1) / rounds;
  if (fetches.together < 2) return {};
  for (const FetchedLoad& load : fetches.loads)
    fetches.arrays +=
        fmt::format("{} {}[{}][{}];\n", storage_type(load.dtype),
                    load.array.substr(0, load.array.find('[')), fetches.together, piece.width);
  fetches.loop = loop.text();
  return fetches;
}

}  // namespace

void write_epilogue(KernelWriter& kernel, CodeScope& scope, const ir::MatmulForm& form,
                    const MatmulNames& names, const SumPiece& piece, const ResultBox* box) {
  kernel.use("vectors");
  const std::string element = kernel.fresh("element");
  LaneProgram program{.program = form.epilogue, .roots = {}, .stores = form.stores, .at_point = {}};
  if (box != nullptr) {
    program.roots = {box->result.step};
    program.stores.clear();
  }
  RowFetches fetches;
  if (std::ranges::any_of(form.epilogue.steps,
                          [&](const ir::ScalarStep& step) { return is_load_by_row(form, step); }))
    fetches = fetch_rows(kernel, scope, form, names, piece, element, program);
  program.fetched = fetches.loads;

  CodeScope vectors(&scope), loop(fetches.together > 1 ? &vectors : &scope);
  const PieceElement at = write_element(kernel, loop, form, names, piece, element);
  const std::string sum = kernel.fresh("sum");
  loop.line("{} {}[{}];", value_type(form.accumulate), sum, piece.width);
  const std::string from = fmt::format("{} + {} * {} + {}", piece.base, at.row_of_product,
                                       piece.pitch, at.column_of_product);
  if (piece.split > 1) {
    kernel.use("cluster");
    loop.line("#pragma unroll");
    loop.line("for (int i = 0; i < {}; ++i) {}[i] = 0;", piece.width, sum);
    loop.line("#pragma unroll");
    kernel.block(loop, fmt::format("for (int other = 0; other < {}; ++other)", piece.split),
                 [&](CodeScope& each) {
                   // No two blocks read the same one's memory at a time.
                   each.line("add_remote({}, {}, (rank + other) % {});", sum, from, piece.split);
                 });
  } else {
    loop.line("load_vector({}, {});", sum, from);
  }
  const LaneRange space{.variable = form.n.variable,
                        .extent = form.n.extent,
                        .width = piece.width,
                        .first = at.n,
                        .may_end = true};
  std::string results;
  if (box != nullptr) {
    const ir::DType dtype = kernel.output_type(static_cast<std::size_t>(box->result.output)).dtype;
    results = kernel.fresh("results");
    loop.line("{} {}[{}];", storage_type(dtype), results, piece.width);
  }
  program.at_point = [&](ScalarWriter& writer, CodeScope& point, const std::string& lane) {
    writer.set_accumulated(0, fmt::format("{}[{}]", sum, lane), point);
    if (box != nullptr)
      point.line("{}[{}] = {};", results, lane, writer.stored_value(point, box->result));
  };
  write_lanes(kernel, loop, space, program);
  if (box != nullptr)
    loop.line("store_vector({} + {} * {} + {}, {});", box->memory, at.row_of_product, piece.columns,
              at.column_of_product, results);

  const std::int64_t elements = piece.rows * piece.columns, stride = piece.threads * piece.width;
  const std::string start = fmt::format("{} * {}", piece.thread, piece.width);
  if (piece.once) scope.line("#pragma unroll 1");
  if (fetches.together == 1) {
    scope.line(
        counting_loop(false, element, start, std::to_string(elements), std::to_string(stride)) +
        " {");
    scope.append(loop.text());
    scope.line("}");
    return;
  }
  const std::string first = kernel.fresh("first_element");
  vectors.line(fetches.arrays);
  for (const std::string& text : {fetches.loop, loop.text()}) {
    vectors.line("#pragma unroll");
    vectors.line("for (int {0} = 0; {0} < {1}; ++{0}) {{", fetches.turn, fetches.together);
    vectors.line("  const int {} = {} + {} * {};", element, first, fetches.turn, stride);
    if (elements % (fetches.together * stride) != 0)
      vectors.line("  if ({} >= {}) break;", element, elements);
    vectors.append(text);
    vectors.line("}");
  }
  scope.line(counting_loop(false, first, start, std::to_string(elements),
                           std::to_string(fetches.together * stride)) +
             " {");
  scope.append(vectors.text());
  scope.line("}");
}

}  // namespace anydim::codegen_cuda
