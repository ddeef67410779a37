// Values and bindings of the function that a graph becomes, with an element type for every value.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/module.h"

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

  void add_binding(ir::Binding binding);

  ir::DType dtype(ir::ValueId id) const { return dtypes_[id]; }
  const ir::Tensor* constant(ir::ValueId id) const;  // null where no constant binding defines the value
  ir::Function& function() { return function_; }
  ir::Function take() { return std::move(function_); }

 private:
  ir::Function function_;
  std::vector<ir::DType> dtypes_;
  std::unordered_set<std::string> names_;
  std::unordered_map<ir::ValueId, ir::Tensor> constants_;  // sharing the bindings' bytes
  std::size_t next_number_ = 0;
};

// The element type of the binding's results; the same rules as in inference, which has not run yet.
ir::DType result_dtype(const ir::Binding& binding, const FunctionBuilder& builder);

}  // namespace anydim::frontends
