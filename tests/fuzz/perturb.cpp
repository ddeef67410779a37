#include "tests/fuzz/perturb.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "ir/error.h"
#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"

namespace anydim::tests {

using namespace ir;

namespace {

std::string element_difference(const Tensor& got, const Tensor& wanted, double tolerance) {
  if (got.dtype() != wanted.dtype() || got.dims() != wanted.dims()) return "another type or shape";
  for (std::int64_t i = 0; i < got.elements(); ++i) {
    if (!is_float(got.dtype())) {
      if (got.integer_at(i) != wanted.integer_at(i))
        return fmt::format("element {}: expected {}, got {}", i, wanted.integer_at(i),
                           got.integer_at(i));
      continue;
    }
    const double a = got.real_at(i), b = wanted.real_at(i);
    if (std::isnan(b) ? std::isnan(a) : a == b) continue;
    if (!(std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b))))
      return fmt::format("element {}: expected {}, got {}", i, b, a);
  }
  return {};
}

// Twice the change: a little more than what summation in another order does.
double nudge(DType dtype) {
  switch (dtype) {
    case DType::F64: return 1 + 1e-7;  // compiled kernels need not accumulate in more than f64
    case DType::F16: return 1 + 0x1p-9;
    case DType::BF16: return 1 + 0x1p-6;
    default: return 1 + 0x1p-20;
  }
}

// Adds bindings to the end of a body.
class Appender {
 public:
  Appender(Function& function, std::vector<Binding>& bindings)
      : function_(function), bindings_(bindings) {}

  ValueId constant(DType dtype, double number) {
    Tensor value(dtype, {});
    value.set_real(0, number);
    return binding(Op::constant, {}, TensorType{dtype, {}}, {{"value", std::move(value)}});
  }
  ValueId binding(Op op, std::vector<ValueId> operands, const Type& type,
                  Attributes attributes = {}) {
    const ValueId result = function_.add_value("nudged", type);
    bindings_.push_back({.op = op,
                         .operands = std::move(operands),
                         .results = {result},
                         .attributes = std::move(attributes)});
    return result;
  }

 private:
  Function& function_;
  std::vector<Binding>& bindings_;
};

// The product of a reduction as that of all factors of 1 and more, times that of all others: what a
// lane that met the large ones alone would bring. Where the first is infinite and the second 0, the
// order of factors decides whether the product is 0, infinite or no number.
ValueId product_of_two_parts(Appender& append, const Function& function, const Binding& reduction) {
  const Type type = function.values[reduction.operands[0]].type;  // values are added below
  const DType dtype = type.tensor.dtype;
  const ValueId one = append.constant(dtype, 1), below = append.constant(dtype, -1);
  const ValueId x = reduction.operands[0];
  const ValueId magnitude = append.binding(Op::abs, {x}, type);
  const ValueId large = append.binding(Op::max, {magnitude, one}, type);
  const ValueId from = append.binding(Op::max, {x, below}, type);
  const ValueId small = append.binding(Op::min, {from, one}, type);
  std::vector<ValueId> products;
  const Type result = function.values[reduction.results[0]].type;
  for (const ValueId part : {large, small}) {
    std::vector<ValueId> operands = reduction.operands;
    operands[0] = part;
    products.push_back(
        append.binding(reduction.op, std::move(operands), result, reduction.attributes));
  }
  return append.binding(Op::mul, products, result);
}

}  // namespace

std::string difference(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted,
                       double tolerance) {
  if (got.size() != wanted.size()) return "another number of results";
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::string fault = element_difference(got[i], wanted[i], tolerance);
    if (!fault.empty()) return fmt::format("output {}, {}", i, fault);
  }
  return {};
}

std::vector<Tensor> evaluate_perturbed(const RandomGraph& graph, std::size_t call,
                                       const std::set<Op>& only) {
  Module module = graph.module;
  infer_types(module);
  Function& main = module.functions[0];
  std::vector<ValueId> renamed(main.values.size());
  for (ValueId id = 0; id < renamed.size(); ++id) renamed[id] = id;
  std::vector<Binding> bindings;
  Appender append(main, bindings);
  std::uint64_t state = 1;
  for (Binding& binding : main.body.bindings) {
    for (ValueId& operand : binding.operands)
      if (operand != no_value) operand = renamed[operand];
    const Binding copy = binding;
    bindings.push_back(std::move(binding));
    if (!only.empty() && !only.contains(copy.op)) continue;
    if (info(copy.op).has(traits::moves) || info(copy.op).has(traits::literal)) continue;
    for (ValueId result : copy.results) {
      const Type type = main.values[result].type;
      if (!type.is_tensor() || !is_float(type.tensor.dtype)) continue;
      const bool multiplies = copy.op == Op::reduce_prod || copy.op == Op::dyn_reduce_prod;
      const ValueId plain = multiplies ? product_of_two_parts(append, main, copy) : result;
      // Up, down or not at all: the same change everywhere would cancel out in differences.
      state = state * 6364136223846793005u + 1442695040888963407u;
      const ValueId factor =
          append.constant(type.tensor.dtype, 1 + (nudge(type.tensor.dtype) - 1) *
                                                     (static_cast<double>(state >> 62) - 1.5));
      renamed[result] = append.binding(Op::mul, {plain, factor}, type);
    }
  }
  main.body.bindings = std::move(bindings);
  for (ValueId& result : main.body.results) result = renamed[result];
  try {
    return evaluate(module, main, graph.calls[call]);
  } catch (const Error&) {
    return {};  // a count or an index changed: as unstable as it gets
  }
}

}  // namespace anydim::tests
