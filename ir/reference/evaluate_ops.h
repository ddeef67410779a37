// What the families of the reference evaluator share. Internal to ir; users include
// ir/reference/evaluate.h.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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
  // The message as fmt::format has it.
  template <typename First, typename... Rest>
  [[noreturn]] void fail(fmt::format_string<First, Rest...> text, First&& first,
                         Rest&&... rest) const {
    fail(fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
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

Tensor evaluate_cast(const Tensor& source, DType to);

// What an op gives: of most, one tensor.
struct Results {
  std::vector<Tensor> tensors;
  Results(Tensor one) { tensors.push_back(std::move(one)); }     // NOLINT: implicit
  Results(std::vector<Tensor> all) : tensors(std::move(all)) {}  // NOLINT: implicit
};

// The evaluations that ir/ops.def names, a function a family or op.
#define ANYDIM_OP(name, text, minimum, maximum, results, rule, evaluation, ...) \
  Results evaluate_##evaluation(const OpCall& call);
#include "ir/ops.def"
#undef ANYDIM_OP

}  // namespace anydim::ir
