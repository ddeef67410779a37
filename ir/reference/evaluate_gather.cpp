#include <cstring>

#include "ir/reference/evaluate_ops.h"
#include "ir/shapes/bind.h"

namespace anydim::ir {

std::int64_t OpCall::position(std::int64_t index, std::int64_t extent) const {
  if (index < -extent || index >= extent)
    throw Error(ErrorKind::Inputs, index_out_of_range(std::string(info(binding.op).text) + " index",
                                                      node_name(function, binding), index, extent));
  return index < 0 ? index + extent : index;
}

namespace {

std::int64_t count(std::span<const std::int64_t> dims) {
  return element_count(Extents(dims.begin(), dims.end()));
}

}  // namespace

Results evaluate_gather(const OpCall& call) {
  const Tensor& data = call.operand(0);
  const Tensor& indices = call.operand(1);
  const std::size_t axis = call.axis(integer_attribute(call.binding, "axis"), data.rank());
  const std::span<const std::int64_t> from(data.dims());
  Extents dims(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(axis));
  dims.insert(dims.end(), indices.dims().begin(), indices.dims().end());
  dims.insert(dims.end(), from.begin() + static_cast<std::ptrdiff_t>(axis) + 1, from.end());
  Tensor result(data.dtype(), dims);
  const std::int64_t outer = count(from.first(axis));
  const auto row = static_cast<std::size_t>(count(from.subspan(axis + 1))) * size_of(data.dtype());
  if (result.elements() == 0) return result;  // where no element is read, no index is looked at
  Extents positions;
  for (std::int64_t i = 0; i < indices.elements(); ++i) {
    positions.push_back(call.position(indices.integer_at(i), from[axis]));
  }
  std::byte* to = result.mutable_bytes().data();
  for (std::int64_t block = 0; block < outer; ++block) {
    for (const std::int64_t index : positions) {
      std::memcpy(to,
                  data.bytes().data() + static_cast<std::size_t>(block * from[axis] + index) * row,
                  row);
      to += row;
    }
  }
  return result;
}

Results evaluate_gather_elements(const OpCall& call) {
  const Tensor& data = call.operand(0);
  const Tensor& indices = call.operand(1);
  const std::size_t axis = call.axis(integer_attribute(call.binding, "axis"), data.rank());
  if (indices.rank() != data.rank())
    call.fail("operand 1: expected rank {}, got {}", data.rank(), indices.rank());
  for (std::size_t i = 0; i < data.rank(); ++i) {
    if (i != axis && indices.dims()[i] > data.dims()[i]) {
      call.fail("dimension {} of operand 1: expected at most {}, got {}", i, data.dims()[i],
                indices.dims()[i]);
    }
  }
  Tensor result(data.dtype(), indices.dims());
  const Extents strides = strides_of(data.dims());
  const std::size_t size = size_of(data.dtype());
  std::int64_t next = 0;
  for_each_index(indices.dims(), [&](const Extents& index) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < index.size(); ++i) {
      offset += strides[i] *
                (i == axis ? call.position(indices.integer_at(next), data.dims()[axis]) : index[i]);
    }
    std::memcpy(result.mutable_bytes().data() + static_cast<std::size_t>(next) * size,
                data.bytes().data() + static_cast<std::size_t>(offset) * size, size);
    ++next;
  });
  return result;
}

Results evaluate_gather_nd(const OpCall& call) {
  const Tensor& data = call.operand(0);
  const Tensor& indices = call.operand(1);
  const auto batch = static_cast<std::size_t>(integer_attribute(call.binding, "batch_dims"));
  if (indices.rank() == 0 || batch >= indices.rank() ||
      batch + static_cast<std::size_t>(indices.dims().back()) > data.rank()) {
    call.fail("indices of rank {} don't fit data of rank {} with {} batch dims", indices.rank(),
              data.rank(), batch);
  }
  for (std::size_t i = 0; i < batch; ++i) {
    if (indices.dims()[i] != data.dims()[i]) {
      call.fail("dimension {} of operand 1: expected {}, got {}", i, data.dims()[i],
                indices.dims()[i]);
    }
  }
  const auto depth = static_cast<std::size_t>(indices.dims().back());
  const std::span<const std::int64_t> from(data.dims());
  Extents dims(indices.dims().begin(), indices.dims().end() - 1);
  dims.insert(dims.end(), from.begin() + static_cast<std::ptrdiff_t>(batch + depth), from.end());
  Tensor result(data.dtype(), dims);
  if (result.elements() == 0) return result;
  const Extents strides = strides_of(data.dims());
  const std::int64_t tuples =
      count(std::span<const std::int64_t>(indices.dims()).first(indices.rank() - 1));
  const std::int64_t tuples_per_batch = count(
      std::span<const std::int64_t>(indices.dims()).subspan(batch, indices.rank() - 1 - batch));
  const std::int64_t batch_stride = count(from.subspan(batch));
  const auto row =
      static_cast<std::size_t>(count(from.subspan(batch + depth))) * size_of(data.dtype());
  for (std::int64_t tuple = 0; tuple < tuples; ++tuple) {
    std::int64_t offset = tuple / tuples_per_batch * batch_stride;
    for (std::size_t i = 0; i < depth; ++i) {
      const std::int64_t index = indices.integer_at(tuple * static_cast<std::int64_t>(depth) +
                                                    static_cast<std::int64_t>(i));
      offset += strides[batch + i] * call.position(index, from[batch + i]);
    }
    std::memcpy(result.mutable_bytes().data() + static_cast<std::size_t>(tuple) * row,
                data.bytes().data() + static_cast<std::size_t>(offset) * size_of(data.dtype()),
                row);
  }
  return result;
}

}  // namespace anydim::ir
