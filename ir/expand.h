// Expansion of composite ops and of reductions into the primitives that loop forms are made of.
//
//   softmax(x)      e = exp(x - max(x)), e / sum(e)
//   log_softmax(x)  d = x - max(x), d - log(sum(exp(d)))
//   layer_norm(x)   d = x - mean(x), d * (1 / sqrt(mean(d * d) + epsilon)) * scale + bias
//                   (Ba, Kiros, Hinton 2016)
//   reduce_mean(x)  sum(x) / count
//   arg_max(x)      min(where(x == max(x), position, none)): the first of the largest
//   dyn.reduce_...  over axes that only the run tells: each dim d becomes the pair (d, 1), or
//                   (1, d) where it is reduced; the second ones are reduced
//
// f16 and bf16 are computed in f32: operands are cast before and results after.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "ir/module.h"

namespace anydim::ir {

// A topologically ordered subgraph of a function's bindings, with values of its own beside the
// function's (ids from function.values.size() on), so that rewriting it leaves the function alone.
struct Subgraph {
  struct Definition {
    std::size_t binding = 0;
    std::size_t result = 0;
  };

  const Function* function = nullptr;
  std::vector<Value> extra{};
  std::vector<Binding> bindings{};
  std::unordered_map<ValueId, Definition> definitions{};

  const Type& type(ValueId id) const;
  const TensorType& tensor(ValueId id) const;  // internal error where the value isn't a tensor
  const std::string& name(ValueId id) const;
  const Binding* definition(ValueId id) const;  // null: not defined in the subgraph
};

// Copies the bindings with composites expanded; attention and matmul stay.
Subgraph expand_subgraph(const Function& function, std::span<const Binding> bindings);

// The axes of a reduction or composite, counted from the front, ascending.
std::vector<std::size_t> normalised_axes(const Binding& binding, std::size_t rank);

}  // namespace anydim::ir
