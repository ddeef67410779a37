// matmul_mma as CUDA C++: device/matmul_mma.cuh multiplies tiles; what is written here brings
// operands into them and sums out of them.
#include "codegen_cuda/matmul/matmul_mma.h"

#include <fmt/format.h>

#include "codegen_cuda/device_struct.h"
#include "codegen_cuda/matmul/matmul_parts.h"

namespace anydim::codegen_cuda {

namespace {

class MmaEmitter {
 public:
  MmaEmitter(const PlanInputs& inputs, const ir::Bucket& bucket, const ir::Schedule& schedule)
      : kernel_(inputs, bucket,
                fmt::format("// {}: {}\n", inputs.region.name, to_string(schedule))),
        form_(std::get<ir::MatmulForm>(inputs.form.kind)), schedule_(MmaSchedule::from(schedule)),
        operands_(mma_operands(inputs, schedule_.tf32).value()),
        shape_{.rows = schedule_.block_rows,
               .columns = schedule_.block_columns,
               .group = schedule_.group} {}

  EmittedKernel run() {
    kernel_.use("vectors");
    kernel_.use("tensor_cores");
    kernel_.use("matmul_mma");
    reserve_names(kernel_);
    declare_tile();
    const bool dependent = kernel_.target().has_dependent_launch();
    CodeScope& entry = kernel_.begin_entry(
        {.name = "matmul",
         .threads = static_cast<int>(schedule_.threads()),
         .blocks = static_cast<int>(mma_resident_blocks(kernel_.inputs(), schedule_, operands_)),
         .tensor_maps = 0,
         .dependent = dependent});
    names_ = write_extents(kernel_, entry, form_);
    const TileNames tiles = write_tile_counts(kernel_, entry, form_, names_, shape_);
    const std::string tile = schedule_.split == 1
                                 ? "(int)blockIdx.x"
                                 : fmt::format("(int)(blockIdx.x / {})", schedule_.split);
    entry.line("if ({} >= {}) return;", tile, tiles.count);
    place_ = write_tile_place(kernel_, entry, form_, tiles, shape_, tile);
    entry.line("extern __shared__ __align__(1024) unsigned char shared[];");
    entry.line("const unsigned memory = (unsigned)__cvta_generic_to_shared(shared);");
    entry.line("const int depth_tiles = (int)(({} + Tile::depth - 1) / Tile::depth);",
               names_.depth.name);
    if (schedule_.split > 1) {
      kernel_.use("cluster");
      entry.line("const int rank = (int)(blockIdx.x % {});", schedule_.split);
    }
    entry.line("const DepthShare share = share_depth<{}>({}, depth_tiles);", schedule_.split,
               schedule_.split > 1 ? "rank" : "0");
    entry.line("const int warp = (int)(threadIdx.x / 32);");
    write_tile(entry);
    kernel_.end_entry();

    return kernel_.finish({{.entry = "matmul",
                            .grid = {tile_count(form_, shape_) * schedule_.split, 1, 1},
                            .block = {static_cast<std::int32_t>(schedule_.threads()), 1, 1},
                            .cluster = {static_cast<std::int32_t>(schedule_.split), 1, 1},
                            .shared_bytes = schedule_.shared_bytes(),
                            .dependent = dependent}});
  }

 private:
  struct Side {
    const TensorOperand& operand;
    const ir::Iteration& row;
    const char* name;           // "left", "right"
    std::int64_t tile_rows;     // of the product
    std::string first, extent;  // of the block's rows; names
    bool wide;
  };
  Side left() const {
    return {operands_.left,
            form_.m,
            "left",
            schedule_.block_rows,
            place_.first_row.name,
            names_.rows.name,
            place_.first_row.wide};
  }
  Side right() const {
    return {operands_.right,
            form_.n,
            "right",
            schedule_.block_columns,
            place_.first_column.name,
            names_.columns.name,
            place_.first_column.wide};
  }
  std::int64_t chunks(const Side& side) const {
    return (side.operand.major == Major::Depth ? schedule_.block_depth : side.tile_rows) /
           operands_.chunk();
  }

  // Operands lie in shared memory as rows of 16-byte chunks: of depth, or of rows or columns of the
  // product where "by rows".
  void declare_tile() {
    const std::string bytes = std::to_string(schedule_.element_bytes());
    kernel_.declare("struct Tile {\n" +
                    members({{"rows", schedule_.block_rows},
                             {"columns", schedule_.block_columns},
                             {"depth", schedule_.block_depth},
                             {"stages", schedule_.stages},
                             {"warps_across", schedule_.warps_across},
                             {"warp_rows", schedule_.warp_rows()},
                             {"warp_columns", schedule_.warp_columns()},
                             {"threads", schedule_.threads()},
                             {"tf32", schedule_.tf32},  // f32 rounded to TF32
                             {"brain", operands_.dtype == ir::DType::BF16},
                             {"left_by_rows", operands_.left.major == Major::Rows},
                             {"right_by_rows", operands_.right.major == Major::Rows},
                             {"left_chunks", chunks(left())},
                             {"right_chunks", chunks(right())},
                             {"unsigned", "left_bytes", "rows * depth * " + bytes},
                             {"unsigned", "stage_bytes", "left_bytes + columns * depth * " + bytes},
                             {"piece_columns", schedule_.piece_columns()}}) +
                    "};\n\n");
  }

