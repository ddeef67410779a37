#include "ir/shapes/infer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/error.h"
#include "ir/reference/evaluate.h"
#include "ir/region.h"
#include "ir/shapes/function_inference.h"
#include "ir/shapes/shape_rules.h"

namespace anydim::ir {

ModuleInference::ModuleInference(Module& module_given)
    : module(module_given), states_(module.functions.size(), State::Untouched) {
  result_.functions.resize(module.functions.size());
  result_.regions.resize(module.regions.size());
}

FunctionInferrer::FunctionInferrer(ModuleInference& owner, Function& function,
                                   FunctionInference& result, Kind kind)
    : owner_(owner), function_(function), result_(result), kind_(kind) {
  for (const ValueId parameter : function.body.parameters) {
    if (function.values[parameter].type.kind == Type::Kind::Unknown) {
      throw Error(ErrorKind::Malformed, "function @{}: parameter %{} has no type.", function.name,
                  function.values[parameter].name);
    }
    for (const Dim& dim : function.values[parameter].type.tensor.dims) {
      if (dim.kind() == Dim::Kind::Symbol) parameter_symbols_.insert(dim.leaf().symbol);
      dim.collect_leaves(parameter_leaves_);
    }
  }
}

void FunctionInferrer::run() {
  find_openers(function_.body, {});
  NamedSizes known;
  find_names(function_.body, known);
  find_declared();
  // A narrowed range decides more, so types are computed anew with it.
  do {
    narrowed_ = false;
    constants_.assign(function_.values.size(), nullptr);
    result_.shape_data.assign(function_.values.size(), std::nullopt);
    result_.requirements.clear();
    held_.clear();
    named_.clear();
    bound_symbols_.clear();
    bound_.clear();
    visible_.assign(function_.values.size(), false);
    to_check_.clear();
    at_work_ = nullptr;
    try {
      infer_block(function_.body);
    } catch (const Restart&) {
      narrowed_ = true;
    }
  } while (narrowed_);
  for (const auto& [size, symbol] : named_)
    if (size.kind() == Dim::Kind::Value) result_.named_elements.emplace(symbol.leaf().symbol, size);
  if (!to_check_.empty()) insert_checks(function_.body);
  for (Value& value : function_.values) value.declared = Value::Declared::Nothing;
  if (kind_ == Kind::Function) remove_unused_unbacked_symbols();
}

void FunctionInferrer::infer_block(Block& block) {
  const std::size_t held = held_.size(), named = named_.size();
  for (std::size_t i = 0; i < block.bindings.size(); ++i) {
    Binding& binding = block.bindings[i];
    const Binding* around = std::exchange(at_work_, &binding);
    infer_binding(binding);
    name_sizes(binding);
    at_work_ = around;
    const auto place = block.bindings.begin() + static_cast<std::ptrdiff_t>(i);
    i += to_insert_.size();
    block.bindings.insert(place, std::make_move_iterator(to_insert_.begin()),
                          std::make_move_iterator(to_insert_.end()));
    to_insert_.clear();
  }
  if (&block == &function_.body) return;
  hide_values_of(block);
  held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(held), held_.end());
  for (; named_.size() > named; named_.pop_back())
    bound_symbols_.erase(bound_symbols_.find(named_.back().second.leaf().symbol));
}

