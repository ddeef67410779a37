#include "passes/hide_rows.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "ir/loops/scalar_program.h"
#include "ir/shapes/infer.h"
#include "passes/mask_proof.h"
#include "passes/row_axes.h"

namespace anydim::passes {

using namespace ir;

namespace {

using Dims = std::vector<Dim>;

MaskVerdict first_mask(const Function& function) {
  MaskVerdict first{.reason = without_attention(function)};
  bool seen = false;
  for (const Binding& binding : function.body.bindings) {
    if (binding.op != Op::attention) continue;
    MaskVerdict verdict = find_mask(function, function.body, binding);
    if (verdict.finding) return verdict;
    if (!std::exchange(seen, true)) first = std::move(verdict);
  }
  return first;
}

class RowHider {
 public:
  RowHider(Function& function, const MaskFinding& finding)
      : function_(function), finding_(finding), mask_(function.tensor_type(finding.mask)) {}

  void hide_reach(const HideOptions& options) {
    std::map<ValueId, double> limits;  // of keys, by bias
    for (const Binding& binding : function_.body.bindings)
      if (binding.op == Op::attention) limits.try_emplace(bias_of(binding), key_limit(binding));
    std::vector<Binding> bindings = std::exchange(function_.body.bindings, {});
    const ValueId hidden = hidden_in_clean_calls(options);
    for (Binding& binding : bindings) {
      if (binding.op == Op::attention) {
        binding.operands[1] = within_or_zero(binding.operands[1], limits.at(bias_of(binding)),
                                             hidden, binding.source);
        binding.operands[2] =
            within_or_zero(binding.operands[2], largest(binding), hidden, binding.source);
      } else if (!binding.results.empty() && options.reductions.contains(binding.results[0])) {
        binding.operands[0] =
            without_rows(binding.operands[0], hidden, binding.source, neutral(binding.op));
      }
      function_.body.bindings.push_back(std::move(binding));
    }
  }

  // The first result whose rows are not found.
  std::string hide_results() {
    const ValueId hidden = hidden_rows();
    for (std::size_t i = 0; i < function_.body.results.size(); ++i) {
      ValueId& result = function_.body.results[i];
      if (rows(result).several)
        return fmt::format("result %{} has rows along several dims", function_.values[result].name);
      result = without_rows(result, hidden, "");
    }
    return "";
  }

 private:
  FoundRows rows(ValueId value) const {
    return find_row_axes(function_.values[value].type, mask_.dims[0], mask_.dims[1]);
  }

  // What a row of these numbers adds nothing to.
  static double neutral(Op reduction) {
    const double infinity = std::numeric_limits<double>::infinity();
    return reduction == Op::reduce_max ? -infinity : reduction == Op::reduce_min ? infinity : 0;
  }

  ValueId add(Op op, std::vector<ValueId> operands, Attributes attributes = {},
              const Dims& dims = {}, const std::string& source = "") {
    const ValueId result = function_.add_value("hidden");
    function_.body.bindings.push_back({.op = op,
                                       .operands = std::move(operands),
                                       .results = {result},
                                       .attributes = std::move(attributes),
                                       .dims = dims,
                                       .source = source});
    return result;
  }

  ValueId number(DType dtype, double value) {
    return add(Op::constant, {}, {{"value", constant_tensor(number_step(dtype, value))}});
  }

  ValueId question() {
    std::vector<ValueId> values;
    for (const ScalarStep& step : finding_.question.steps) {
      std::vector<ValueId> operands;
      for (const std::int32_t operand : step.operands)
        operands.push_back(values[static_cast<std::size_t>(operand)]);
      if (step.is<step::Load>()) values.push_back(finding_.mask);
      else if (step.is<step::Constant>())
        values.push_back(add(Op::constant, {}, {{"value", constant_tensor(step)}}));
      else values.push_back(add(step.op(), std::move(operands), step_attributes(step)));
    }
    return values.back();
  }

  // (batch, sequence), bool
  ValueId hidden_rows() {
    const bool asked = !finding_.question.steps.empty();
    if (!asked && mask_.dtype != DType::Bool)
      return add(Op::equal, {finding_.mask, number(mask_.dtype, 1 - finding_.kept)});
    const ValueId truth = asked ? question() : finding_.mask;
    return finding_.kept != 0 ? add(Op::logical_not, {truth}) : truth;
  }

  // None where an entry is neither 0 nor 1, or an input beyond its limit: what such a row sees is
  // not known.
  ValueId hidden_in_clean_calls(const HideOptions& options) {
    ValueId hidden = hidden_rows();
    const auto all_hold = [&](ValueId truth, std::size_t rank) {
      std::vector<std::int64_t> axes(rank);
      std::iota(axes.begin(), axes.end(), std::int64_t{0});
      const ValueId count = add(
          Op::reduce_sum, {add(Op::cast, {add(Op::logical_not, {truth})}, {{"to", DType::I64}})},
          {{"axes", std::move(axes)}});
      hidden = add(Op::logical_and, {hidden, add(Op::equal, {count, number(DType::I64, 0)})});
    };
    if (options.entries_are_bits && mask_.dtype != DType::Bool) {
      const ValueId zero = add(Op::equal, {finding_.mask, number(mask_.dtype, 0)}),
                    one = add(Op::equal, {finding_.mask, number(mask_.dtype, 1)});
      all_hold(add(Op::logical_or, {zero, one}), 2);
    }
    for (const std::size_t position : options.limited_inputs) {
      const ValueId input = function_.body.parameters[position];
      all_hold(within(input, options.input_limit, ""), function_.tensor_type(input).rank());
    }
    return hidden;
  }

