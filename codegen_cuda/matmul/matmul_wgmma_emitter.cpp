// matmul_wgmma as CUDA C++: the producer warpgroup starts copies, consumer warpgroups multiply and
// finish their rows (device/matmul_wgmma.cuh).
#include <fmt/format.h>

#include "codegen_cuda/device_struct.h"
#include "codegen_cuda/form_facts.h"
#include "codegen_cuda/matmul/matmul_fragments.h"
#include "codegen_cuda/matmul/matmul_parts.h"
#include "codegen_cuda/matmul/matmul_wgmma.h"
#include "ir/error.h"

namespace anydim::codegen_cuda {

namespace {

// of an operand whose rows lie contiguous: 128 bytes, a swizzle's span
constexpr std::int64_t rows_side_by_side = 64;

class WgmmaEmitter {
 public:
  WgmmaEmitter(const PlanInputs& inputs, const ir::Bucket& bucket, const ir::Schedule& schedule,
               bool checked)
      : kernel_(inputs, bucket,
                fmt::format("// {}: {}{}\n", inputs.region.name, to_string(schedule),
                            checked ? ", checked" : "")),
        form_(std::get<ir::MatmulForm>(inputs.form.kind)), schedule_(WgmmaSchedule::from(schedule)),
        operands_(inputs.facts->tma.value()),
        result_(schedule_.tma_store != 0 ? operands_.result : nullptr), checked_(checked),
        registers_(schedule_.registers(inputs.target.registers_per_multiprocessor)),
        early_weights_(inputs.region.is_weight(static_cast<std::size_t>(operands_.right.buffer))),
        shape_{.rows = schedule_.swap_ab ? schedule_.block_columns
                                         : schedule_.block_rows * schedule_.multicast_columns,
               .columns = schedule_.swap_ab ? schedule_.block_rows
                                            : schedule_.block_columns * schedule_.multicast_rows,
               .group = schedule_.group} {}

  EmittedKernel run() {
    for (const char* piece : {"vectors", "matmul_tiles", "tensor_map", "checked_wait", "barriers",
                              "wgmma", "matmul_wgmma"})
      kernel_.use(piece);
    reserve_names(kernel_);
    declare_tile();
    CodeScope& entry = kernel_.begin_entry({.name = "matmul",
                                            .threads = static_cast<int>(schedule_.threads()),
                                            .blocks = static_cast<int>(schedule_.blocks),
                                            .tensor_maps = result_ != nullptr ? 3 : 2,
                                            .dependent = true,
                                            .waits_later = true});
    names_ = write_extents(kernel_, entry, form_, false);
    tiles_ = write_tile_counts(kernel_, entry, form_, names_, shape_);
    // A cluster whose blocks bring tiles to each other has one tile as high, or as wide, as all of
    // theirs.
    const std::int64_t together = schedule_.split * schedule_.sharing();
    first_tile_number_ =
        together == 1 ? "(int)blockIdx.x" : fmt::format("(int)(blockIdx.x / {})", together);
    kernel_.block(entry, fmt::format("if ({} >= {})", first_tile_number_, tiles_.count),
                  [&](CodeScope& surplus) {
                    kernel_.wait_for_earlier_launches(surplus);
                    surplus.line("return;");
                  });
    entry.line("extern __shared__ __align__(1024) unsigned char shared[];");
    entry.line("const Ring<Tile> ring{(unsigned)__cvta_generic_to_shared(shared)};");
    kernel_.block(entry, "if (threadIdx.x == 0)", [&](CodeScope& first) {
      first.line("prefetch_map(tensor_map0);");
      first.line("prefetch_map(tensor_map1);");
      if (result_ != nullptr) first.line("prefetch_map(tensor_map2);");
      first.line("ring.initialise();");
    });
    if (shares()) {
      kernel_.use("cluster");
      entry.line(fmt::format("const int rank = (int)(blockIdx.x % {});", schedule_.sharing()));
      entry.line(
          "synchronise_cluster();  // no block copies into another before that one's barriers are "
          "there");
    } else {
      entry.line("__syncthreads();");
    }
    entry.line(fmt::format(
        "constexpr int depth_tiles = {};",
        (*form_.k.extent.constant() + schedule_.block_depth - 1) / schedule_.block_depth));
    write_depth_share(kernel_, entry, schedule_.split);
    // The same value in all lanes, which the compiler can't tell of threadIdx.x.
    entry.line("const int warpgroup = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 128), 0);");

    std::optional<TilePlace> place;  // the block's only one
    if (!schedule_.persistent) place = write_place(entry, first_tile_number_);
    kernel_.block(entry, "if (warpgroup == 0)",
                  [&](CodeScope& scope) { write_copies(scope, place); });
    kernel_.block(entry, "else", [&](CodeScope& scope) { write_products(scope, place); });
    if (shares())
      entry.line(
          "synchronise_cluster();  // others may still copy here, or say that they have read");
    kernel_.end_entry();

    EmittedKernel result{.waits = true};
    ir::Dim blocks = tile_count(form_, shape_);
    if (schedule_.persistent) {
      const std::int64_t at_once = kernel_.target().multiprocessors * schedule_.blocks / together;
      blocks = ir::min(blocks, std::max<std::int64_t>(at_once, 1));
    }
    blocks = blocks * together;
    ir::DeviceLaunch launch{.entry = "matmul",
                            .grid = {blocks, 1, 1},
                            .block = {static_cast<std::int32_t>(schedule_.threads()), 1, 1},
                            .cluster = {static_cast<std::int32_t>(together), 1, 1},
                            .shared_bytes = schedule_.shared_bytes(),
                            .dependent = true};
    launch.tensor_maps = {
        map_of(first_operand(), schedule_.block_rows / schedule_.multicast_rows),
        map_of(second_operand(), schedule_.block_columns / schedule_.multicast_columns)};
    if (result_ != nullptr) launch.tensor_maps.push_back(map_of_result());
    result.launches.push_back(std::move(launch));
    result.source = kernel_.finish();
    result.entries = kernel_.entries();
    return result;
  }

