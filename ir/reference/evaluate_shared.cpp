#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "ir/reference/evaluate_ops.h"
#include "ir/shapes/bind.h"
#include "ir/strided_copy.h"

namespace anydim::ir {
const Tensor& OpCall::operand(std::size_t index) const {
  if (!has(index))
    internal_error(fmt::format("{} has operand {}", describe(function, binding), index));
  return *operands[index];
}

bool OpCall::has_integers(std::string_view attribute, std::size_t operand) const {
  return is_dynamic() ? has(operand) : has_attribute(binding, attribute);
}

Extents OpCall::integers(std::string_view attribute, std::size_t index) const {
  if (!has_integers(attribute, index)) return {};
  if (!is_dynamic()) return integers_attribute(binding, attribute);
  const Tensor& tensor = operand(index);
  Extents elements;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) elements.push_back(tensor.integer_at(i));
  return elements;
}

std::size_t OpCall::axis(std::int64_t axis, std::size_t rank) const {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank)
    fail("axis {} is out of range for rank {}", axis, rank);
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

std::vector<std::size_t> OpCall::axes(const Extents& given, std::size_t rank) const {
  std::vector<std::size_t> normal;
  for (const std::int64_t one : given) {
    const std::size_t position = axis(one, rank);
    if (std::ranges::find(normal, position) != normal.end()) fail("axis {} is given twice", one);
    normal.push_back(position);
  }
  return normal;
}

void OpCall::fail(const std::string& message) const {
  throw Error(ErrorKind::Inputs, "{}: {}.", describe(function, binding), message);
}

Extents strides_of(const Extents& dims) {
  Extents strides(dims.size());
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(dims[i], 1);
  }
  return strides;
}

Extents broadcast_strides(const Extents& dims, const Extents& result) {
  const Extents own = strides_of(dims);
  Extents strides(result.size(), 0);
  const std::size_t ahead = result.size() - dims.size();
  for (std::size_t i = 0; i < dims.size(); ++i) strides[ahead + i] = dims[i] == 1 ? 0 : own[i];
  return strides;
}

Extents broadcast_extents(const OpCall& call, const Extents& a, const Extents& b) {
  Extents result(std::max(a.size(), b.size()));
  for (std::size_t back = 1; back <= result.size(); ++back) {
    const std::int64_t left = back <= a.size() ? a[a.size() - back] : 1;
    const std::int64_t right = back <= b.size() ? b[b.size() - back] : 1;
    if (left != right && left != 1 && right != 1) {
      call.fail("shapes ({}) and ({}) don't broadcast: {} and {} in dimension {} of the result",
                fmt::join(a, ", "), fmt::join(b, ", "), left, right, result.size() - back);
    }
    result[result.size() - back] = left == 1 ? right : left;
  }
  return result;
}

Tensor strided_copy(const Tensor& source, const Extents& dims, const Extents& strides,
                    std::int64_t offset) {
  Tensor result(source.dtype(), dims);
  if (result.elements() == 0) return result;
  const std::size_t size = size_of(source.dtype());
  copy_strided(result.mutable_bytes().data(),
               source.bytes().data() + offset * static_cast<std::int64_t>(size), size, dims,
               strides);
  return result;
}

namespace {

std::string text_of_op(const OpCall& call, std::string_view what) {
  return fmt::format("{} {}", info(call.binding.op).text, what);
}

}  // namespace

Extents segment_offsets(const OpCall& call, std::size_t operand, std::int64_t rows) {
  const Tensor& tensor = call.operand(operand);
  if (tensor.elements() == 0) call.fail("operand {}: offsets start with 0, got none", operand);
  Extents offsets;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const std::int64_t offset = tensor.integer_at(i);
    const bool fits = (i == 0 ? offset == 0 : offset >= offsets.back()) &&
                      (i + 1 < tensor.elements() || offset == rows);
    if (!fits)
      throw Error(ErrorKind::Inputs,
                  offsets_misfit(text_of_op(call, "offsets"),
                                 node_name(call.function, call.binding), rows, offset));
    offsets.push_back(offset);
  }
  return offsets;
}

void check_work(const OpCall& call, std::size_t operand, const Extents& offsets) {
  const Tensor& list = call.operand(operand);
  const auto sequences = static_cast<std::int64_t>(offsets.size()) - 1;
  if (list.rank() != 2 || list.dims()[0] != sequences || list.dims()[1] != 2)
    call.fail("operand {}: expected a list of {} sequences, got ({})", operand, sequences,
              fmt::join(list.dims(), ", "));
  std::int64_t rows = 0, length_before = 0, before = 0;
  for (std::int64_t i = 0; i < sequences; ++i) {
    const std::int64_t sequence = list.integer_at(2 * i), begin = list.integer_at(2 * i + 1);
    const bool named = sequence >= 0 && sequence < sequences;
    const auto at = static_cast<std::size_t>(named ? sequence : 0);
    const std::int64_t length = offsets[at + 1] - offsets[at];
    const bool follows =
        i == 0 || length < length_before || (length == length_before && sequence > before);
    if (!named || !follows || begin != rows)
      throw Error(ErrorKind::Inputs,
                  work_misfit(text_of_op(call, "work"), node_name(call.function, call.binding),
                              sequences, i));
    rows += length;
    length_before = length;
    before = sequence;
  }
}

Tensor with_dims(const OpCall& call, const Tensor& tensor, Extents dims) {
  if (element_count(dims) != tensor.elements()) {
    call.fail("{} elements of shape ({}) don't fit shape ({})", tensor.elements(),
              fmt::join(tensor.dims(), ", "), fmt::join(dims, ", "));
  }
  return {tensor.dtype(), std::move(dims), tensor.bytes(), tensor.owner(), tensor.origin()};
}

std::vector<double> load_reals(const Tensor& tensor) {
  std::vector<double> elements(static_cast<std::size_t>(tensor.elements()));
  if (tensor.dtype() == DType::F32) {
    std::ranges::copy(tensor.as<float>(), elements.begin());
  } else if (tensor.dtype() == DType::F64) {
    std::ranges::copy(tensor.as<double>(), elements.begin());
  } else {
    for (std::size_t i = 0; i < elements.size(); ++i)
      elements[i] = tensor.real_at(static_cast<std::int64_t>(i));
  }
  return elements;
}

Tensor store_reals(DType dtype, Extents dims, std::span<const double> elements) {
  Tensor result(dtype, std::move(dims));
  if (dtype == DType::F32) {
    std::ranges::transform(elements, result.mutable_as<float>().begin(),
                           [](double x) { return static_cast<float>(x); });
  } else {
    for (std::size_t i = 0; i < elements.size(); ++i)
      result.set_real(static_cast<std::int64_t>(i), elements[i]);
  }
  return result;
}

void for_each_index(const Extents& dims, const std::function<void(const Extents&)>& body) {
  Extents index(dims.size(), 0);
  for (std::int64_t remaining = element_count(dims); remaining > 0; --remaining) {
    body(index);
    for (std::size_t i = dims.size(); i-- > 0;) {
      if (++index[i] < dims[i]) break;
      index[i] = 0;
    }
  }
}

}  // namespace anydim::ir
