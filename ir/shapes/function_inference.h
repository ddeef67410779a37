// Inference of one function. Internal to ir/shapes/infer*.cpp.
#pragma once

#include <fmt/format.h>

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "ir/shapes/infer.h"

namespace anydim::ir {

// The whole module: functions are inferred when a call first needs their results.
class ModuleInference {
 public:
  explicit ModuleInference(Module& module);
  void infer_callee(std::size_t index);
  InferenceResult run();
  const FunctionInference& of_function(std::size_t index) const { return result_.functions[index]; }
  void warn(std::string warning) { result_.warnings.push_back(std::move(warning)); }

  Module& module;

 private:
  enum class State { Untouched, Running, Done };
  std::vector<State> states_;
  InferenceResult result_;
};

class FunctionInferrer {
 public:
  enum class Kind { Function, Region };
  FunctionInferrer(ModuleInference& owner, Function& function, FunctionInference& result,
                   Kind kind);
  void run();

 private:
  // What blocks open: symbols bound in them, values that they define, and with these the unbacked
  // symbols of such values.
  struct Scope {
    std::set<std::string, std::less<>> symbols;
    std::set<ValueId> values;
  };

  // ---- infer.cpp: bindings and what they demand
  void infer_block(Block& block);
  void infer_binding(Binding& binding);
  OperandFacts facts_of(ValueId id);
  void set(ValueId id, Type type, ShapeData shape_data = std::nullopt);
  // `argument`, `axis`: of a call's operand that must be what the callee says (Requirement).
  void decide(const Binding& binding, Precondition precondition, std::int32_t argument = -1,
              std::int32_t axis = -1);
  bool may_narrow(const Precondition& precondition) const;
  [[noreturn]] void contradiction(const Binding& binding, const Precondition& precondition) const;
  [[noreturn]] void malformed(const Binding& binding, std::string_view message) const;
  // The message as fmt::format takes it, in parts.
  template <typename First, typename... Rest>
  [[noreturn]] void malformed(const Binding& binding, fmt::format_string<First, Rest...> message,
                              First&& first, Rest&&... rest) const {
    malformed(binding,
              fmt::format(message, std::forward<First>(first), std::forward<Rest>(rest)...));
  }

  // ---- infer_demands.cpp: types that the author declared
  void find_declared();
  void hold_against_declared(ValueId id, Type& found);
  bool is_parameter(ValueId id) const;
  bool is_demand(const Dim& dim, ValueId id, std::size_t axis) const;
  void refuted(ValueId id, const Type& declared, const Type& found);
  void insert_checks(Block& block);
  Binding check_of_demand(ValueId& result, const std::string& source);
  void hide_values_of(const Block& block);

  // ---- infer_scopes.cpp: symbols that end with a scope
  Scope open_scope(std::span<const Block> blocks) const;
  bool holds(const Scope& scope, const DimLeaf& leaf) const;
  std::vector<std::string> bound_by(const Binding& binding) const;
  void collect_bound_symbols(const Block& block, std::set<std::string, std::less<>>& symbols) const;
  static void collect_values(const Block& block, std::set<ValueId>& values);
  Dim closed(const Dim& dim, const Scope& scope, ValueId value, std::size_t axis);
  Dim opened(ValueId value, std::size_t axis);
  void find_openers(const Block& block, std::set<std::string, std::less<>> bound);
  void remove_unused_unbacked_symbols();
  static void collect_literals(const Block& block, std::set<DimLeaf>& used);

  // ---- infer_sizes.cpp: symbols for sizes that are too large, or elements of tensors
  struct NamedSizes {
    std::set<ValueId> values;                  // that `dim` gives
    std::set<std::string, std::less<>> names;  // that are bound to them
  };
  void find_names(const Block& block, NamedSizes& known);
  std::optional<Dim> kept_name(ValueId value, std::size_t axis) const;
  void name_sizes(const Binding& binding);
  bool needs_name(const Dim& size) const;
  std::optional<Dim> named(const Dim& size) const;
  Dim by_names(const Dim& dim) const;
  Dim bound_to(const Dim& size, ValueId value, const std::string& source);
  void note_name(const Binding& bind);
  ValueId add_value(const std::string& name, Type type);

