#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "ir/reference/evaluate_ops.h"
#include "ir/scalar.h"
#include "ir/shapes/bind.h"

namespace anydim::ir {
namespace {

std::int64_t product_of(std::span<const std::int64_t> dims) {
  return element_count(Extents(dims.begin(), dims.end()));
}

bool contains(const std::vector<std::size_t>& axes, std::size_t axis) {
  return std::ranges::find(axes, axis) != axes.end();
}

// Whether squeeze without axes removes the dimension. The rank must not hang on a symbol that
// happens to be 1, so the type decides.
bool is_always_one(const OpCall& call, std::size_t dimension) {
  const Type& type = call.function.values[call.binding.operands[0]].type;
  if (!type.is_tensor()) return call.operand(0).dims()[dimension] == 1;
  return prove_equal(type.tensor.dims[dimension], 1, call.function.symbols) == Proof::Yes;
}

// With no elements, concrete numbers may not tell what -1 and 0 mean; then the inferred type does.
std::optional<Extents> inferred_dims(const OpCall& call) {
  if (call.operand(0).elements() != 0 || call.binding.results.empty() || !call.value_of)
    return std::nullopt;
  const Type& type = call.function.values[call.binding.results[0]].type;
  if (!type.is_tensor()) return std::nullopt;
  Extents dims;
  for (const Dim& dim : type.tensor.dims) dims.push_back(call.value_of(dim));
  return dims;
}

// What -1 stands for. Dims that stand on both sides cancel, so that an empty batch still tells the
// others apart.
std::int64_t inferred_extent(const OpCall& call, const Extents& dims, std::size_t inferred) {
  const Tensor& source = call.operand(0);
  Extents numerator = source.dims();
  Extents denominator;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i == inferred) continue;
    const auto common = std::ranges::find(numerator, dims[i]);
    if (common != numerator.end()) numerator.erase(common);
    else denominator.push_back(dims[i]);
  }
  const std::int64_t divisor = product_of(denominator);
  const std::int64_t dividend = product_of(numerator);
  if (divisor == 0 || dividend % divisor != 0) {
    call.fail("{} elements of shape ({}) don't fit shape ({})", source.elements(),
              fmt::join(source.dims(), ", "), fmt::join(dims, ", "));
  }
  return dividend / divisor;
}

}  // namespace

Results evaluate_arange(const OpCall& call) {
  if (!call.is_dynamic()) {
    const std::int64_t start = integer_attribute(call.binding, "start");
    const std::int64_t stop = integer_attribute(call.binding, "stop");
    const std::int64_t step = integer_attribute(call.binding, "step");
    std::vector<Tensor> scalars;
    for (const std::int64_t scalar : {start, stop, step})
      scalars.push_back(Tensor::of<std::int64_t>(DType::I64, {}, {scalar}));
    const std::vector<const Tensor*> operands{&scalars[0], &scalars[1], &scalars[2]};
    Binding dynamic = call.binding;
    dynamic.op = Op::dyn_arange;
    const Results range = evaluate_arange({call.function, dynamic, operands, call.value_of});
    return evaluate_cast(range.tensors[0], dtype_attribute(call.binding, "dtype"));
  }
  const Tensor& start = call.operand(0);
  const Tensor& stop = call.operand(1);
  const Tensor& step = call.operand(2);
  if (is_float(start.dtype())) {
    const std::optional<std::int64_t> length =
        arange_length(start.real_at(0), stop.real_at(0), step.real_at(0));
    if (!length || *length > default_symbol_maximum) {
      const std::string node =
          call.binding.source.empty() ? "assert" : fmt::format("assert '{}'", call.binding.source);
      throw Error(ErrorKind::Inputs, assertion_failed(node, std::string(arange_demand), {}));
    }
    std::vector<double> elements;
    for (std::int64_t i = 0; i < *length; ++i)
      elements.push_back(start.real_at(0) + static_cast<double>(i) * step.real_at(0));
    return store_reals(start.dtype(), {*length}, elements);
  }
  const __int128 stride = step.integer_at(0);
  if (stride == 0) call.fail("the step is 0");
  const __int128 distance = static_cast<__int128>(stop.integer_at(0)) - start.integer_at(0);
  if (distance > INT64_MAX || distance < INT64_MIN)
    call.fail("the distance from {} to {} leaves 64 bits", start.integer_at(0), stop.integer_at(0));
  const __int128 length = distance == 0 || (distance < 0) != (stride < 0)
                              ? 0
                              : (distance + stride + (stride < 0 ? 1 : -1)) / stride;
  Tensor result(start.dtype(), {static_cast<std::int64_t>(length)});
  for (std::int64_t i = 0; i < result.elements(); ++i)
    result.set_integer(i, static_cast<std::int64_t>(start.integer_at(0) + stride * i));
  return result;
}

