// Row stages after a matmul (layer norm): a warp finishes a row, whose epilogue values lie in shared memory or in the workspace.
#pragma once

#include <string>
#include <vector>

#include "codegen_cuda/matmul_parts.h"

namespace anydim::codegen_cuda {

class MatmulRows {
 public:
  // Of a block of `threads` threads that computes whole rows, `block_rows` of them.
  MatmulRows(KernelWriter& kernel, const ir::MatmulForm& form, std::int64_t block_rows, std::int64_t threads)
      : kernel_(kernel), form_(form), block_rows_(block_rows), threads_(threads) {}

  // Whole rows in a block: values in its shared memory from byte `offset` on, until finish_block runs the stages.
  void begin_block(CodeScope& entry, std::int64_t offset);
  KeptRows kept_in_block(const TilePlace& place) const;
  void finish_block(CodeScope& entry, const MatmulNames& names, const TilePlace& place);

  // Tiles in any block: values in the workspace, until a launch of its own runs the stages.
  KeptRows kept_in_workspace(CodeScope& entry, const MatmulNames& names, const TilePlace& place);
  ir::DeviceLaunch write_launch();
  ir::Dim workspace_bytes() const;

 private:
  ir::Dim slot_offset(std::size_t slot) const;  // bytes, in the workspace
  void write_stages(CodeScope& row, const std::string& columns, const std::vector<std::string>& slots);

  KernelWriter& kernel_;
  const ir::MatmulForm& form_;
  std::int64_t block_rows_, threads_;
};

// Shared memory of whole rows; the columns are constant.
std::int64_t block_rows_bytes(const ir::MatmulForm& form, std::int64_t block_rows, std::int64_t threads);

}  // namespace anydim::codegen_cuda