 private:
  // The tensor cores multiply a first by a second operand: the first gives the rows of a tile, the
  // second its columns. Under swap_ab the model's right operand is the first.
  const TmaOperand& first_operand() const {
    return schedule_.swap_ab ? operands_.right : operands_.left;
  }
  const TmaOperand& second_operand() const {
    return schedule_.swap_ab ? operands_.left : operands_.right;
  }
  bool shares() const { return schedule_.sharing() > 1; }

  ir::TensorMap map_of(const TmaOperand& operand, std::int64_t rows) const {
    constexpr int swizzle_bytes = 128;
    const std::int64_t box_rows = operand.major == Major::Rows ? rows_side_by_side : rows;
    ir::TensorMap map{.buffer = operand.buffer,
                      .dtype = operands_.dtype,
                      .dims = operand.dims,
                      .strides = operand.strides,
                      .box = {static_cast<std::int32_t>(schedule_.block_depth),
                              static_cast<std::int32_t>(box_rows)},
                      .swizzle_bytes = swizzle_bytes};
    while (map.box.size() < map.dims.size()) map.box.push_back(1);
    return map;
  }

  // Of all rows of the result. A box is a warp's piece, which it writes in whole rows, so that it
  // needs no swizzle to be free of bank conflicts; fragments do.
  ir::TensorMap map_of_result() const {
    const std::int64_t columns = form_.n.extent.constant().value();
    constexpr std::int32_t box_rows = 16;
    return {.buffer = static_cast<std::int32_t>(kernel_.parameters()) + result_->output,
            .dtype = kernel_.output_type(static_cast<std::size_t>(result_->output)).dtype,
            .dims = {ir::Dim(columns),
                     ir::max(form_.m.extent,
                             1)},  // a map of an empty tensor can't be made, and is not used
            .strides = {ir::Dim(columns * schedule_.tma_store)},
            .box = {static_cast<std::int32_t>(schedule_.piece_columns()), box_rows},
            .swizzle_bytes = schedule_.fragments ? 128 : 0};
  }