void FunctionInferrer::infer_binding(Binding& binding) {
  switch (
      binding.op) {  // NOLINT: only control flow differs; apply_shape_rule switches over every op
    case Op::call: return infer_call(binding);
    case Op::branch: return infer_branch(binding);
    case Op::loop: return infer_loop(binding);
    case Op::region: return infer_region(binding);
    case Op::closure:
    case Op::apply:
    case Op::tuple:
    case Op::tuple_get:
    case Op::list:
    case Op::list_length:
    case Op::list_at:
    case Op::list_insert:
    case Op::list_erase:
    case Op::list_concat: return infer_value(binding);
    default: break;
  }
  for (std::string& name : bound_by(binding)) bound_.insert(std::move(name));
  if (kind_ == Kind::Function) require_known_symbols(binding);
  facts_.clear();
  renamed_.clear();
  for (const ValueId operand : binding.operands) facts_.push_back(facts_of(operand));
  RuleResult rule = apply_shape_rule(function_, binding, facts_, function_.symbols);
  if (rule.types.size() != binding.results.size()) {
    throw Error(ErrorKind::Malformed, "{}: expected {} results, got {}.",
                describe(function_, binding), rule.types.size(), binding.results.size());
  }
  for (const Count& count : rule.counts) {
    const auto [result, axis] = count.places.front();
    const Dim symbol = opened(binding.results[result], axis);
    function_.symbols.declare(symbol.leaf().symbol, info_of(count, function_.symbols));
    place_count(rule, count, symbol);
  }
  for (std::size_t i = 0; i < binding.results.size(); ++i) {
    set(binding.results[i], std::move(rule.types[i]), std::move(rule.shape_data[i]));
  }
  if (binding.op == Op::constant)
    constants_[binding.results[0]] = &tensor_attribute(binding, "value");
  else if (info(binding.op).has(traits::moves)) move_numbers(binding);
  for (Precondition& precondition : rule.preconditions) decide(binding, std::move(precondition));
}

std::vector<std::int64_t> constant_extents(const std::vector<Dim>& dims) {
  std::vector<std::int64_t> result;
  for (const Dim& dim : dims) result.push_back(dim.constant().value());
  return result;
}

namespace {

constexpr std::int64_t most_moved = 256;

bool few_elements(const std::vector<Dim>& dims) {
  return std::ranges::all_of(dims, [](const Dim& dim) { return dim.is_constant(); }) &&
         element_count(constant_extents(dims)) <= most_moved;
}

// Nothing where it fails: an index out of range, say, is the run's to report.
std::optional<Tensor> evaluated(const Function& function, const Binding& binding,
                                std::span<const Tensor* const> operands) {
  try {
    return evaluate_binding(function, binding, operands).at(0);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Adds an operand whose elements are known and few, or null for one that is left out; `made` has
// room for it. False: it is neither.
bool add_numbers(const OperandFacts& fact, std::vector<Tensor>& made,
                 std::vector<const Tensor*>& operands) {
  if (fact.type == nullptr || fact.constant != nullptr) {
    operands.push_back(fact.constant);
    return fact.constant == nullptr || fact.constant->elements() <= most_moved;
  }
  const auto is_constant = [](const Dim& dim) { return dim.is_constant(); };
  if (fact.shape_data == nullptr || !*fact.shape_data || !fact.type->is_tensor() ||
      !few_elements(fact.type->tensor.dims) || !std::ranges::all_of(**fact.shape_data, is_constant))
    return false;
  Tensor& tensor =
      made.emplace_back(fact.type->tensor.dtype, constant_extents(fact.type->tensor.dims));
  for (std::size_t i = 0; i < (*fact.shape_data)->size(); ++i)
    tensor.set_integer(static_cast<std::int64_t>(i), *(**fact.shape_data)[i].constant());
  operands.push_back(&tensor);
  return true;
}

std::optional<Tensor> moved_numbers(const Function& function, const Binding& binding,
                                    const TensorType& result, std::span<const OperandFacts> facts) {
  if (!info(binding.op).has(traits::moves) || binding.results.size() != 1 ||
      is_float(result.dtype) || !few_elements(result.dims))
    return std::nullopt;
  std::vector<Tensor> made;
  made.reserve(facts.size());
  std::vector<const Tensor*> operands;
  for (const OperandFacts& fact : facts)
    if (!add_numbers(fact, made, operands)) return std::nullopt;
  return evaluated(function, binding, operands);
}

bool is_one_hot(Op op) { return op == Op::one_hot || op == Op::dyn_one_hot; }

// Whether the operand's elements are what the op moves; others say where to.
bool is_moved(Op op, std::size_t operand) {
  if (is_one_hot(op)) return operand == 1 || operand == 2;
  return operand == 0 || op == Op::concat;
}

ShapeData moved_dims(const Function& function, const Binding& binding, const TensorType& result,
                     std::span<const OperandFacts> facts) {
  const OpInfo& op = info(binding.op);
  const bool only_moves = op.has(traits::views) || op.has(traits::reshapes) ||
                          binding.op == Op::concat || binding.op == Op::gather ||
                          is_one_hot(binding.op);
  if (!only_moves || binding.results.size() != 1 || is_float(result.dtype) ||
      !few_elements(result.dims))
    return std::nullopt;
  // Numbers stand for the elements while the op moves them.
  std::vector<Dim> elements;
  std::vector<Tensor> made;
  made.reserve(facts.size());
  std::vector<const Tensor*> operands;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    const OperandFacts& fact = facts[i];
    if (!is_moved(binding.op, i)) {
      if (!add_numbers(fact, made, operands)) return std::nullopt;
      continue;
    }
    if (fact.type == nullptr || !fact.type->is_tensor() || is_float(fact.type->tensor.dtype) ||
        !few_elements(fact.type->tensor.dims))
      return std::nullopt;
    Tensor& tensor = made.emplace_back(DType::I64, constant_extents(fact.type->tensor.dims));
    const bool is_known =
        fact.shape_data != nullptr && *fact.shape_data &&
        static_cast<std::int64_t>((*fact.shape_data)->size()) == tensor.elements();
    if (!is_known && fact.constant == nullptr) return std::nullopt;
    for (std::int64_t at = 0; at < tensor.elements(); ++at) {
      tensor.set_integer(at, static_cast<std::int64_t>(elements.size()));
      elements.push_back(is_known ? (**fact.shape_data)[static_cast<std::size_t>(at)]
                                  : Dim(fact.constant->integer_at(at)));
    }
    operands.push_back(&tensor);
  }
  const auto moved = evaluated(function, binding, operands);
  if (!moved) return std::nullopt;
  std::vector<Dim> found;
  for (std::int64_t at = 0; at < moved->elements(); ++at)
    found.push_back(elements.at(static_cast<std::size_t>(moved->integer_at(at))));
  return found;
}

// The elements of a vector or of rank 0.
ShapeData shape_data_of(const Tensor& tensor) {
  if (tensor.rank() > 1) return std::nullopt;
  std::vector<Dim> elements;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) elements.emplace_back(tensor.integer_at(i));
  return elements;
}

}  // namespace

