// matmul_wgmma as CUDA C++: device/matmul_wgmma.cuh has the warpgroups' roles. What is written here
// says where tiles lie, what is copied, and what becomes of sums.
#include <fmt/format.h>

#include "codegen_cuda/device_struct.h"
#include "codegen_cuda/form_facts.h"
#include "codegen_cuda/matmul/matmul_fragments.h"
#include "codegen_cuda/matmul/matmul_parts.h"
#include "codegen_cuda/matmul/matmul_wgmma.h"

namespace anydim::codegen_cuda {

namespace {

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
        early_weights_(inputs.region.is_weight(static_cast<std::size_t>(operands_.right.buffer))),
        shape_{.rows = schedule_.swap_ab ? schedule_.block_columns
                                         : schedule_.block_rows * schedule_.multicast_columns,
               .columns = schedule_.swap_ab ? schedule_.block_rows
                                            : schedule_.block_columns * schedule_.multicast_rows,
               .group = schedule_.group} {}

  EmittedKernel run() {
    for (const char* piece : {"launches", "vectors", "matmul_tiles", "tensor_map", "checked_wait",
                              "barriers", "cluster", "wgmma", "matmul_wgmma"})
      kernel_.use(piece);
    reserve_names(kernel_);
    declare_tile();
    const int maps = result_ != nullptr ? 3 : 2;
    CodeScope& entry = kernel_.begin_entry({.name = "matmul",
                                            .threads = static_cast<int>(schedule_.threads()),
                                            .blocks = static_cast<int>(schedule_.blocks),
                                            .tensor_maps = maps,
                                            .dependent = true,
                                            .waits_later = true});
    names_ = write_extents(kernel_, entry, form_, false);
    tiles_ = write_tile_counts(kernel_, entry, form_, names_, shape_);
    entry.line("const int rank = Kernel::rank();");
    write_place_of(entry);
    // The tensor cores multiply a left by a right operand: the left one gives the rows of a tile,
    // the right one its columns. Under swap_ab the product's right operand is their left one.
    const char* const sides[] = {"Left", "Right"};
    write_fetch(entry, "fetch_rows", sides[schedule_.swap_ab ? 1 : 0], operands_.left,
                place_.first_row);
    write_fetch(entry, "fetch_columns", sides[schedule_.swap_ab ? 0 : 1], operands_.right,
                place_.first_column);
    if (schedule_.split > 1) write_finish_joined(entry);
    else if (schedule_.fragments) write_finish_fragments(entry);
    else write_finish_piece(entry);
    entry.line(
        "Kernel::run(rank, {}, place_of, fetch_rows, fetch_columns, finish, error, tensor_map0, "
        "tensor_map1{});",
        tiles_.count, result_ != nullptr ? ", tensor_map2" : "");
    kernel_.end_entry();

    const std::int64_t together = schedule_.split * schedule_.sharing();
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
    launch.tensor_maps = {map_of(left(), schedule_.block_rows / schedule_.multicast_rows),
                          map_of(right(), schedule_.block_columns / schedule_.multicast_columns)};
    if (result_ != nullptr) launch.tensor_maps.push_back(map_of_result());
    EmittedKernel emitted = kernel_.finish({std::move(launch)});
    emitted.waits = true;
    return emitted;
  }

 private:
  // The tensor cores' operands.
  const TmaOperand& left() const { return schedule_.swap_ab ? operands_.right : operands_.left; }
  const TmaOperand& right() const { return schedule_.swap_ab ? operands_.left : operands_.right; }