Results evaluate_full(const OpCall& call) {
  const Extents dims = call.integers("shape", 1);
  return strided_copy(call.operand(0), dims, Extents(dims.size(), 0));
}

Results evaluate_filled(const OpCall& call) {
  const bool one = call.binding.op == Op::ones || call.binding.op == Op::dyn_ones;
  const Tensor value = evaluate_cast(Tensor::of<std::int64_t>(DType::I64, {}, {one ? 1 : 0}),
                                     dtype_attribute(call.binding, "dtype"));
  const Extents dims = call.integers("shape", 0);
  return strided_copy(value, dims, Extents(dims.size(), 0));
}

Results evaluate_reshape(const OpCall& call) {
  const Tensor& source = call.operand(0);
  if (std::optional<Extents> dims = inferred_dims(call))
    return with_dims(call, source, *std::move(dims));
  const Extents requested = call.integers("shape", 1);
  const bool zero_copies = call.is_dynamic() && integer_attribute(call.binding, "zero_copies") != 0;
  Extents dims = requested;
  std::optional<std::size_t> inferred;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (zero_copies && dims[i] == 0) {
      if (i >= source.rank())
        call.fail("element {} of the shape is 0 and copies a dimension that isn't there", i);
      dims[i] = source.dims()[i];
    } else if (dims[i] == -1) {
      if (inferred) call.fail("the shape has more than one -1");
      inferred = i;
    }
  }
  if (inferred) {
    if (!zero_copies && std::ranges::find(dims, 0) != dims.end()) {
      call.fail("the shape has a 0 beside -1, so the inferred dimension isn't known");
    }
    dims[*inferred] = inferred_extent(call, dims, *inferred);
  } else if (source.elements() == 0 && std::ranges::find(dims, 0) == dims.end()) {
    dims = requested;  // the 0 stood for itself
  }
  return with_dims(call, source, std::move(dims));
}

Results evaluate_flatten(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const auto rank = static_cast<std::int64_t>(source.rank());
  const std::int64_t axis = integer_attribute(call.binding, "axis");
  if (axis < -rank || axis > rank) call.fail("axis {} is out of range for rank {}", axis, rank);
  const std::span<const std::int64_t> dims(source.dims());
  const auto split = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  return with_dims(call, source, {product_of(dims.first(split)), product_of(dims.subspan(split))});
}

Results evaluate_broadcast_to(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const Extents dims = broadcast_extents(call, source.dims(), call.integers("shape", 1));
  return strided_copy(source, dims, broadcast_strides(source.dims(), dims));
}

Results evaluate_expand_dims(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const Extents given = call.integers("axes", 1);
  const std::size_t rank = source.rank() + given.size();
  const std::vector<std::size_t> axes = call.axes(given, rank);
  Extents dims;
  std::size_t next = 0;
  for (std::size_t i = 0; i < rank; ++i)
    dims.push_back(contains(axes, i) ? 1 : source.dims()[next++]);
  return with_dims(call, source, std::move(dims));
}

Results evaluate_squeeze(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const bool given = call.has_integers("axes", 1);
  const std::vector<std::size_t> axes = call.axes(call.integers("axes", 1), source.rank());
  Extents dims;
  for (std::size_t i = 0; i < source.rank(); ++i) {
    const bool removed = given ? contains(axes, i) : is_always_one(call, i);
    if (!removed) dims.push_back(source.dims()[i]);
    else if (source.dims()[i] != 1)
      call.fail("dimension {} of operand 0: expected 1, got {}", i, source.dims()[i]);
  }
  return with_dims(call, source, std::move(dims));
}

Results evaluate_transpose(const OpCall& call) {
  const Tensor& source = call.operand(0);
  Extents order(source.rank());
  std::iota(order.rbegin(), order.rend(), 0);
  if (has_attribute(call.binding, "perm")) order = integers_attribute(call.binding, "perm");
  const Extents own = strides_of(source.dims());
  Extents dims;
  Extents strides;
  for (const std::size_t axis : call.axes(order, source.rank())) {
    dims.push_back(source.dims()[axis]);
    strides.push_back(own[axis]);
  }
  return strided_copy(source, dims, strides);
}

