#include "ir/loops/kernel_program.h"

#include <algorithm>

namespace anydim::ir {

namespace {

void collect_leaves(const ScalarStep& step, std::set<DimLeaf>& leaves) {
  for_each_dim(step, [&](const Dim& dim) { dim.collect_leaves(leaves); });
}

}  // namespace

void declare_checked_index(const DimLeaf& leaf, const Dim& extent, SymbolTable& symbols) {
  SymbolInfo info;
  info.below = extent;
  symbols.declare(leaf, std::move(info));
}

KernelProgram::KernelProgram(const ScalarProgram& program, const std::vector<std::int32_t>& roots,
                             std::uint32_t number, SymbolTable& symbols)
    : number_(number), steps_(program.steps), guards_(guards_of(program, roots)),
      reduced_(computed_from_accumulated(program)) {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    ScalarStep& step = steps_[i];
    for_each_dim(step, [&](Dim& dim) { dim = own(dim); });
    const auto* index = std::get_if<step::CheckedIndex>(&step.kind);
    if (!index) continue;
    names_steps_ = true;
    declare_checked_index(leaf_of(static_cast<std::int32_t>(i)), index->extent, symbols);
  }
  for (std::size_t i = 0; i < steps_.size(); ++i)
    leaves_.push_back(needed_leaves(static_cast<std::int32_t>(i)));
}

Dim KernelProgram::own(const Dim& dim) const {
  if (!names_steps_) return dim;
  return dim.substitute([this](const DimLeaf& leaf) -> std::optional<Dim> {
    if (!leaf.is_step()) return std::nullopt;
    return Dim::of(leaf_of(leaf.step()));
  });
}

std::vector<Dim> KernelProgram::own(const std::vector<Dim>& dims) const {
  std::vector<Dim> owned;
  for (const Dim& dim : dims) owned.push_back(own(dim));
  return owned;
}

KernelValue KernelProgram::value_of(std::int32_t position) const {
  const ScalarStep& named = step(position);
  if (const auto* slot = std::get_if<step::Accumulated>(&named.kind))
    return {KernelValue::Kind::Accumulated, 0, slot->slot};
  return {KernelValue::Kind::Step, number_, position};
}

KernelMask KernelProgram::mask(std::int32_t position) const {
  KernelMask any;
  for (const std::int32_t guard : guards(position)) {
    const KernelMask one = both({{step(guard).as<step::Guarded>().conditions}}, mask(guard));
    for (const auto& alternative : one.alternatives) {
      if (alternative.empty()) return {};
      if (std::ranges::find(any.alternatives, alternative) == any.alternatives.end())
        any.alternatives.push_back(alternative);
    }
  }
  return any;
}

std::vector<DimLeaf> KernelProgram::needed_leaves(std::int32_t position) const {
  const ScalarStep& needing = step(position);
  std::set<DimLeaf> leaves;
  collect_leaves(needing, leaves);
  if (needing.is<step::Load>() || needing.is<step::CheckedIndex>() || needing.is<step::Apply>()) {
    std::vector<std::int32_t> open = guards(position);
    for (std::size_t i = 0; i < open.size(); ++i) {
      collect_leaves(step(open[i]), leaves);
      for (const std::int32_t outer : guards(open[i]))
        if (std::ranges::find(open, outer) == open.end()) open.push_back(outer);
    }
  }
  return {leaves.begin(), leaves.end()};
}

bool KernelProgram::divides_by_reduction(std::int32_t position) const {
  const ScalarStep& division = step(position);
  return division.applies(Op::div) && division.dtype == DType::F32 &&
         reduced_[static_cast<std::size_t>(division.operands[1])];
}

bool varies(std::span<const ScalarStep> steps, std::int32_t position, const DimLeaf& leaf) {
  const ScalarStep& varying = steps[static_cast<std::size_t>(position)];
  const auto mentions_leaf = [&](const Dim& dim) {
    return dim.mentions(leaf) || std::ranges::any_of(steps_mentioned(dim), [&](std::int32_t index) {
             return varies(steps, index, leaf);
           });
  };
  return any_dim(varying, mentions_leaf) ||
         std::ranges::any_of(varying.operands,
                             [&](std::int32_t operand) { return varies(steps, operand, leaf); });
}

bool varies_in_row(const ScalarStep& step, const std::set<DimLeaf>& inner,
                   const std::vector<bool>& earlier) {
  const auto at = [&](std::int32_t position) {
    return earlier[static_cast<std::size_t>(position)];
  };
  const auto dim_varies = [&](const Dim& dim) {
    return std::ranges::any_of(dim.leaves(),
                               [&](const DimLeaf& leaf) { return inner.contains(leaf); }) ||
           std::ranges::any_of(steps_mentioned(dim), at);
  };
  return step.is<step::Scratch>() || any_dim(step, dim_varies) ||
         std::ranges::any_of(step.operands, at);
}

}  // namespace anydim::ir
