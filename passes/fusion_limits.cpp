#include "passes/fusion_limits.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "ir/dims/affine.h"
#include "ir/loops/scalar_program.h"

namespace anydim::passes {

using namespace ir;

namespace {

constexpr std::size_t maximum_program_steps = 256;
// All stages of a row kernel have at most so many steps together: each computes again what it needs
// of those before it, so that a chain of softmaxes grows with its square.
constexpr std::size_t maximum_row_steps = 512;
// Terms and operands of an index: views of views in each other; beyond, a value in memory is
// cheaper to read.
constexpr std::size_t largest_fused_index = 256;
// Row stages behind a matmul need whole rows in cache.
constexpr std::int64_t longest_fused_row = 16384;
constexpr std::size_t longest_sort_key = 4;  // steps

bool fits(const std::vector<RowStage>& stages) {
  std::size_t steps = 0;
  for (const RowStage& stage : stages) {
    steps += stage.program.steps.size();
    if (largest_index(stage.program) > largest_fused_index) return false;
  }
  return steps <= maximum_row_steps;
}

// Whether neighbouring rows meet in `dividend`: an inner loop goes as far as a step of an outer
// one.
bool overlap(const Dim& dividend, const RowForm& rows, const SymbolTable& symbols) {
  const auto strides = [&](const std::vector<Iteration>& loops) {
    std::vector<std::pair<Dim, const Iteration*>> found;  // absolute
    for (const Iteration& loop : loops)
      if (const auto affine = affine_in(dividend, loop.variable); affine && affine->stride != 0)
        if (const auto stride = affine->stride.constant())
          found.emplace_back(*stride < 0 ? -*stride : *stride, &loop);
    return found;
  };
  const auto outer = strides(rows.outer), inner = strides(rows.inner);
  return std::ranges::any_of(inner, [&](const auto& window) {
    const Dim reach = window.first * (window.second->extent - 1);
    return std::ranges::any_of(outer, [&](const auto& row) {
      return prove_less_equal(row.first, reach, symbols) == Proof::Yes;
    });
  });
}

bool any_dividend(const Dim& dim, const std::function<bool(const Dim&)>& holds) {
  return any_part(dim, [&](const Dim& part) {
    return (part.kind() == Dim::Kind::FloorDiv || part.kind() == Dim::Kind::Mod) &&
           holds(part.operands()[0]);
  });
}

Dim offset_of(const step::Load& load, const LoopForm& form) {
  const auto& dims = form.parameters[static_cast<std::size_t>(load.buffer)].dims;
  return linear_offset(load.index, dims, form.symbols);
}

// Whether the step divides something of which this holds; a load whose elements lie in line does
// not, whatever its index looks like.
bool divides(const ScalarStep& step, const LoopForm& form,
             const std::function<bool(const Dim&)>& holds) {
  bool found = false;
  for_each_dim(step, [&](const Dim& dim) { found = found || any_dividend(dim, holds); });
  if (!found || !step.is<step::Load>()) return found;
  return any_dividend(offset_of(step.as<step::Load>(), form), holds);
}

// Whether windows that overlap lie over dims that a reshape joined: each element would be divided
// for as often as windows hold it, which costs more than to lay the joined dims down once.
bool slides_over_joined_dims(const RowForm& rows, const LoopForm& form) {
  return std::ranges::any_of(rows.stages, [&](const RowStage& stage) {
    return std::ranges::any_of(stage.program.steps, [&](const ScalarStep& step) {
      return divides(step, form,
                     [&](const Dim& dividend) { return overlap(dividend, rows, form.symbols); });
    });
  });
}

// Whether a load's neighbours in memory are found by steps of another loop than the last one.
bool jumps(const ScalarStep& load, const std::vector<Iteration>& loops, const LoopForm& form) {
  if (loops.size() < 2) return false;
  const Dim offset = offset_of(load.as<step::Load>(), form);
  const auto next_to_it = [&](const Iteration& loop) {
    const auto affine = affine_in(offset, loop.variable);
    return affine && affine->stride.is_constant(1);
  };
  return offset.mentions(loops.back().variable) &&
         std::any_of(loops.begin(), loops.end() - 1, next_to_it);
}

// Whether several passes over a row read a tensor whose elements lie in another order than the
// row's, so that each is found by divisions or the reads jump: that costs more than to lay the row
// down once.
bool jumps_in_several_passes(const RowForm& rows, const LoopForm& form) {
  const auto is_inside = [&](const Dim& dividend) {
    return std::ranges::any_of(
        rows.inner, [&](const Iteration& loop) { return dividend.mentions(loop.variable); });
  };
  std::map<std::int32_t, int> passes;  // by parameter
  for (const RowStage& stage : rows.stages) {
    std::set<std::int32_t> found;
    for (const ScalarStep& step : stage.program.steps)
      if (!stage.per_row && step.is<step::Load>() &&
          (divides(step, form, is_inside) || jumps(step, rows.inner, form)))
        found.insert(step.as<step::Load>().buffer);
    for (const std::int32_t buffer : found) ++passes[buffer];
  }
  return std::ranges::any_of(passes, [](const auto& entry) { return entry.second > 1; });
}

// Whether a step in order reads for neighbouring points what lies apart: points are computed
// together where they read in line.
bool jumps_in_order(const OrderedForm& ordered, const LoopForm& form) {
  return std::ranges::any_of(ordered.stages, [&](const OrderedStage& stage) {
    return std::ranges::any_of(stage.program.steps, [&](const ScalarStep& step) {
      return step.is<step::Load>() && jumps(step, ordered.outer, form);
    });
  });
}

}  // namespace

bool is_small(const LoopForm& form) {
  if (const auto* map = std::get_if<MapForm>(&form.kind))
    return std::all_of(map->parts.begin(), map->parts.end(), [](const MapPart& part) {
      return part.program.steps.size() <= maximum_program_steps &&
             largest_index(part.program) <= largest_fused_index;
    });
  // Where several keys are compared, each is computed twice a comparison.
  if (const auto* sort = std::get_if<SortForm>(&form.kind))
    return sort->program.steps.size() <=
           (sort->depth.empty() ? maximum_program_steps : longest_sort_key);
  if (const auto* attention = std::get_if<AttentionForm>(&form.kind))
    return attention->score.steps.size() <= maximum_program_steps;
  if (const auto* rows = std::get_if<RowForm>(&form.kind))
    return fits(rows->stages) && !slides_over_joined_dims(*rows, form) &&
           !jumps_in_several_passes(*rows, form);
  if (const auto* ordered = std::get_if<OrderedForm>(&form.kind))
    return !jumps_in_order(*ordered, form);
  if (const auto* matmul = std::get_if<MatmulForm>(&form.kind))
    return matmul->rows.empty() ||
           (fits(matmul->rows) && bounds(matmul->n.extent, form.symbols).high <= longest_fused_row);
  return true;
}

}  // namespace anydim::passes
