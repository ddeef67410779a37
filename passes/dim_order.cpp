#include "passes/dim_order.h"

#include <iterator>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "ir/strided_copy.h"

namespace anydim::passes {

using namespace ir;

namespace {

class Reordered : public TensorSource {
 public:
  Reordered(Tensor tensor, const std::vector<std::int64_t>& dims, const Axes& order)
      : tensor_(std::move(tensor)), extents_(in_order(dims, order)) {
    std::vector<std::int64_t> strides(dims.size(), 1);
    for (std::size_t i = dims.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * dims[i + 1];
    strides_ = in_order(strides, order);
  }

  void read(std::span<std::byte> to) const override {
    const Tensor opened = tensor_.opened();
    copy_strided(to.data(), opened.bytes().data(), size_of(opened.dtype()), extents_, strides_);
  }

 private:
  Tensor tensor_;
  std::vector<std::int64_t> extents_, strides_;
};

}  // namespace

Axes inverse(const Axes& order) {
  Axes result(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) result[order[i]] = i;
  return result;
}

Axes as_given(std::size_t rank) {
  Axes order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Axes last_two_turned(std::size_t rank) {
  Axes order = as_given(rank);
  std::swap(order[rank - 2], order[rank - 1]);
  return order;
}

Axes that_lie(const Dims& dims, Axes order) {
  std::erase_if(order, [&](std::size_t axis) { return dims[axis].is_constant(1); });
  return order;
}

Axes with_ones_placed(const Dims& dims, const Axes& order) {
  Axes result = that_lie(dims, order);
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (!dims[axis].is_constant(1)) continue;
    const auto end = result.empty() ? result.end() : std::prev(result.end());
    result.insert(std::find_if(result.begin(), end, [&](std::size_t one) { return one > axis; }),
                  axis);
  }
  return result;
}

std::optional<Axes> lie_together(const Dims& dims, const Axes& order, std::size_t begin,
                                 std::size_t end) {
  Axes found;
  std::optional<std::size_t> last;
  std::size_t place = 0;
  for (const std::size_t axis : that_lie(dims, order)) {
    if (axis >= begin && axis < end) {
      if (last && *last + 1 != place) return std::nullopt;
      last = place;
      found.push_back(axis);
    }
    ++place;
  }
  return found;
}

std::vector<DimGroup> groups_of(const Dims& from, const Dims& to) {
  const auto products = [](const Dims& dims) {
    Dims result{Dim(1)};
    for (const Dim& dim : dims) result.push_back(result.back() * dim);
    return result;
  };
  const Dims before = products(from), after = products(to);
  std::vector<DimGroup> groups;
  std::size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    DimGroup group{i, from.size(), j, to.size()};
    for (std::size_t a = i + 1, found = 0; a <= from.size() && found == 0; ++a)
      for (std::size_t b = j + 1; b <= to.size() && found == 0; ++b)
        if (before[a] == after[b]) group = {i, found = a, j, b};
    groups.push_back(group);
    i = group.from_end;
    j = group.to_end;
  }
  return groups;
}

Tensor reordered(Tensor tensor, const std::vector<std::int64_t>& dims, const Axes& order,
                 std::vector<std::int64_t> extents) {
  const DType dtype = tensor.dtype();
  return {dtype, std::move(extents), std::make_shared<Reordered>(std::move(tensor), dims, order)};
}

}  // namespace anydim::passes