  // Operands lie in shared memory as rows of 64 elements of depth.
  void declare_tile() {
    const bool left_by_rows = first_operand().major == Major::Rows,
               right_by_rows = second_operand().major == Major::Rows;
    kernel_.declare("struct Tile {\n" +
                    members({{"rows", schedule_.block_rows},
                             {"columns", schedule_.block_columns},
                             {"depth", schedule_.block_depth},
                             {"stages", schedule_.stages},
                             {"reading_warps", schedule_.block_rows / 16},  // of a stage
                             {"in_turn", schedule_.pingpong},
                             {"sharing_blocks", schedule_.sharing()},
                             {"checked", checked_},
                             {"persistent", schedule_.persistent},
                             {"split", static_cast<int>(schedule_.split)},
                             {"left_by_rows", left_by_rows},
                             {"right_by_rows", right_by_rows},
                             {"unsigned", "left_bytes", "rows * depth * 2"},
                             {"unsigned", "stage_bytes", "left_bytes + columns * depth * 2"},
                             {"piece_columns", schedule_.piece_columns()}}) +
                    member(Multiplication{.name = "multiply",
                                          .columns = schedule_.block_columns,
                                          .brain = operands_.dtype == ir::DType::BF16,
                                          .left_by_rows = left_by_rows,
                                          .right_by_rows = right_by_rows}) +
                    "};\n\n");
  }

  // Coordinates of an operand's batch point.
  std::string batch_coordinates(CodeScope& scope, const TmaOperand& operand) {
    std::string text;
    for (const ir::DimLeaf& variable : operand.batch) text += ", " + scope.find(variable)->name;
    return text;
  }

  // Of the block's part of a tile.
  TilePlace write_place(CodeScope& scope, const std::string& tile) {
    TilePlace place = write_tile_place(kernel_, scope, form_, tiles_, shape_, tile);
    if (schedule_.multicast_columns > 1) {
      place.first_row = write_variable(scope, kernel_, "first_row_of_block", place.first_row.wide,
                                       fmt::format("{} + rank * Tile::rows", place.first_row.name));
    }
    if (schedule_.multicast_rows > 1) {
      place.first_column =
          write_variable(scope, kernel_, "first_column_of_block", place.first_column.wide,
                         fmt::format("{} + rank * Tile::columns", place.first_column.name));
    }
    return place;
  }

  // Tiles between two of a block.
  std::string tiles_advance() const {
    return shares() ? fmt::format("(int)(gridDim.x / {})", schedule_.sharing()) : "(int)gridDim.x";
  }

  // `only`: where the block's tile lies, if it has one; else it walks along the tiles.
  void write_tiles(CodeScope& scope, const std::optional<TilePlace>& only,
                   const std::function<void(CodeScope&, const TilePlace&)>& body) {
    if (only) {
      scope.line("constexpr int step = 0;");
      return body(scope, *only);
    }
    scope.line("int step = 0;");
    kernel_.block(scope,
                  fmt::format("for (int tile = {}; tile < {}; tile += {}, step += tiles)",
                              first_tile_number_, tiles_.count, tiles_advance()),
                  [&](CodeScope& loop) { body(loop, write_place(loop, "tile")); });
  }

  // Every other one of the block's tiles, by each of two warpgroups.
  void write_own_tiles(CodeScope& scope,
                       const std::function<void(CodeScope&, const TilePlace&)>& body) {
    scope.line(fmt::format("const int advance = {};", tiles_advance()));
    scope.line("int step = (warpgroup - 1) * tiles, round = 0;");
    kernel_.block(
        scope,
        fmt::format(
            "for (int tile = {} + (warpgroup - 1) * advance; tile < {}; tile += 2 * advance, "
            "step += 2 * tiles, ++round)",
            first_tile_number_, tiles_.count),
        [&](CodeScope& loop) { body(loop, write_place(loop, "tile")); });
  }

  // Starts the copies of one stage of an operand; `first`: its first row. Where blocks share it: of
  // this block's part, to all of them.
  void write_boxes(CodeScope& scope, const TmaOperand& operand, int map, std::int64_t rows,
                   const std::string& to, std::string first, std::int64_t blocks) {
    std::string target = to, function = "load_box", after = batch_coordinates(scope, operand);
    if (blocks > 1) {
      rows /= blocks;
      target = "part";
      scope.line(fmt::format("const unsigned part = {} + (unsigned)rank * {};", to,
                             rows * schedule_.block_depth * 2));
      first += fmt::format(" + rank * {}", rows);
      function = "load_box_for";
      after = fmt::format(", {}", (1 << blocks) - 1);
    }
    const std::string depth = "(first_tile + i) * Tile::depth";
    if (operand.major == Major::Depth) {
      scope.line(fmt::format("{}({}, tensor_map{}, full, {}, {}{});", function, target, map, depth,
                             first, after));
      return;
    }
    for (std::int64_t chunk = 0; chunk < rows / rows_side_by_side; ++chunk) {
      scope.line(fmt::format("{}({} + {}, tensor_map{}, full, {} + {}, {}{});", function, target,
                             chunk * rows_side_by_side * schedule_.block_depth * 2, map, first,
                             chunk * rows_side_by_side, depth, after));
    }
  }

