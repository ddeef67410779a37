#include "passes/row_axes.h"

#include <vector>

namespace anydim::passes {

using namespace ir;

FoundRows find_row_axes(const Type& type, const Dim& batch, const Dim& sequence) {
  if (!type.is_tensor()) return {};
  const std::vector<Dim>& dims = type.tensor.dims;
  const Dim product = batch * sequence;
  std::vector<std::size_t> batches, sequences, products;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] == batch) batches.push_back(axis);
    else if (dims[axis] == sequence) sequences.push_back(axis);
    else if (dims[axis] == product) products.push_back(axis);
  }
  if (products.size() == 1 && batches.empty() && sequences.empty())
    return {.axes = RowAxes{products[0], products[0]}};
  if (batches.empty() || sequences.empty()) return {};
  if (batches.size() > 1 || sequences.size() > 1 || !products.empty()) return {.several = true};
  return {.axes = RowAxes{batches[0], sequences[0]}};
}

}  // namespace anydim::passes
