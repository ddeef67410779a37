#include "ir/infer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ir/error.h"
#include "ir/region.h"
#include "ir/shape_rules.h"

namespace anydim::ir {
namespace {

enum class State { Untouched, Running, Done };

class ModuleInference {
 public:
  explicit ModuleInference(Module& module) : module(module), states(module.functions.size(), State::Untouched) {
    result.functions.resize(module.functions.size());
    result.regions.resize(module.regions.size());
  }

  void infer_callee(std::size_t index);
  InferenceResult run();

  Module& module;
  std::vector<State> states;
  InferenceResult result;
};

class FunctionPass {
 public:
  enum class Kind { Function, Region };
  FunctionPass(ModuleInference& owner, Function& function, FunctionInference& result, Kind kind)
      : owner_(owner), function_(function), result_(result), kind_(kind) {
    for (const ValueId parameter : function.body.parameters) {
      if (!function.values[parameter].type.is_tensor()) {
        throw Error(ErrorKind::Malformed,
                    fmt::format("function @{}: parameter %{} has no tensor type.", function.name, function.values[parameter].name));
      }
      for (const Dim& dim : function.tensor_type(parameter).dims) {
        if (dim.kind() == Dim::Kind::Symbol) parameter_symbols_.insert(dim.leaf().symbol);
      }
    }
  }

  void run() {
    find_openers(function_.body);
    // A narrowed range decides more, so types are computed anew with it.
    do {
      narrowed_ = false;
      constants_.assign(function_.values.size(), nullptr);
      result_.contents.assign(function_.values.size(), std::nullopt);
      result_.requirements.clear();
      bound_.clear();
      infer_block(function_.body);
    } while (narrowed_);
    if (kind_ == Kind::Function) remove_unused_opaque_symbols();
  }

 private:
  void infer_block(Block& block) {
    for (Binding& binding : block.bindings) infer_binding(binding);
  }

  void infer_binding(Binding& binding) {
    switch (binding.op) {  // NOLINT: only control flow differs; apply_shape_rule switches over every op
      case Op::call: return infer_call(binding);
      case Op::branch: return infer_branch(binding);
      case Op::loop: return infer_loop(binding);
      case Op::region: return infer_region(binding);
      default: break;
    }
    for (std::string& name : bound_by(binding)) bound_.insert(std::move(name));
    facts_.clear();
    for (const ValueId operand : binding.operands) facts_.push_back(facts_of(operand));
    RuleResult rule = apply_shape_rule(function_, binding, facts_, function_.symbols);
    if (rule.types.size() != binding.results.size()) {
      throw Error(ErrorKind::Malformed,
                  fmt::format("{}: expected {} results, got {}.", describe(function_, binding), rule.types.size(), binding.results.size()));
    }
    for (std::size_t i = 0; i < binding.results.size(); ++i) {
      set(binding.results[i], std::move(rule.types[i]), std::move(rule.contents[i]));
    }
    if (binding.op == Op::constant) constants_[binding.results[0]] = &tensor_attribute(binding, "value");
    for (Precondition& precondition : rule.preconditions) decide(binding, std::move(precondition));
  }

  OperandFacts facts_of(ValueId id) const {
    if (id == no_value) return {};
    return {&function_.values[id].type, &result_.contents[id], constants_[id]};
  }

  void set(ValueId id, Type type, Contents contents = std::nullopt) {
    function_.values[id].type = std::move(type);
    result_.contents[id] = std::move(contents);
  }

  void decide(const Binding& binding, Precondition precondition) {
    Proof proof = prove(precondition, function_.symbols);
    if (proof == Proof::Yes) return;
    if (proof == Proof::No) contradiction(binding, precondition);
    if (may_narrow(precondition) && narrow_from(precondition, function_.symbols, describe(function_, binding))) {
      narrowed_ = true;
      return;
    }
    // A check_shape is itself the check at run time.
    if (binding.op == Op::check_shape) return;
    const bool known = std::ranges::any_of(result_.requirements, [&](const Requirement& requirement) {
      const Precondition& other = requirement.precondition;
      return other.relation == precondition.relation && other.left == precondition.left && other.right == precondition.right;
    });
    if (known) return;
    result_.requirements.push_back(
        {std::move(precondition), describe(function_, binding), binding.results.empty() ? no_value : binding.results[0]});
  }

