#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "ir/reference/evaluate_ops.h"
#include "ir/scalar.h"

namespace anydim::ir {
namespace {

void copy_element(Tensor& to, std::int64_t at, const Tensor& from, std::int64_t source) {
  const std::size_t size = size_of(to.dtype());
  std::memcpy(to.mutable_bytes().data() + static_cast<std::size_t>(at) * size,
              from.bytes().data() + static_cast<std::size_t>(source) * size, size);
}

std::int64_t offset_of(const Extents& index, const Extents& strides) {
  return std::inner_product(index.begin(), index.end(), strides.begin(), std::int64_t{0});
}

std::int64_t sum_of(const OpCall& call, std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) call.fail("the sum of {} and {} overflows 64 bits", a, b);
  return sum;
}

std::int64_t floor_mod(std::int64_t a, std::int64_t b) { return (a % b + b) % b; }

// Where position `at` of a padded axis reads its operand; outside of [0, extent) there is nothing.
std::int64_t padded_source(const std::string& mode, std::int64_t at, std::int64_t extent) {
  if (mode == "edge") return std::clamp<std::int64_t>(at, 0, extent - 1);
  if (mode == "wrap") return floor_mod(at, extent);
  if (mode == "reflect") {
    const std::int64_t period = std::max<std::int64_t>(2 * (extent - 1), 1);
    const std::int64_t turn = floor_mod(at, period);
    return std::min(turn, 2 * (extent - 1) - turn);
  }
  return at;
}

}  // namespace

Results evaluate_pad(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const std::string& mode = string_attribute(call.binding, "mode");
  const Extents before = call.integers("before", 2);
  const Extents after = call.integers("after", 3);
  Extents given(source.rank());
  std::iota(given.begin(), given.end(), 0);
  if (call.has_integers("axes", 4)) given = call.integers("axes", 4);
  const std::vector<std::size_t> axes = call.axes(given, source.rank());
  if (before.size() != axes.size() || after.size() != axes.size())
    call.fail("as many sizes before and after as axes are needed");
  Extents dims = source.dims();
  Extents shifts(dims.size(), 0), firsts(dims.size(), 0), kept = dims;
  std::vector<bool> pads(dims.size(), false);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = axes[i];
    pads[axis] = before[i] != 0 || after[i] != 0;
    dims[axis] = sum_of(call, dims[axis], sum_of(call, before[i], after[i]));
    if (dims[axis] < 0) call.fail("dimension {} after padding is {}", axis, dims[axis]);
    shifts[axis] = before[i];
    if (mode == "constant") continue;
    // What negative sizes take away is gone before the rest is filled from what is left.
    shifts[axis] = std::max<std::int64_t>(before[i], 0);
    firsts[axis] = -std::min<std::int64_t>(before[i], 0);
    kept[axis] = sum_of(
        call, source.dims()[axis],
        sum_of(call, std::min<std::int64_t>(before[i], 0), std::min<std::int64_t>(after[i], 0)));
    if (dims[axis] > 0 && kept[axis] < 1)
      call.fail("dimension {} has nothing left to pad with", axis);
  }
  Tensor result(source.dtype(), dims);
  const Extents strides = strides_of(source.dims());
  std::int64_t next = 0;
  for_each_index(dims, [&](const Extents& index) {
    Extents at = index;
    bool inside = true;
    for (std::size_t i = 0; i < at.size(); ++i) {
      at[i] -= shifts[i];
      if (pads[i]) at[i] = firsts[i] + padded_source(mode, at[i], kept[i]);
      inside = inside && at[i] >= 0 && at[i] < source.dims()[i];
    }
    if (inside) copy_element(result, next, source, offset_of(at, strides));
    else if (call.has(1)) copy_element(result, next, call.operand(1), 0);
    ++next;
  });
  return result;
}

Results evaluate_repeat(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const std::size_t axis = call.axis(integer_attribute(call.binding, "axis"), source.rank());
  const std::int64_t repeats = call.is_dynamic() ? call.operand(1).integer_at(0)
                                                 : integer_attribute(call.binding, "repeats");
  if (repeats < 0) call.fail("repeats is {}", repeats);
  Extents dims = source.dims();
  Extents strides = strides_of(dims);
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, repeats);
  strides.insert(strides.begin() + static_cast<std::ptrdiff_t>(axis) + 1, 0);
  Extents joined = source.dims();
  joined[axis] = element_count({joined[axis], repeats});
  return with_dims(call, strided_copy(source, dims, strides), std::move(joined));
}