MovedElements moved_elements(const Function& function, const Binding& binding,
                             const TensorType& result, std::span<const OperandFacts> facts) {
  if (auto numbers = moved_numbers(function, binding, result, facts)) {
    ShapeData elements = shape_data_of(*numbers);
    return {std::move(numbers), std::move(elements)};
  }
  return {std::nullopt, moved_dims(function, binding, result, facts)};
}

void FunctionInferrer::move_numbers(const Binding& binding) {
  if (binding.results.size() != 1 || result_.shape_data[binding.results[0]]) return;
  const ValueId result = binding.results[0];
  MovedElements moved = moved_elements(function_, binding, function_.tensor_type(result), facts_);
  result_.shape_data[result] = std::move(moved.elements);
  if (moved.numbers) constants_[result] = &moved_.emplace_back(*std::move(moved.numbers));
}

OperandFacts FunctionInferrer::facts_of(ValueId id) {
  if (id == no_value) return {};
  const ShapeData* elements = &result_.shape_data[id];
  if (!named_.empty() && *elements) {
    std::vector<Dim>& renamed = renamed_.emplace_back(**elements).value();
    for (Dim& element : renamed) element = by_names(element);
    elements = &renamed_.back();
  }
  return {&function_.values[id].type, elements, constants_[id]};
}

void FunctionInferrer::require_known_symbols(const Binding& binding) const {
  for (const Dim& dim : binding.dims) {
    for (const DimLeaf& leaf : dim.leaves()) {
      if (!leaf.is_symbol() || parameter_leaves_.contains(leaf) || bound_.contains(leaf.symbol))
        continue;
      const SymbolInfo* symbol = function_.symbols.find(leaf.symbol);
      if (symbol == nullptr || !symbol->unbacked)
        malformed(binding,
                  "expected symbols that have a value here, got {}, which no parameter's type "
                  "mentions and nothing before binds",
                  leaf.symbol);
    }
  }
}

void FunctionInferrer::set(ValueId id, Type type, ShapeData shape_data) {
  if (function_.values[id].declared != Value::Declared::Nothing) hold_against_declared(id, type);
  visible_[id] = true;
  function_.values[id].type = std::move(type);
  result_.shape_data[id] = std::move(shape_data);
}

