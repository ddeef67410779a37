// Values that belong to products, each of some columns, as one value that belongs to the products
// side by side.
#pragma once

#include <optional>
#include <vector>

#include "ir/module.h"

namespace anydim::passes {

class ColumnJoiner {
 public:
  // Value i belongs to a product of columns[i] columns. New bindings will stand in `block` before
  // binding `place`; values are named and sourced after that one.
  ColumnJoiner(ir::Function& function, const ir::Block& block, std::size_t place,
               std::vector<std::int64_t> columns);

  // One binding for the elementwise `bindings`, which read the joined value `whole` in place of
  // operand `position`, each its own product's. Another operand is the one that all of them read,
  // where that is one number a row; a vector of all columns where each is a constant of one number
  // or of a number a column; the same op of joined operands where all are elementwise. nullopt:
  // none of these, and nothing is written.
  std::optional<ir::ValueId> joined(const std::vector<const ir::Binding*>& bindings,
                                    std::size_t position, ir::ValueId whole);
  // Constants of one dtype side by side along `axis`, in which alone their extents may differ, as a
  // constant.
  ir::ValueId constant(const std::vector<const ir::Tensor*>& tensors, std::size_t axis);

  std::vector<ir::Binding>& made() { return made_; }
  // Writes a binding of these attributes.
  ir::ValueId write(ir::Op op, std::vector<ir::ValueId> operands, ir::TensorType type,
                    ir::Attributes attributes = {});

 private:
  std::optional<ir::ValueId> attempt(const std::vector<ir::ValueId>& values, int depth);
  std::optional<ir::ValueId> elementwise(const std::vector<const ir::Binding*>& bindings,
                                         std::optional<std::size_t> position, ir::ValueId whole,
                                         int depth);
  std::optional<ir::ValueId> constants(const std::vector<ir::ValueId>& values);
  const ir::Binding* definition(ir::ValueId value) const;

  ir::Function& function_;
  const ir::Block& block_;
  std::size_t place_;
  std::vector<std::int64_t> columns_;
  std::vector<std::ptrdiff_t> defined_at_;  // by value: position in the block; -1: outside
  std::vector<ir::Binding> made_;
};

}  // namespace anydim::passes
