#include "codegen_cpu/rows/shared_window.h"

#include <algorithm>
#include <numeric>

#include "codegen_cpu/names.h"
#include "ir/dims/affine.h"

namespace anydim::codegen_cpu {

namespace {

// Code is emitted for each point of each row that is computed at once; where a line is reduced
// once, for each point of their lines, of which there may be more windows' worth: 9 x 9 compile in
// as long as 7 x 7 with weights. Beyond, for each place, beside a loop.
constexpr std::int64_t most_points = 64, most_rows = 8, most_of_lines = 144, most_places = 64;

struct Steps {
  std::int64_t row, place;
};

// How a dim changes with a row and a place; nullopt: not evenly, or not with both.
std::optional<Steps> steps_of(const Dim& dim, const DimLeaf& row, const DimLeaf& place) {
  if (!dim.mentions(row) || !dim.mentions(place)) return std::nullopt;
  const auto along_row = ir::affine_in(dim, row);
  if (!along_row || !along_row->stride.constant()) return std::nullopt;
  const auto along_place = ir::affine_in(along_row->base, place);
  if (!along_place || !along_place->stride.constant()) return std::nullopt;
  return Steps{*along_row->stride.constant(), *along_place->stride.constant()};
}

const DimLeaf& row_of(const ir::RowForm& form) {
  return form.outer[form.outer.size() - 2].variable;
}

bool is_one_pass(const ir::RowForm& form) {
  if (form.segments || !form.scratch.empty() || form.outer.size() < 2 || form.inner.size() < 2)
    return false;
  for (std::size_t i = 0; i < form.stages.size(); ++i) {
    const ir::RowStage& stage = form.stages[i];
    if (stage.per_row != (i > 0)) return false;
    if (i == 0 && (stage.reductions.empty() || !stage.keeps.empty() || !stage.stores.empty()))
      return false;
  }
  const auto places = ir::points_of(form.inner).constant();
  return places && *places >= 1;
}

bool needs_loop(const ir::RowForm& form, const SharedWindow& window) {
  const std::int64_t points = *ir::points_of(form.inner).constant();
  return points > most_points &&
         (!window.whole || points / window.places * window.lines(most_rows) > most_of_lines);
}

}  // namespace

std::optional<SharedWindow> shared_window(const ir::RowForm& form) {
  if (!is_one_pass(form)) return std::nullopt;
  for (std::size_t i = 0; i < form.inner.size(); ++i) {
    const DimLeaf &row = row_of(form), &place = form.inner[i].variable;
    std::optional<SharedWindow> window;
    const ir::ScalarProgram& program = form.stages.front().program;
    for (const ir::ScalarStep& step : program.steps) {
      if (window || !step.is<ir::step::Load>()) continue;
      for (const Dim& dim : step.as<ir::step::Load>().index) {
        const auto steps = steps_of(dim, row, place);
        if (!steps || steps->row < 1 || steps->place < 1) continue;
        const std::int64_t common = std::gcd(steps->row, steps->place);
        window = SharedWindow{.place = i,
                              .row_step = steps->row / common,
                              .place_step = steps->place / common,
                              .places = *form.inner[i].extent.constant()};
        break;
      }
    }
    if (!window) continue;
    const ir::ScalarProgram rest =
        over_lines(program, form, *window, ir::loop_leaf(ir::LoopRole::Made));
    window->whole = std::ranges::none_of(rest.steps, [&](const ir::ScalarStep& step) {
      return ir::any_dim(step,
                         [&](const Dim& dim) { return dim.mentions(row) || dim.mentions(place); });
    });
    window->looped = needs_loop(form, *window);
    return window->looped && window->places > most_places ? std::nullopt : window;
  }
  return std::nullopt;
}

ir::ScalarProgram over_lines(ir::ScalarProgram program, const ir::RowForm& form,
                             const SharedWindow& window, const DimLeaf& line) {
  const DimLeaf &row = row_of(form), &place = form.inner[window.place].variable;
  for (ir::ScalarStep& step : program.steps) {
    ir::for_each_dim(step, [&](Dim& dim) {
      const auto steps = steps_of(dim, row, place);
      if (!steps || steps->row % window.row_step != 0) return;
      const std::int64_t times = steps->row / window.row_step;
      if (steps->place != times * window.place_step) return;
      dim = dim + times * (Dim::of(line) - window.row_step * Dim::of(row) -
                           window.place_step * Dim::of(place));
    });
  }
  return program;
}

}  // namespace anydim::codegen_cpu
