// Which calls of a model have the sizes that it was compiled for, where it takes dims of its inputs
// to be equal that only ought to be (passes/unify_dims.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/inputs.h"
#include "ir/tensor.h"
#include "passes/unify_dims.h"

namespace anydim {

class EqualDims {
 public:
  // Every call fits.
  EqualDims() = default;
  // `inputs`: the model's, with dims as they were before they were taken to be equal.
  EqualDims(const std::vector<InputInfo>& inputs, std::vector<passes::EqualDim> equal);

  bool empty() const { return equal_.empty(); }
  // Inputs in the model's order, or their extents. Also true where an input is missing or of
  // another rank: what is wrong with it is for others to say.
  bool hold(const std::vector<ir::Tensor>& inputs) const;
  bool hold(const std::vector<std::vector<std::int64_t>>& extents) const;
  // "mask_length = sequence; total = past + sequence"
  std::string text() const;

 private:
  struct Place {
    std::size_t input = 0, axis = 0;
  };
  template <typename Inputs, typename DimsOf>
  bool all(const Inputs& inputs, DimsOf dims_of) const;

  std::vector<passes::EqualDim> equal_;
  std::map<std::string, Place, std::less<>> places_;  // where each symbol stands by itself
};

// passes::unify_dims(), and which calls the module is for then. `before` (null: nowhere) gets the
// module as it was where that is another.
EqualDims take_dims_as_equal(ir::Module& module, ir::Module* before = nullptr);

}  // namespace anydim
