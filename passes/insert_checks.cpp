// What inference could neither prove nor refute becomes a binding that holds it at run time, in the
// block that relies on it: `check`, and at calls one `check_shape` for every argument and demand.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/shapes/infer.h"
#include "ir/text/print.h"
#include "passes/pass.h"

namespace anydim::passes {

using namespace ir;

namespace {

class CheckInserter {
 public:
  CheckInserter(const Module& module, Function& function, const FunctionInference& facts)
      : module_(module), function_(function) {
    for (const Requirement& requirement : facts.requirements)
      demanded_[requirement.value].push_back(&requirement);
  }

  // What stands for a value since it was checked, in this block and those inside.
  using Held = std::map<ValueId, ValueId>;

  void run(Block& block, Held held) {
    std::vector<Binding> result;
    for (Binding& binding : block.bindings) {
      for (ValueId& operand : binding.operands) operand = checked(operand, held);
      for (Block& nested : binding.blocks) run(nested, held);
      const auto found =
          binding.results.empty() ? demanded_.end() : demanded_.find(binding.results[0]);
      if (found != demanded_.end()) {
        for (const Requirement* requirement : found->second)
          if (requirement->argument < 0)
            result.push_back(check_of(requirement->precondition, requirement->source));
        for (std::size_t i = 0; i < binding.operands.size(); ++i)
          check_argument(binding, i, found->second, held, result);
      }
      result.push_back(std::move(binding));
    }
    for (ValueId& id : block.results) id = checked(id, held);
    block.bindings = std::move(result);
  }

 private:
  static ValueId checked(ValueId value, const Held& held) {
    const auto found = held.find(value);
    return found == held.end() ? value : checked(found->second, held);
  }

  // One check for all dims of an argument that the callee demands; the call reads the checked
  // value.
  void check_argument(Binding& call, std::size_t argument,
                      const std::vector<const Requirement*>& demands, Held& held,
                      std::vector<Binding>& result) {
    std::vector<Dim> dims;
    for (const Requirement* demand : demands) {
      if (demand->argument != static_cast<std::int32_t>(argument)) continue;
      if (dims.empty()) dims = function_.tensor_type(call.operands[argument]).dims;
      dims[static_cast<std::size_t>(demand->axis)] = demand->precondition.right;
    }
    if (dims.empty()) return;
    ValueId& operand = call.operands[argument];
    const Function& callee = module_.functions[call.callee];
    Binding check{
        .op = Op::check_shape, .operands = {operand}, .dims = dims, .source = call.source};
    TensorType type{function_.tensor_type(operand).dtype, dims};
    check.results = {
        function_.add_value(function_.values[operand].name + "_checked", std::move(type))};
    check.attributes.emplace("what", parameter_text(callee, callee.body.parameters[argument]));
    held.insert_or_assign(operand, check.results[0]);
    operand = check.results[0];
    result.push_back(std::move(check));
  }

  // "parameter %p of @f"; with its type where that has symbols, which a message then explains.
  static std::string parameter_text(const Function& callee, ValueId parameter) {
    const TensorType& type = callee.tensor_type(parameter);
    const bool symbolic =
        std::ranges::any_of(type.dims, [](const Dim& dim) { return !dim.is_constant(); });
    return fmt::format("parameter %{}{} of @{}", callee.values[parameter].name,
                       symbolic ? ": " + print(callee, Type(type)) : "", callee.name);
  }

  const Module& module_;
  Function& function_;
  std::map<ValueId, std::vector<const Requirement*>> demanded_;
};

}  // namespace

void insert_checks(Module& module, PassContext&) {
  const InferenceResult facts = infer_types(module);
  for (std::size_t i = 0; i < module.functions.size(); ++i) {
    Function& function = module.functions[i];
    CheckInserter(module, function, facts.functions[i]).run(function.body, {});
  }
}

}  // namespace anydim::passes