  void copy_first(CodeScope& scope, const TilePlace& place) {
    write_boxes(scope, first_operand(), 0, schedule_.block_rows, "to",
                "(int)" + (schedule_.swap_ab ? place.first_column : place.first_row).name,
                schedule_.multicast_rows);
  }
  void copy_second(CodeScope& scope, const TilePlace& place) {
    write_boxes(scope, second_operand(), 1, schedule_.block_columns, "to + Tile::left_bytes",
                "(int)" + (schedule_.swap_ab ? place.first_row : place.first_column).name,
                schedule_.multicast_columns);
  }
  void copy_weights(CodeScope& scope, const TilePlace& place) {
    if (schedule_.swap_ab) copy_first(scope, place);
    else copy_second(scope, place);
  }
  void copy_rows(CodeScope& scope, const TilePlace& place) {
    if (schedule_.swap_ab) copy_second(scope, place);
    else copy_first(scope, place);
  }
  // Weights depend on no launch: those of the stages that are free at the start come while the
  // launch ahead still runs.
  void write_early_weights(CodeScope& scope, const std::optional<TilePlace>& only) {
    scope.line("const int early = min(tiles, Tile::stages);  // stages that have their weights");
    kernel_.block(scope, "if (threadIdx.x == 0)", [&](CodeScope& one) {
      const TilePlace place = only ? *only : write_place(one, first_tile_number_);
      one.line("#pragma unroll 1");
      kernel_.block(one, "for (int i = 0; i < early; ++i)", [&](CodeScope& inner) {
        inner.line("const unsigned to = ring.stage(i), full = ring.full(i);");
        inner.line("ring.begin_free_stage(i);");
        copy_weights(inner, place);
      });
    });
  }

  void write_copies(CodeScope& scope, const std::optional<TilePlace>& only) {
    if (registers_.producer != 0)
      scope.line(fmt::format("give_registers<{}>();", registers_.producer));
    if (early_weights_) write_early_weights(scope, only);
    kernel_.wait_for_earlier_launches(scope);
    kernel_.block(scope, "if (threadIdx.x == 0)", [&](CodeScope& one) {
      write_tiles(one, only, [&](CodeScope& loop, const TilePlace& place) {
        loop.line("#pragma unroll 1");
        kernel_.block(loop, "for (int i = 0; i < tiles; ++i)", [&](CodeScope& inner) {
          inner.line("const unsigned to = ring.stage(step + i), full = ring.full(step + i);");
          const auto begin = [&](CodeScope& stage) {
            stage.line("ring.begin_stage(step + i, error);");
            copy_weights(stage, place);
          };
          if (early_weights_) kernel_.block(inner, "if (step + i >= early)", begin);
          else begin(inner);
          copy_rows(inner, place);
        });
      });
    });
    if (schedule_.split > 1)
      scope.line("attend_cluster();  // until the consumers have put down their sums");
  }

  void write_products(CodeScope& scope, const std::optional<TilePlace>& only) {
    if (registers_.consumer != 0)
      scope.line(fmt::format("take_registers<{}>();", registers_.consumer));
    kernel_.wait_for_earlier_launches(scope);
    scope.line("// Among the consumers.");
    scope.line("const int warp = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32) - 4, 0);");
    if (schedule_.split == 1 && !schedule_.fragments) write_pieces_memory(scope);
    const auto multiply = [&](CodeScope& loop, const TilePlace& place) {
      loop.line("float sums[1][Tile::columns / 8][4];");
      if (schedule_.pingpong) loop.line("ring.begin_turn(warpgroup - 1, round, error);");
      loop.line("multiply_ring(sums, ring, warpgroup - 1, step, tiles, error);");
      if (schedule_.split > 1) write_joined_sums(loop, place);
      else if (schedule_.fragments) write_finished_fragments(loop, place);
      else write_pieces(loop, place);
      if (schedule_.persistent && result_ != nullptr)
        loop.line("__syncwarp();  // one lane stores a box; products need all of them together");
    };
    if (schedule_.pingpong) write_own_tiles(scope, multiply);
    else write_tiles(scope, only, multiply);
    if (result_ != nullptr) {
      const char* storing = schedule_.fragments ? "elected_lane()" : "threadIdx.x % 32 == 0";
      scope.line(fmt::format("if ({}) wait_boxes();", storing));
    }
  }

