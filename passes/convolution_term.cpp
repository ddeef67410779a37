#include "passes/convolution_term.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "ir/expand.h"
#include "ir/loops/scalar_access.h"
#include "passes/dim_order.h"

namespace anydim::passes {

using namespace ir;

namespace {

constexpr std::size_t first_place = 2;  // axes of an image before its places: N and channels

class Matcher {
 public:
  Matcher(const PatternGraph& graph, ValueId value, std::int64_t outputs)
      : graph_(graph), value_(value), outputs_(outputs), count_(dims(value).size() - first_place) {}

  std::optional<ConvolutionTerm> product() const {
    const Binding* last = graph_.definition(value_);
    if (last == nullptr) return std::nullopt;
    if (last->op == Op::reduce_sum) return sum_by_channel(*last);
    if (last->op == Op::matmul) return matmul(*last, {last});
    if (!info(last->op).has(traits::reshapes)) return std::nullopt;
    const Binding* product = graph_.applied(last->operands[0], Op::matmul);
    return product == nullptr ? std::nullopt : matmul(*product, {product, last});
  }

 private:
  const Dims& dims(ValueId value) const { return graph_.type(value).dims; }

  // [O, C places] times [N, C places, P]; of groups, [G, O / G, C / G places] times [N, G, C / G
  // places, P].
  std::optional<ConvolutionTerm> matmul(const Binding& product,
                                        std::vector<const Binding*> steps) const {
    const Tensor* weight = stored_constant(graph_, product.operands[0]);
    const Dims &matrix = dims(product.operands[0]), &columns = dims(product.operands[1]);
    if (weight == nullptr || matrix.size() + 1 != columns.size() || matrix.size() > 3)
      return std::nullopt;
    ValueId moved = product.operands[1];
    const auto unshaped = [&](ValueId value) {
      for (const Binding* move = graph_.definition(value);
           move != nullptr && info(move->op).has(traits::reshapes); move = graph_.definition(value))
        value = move->operands[0];
      return value;
    };
    moved = unshaped(moved);
    if (const Binding* turn = graph_.applied(moved, Op::transpose)) {
      // [N, C, places..., window...] with the window before the places.
      Axes order = as_given(first_place + 2 * count_);
      std::rotate(order.begin() + first_place,
                  order.begin() + static_cast<std::ptrdiff_t>(first_place + count_), order.end());
      if (permutation(*turn, dims(moved).size()) != order) return std::nullopt;
      moved = turn->operands[0];
    }
    auto term = windows_of(moved);
    if (!term) return std::nullopt;
    const std::int64_t groups = matrix.size() == 2 ? 1 : matrix[0].constant().value_or(0);
    if (groups < 1 || outputs_ % groups != 0 || term->channels % groups != 0) return std::nullopt;
    const std::int64_t depth = term->channels / groups * term->places();
    Dims expected_matrix{outputs_ / groups, depth};
    Dims expected_columns{dims(value_)[0], depth,
                          ir::product(std::span(dims(value_)).subspan(first_place))};
    if (matrix.size() == 3) {
      expected_matrix.insert(expected_matrix.begin(), groups);
      expected_columns.insert(expected_columns.begin() + 1, groups);
    }
    if (matrix != expected_matrix || columns != expected_columns) return std::nullopt;
    term->groups = groups;
    term->weight = *weight;
    term->steps = std::move(steps);
    return term;
  }

  // [N, C, places..., window...] times the weight [C, 1..., window...], summed over windows.
  std::optional<ConvolutionTerm> sum_by_channel(const Binding& sum) const {
    const Binding* product = graph_.applied(sum.operands[0], Op::mul);
    if (product == nullptr || integer_attribute(sum, "keepdims") != 0) return std::nullopt;
    Axes window(count_);
    std::iota(window.begin(), window.end(), first_place + count_);
    const Dims& all = dims(product->results[0]);
    if (all.size() != first_place + 2 * count_ || normalised_axes(sum, all.size()) != window)
      return std::nullopt;
    for (const std::size_t i : {0, 1}) {
      const Tensor* weight = stored_constant(graph_, product->operands[i]);
      if (weight == nullptr) continue;
      auto term = windows_of(product->operands[1 - i]);
      if (!term || term->channels != outputs_) return std::nullopt;
      Dims expected(first_place + 2 * count_, Dim(1));
      expected[1] = outputs_;
      std::ranges::copy(term->sizes,
                        expected.begin() + first_place + static_cast<std::ptrdiff_t>(count_));
      const Dims& given = dims(product->operands[i]);
      expected.erase(expected.begin());
      if (given.size() > expected.size()) expected.insert(expected.begin(), Dim(1));
      if (given != expected) return std::nullopt;
      term->groups = outputs_;
      term->weight = *weight;
      term->weight_operand = i;
      term->steps = {product, &sum};
      return term;
    }
    return std::nullopt;
  }

