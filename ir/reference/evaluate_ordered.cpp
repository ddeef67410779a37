// Ops that depend on the order of elements along one axis.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "ir/reference/evaluate_ops.h"

namespace anydim::ir {
namespace {

// The elements of one axis at one place of the others.
struct Line {
  std::int64_t first = 0;   // offset of element 0
  std::int64_t stride = 1;  // between neighbours
  std::int64_t number = 0;  // of this line among all
};

void for_each_line(const Extents& dims, std::size_t axis,
                   const std::function<void(const Line&)>& body) {
  const std::int64_t inner =
      element_count(Extents(dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, dims.end()));
  const std::int64_t outer =
      element_count(Extents(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(axis)));
  for (std::int64_t i = 0; i < outer; ++i) {
    for (std::int64_t j = 0; j < inner; ++j)
      body({i * dims[axis] * inner + j, inner, i * inner + j});
  }
}

class Ordering {
 public:
  Ordering(const Tensor& tensor, bool largest) : tensor_(tensor), largest_(largest) {}

  // Whether a comes strictly before b.
  bool before(std::int64_t a, std::int64_t b) const {
    return largest_ ? greater(a, b) : greater(b, a);
  }
  bool is_nan(std::int64_t at) const {
    return is_float(tensor_.dtype()) && std::isnan(tensor_.real_at(at));
  }

 private:
  bool greater(std::int64_t a, std::int64_t b) const {
    if (is_float(tensor_.dtype())) {
      const double left = tensor_.real_at(a), right = tensor_.real_at(b);
      if (std::isnan(right)) return false;
      return std::isnan(left) || left > right;
    }
    const std::int64_t left = tensor_.integer_at(a), right = tensor_.integer_at(b);
    if (tensor_.dtype() == DType::U64)
      return static_cast<std::uint64_t>(left) > static_cast<std::uint64_t>(right);
    return left > right;
  }

  const Tensor& tensor_;
  bool largest_;
};

}  // namespace

Results evaluate_arg(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const std::size_t axis = call.axis(integer_attribute(call.binding, "axis"), source.rank());
  const bool last = integer_attribute(call.binding, "last") != 0;
  const Ordering order(source, call.binding.op == Op::arg_max);
  const std::int64_t extent = source.dims()[axis];
  if (extent == 0) call.fail("dimension {} of operand 0: expected 1 or more, got 0", axis);
  Extents dims = source.dims();
  if (integer_attribute(call.binding, "keepdims") != 0) dims[axis] = 1;
  else dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  Tensor result(DType::I64, dims);
  for_each_line(source.dims(), axis, [&](const Line& line) {
    std::int64_t best = 0;
    const auto at = [&](std::int64_t i) { return line.first + i * line.stride; };
    for (std::int64_t i = 1; i < extent; ++i) {
      const bool nan = order.is_nan(at(i)), best_nan = order.is_nan(at(best));
      const bool better = nan != best_nan ? nan : !nan && order.before(at(i), at(best));
      const bool equal =
          nan == best_nan && !order.before(at(i), at(best)) && !order.before(at(best), at(i));
      if (better || (last && (equal || (nan && best_nan)))) best = i;
    }
    result.set_integer(line.number, best);
  });
  return result;
}

Results evaluate_cumulative_sum(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const std::int64_t given =
      call.is_dynamic() ? call.operand(1).integer_at(0) : integer_attribute(call.binding, "axis");
  const std::size_t axis = call.axis(given, source.rank());
  const bool exclusive = integer_attribute(call.binding, "exclusive") != 0;
  const bool reverse = integer_attribute(call.binding, "reverse") != 0;
  const std::int64_t extent = source.dims()[axis];
  Tensor result(source.dtype(), source.dims());
  for_each_line(source.dims(), axis, [&](const Line& line) {
    double real = 0;
    std::uint64_t integer = 0;
    for (std::int64_t step = 0; step < extent; ++step) {
      const std::int64_t at = line.first + (reverse ? extent - 1 - step : step) * line.stride;
      const auto store = [&] {
        if (is_float(source.dtype())) result.set_real(at, real);
        else result.set_integer(at, static_cast<std::int64_t>(integer));
      };
      if (exclusive) store();
      if (is_float(source.dtype())) real += source.real_at(at);
      else integer += static_cast<std::uint64_t>(source.integer_at(at));
      if (!exclusive) store();
    }
  });
  return result;
}

Results evaluate_top_k(const OpCall& call) {
  const Tensor& source = call.operand(0);
  const std::size_t axis = call.axis(integer_attribute(call.binding, "axis"), source.rank());
  const std::int64_t k =
      call.is_dynamic() ? call.operand(1).integer_at(0) : integer_attribute(call.binding, "k");
  const Ordering order(source, integer_attribute(call.binding, "largest") != 0);
  const std::int64_t extent = source.dims()[axis];
  if (k < 0 || k > extent) call.fail("k: expected from 0 to {}, got {}", extent, k);
  Extents dims = source.dims();
  dims[axis] = k;
  Tensor indices(DType::I64, dims);
  Tensor values(source.dtype(), dims);
  for_each_line(source.dims(), axis, [&](const Line& line) {
    Extents positions(static_cast<std::size_t>(extent));
    std::iota(positions.begin(), positions.end(), 0);
    const auto at = [&](std::int64_t i) { return line.first + i * line.stride; };
    std::ranges::sort(positions, [&](std::int64_t a, std::int64_t b) {
      if (order.before(at(a), at(b))) return true;
      return !order.before(at(b), at(a)) && a < b;
    });
    const std::int64_t first =
        line.number / line.stride * k * line.stride + line.number % line.stride;
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t position = positions[static_cast<std::size_t>(i)];
      const std::int64_t to = first + i * line.stride;
      indices.set_integer(to, position);
      if (is_float(source.dtype())) values.set_real(to, source.real_at(at(position)));
      else values.set_integer(to, source.integer_at(at(position)));
    }
  });
  std::vector<Tensor> results;
  results.push_back(std::move(values));
  results.push_back(std::move(indices));
  return results;
}

}  // namespace anydim::ir