  // Only ranges of parameter symbols are checked where a call binds them, so only those may rest on a precondition, and only on
  // one that every call meets. A region's symbols and ranges are part of its identity and stay as they are.
  bool may_narrow(const Precondition& precondition) const {
    if (depth_ > 0 || kind_ == Kind::Region) return false;
    const auto bound_elsewhere = [&](const Dim& dim) {
      return dim.kind() == Dim::Kind::Symbol && !parameter_symbols_.contains(dim.leaf().symbol);
    };
    return !bound_elsewhere(precondition.left) && !bound_elsewhere(precondition.right);
  }

  [[noreturn]] void contradiction(const Binding& binding, const Precondition& precondition) const {
    std::string message = fmt::format("{}: {}.", describe(function_, binding), to_string(precondition, function_));
    for (std::size_t i = 0; i < binding.operands.size(); ++i) {
      const ValueId id = binding.operands[i];
      if (id == no_value || !function_.values[id].type.is_tensor()) continue;
      message += fmt::format("\n  operand {} (%{}): {}", i, function_.values[id].name, text_of(function_.tensor_type(id), function_));
    }
    throw Error(ErrorKind::Malformed, message);
  }

  [[noreturn]] void malformed(const Binding& binding, const std::string& message) const {
    throw Error(ErrorKind::Malformed, fmt::format("{}: {}.", describe(function_, binding), message));
  }

  // ---- Scopes

  // What blocks open: symbols bound in them, values that they define, and with these the opaque symbols of such values.
  struct Scope {
    std::set<std::string, std::less<>> symbols;
    std::set<ValueId> values;
  };

  Scope open_scope(std::span<const Block> blocks) const {
    Scope scope;
    for (const Block& block : blocks) {
      collect_values(block, scope.values);
      collect_bound_symbols(block, scope.symbols);
    }
    return scope;
  }

  bool holds(const Scope& scope, const DimLeaf& leaf) const {
    if (!leaf.is_symbol()) return scope.values.contains(leaf.value);
    const auto opener = opener_of_.find(leaf.symbol);
    return scope.symbols.contains(leaf.symbol) || (opener != opener_of_.end() && scope.values.contains(opener->second));
  }

  // Symbols that a binding binds, as far as nothing before it did.
  std::vector<std::string> bound_by(const Binding& binding) const {
    std::vector<std::string> names;
    if (binding.op != Op::bind && binding.op != Op::check_shape) return names;
    for (const Dim& dim : binding.dims) {
      if (dim.kind() != Dim::Kind::Symbol || (binding.op == Op::bind && !names.empty())) continue;
      const std::string& name = dim.leaf().symbol;
      if (!parameter_symbols_.contains(name) && !bound_.contains(name)) names.push_back(name);
    }
    return names;
  }

  void collect_bound_symbols(const Block& block, std::set<std::string, std::less<>>& symbols) const {
    for (const Binding& binding : block.bindings) {
      const std::vector<std::string> names = bound_by(binding);
      symbols.insert(names.begin(), names.end());
      for (const Block& inner : binding.blocks) collect_bound_symbols(inner, symbols);
    }
  }

  static void collect_values(const Block& block, std::set<ValueId>& values) {
    values.insert(block.parameters.begin(), block.parameters.end());
    for (const Binding& binding : block.bindings) {
      values.insert(binding.results.begin(), binding.results.end());
      for (const Block& inner : binding.blocks) collect_values(inner, values);
    }
  }

