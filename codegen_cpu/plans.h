// What can be decided about a region without generating code: schedules, costs, layouts. No LLVM behind these.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "codegen_cpu/target.h"
#include "ir/backend.h"
#include "ir/loop_form.h"

namespace anydim::codegen_cpu {

class AccessStrides;

// Answers the questions of ir::Backend for one skeleton; `form` holds it. Keys are values of Region::keys, in order.
struct PlanInputs {
  const Target& target;
  const ir::Region& region;
  const ir::LoopForm& form;
  AccessStrides& strides;  // of this form
};

// The loop form of `region` as this folder's plans and emitters read it.
ir::LoopForm prepared(const Target& target, const ir::Region& region, ir::LoopForm form);

// What cost models take for the rows of a segment (ir::Segments): only the run tells.
inline constexpr std::int64_t typical_segment_rows = 64;

std::vector<ir::Schedule> map_candidates(const PlanInputs& inputs, const ir::Bucket& bucket);
double map_cost(const PlanInputs& inputs, const ir::Schedule& schedule, std::span<const std::int64_t> keys, int threads);
std::vector<std::vector<std::int64_t>> map_edges(const PlanInputs& inputs);

std::vector<ir::Schedule> rows_candidates(const PlanInputs& inputs, const ir::Bucket& bucket);
double rows_cost(const PlanInputs& inputs, const ir::Schedule& schedule, std::span<const std::int64_t> keys, int threads);
std::vector<std::vector<std::int64_t>> rows_edges(const PlanInputs& inputs);

std::vector<ir::Schedule> matmul_candidates(const PlanInputs& inputs, const ir::Bucket& bucket);
double matmul_cost(const PlanInputs& inputs, const ir::Schedule& schedule, std::span<const std::int64_t> keys, int threads);
std::vector<std::vector<std::int64_t>> matmul_edges(const PlanInputs& inputs);
std::optional<ir::PackedLayout> matmul_packed_layout(const PlanInputs& inputs, std::size_t parameter);
ir::Tensor matmul_pack(const PlanInputs& inputs, std::size_t parameter, const ir::PackedLayout& layout, const ir::Tensor& weight,
                       const ir::Backend::Allocate& allocate);

std::vector<ir::Schedule> attention_candidates(const PlanInputs& inputs, const ir::Bucket& bucket);
double attention_cost(const PlanInputs& inputs, const ir::Schedule& schedule, std::span<const std::int64_t> keys, int threads);
std::vector<std::vector<std::int64_t>> attention_edges(const PlanInputs& inputs);

std::vector<ir::Schedule> ordered_candidates();
double ordered_cost(const PlanInputs& inputs, const ir::Schedule& schedule, std::span<const std::int64_t> keys, int threads);
std::vector<std::vector<std::int64_t>> ordered_edges(const PlanInputs& inputs);

// One candidate, no edges: `compact` runs on one worker, `sort grain=ITEMS` takes whole rows.
std::vector<ir::Schedule> compact_candidates();
double compact_cost(const PlanInputs& inputs, std::span<const std::int64_t> keys, int threads);
std::vector<ir::Schedule> sort_candidates();
double sort_cost(const PlanInputs& inputs, const ir::Schedule& schedule, std::span<const std::int64_t> keys, int threads);

// Value of a product of extents (of a loop form's iteration space, in order): constants are themselves, the others the
// region's keys, and a middling size where the region has no keys.
double points_at(const PlanInputs& inputs, std::span<const ir::Iteration> space, std::span<const std::int64_t> keys);

}  // namespace anydim::codegen_cpu