void FunctionInferrer::decide(const Binding& binding, Precondition precondition,
                              std::int32_t argument, std::int32_t axis) {
  precondition.left = by_names(precondition.left);
  precondition.right = by_names(precondition.right);
  Proof proof = prove(precondition, function_.symbols);
  if (proof == Proof::Yes) return;
  if (proof == Proof::No) contradiction(binding, precondition);
  // What a callee demands is checked where it is called.
  const bool of_call =
      argument >= 0 || (binding.op == Op::check_shape && has_attribute(binding, "what"));
  const std::string source = describe(function_, binding);
  const auto of_parameter = [&](const std::string& symbol) {
    return parameter_symbols_.contains(symbol);
  };
  if (!of_call && may_narrow(precondition)) {
    narrowed_ = narrowed_ || narrow_from(precondition, function_.symbols, source);
    // What follows would carry the case of an empty or too small dim along in every extent.
    if (narrow_from_below(precondition, of_parameter, function_.symbols, source)) throw Restart{};
    if (narrowed_) return;
  }
  // These are the checks at run time.
  if (binding.op == Op::check_shape) return;
  const bool known = std::ranges::any_of(held_, [&](const Precondition& other) {
    return other.relation == precondition.relation && other.left == precondition.left &&
           other.right == precondition.right;
  });
  if (known) return;
  held_.push_back(precondition);
  if (binding.op == Op::check) return;
  result_.requirements.push_back({std::move(precondition), source,
                                  binding.results.empty() ? no_value : binding.results[0], argument,
                                  axis});
}

// Only ranges of parameter symbols are checked where a call binds them, so only those may rest on a
// precondition, and only on one that every call meets. A region's symbols and ranges are part of
// its identity and stay as they are.
bool FunctionInferrer::may_narrow(const Precondition& precondition) const {
  if (depth_ > 0 || kind_ == Kind::Region) return false;
  const auto bound_elsewhere = [&](const Dim& dim) {
    return dim.kind() == Dim::Kind::Symbol && !parameter_symbols_.contains(dim.leaf().symbol);
  };
  return !bound_elsewhere(precondition.left) && !bound_elsewhere(precondition.right);
}

void FunctionInferrer::contradiction(const Binding& binding,
                                     const Precondition& precondition) const {
  std::string message =
      fmt::format("{}: {}.", describe(function_, binding), to_string(precondition, function_));
  for (std::size_t i = 0; i < binding.operands.size(); ++i) {
    const ValueId id = binding.operands[i];
    if (id == no_value || !function_.values[id].type.is_tensor()) continue;
    message += fmt::format("\n  operand {} (%{}): {}", i, function_.values[id].name,
                           text_of(function_.tensor_type(id), function_));
  }
  throw Error(ErrorKind::Malformed, message);
}

void FunctionInferrer::malformed(const Binding& binding, std::string_view message) const {
  throw Error(ErrorKind::Malformed, "{}: {}.", describe(function_, binding), message);
}

void ModuleInference::infer_callee(std::size_t index) {
  if (states_[index] != State::Untouched) return;
  states_[index] = State::Running;
  FunctionInferrer(*this, module.functions[index], result_.functions[index],
                   FunctionInferrer::Kind::Function)
      .run();
  states_[index] = State::Done;
}

namespace {

// Types are part of a region's identity.
bool same_types(const Function& a, const Function& b) {
  return std::ranges::equal(a.values, b.values, {}, &Value::type, &Value::type);
}

}  // namespace

InferenceResult ModuleInference::run() {
  for (std::size_t i = 0; i < module.regions.size(); ++i) {
    Region& region = module.regions[i];
    const Function before = region.body;
    FunctionInferrer(*this, region.body, result_.regions[i], FunctionInferrer::Kind::Region).run();
    if (!region.identity.empty() && !same_types(before, region.body)) seal(region);
  }
  for (std::size_t i = 0; i < module.functions.size(); ++i) infer_callee(i);
  return std::move(result_);
}

InferenceResult infer_types(Module& module) { return ModuleInference(module).run(); }

}  // namespace anydim::ir
