#include "passes/fusion_limits.h"

#include <algorithm>
#include <variant>
#include <vector>

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
  if (const auto* rows = std::get_if<RowForm>(&form.kind)) return fits(rows->stages);
  if (const auto* matmul = std::get_if<MatmulForm>(&form.kind))
    return matmul->rows.empty() ||
           (fits(matmul->rows) && bounds(matmul->n.extent, form.symbols).high <= longest_fused_row);
  return true;
}

}  // namespace anydim::passes
