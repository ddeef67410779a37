#include "codegen_cuda/rows/rows_cost.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "codegen_cuda/form_facts.h"
#include "codegen_cuda/instruction_count.h"
#include "codegen_cuda/occupancy.h"
#include "ir/loops/segment_rows.h"

namespace anydim::codegen_cuda {

namespace {

using ir::RowForm;

// Instructions of a thread whose items reach beyond rows of some lengths. Where they are few they
// are issued with predicates, of which the registers hold seven; many are branched around.
double guarded(double instructions, double turns, double items) {
  constexpr double few = 16, predicate = 5.5, branch = 3;
  if (instructions <= few) return items * (instructions + predicate);
  return turns * instructions + items * branch;
}

// What a block has read stays in the nearest cache: what differs with no row is read once a
// block.
double cached_bytes(const PlanInputs& inputs, const KernelCount& count,
                    std::span<const std::int64_t> keys, double inner, double rows_at_once,
                    double turns, double blocks) {
  const auto& form = std::get<RowForm>(inputs.form.kind);
  std::vector<ir::Iteration> space = form.outer;
  space.insert(space.end(), form.inner.begin(), form.inner.end());
  std::vector<double> extents = extents_at(inputs, form.outer, keys);
  for (const double extent : extents_at(inputs, form.inner, keys)) extents.push_back(extent);
  if (form.segments) extents.back() = inner;
  double bytes = 0;
  for (const AccessCount& access : count.accesses) {
    const bool of_rows = std::ranges::any_of(form.outer, [&](const ir::Iteration& loop) {
      return access.loops.contains(loop.variable);
    });
    bytes += (of_rows ? turns : blocks) * access.bytes / std::min(access.beside, rows_at_once) *
             touched(space, extents, access.loops, rows_at_once * inner);
  }
  return bytes;
}

}  // namespace

std::int64_t most_blocks(const RowsSchedule& fields) {
  if (fields.across != 0) return 64 / fields.threads;
  return fields.threads == 32 ? 16 : 2048 / fields.threads;
}

std::int64_t kept_values(const PlanInputs& inputs, const RowsSchedule& fields) {
  return inputs.facts->kept_registers * fields.items * fields.vector;
}

StreamingWork rows_work(const PlanInputs& inputs, const RowsSchedule& fields,
                        std::span<const std::int64_t> keys) {
  const auto& form = std::get<RowForm>(inputs.form.kind);
  const auto threads = static_cast<double>(fields.threads),
             vector = static_cast<double>(fields.vector), split = static_cast<double>(fields.split);
  double rows = points_at(inputs, form.outer, keys);
  double inner = points_at(inputs, form.inner, keys);
  const double all = inner;
  double sequences = 0;
  if (form.segments) {
    // Buckets are ranked at sizes whose sequences may be of any length: no longer than a text's.
    sequences = std::max(1.0, points_at(inputs, std::span(form.outer).first(1), keys));
    inner = std::min<double>(ir::typical_segment_rows, all / sequences);
    if (inner > 0) rows *= all / inner / sequences;
  }
  const bool kept = fields.items > 0, across = fields.across != 0;
  const KernelCount count =
      count_kernel(inputs.facts->placed.at(kept ? 0 : 1),
                   {.outer = form.outer.size(),
                    .width = fields.vector,
                    .unrolled = kept,
                    .lanes = across ? form.outer.back().variable : form.inner.back().variable,
                    .beside = form.outer.empty() ? ir::DimLeaf{} : form.outer.back().variable});

  // Counted on machine code: of a segment's bounds, of rows beside each other, of which the last
  // stands for those that are not there, and of a loop over vectors and each turn of it.
  constexpr double segment_bounds = 28, beside = 8;
  const bool wide = form.segments && all > 4 * longest_of_warp;  // counted in 64 bits, mostly
  const double loop = wide ? 50 : form.segments ? 30 : 16, turn = wide ? 5 : 3;
  const double turns = std::max(1.0, std::ceil(inner / (threads * vector * split)));
  double instructions = count.row + (form.segments ? segment_bounds : 0) + (across ? beside : 0),
         passes = 0;
  for (const SectionCount& section : count.sections) {
    // Threads whose warp has none that stores a row's results pass by.
    const bool by_one = !section.has_points && section.reductions.empty();
    instructions += section.once * (by_one ? std::min(1.0, (across ? 1 : 32) / threads) : 1);
    if (!section.has_points) continue;
    passes += 1;
    if (!kept) instructions += loop + turns * (turn + section.vector);
    else if (ir::points_of(form.inner).is_constant()) instructions += turns * section.vector;
    else instructions += guarded(section.vector, turns, static_cast<double>(fields.items));
    for (const ir::DType dtype : section.reductions)
      instructions += across         ? column_exchange(dtype, threads)
                      : threads > 32 ? block_exchange(dtype)
                                     : warp_exchange(dtype);
  }

  const std::int64_t block_threads = across                 ? fields.threads * 32
                                     : fields.threads == 32 ? rows_of_block * 32
                                                            : fields.threads;
  const double rows_at_once = static_cast<double>(block_threads) / threads;
  const double blocks = std::ceil(rows / rows_at_once) * split,
               at_most = static_cast<double>(most_blocks(fields) * inputs.target.multiprocessors);
  double clocks = rows * split * threads * instructions +
                  std::min(blocks, at_most) * static_cast<double>(block_threads) * count.block;
  constexpr double check_offsets = 40, warp = 32;  // by the first block
  if (form.segments) clocks += check_offsets * (warp + sequences);

  // Passes that read again find their row in the nearest cache, at a quarter of the cost.
  double bytes = traffic_bytes(inputs, rows * inner);
  if (!kept) bytes *= 1 + 0.25 * std::max(0.0, passes - 1);
  return {.blocks = blocks,
          .threads = static_cast<double>(block_threads),
          .resident = static_cast<double>(
              streaming_blocks(inputs.target, block_threads, kept_values(inputs, fields))),
          .bytes = bytes,
          .clocks = clocks,
          .cached = cached_bytes(inputs, count, keys, inner / split, rows_at_once, blocks,
                                 std::min(blocks, at_most))};
}

}  // namespace anydim::codegen_cuda
