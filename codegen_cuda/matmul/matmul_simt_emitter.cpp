// matmul_simt as CUDA C++; device/matmul_simt.cuh multiplies tiles.
#include "codegen_cuda/matmul/matmul_simt.h"

#include <fmt/format.h>

#include "codegen_cuda/device_struct.h"
#include "codegen_cuda/matmul/matmul_operands.h"
#include "codegen_cuda/matmul/matmul_parts.h"

namespace anydim::codegen_cuda {

namespace {

// A value has so many in a register and in a tile.
std::int64_t value_bytes(ir::DType dtype) {
  return ir::is_half(dtype) ? 4 : static_cast<std::int64_t>(ir::size_of(dtype));
}

constexpr int width = 4;  // elements that a thread fetches and finishes at a time

// Elements between rows of a tile: rows stay aligned, and rows below each other start in different
// banks.
std::int64_t pitch_of(std::int64_t elements) { return elements + width; }

class SimtEmitter {
 public:
  SimtEmitter(const PlanInputs& inputs, const ir::Bucket& bucket, const ir::Schedule& schedule)
      : kernel_(inputs, bucket,
                fmt::format("// {}: {}\n", inputs.region.name, to_string(schedule))),
        form_(std::get<ir::MatmulForm>(inputs.form.kind)), schedule_(SimtSchedule::from(schedule)),
        shape_{.rows = schedule_.block_rows,
               .columns = schedule_.block_columns,
               .group = schedule_.group},
        value_(value_type(form_.accumulate)), left_{.program = form_.left,
                                                    .row = form_.m,
                                                    .name = "left",
                                                    .tile_rows = schedule_.block_rows,
                                                    .major = Major::Depth},
        right_{.program = form_.right,
               .row = form_.n,
               .name = "right",
               .tile_rows = schedule_.block_columns,
               .major = Major::Depth} {
    left_.major = operand_major(inputs.region, form_.left, form_.m, form_.k, inputs.form.symbols);
    right_.major = operand_major(inputs.region, form_.right, form_.n, form_.k, inputs.form.symbols);
  }

  EmittedKernel run() {
    kernel_.use("vectors");
    kernel_.use("matmul_simt");
    reserve_names(kernel_);
    declare_tile();
    const bool dependent = kernel_.target().has_dependent_launch();
    CodeScope& entry = kernel_.begin_entry(
        {.name = "matmul",
         .threads = static_cast<int>(schedule_.threads()),
         .blocks = static_cast<int>(simt_resident_blocks(kernel_.inputs(), schedule_)),
         .tensor_maps = 0,
         .dependent = dependent});
    names_ = write_extents(kernel_, entry, form_);
    const TileNames tiles = write_tile_counts(kernel_, entry, form_, names_, shape_);
    entry.line("if ((int)blockIdx.x >= {}) return;", tiles.count);
    place_ = write_tile_place(kernel_, entry, form_, tiles, shape_, "(int)blockIdx.x");
    entry.line("extern __shared__ __align__(1024) unsigned char shared[];");
    entry.line("{0}* memory = reinterpret_cast<{0}*>(shared);", value_);
    entry.line("const int depth_tiles = (int)(({} + Tile::depth - 1) / Tile::depth);",
               names_.depth.name);
    write_tile(entry);
    kernel_.end_entry();

    return kernel_.finish({{.entry = "matmul",
                            .grid = {tile_count(form_, shape_), 1, 1},
                            .block = {static_cast<std::int32_t>(schedule_.threads()), 1, 1},
                            .shared_bytes = simt_shared_bytes(kernel_.inputs(), schedule_),
                            .dependent = dependent}});
  }

 private:
  struct Side {
    const ir::ScalarProgram& program;
    const ir::Iteration& row;
    const char* name;
    std::int64_t tile_rows;
    Major major;
  };

  // In shared memory: for each depth the rows of the left operand, then for each depth the columns
  // of the right one.
  void declare_tile() {
    kernel_.declare("struct Tile {\n" +
                    members({{"rows", schedule_.block_rows},
                             {"columns", schedule_.block_columns},
                             {"depth", schedule_.block_depth},
                             {"thread_rows", schedule_.thread_rows},
                             {"thread_columns", schedule_.thread_columns},
                             {"int", "threads_across", "columns / thread_columns"},
                             {"threads", schedule_.threads()},
                             {"left_pitch", pitch_of(schedule_.block_rows)},
                             {"right_pitch", pitch_of(schedule_.block_columns)},
                             {"int", "left_elements", "depth * left_pitch"},
                             {"int", "elements", "left_elements + depth * right_pitch"}}) +
                    "};\n\n");
  }

  std::int64_t pieces(const Side& side) const {
    return (side.tile_rows * schedule_.block_depth / width + schedule_.threads() - 1) /
           schedule_.threads();
  }

