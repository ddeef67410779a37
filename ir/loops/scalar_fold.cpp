#include "ir/loops/scalar_fold.h"

#include <algorithm>
#include <cmath>

#include "ir/loops/scalar_program.h"
#include "ir/loops/scalar_simplify.h"
#include "ir/reference/evaluate.h"

namespace anydim::ir {

namespace {

ScalarStep integer_step(DType dtype, std::int64_t value) {
  return {dtype, step::Constant{.integer = value}};
}
bool is_zero(const ScalarStep& step) {
  return step.is<step::Constant>() &&
         (is_float(step.dtype) ? step.as<step::Constant>().real == 0
                               : step.as<step::Constant>().integer == 0);
}

// A matrix with one number where column <= row + diagonal and another elsewhere.
struct Triangle {
  ScalarStep below, above;
  std::int64_t diagonal = 0;
};

bool is_matrix(const Tensor& tensor) {
  if (tensor.rank() < 2) return false;
  const std::int64_t rows = tensor.dims()[tensor.rank() - 2],
                     columns = tensor.dims()[tensor.rank() - 1];
  return rows > 1 && columns > 1 && tensor.elements() == rows * columns;
}

std::optional<Triangle> triangle_of(const Tensor& tensor) {
  const std::int64_t rows = tensor.dims()[tensor.rank() - 2],
                     columns = tensor.dims()[tensor.rank() - 1];
  Triangle triangle{element_step(tensor, (rows - 1) * columns), element_step(tensor, columns - 1)};
  std::int64_t leading = 0, row = 0;
  while (leading < columns && element_step(tensor, leading) == triangle.below) ++leading;
  if (leading == 0)
    while (row < rows && !(element_step(tensor, row * columns) == triangle.below)) ++row;
  triangle.diagonal = leading > 0 ? leading - 1 : -row;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      if (!(element_step(tensor, i * columns + j) ==
            (j <= i + triangle.diagonal ? triangle.below : triangle.above)))
        return std::nullopt;
  return triangle;
}

class Folding {
 public:
  explicit Folding(ProgramFacts facts) : facts_(std::move(facts)) {}

  Folded run(const ScalarProgram& original) {
    const std::vector<ScalarStep>& steps = original.steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::optional<double> known =
          i < facts_.numbers.size() ? facts_.numbers[i] : std::nullopt;
      position_.push_back(known ? push(number_step(steps[i].dtype, *known)) : folded(steps[i]));
    }
    std::int32_t root = position_.back();
    const ValueRange range = range_of(root);
    ScalarProgram program{std::move(steps_)};
    prune(program, {&root});
    return {std::move(program), range};
  }

 private:
  const ScalarStep& at(std::int32_t position) const {
    return steps_[static_cast<std::size_t>(position)];
  }
  const ValueRange& range_of(std::int32_t position) const {
    return ranges_[static_cast<std::size_t>(position)];
  }

  const Tensor* constant_of(const ScalarStep& load) const {
    const auto found = facts_.constants.find(load.as<step::Load>().buffer);
    return found == facts_.constants.end() ? nullptr : found->second;
  }

  ValueRange new_range(const ScalarStep& step) const {
    if (step.is<step::Load>()) return loaded_range(step);
    std::vector<OperandRange> operands;
    for (const std::int32_t operand : step.operands)
      operands.push_back({range_of(operand), at(operand).dtype});
    return range_of_step(step, operands, facts_.symbols);
  }

  ValueRange loaded_range(const ScalarStep& step) const {
    const auto known = facts_.elements.find(step.as<step::Load>().buffer);
    if (known != facts_.elements.end()) return known->second;
    if (const Tensor* constant = constant_of(step)) {
      ValueRange range = range_of_step(element_step(*constant, 0), {}, facts_.symbols);
      for (std::int64_t at = 1; at < constant->elements(); ++at)
        range = united(range, range_of_step(element_step(*constant, at), {}, facts_.symbols));
      return range;
    }
    return facts_.finite ? every_finite_value(step.dtype) : every_value(step.dtype);
  }

  std::int32_t push(ScalarStep step) {
    const auto same = std::find(steps_.begin(), steps_.end(), step);
    const auto position = static_cast<std::int32_t>(same - steps_.begin());
    if (same != steps_.end()) return position;
    ranges_.push_back(new_range(step));
    steps_.push_back(std::move(step));
    return position;
  }

  std::int32_t folded(ScalarStep step) {
    for (std::int32_t& operand : step.operands)
      operand = position_[static_cast<std::size_t>(operand)];
    for_each_dim(step, [&](Dim& dim) { dim = dim.substitute(facts_.replaced); });
    if (step.is<step::Load>()) return loaded(std::move(step));
    if (step.is<step::Guarded>()) return guarded(std::move(step));
    if (step.is<step::Apply>()) return applied(std::move(step));
    if (const auto* extent = std::get_if<step::Extent>(&step.kind))
      if (const auto constant = extent->value.constant())
        return push(integer_step(DType::I64, *constant));
    const bool index = step.is<step::CheckedIndex>();
    const std::int32_t position = push(std::move(step));
    if (index)
      facts_.replaced.emplace(step_leaf(static_cast<std::int32_t>(position_.size())),
                              Dim::of(step_leaf(position)));
    return position;
  }