  // Neither NaN nor larger than the limit either way.
  ValueId within(ValueId value, double limit, const std::string& source) {
    const ValueId most =
        add(Op::constant, {},
            {{"value", constant_tensor(number_step(function_.tensor_type(value).dtype, limit))}});
    return add(Op::less_equal, {add(Op::abs, {value}, {}, {}, source), most}, {}, {}, source);
  }

  // `hidden` with the dims of batch and sequence where the value has them and 1 elsewhere; nothing
  // where the value has no rows.
  std::optional<ValueId> placed(ValueId value, ValueId hidden, const std::string& source) {
    const auto axes = rows(value).axes;
    if (!axes) return std::nullopt;
    const TensorType& type = function_.tensor_type(value);
    Dims dims(type.rank(), Dim(1));
    for (const std::size_t axis : {axes->batch, axes->sequence}) dims[axis] = type.dims[axis];
    if (axes->sequence < axes->batch)
      hidden =
          add(Op::transpose, {hidden}, {{"perm", std::vector<std::int64_t>{1, 0}}}, {}, source);
    return add(Op::dyn_reshape, {hidden, add(Op::shape, {}, {}, dims, source)}, {}, {}, source);
  }

  // Zeros, or the number given, at hidden rows; the value itself where it has none.
  ValueId without_rows(ValueId value, ValueId hidden, const std::string& source,
                       double number_there = 0) {
    const auto where = placed(value, hidden, source);
    if (!where) return value;
    return add(Op::where, {*where, number(function_.tensor_type(value).dtype, number_there), value},
               {}, {}, source);
  }

  static ValueId bias_of(const Binding& attention) {
    return attention.operands.size() > 3 ? attention.operands[3] : no_value;
  }
  double largest(const Binding& attention) const {
    return every_finite_value(function_.tensor_type(attention.results[0]).dtype).high;
  }

  // A finite fill hides because scores have a bound. Beside an infinite one they may overflow, and
  // infinity less infinity is NaN.
  double key_limit(const Binding& attention) const {
    const MaskVerdict verdict = find_mask(function_, function_.body, attention);
    return verdict.finding && std::isfinite(verdict.finding->fill) ? largest(attention) : 1e15;
  }

  // Keys and values at hidden rows, which weigh nothing where rows take part, as they are where
  // they are numbers within the limit: hidden rows that a model reads see them.
  ValueId within_or_zero(ValueId value, double limit, ValueId hidden, const std::string& source) {
    const auto where = placed(value, hidden, source);
    if (!where) return value;
    const DType dtype = function_.tensor_type(value).dtype;
    const ValueId other =
        add(Op::logical_and,
            {*where, add(Op::logical_not, {within(value, limit, source)}, {}, {}, source)}, {}, {},
            source);
    return add(Op::where, {other, number(dtype, 0), value}, {}, {}, source);
  }

  Function& function_;
  const MaskFinding& finding_;
  const TensorType mask_;
};

}  // namespace

HideOptions hiding_like(const PackingResult& packing) {
  HideOptions options;
  if (!packing.packed) return options;
  const PackingPlan& plan = packing.packed->plan;
  options.reach = true;
  options.reductions = plan.reductions;
  options.entries_are_bits = plan.question.steps.empty();
  const std::vector<ValueId>& parameters = packing.packed->module.functions.at(0).body.parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (plan.limited_inputs.contains(parameters[i])) options.limited_inputs.push_back(i);
  options.input_limit = plan.input_limit;
  return options;
}

HiddenRows hide_rows(const Module& module, const HideOptions& options) {
  HiddenRows result{.module = module};
  if (!options.results && !options.reach) return result;
  Function& function = result.module.functions.at(0);
  const MaskVerdict verdict = first_mask(function);
  if (!verdict.finding) {
    result.reason = verdict.reason;
    return result;
  }
  const TensorType mask = function.tensor_type(verdict.finding->mask);
  if (mask.dims[0].is_constant() || mask.dims[1].is_constant() || mask.dims[0] == mask.dims[1]) {
    result.reason = fmt::format("batch and sequence of %{} are not two unknown dims",
                                function.values[verdict.finding->mask].name);
    return result;
  }
  RowHider hider(function, *verdict.finding);
  if (options.reach) hider.hide_reach(options);
  if (options.results) result.reason = hider.hide_results();
  infer_types(result.module);
  return result;
}

// With HideOptions::results.
void hide_rows(Module& module, PassContext& context) {
  HiddenRows hidden = hide_rows(module, {.results = true});
  module = std::move(hidden.module);
  if (!hidden.reason.empty() && context.options.warn)
    context.options.warn("hidden rows of results are as the model computes them: " + hidden.reason);
}

}  // namespace anydim::passes