  void write_tile(CodeScope& scope) {
    for (const Side* side : {&left_, &right_})
      scope.line("{} {}_values[{}][{}];", value_, side->name, pieces(*side), width);
    write_lambda(scope, "fetch", "int tile", [&](CodeScope& body) {
      const bool wide = names_.depth.wide || !fits_with(kernel_, form_.k.extent, 1024);
      body.line("const {0} first_depth = ({0})tile * Tile::depth;", index_type(wide));
      write_fetch(body, left_, place_.first_row, names_.rows, wide);
      write_fetch(body, right_, place_.first_column, names_.columns, wide);
    });
    write_lambda(scope, "store", fmt::format("{}* to", value_), [&](CodeScope& body) {
      write_store(body, left_, "to", "Tile::left_pitch");
      write_store(body, right_, "to + Tile::left_elements", "Tile::right_pitch");
    });
    scope.line("{} sums[Tile::thread_rows][Tile::thread_columns] = {{}};", value_);
    scope.line("multiply_tiles_simt<Tile>(sums, memory, depth_tiles, fetch, store);");

    // One row of every thread's sums at a time goes through shared memory, so that the epilogue is
    // written once and runs along rows.
    const std::int64_t rows = schedule_.block_rows / schedule_.thread_rows,
                       pitch = pitch_of(schedule_.block_columns);
    scope.line("#pragma unroll 1");
    kernel_.block(
        scope, "for (int part = 0; part < Tile::thread_rows; ++part)", [&](CodeScope& body) {
          body.line("#pragma unroll");
          kernel_.block(body, "for (int i = 0; i < Tile::thread_rows; ++i)", [&](CodeScope& inner) {
            inner.line("if (i != part) continue;");
            inner.line(
                "store_vector(memory + (int)threadIdx.x / Tile::threads_across * {} + "
                "(int)threadIdx.x % Tile::threads_across * Tile::thread_columns, sums[i]);",
                pitch);
          });
          body.line("__syncthreads();");
          const SumPiece piece{.base = "memory",
                               .rows = rows,
                               .columns = schedule_.block_columns,
                               .pitch = pitch,
                               .first_row = fmt::format("{} + part", place_.first_row.name),
                               .row_step = schedule_.thread_rows,
                               .first_column = place_.first_column.name,
                               .thread = "(int)threadIdx.x",
                               .threads = schedule_.threads(),
                               .width = width};
          write_epilogue(kernel_, body, form_, names_, piece);
          body.line("__syncthreads();");
        });
  }

  // Element `place` of a tile in chunks of `width` along the direction that lies contiguous in
  // memory.
  void write_chunk_place(CodeScope& loop, const Side& side) const {
    const std::int64_t chunks =
        (side.major == Major::Depth ? schedule_.block_depth : side.tile_rows) / width;
    loop.line(
        "const int chunk_number = (int)threadIdx.x + i * Tile::threads, line = "
        "chunk_number / {0}, chunk = chunk_number % {0};",
        chunks);
    if (side.tile_rows * schedule_.block_depth / width % schedule_.threads() != 0)
      loop.line("if (chunk_number >= {}) break;", side.tile_rows * schedule_.block_depth / width);
  }

  void write_fetch(CodeScope& body, const Side& side, const IndexVariable& first,
                   const IndexVariable& extent, bool wide_depth) {
    write_unrolled(body, pieces(side), [&](CodeScope& loop) {
      write_chunk_place(loop, side);
      loop.line("#pragma unroll");
      loop.line("for (int j = 0; j < {}; ++j) {}_values[i][j] = 0;", width, side.name);
      write_operand_chunk(
          kernel_, loop, form_, names_,
          {.program = side.program,
           .row = side.row,
           .first_row = first.name,
           .row_extent = extent.name,
           .wide_row = first.wide,
           .wide_depth = wide_depth,
           .along_rows = side.major == Major::Rows,
           .width = width,
           .line = "line"},
          [&](ScalarWriter& writer, CodeScope& point, const std::string& lane, std::int32_t last) {
            const std::string value = writer.value(point, last);
            const std::string element =
                writer.dtype(last) == form_.accumulate
                    ? value
                    : converted(kernel_, writer.dtype(last), form_.accumulate, value);
            point.line("{}_values[i][{}] = {};", side.name, lane, element);
          });
    });
  }

  void write_store(CodeScope& body, const Side& side, const std::string& to,
                   const std::string& pitch) {
    write_unrolled(body, pieces(side), [&](CodeScope& loop) {
      write_chunk_place(loop, side);
      if (side.major == Major::Rows) {
        loop.line("store_vector({} + line * {} + chunk * {}, {}_values[i]);", to, pitch, width,
                  side.name);
      } else {
        loop.line("#pragma unroll");
        loop.line(
            "for (int j = 0; j < {0}; ++j) ({1})[(chunk * {0} + j) * {2} + line] = "
            "{3}_values[i][j];",
            width, to, pitch, side.name);
      }
    });
  }

  KernelWriter kernel_;
  const ir::MatmulForm& form_;
  SimtSchedule schedule_;
  TileShape shape_;
  std::string value_;
  Side left_, right_;
  MatmulNames names_;
  TilePlace place_;
};

}  // namespace

std::int64_t simt_shared_bytes(const PlanInputs& inputs, const SimtSchedule& schedule) {
  const auto& form = std::get<ir::MatmulForm>(inputs.form.kind);
  return 2 * schedule.block_depth *
         (pitch_of(schedule.block_rows) + pitch_of(schedule.block_columns)) *
         value_bytes(form.accumulate);
}

EmittedKernel emit_simt(const PlanInputs& inputs, const ir::Bucket& bucket,
                        const ir::Schedule& schedule) {
  return SimtEmitter(inputs, bucket, schedule).run();
}

}  // namespace anydim::codegen_cuda
