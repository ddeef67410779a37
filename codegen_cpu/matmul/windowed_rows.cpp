#include "codegen_cpu/matmul/windowed_rows.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "codegen_cpu/names.h"
#include "ir/dims/affine.h"
#include "ir/loops/digits.h"

namespace anydim::codegen_cpu {

namespace {

// Wider windows read little of most images (window_taps.h); sequences are longer.
constexpr std::int64_t most_dilation = 4, most_dilation_of_sequence = 64;

// How far one step of each variable moves what both move, in the smallest whole numbers.
struct Steps {
  std::int64_t outer = 0, inner = 0;
};

// In the first part of the dim that is affine in `inner` (a border that reflects divides it);
// nullopt: not by positive constants.
std::optional<Steps> steps_of(const Dim& dim, const ir::DimLeaf& outer, const ir::DimLeaf& inner) {
  if (!dim.mentions(inner)) return std::nullopt;
  const auto within = ir::affine_in(dim, inner);
  if (const auto between = within ? ir::affine_in(within->base, outer) : std::nullopt) {
    const auto a = between->stride.constant(), b = within->stride.constant();
    if (!a || !b || *a <= 0 || *b <= 0) return std::nullopt;
    const std::int64_t unit = std::gcd(*a, *b);
    return Steps{.outer = *a / unit, .inner = *b / unit};
  }
  std::vector<Dim> parts;
  if (dim.kind() == Dim::Kind::Sum)
    for (const Dim::Term& term : dim.terms())
      parts.insert(parts.end(), term.factors.begin(), term.factors.end());
  else if (dim.kind() != Dim::Kind::Symbol && dim.kind() != Dim::Kind::Value)
    parts = dim.operands();
  for (const Dim& part : parts)
    if (const auto steps = steps_of(part, outer, inner)) return steps;
  return std::nullopt;
}

// The same in the first dim of the program that says so.
std::optional<Steps> steps_of(const ir::ScalarProgram& program, const ir::DimLeaf& outer,
                              const ir::DimLeaf& inner) {
  std::optional<Steps> steps;
  for (const ir::ScalarStep& scalar : program.steps)
    ir::for_each_dim(scalar, [&](const Dim& dim) {
      if (!steps) steps = steps_of(dim, outer, inner);
    });
  return steps;
}

// nullopt where windows of outputs side by side lie in no common lines (or places), reach further
// than `most`, or over more than all outputs together would be packed.
std::optional<WindowedRows::Axis> axis_of(const ir::ScalarProgram& program,
                                          const ir::Iteration& output, const ir::Iteration& window,
                                          std::int64_t most) {
  const auto size = window.extent.constant();
  const auto steps = steps_of(program, output.variable, window.variable);
  if (!size || !steps || (steps->outer != 1 && steps->inner != 1) || steps->inner > most)
    return std::nullopt;
  const WindowedRows::Axis axis{.step = steps->outer, .dilation = steps->inner, .size = *size};
  const auto outputs = output.extent.constant();
  if (axis.dilation > 1 && outputs && *outputs - 1 + axis.reach() > *outputs * axis.size)
    return std::nullopt;
  return axis;
}

// `packed`, which is axis.step * output + axis.dilation * window, in place of one of the two.
std::pair<ir::DimLeaf, Dim> in_place(const WindowedRows::Axis& axis, const ir::Iteration& packed,
                                     const ir::Iteration& output, const ir::Iteration& window) {
  if (axis.dilation == 1) return {window.variable, packed.index() - axis.step * output.index()};
  return {output.variable, packed.index() - axis.dilation * window.index()};
}

std::vector<Dim> first_of(const std::vector<Dim>& dims, std::size_t most) {
  return {dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(std::min(dims.size(), most))};
}

// The innermost digit is the first one from behind.
const ir::Iteration& from_behind(const ir::Digits& digits, std::size_t number) {
  return digits.digits[digits.digits.size() - number];
}

}  // namespace

Dim WindowedRows::lines_for(const Dim& output) const {
  const Dim images = ir::floor_div(output - 1, output_lines) + 1;
  return (output - 1) * lines.step + lines.reach() +
         images * std::max<std::int64_t>(lines.reach() - lines.step, 0);
}

std::vector<WindowedRows::Counter> WindowedRows::runs() const {
  std::vector<Counter> counters{
      {.count = planes ? channels() : window_slices(), .stride = slice_elements()},
      {.count = lines_dense() ? 1 : lines.size, .stride = lines.dilation * line_elements()},
      {.count = places_apart() ? places.size : 1,
       .stride = Dim(places.dilation * place_elements())}};
  std::erase_if(counters, [](const Counter& counter) { return counter.count == 1; });
  return counters;
}

std::int64_t WindowedRows::run() const {
  return (planes ? 1 : channels()) * (places_apart() ? 1 : places.size) *
         (lines_dense() ? lines.size : 1);
}

namespace {

// The program over lines and places of packed memory in place of those of output and window.
// nullopt where it asks for more.
std::optional<WindowedRows> over_packed(WindowedRows found,
                                        const std::map<ir::DimLeaf, Dim>& replacement,
                                        std::span<const ir::Iteration> gone,
                                        const ir::SymbolTable& symbols) {
  bool alone = true;
  for (ir::ScalarStep& step : found.program.steps) {
    ir::for_each_dim(step, [&](Dim& dim) {
      dim = ir::simplify(dim.substitute(replacement), symbols);
      for (const ir::Iteration& iteration : gone)
        alone = alone && !dim.mentions(iteration.variable);
    });
  }
  return alone ? std::optional(std::move(found)) : std::nullopt;
}

// What is taken apart, and what makes variables.
struct Windows {
  const ir::ScalarProgram& program;
  const ir::Iteration &row, &depth;
  std::vector<Dim> rows, depths;  // extents of their digits
  const std::function<ir::DimLeaf()>& fresh;
  ir::SymbolTable& symbols;

