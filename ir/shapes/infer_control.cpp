// Types of what blocks, calls and regions give.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/error.h"
#include "ir/shapes/function_inference.h"
#include "ir/shapes/shape_rules.h"
#include "ir/text/print.h"

namespace anydim::ir {

const TensorType& FunctionInferrer::tensor_result(const Binding& binding, ValueId id) const {
  if (!function_.values[id].type.is_tensor())
    malformed(binding, "%{} is not a tensor", function_.values[id].name);
  return function_.tensor_type(id);
}

void FunctionInferrer::expect_alike(const Binding& binding, const Type& a, const Type& b,
                                    const std::string& what) const {
  if (same_form(a, b)) return;
  const bool ranks = a.is_tensor() && b.is_tensor() && a.tensor.dtype == b.tensor.dtype;
  throw Error(ranks ? ErrorKind::Unsupported : ErrorKind::Malformed,
              "{}: {} must have one {}, got {} and {}.", describe(function_, binding), what,
              a.is_tensor() && b.is_tensor() ? "dtype and rank" : "type", print(function_, a),
              print(function_, b));
}

void FunctionInferrer::expect_scalar(const Binding& binding, std::size_t operand, DType dtype,
                                     const std::string& what) const {
  if (binding.operands[operand] == no_value) return;
  const TensorType& given = tensor_result(binding, binding.operands[operand]);
  if (given.dtype == dtype && given.rank() == 0) return;
  malformed(binding, "{}, operand {}, must be {} of rank 0, got {}", what, operand, name_of(dtype),
            text_of(given, function_));
}

// The block that an `if` of known condition takes; nothing where the run tells.
std::optional<std::size_t> FunctionInferrer::taken_block(const Binding& binding) const {
  const ShapeData& condition = result_.shape_data[binding.operands[0]];
  if (!condition || condition->size() != 1 || !condition->front().is_constant())
    return std::nullopt;
  return condition->front().is_constant(0) ? 1 : 0;
}

// A block that never runs may be one that never could, or give results of other types: exporters
// write a case for every rank, of which a model has one. Then it is empty, with zeros as its
// results.
void FunctionInferrer::infer_dead_block(Block& block, const Block& taken) {
  const std::size_t requirements = result_.requirements.size(), held = held_.size();
  const int depth = depth_;
  const bool tensors = std::ranges::all_of(
      taken.results, [&](ValueId id) { return function_.values[id].type.is_tensor(); });
  const bool replaceable = tensors && block.results.size() == taken.results.size();
  const auto alike = [&](ValueId a, ValueId b) {
    return same_form(function_.values[a].type, function_.values[b].type);
  };
  try {
    infer_block(block);
    if (!replaceable || std::ranges::equal(block.results, taken.results, alike)) return;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Internal || !replaceable) throw;
  }
  result_.requirements.resize(requirements);
  held_.resize(held);
  depth_ = depth;
  block.bindings.clear();
  for (std::size_t i = 0; i < block.results.size(); ++i) {
    const TensorType& wanted = function_.tensor_type(taken.results[i]);
    Binding zeros{.op = Op::zeros};
    zeros.attributes.emplace("shape", std::vector<std::int64_t>(wanted.rank(), 0));
    zeros.attributes.emplace("dtype", wanted.dtype);
    zeros.results = {add_value("never", Type())};
    block.results[i] = zeros.results[0];
    block.bindings.push_back(std::move(zeros));
  }
  infer_block(block);
}

void FunctionInferrer::infer_branch(Binding& binding) {
  if (binding.blocks.size() != 2)
    malformed(binding, "expected 2 blocks, got {}", binding.blocks.size());
  expect_scalar(binding, 0, DType::Bool, "the condition");
  const Scope scope = open_scope(binding.blocks);
  ++depth_;
  if (const auto taken = taken_block(binding)) {
    infer_block(binding.blocks[*taken]);
    infer_dead_block(binding.blocks[1 - *taken], binding.blocks[*taken]);
  } else {
    for (Block& block : binding.blocks) infer_block(block);
  }
  --depth_;
  const std::vector<ValueId>& then = binding.blocks[0].results;
  const std::vector<ValueId>& otherwise = binding.blocks[1].results;
  if (then.size() != binding.results.size() || otherwise.size() != then.size()) {
    malformed(binding, "{} results, but the blocks give {} and {}", binding.results.size(),
              then.size(), otherwise.size());
  }
  for (std::size_t i = 0; i < then.size(); ++i) {
    const Type& a = function_.values[then[i]].type;
    const Type& b = function_.values[otherwise[i]].type;
    expect_alike(binding, a, b, fmt::format("result {} of both blocks", i));
    if (!a.is_tensor()) {
      set(binding.results[i], joined(sealed(a, scope), sealed(b, scope)));
      continue;
    }
    TensorType type{a.tensor.dtype, {}};
    for (std::size_t axis = 0; axis < a.tensor.rank(); ++axis) {
      const Dim& dim = a.tensor.dims[axis];
      type.dims.push_back(dim == b.tensor.dims[axis] ? closed(dim, scope, binding.results[i], axis)
                                                     : opened(binding.results[i], axis));
    }
    set(binding.results[i], std::move(type));
  }
}