  // ---- infer_control.cpp: blocks, calls and regions
  const TensorType& tensor_result(const Binding& binding, ValueId id) const;
  void expect_alike(const Binding& binding, const Type& a, const Type& b,
                    const std::string& what) const;
  void expect_scalar(const Binding& binding, std::size_t operand, DType dtype,
                     const std::string& what) const;
  std::optional<std::size_t> taken_block(const Binding& binding) const;
  void infer_dead_block(Block& block, const Block& taken);
  void infer_branch(Binding& binding);
  void infer_loop(Binding& binding);
  Dim trip_count(const Binding& binding, ValueId scan);
  void infer_call(Binding& binding);
  void infer_region(Binding& binding);
  void bind_argument(const Binding& binding, const Function& callee, std::size_t index,
                     std::map<std::string, Dim>& bound);
  void require_range(const Binding& binding, const Function& callee, const std::string& name,
                     const Dim& dim);
  void instantiate(Binding& binding, const Function& callee,
                   const std::map<std::string, Dim>& bound,
                   const std::map<std::string, Dim>& elements);

  // ---- infer_values.cpp: lists, tuples, function values
  void infer_value(Binding& binding);
  void infer_apply(const Binding& binding);
  Type list_result(const Binding& binding);  // of the ops on lists
  Type concatenation(const Binding& binding, const Type& list);
  const Type& type_of(const Binding& binding, std::size_t operand) const;
  Type sealed(const Type& type, const Scope& scope)
      const;  // as it is seen outside of the scope, in a list, tuple or function value
  Type taken(const Type& type,
             ValueId result);  // out of a list, tuple or function: each `?` opens a symbol
  Type signature(const Binding& closure, const Function& callee);
  void move_numbers(const Binding& binding);
  void require_known_symbols(const Binding& binding) const;  // in dims that the binding is given
  const Type& operand_type(const Binding& binding, std::size_t operand, Type::Kind kind,
                           std::string_view what) const;

  ModuleInference& owner_;
  Function& function_;
  FunctionInference& result_;
  Kind kind_;
  std::set<std::string, std::less<>>
      parameter_symbols_;               // that are a parameter's dim by themselves
  std::set<DimLeaf> parameter_leaves_;  // and all that parameters' dims mention
  // unbacked symbols by the place that opens them
  std::map<std::pair<ValueId, std::size_t>, Dim> openers_;
  std::map<std::string, ValueId, std::less<>> opener_of_;
  // every place of symbols that an earlier inference bound to sizes
  std::map<std::pair<ValueId, std::size_t>, Dim> named_places_;
  std::set<std::string, std::less<>> bound_;  // by check_shape and bind, so far
  std::vector<const Tensor*> constants_;
  std::deque<Tensor> moved_;  // what move_numbers() computed
  std::vector<OperandFacts> facts_;
  std::deque<ShapeData> renamed_;             // elements of operands, by their names
  std::vector<Precondition> held_;            // that this block and those around it demand or check
  std::vector<std::pair<Dim, Dim>> named_;    // sizes that symbols were bound to, likewise
  std::multiset<std::string> bound_symbols_;  // those symbols
  std::vector<Binding> to_insert_;            // before the binding at work
  const Binding* at_work_ = nullptr;
  std::vector<bool> visible_;  // by ValueId: defined so far, in this block or around it
  std::map<ValueId, Type> declared_;
  std::map<ValueId, Type>
      to_check_;   // what was found of values whose declared type only the run can prove
  int depth_ = 0;  // of blocks that may not run
  struct Restart {
  };  // thrown where a range was narrowed that what follows should not be computed without
  bool narrowed_ = false;
};

// The type with every dim in it, nested ones too, replaced.
Type with_dims(Type type, const std::function<Dim(const Dim&)>& replaced);
// Same kinds, dtypes and ranks; dims may differ. An unknown type has any form.
bool same_form(const Type& a, const Type& b);
// What both are, for types of one form, in a list, tuple or function value: extents that differ are
// `?`.
Type joined(const Type& a, const Type& b);

}  // namespace anydim::ir