Results evaluate_one_hot(const OpCall& call) {
  const Tensor& indices = call.operand(0);
  const std::size_t axis = call.axis(integer_attribute(call.binding, "axis"), indices.rank() + 1);
  const std::int64_t depth =
      call.is_dynamic() ? call.operand(3).integer_at(0) : integer_attribute(call.binding, "depth");
  if (depth < 0) call.fail("depth is {}", depth);
  Extents dims = indices.dims();
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), depth);
  Tensor result(call.operand(1).dtype(), dims);
  const Extents strides = strides_of(indices.dims());
  std::int64_t next = 0;
  for_each_index(dims, [&](const Extents& index) {
    Extents at = index;
    at.erase(at.begin() + static_cast<std::ptrdiff_t>(axis));
    const std::int64_t hot = indices.integer_at(offset_of(at, strides));
    const bool on = hot == index[axis] || (hot < 0 && hot + depth == index[axis]);
    copy_element(result, next++, call.operand(on ? 2 : 1), 0);
  });
  return result;
}

namespace {

// Writes or combines one element.
void update(Tensor& result, std::int64_t at, const Tensor& updates, std::int64_t source,
            const std::optional<ScalarOp>& combine) {
  if (!combine) return copy_element(result, at, updates, source);
  if (result.dtype() == DType::F64) {
    result.set_real(at, apply_real<double>(*combine, result.real_at(at), updates.real_at(source)));
  } else if (is_float(result.dtype())) {
    const auto value = apply_real<float>(*combine, static_cast<float>(result.real_at(at)),
                                         static_cast<float>(updates.real_at(source)));
    result.set_real(at, static_cast<double>(value));
  } else if (result.dtype() == DType::U64) {
    const auto a = static_cast<std::uint64_t>(result.integer_at(at)),
               b = static_cast<std::uint64_t>(updates.integer_at(source));
    result.set_integer(at, static_cast<std::int64_t>(apply_integer<std::uint64_t>(*combine, a, b)));
  } else {
    result.set_integer(at, apply_integer<std::int64_t>(*combine, result.integer_at(at),
                                                       updates.integer_at(source)));
  }
}

std::optional<ScalarOp> combination(const std::string& reduction) {
  if (reduction == "add") return ScalarOp{.op = Op::add};
  if (reduction == "mul") return ScalarOp{.op = Op::mul};
  if (reduction == "min") return ScalarOp{.op = Op::min};
  if (reduction == "max") return ScalarOp{.op = Op::max};
  return std::nullopt;
}

}  // namespace

Results evaluate_scatter(const OpCall& call) {
  const Tensor& data = call.operand(0);
  const Tensor& indices = call.operand(1);
  const Tensor& updates = call.operand(2);
  const std::optional<ScalarOp> combine = combination(string_attribute(call.binding, "reduction"));
  Tensor result = strided_copy(data, data.dims(), strides_of(data.dims()));
  const Extents strides = strides_of(data.dims());
  std::int64_t next = 0;
  if (call.binding.op == Op::scatter_elements) {
    const std::size_t axis = call.axis(integer_attribute(call.binding, "axis"), data.rank());
    if (indices.rank() != data.rank() || updates.dims() != indices.dims())
      call.fail("indices and updates don't fit the data");
    for (std::size_t i = 0; i < data.rank(); ++i) {
      if (i != axis && indices.dims()[i] > data.dims()[i]) {
        call.fail("dimension {} of operand 1: expected at most {}, got {}", i, data.dims()[i],
                  indices.dims()[i]);
      }
    }
    for_each_index(indices.dims(), [&](const Extents& index) {
      Extents at = index;
      at[axis] = call.position(indices.integer_at(next), data.dims()[axis]);
      update(result, offset_of(at, strides), updates, next++, combine);
    });
    return result;
  }
  const auto depth = static_cast<std::size_t>(indices.dims().back());
  const std::size_t outer = indices.rank() - 1;
  if (depth > data.rank()) call.fail("{} indices for data of rank {}", depth, data.rank());
  Extents expected(indices.dims().begin(), indices.dims().end() - 1);
  expected.insert(expected.end(), data.dims().begin() + static_cast<std::ptrdiff_t>(depth),
                  data.dims().end());
  if (updates.dims() != expected) call.fail("updates don't fit the indices and the data");
  const Extents index_strides = strides_of(indices.dims());
  for_each_index(updates.dims(), [&](const Extents& index) {
    Extents at(data.rank());
    std::int64_t tuple = 0;
    for (std::size_t i = 0; i < outer; ++i) tuple += index[i] * index_strides[i];
    for (std::size_t i = 0; i < depth; ++i) {
      at[i] =
          call.position(indices.integer_at(tuple + static_cast<std::int64_t>(i)), data.dims()[i]);
    }
    for (std::size_t i = depth; i < data.rank(); ++i) at[i] = index[outer + i - depth];
    update(result, offset_of(at, strides), updates, next++, combine);
  });
  return result;
}

}  // namespace anydim::ir
