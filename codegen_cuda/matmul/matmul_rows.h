// Row stages after a matmul (layer norm): a warp finishes a row, whose epilogue values lie in
// shared memory or in the workspace.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen_cuda/matmul/matmul_parts.h"

namespace anydim::codegen_cuda {

class MatmulRows {
 public:
  // Of a block of `threads` threads that computes whole rows, `block_rows` of them.
  MatmulRows(KernelWriter& kernel, const ir::MatmulForm& form, std::int64_t block_rows,
             std::int64_t threads)
      : kernel_(kernel), form_(form), block_rows_(block_rows), threads_(threads) {}

  // Whole rows in a block: values in its shared memory from byte `offset` on, until finish_block
  // runs the stages.
  void begin_block(CodeScope& entry, std::int64_t offset);
  KeptRows kept_in_block(const TilePlace& place) const;
  void finish_block(CodeScope& entry, const MatmulNames& names, const TilePlace& place);

  // Whole rows in a cluster of `blocks` blocks beside each other, `block_columns` columns each.
  void begin_cluster(CodeScope& entry, std::int64_t offset, std::int64_t block_columns);
  KeptRows kept_in_cluster(const TilePlace& place, std::int64_t block_columns) const;
  void finish_cluster(CodeScope& entry, const MatmulNames& names, const TilePlace& place,
                      std::int64_t blocks, std::int64_t block_columns);

  // Tiles in any block: values in the workspace, until a launch of its own runs the stages.
  KeptRows kept_in_workspace(CodeScope& entry, const MatmulNames& names, const TilePlace& place);
  ir::DeviceLaunch write_launch();
  ir::Dim workspace_bytes() const;

 private:
  ir::Dim slot_offset(std::size_t slot) const;  // bytes, in the workspace
  const ir::RowStage::Reduction& reduction_of(std::size_t slot) const;
  // Names the number of the block's rows; then `body` for each of them, a warp a row.
  void write_row_count(CodeScope& entry, const MatmulNames& names, const TilePlace& place);
  void write_rows(CodeScope& entry, const TilePlace& place,
                  const std::function<void(CodeScope&)>& body);
  // The columns from `begin` to `end` that a warp walks along.
  struct Columns {
    std::string begin, end;
    std::optional<std::int64_t> most{};  // how many they are at most, where known
    bool all = false;                    // they are always that many
  };
  Columns all_columns(const std::string& columns) const;
  // Slots: pointers to the row's elements. Accumulated: names of earlier stages' reductions; a
  // stage gives those of its own, over the columns.
  void write_stages(CodeScope& row, const std::string& columns,
                    const std::vector<std::string>& slots);
  std::vector<std::string> write_stage(CodeScope& row, const ir::RowStage& stage,
                                       const Columns& columns,
                                       const std::vector<std::string>& slots,
                                       const std::vector<std::string>& accumulated,
                                       const std::string& writes_row);

  KernelWriter& kernel_;
  const ir::MatmulForm& form_;
  std::int64_t block_rows_, threads_;
};

// Shared memory of whole rows; the columns are constant.
std::int64_t block_rows_bytes(const ir::MatmulForm& form, std::int64_t block_rows,
                              std::int64_t threads);

// The same in each block of a cluster, partial reductions included.
std::int64_t cluster_rows_bytes(const ir::MatmulForm& form, std::int64_t block_rows,
                                std::int64_t block_columns);
// Blocks beside each other that hold whole rows together; the columns are constant.
std::int64_t blocks_across(const ir::MatmulForm& form, std::int64_t block_columns);
// Whether a cluster of them can run the row stages: the columns are constant, there are 2 to 8 of
// them, and what they exchange are f32.
bool cluster_holds_rows(const ir::MatmulForm& form, std::int64_t block_columns);

}  // namespace anydim::codegen_cuda