  // The dim as it is seen outside of the scope, at a place of a value there.
  Dim closed(const Dim& dim, const Scope& scope, ValueId value, std::size_t axis) {
    const std::set<DimLeaf> leaves = dim.leaves();
    const bool escapes = std::ranges::any_of(leaves, [&](const DimLeaf& leaf) { return holds(scope, leaf); });
    return escapes ? opened(value, axis) : dim;
  }

  // An opaque symbol for a dim that only the run tells. Where an earlier inference opened one at this place it is opened again, because
  // literals that passes have written since may mention it.
  Dim opened(ValueId value, std::size_t axis) {
    const auto known = openers_.find({value, axis});
    if (known == openers_.end()) {
      const Dim symbol = function_.symbols.fresh("d");
      openers_.emplace(std::pair(value, axis), symbol);
      opener_of_.emplace(symbol.leaf().symbol, value);
      return symbol;
    }
    const std::string& name = known->second.leaf().symbol;
    if (!function_.symbols.contains(name)) {
      SymbolInfo info;
      info.opaque = true;
      function_.symbols.declare(name, info);
    }
    return known->second;
  }

  // Where the types of an earlier inference mention each opaque symbol first, in program order.
  void find_openers(const Block& block) {
    const auto visit = [&](const std::vector<ValueId>& ids) {
      for (const ValueId id : ids) {
        const std::vector<Dim>& dims = function_.values[id].type.tensor.dims;
        for (std::size_t axis = 0; axis < dims.size(); ++axis) {
          if (dims[axis].kind() != Dim::Kind::Symbol) continue;
          const std::string& name = dims[axis].leaf().symbol;
          const SymbolInfo* info = function_.symbols.find(name);
          if (info == nullptr || !info->opaque || parameter_symbols_.contains(name)) continue;
          if (opener_of_.emplace(name, id).second) openers_.emplace(std::pair(id, axis), dims[axis]);
        }
      }
    };
    if (&block != &function_.body) visit(block.parameters);
    for (const Binding& binding : block.bindings) {
      for (const Block& inner : binding.blocks) find_openers(inner);
      visit(binding.results);
    }
  }

  const TensorType& tensor_result(const Binding& binding, ValueId id) const {
    if (!function_.values[id].type.is_tensor()) malformed(binding, fmt::format("%{} is not a tensor", function_.values[id].name));
    return function_.tensor_type(id);
  }

  void expect_alike(const Binding& binding, const TensorType& a, const TensorType& b, const std::string& what) const {
    if (a.dtype == b.dtype && a.rank() == b.rank()) return;
    throw Error(a.dtype == b.dtype ? ErrorKind::Unsupported : ErrorKind::Malformed,
                fmt::format("{}: {} must have one dtype and rank, got {} and {}.", describe(function_, binding), what,
                            text_of(a, function_), text_of(b, function_)));
  }

  void expect_scalar(const Binding& binding, std::size_t operand, DType dtype, const std::string& what) const {
    if (binding.operands[operand] == no_value) return;
    const TensorType& given = tensor_result(binding, binding.operands[operand]);
    if (given.dtype == dtype && given.rank() == 0) return;
    malformed(binding,
              fmt::format("{}, operand {}, must be {} of rank 0, got {}", what, operand, name_of(dtype), text_of(given, function_)));
  }

  // ---- Control flow

