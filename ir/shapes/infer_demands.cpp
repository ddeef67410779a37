// Types that a module's author declared, held against what inference finds.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/error.h"
#include "ir/shapes/function_inference.h"
#include "ir/text/print.h"

namespace anydim::ir {

void FunctionInferrer::find_declared() {
  for (ValueId id = 0; id < function_.values.size(); ++id) {
    const Value& value = function_.values[id];
    if (value.declared != Value::Declared::Nothing && value.type.kind != Type::Kind::Unknown)
      declared_.emplace(id, value.type);
  }
}

// Leaves in `found` what is known of the value from here on.
void FunctionInferrer::hold_against_declared(ValueId id, Type& found) {
  const auto entry = declared_.find(id);
  if (entry == declared_.end()) return;
  const Type& declared = entry->second;
  to_check_.erase(id);
  if (!same_form(declared, found)) return refuted(id, declared, found);
  if (!found.is_tensor()) return;
  const Type before = found;
  for (std::size_t axis = 0; axis < before.tensor.rank(); ++axis) {
    const Dim& wanted = declared.tensor.dims[axis];
    if (!is_demand(wanted, id, axis)) continue;
    const Proof proof = prove_equal(before.tensor.dims[axis], wanted, function_.symbols);
    if (proof == Proof::No) return refuted(id, declared, before);
    if (proof == Proof::Unknown && function_.values[id].declared == Value::Declared::Demand)
      found.tensor.dims[axis] = wanted;
  }
  if (found != before) to_check_.emplace(id, before);
}

// Not so a `?`, whose symbol this place opens, and what mentions an extent that nothing has opened
// yet.
bool FunctionInferrer::is_demand(const Dim& dim, ValueId id, std::size_t axis) const {
  const auto own = openers_.find({id, axis});
  if (own != openers_.end() && own->second == dim) return false;
  return std::ranges::all_of(dim.leaves(), [&](const DimLeaf& leaf) {
    if (!leaf.is_symbol())
      return visible_[leaf.value] || parameter_leaves_.contains(leaf) || is_parameter(leaf.value);
    if (parameter_leaves_.contains(leaf) || bound_.contains(leaf.symbol)) return true;
    const auto opener = opener_of_.find(leaf.symbol);
    return opener != opener_of_.end() && visible_[opener->second];
  });
}

bool FunctionInferrer::is_parameter(ValueId id) const {
  return std::ranges::find(function_.body.parameters, id) != function_.body.parameters.end();
}

void FunctionInferrer::refuted(ValueId id, const Type& declared, const Type& found) {
  const Value& value = function_.values[id];
  const std::string message =
      fmt::format("{}: %{} is declared {}, but it is {}", describe(function_, *at_work_),
                  value.name, print(function_, declared), print(function_, found));
  if (value.declared == Value::Declared::Demand) throw Error(ErrorKind::Malformed, message + ".");
  owner_.warn(message);
  declared_.erase(id);  // once is enough
}

void FunctionInferrer::hide_values_of(const Block& block) {
  for (const ValueId id : block.parameters) visible_[id] = false;
  for (const Binding& binding : block.bindings)
    for (const ValueId id : binding.results) visible_[id] = false;
}

// The value that was found gets a name of its own; the checked one keeps the id, so that whatever
// reads it reads what was checked.
Binding FunctionInferrer::check_of_demand(ValueId& place, const std::string& source) {
  const ValueId id = place;
  const std::string& name = function_.values[id].name;
  const TensorType demanded = function_.values[id].type.tensor;
  Binding check{.op = Op::check_shape, .results = {id}, .dims = demanded.dims, .source = source};
  check.attributes.emplace(
      "what", fmt::format("%{}, declared {}", name, print(function_, declared_.at(id))));
  place = add_value(name + "_found", to_check_.at(id));
  check.operands = {place};
  result_.shape_data[place] = result_.shape_data[id];
  for (Requirement& requirement : result_.requirements)
    if (requirement.value == id) requirement.value = place;
  return check;
}

void FunctionInferrer::insert_checks(Block& block) {
  std::vector<Binding> bindings;
  for (ValueId& parameter : block.parameters)
    if (to_check_.contains(parameter)) bindings.push_back(check_of_demand(parameter, ""));
  for (Binding& binding : block.bindings) {
    for (Block& inner : binding.blocks) insert_checks(inner);
    std::vector<Binding> checks;
    for (ValueId& result : binding.results)
      if (to_check_.contains(result)) checks.push_back(check_of_demand(result, binding.source));
    bindings.push_back(std::move(binding));
    std::ranges::move(checks, std::back_inserter(bindings));
  }
  block.bindings = std::move(bindings);
}

}  // namespace anydim::ir