  // What a warp's first row lies behind the tile's.
  std::string rows_of_warp() const {
    return schedule_.pingpong ? " + warp % 4 * 16" : " + warp * 16";
  }

  void write_finished_fragments(CodeScope& scope, const TilePlace& place) {
    write_fragments(kernel_, scope, form_, names_,
                    {.sums = "sums",
                     .boxes = fmt::format("ring.memory + {}u + (unsigned)warp * {}u",
                                          schedule_.boxes_offset(), fragment_bytes),
                     .map = "tensor_map2",
                     .columns = schedule_.block_columns,
                     .first_row = place.first_row.name + rows_of_warp(),
                     .first_column = place.first_column.name},
                    *result_);
  }

  std::string store_piece(const char* columns, std::int64_t pitch, const std::string& to,
                          const char* piece) const {
    return schedule_.swap_ab ? fmt::format("store_piece_transposed<{}, {}>({}, sums, {});", columns,
                                           pitch, to, piece)
                             : fmt::format("store_piece<{}>({}, sums, {});", columns, to, piece);
  }

  // Blocks of a cluster put down all their sums, then each finishes a part of the tile.
  void write_joined_sums(CodeScope& scope, const TilePlace& place) {
    const std::int64_t pitch = schedule_.joined().pitch,
                       threads = 128 * schedule_.consumer_warpgroups();
    scope.line("float* sums_of_block = reinterpret_cast<float*>(shared);");
    scope.line(
        fmt::format("named_barrier<1>({});  // all stages have been multiplied: sums take their "
                    "place",
                    threads));
    scope.line(store_piece(
        "Tile::columns", pitch,
        fmt::format("sums_of_block + warp * {}", schedule_.swap_ab ? 16 : 16 * pitch), "0"));
    scope.line("synchronise_cluster();");
    const SumPiece piece{.base = "sums_of_block",
                         .rows = schedule_.block_rows,
                         .columns = schedule_.block_columns,
                         .pitch = pitch,
                         .first_row = place.first_row.name,
                         .first_column = place.first_column.name,
                         .thread = fmt::format("(rank * {} + (int)threadIdx.x - 128)", threads),
                         .threads = threads * schedule_.split,
                         .split = static_cast<int>(schedule_.split),
                         .transposed = schedule_.swap_ab};
    write_epilogue(kernel_, scope, form_, names_, piece);
    scope.line("ring.end_reading_sums(error);");
  }

  // Where each warp brings its sums to rows, and results to boxes.
  void write_pieces_memory(CodeScope& scope) {
    scope.line(
        fmt::format("float* piece_of_warp = reinterpret_cast<float*>(shared + {}) + warp * {};",
                    schedule_.pieces_offset(), schedule_.piece().elements));
    if (result_ == nullptr) return;
    const std::string type =
        storage_type(kernel_.output_type(static_cast<std::size_t>(result_->output)).dtype);
    scope.line(fmt::format("{0}* box_of_warp = reinterpret_cast<{0}*>(shared + {1}) + warp * {2};",
                           type, schedule_.boxes_offset(), schedule_.box_elements()));
  }

