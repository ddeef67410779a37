// What the families of the reference evaluator share. Internal to ir; users include
// ir/reference/evaluate.h.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/error.h"
#include "ir/module.h"

namespace anydim::ir {

using Extents = std::vector<std::int64_t>;

struct OpCall {
  const Function& function;
  const Binding& binding;
  std::span<const Tensor* const> operands;  // null: absent
  const std::function<std::int64_t(const Dim&)>& value_of;

  bool has(std::size_t index) const {
    return index < operands.size() && operands[index] != nullptr;
  }
  const Tensor& operand(std::size_t index) const;
  bool is_dynamic() const { return info(binding.op).has(traits::dynamic); }
  // The static op's attribute or the dynamic twin's operand; empty where it is absent.
  Extents integers(std::string_view attribute, std::size_t operand) const;
  bool has_integers(std::string_view attribute, std::size_t operand) const;
  std::size_t axis(std::int64_t axis, std::size_t rank) const;
  // The position that an element of an index tensor means along an axis: negative ones count from
  // the end. Throws Error{Inputs} where it lies outside.
  std::int64_t position(std::int64_t index, std::int64_t extent) const;
  std::vector<std::size_t> axes(const Extents& axes, std::size_t rank) const;  // all different
  [[noreturn]] void fail(const std::string& message) const;  // Error{Inputs} that names the node
};

// Row-major strides in elements.
Extents strides_of(const Extents& dims);
// Strides that read a tensor of `dims` as if broadcast to `result`.
Extents broadcast_strides(const Extents& dims, const Extents& result);
// The broadcast of two shapes; fails with the dimension where there is none.
Extents broadcast_extents(const OpCall& call, const Extents& a, const Extents& b);
// The result over `dims` of reading `source` from element `offset` with `strides` (in elements, any
// sign).
Tensor strided_copy(const Tensor& source, const Extents& dims, const Extents& strides,
                    std::int64_t offset = 0);
// The same bytes under another shape; fails where the number of elements differs.
Tensor with_dims(const OpCall& call, const Tensor& tensor, Extents dims);

// All elements converted to double, and back with one rounding.
std::vector<double> load_reals(const Tensor& tensor);
Tensor store_reals(DType dtype, Extents dims, std::span<const double> elements);

// The offsets in `operand`, which cut `rows` rows into segments; fails where they don't start with
// 0, fall, or end elsewhere.
Extents segment_offsets(const OpCall& call, std::size_t operand, std::int64_t rows);
// Fails where the operand is not attention's list of work (ir/ops.def) for these offsets.
void check_work(const OpCall& call, std::size_t operand, const Extents& offsets);

// Calls `body(index)` for every index of `dims`, in row-major order.
void for_each_index(const Extents& dims, const std::function<void(const Extents&)>& body);

Tensor evaluate_arange(const OpCall& call);
Tensor evaluate_full(const OpCall& call);
Tensor evaluate_filled(const OpCall& call);  // zeros, ones
Tensor evaluate_elementwise(const OpCall& call);
Tensor evaluate_cast(const Tensor& source, DType to);
Tensor evaluate_reshape(const OpCall& call);
Tensor evaluate_flatten(const OpCall& call);
Tensor evaluate_broadcast_to(const OpCall& call);
Tensor evaluate_expand_dims(const OpCall& call);
Tensor evaluate_squeeze(const OpCall& call);
Tensor evaluate_transpose(const OpCall& call);
Tensor evaluate_concat(const OpCall& call);
Tensor evaluate_overwrite(const OpCall& call);
Tensor evaluate_slice(const OpCall& call);
Tensor evaluate_windows(const OpCall& call);
std::vector<Tensor> evaluate_split(const OpCall& call);
Tensor evaluate_tile(const OpCall& call);
Tensor evaluate_trilu(const OpCall& call);
Tensor evaluate_gather(const OpCall& call);
Tensor evaluate_gather_elements(const OpCall& call);
Tensor evaluate_gather_nd(const OpCall& call);
Tensor evaluate_reduce(const OpCall& call);
Tensor evaluate_segment_reduce(const OpCall& call);
Tensor evaluate_repeat(const OpCall& call);
Tensor evaluate_pad(const OpCall& call);
Tensor evaluate_scatter(const OpCall& call);
Tensor evaluate_one_hot(const OpCall& call);
Tensor evaluate_resize(const OpCall& call);
Tensor evaluate_arg(const OpCall& call);
Tensor evaluate_cumulative_sum(const OpCall& call);
std::vector<Tensor> evaluate_top_k(const OpCall& call);
Tensor evaluate_argsort(const OpCall& call);
Tensor evaluate_nonzero(const OpCall& call);
Tensor evaluate_compress(const OpCall& call);
std::vector<Tensor> evaluate_unique(const OpCall& call);
Tensor evaluate_non_max_suppression(const OpCall& call);
std::vector<Tensor> evaluate_compact(const OpCall& call);
Tensor evaluate_matmul(const OpCall& call);
Tensor evaluate_softmax(const OpCall& call);
Tensor evaluate_layer_norm(const OpCall& call);
Tensor evaluate_attention(const OpCall& call);

}  // namespace anydim::ir