  std::int32_t loaded(ScalarStep step) {
    const Tensor* tensor = constant_of(step);
    const auto triangle = tensor && is_matrix(*tensor) ? triangle_of(*tensor) : std::nullopt;
    if (!triangle) return push(std::move(step));
    const std::vector<Dim>& index = step.as<step::Load>().index;
    const Dim row = index[index.size() - 2], column = index.back();
    return guarded({step.dtype,
                    step::Guarded{{{Comparison::LessEqual, column, row + triangle->diagonal}}},
                    {push(triangle->below), push(triangle->above)}});
  }

  std::int32_t guarded(ScalarStep step) {
    bool all = true;
    for (const auto& condition : step.as<step::Guarded>().conditions) {
      const Proof proof =
          prove(condition.comparison, condition.left, condition.right, facts_.symbols);
      if (proof == Proof::No) return step.operands[1];
      all = all && proof == Proof::Yes;
    }
    return all || step.operands[0] == step.operands[1] ? step.operands[0] : push(std::move(step));
  }

  std::int32_t applied(ScalarStep step) {
    std::vector<const ScalarStep*> operands;
    for (const std::int32_t operand : step.operands) operands.push_back(&at(operand));
    const auto known = [](const ScalarStep* operand) { return operand->is<step::Constant>(); };
    if (std::all_of(operands.begin(), operands.end(), known)) return computed(std::move(step));
    const Simplified simple = simplify_step(step.op(), step.dtype, operands, facts_.symbols);
    if (const Dim* dim = std::get_if<Dim>(&simple)) {
      if (const auto constant = dim->constant()) return push(integer_step(DType::I64, *constant));
      return push({DType::I64, step::Extent{*dim}});
    }
    if (const bool* truth = std::get_if<bool>(&simple))
      return push(integer_step(DType::Bool, *truth ? 1 : 0));
    if (const double* real = std::get_if<double>(&simple))
      return push(number_step(step.dtype, *real));
    if (const Forwarded* forwarded = std::get_if<Forwarded>(&simple))
      return step.operands[forwarded->operand];
    if (step.op() == Op::where && step.operands[1] == step.operands[2]) return step.operands[1];
    const bool equal = step.operands.size() == 2 && step.operands[0] == step.operands[1];
    if (equal && !range_of(step.operands[0]).nan && info(step.op()).has(traits::compares)) {
      const bool holds =
          step.op() == Op::equal || step.op() == Op::less_equal || step.op() == Op::greater_equal;
      return push(integer_step(DType::Bool, holds ? 1 : 0));
    }
    if (equal && step.op() == Op::sub && range_of(step.operands[0]).finite())
      return push(number_step(step.dtype, 0));
    if (step.op() == Op::mul) {
      for (const std::size_t i : {0u, 1u})
        if (is_zero(*operands[i]) && (facts_.finite || range_of(step.operands[1 - i]).finite()))
          return push(number_step(step.dtype, 0));
    }
    if (step.op() == Op::add && is_zero(*operands[0])) return step.operands[1];
    if ((step.op() == Op::add || step.op() == Op::sub) && is_zero(*operands[1]))
      return step.operands[0];
    if (const ValueRange range = new_range(step);
        range.single() && (std::abs(range.low) < 0x1p53 || std::isinf(range.low)))
      return push(number_step(step.dtype, range.low));
    return push(std::move(step));
  }

  // Kernels and libraries differ in a function's last bits, and kernels need not round between ops
  // on narrow floats. A constant does not say which NaN it is.
  bool is_exact(const ScalarStep& step, const ScalarStep& number) const {
    if (step.op() == Op::bitcast && is_float(step.dtype))
      return !std::isnan(number.as<step::Constant>().real);
    if (!is_float(step.dtype) || number.as<step::Constant>().real == 0) return true;
    return is_function_of_reals(step.op()) ? std::isinf(number.as<step::Constant>().real)
                                           : new_range(step).single();
  }

  std::int32_t computed(ScalarStep step) {
    std::vector<Tensor> operands;
    for (const std::int32_t operand : step.operands)
      operands.push_back(constant_tensor(at(operand)));
    const auto result = apply_elementwise(scalar_op(step), step.dtype, operands);
    if (!result) return push(std::move(step));  // an integer divided by zero
    ScalarStep number = element_step(*result, 0);
    return push(is_exact(step, number) ? std::move(number) : std::move(step));
  }

  ProgramFacts facts_;
  std::vector<ScalarStep> steps_;
  std::vector<ValueRange> ranges_;      // of each of them
  std::vector<std::int32_t> position_;  // of each step of the original, among those made
};

}  // namespace

Folded fold_program(const ScalarProgram& program, ProgramFacts facts) {
  return Folding(std::move(facts)).run(program);
}

}  // namespace anydim::ir