  void write_pieces(CodeScope& scope, const TilePlace& place) {
    const std::int64_t columns = schedule_.piece_columns(),
                       pieces = schedule_.block_columns / columns;
    scope.line("#pragma unroll 1");
    kernel_.block(
        scope, fmt::format("for (int piece = 0; piece < {}; ++piece)", pieces),
        [&](CodeScope& body) {
          if (!schedule_.persistent && result_ == nullptr && pieces > 1)
            body.line("if (piece > 0) __syncwarp();  // the piece before has been read");
          body.line(store_piece("Tile::piece_columns", schedule_.piece().pitch, "piece_of_warp",
                                "piece"));
          if (result_ != nullptr)
            body.line(
                "if (threadIdx.x % 32 == 0) wait_boxes_read<0>();  // the warp's box is free");
          body.line("__syncwarp();");
          const std::string down = rows_of_warp(), across = fmt::format(" + piece * {}", columns);
          const SumPiece piece{
              .base = "piece_of_warp",
              .rows = 16,
              .columns = columns,
              .pitch = schedule_.piece().pitch,
              .first_row = place.first_row.name + (schedule_.swap_ab ? across : down),
              .first_column = place.first_column.name + (schedule_.swap_ab ? down : across),
              .thread = "(int)(threadIdx.x % 32)",
              .threads = 32,
              .transposed = schedule_.swap_ab};
          if (result_ == nullptr) {
            write_epilogue(kernel_, body, form_, names_, piece);
          } else {
            const ResultBox box{.memory = "box_of_warp", .result = *result_};
            write_epilogue(kernel_, body, form_, names_, piece, &box);
            body.line(fmt::format(
                "store_results<{}>(tensor_map2, box_of_warp, {}, {}, {}, {}, {});", columns,
                kernel_.output(static_cast<std::size_t>(result_->output)), piece.first_row,
                piece.first_column, names_.rows.name, names_.columns.name));
          }
          // Where results leave as boxes, warps have met between reading the piece and storing
          // the box.
          if (schedule_.persistent && result_ == nullptr) body.line("__syncwarp();");
        });
  }

  KernelWriter kernel_;
  const ir::MatmulForm& form_;
  WgmmaSchedule schedule_;
  TmaOperands operands_;
  const ir::Store* result_;  // what leaves as boxes, or null
  bool checked_;
  WgmmaSchedule::Registers registers_;
  bool early_weights_;  // the right operand is one
  TileShape shape_;
  MatmulNames names_;
  TileNames tiles_;
  std::string first_tile_number_;
};

const ir::TensorType& result_type(const ir::Region& region, const ir::Store& store) {
  const ir::Function& body = region.body;
  return body.tensor_type(body.body.results.at(static_cast<std::size_t>(store.output)));
}

const ir::Store* tma_result(const ir::Region& region, const ir::MatmulForm& form,
                            const ir::SymbolTable& symbols) {
  if (!form.batch.empty() || form.stores.size() != 1) return nullptr;
  const ir::Store& store = form.stores.front();
  const ir::TensorType& type = result_type(region, store);
  constexpr std::int64_t stride_bytes = 16;  // of tensor memory access
  const auto bytes = static_cast<std::int64_t>(ir::size_of(type.dtype));
  const auto columns = form.n.extent.constant();
  if ((bytes != 2 && bytes != 4) || !columns || *columns == 0 ||
      *columns * bytes % stride_bytes != 0)
    return nullptr;
  const auto same = [&](const ir::Dim& a, const ir::Dim& b) {
    return ir::simplify(a, symbols) == ir::simplify(b, symbols);
  };
  const ir::Dim place = form.m.index() * *columns + form.n.index();
  const bool whole = same(ir::product(type.dims), form.m.extent * *columns);
  return whole && same(ir::linear_offset(store.index, type.dims, symbols), place) ? &store
                                                                                  : nullptr;
}

}  // namespace

std::optional<TmaOperands> tma_operands(const ir::Region& region, const ir::MatmulForm& form,
                                        const TensorOperands& operands,
                                        const ir::SymbolTable& symbols) {
  const auto left = tma_operand(operands.left, form, form.m),
             right = tma_operand(operands.right, form, form.n);
  if (!left || !right) return std::nullopt;
  const ir::Store* result = tma_result(region, form, symbols);
  const std::int64_t bytes =
      result == nullptr
          ? 0
          : static_cast<std::int64_t>(ir::size_of(result_type(region, *result).dtype));
  return TmaOperands{.dtype = operands.dtype,
                     .left = *left,
                     .right = *right,
                     .result = result,
                     .result_bytes = bytes};
}

EmittedKernel emit_wgmma(const PlanInputs& inputs, const ir::Bucket& bucket,
                         const ir::Schedule& schedule, bool checked) {
  return WgmmaEmitter(inputs, bucket, schedule, checked).run();
}

}  // namespace anydim::codegen_cuda
