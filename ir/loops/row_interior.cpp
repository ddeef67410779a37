#include "ir/loops/row_interior.h"

#include <algorithm>
#include <limits>

#include "ir/dims/affine.h"
#include "ir/loops/scalar_program.h"

namespace anydim::ir {

namespace {

// Not negative where the condition holds; nullopt: no single dim says so.
std::optional<Dim> margin(const step::Condition& condition) {
  switch (condition.comparison) {
    case Comparison::LessEqual: return condition.right - condition.left;
    case Comparison::Less: return condition.right - condition.left - 1;
    default: return std::nullopt;
  }
}

// The smallest value of `dim` over all points of iterations that are not empty.
std::optional<Dim> lowest(Dim dim, const std::vector<Iteration>& iterations) {
  for (const Iteration& iteration : iterations) {
    if (!dim.mentions(iteration.variable)) continue;
    const auto along = affine_in(dim, iteration.variable);
    const auto stride = along ? along->stride.constant() : std::nullopt;
    if (!stride) return std::nullopt;
    dim = along->base;
    if (*stride < 0) dim = dim + *stride * (iteration.extent - 1);
  }
  return dim;
}

class Interior {
 public:
  Interior(const RowForm& form, const SymbolTable& symbols, std::size_t along, std::size_t outside)
      : form_(form), symbols_(symbols), across_(form.outer[along]) {
    found_.stages = form.stages;
    found_.end = across_.extent;
    for (std::size_t i = outside; i < form.outer.size(); ++i)
      if (i != along) unknown_.push_back(form.outer[i].variable);
  }

  std::optional<RowInterior> find() {
    for (RowStage& stage : found_.stages) {
      if (!stage.per_row) drop_conditions(stage);
    }
    if (!any_) return std::nullopt;
    found_.begin = simplify(found_.begin, symbols_);
    found_.end = simplify(found_.end, symbols_);
    return std::move(found_);
  }

 private:
  // True where the condition holds at all points of the interior, which is narrowed so that it
  // does.
  bool holds(const step::Condition& condition) {
    auto least = margin(condition);
    if (!least || !steps_mentioned(*least).empty()) return false;
    least = lowest(*least, form_.inner);
    if (!least ||
        std::ranges::any_of(unknown_, [&](const DimLeaf& leaf) { return least->mentions(leaf); }))
      return false;
    if (!least->mentions(across_.variable)) {
      *least = simplify(*least, symbols_);
      if (least->constant().value_or(-1) < 0) found_.not_negative.push_back(*least);
      return true;
    }
    const auto along = affine_in(*least, across_.variable);
    const auto stride = along ? along->stride.constant() : std::nullopt;
    if (!stride || *stride == 0 || *stride == std::numeric_limits<std::int64_t>::min())
      return false;
    const auto quotient = [](const Dim& dividend, std::int64_t divisor) {
      return floor_div(max(dividend, 0), divisor);
    };
    if (*stride > 0) found_.begin = max(found_.begin, quotient(*stride - 1 - along->base, *stride));
    else found_.end = min(found_.end, quotient(along->base - *stride, -*stride));
    return true;
  }

  void drop_conditions(RowStage& stage) {
    bool any = false;
    std::vector<ScalarStep>& steps = stage.program.steps;
    std::vector<std::int32_t> same(steps.size());  // the step that has a step's value
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (std::int32_t& operand : steps[i].operands)
        operand = same[static_cast<std::size_t>(operand)];
      same[i] = static_cast<std::int32_t>(i);
      auto* guarded = std::get_if<step::Guarded>(&steps[i].kind);
      if (guarded == nullptr) continue;
      any |= std::erase_if(guarded->conditions,
                           [&](const step::Condition& one) { return holds(one); }) != 0;
      if (guarded->conditions.empty()) same[i] = steps[i].operands[0];
    }
    for_each_root(stage, [&](std::int32_t& root) { root = same[static_cast<std::size_t>(root)]; });
    if (any) prune(stage);
    any_ = any_ || any;
  }

  const RowForm& form_;
  const SymbolTable& symbols_;
  const Iteration& across_;
  std::vector<DimLeaf> unknown_;  // where the interior is looked for
  RowInterior found_;
  bool any_ = false;
};

}  // namespace

std::optional<RowInterior> row_interior(const RowForm& form, const SymbolTable& symbols) {
  if (form.outer.empty()) return std::nullopt;
  return row_interior(form, symbols, form.outer.size() - 1, form.outer.size());
}

std::optional<RowInterior> row_interior(const RowForm& form, const SymbolTable& symbols,
                                        std::size_t along, std::size_t outside) {
  return Interior(form, symbols, along, outside).find();
}

}  // namespace anydim::ir
