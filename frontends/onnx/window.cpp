#include "frontends/onnx/window.h"

#include <algorithm>
#include <utility>

#include "frontends/sizes.h"

namespace anydim::frontends {

using ir::Dim;

namespace {

constexpr std::size_t first_dim = 2;  // that windows move over

std::size_t moved_dims(Node& node, Value x) {
  const std::size_t rank = x.rank();
  if (rank <= first_dim) node.malformed("takes an input 0 of rank 3 or more, got rank {}", rank);
  return rank - first_dim;
}

bool compute(Op op, std::int64_t a, std::int64_t b, std::int64_t& result) {
  switch (op) {  // NOLINT: the others are no operation on sizes
    case Op::add: return !__builtin_add_overflow(a, b, &result);
    case Op::sub: return !__builtin_sub_overflow(a, b, &result);
    case Op::mul: return !__builtin_mul_overflow(a, b, &result);
    case Op::div: result = a / b; return true;
    case Op::max: result = std::max(a, b); return true;
    default: result = std::min(a, b); return true;
  }
}

}  // namespace

Value channels_first(Node& node, Value x) {
  Ints order{0, -1};
  for (std::size_t i = 0; i < moved_dims(node, x); ++i)
    order.push_back(static_cast<std::int64_t>(i) + 1);
  order[1] = static_cast<std::int64_t>(order.size()) - 1;
  return transpose(x, std::move(order));
}

Value channels_last(Node& node, Value x) {
  Ints order{0};
  for (std::size_t i = 0; i < moved_dims(node, x); ++i)
    order.push_back(static_cast<std::int64_t>(i) + 2);
  order.push_back(1);
  return transpose(x, std::move(order));
}

Ints axes_between(std::size_t first, std::size_t last) {
  Ints axes;
  for (std::size_t axis = first; axis < last; ++axis)
    axes.push_back(static_cast<std::int64_t>(axis));
  return axes;
}

bool Sizes::all(std::int64_t element) const {
  return known && std::ranges::all_of(*known, [&](std::int64_t one) { return one == element; });
}

Sizes dims_between(Node& node, Value value, std::size_t first, std::size_t last) {
  if (const std::vector<Dim>* dims = node.dims(value)) {
    Ints known;
    for (std::size_t i = first; i < last && i < dims->size(); ++i)
      if (const auto constant = (*dims)[i].constant()) known.push_back(*constant);
    if (known.size() == last - first) return known;
  }
  const auto one = [](std::size_t i) { return Ints{static_cast<std::int64_t>(i)}; };
  return Sizes(node.emit(Op::strided_slice, {shape_of(value)},
                         {{"starts", one(first)}, {"ends", one(last)}}));
}

Value vector_of(Node& node, const Sizes& sizes) {
  return sizes.known ? node.index_vector(*sizes.known) : sizes.value;
}

Sizes combine(Node& node, Op op, const Sizes& a, const Sizes& b) {
  if (!a.known || !b.known) return Sizes(node.emit(op, {vector_of(node, a), vector_of(node, b)}));
  Ints result(a.known->size());
  for (std::size_t i = 0; i < result.size(); ++i)
    if (!compute(op, (*a.known)[i], (*b.known)[i], result[i]))
      node.malformed("has sizes beyond 64 bits");
  return result;
}

Ints Windows::attribute(Node& node, const char* name, std::size_t count, std::int64_t fallback,
                        std::int64_t least) {
  const auto given = node.optional_integers(name);
  if (!given) return Ints(count, fallback);
  if (given->size() != count ||
      std::ranges::any_of(*given, [&](std::int64_t one) { return one < least; })) {
    node.malformed("has {} = {}; expected {} integers of at least {}", name, dims_text(*given),
                   count, least);
  }
  return *given;
}

Sizes Windows::kernel_attribute(Node& node, Value x) {
  if (!node.has_attribute("kernel_shape")) node.integers("kernel_shape");
  return attribute(node, "kernel_shape", moved_dims(node, x), 1, 1);
}

Sizes Windows::kernel_of(Node& node, Value x, Value weight) {
  const std::size_t count = moved_dims(node, x);
  if (const std::size_t rank = weight.rank(); rank != count + first_dim) {
    node.malformed("takes an input 1 (the weight) of rank {} like input 0, got rank {}",
                   count + first_dim, rank);
  }
  const Sizes dims = dims_between(node, weight, first_dim, first_dim + count);
  if (dims.known && std::ranges::any_of(*dims.known, [](std::int64_t one) { return one < 1; })) {
    node.malformed("takes a weight with a window of at least 1, got {}", dims_text(*dims.known));
  }
  if (!node.has_attribute("kernel_shape")) return dims;
  const Ints given = attribute(node, "kernel_shape", count, 1, 1);
  if (!dims.known) return given;
  if (given != *dims.known) {
    node.malformed("has kernel_shape = {}; its weight has {}", dims_text(given),
                   dims_text(*dims.known));
  }
  return dims;
}

Windows::Windows(Node& node, Value x, Sizes kernel)
    : node_(node), count_(moved_dims(node, x)), kernel_(std::move(kernel)),
      extents_(dims_between(node, x, first_dim, first_dim + count_)),
      strides_(attribute(node, "strides", count_, 1, 1)),
      dilations_(attribute(node, "dilations", count_, 1, 1)), before_(Ints(count_, 0)),
      after_(before_), extra_(before_) {
  read_pads();
}

Windows Windows::moved_by_one(Sizes kernel, Sizes before, Sizes after) const {
  Windows moved = *this;
  moved.kernel_ = std::move(kernel);
  moved.strides_.assign(count_, 1);
  moved.before_ = std::move(before);
  moved.after_ = std::move(after);
  return moved;
}

std::optional<Windows::Seen> Windows::seen() const {
  if (!extents_.known || !kernel_.known || !before_.known || !after_.known || !extra_.all(0))
    return std::nullopt;
  const Sizes all_there =
                  combine(node_, Op::add, combine(node_, Op::add, extents_, before_), after_),
              free = combine(node_, Op::sub, all_there, reach());
  Seen found;
  bool all = true;
  for (std::size_t i = 0; i < count_; ++i) {
    const std::int64_t extent = (*extents_.known)[i], before = (*before_.known)[i],
                       rest = (*free.known)[i];
    if (rest < 0) return std::nullopt;
    const std::int64_t last = rest / strides_[i] * strides_[i];  // where the last window begins
    std::int64_t first = 0, end = (*kernel_.known)[i];
    while (first < end && last + first * dilations_[i] < before) ++first;
    while (end > first && (end - 1) * dilations_[i] - before >= extent) --end;
    if (first == end) return std::nullopt;
    all = all && end - first == (*kernel_.known)[i];
    found.first.push_back(first);
    found.count.push_back(end - first);
  }
  return all ? std::nullopt : std::optional(std::move(found));
}

Windows Windows::of_seen(const Seen& seen) const {
  Windows some = *this;
  some.kernel_ = seen.count;
  for (std::size_t i = 0; i < count_; ++i) {
    const std::int64_t behind = (*kernel_.known)[i] - seen.first[i] - seen.count[i];
    (*some.before_.known)[i] -= seen.first[i] * dilations_[i];
    (*some.after_.known)[i] -= behind * dilations_[i];
  }
  return some;
}

Sizes Windows::reach() const {
  const Ints ones(count_, 1);
  const Sizes steps = combine(node_, Op::mul, combine(node_, Op::sub, kernel_, ones), dilations_);
  return combine(node_, Op::add, steps, ones);
}

void Windows::read_pads() {
  const auto pads = node_.optional_integers("pads");
  const auto negative = [](std::int64_t one) { return one < 0; };
  if (pads && (pads->size() != 2 * count_ || std::ranges::any_of(*pads, negative))) {
    node_.malformed("has pads = {}; expected {} integers of at least 0", dims_text(*pads),
                    2 * count_);
  }
  const std::string same =
      node_.one_of({"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"}, "auto_pad", "NOTSET");
  if (same != "NOTSET" && pads &&
      std::ranges::any_of(*pads, [](std::int64_t one) { return one != 0; })) {
    node_.malformed("has pads = {} beside auto_pad = '{}'; expected one of them", dims_text(*pads),
                    same);
  }
  if (same == "SAME_UPPER" || same == "SAME_LOWER") return pad_to_same(same == "SAME_UPPER");
  if (!pads) return;
  const auto half = pads->begin() + static_cast<std::ptrdiff_t>(count_);
  before_ = Ints(pads->begin(), half);
  after_ = Ints(half, pads->end());
}

// As many windows as strides fit into the extents; the odd element goes behind where `upper`.
void Windows::pad_to_same(bool upper) {
  const Ints zeros(count_, 0), ones(count_, 1), twos(count_, 2);
  const Sizes rounded = combine(node_, Op::add, extents_, combine(node_, Op::sub, strides_, ones));
  const Sizes steps = combine(node_, Op::sub, combine(node_, Op::div, rounded, strides_), ones);
  const Sizes needed = combine(node_, Op::add, combine(node_, Op::mul, steps, strides_), reach());
  const Sizes total = combine(node_, Op::max, combine(node_, Op::sub, needed, extents_), zeros);
  before_ = combine(node_, Op::div, total, twos);
  after_ = combine(node_, Op::sub, total, before_);
  if (!upper) std::swap(before_, after_);
}

// The last window begins at the largest multiple of the stride from which it covers all, but within
// what is not padding behind.
void Windows::round_up() {
  const Ints zeros(count_, 0), ones(count_, 1);
  const Sizes front = combine(node_, Op::add, extents_, before_);
  const Sizes all = combine(node_, Op::add, front, after_);
  const Sizes rest = combine(node_, Op::sub, all, reach());
  // The quotient is of a number that is not negative, as div rounds towards zero: where no window
  // fits, none is wanted.
  const Sizes turns = combine(node_, Op::mul, strides_, reach());
  const Sizes up = combine(node_, Op::add, rest, combine(node_, Op::sub, strides_, ones));
  const Sizes wanted =
      combine(node_, Op::sub, combine(node_, Op::div, combine(node_, Op::add, up, turns), strides_),
              reach());
  const Sizes allowed = combine(node_, Op::div, combine(node_, Op::sub, front, ones), strides_);
  const Sizes last = combine(node_, Op::mul, combine(node_, Op::min, wanted, allowed), strides_);
  extra_ = combine(node_, Op::max,
                   combine(node_, Op::sub, combine(node_, Op::add, last, reach()), all), zeros);
}

Value Windows::pad(Value x, Value fill, Ints axes, const Sizes& before, const Sizes& after) const {
  if (before.all(0) && after.all(0)) return x;
  if (before.known && after.known) {
    return node_.emit(
        Op::pad, {x, fill},
        {{"before", *before.known}, {"after", *after.known}, {"axes", std::move(axes)}});
  }
  if (fill == no_value) fill = node_.scalar(x.dtype(), 0);
  return node_.emit(Op::dyn_pad, {x, fill, vector_of(node_, before), vector_of(node_, after),
                                  node_.index_vector(std::move(axes))});
}

Value Windows::pad(Value x, Value fill, const Sizes& before, const Sizes& after) const {
  return pad(x, fill, axes_between(first_dim, first_dim + count_), before, after);
}

Value Windows::padded(Value x, Value fill) const {
  return pad(x, fill, before_, combine(node_, Op::add, after_, extra_));
}

// Windows that lie side by side, so that each element is in one at most. Of one place alone, what
// lies between a window's places does not matter.
bool Windows::tiles() const {
  if (!kernel_.known || *kernel_.known != strides_) return false;
  for (std::size_t i = 0; i < count_; ++i)
    if (dilations_[i] != 1 && strides_[i] != 1) return false;
  return true;
}

Value Windows::tiled(Value x) const {
  const Sizes extents = dims_between(node_, x, first_dim, first_dim + count_);
  const Sizes places = combine(node_, Op::div, extents, strides_);
  const Sizes used = combine(node_, Op::mul, places, strides_);
  if (!extents.known || *extents.known != *used.known) {
    const Ints zeros(count_, 0);
    x = node_.emit(Op::dyn_strided_slice,
                   {x, node_.index_vector(zeros), vector_of(node_, used),
                    node_.index_vector(axes_between(first_dim, first_dim + count_))});
  }
  Values dims{vector_of(node_, dims_between(node_, x, 0, first_dim))};
  Ints order{0, 1};
  const Value all = vector_of(node_, places);
  for (std::size_t i = 0; i < count_; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    dims.push_back(gather(all, node_.index_vector({at}), 0));
    dims.push_back(node_.index_vector({strides_[i]}));
    order.push_back(2 + 2 * at);
  }
  for (std::size_t i = 0; i < count_; ++i) order.push_back(3 + 2 * static_cast<std::int64_t>(i));
  return transpose(reshaped(x, std::move(dims)), std::move(order));
}

// It checks what is known already; the op's shape rule holds the rest.
void Windows::check_fit(Value x) const {
  if (!kernel_.known) return;
  const Sizes spans = reach();
  for (std::size_t i = 0; i < count_; ++i) {
    const auto axis = static_cast<std::int64_t>(first_dim + i);
    const auto extent = x.extent(axis);
    if (!extent || *extent >= (*spans.known)[i]) continue;
    node_.malformed(
        "has kernel_shape = {} and dilations = {}, so windows that span {} elements of "
        "dim {}, which has {} with its pads",
        dims_text(*kernel_.known), dims_text(dilations_), (*spans.known)[i], axis, *extent);
  }
}

Value Windows::over(Value x) const {
  check_fit(x);
  // A length that only a run tells would have to be cut to whole windows first, which says its size
  // in a way that grows from layer to layer.
  const bool single =
      std::ranges::all_of(strides_, [](std::int64_t stride) { return stride == 1; });
  if (tiles() && (single || dims_between(node_, x, first_dim, first_dim + count_).known))
    return tiled(x);
  ir::Attributes attributes{{"axes", axes_between(first_dim, first_dim + count_)},
                            {"strides", strides_},
                            {"dilations", dilations_}};
  if (!kernel_.known) return node_.emit(Op::dyn_windows, {x, kernel_.value}, std::move(attributes));
  attributes.emplace("sizes", *kernel_.known);
  return node_.emit(Op::windows, {x}, std::move(attributes));
}

Ints Windows::window_axes() const {
  return axes_between(first_dim + count_, first_dim + 2 * count_);
}

Value Windows::elements(DType dtype, bool padding_counts) const {
  const auto one_of = [&](const Sizes& sizes, std::size_t i) -> Sizes {
    if (sizes.known) return Ints{(*sizes.known)[i]};
    return Sizes(gather(sizes.value, node_.index_vector({static_cast<std::int64_t>(i)}), 0));
  };
  const Value none = node_.scalar(dtype, 0), one = node_.scalar(dtype, 1);
  const Ints zero{0};
  Value product = no_value;
  for (std::size_t i = 0; i < count_; ++i) {
    Value line = node_.emit(Op::dyn_full, {one, vector_of(node_, one_of(extents_, i))});
    line = pad(line, padding_counts ? one : none, zero, one_of(before_, i), one_of(after_, i));
    line = pad(line, none, zero, Sizes(zero), one_of(extra_, i));
    const Sizes size = one_of(kernel_, i);
    const Value windows = node_.emit(Op::dyn_windows, {line, vector_of(node_, size)},
                                     {{"axes", zero},
                                      {"strides", std::vector{strides_[i]}},
                                      {"dilations", std::vector{dilations_[i]}}});
    Value count = node_.emit(Op::reduce_sum, {windows}, {{"axes", Ints{1}}});
    if (i + 1 < count_) count = with_axes(count, axes_between(1, count_ - i));
    product = i == 0 ? count : product * count;
  }
  return product;
}

}  // namespace anydim::frontends
