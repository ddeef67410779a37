#include "codegen_cuda/attention/attention_schedule.h"

#include <algorithm>

#include "codegen_cuda/occupancy.h"

namespace anydim::codegen_cuda {

std::int64_t AttentionMmaSchedule::shared_bytes(std::int64_t depth, std::int64_t width,
                                                bool column) const {
  // device/attention_mma.cuh: 16 spare bytes end each row
  const std::int64_t row = 2 * depth + 16 + 2 * width + 16;
  return points * stages * keys * (row + (column ? 4 : 0));
}

std::int64_t AttentionMmaSchedule::registers(std::int64_t depth, std::int64_t width) const {
  const std::int64_t queries = depth / 4, outputs = width / 2, scores = keys / 2,
                     weights = keys / 4;  // of one tile of 16 rows
  constexpr std::int64_t addresses = 60;
  return tiles * (queries + outputs + scores + weights) + addresses;
}

std::int64_t AttentionMmaSchedule::resident_blocks(const CudaTarget& target, std::int64_t depth,
                                                   std::int64_t width, bool column,
                                                   bool ragged) const {
  // A warp of few keys would be bounded so tightly that finding its sequence spills.
  constexpr std::int64_t finding = 16;
  return codegen_cuda::resident_blocks(target, threads(), shared_bytes(depth, width, column),
                                       registers(depth, width) + (ragged ? finding : 0));
}

std::int64_t AttentionWgmmaSchedule::shared_bytes(std::int64_t depth, std::int64_t width,
                                                  bool column) const {
  constexpr std::int64_t place = 32;  // device/attention_blocks.cuh
  const std::int64_t slots = persistent ? 2 : 1;
  const std::int64_t queries = slots * groups * 64 * depth * 2,
                     tiles = stages * keys * (depth + width) * 2;
  const std::int64_t columns = column ? groups * 2 * keys * 4 : 0,
                     barriers = 8 * (2 * slots + 4 * stages);
  return queries + tiles + columns + barriers + (persistent ? (slots + 32) * place : 0);
}

std::int64_t AttentionWgmmaSchedule::computing_registers(std::int64_t per_multiprocessor) const {
  const std::int64_t of_thread = per_multiprocessor / (intended_blocks() * threads()) / 8 * 8;
  return (of_thread * (groups + 1) - fetching_registers()) / groups / 8 * 8;
}

std::int64_t AttentionWgmmaSchedule::registers(std::int64_t width, ScoreForm form) const {
  const std::int64_t scores = keys / 2, weights = keys / 4, outputs = width / 2;
  const std::int64_t addresses = persistent ? 36 : 32;
  // What is added is read ahead of the scores; that of elements has addresses of its own.
  const bool column = form == ScoreForm::Column,
             element = form == ScoreForm::Element || form == ScoreForm::Plain;
  const std::int64_t added = (column || element ? keys / 4 : 0) + (element ? 8 : 0);
  return scores + weights + outputs + addresses + added;
}

std::int64_t AttentionWgmmaSchedule::resident_blocks(const CudaTarget& target, std::int64_t depth,
                                                     std::int64_t width, bool column) const {
  constexpr std::int64_t reserved = 1024;
  const std::int64_t by_memory =
      target.shared_per_multiprocessor / (shared_bytes(depth, width, column) + reserved);
  return std::clamp<std::int64_t>(by_memory, 1, intended_blocks());
}

}  // namespace anydim::codegen_cuda