  // Sums of one tile, then its epilogue.
  void write_tile(CodeScope& scope) {
    for (const Side& side : {left(), right()}) {
      if (side.operand.direct) write_source(scope, side);
      else scope.line("unsigned {}_words[{}][4];", side.name, pieces(side));
    }
    write_lambda(scope, "fetch", "int tile, unsigned to", [&](CodeScope& body) {
      const bool wide = names_.depth.wide || !fits_with(kernel_, form_.k.extent, 1024);
      body.line("const {0} first_depth = ({0})(share.first + tile) * Tile::depth;",
                index_type(wide));
      for (const Side& side : {left(), right()}) {
        if (side.operand.direct) write_copy(body, side);
        else write_computation(body, side, wide);
      }
    });
    write_lambda(scope, "store", "unsigned to", [&](CodeScope& body) {
      for (const Side& side : {left(), right()}) {
        if (!side.operand.direct) write_placing(body, side);
      }
    });
    scope.line("float sums[Tile::warp_rows / 16][Tile::warp_columns / 8][4] = {};");
    scope.line("multiply_tiles<Tile>(sums, memory, share.tiles, fetch, store);");
    scope.line(
        "__syncthreads();  // no warp reads operands any more: pieces of sums lie in their place");

    const PieceLayout layout = schedule_.piece();
    const std::int64_t columns = schedule_.piece_columns(),
                       across = schedule_.warp_columns() / columns;
    scope.line("float* piece_of_warp = reinterpret_cast<float*>(shared) + warp * {};",
               layout.elements);
    scope.line("#pragma unroll 1");
    const std::int64_t pieces_of_warp = schedule_.warp_rows() / 16 * across;
    const char* meeting = schedule_.split == 1
                              ? "__syncwarp();"
                              : "synchronise_cluster();";  // of those that read a piece
    kernel_.block(scope, fmt::format("for (int piece = 0; piece < {}; ++piece)", pieces_of_warp),
                  [&](CodeScope& body) {
                    if (pieces_of_warp > 1)
                      body.line("if (piece > 0) {}  // the piece before has been read", meeting);
                    body.line("store_piece<Tile::piece_columns>(piece_of_warp, sums, piece);");
                    body.line(meeting);
                    const SumPiece piece{
                        .base = "piece_of_warp",
                        .rows = 16,
                        .columns = columns,
                        .pitch = layout.pitch,
                        .first_row = fmt::format(
                            "{} + warp / Tile::warps_across * Tile::warp_rows + piece / {} * 16",
                            place_.first_row.name, across),
                        .first_column = fmt::format(
                            "{} + warp % Tile::warps_across * Tile::warp_columns + piece % {} * {}",
                            place_.first_column.name, across, columns),
                        .thread = schedule_.split == 1 ? "(int)(threadIdx.x % 32)"
                                                       : "(rank * 32 + (int)(threadIdx.x % 32))",
                        .threads = 32 * schedule_.split,
                        .split = static_cast<int>(schedule_.split)};
                    write_epilogue(kernel_, body, form_, names_, piece);
                  });
    if (schedule_.split > 1)
      scope.line("synchronise_cluster();  // others read this block's sums until here");
  }

  // The first element of the block's rows of a direct operand.
  void write_source(CodeScope& scope, const Side& side) {
    const DirectOperand& direct = *side.operand.direct;
    const auto buffer = static_cast<std::size_t>(direct.buffer);
    const IndexVariable stride =
        name_index(kernel_, scope, direct.stride, fmt::format("{}_stride", side.name));
    const std::string offset = write_index(kernel_, scope, direct.offset);
    const std::string step = side.operand.major == Major::Depth
                                 ? fmt::format("(long long){} * {}", side.first, stride.name)
                                 : side.first;
    scope.line("const {}* {}_source = {} + {} + {};", storage_type(operands_.dtype), side.name,
               kernel_.buffer(buffer), offset, step);
    strides_[side.name] = stride.name;
  }