  void infer_branch(Binding& binding) {
    if (binding.blocks.size() != 2) malformed(binding, fmt::format("expected 2 blocks, got {}", binding.blocks.size()));
    expect_scalar(binding, 0, DType::Bool, "the condition");
    const Scope scope = open_scope(binding.blocks);
    ++depth_;
    for (Block& block : binding.blocks) infer_block(block);
    --depth_;
    const std::vector<ValueId>& then = binding.blocks[0].results;
    const std::vector<ValueId>& otherwise = binding.blocks[1].results;
    if (then.size() != binding.results.size() || otherwise.size() != then.size()) {
      malformed(binding, fmt::format("{} results, but the blocks give {} and {}", binding.results.size(), then.size(), otherwise.size()));
    }
    for (std::size_t i = 0; i < then.size(); ++i) {
      const TensorType& a = tensor_result(binding, then[i]);
      const TensorType& b = tensor_result(binding, otherwise[i]);
      expect_alike(binding, a, b, fmt::format("result {} of both blocks", i));
      TensorType joined{a.dtype, {}};
      for (std::size_t axis = 0; axis < a.rank(); ++axis) {
        joined.dims.push_back(a.dims[axis] == b.dims[axis] ? closed(a.dims[axis], scope, binding.results[i], axis)
                                                           : opened(binding.results[i], axis));
      }
      set(binding.results[i], std::move(joined));
    }
  }