  ir::Iteration declared(const Dim& extent) const {
    return ir::declare_iteration(fresh(), extent, symbols);
  }
  ir::Iteration along(const WindowedRows::Axis& axis, const Dim& output) const {
    return declared((output - 1) * axis.step + axis.reach());
  }
};

std::optional<WindowedRows> windows_of_sequences(const Windows& in) {
  const ir::Digits depth = ir::split(in.depth, in.depths, in.fresh, in.symbols);
  const ir::Iteration &window = from_behind(depth, 2), &channel = from_behind(depth, 1);
  ir::ScalarProgram program = ir::over_digits(in.program, depth, in.symbols);
  ir::Iteration position = in.row, image = in.declared(Dim(1));
  if (!in.rows.empty()) {
    const ir::Digits row = ir::split(in.row, first_of(in.rows, 1), in.fresh, in.symbols);
    program = ir::over_digits(program, row, in.symbols);
    image = from_behind(row, 2);
    position = from_behind(row, 1);
  }
  const auto axis = axis_of(program, position, window, most_dilation_of_sequence);
  if (!axis) return std::nullopt;
  WindowedRows found{.program = std::move(program),
                     .image = image,
                     .line = {},
                     .slice = in.declared(Dim(1)),
                     .place = in.declared(Dim(1)),
                     .channel = channel,
                     .output_lines = ir::max(position.extent, 1),
                     .width = Dim(1),
                     .lines = *axis,
                     .places = {.size = 1},
                     .sequence = true};
  found.line = in.along(*axis, found.output_lines);
  const ir::Iteration gone[] = {position, window};
  return over_packed(found, {in_place(*axis, found.line, position, window)}, gone, in.symbols);
}

std::optional<WindowedRows> windows_of_images(const Windows& in) {
  if (in.rows.empty() || in.depths.size() < 2) return std::nullopt;
  const ir::Digits row_digits = ir::split(in.row, in.rows, in.fresh, in.symbols);
  const ir::ScalarProgram rows_apart = ir::over_digits(in.program, row_digits, in.symbols);
  const ir::Iteration &place = from_behind(row_digits, 1), &line = from_behind(row_digits, 2);
  ir::Digits depth_digits = ir::split(in.depth, in.depths, in.fresh, in.symbols);
  ir::ScalarProgram taken_apart = ir::over_digits(rows_apart, depth_digits, in.symbols);
  const bool planes =
      !steps_of(taken_apart, line.variable, from_behind(depth_digits, 3).variable).has_value();
  if (planes && in.depths.size() > 2) {
    depth_digits = ir::split(in.depth, first_of(in.depths, 2), in.fresh, in.symbols);
    taken_apart = ir::over_digits(rows_apart, depth_digits, in.symbols);
  }
  const ir::Iteration &window_line = from_behind(depth_digits, planes ? 2 : 3),
                      &window_place = from_behind(depth_digits, planes ? 1 : 2);
  const auto lines = axis_of(taken_apart, line, window_line, most_dilation),
             places = axis_of(taken_apart, place, window_place, most_dilation);
  if (!lines || !places || (planes && places->dilation > 1)) return std::nullopt;
  WindowedRows found{
      .program = taken_apart,
      .image = in.rows.size() == 2 ? row_digits.digits[0] : in.declared(Dim(1)),
      .line = {},
      .slice = depth_digits.digits.size() > 3 ? depth_digits.digits[0] : in.declared(Dim(1)),
      .place = {},
      .channel = from_behind(depth_digits, planes ? 3 : 1),
      .output_lines = ir::max(line.extent, 1),
      .width = ir::max(in.rows[0], 1),
      .lines = *lines,
      .places = *places,
      .planes = planes};
  found.line = in.along(*lines, found.output_lines);
  found.place = in.along(*places, found.width);
  const ir::Iteration gone[] = {line, place, window_line, window_place};
  return over_packed(found,
                     {in_place(*lines, found.line, line, window_line),
                      in_place(*places, found.place, place, window_place)},
                     gone, in.symbols);
}

}  // namespace

std::optional<WindowedRows> windowed_rows(const ir::ScalarProgram& program,
                                          const ir::Iteration& row, const ir::Iteration& depth,
                                          const std::function<ir::DimLeaf()>& fresh,
                                          ir::SymbolTable& symbols) {
  const Windows in{.program = program,
                   .row = row,
                   .depth = depth,
                   .rows = first_of(ir::digit_extents(program, row.variable, symbols), 2),
                   .depths = first_of(ir::digit_extents(program, depth.variable, symbols), 3),
                   .fresh = fresh,
                   .symbols = symbols};
  if (in.depths.empty() || !depth.extent.constant() ||
      !std::ranges::all_of(in.depths, [&](const Dim& extent) {
        return extent.constant() && *depth.extent.constant() % *extent.constant() == 0;
      }))
    return std::nullopt;
  if (!in.rows.empty() &&
      (in.rows[0].constant() == 0 ||
       !ir::simplify(ir::mod(row.extent, in.rows.back()), symbols).is_constant(0)))
    return std::nullopt;
  auto found = in.depths.size() == 1 ? windows_of_sequences(in) : windows_of_images(in);
  if (found &&
      (found->reuse() <= 1 || !found->channel.extent.constant() || !found->slice.extent.constant()))
    found.reset();
  return found;
}

const SharedRows& LeftReuse::of(const ir::MatmulForm& form, const ir::SymbolTable& symbols) {
  std::call_once(found_, [&] {
    ir::SymbolTable own = symbols;
    std::uint32_t number = 0;
    const auto fresh = [&] { return ir::loop_leaf(ir::LoopRole::Made, number++); };
    if (const auto windows = windowed_rows(form.left, form.m, form.k, fresh, own))
      shared_ = {.reuse = windows->reuse(), .run = windows->run()};
  });
  return shared_;
}

}  // namespace anydim::codegen_cpu