  ir::TensorMap map_of(const TmaOperand& operand, std::int64_t rows) const {
    constexpr int swizzle_bytes = 128;
    // Rows that lie contiguous come by 64, the span of the swizzle.
    constexpr std::int64_t rows_side_by_side = swizzle_bytes / 2;
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

  // The map describes all rows of the result. A box is a warp's piece, which it writes in whole
  // rows, so that it needs no swizzle to be free of bank conflicts; fragments do.
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
    const bool left_by_rows = left().major == Major::Rows,
               right_by_rows = right().major == Major::Rows;
    const WgmmaSchedule::Registers registers =
        schedule_.registers(kernel_.target().registers_per_multiprocessor);
    const std::int64_t depth = form_.k.extent.constant().value();
    const PieceLayout layout = schedule_.split > 1 ? schedule_.joined() : schedule_.piece();
    kernel_.declare(
        "struct Tile {\n" +
        members({{"rows", schedule_.block_rows},
                 {"columns", schedule_.block_columns},
                 {"depth", schedule_.block_depth},
                 {"depth_tiles", (depth + schedule_.block_depth - 1) / schedule_.block_depth},
                 {"stages", schedule_.stages},
                 {"reading_warps", schedule_.block_rows / 16},  // of a stage
                 {"persistent", schedule_.persistent},
                 {"in_turn", schedule_.pingpong},
                 {"split", schedule_.split},
                 // blocks of a cluster that bring an operand to each other
                 {"left_sharing_blocks", schedule_.multicast_rows},
                 {"right_sharing_blocks", schedule_.multicast_columns},
                 {"sharing_blocks", schedule_.sharing()},
                 {"swap_ab", schedule_.swap_ab},
                 {"early_weights", early_weights_},
                 {"checked", checked_},
                 {"producer_registers", registers.producer},  // 0: warpgroups trade none
                 {"consumer_registers", registers.consumer},
                 {"left_by_rows", left_by_rows},
                 {"right_by_rows", right_by_rows},
                 {"unsigned", "left_bytes", "rows * depth * 2"},
                 {"unsigned", "stage_bytes", "left_bytes + columns * depth * 2"},
                 {"fragments", schedule_.fragments},
                 {"piece_columns", schedule_.piece_columns()},
                 {"pitch", layout.pitch},
                 {"piece_elements", layout.elements},
                 {"pieces_offset", schedule_.pieces_offset()},
                 {"boxes_offset", schedule_.boxes_offset()},
                 {"box_bytes", schedule_.box_bytes()}}) +  // of a warp
        member(Multiplication{.name = "multiply",
                              .columns = schedule_.block_columns,
                              .brain = operands_.dtype == ir::DType::BF16,
                              .left_by_rows = left_by_rows,
                              .right_by_rows = right_by_rows}) +
        "};\nusing Kernel = MatmulWgmma<Tile>;\n");
  }

  // Declares struct Place, the first row and column of the block's part of a tile and the batch
  // point, and writes place_of(tile).
  void write_place_of(CodeScope& entry) {
    write_lambda(entry, "place_of", "int tile", [&](CodeScope& scope) {
      place_ = write_tile_place(kernel_, scope, form_, tiles_, shape_, "tile");
      std::string declared, values;
      const auto add = [&](const IndexVariable& variable, const std::string& name,
                           const std::string& value) {
        declared += fmt::format("  {} {};\n", index_type(variable.wide), name);
        values += (values.empty() ? "" : ", ") + value;
        return IndexVariable{.name = "place." + name, .wide = variable.wide};
      };
      const auto part = [](const IndexVariable& first, std::int64_t blocks, const char* size) {
        return blocks == 1 ? first.name : fmt::format("{} + rank * Tile::{}", first.name, size);
      };
      place_ = {
          .first_row = add(place_.first_row, "first_row",
                           part(place_.first_row, schedule_.multicast_columns, "rows")),
          .first_column = add(place_.first_column, "first_column",
                              part(place_.first_column, schedule_.multicast_rows, "columns"))};
      for (const ir::Iteration& iteration : form_.batch) {
        const IndexVariable& variable = *scope.find(iteration.variable);
        points_.emplace_back(iteration.variable, add(variable, variable.name, variable.name));
      }
      kernel_.declare("struct Place {\n" + declared + "};\n");
      scope.line("return Place{{{}}};", values);
    });
  }

  // A functor of the kernel that gets a place, and `parameters` besides.
  void write_at_place(CodeScope& entry, const std::string& name, const std::string& parameters,
                      const std::function<void(CodeScope&)>& body) {
    write_lambda(entry, name, "const Place& place, " + parameters, [&](CodeScope& scope) {
      for (const auto& [variable, point] : points_) scope.define(variable, point);
      body(scope);
    });
  }

