// Writes bindings one after the other. Their results have no types yet: whoever writes infers
// afterwards.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/module.h"

namespace anydim::passes {

class BindingWriter {
 public:
  // Results are named after `stem`; `source` is every binding's.
  BindingWriter(ir::Function& function, std::vector<ir::Binding>& into, std::string source,
                std::string stem)
      : function_(function), into_(&into), source_(std::move(source)), stem_(std::move(stem)) {}

  // The value of the op, a new one unless `result` names it.
  ir::ValueId emit(ir::Op op, std::vector<ir::ValueId> operands, ir::Attributes attributes = {},
                   ir::ValueId result = ir::no_value);
  std::vector<ir::ValueId> emit_many(ir::Op op, std::vector<ir::ValueId> operands,
                                     std::size_t results);
  void push(ir::Binding binding);
  // The binding, of one result, once more with another first operand.
  ir::ValueId again(ir::Binding binding, ir::ValueId value, ir::ValueId result = ir::no_value);
  ir::ValueId new_value() { return function_.add_value(stem_); }

  ir::ValueId dim(const ir::Dim& dim);
  ir::ValueId shape(std::vector<ir::Dim> dims);
  ir::ValueId constant(ir::Tensor tensor);            // rank 0
  ir::ValueId number(ir::DType dtype, double value);  // rank 0
  ir::ValueId cast(ir::ValueId value, ir::DType to);
  ir::ValueId counted(const ir::Dim& extent);  // 0, 1, 2, ... below the extent, i64
  ir::ValueId reshaped(ir::ValueId value, std::vector<ir::Dim> dims);
  // Dim i of the result is dim perm[i] of the value.
  ir::ValueId transposed(ir::ValueId value, const std::vector<std::size_t>& perm,
                         ir::ValueId result = ir::no_value);
  ir::ValueId first(ir::ValueId vector, const ir::Dim& count);  // elements of a vector
  ir::ValueId gathered(ir::ValueId data, ir::ValueId indices, std::int64_t axis = 0,
                       ir::ValueId result = ir::no_value);
  ir::ValueId with_axis(ir::ValueId value, std::int64_t axis);  // a dim of 1 inserted

  // Where the bindings go from here on; gives the place before.
  std::vector<ir::Binding>* write_to(std::vector<ir::Binding>& into) {
    return std::exchange(into_, &into);
  }

 private:
  ir::Function& function_;
  std::vector<ir::Binding>* into_;
  std::string source_, stem_;
};

}  // namespace anydim::passes
