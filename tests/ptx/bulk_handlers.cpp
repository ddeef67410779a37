// cp.async.bulk.*, cp.reduce.async.bulk.*: decoding and what is checked at issue.
#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "ir/error.h"
#include "tests/ptx/bulk.h"
#include "tests/ptx/lanes.h"
#include "tests/ptx/opcodes.h"
#include "tests/ptx/shared_place.h"
#include "tests/ptx/units/swizzle.h"

namespace anydim::ptx {

namespace {

struct BulkDetail {
  bool tensor = false;
  bool load = false;         // else a store
  bool from_shared = false;  // a load whose source is this block's shared memory
  bool multicast = false;
  Reduction reduction = Reduction::None;
  ir::DType dtype = ir::DType::U8;
  Space shared_space = Space::Shared;
  AddressOperand shared, global, barrier;  // global: the tensor map where tensor
  std::vector<std::int32_t> coordinates;
  std::int32_t bytes = -1;
  std::int32_t mask = -1;
};

void need(Warp& warp, int lane, bool holds, FindingKind kind, const std::string& message) {
  if (!holds) warp.stop(kind, lane, message);
}

TensorMapLayout tensor_map_at(Warp& warp, const BulkDetail& detail, int lane) {
  const std::uint64_t address = warp.address(detail.global, lane);
  const std::byte* bytes = warp.access(AccessKind::Read, Space::Generic, address, tensor_map_bytes,
                                       tensor_map_alignment, lane);
  try {
    return decode_tensor_map(std::span<const std::byte, tensor_map_bytes>(bytes, tensor_map_bytes));
  } catch (const Error& error) {
    warp.stop(FindingKind::InvalidUse, lane, fmt::format("at {:#x}: {}", address, error.what()));
  }
}

struct Transfer {
  CopyPieces pieces;
  std::uint32_t bytes = 0;
  ir::DType dtype = ir::DType::U8;
};

// What a lane's instruction moves, with every alignment checked.
Transfer transfer_of(Warp& warp, const BulkDetail& detail, std::uint32_t shared_address, int lane) {
  if (detail.tensor) {
    const TensorMapLayout map = tensor_map_at(warp, detail, lane);
    need(warp, lane, map.rank() == detail.coordinates.size(), FindingKind::InvalidUse,
         fmt::format("{} coordinates for a tensor map of rank {}", detail.coordinates.size(),
                     map.rank()));
    const auto alignment =
        static_cast<std::uint32_t>(std::max(128, swizzle_period(map.swizzle_bytes)));
    need(warp, lane, shared_address % alignment == 0, FindingKind::Misaligned,
         fmt::format("a box with swizzle {} at shared address {:#x}: expected a multiple of {}",
                     map.swizzle_bytes, shared_address, alignment));
    std::vector<std::int32_t> at;
    for (const std::int32_t offset : detail.coordinates)
      at.push_back(static_cast<std::int32_t>(warp.lanes<std::uint32_t>(offset)[lane]));
    return {box_pieces(map, at, shared_address), map.box_bytes(), map.dtype};
  }
  const std::uint32_t bytes = warp.lanes<std::uint32_t>(detail.bytes)[lane];
  const std::uint64_t global_address = warp.address(detail.global, lane);
  need(warp, lane, bytes % 16 == 0, FindingKind::InvalidUse,
       fmt::format("a bulk copy of {} bytes: expected a multiple of 16", bytes));
  need(warp, lane, shared_address % 16 == 0 && global_address % 16 == 0, FindingKind::Misaligned,
       fmt::format("a bulk copy between {:#x} and {:#x}: expected multiples of 16", shared_address,
                   global_address));
  return {plain_pieces(global_address, shared_address, bytes), bytes, detail.dtype};
}

std::vector<std::uint32_t> multicast_ranks(Warp& warp, const BulkDetail& detail, int lane) {
  const std::uint32_t mask = warp.lanes<std::uint32_t>(detail.mask)[lane] & 0xffff;
  const std::size_t blocks = warp.block.cluster->blocks.size();
  need(warp, lane, mask != 0 && mask >> blocks == 0, FindingKind::InvalidUse,
       fmt::format("a multicast mask of {:#x} in a cluster of {}", mask, blocks));
  std::vector<std::uint32_t> ranks;
  for_each_lane(mask, [&](int rank) { ranks.push_back(static_cast<std::uint32_t>(rank)); });
  return ranks;
}

Outcome run_bulk(Warp& warp, const Instruction& instruction, LaneMask mask) {
  const auto& detail = instruction.get<BulkDetail>();
  for_each_lane(mask, [&](int lane) {
    const SharedPlace place =
        shared_place(warp, detail.shared_space, warp.address(detail.shared, lane), lane);
    Transfer transfer = transfer_of(warp, detail, place.address, lane);
    if (!detail.load) {
      issue_store(warp, lane,
                  {.pieces = std::move(transfer.pieces),
                   .reduction = detail.reduction,
                   .dtype = transfer.dtype});
      return;
    }
    const SharedPlace barrier =
        shared_place(warp, detail.shared_space, warp.address(detail.barrier, lane), lane);
    need(warp, lane, barrier.block == place.block, FindingKind::InvalidUse,
         "a bulk copy's mbarrier lies in another block than its destination");
    BulkLoad load{.cluster = warp.block.cluster,
                  .ranks = {place.block->cluster_rank},
                  .barrier = barrier.address,
                  .bytes = transfer.bytes,
                  .pieces = std::move(transfer.pieces),
                  .source_rank = {}};
    if (detail.multicast) load.ranks = multicast_ranks(warp, detail, lane);
    if (detail.from_shared) load.source_rank = warp.block.cluster_rank;
    issue_load(warp, lane, std::move(load));
  });
  ++warp.execution.effects;
  return Outcome::Next;
}

Outcome run_commit(Warp& warp, const Instruction&, LaneMask mask) {
  for_each_lane(mask, [&](int lane) { commit_bulk_group(warp, lane); });
  return Outcome::Next;
}

Outcome run_wait(Warp& warp, const Instruction& instruction, LaneMask mask) {
  for_each_lane(mask, [&](int lane) {
    wait_bulk_groups(warp, lane, static_cast<std::uint32_t>(instruction.immediate),
                     instruction.flags != 0);
  });
  return Outcome::Next;
}

Outcome run_nothing(Warp&, const Instruction&, LaneMask) { return Outcome::Next; }

void take_tensor_operand(Decoder& decoder, std::size_t index, std::string_view rank,
                         BulkDetail& detail) {
  const OperandText& operand = decoder.operand(index);
  detail.global = decoder.address(operand, Space::Generic);
  if (operand.parts.size() != 1 ||
      operand.parts[0].parts.size() != static_cast<std::size_t>(rank[0] - '0')) {
    decoder.unknown("a tensor operand is [map, {coordinates}], as many as the rank says");
  }
  for (const OperandText& coordinate : operand.parts[0].parts)
    detail.coordinates.push_back(decoder.source(coordinate, Type::s32));
}

void take_reduction(Decoder& decoder, BulkDetail& detail) {
  const std::string_view operation = decoder.take_any({"add", "min", "max"});
  detail.reduction = operation == "add"   ? Reduction::Add
                     : operation == "min" ? Reduction::Minimum
                                          : Reduction::Maximum;
  if (operation.empty()) decoder.unknown("this bulk reduction");
  if (detail.tensor) return;
  decoder.take("noftz");
  switch (decoder.take_type()) {
    case Type::f16: detail.dtype = ir::DType::F16; break;
    case Type::bf16: detail.dtype = ir::DType::BF16; break;
    case Type::f32: detail.dtype = ir::DType::F32; break;
    case Type::f64: detail.dtype = ir::DType::F64; break;
    case Type::s32: detail.dtype = ir::DType::I32; break;
    case Type::u32: detail.dtype = ir::DType::U32; break;
    case Type::s64: detail.dtype = ir::DType::I64; break;
    case Type::u64: detail.dtype = ir::DType::U64; break;
    default: decoder.unknown("a bulk reduction of this type");
  }
}

// What follows the fixed operands of a load: the multicast mask, then the cache hint, each where
// its modifier stands.
void take_load_extras(Decoder& decoder, std::size_t index, BulkDetail& detail) {
  detail.multicast = decoder.take("multicast::cluster");
  if (detail.multicast) detail.mask = decoder.source(index++, Type::u16);
  if (decoder.take("L2::cache_hint")) decoder.source(index, Type::b64);
}

void decode_transfer(Decoder& decoder, bool reduces) {
  auto detail = std::make_shared<BulkDetail>();
  std::string_view rank;
  detail->tensor = decoder.take("tensor");
  if (detail->tensor) {
    rank = decoder.take_any({"1d", "2d", "3d", "4d", "5d"});
    if (rank.empty() || decoder.first_modifier() == "im2col")
      decoder.unknown("tensor copies of 1d to 5d tiles are known");
    decoder.take("tile");
  }
  detail->from_shared = !decoder.take("global");  // shared::cta to the shared memory of the cluster
  const bool counted = decoder.take("mbarrier::complete_tx::bytes");
  decoder.take("bulk_group");
  detail->load = counted;
  if (detail->from_shared) decoder.demand("shared::cta");
  detail->shared_space = counted ? Space::SharedCluster : Space::Shared;
  if (counted && !detail->from_shared) {
    if (decoder.take_any({"shared::cluster", "shared::cta"}).empty())
      decoder.unknown("where the copy goes");
  } else {
    decoder.demand(counted ? "shared::cluster" : "shared::cta");
  }
  if (reduces) take_reduction(decoder, *detail);
  const std::size_t shared_operand = counted ? 0 : 1;
  const std::size_t global_operand = counted ? 1 : 0;
  detail->shared = decoder.address(shared_operand, detail->shared_space);
  std::size_t next = 2;
  if (detail->tensor) {
    take_tensor_operand(decoder, global_operand, rank, *detail);
  } else {
    detail->global =
        decoder.address(global_operand, detail->from_shared ? Space::Shared : Space::Global);
    detail->bytes = decoder.source(next++, Type::u32);
  }
  if (counted) detail->barrier = decoder.address(next++, Space::SharedCluster);
  if (counted) take_load_extras(decoder, next, *detail);
  else if (decoder.take("L2::cache_hint")) decoder.source(next, Type::b64);
  decoder.instruction.detail = std::move(detail);
  decoder.instruction.execute = run_bulk;
}

void decode_prefetch(Decoder& decoder) {
  decoder.demand("L2");
  decoder.demand("global");
  if (decoder.take("tensor")) {
    decoder.take_any({"1d", "2d", "3d", "4d", "5d"});
    decoder.take("tile");
  }
  if (decoder.take("L2::cache_hint")) decoder.source(decoder.operands() - 1, Type::b64);
  decoder.instruction.execute = run_nothing;
}

void decode_bulk(Decoder& decoder) {
  decoder.demand("async");
  decoder.demand("bulk");
  if (decoder.take("commit_group")) {
    decoder.instruction.execute = run_commit;
  } else if (decoder.take("wait_group")) {
    decoder.instruction.flags = decoder.take("read") ? 1 : 0;
    decoder.instruction.immediate = decoder.constant(0);
    decoder.instruction.execute = run_wait;
  } else if (decoder.take("prefetch")) {
    decode_prefetch(decoder);
  } else {
    decode_transfer(decoder, decoder.take("reduce"));
  }
}

}  // namespace

void add_bulk_opcodes(OpcodeTable& table) {
  table["cp.async.bulk"] = table["cp.reduce.async.bulk"] = decode_bulk;
}

}  // namespace anydim::ptx