  // `side`: of the tensor cores' operands; `first`: its first row.
  void write_fetch(CodeScope& entry, const std::string& name, const std::string& side,
                   const TmaOperand& operand, const IndexVariable& first) {
    write_at_place(
        entry, name, "unsigned stage, unsigned full, int first_depth", [&](CodeScope& scope) {
          std::string point;
          for (const ir::DimLeaf& variable : operand.batch)
            point += ", " + scope.find(variable)->name;
          scope.line("Kernel::{}::fetch(rank, stage, tensor_map{}, full, (int){}, first_depth{});",
                     side, side == "Left" ? 0 : 1, first.name, point);
        });
  }

  void write_finish_fragments(CodeScope& entry) {
    write_at_place(entry, "finish",
                   fmt::format("{} row, const Kernel::Sums& sums, unsigned boxes",
                               index_type(place_.first_row.wide)),
                   [&](CodeScope& scope) {
                     write_fragments(kernel_, scope, form_, names_,
                                     {.sums = "sums",
                                      .boxes = "boxes",
                                      .map = "tensor_map2",
                                      .columns = schedule_.block_columns,
                                      .first_row = "row",
                                      .first_column = place_.first_column.name},
                                     *result_);
                   });
  }

  void write_finish_joined(CodeScope& entry) {
    const std::int64_t threads = 128 * schedule_.consumer_warpgroups();
    write_at_place(entry, "finish", "const float* sums", [&](CodeScope& scope) {
      write_epilogue(kernel_, scope, form_, names_,
                     {.base = "sums",
                      .rows = schedule_.block_rows,
                      .columns = schedule_.block_columns,
                      .pitch = schedule_.joined().pitch,
                      .first_row = place_.first_row.name,
                      .first_column = place_.first_column.name,
                      .thread = fmt::format("(rank * {} + (int)threadIdx.x - 128)", threads),
                      .threads = threads * schedule_.split,
                      .split = static_cast<int>(schedule_.split),
                      .transposed = schedule_.swap_ab});
    });
  }

  void write_finish_piece(CodeScope& entry) {
    const SumPiece piece{
        .base = "piece",
        .rows = 16,
        .columns = schedule_.piece_columns(),
        .pitch = schedule_.piece().pitch,
        .first_row = "row",
        .first_column = "column",
        .thread = "(int)(threadIdx.x % 32)",
        .threads = 32,
        .once = !schedule_.persistent && schedule_.block_columns == schedule_.piece_columns(),
        .transposed = schedule_.swap_ab};
    const auto write = [&](CodeScope& scope) {
      if (result_ == nullptr) return write_epilogue(kernel_, scope, form_, names_, piece);
      const auto output = static_cast<std::size_t>(result_->output);
      scope.line("auto* const results = reinterpret_cast<{}*>(box);",
                 storage_type(kernel_.output_type(output).dtype));
      const ResultBox box{.memory = "results", .result = *result_};
      write_epilogue(kernel_, scope, form_, names_, piece, &box);
      scope.line("store_results<{}>(tensor_map2, results, {}, row, column, {}, {});", piece.columns,
                 kernel_.output(output), names_.rows.name, names_.columns.name);
    };
    write_at_place(
        entry, "finish",
        fmt::format("{} row, {} column, const float* piece, unsigned char* box",
                    index_type(place_.first_row.wide), index_type(place_.first_column.wide)),
        write);
  }

  KernelWriter kernel_;
  const ir::MatmulForm& form_;
  WgmmaSchedule schedule_;
  TmaOperands operands_;
  const ir::Store* result_;  // what leaves as boxes, or null
  bool checked_;
  bool early_weights_;  // the right operand is one
  TileShape shape_;
  MatmulNames names_;
  TileNames tiles_;
  TilePlace place_;  // as members of `place`, and the batch point likewise
  std::vector<std::pair<ir::DimLeaf, IndexVariable>> points_;
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
