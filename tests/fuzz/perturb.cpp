#include "tests/fuzz/perturb.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "ir/error.h"
#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"
#include "passes/binding_writer.h"

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

// The product of a reduction as that of all factors of 1 and more, times that of all others: what a
// lane that met the large ones alone would bring. Where the first is infinite and the second 0, the
// order of factors decides whether the product is 0, infinite or no number.
ValueId product_of_two_parts(passes::BindingWriter& writer, DType dtype, const Binding& reduction) {
  const ValueId factors = reduction.operands[0];
  const ValueId one = writer.number(dtype, 1);
  const ValueId large = writer.emit(Op::max, {writer.emit(Op::abs, {factors}), one});
  const ValueId small =
      writer.emit(Op::min, {writer.emit(Op::max, {factors, writer.number(dtype, -1)}), one});
  const auto product = [&](ValueId part) {
    std::vector<ValueId> operands = reduction.operands;
    operands[0] = part;
    return writer.emit(reduction.op, std::move(operands), reduction.attributes);
  };
  const ValueId of_large = product(large);
  return writer.emit(Op::mul, {of_large, product(small)});
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
  passes::BindingWriter writer(main, bindings, "", "nudged");
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
      const ValueId plain =
          multiplies ? product_of_two_parts(writer, type.tensor.dtype, copy) : result;
      // Up, down or not at all: the same change everywhere would cancel out in differences.
      state = state * 6364136223846793005u + 1442695040888963407u;
      const ValueId factor =
          writer.number(type.tensor.dtype, 1 + (nudge(type.tensor.dtype) - 1) *
                                                   (static_cast<double>(state >> 62) - 1.5));
      renamed[result] = writer.emit(Op::mul, {plain, factor});
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