  // What lies over an image, with no weight yet: [N, C, places..., window...], or the image where
  // windows have one place each and lie side by side.
  std::optional<ConvolutionTerm> windows_of(ValueId value) const {
    ConvolutionTerm term{.sizes = std::vector<std::int64_t>(count_, 1),
                         .strides = std::vector<std::int64_t>(count_, 1),
                         .dilations = std::vector<std::int64_t>(count_, 1),
                         .before = std::vector<std::int64_t>(count_, 0)};
    Axes axes(count_);
    std::iota(axes.begin(), axes.end(), first_place);
    Dims places(dims(value_).begin() + first_place, dims(value_).end());
    if (const Binding* windows = graph_.applied(value, Op::windows)) {
      if (as_listed(*windows) != axes) return std::nullopt;
      term.sizes = integers_attribute(*windows, "sizes");
      term.strides = integers_or_ones(*windows, "strides", count_);
      term.dilations = integers_or_ones(*windows, "dilations", count_);
      const Dims& all = dims(value);
      if (!std::equal(places.begin(), places.end(), all.begin() + first_place)) return std::nullopt;
      value = windows->operands[0];
    } else {
      const Binding* spread = graph_.definition(value);
      if (spread != nullptr && info(spread->op).has(traits::reshapes)) value = spread->operands[0];
      if (dims(value).size() != first_place + count_ ||
          !std::equal(places.begin(), places.end(), dims(value).begin() + first_place))
        return std::nullopt;
    }
    const Dims& image = dims(value);
    if (image.size() != first_place + count_ || image[0] != dims(value_)[0]) return std::nullopt;
    term.image = value;
    term.channels = image[1].constant().value_or(0);
    term.outputs = outputs_;
    if (term.channels < 1) return std::nullopt;
    take_zeros(term);
    return term;
  }

  // The axes of an image that the binding's lists go with, in their order.
  Axes as_listed(const Binding& binding) const {
    const auto rank = static_cast<std::int64_t>(first_place + count_);
    if (!has_attribute(binding, "axes")) return as_given(first_place + count_);
    Axes axes;
    for (const std::int64_t axis : integers_attribute(binding, "axes"))
      axes.push_back(static_cast<std::size_t>(axis < 0 ? axis + rank : axis));
    return axes;
  }

  // The image without zeros at its borders.
  void take_zeros(ConvolutionTerm& term) const {
    const Binding* pad = graph_.applied(term.image, Op::pad);
    if (pad == nullptr || pad->operands.size() != 1 || string_attribute(*pad, "mode") != "constant")
      return;
    const Axes axes = as_listed(*pad);
    const auto &before = integers_attribute(*pad, "before"),
               &after = integers_attribute(*pad, "after");
    if (std::ranges::min(axes) < first_place || std::ranges::min(before) < 0 ||
        std::ranges::min(after) < 0)
      return;
    for (std::size_t i = 0; i < axes.size(); ++i) term.before[axes[i] - first_place] = before[i];
    term.image = pad->operands[0];
  }

  const PatternGraph& graph_;
  ValueId value_;
  std::int64_t outputs_;
  std::size_t count_;  // axes of places
};

}  // namespace

std::int64_t ConvolutionTerm::places() const {
  return std::reduce(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

const Tensor* stored_constant(const PatternGraph& graph, ValueId value) {
  const Binding* found = graph.definition(value);
  while (found != nullptr && info(found->op).has(traits::reshapes))
    found = graph.definition(found->operands[0]);
  if (found == nullptr || found->op != Op::constant) return nullptr;
  const Tensor& constant = tensor_attribute(*found, "value");
  return constant.dtype() == DType::F32 ? &constant : nullptr;
}

std::optional<std::vector<double>> number_by_channel(const PatternGraph& graph, ValueId value,
                                                     std::size_t rank, std::int64_t channels) {
  const Tensor* constant = stored_constant(graph, value);
  if (constant == nullptr) return std::nullopt;
  const Dims& dims = graph.type(value).dims;
  if (constant->elements() != 1 &&
      (dims.size() + 1 < rank || !dims[dims.size() + 1 - rank].is_constant(channels) ||
       constant->elements() != channels))
    return std::nullopt;
  const Tensor opened = constant->opened();
  const auto elements = opened.as<float>();
  if (elements.size() == 1)
    return std::vector<double>(static_cast<std::size_t>(channels), elements[0]);
  return std::vector<double>(elements.begin(), elements.end());
}

std::optional<ConvolutionTerm> convolution_term(const PatternGraph& graph, ValueId value) {
  const TensorType& type = graph.type(value);
  if (type.dtype != DType::F32 || type.rank() <= first_place) return std::nullopt;
  const auto outputs = type.dims[1].constant();
  if (!outputs || *outputs < 1) return std::nullopt;
  auto term = Matcher(graph, value, *outputs).product();
  if (!term) {
    const std::vector<std::int64_t> ones(type.rank() - first_place, 1);
    term = ConvolutionTerm{.image = value,
                           .channels = *outputs,
                           .outputs = *outputs,
                           .groups = *outputs,
                           .sizes = ones,
                           .strides = ones,
                           .dilations = ones,
                           .before = std::vector<std::int64_t>(ones.size(), 0)};
  }
  term->scale.assign(static_cast<std::size_t>(*outputs), 1);
  term->shift.assign(static_cast<std::size_t>(*outputs), 0);
  return term;
}

}  // namespace anydim::passes
