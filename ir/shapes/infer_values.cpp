// Types of lists, tuples and function values.

#include <algorithm>

#include "ir/error.h"
#include "ir/shapes/function_inference.h"
#include "ir/text/print.h"

namespace anydim::ir {

Type with_dims(Type type, const std::function<Dim(const Dim&)>& replaced) {
  for (Dim& dim : type.tensor.dims) dim = replaced(dim);
  for (Type& element : type.elements) element = with_dims(std::move(element), replaced);
  for (Type& result : type.results) result = with_dims(std::move(result), replaced);
  return type;
}

bool same_form(const Type& a, const Type& b) {
  if (a.kind == Type::Kind::Unknown || b.kind == Type::Kind::Unknown) return true;
  return a.kind == b.kind && a.tensor.dtype == b.tensor.dtype &&
         a.tensor.rank() == b.tensor.rank() &&
         std::ranges::equal(a.elements, b.elements, same_form) &&
         std::ranges::equal(a.results, b.results, same_form);
}

Type joined(const Type& a, const Type& b) {
  if (a.kind == Type::Kind::Unknown) return b;
  if (b.kind == Type::Kind::Unknown) return a;
  Type both = a;
  for (std::size_t i = 0; i < both.tensor.dims.size(); ++i)
    if (both.tensor.dims[i] != b.tensor.dims[i]) both.tensor.dims[i] = any_extent();
  for (std::size_t i = 0; i < both.elements.size(); ++i)
    both.elements[i] = joined(a.elements[i], b.elements[i]);
  for (std::size_t i = 0; i < both.results.size(); ++i)
    both.results[i] = joined(a.results[i], b.results[i]);
  return both;
}

Type FunctionInferrer::sealed(const Type& type, const Scope& scope) const {
  return with_dims(type, [&](const Dim& dim) {
    const std::set<DimLeaf> leaves = dim.leaves();
    return std::ranges::any_of(leaves, [&](const DimLeaf& leaf) { return holds(scope, leaf); })
               ? any_extent()
               : dim;
  });
}

Type FunctionInferrer::taken(const Type& type, ValueId result) {
  Type own = type;
  for (std::size_t axis = 0; axis < own.tensor.dims.size(); ++axis)
    if (is_any_extent(own.tensor.dims[axis])) own.tensor.dims[axis] = opened(result, axis);
  return own;
}

const Type& FunctionInferrer::type_of(const Binding& binding, std::size_t operand) const {
  return function_.values[binding.operands[operand]].type;
}

const Type& FunctionInferrer::operand_type(const Binding& binding, std::size_t operand,
                                           Type::Kind kind, std::string_view what) const {
  const Type& type = type_of(binding, operand);
  if (type.kind != kind)
    malformed(binding, "operand {} must be {}, got {}", operand, what, print(function_, type));
  return type;
}

// What is left to give after the first arguments. Extents that these do not decide are `?`: each
// call binds them anew.
Type FunctionInferrer::signature(const Binding& closure, const Function& callee) {
  const std::size_t given = closure.operands.size();
  if (given > callee.body.parameters.size())
    malformed(closure, "@{} takes {} values, got {}", callee.name, callee.body.parameters.size(),
              given);
  std::map<std::string, Dim> bound;
  for (std::size_t i = 0; i < given; ++i) {
    const Type& parameter = callee.values[callee.body.parameters[i]].type;
    const Type& argument = function_.values[closure.operands[i]].type;
    if (!same_form(parameter, argument))
      malformed(closure, "operand {} must be {} for @{}, got {}", i, print(callee, parameter),
                callee.name, print(function_, argument));
    for (std::size_t axis = 0; axis < parameter.tensor.rank(); ++axis)
      if (const Dim& dim = parameter.tensor.dims[axis]; dim.kind() == Dim::Kind::Symbol)
        bound.try_emplace(dim.leaf().symbol, argument.tensor.dims[axis]);
  }
  const auto outside = [&](const Dim& dim) {
    const std::set<DimLeaf> leaves = dim.leaves();
    const bool known = std::ranges::all_of(leaves, [&](const DimLeaf& leaf) {
      return leaf.is_symbol() && bound.contains(leaf.symbol);
    });
    return known ? dim.substitute(bound) : any_extent();
  };
  Type type;
  type.kind = Type::Kind::Function;
  for (std::size_t i = given; i < callee.body.parameters.size(); ++i)
    type.elements.push_back(with_dims(callee.values[callee.body.parameters[i]].type, outside));
  for (const ValueId result : callee.body.results) {
    const Type& declared = callee.values[result].type;
    if (declared.kind == Type::Kind::Unknown)
      throw Error(ErrorKind::Unsupported,
                  "{}: the result types of the recursive function @{} aren't known; declare them.",
                  describe(function_, closure), callee.name);
    type.results.push_back(with_dims(declared, outside));
  }
  return type;
}

void FunctionInferrer::infer_apply(const Binding& binding) {
  const Type called = operand_type(binding, 0, Type::Kind::Function, "a function value");
  if (called.elements.size() + 1 != binding.operands.size() ||
      called.results.size() != binding.results.size()) {
    malformed(binding, "%{} takes {} values and gives {}, got {} and {}",
              function_.values[binding.operands[0]].name, called.elements.size(),
              called.results.size(), binding.operands.size() - 1, binding.results.size());
  }
  for (std::size_t i = 0; i < called.elements.size(); ++i) {
    const Type &wanted = called.elements[i], &given = type_of(binding, i + 1);
    bool fits = same_form(wanted, given);
    for (std::size_t axis = 0; fits && wanted.is_tensor() && axis < wanted.tensor.rank(); ++axis) {
      const Dim& dim = wanted.tensor.dims[axis];
      fits = is_any_extent(dim) ||
             prove_equal(dim, given.tensor.dims[axis], function_.symbols) != Proof::No;
    }
    if (!fits)
      malformed(binding, "operand {} must be {}, got {}", i + 1, print(function_, wanted),
                print(function_, given));
  }
  for (std::size_t i = 0; i < binding.results.size(); ++i)
    set(binding.results[i], taken(called.results[i], binding.results[i]));
}

Type FunctionInferrer::concatenation(const Binding& binding, const Type& list) {
  if (!list.elements[0].is_tensor())
    malformed(binding, "takes a list of tensors, got {}", print(function_, list));
  TensorType type = list.elements[0].tensor;
  const bool new_axis = integer_attribute(binding, "new_axis") != 0;
  const auto rank = static_cast<std::int64_t>(type.rank() + (new_axis ? 1 : 0));
  std::int64_t axis = integer_attribute(binding, "axis");
  if (axis < -rank || axis >= rank)
    malformed(binding, "axis {} is out of range for rank {}", axis, rank);
  if (axis < 0) axis += rank;
  if (new_axis) type.dims.insert(type.dims.begin() + axis, any_extent());
  else type.dims[static_cast<std::size_t>(axis)] = any_extent();
  return taken(type, binding.results[0]);
}

Type FunctionInferrer::list_result(const Binding& binding) {
  Type list = operand_type(binding, 0, Type::Kind::List, "a list");
  Type& element = list.elements[0];
  switch (binding.op) {  // NOLINT: the ops on lists
    case Op::list_length: return TensorType{DType::I64, {}};
    case Op::list_at:
      expect_scalar(binding, 1, DType::I64, "the position");
      if (element.kind == Type::Kind::Unknown)
        malformed(binding, "takes an element of a list that nothing was put into");
      return taken(element, binding.results[0]);
    case Op::list_insert:
      if (binding.operands.size() > 2) expect_scalar(binding, 2, DType::I64, "the position");
      expect_alike(binding, element, type_of(binding, 1), "the elements of a list");
      element = joined(element, type_of(binding, 1));
      return list;
    case Op::list_erase:
      if (binding.operands.size() > 1) expect_scalar(binding, 1, DType::I64, "the position");
      return list;
    case Op::list_concat: return concatenation(binding, list);
    default: internal_error("infer_value knows every op on lists, tuples and function values");
  }
}

void FunctionInferrer::infer_value(Binding& binding) {
  if (binding.op == Op::apply) return infer_apply(binding);
  const ValueId result = binding.results[0];
  if (binding.op == Op::closure) {
    if (binding.callee >= owner_.module.functions.size())
      malformed(binding, "there is no function {}", binding.callee);
    owner_.infer_callee(binding.callee);
    return set(result, signature(binding, owner_.module.functions[binding.callee]));
  }
  if (binding.op == Op::tuple) {
    Type type;
    type.kind = Type::Kind::Tuple;
    for (const ValueId operand : binding.operands)
      type.elements.push_back(function_.values[operand].type);
    return set(result, std::move(type));
  }
  if (binding.op == Op::tuple_get) {
    const Type& type = operand_type(binding, 0, Type::Kind::Tuple, "a tuple");
    const std::int64_t index = integer_attribute(binding, "index");
    if (index < 0 || index >= static_cast<std::int64_t>(type.elements.size()))
      malformed(binding, "index {} is out of range for {}", index, print(function_, type));
    return set(result, taken(type.elements[static_cast<std::size_t>(index)], result));
  }
  if (binding.op == Op::list) {
    Type type;
    type.kind = Type::Kind::List;
    type.elements.emplace_back();
    for (std::size_t i = 0; i < binding.operands.size(); ++i) {
      expect_alike(binding, type.elements[0], type_of(binding, i), "the elements of a list");
      type.elements[0] = joined(type.elements[0], type_of(binding, i));
    }
    return set(result, std::move(type));
  }
  set(result, list_result(binding));
}

}  // namespace anydim::ir
