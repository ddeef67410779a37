#include <algorithm>
#include <iterator>

#include "ir/loops/derive.h"
#include "ir/loops/digits.h"
#include "ir/loops/scalar_program.h"

namespace anydim::ir::derive {

namespace {

// Copies `extent` places along an axis of `source`, from `from` on, to those of the output from
// `to` on.
struct Piece {
  ValueId source = no_value;
  Dim from = 0, to = 0, extent;
};

std::vector<Dim> dims_of(const AccessContext& context, const Piece& piece, std::size_t axis) {
  std::vector<Dim> dims = context.subgraph->tensor(piece.source).dims;
  dims[axis] = piece.extent;
  return dims;
}

// A part that copies pieces of equal dims.
MapPart part_of(AccessContext& context, std::span<const Piece> pieces, std::size_t axis,
                std::int32_t output) {
  MapPart part;
  std::vector<Dim> index;
  for (const Dim& dim : dims_of(context, pieces.front(), axis)) {
    part.space.push_back(context.iterate(LoopRole::Point, dim));
    index.push_back(part.space.back().index());
  }
  const Dim along = index[axis];
  ProgramBuilder builder(context);
  for (const Piece& piece : pieces) {
    index[axis] = along + piece.from;
    const std::int32_t step = builder.element(piece.source, index);
    index[axis] = along + piece.to;
    part.stores.push_back({output, index, step});
  }
  part.program = builder.take();
  prune(part);
  return part;
}

std::ptrdiff_t loads(const MapPart& part) {
  return std::ranges::count_if(part.program.steps,
                               [](const ScalarStep& step) { return step.is<step::Load>(); });
}

// A part each, or one for all where one for the first two loads elements once that both read.
void add_pieces(AccessContext& context, const std::vector<Piece>& pieces, std::size_t axis,
                std::int32_t output, MapForm& form) {
  const auto part = [&](std::size_t first, std::size_t count) {
    return part_of(context, std::span(pieces).subspan(first, count), axis, output);
  };
  std::vector<MapPart> parts{part(0, 1)};
  if (pieces.size() > 1) {
    parts.push_back(part(1, 1));
    MapPart both = part(0, 2);
    if (loads(both) < loads(parts[0]) + loads(parts[1])) {
      form.parts.push_back(pieces.size() == 2 ? std::move(both) : part(0, pieces.size()));
      return;
    }
  }
  while (parts.size() < pieces.size()) parts.push_back(part(parts.size(), 1));
  std::ranges::move(parts, std::back_inserter(form.parts));
}

// The operands of a concat that is itself an output: no guards, every part a plain loop.
void add_concat(AccessContext& context, const Binding& concat, std::int32_t output, MapForm& form) {
  const Subgraph& subgraph = *context.subgraph;
  const std::size_t axis = axis_from_front(concat, subgraph.tensor(concat.results[0]).rank());
  std::vector<std::vector<Piece>> groups;  // of equal dims
  Dim offset = 0;
  for (ValueId operand : concat.operands) {
    const Dim& extent = subgraph.tensor(operand).dims[axis];
    const Piece piece{.source = operand, .to = offset, .extent = extent};
    const std::vector<Dim> dims = dims_of(context, piece, axis);
    const auto alike = std::ranges::find_if(groups, [&](const std::vector<Piece>& group) {
      return subgraph.definition(operand) != nullptr &&
             subgraph.definition(group.front().source) != nullptr &&
             dims_of(context, group.front(), axis) == dims;
    });
    if (alike == groups.end()) groups.push_back({piece});
    else alike->push_back(piece);
    offset = offset + extent;
  }
  for (const std::vector<Piece>& group : groups) add_pieces(context, group, axis, output, form);
}

// The update; and what stands around it, unless that is where the result lies already, but for
// other updates of the kernel.
void add_overwrite(AccessContext& context, const Binding& overwrite, std::int32_t output,
                   MapForm& form) {
  const Subgraph& subgraph = *context.subgraph;
  const ValueId x = overwrite.operands[0], update = overwrite.operands[1];
  const std::vector<Dim>& dims = subgraph.tensor(x).dims;
  const std::size_t axis = axis_from_front(overwrite, dims.size());
  const Dim start = given_elements(subgraph, overwrite, "start", 2).at(0);
  const Dim& extent = subgraph.tensor(update).dims[axis];
  const Dim end = start + extent;
  add_pieces(context, {{.source = update, .to = start, .extent = extent}}, axis, output, form);
  if (is_in_place(overwrite)) {
    const Binding* before = subgraph.definition(x);
    if (before == nullptr || before->op == Op::zeros || before->op == Op::dyn_zeros) return;
    if (!is_in_place(*before))
      throw NoLoopForm{"what is overwritten in place is computed in the kernel: " +
                       describe(*subgraph.function, overwrite)};
    return add_overwrite(context, *before, output, form);
  }
  add_pieces(context, {{.source = x, .extent = start}}, axis, output, form);
  add_pieces(context, {{.source = x, .from = end, .to = end, .extent = dims[axis] - end}}, axis,
             output, form);
}

// Divisions by smaller constants cost less than runs that fill no vectors.
constexpr std::int64_t shortest_run = 32;

// The last loop as one over runs and one within a run, where elements are found by dividing its
// variable by the run's extent at every point: a tile of rows, dims that a reshape joins.
void take_apart(MapPart& part, AccessContext& context) {
  if (part.space.empty()) return;
  const Iteration last = part.space.back();
  std::vector<Dim> runs = digit_extents(part.program, last.variable, context.symbols);
  std::erase_if(
      runs, [](const Dim& run) { return run.constant().value_or(shortest_run) < shortest_run; });
  if (runs.empty() || !simplify(mod(last.extent, runs.back()), context.symbols).is_constant(0))
    return;
  const auto fresh = [&] {
    return loop_leaf(LoopRole::Point, context.iterations[LoopRole::Point]++);
  };
  const Digits digits = split(last, runs, fresh, context.symbols);
  part.program = over_digits(part.program, digits, context.symbols);
  for (Store& store : part.stores)
    for (Dim& dim : store.index) dim = dim.substitute({{last.variable, digits.value}});
  part.space.pop_back();
  part.space.insert(part.space.end(), digits.digits.begin(), digits.digits.end());
}

// Whether the op is written piece by piece where its result is one of the kernel's.
bool has_pieces(const Binding& binding) {
  return (binding.op == Op::concat && binding.operands.size() > 1) || is_overwrite(binding.op);
}

}  // namespace

MapForm derive_map(AccessContext& context, std::span<const ValueId> outputs) {
  const Subgraph& subgraph = *context.subgraph;
  MapForm form;
  std::vector<bool> done(outputs.size());
  for (std::size_t first = 0; first < outputs.size(); ++first) {
    if (done[first]) continue;
    const Binding* definition = subgraph.definition(outputs[first]);
    if (definition != nullptr && has_pieces(*definition)) {
      const auto add = definition->op == Op::concat ? add_concat : add_overwrite;
      add(context, *definition, static_cast<std::int32_t>(first), form);
      continue;
    }
    // Outputs of equal dims share one part.
    const std::vector<Dim>& dims = subgraph.tensor(outputs[first]).dims;
    MapPart part;
    std::vector<Dim> index;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      part.space.push_back(context.iterate(LoopRole::Point, dims[i]));
      index.push_back(part.space.back().index());
    }
    ProgramBuilder builder(context);
    for (std::size_t i = first; i < outputs.size(); ++i) {
      const Binding* other = subgraph.definition(outputs[i]);
      if (done[i] || subgraph.tensor(outputs[i]).dims != dims) continue;
      if (i != first && other != nullptr && has_pieces(*other)) continue;
      done[i] = true;
      part.stores.push_back(
          {static_cast<std::int32_t>(i), index, builder.element(outputs[i], index)});
    }
    part.program = builder.take();
    prune(part);
    form.parts.push_back(std::move(part));
  }
  auto buffers = buffer_dims(context), results = output_dims(context, outputs);
  for (MapPart& part : form.parts) {
    take_apart(part, context);
    ScalarProgram* program = &part.program;
    std::vector<Store>* stores = &part.stores;
    collapse(part.space, context, {&program, 1}, {&stores, 1}, buffers, results);
  }
  return form;
}

}  // namespace anydim::ir::derive