void FunctionInferrer::infer_loop(Binding& binding) {
  const std::size_t carried = binding.operands.size() < 2 ? 0 : binding.operands.size() - 2;
  if (binding.blocks.size() != 1 || binding.operands.size() < 2)
    malformed(binding, "expected a trip count, a condition and one block");
  Block& body = binding.blocks[0];
  if (body.parameters.size() != carried + 2 || body.results.size() < carried + 1 ||
      binding.results.size() + 1 != body.results.size()) {
    malformed(binding,
              "{} carried values and {} results, but the body takes {} values and gives {}",
              carried, binding.results.size(), body.parameters.size(), body.results.size());
  }
  expect_scalar(binding, 0, DType::I64, "the trip count");
  expect_scalar(binding, 1, DType::Bool, "the condition");
  set(body.parameters[0], TensorType{DType::I64, {}});
  // The body runs only while the condition holds.
  set(body.parameters[1], TensorType{DType::Bool, {}}, std::vector<Dim>{1});
  std::vector<Type> state;
  for (std::size_t i = 0; i < carried; ++i)
    state.push_back(function_.values[binding.operands[i + 2]].type);
  const std::vector<Type> entering = state;
  const Scope scope = open_scope(binding.blocks);
  const std::size_t requirements = result_.requirements.size();
  ++depth_;
  // A carried dim that the body changes is unknown inside; each round opens at least one more, so
  // this ends.
  for (bool stable = false; !stable;) {
    result_.requirements.resize(requirements);
    for (std::size_t i = 0; i < carried; ++i) set(body.parameters[i + 2], state[i]);
    infer_block(body);
    expect_alike(binding, TensorType{DType::Bool, {}}, function_.values[body.results[0]].type,
                 "a bool and the condition of the body");
    stable = true;
    for (std::size_t i = 0; i < carried; ++i) {
      const Type& next = function_.values[body.results[i + 1]].type;
      expect_alike(binding, state[i], next, fmt::format("carried value {}", i));
      if (!next.is_tensor()) {
        Type both = joined(state[i], sealed(next, scope));
        stable = stable && both == state[i];
        state[i] = std::move(both);
        continue;
      }
      for (std::size_t axis = 0; axis < next.tensor.rank(); ++axis) {
        Dim& dim = state[i].tensor.dims[axis];
        if (next.tensor.dims[axis] == dim || dim != entering[i].tensor.dims[axis]) continue;
        dim = opened(body.parameters[i + 2], axis);
        stable = false;
      }
    }
  }
  --depth_;
  for (std::size_t i = 0; i < carried; ++i) {
    if (!state[i].is_tensor()) {
      set(binding.results[i], sealed(state[i], scope));
      continue;
    }
    TensorType type = state[i].tensor;
    for (std::size_t axis = 0; axis < type.rank(); ++axis) {
      type.dims[axis] = closed(type.dims[axis], scope, binding.results[i], axis);
    }
    set(binding.results[i], std::move(type));
  }
  for (std::size_t i = carried; i < binding.results.size(); ++i) {
    TensorType type = tensor_result(binding, body.results[i + 1]);
    for (std::size_t axis = 0; axis < type.rank(); ++axis) {
      type.dims[axis] = closed(type.dims[axis], scope, binding.results[i], axis + 1);
    }
    type.dims.insert(type.dims.begin(), trip_count(binding, binding.results[i]));
    set(binding.results[i], std::move(type));
  }
}

// The number of iterations where nothing but the trip count ends the loop; else only the run tells.
Dim FunctionInferrer::trip_count(const Binding& binding, ValueId scan) {
  const auto always = [&](ValueId id) {
    return id == no_value ||
           (result_.shape_data[id] && result_.shape_data[id]->front().is_constant(1));
  };
  const ValueId trips = binding.operands[0];
  const bool counted =
      trips != no_value && always(binding.operands[1]) && always(binding.blocks[0].results[0]);
  if (!counted) return opened(scan, 0);
  const Dim count =
      result_.shape_data[trips] ? result_.shape_data[trips]->front() : Dim::value(trips, 0);
  return simplify(max(count, 0), function_.symbols);
}

void FunctionInferrer::infer_call(Binding& binding) {
  if (binding.callee >= owner_.module.functions.size())
    malformed(binding, "there is no function {}", binding.callee);
  owner_.infer_callee(binding.callee);
  const Function& callee = owner_.module.functions[binding.callee];
  if (callee.body.parameters.size() != binding.operands.size() ||
      callee.body.results.size() != binding.results.size()) {
    malformed(binding, "@{} takes {} values and gives {}, got {} and {}", callee.name,
              callee.body.parameters.size(), callee.body.results.size(), binding.operands.size(),
              binding.results.size());
  }
  std::map<std::string, Dim> bound;
  for (std::size_t i = 0; i < binding.operands.size(); ++i)
    bind_argument(binding, callee, i, bound);
  for (const auto& [name, dim] : bound) require_range(binding, callee, name, dim);
  instantiate(binding, callee, bound, owner_.of_function(binding.callee).named_elements);
}