  void write_copy(CodeScope& body, const Side& side) {
    const std::string to = side.name == std::string("left") ? "to" : "to + Tile::left_bytes";
    const auto whole = [&](const Dim& extent, std::int64_t size) {
      return ir::divisor(extent, kernel_.symbols()) % size == 0;
    };
    const std::string rows_left = whole(side.row.extent, side.tile_rows)
                                      ? std::to_string(side.tile_rows)
                                      : fmt::format("{} - {}", side.extent, side.first);
    const std::string depth_left = whole(form_.k.extent, schedule_.block_depth)
                                       ? "Tile::depth"
                                       : fmt::format("{} - first_depth", names_.depth.name);
    const std::string tile_rows = side.name == std::string("left") ? "Tile::rows" : "Tile::columns";
    const std::string& stride = strides_.at(side.name);
    if (side.operand.major == Major::Depth) {
      body.line(
          "copy_tile<{rows}, Tile::{side}_chunks, Tile::threads, {whole}>({to}, {side}_source + "
          "first_depth, {stride}, {rows_left}, {depth_left});",
          fmt::arg("rows", tile_rows), fmt::arg("side", side.name),
          fmt::arg("whole", whole(form_.k.extent, operands_.chunk())), fmt::arg("to", to),
          fmt::arg("stride", stride), fmt::arg("rows_left", rows_left),
          fmt::arg("depth_left", depth_left));
    } else {
      body.line(
          "copy_tile<Tile::depth, Tile::{side}_chunks, Tile::threads, {whole}>({to}, {side}_source "
          "+ (long long)first_depth * {stride}, {stride}, {depth_left}, {rows_left});",
          fmt::arg("side", side.name), fmt::arg("whole", whole(side.row.extent, operands_.chunk())),
          fmt::arg("to", to), fmt::arg("stride", stride), fmt::arg("depth_left", depth_left),
          fmt::arg("rows_left", rows_left));
    }
  }

  // Chunks of a tile that a thread computes, rounded up.
  std::int64_t pieces(const Side& side) const {
    return (side.tile_rows * schedule_.block_depth / operands_.chunk() + schedule_.threads() - 1) /
           schedule_.threads();
  }
  bool even(const Side& side) const {
    return side.tile_rows * schedule_.block_depth / operands_.chunk() % schedule_.threads() == 0;
  }

  void write_chunk_place(CodeScope& body, const Side& side) {
    body.line(
        "const unsigned place = threadIdx.x + i * Tile::threads;\n"
        "const int row = (int)(place / Tile::{0}_chunks), chunk = (int)(place % Tile::{0}_chunks);",
        side.name);
    if (!even(side))
      body.line("if (place >= {}) break;",
                side.tile_rows * schedule_.block_depth / operands_.chunk());
  }

  // Elements that a program computes: 16 bytes at a time, in registers until the tile that they go
  // to is free.
  void write_computation(CodeScope& body, const Side& side, bool wide_depth) {
    write_unrolled(body, pieces(side), [&](CodeScope& loop) {
      write_chunk_place(loop, side);
      loop.line("float values[{}] = {{}};", operands_.chunk());
      write_operand_chunk(
          kernel_, loop, form_, names_,
          {.program = side.operand.program,
           .row = side.row,
           .first_row = side.first,
           .row_extent = side.extent,
           .wide_row = side.wide,
           .wide_depth = wide_depth,
           .along_rows = side.operand.major == Major::Rows,
           .width = static_cast<int>(operands_.chunk()),
           .line = "row"},
          [&](ScalarWriter& writer, CodeScope& point, const std::string& lane, std::int32_t last) {
            point.line("values[{}] = {};", lane, writer.value(point, last));
          });
      loop.line("#pragma unroll");
      const char* word = schedule_.tf32
                             ? "__float_as_uint(values[word])"
                             : "pack<Tile::brain>(values[2 * word], values[2 * word + 1])";
      loop.line("for (int word = 0; word < 4; ++word) {}_words[i][word] = {};", side.name, word);
    });
  }

  void write_placing(CodeScope& body, const Side& side) {
    write_unrolled(body, pieces(side), [&](CodeScope& loop) {
      write_chunk_place(loop, side);
      loop.line("store_shared(to + {} + swizzled<Tile::{}_chunks>(row, chunk), {}_words[i]);",
                side.name == std::string("left") ? "0" : "Tile::left_bytes", side.name, side.name);
    });
  }

  KernelWriter kernel_;
  const ir::MatmulForm& form_;
  MmaSchedule schedule_;
  TensorOperands operands_;
  TileShape shape_;
  MatmulNames names_;
  TilePlace place_;
  std::map<std::string, std::string, std::less<>> strides_;
};

}  // namespace

EmittedKernel emit_mma(const PlanInputs& inputs, const ir::Bucket& bucket,
                       const ir::Schedule& schedule) {
  return MmaEmitter(inputs, bucket, schedule).run();
}

}  // namespace anydim::codegen_cuda
