// One bulk copy by the async proxy: cp.async.bulk, cp.async.bulk.tensor and their reducing forms.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ir/type.h"
#include "tests/ptx/execution.h"
#include "tests/ptx/units/tensor_map.h"

namespace anydim::ptx {

// A copy between global memory and shared memory as pieces of at most 16 bytes (BoxPiece);
// `inside` false: zeros on a load, nothing on a store.
using CopyPieces = std::vector<BoxPiece>;

// Pieces of a plain copy of `bytes`.
CopyPieces plain_pieces(std::uint64_t global_address, std::uint32_t shared_address,
                        std::uint32_t bytes);

// A load into the same place of the shared memory of one or more blocks, each counted by its own
// mbarrier at the same place.
struct BulkLoad {
  std::shared_ptr<Cluster> cluster;
  std::vector<std::uint32_t> ranks;  // destinations
  std::uint32_t barrier = 0;         // shared address
  std::uint32_t bytes = 0;           // that complete on the barrier
  CopyPieces pieces;
  // A copy from another shared memory (shared::cta to shared::cluster): the pieces' global
  // addresses are shared addresses of this rank.
  std::optional<std::uint32_t> source_rank;
};
void issue_load(Warp& warp, int lane, BulkLoad load);

enum class Reduction : std::uint8_t { None, Add, Minimum, Maximum };

// A store or reduction to global memory; belongs to the lane's open bulk group.
struct BulkStore {
  CopyPieces pieces;
  Reduction reduction = Reduction::None;
  ir::DType dtype = ir::DType::U8;  // of a reduction
};
void issue_store(Warp& warp, int lane, BulkStore store);

void commit_bulk_group(Warp& warp, int lane);
// Waits until at most `newest` groups are unfinished; with `reads_only` until their shared memory
// has been read.
void wait_bulk_groups(Warp& warp, int lane, std::uint32_t newest, bool reads_only);

}  // namespace anydim::ptx
