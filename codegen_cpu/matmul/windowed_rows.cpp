#include "codegen_cpu/matmul/windowed_rows.h"

#include <algorithm>
#include <map>
#include <vector>

#include "ir/dims/affine.h"
#include "ir/loops/digits.h"
#include "ir/loops/scalar_program.h"

namespace anydim::codegen_cpu {

namespace {

using ir::Dim;

// How far `outer` moves what `inner` moves by one, in the first part of the dim that is affine in
// `inner` (a border that reflects divides it); nullopt: not by a positive constant.
std::optional<std::int64_t> step_between(const Dim& dim, const ir::DimLeaf& outer,
                                         const ir::DimLeaf& inner) {
  if (!dim.mentions(inner)) return std::nullopt;
  const auto within = ir::affine_in(dim, inner);
  if (const auto between = within ? ir::affine_in(within->base, outer) : std::nullopt) {
    const auto a = within->stride.constant(), b = between->stride.constant();
    if (a && b && *a > 0 && *b > 0 && *b % *a == 0) return *b / *a;
    return std::nullopt;
  }
  std::vector<Dim> parts;
  if (dim.kind() == Dim::Kind::Sum)
    for (const Dim::Term& term : dim.terms())
      parts.insert(parts.end(), term.factors.begin(), term.factors.end());
  else if (dim.kind() != Dim::Kind::Symbol && dim.kind() != Dim::Kind::Value)
    parts = dim.operands();
  for (const Dim& part : parts)
    if (const auto step = step_between(part, outer, inner)) return step;
  return std::nullopt;
}

// The same in the first dim of the program that says so.
std::optional<std::int64_t> step_between(const ir::ScalarProgram& program, const ir::DimLeaf& outer,
                                         const ir::DimLeaf& inner) {
  std::optional<std::int64_t> step;
  for (const ir::ScalarStep& scalar : program.steps)
    ir::for_each_dim(scalar, [&](const Dim& dim) {
      if (!step) step = step_between(dim, outer, inner);
    });
  return step;
}

}  // namespace

Dim WindowedRows::lines_for(const Dim& output) const {
  const Dim images = ir::floor_div(output - 1, output_lines) + 1;
  return (output - 1) * line_step + window_lines +
         images * std::max<std::int64_t>(window_lines - line_step, 0);
}

std::optional<WindowedRows> windowed_rows(const ir::ScalarProgram& program,
                                          const ir::Iteration& row, const ir::Iteration& depth,
                                          const std::function<ir::DimLeaf()>& fresh,
                                          ir::SymbolTable& symbols) {
  const std::vector<Dim> rows = ir::digit_extents(program, row.variable, symbols),
                         depths = ir::digit_extents(program, depth.variable, symbols);
  if (rows.empty() || rows.size() > 2 || depths.size() != 2 || rows[0].constant() == 0 ||
      !depth.extent.constant() || !depths[0].constant() || !depths[1].constant() ||
      *depth.extent.constant() % *depths[1].constant() != 0 ||
      !ir::simplify(ir::mod(row.extent, rows.back()), symbols).is_constant(0))
    return std::nullopt;
  const ir::Digits row_digits = ir::split(row, rows, fresh, symbols),
                   depth_digits = ir::split(depth, depths, fresh, symbols);
  const ir::ScalarProgram taken_apart =
      ir::over_digits(ir::over_digits(program, row_digits, symbols), depth_digits, symbols);
  const ir::Iteration &place = row_digits.digits.back(),
                      &line = row_digits.digits[row_digits.digits.size() - 2];
  const bool planes =
      !step_between(taken_apart, line.variable, depth_digits.digits[0].variable).has_value();
  const ir::Iteration &window_line = depth_digits.digits[planes ? 1 : 0],
                      &window_place = depth_digits.digits[planes ? 2 : 1];
  WindowedRows found{.program = taken_apart,
                     .image = rows.size() == 2 ? row_digits.digits[0]
                                               : ir::declare_iteration(fresh(), Dim(1), symbols),
                     .line = {},
                     .place = {},
                     .channel = depth_digits.digits[planes ? 0 : 2],
                     .output_lines = ir::max(line.extent, 1),
                     .width = ir::max(rows[0], 1),
                     .window_lines = window_line.extent.constant().value_or(0),
                     .run = *depths[planes ? 0 : 1].constant(),
                     .planes = planes};
  const std::int64_t window_places = window_place.extent.constant().value_or(0);
  const auto line_step = step_between(found.program, line.variable, window_line.variable),
             place_step = step_between(found.program, place.variable, window_place.variable);
  if (!line_step || !place_step || !found.channel.extent.constant() ||
      found.window_lines * window_places <= *line_step * *place_step)
    return std::nullopt;
  found.line_step = *line_step;
  found.place_step = *place_step;
  found.line = ir::declare_iteration(
      fresh(), (found.output_lines - 1) * found.line_step + found.window_lines, symbols);
  found.place =
      ir::declare_iteration(fresh(), (found.width - 1) * found.place_step + window_places, symbols);
  const std::map<ir::DimLeaf, Dim> replacement{
      {window_line.variable, found.line.index() - found.line_step * line.index()},
      {window_place.variable, found.place.index() - found.place_step * place.index()}};
  bool alone = true;
  for (ir::ScalarStep& step : found.program.steps) {
    ir::for_each_dim(step, [&](Dim& dim) {
      dim = ir::simplify(dim.substitute(replacement), symbols);
      alone = alone && !dim.mentions(line.variable) && !dim.mentions(place.variable);
    });
  }
  return alone ? std::optional(std::move(found)) : std::nullopt;
}

double LeftReuse::of(const ir::MatmulForm& form, const ir::SymbolTable& symbols) {
  std::call_once(found_, [&] {
    ir::SymbolTable own = symbols;
    std::uint32_t number = 0;
    const auto fresh = [&] { return ir::loop_leaf(ir::LoopRole::Made, number++); };
    if (const auto windows = windowed_rows(form.left, form.m, form.k, fresh, own))
      reuse_ = windows->reuse();
  });
  return reuse_;
}

}  // namespace anydim::codegen_cpu