Results evaluate_concat(const OpCall& call) {
  Extents dims = call.operand(0).dims();
  const std::size_t axis = call.axis(integer_attribute(call.binding, "axis"), dims.size());
  dims[axis] = 0;
  for (std::size_t operand = 0; operand < call.operands.size(); ++operand) {
    const Extents& part = call.operand(operand).dims();
    if (part.size() != dims.size())
      call.fail("operand {}: expected rank {}, got {}", operand, dims.size(), part.size());
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (i == axis) dims[i] += part[i];
      else if (part[i] != dims[i]) {
        call.fail("dimension {} of operand {}: expected {}, got {}", i, operand, dims[i], part[i]);
      }
    }
  }
  Tensor result(call.operand(0).dtype(), dims);
  const std::span<const std::int64_t> all(dims);
  const std::int64_t rows = product_of(all.first(axis));
  const auto row_size =
      static_cast<std::size_t>(product_of(all.subspan(axis + 1))) * size_of(result.dtype());
  std::byte* to = result.mutable_bytes().data();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const Tensor* part : call.operands) {
      const std::size_t bytes = static_cast<std::size_t>(part->dims()[axis]) * row_size;
      if (bytes == 0) continue;
      std::memcpy(to, part->bytes().data() + static_cast<std::size_t>(row) * bytes, bytes);
      to += bytes;
    }
  }
  return result;
}

Results evaluate_overwrite(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const Tensor& update = call.operand(1);
  const std::size_t axis = call.axis(integer_attribute(call.binding, "axis"), source.rank());
  const std::int64_t start =
      call.is_dynamic() ? call.operand(2).integer_at(0) : integer_attribute(call.binding, "start");
  Extents expected = source.dims();
  if (update.rank() == source.rank()) expected[axis] = update.dims()[axis];
  if (update.dims() != expected)
    call.fail("operand 1: expected ({}), got ({})", fmt::join(expected, ", "),
              fmt::join(update.dims(), ", "));
  if (start < 0 || update.dims()[axis] > source.dims()[axis] - start)
    call.fail("{} elements from {} on do not fit into the {} of dimension {}", update.dims()[axis],
              start, source.dims()[axis], axis);
  Tensor result(source.dtype(), source.dims());
  source.copy_to(result.mutable_bytes());
  const std::span<const std::int64_t> all(source.dims());
  const std::size_t element =
      static_cast<std::size_t>(product_of(all.subspan(axis + 1))) * size_of(source.dtype());
  const std::size_t row = static_cast<std::size_t>(source.dims()[axis]) * element;
  const std::size_t written = static_cast<std::size_t>(update.dims()[axis]) * element;
  if (written == 0) return result;
  std::byte* to = result.mutable_bytes().data() + static_cast<std::size_t>(start) * element;
  const std::byte* from = update.bytes().data();
  for (std::int64_t rows = product_of(all.first(axis)); rows > 0; --rows) {
    std::memcpy(to, from, written);
    to += row;
    from += written;
  }
  return result;
}

Results evaluate_tile(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const Extents repeats = call.integers("repeats", 1);
  if (repeats.size() != source.rank())
    call.fail("{} repeats for rank {}", repeats.size(), source.rank());
  const Extents own = strides_of(source.dims());
  Extents dims;
  Extents result_dims;
  Extents strides;
  for (std::size_t i = 0; i < source.rank(); ++i) {
    dims.insert(dims.end(), {repeats[i], source.dims()[i]});
    strides.insert(strides.end(), {0, own[i]});
    result_dims.push_back(product_of(std::span(dims).last(2)));
  }
  return with_dims(call, strided_copy(source, dims, strides), std::move(result_dims));
}

Results evaluate_trilu(const OpCall& call) {
  const Tensor& source = call.operand(0);
  if (source.rank() < 2) call.fail("operand 0: expected rank 2 or more, got {}", source.rank());
  const bool upper = integer_attribute(call.binding, "upper") != 0;
  const std::int64_t k =
      call.is_dynamic() ? call.operand(1).integer_at(0) : integer_attribute(call.binding, "k");
  Tensor result(source.dtype(), source.dims());
  const std::int64_t rows = source.dims()[source.rank() - 2];
  const std::int64_t columns = source.dims().back();
  const std::size_t size = size_of(source.dtype());
  if (result.elements() == 0) return result;
  for (std::int64_t line = 0; line < result.elements() / columns; ++line) {
    const std::int64_t row = line % rows;
    // Kept columns: from row + k on for the upper part, up to row + k for the lower.
    const __int128 edge = static_cast<__int128>(row) + k + (upper ? 0 : 1);
    const auto bound = static_cast<std::int64_t>(std::clamp<__int128>(edge, 0, columns));
    const std::int64_t first = upper ? bound : 0;
    const std::int64_t last = upper ? columns : bound;
    const std::size_t offset = static_cast<std::size_t>(line * columns + first) * size;
    if (last > first) {
      std::memcpy(result.mutable_bytes().data() + offset, source.bytes().data() + offset,
                  static_cast<std::size_t>(last - first) * size);
    }
  }
  return result;
}

}  // namespace anydim::ir
