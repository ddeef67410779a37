// Values and bindings of the function that a graph becomes, with an element type for every value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "frontends/onnx/element_type.h"
#include "ir/module.h"
#include "ir/shapes/shape_rule.h"

namespace anydim::frontends {

class FunctionBuilder {
 public:
  // `reserved`: names that the model gives to its values; names made up here keep clear of them.
  FunctionBuilder(std::string name, std::unordered_set<std::string> reserved);

  // A value that the model names. The caller has checked that no other value has the name.
  ir::ValueId add_named(std::string name, ir::Type type, ir::DType dtype);
  // A value between two ops of one node: named after `stem` with a number.
  ir::ValueId add_intermediate(const std::string& stem, ir::DType dtype);
  // Gives an intermediate the name that the model has for it.
  void rename(ir::ValueId id, std::string name);

  // Goes to the innermost block that is open, else to the function.
  void add_binding(ir::Binding binding);
  void open_block(std::vector<ir::ValueId> parameters);
  ir::Block close_block(std::vector<ir::ValueId> results);
  // Opens a closed block again.
  void reopen(ir::Block block) { blocks_.push_back(std::move(block)); }
  // Adds a closed block's bindings as if they had never been in a block.
  void add_all(ir::Block block);
  // A point to which the function can be put back while the blocks of then are open.
  struct Mark {
    std::size_t values, blocks;
  };
  Mark mark() const { return {function_.values.size(), blocks_.size()}; }
  void back_to(const Mark& mark);
  // Whether what a shape rule refuses is an error at once, not left to inference.
  bool set_strict(bool strict) { return std::exchange(strict_, strict); }

  // The function's parameter ir::random_seed_parameter; made, the last one, when it is first asked
  // for.
  ir::ValueId random_seed();
  // 0, 1, 2, ...: tells what draws random numbers apart.
  std::uint64_t random_number() { return next_random_++; }
  // The rounds of the loops around what is added, inner ones last.
  std::vector<ir::ValueId>& rounds() { return rounds_; }

  ir::DType dtype(ir::ValueId id) const { return dtypes_[id]; }  // of a list: of its elements
  // How many lists lie around the tensor: 0 for a tensor, 1 for a sequence or an optional tensor.
  int lists(ir::ValueId id) const {
    const auto found = lists_.find(id);
    return found == lists_.end() ? 0 : found->second;
  }
  void set_lists(ir::ValueId id, int lists) { lists_[id] = lists; }
  // The rank of the tensors in a list, where it is known: they have the same.
  std::optional<std::size_t> element_rank(ir::ValueId id) const {
    const auto found = element_ranks_.find(id);
    return found == element_ranks_.end() ? std::nullopt : std::optional(found->second);
  }
  void set_element_rank(ir::ValueId id, std::size_t rank) { element_ranks_[id] = rank; }
  // What the model takes the value's numbers for, which a narrow type's are held by it may not
  // tell: as it was set, null where nobody did.
  const ElementType* element_type(ir::ValueId id) const {
    const auto found = element_types_.find(id);
    return found == element_types_.end() ? nullptr : found->second;
  }
  void set_element_type(ir::ValueId id, const ElementType& type) { element_types_[id] = &type; }
  // null where no constant binding defines the value
  const ir::Tensor* constant(ir::ValueId id) const;
  // What the shape rules tell so far; null where an operand's type isn't known yet.
  const ir::TensorType* type(ir::ValueId id) const { return types_[id] ? &*types_[id] : nullptr; }
  std::optional<std::size_t> rank(ir::ValueId id) const {
    return types_[id] ? std::optional(types_[id]->rank()) : std::nullopt;
  }
  // What a caller knows of a value that no shape rule tells, such as a loop's result: its dims, of
  // which those without a value are open.
  void know(ir::ValueId id, const std::vector<std::optional<ir::Dim>>& dims);
  // Whether the dim names symbols of inputs alone: what it is only a call tells.
  bool of_inputs(const ir::Dim& dim) const;
  // The element of a tensor of one integer or bool that depends on no input.
  std::optional<std::int64_t> known_element(ir::ValueId id) const;
  // The number that every element of a vector of integers is, where that depends on no input.
  std::optional<std::int64_t> every_element(ir::ValueId id) const;
  ir::Function& function() { return function_; }
  const ir::Function& function() const { return function_; }
  ir::Function take();

 private:
  ir::Function function_;
  void infer(const ir::Binding& binding);
  void know_rank_alone(const ir::Binding& binding);
  void forget_large_sizes(ir::ValueId id);
  ir::Dim placeholder(std::string_view stem);  // for a dim that is not known yet

  std::vector<ir::DType> dtypes_;
  std::vector<std::optional<ir::TensorType>> types_;
  std::vector<ir::ShapeData> shape_data_;
  std::unordered_map<ir::ValueId, int> lists_;
  std::unordered_map<ir::ValueId, std::size_t> element_ranks_;
  std::unordered_map<ir::ValueId, const ElementType*> element_types_;
  std::vector<ir::Block> blocks_;  // open ones, inner ones last
  std::unordered_set<std::string> names_;
  std::unordered_map<ir::ValueId, ir::Tensor> constants_;  // sharing the bindings' bytes
  std::unordered_map<ir::ValueId, std::int64_t> fills_;    // of tensors filled with one number
  std::size_t next_number_ = 0;
  std::vector<std::string> placeholders_;
  std::optional<ir::ValueId> random_seed_;
  std::uint64_t next_random_ = 0;
  std::vector<ir::ValueId> rounds_;
  bool strict_ = false;
};

// The element type of a result of the binding; the same rules as in inference, which has not run
// yet.
ir::DType result_dtype(const ir::Binding& binding, const FunctionBuilder& builder,
                       std::size_t result);

}  // namespace anydim::frontends