void FunctionInferrer::bind_argument(const Binding& binding, const Function& callee,
                                     std::size_t index, std::map<std::string, Dim>& bound) {
  const Type& declared = callee.values[callee.body.parameters[index]].type;
  const Type& type = function_.values[binding.operands[index]].type;
  if (!same_form(declared, type)) {
    malformed(binding, "operand {} must be {} for @{}, got {}", index, print(callee, declared),
              callee.name, print(function_, type));
  }
  if (!declared.is_tensor()) return;
  const TensorType& parameter = declared.tensor;
  const TensorType& given = type.tensor;
  for (std::size_t axis = 0; axis < given.rank(); ++axis) {
    const Dim& wanted = parameter.dims[axis];
    if (wanted.kind() == Dim::Kind::Symbol &&
        bound.try_emplace(wanted.leaf().symbol, given.dims[axis]).second)
      continue;
    decide(binding,
           {Relation::Equal, given.dims[axis], wanted.substitute(bound),
            fmt::format("dimension {} ({}) of parameter %{} of @{}", axis, wanted.to_string(),
                        callee.values[callee.body.parameters[index]].name, callee.name)},
           static_cast<std::int32_t>(index), static_cast<std::int32_t>(axis));
  }
}

void FunctionInferrer::require_range(const Binding& binding, const Function& callee,
                                     const std::string& name, const Dim& dim) {
  const SymbolInfo* info = callee.symbols.find(name);
  if (info == nullptr) return;
  const std::string what = fmt::format("{} of @{}", name, callee.name);
  if (info->low > 0) decide(binding, {Relation::GreaterEqual, dim, info->low, what});
  decide(binding, {Relation::LessEqual, dim, info->high, what});
  if (info->multiple > 1) decide(binding, {Relation::MultipleOf, dim, info->multiple, what});
}

// Result types of a callee in the caller's terms; what the callee opened itself is unknown here.
void FunctionInferrer::instantiate(Binding& binding, const Function& callee,
                                   const std::map<std::string, Dim>& bound,
                                   const std::map<std::string, Dim>& elements) {
  const auto argument_of = [&](ValueId id) -> std::optional<ValueId> {
    const auto found = std::ranges::find(callee.body.parameters, id);
    if (found == callee.body.parameters.end()) return std::nullopt;
    return binding.operands[static_cast<std::size_t>(found - callee.body.parameters.begin())];
  };
  for (std::size_t i = 0; i < binding.results.size(); ++i) {
    const Type& declared = callee.values[callee.body.results[i]].type;
    if (declared.kind == Type::Kind::Unknown) {
      throw Error(
          ErrorKind::Unsupported,
          "{}: the type of result {} of the recursive function @{} isn't known; declare it.",
          describe(function_, binding), i, callee.name);
    }
    // Nothing if it mentions what the callee opened.
    const auto local_dim = [&](const Dim& dim) -> std::optional<Dim> {
      bool escapes = false;
      const Dim named = elements.empty() ? dim : dim.substitute(elements);
      const Dim local = named.substitute([&](const DimLeaf& leaf) -> std::optional<Dim> {
        if (leaf.is_symbol()) {
          const auto found = bound.find(leaf.symbol);
          if (found != bound.end()) return found->second;
        } else if (const std::optional<ValueId> argument = argument_of(leaf.value)) {
          const ShapeData& known = result_.shape_data[*argument];
          return known ? (*known)[static_cast<std::size_t>(leaf.element)]
                       : Dim::value(*argument, leaf.element);
        }
        escapes = true;
        return std::nullopt;
      });
      return escapes ? std::nullopt : std::optional(simplify(local, function_.symbols));
    };
    if (!declared.is_tensor()) {
      set(binding.results[i], with_dims(declared, [&](const Dim& dim) {
            return local_dim(dim).value_or(any_extent());
          }));
      continue;
    }
    TensorType type = declared.tensor;
    for (std::size_t axis = 0; axis < type.rank(); ++axis) {
      const std::optional<Dim> local = local_dim(type.dims[axis]);
      type.dims[axis] = local ? *local : opened(binding.results[i], axis);
    }
    set(binding.results[i], std::move(type));
  }
}

void FunctionInferrer::infer_region(Binding& binding) {
  if (binding.callee >= owner_.module.regions.size())
    malformed(binding, "there is no region {}", binding.callee);
  const Function& body = owner_.module.regions[binding.callee].body;
  const std::vector<std::string>& names = body.symbols.names();
  if (names.size() != binding.dims.size() ||
      body.body.parameters.size() != binding.operands.size() ||
      body.body.results.size() != binding.results.size()) {
    malformed(binding, "region {} takes {} dims and {} values and gives {}, got {}, {} and {}",
              owner_.module.regions[binding.callee].name, names.size(), body.body.parameters.size(),
              body.body.results.size(), binding.dims.size(), binding.operands.size(),
              binding.results.size());
  }
  std::map<std::string, Dim> bound;
  for (std::size_t i = 0; i < names.size(); ++i) bound.emplace(names[i], binding.dims[i]);
  instantiate(binding, body, bound, {});
}

}  // namespace anydim::ir