  void infer_loop(Binding& binding) {
    const std::size_t carried = binding.operands.size() < 2 ? 0 : binding.operands.size() - 2;
    if (binding.blocks.size() != 1 || binding.operands.size() < 2) malformed(binding, "expected a trip count, a condition and one block");
    Block& body = binding.blocks[0];
    if (body.parameters.size() != carried + 2 || body.results.size() < carried + 1 || binding.results.size() + 1 != body.results.size()) {
      malformed(binding, fmt::format("{} carried values and {} results, but the body takes {} values and gives {}", carried,
                                     binding.results.size(), body.parameters.size(), body.results.size()));
    }
    expect_scalar(binding, 0, DType::I64, "the trip count");
    expect_scalar(binding, 1, DType::Bool, "the condition");
    set(body.parameters[0], TensorType{DType::I64, {}});
    // The body runs only while the condition holds.
    set(body.parameters[1], TensorType{DType::Bool, {}}, std::vector<Dim>{1});
    std::vector<TensorType> state;
    for (std::size_t i = 0; i < carried; ++i) state.push_back(tensor_result(binding, binding.operands[i + 2]));
    const std::vector<TensorType> entering = state;
    const Scope scope = open_scope(binding.blocks);
    const std::size_t requirements = result_.requirements.size();
    ++depth_;
    // A carried dim that the body changes is unknown inside; each round opens at least one more, so this ends.
    for (bool stable = false; !stable;) {
      result_.requirements.resize(requirements);
      for (std::size_t i = 0; i < carried; ++i) set(body.parameters[i + 2], state[i]);
      infer_block(body);
      expect_alike(binding, {DType::Bool, {}}, tensor_result(binding, body.results[0]), "a bool and the condition of the body");
      stable = true;
      for (std::size_t i = 0; i < carried; ++i) {
        const TensorType& next = tensor_result(binding, body.results[i + 1]);
        expect_alike(binding, state[i], next, fmt::format("carried value {}", i));
        for (std::size_t axis = 0; axis < next.rank(); ++axis) {
          Dim& dim = state[i].dims[axis];
          if (next.dims[axis] == dim || dim != entering[i].dims[axis]) continue;
          dim = opened(body.parameters[i + 2], axis);
          stable = false;
        }
      }
    }
    --depth_;
    for (std::size_t i = 0; i < carried; ++i) {
      TensorType type = state[i];
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
  Dim trip_count(const Binding& binding, ValueId scan) {
    const auto always = [&](ValueId id) {
      return id == no_value || (result_.contents[id] && result_.contents[id]->front().is_constant(1));
    };
    const ValueId trips = binding.operands[0];
    const bool counted = trips != no_value && always(binding.operands[1]) && always(binding.blocks[0].results[0]);
    if (!counted) return opened(scan, 0);
    const Dim count = result_.contents[trips] ? result_.contents[trips]->front() : Dim::value(trips, 0);
    return simplify(max(count, 0), function_.symbols);
  }

  void infer_call(Binding& binding) {
    if (binding.callee >= owner_.module.functions.size()) malformed(binding, fmt::format("there is no function {}", binding.callee));
    owner_.infer_callee(binding.callee);
    const Function& callee = owner_.module.functions[binding.callee];
    if (callee.body.parameters.size() != binding.operands.size() || callee.body.results.size() != binding.results.size()) {
      malformed(binding, fmt::format("@{} takes {} values and gives {}, got {} and {}", callee.name, callee.body.parameters.size(),
                                     callee.body.results.size(), binding.operands.size(), binding.results.size()));
    }
    std::map<std::string, Dim> bound;
    for (std::size_t i = 0; i < binding.operands.size(); ++i) bind_argument(binding, callee, i, bound);
    for (const auto& [name, dim] : bound) require_range(binding, callee, name, dim);
    instantiate(binding, callee, bound);
  }

  void bind_argument(const Binding& binding, const Function& callee, std::size_t index, std::map<std::string, Dim>& bound) {
    const TensorType& parameter = callee.tensor_type(callee.body.parameters[index]);
    const TensorType& given = tensor_result(binding, binding.operands[index]);
    if (parameter.dtype != given.dtype || parameter.rank() != given.rank()) {
      malformed(binding, fmt::format("operand {} must be {} for @{}, got {}", index, text_of(parameter, callee), callee.name,
                                     text_of(given, function_)));
    }
    for (std::size_t axis = 0; axis < given.rank(); ++axis) {
      const Dim& wanted = parameter.dims[axis];
      if (wanted.kind() == Dim::Kind::Symbol && bound.try_emplace(wanted.leaf().symbol, given.dims[axis]).second) continue;
      decide(binding, {Precondition::Relation::Equal, given.dims[axis], wanted.substitute(bound), dimension_of_operand(axis, index)});
    }
  }

  void require_range(const Binding& binding, const Function& callee, const std::string& name, const Dim& dim) {
    const SymbolInfo* info = callee.symbols.find(name);
    if (info == nullptr) return;
    const std::string what = fmt::format("{} of @{}", name, callee.name);
    if (info->low > 0) decide(binding, {Precondition::Relation::LessEqual, info->low, dim, "the least " + what});
    if (info->high < default_symbol_maximum) decide(binding, {Precondition::Relation::LessEqual, dim, info->high, what});
    if (info->multiple > 1) decide(binding, {Precondition::Relation::MultipleOf, dim, info->multiple, what});
  }

  // Result types of a callee in the caller's terms; what the callee opened itself is unknown here.
  void instantiate(Binding& binding, const Function& callee, const std::map<std::string, Dim>& bound) {
    const auto argument_of = [&](ValueId id) -> std::optional<ValueId> {
      const auto found = std::ranges::find(callee.body.parameters, id);
      if (found == callee.body.parameters.end()) return std::nullopt;
      return binding.operands[static_cast<std::size_t>(found - callee.body.parameters.begin())];
    };
    for (std::size_t i = 0; i < binding.results.size(); ++i) {
      const Type& declared = callee.values[callee.body.results[i]].type;
      if (!declared.is_tensor()) {
        throw Error(ErrorKind::Unsupported, fmt::format("{}: the type of result {} of the recursive function @{} isn't known; declare it.",
                                                        describe(function_, binding), i, callee.name));
      }
      TensorType type = declared.tensor;
      for (std::size_t axis = 0; axis < type.rank(); ++axis) {
        Dim& dim = type.dims[axis];
        bool escapes = false;
        const Dim local = dim.substitute([&](const DimLeaf& leaf) -> std::optional<Dim> {
          if (leaf.is_symbol()) {
            const auto found = bound.find(leaf.symbol);
            if (found != bound.end()) return found->second;
          } else if (const std::optional<ValueId> argument = argument_of(leaf.value)) {
            const Contents& known = result_.contents[*argument];
            return known ? (*known)[static_cast<std::size_t>(leaf.element)] : Dim::value(*argument, leaf.element);
          }
          escapes = true;
          return std::nullopt;
        });
        dim = escapes ? opened(binding.results[i], axis) : simplify(local, function_.symbols);
      }
      set(binding.results[i], std::move(type));
    }
  }

  void infer_region(Binding& binding) {
    if (binding.callee >= owner_.module.regions.size()) malformed(binding, fmt::format("there is no region {}", binding.callee));
    const Function& body = owner_.module.regions[binding.callee].body;
    const std::vector<std::string>& names = body.symbols.names();
    if (names.size() != binding.dims.size() || body.body.parameters.size() != binding.operands.size() ||
        body.body.results.size() != binding.results.size()) {
      malformed(binding, fmt::format("region {} takes {} dims and {} values and gives {}, got {}, {} and {}",
                                     owner_.module.regions[binding.callee].name, names.size(), body.body.parameters.size(),
                                     body.body.results.size(), binding.dims.size(), binding.operands.size(), binding.results.size()));
    }
    std::map<std::string, Dim> bound;
    for (std::size_t i = 0; i < names.size(); ++i) bound.emplace(names[i], binding.dims[i]);
    instantiate(binding, body, bound);
  }

  void remove_unused_opaque_symbols() {
    std::set<DimLeaf> used;
    for (const Value& value : function_.values) {
      for (const Dim& dim : value.type.tensor.dims) dim.collect_leaves(used);
    }
    for (const Contents& contents : result_.contents) {
      if (!contents) continue;
      for (const Dim& dim : *contents) dim.collect_leaves(used);
    }
    for (const Requirement& requirement : result_.requirements) {
      requirement.precondition.left.collect_leaves(used);
      requirement.precondition.right.collect_leaves(used);
    }
    collect_literals(function_.body, used);
    const std::vector<std::string> names = function_.symbols.names();
    for (const std::string& name : names) {
      if (function_.symbols.find(name)->opaque && !used.contains({.symbol = name})) function_.symbols.remove(name);
    }
  }

  static void collect_literals(const Block& block, std::set<DimLeaf>& used) {
    for (const Binding& binding : block.bindings) {
      for (const Dim& dim : binding.dims) dim.collect_leaves(used);
      for (const Block& inner : binding.blocks) collect_literals(inner, used);
    }
  }

  ModuleInference& owner_;
  Function& function_;
  FunctionInference& result_;
  Kind kind_;
  std::set<std::string, std::less<>> parameter_symbols_;
  std::map<std::pair<ValueId, std::size_t>, Dim> openers_;  // opaque symbols by the place that opens them
  std::map<std::string, ValueId, std::less<>> opener_of_;
  std::set<std::string, std::less<>> bound_;  // by check_shape and bind, so far
  std::vector<const Tensor*> constants_;
  std::vector<OperandFacts> facts_;
  int depth_ = 0;  // of blocks that may not run
  bool narrowed_ = false;
};

void ModuleInference::infer_callee(std::size_t index) {
  if (states[index] != State::Untouched) return;
  states[index] = State::Running;
  FunctionPass(*this, module.functions[index], result.functions[index], FunctionPass::Kind::Function).run();
  states[index] = State::Done;
}

// Types are part of a region's identity.
bool same_types(const Function& a, const Function& b) { return std::ranges::equal(a.values, b.values, {}, &Value::type, &Value::type); }

InferenceResult ModuleInference::run() {
  for (std::size_t i = 0; i < module.regions.size(); ++i) {
    Region& region = module.regions[i];
    const Function before = region.body;
    FunctionPass(*this, region.body, result.regions[i], FunctionPass::Kind::Region).run();
    if (!region.identity.empty() && !same_types(before, region.body)) seal(region);
  }
  for (std::size_t i = 0; i < module.functions.size(); ++i) infer_callee(i);
  return std::move(result);
}

}  // namespace

InferenceResult infer_types(Module& module) { return ModuleInference(module).run(); }

}  // namespace anydim::ir
