// Transposed convolutions: the gradient of a convolution by its input.
#include <algorithm>
#include <limits>
#include <utility>

#include "frontends/onnx/convolution.h"
#include "frontends/onnx/importers.h"

namespace anydim::frontends {

namespace {

// x with stride - 1 zeros behind every element of each dim.
Value spread_out(Node& node, Value x, const Ints& strides) {
  if (Sizes(strides).all(1)) return x;
  const std::size_t count = strides.size();
  Ints inserted, none(count, 0), zeros = strides;
  for (std::size_t i = 0; i < count; ++i) {
    inserted.push_back(static_cast<std::int64_t>(3 + 2 * i));
    --zeros[i];
  }
  const Value apart = node.emit(Op::pad, {with_axes(x, inserted)},
                                {{"before", none}, {"after", zeros}, {"axes", inserted}});
  const Sizes wider = combine(node, Op::mul, dims_between(node, x, 2, 2 + count), strides);
  return reshaped(apart, {vector_of(node, dims_between(node, x, 0, 2)), vector_of(node, wider)});
}

Value mirrored_along(Node& node, Value value, const Ints& axes) {
  const auto repeated = [&](std::int64_t number) { return Ints(axes.size(), number); };
  return node.emit(Op::strided_slice, {value},
                   {{"starts", repeated(-1)},
                    {"ends", repeated(std::numeric_limits<std::int64_t>::min() + 1)},
                    {"axes", axes},
                    {"steps", repeated(-1)}});
}

// The weight [C, M / groups, window...] mirrored, as that of a convolution: [M, C / groups,
// window...].
Value mirrored(Node& node, Value weight, std::int64_t groups, const Windows& windows) {
  const std::size_t count = windows.count();
  Ints order{0, 2, 1};
  for (const std::int64_t axis : axes_between(3, 3 + count)) order.push_back(axis);
  const Value turned = mirrored_along(node, weight, axes_between(2, 2 + count));
  const Value inputs = quotient(node, dim_of(weight, 0), groups), outputs = dim_of(weight, 1);
  const Value kernel = vector_of(node, windows.kernel());
  const Value grouped = reshaped(turned, {node.index_vector({groups}), inputs, outputs, kernel});
  const Value all = groups == 1 ? outputs : outputs * node.index_vector({groups});
  return reshaped(transpose(grouped, order), {all, inputs, kernel});
}

// x spread out by the strides, convolved with the mirrored weight, with `front` and `back` around
// it.
Value by_spreading(Node& node, const Windows& windows, Value x, Value weight, std::int64_t groups,
                   Sizes front, Sizes back) {
  const Windows inner = windows.moved_by_one(windows.kernel(), std::move(front), std::move(back));
  const Value moved = inner.over(inner.padded(spread_out(node, x, windows.strides())));
  return convolved(node, inner, moved, mirrored(node, weight, groups, windows), groups);
}

std::int64_t quotient_down(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// The result's place phase + stride * q, counted before pads are taken away, is made of x's places
// q, q - 1, ... and the weight's phase, phase + stride, ... So the phases are channels of one
// convolution of x whose windows move by one, and nothing is multiplied by zeros that stand for
// strides; where the stride does not divide the kernel, some of the last places of phases are 0.
class Phases {
 public:
  Phases(Node& node, const Windows& windows, std::int64_t groups)
      : node_(node), windows_(windows), groups_(groups) {
    for (std::size_t i = 0; i < windows.count(); ++i) {
      const std::int64_t stride = windows.strides()[i], kernel = (*windows.kernel().known)[i];
      taps_.push_back(-quotient_down(-kernel, stride));
      missing_.push_back(taps_.back() * stride - kernel);
      spans_.push_back((taps_.back() - 1) * windows.dilations()[i] + 1);
    }
  }

  // Where a dilation takes the weight's places from phase to phase, they would have windows each.
  static bool suit(const Windows& windows) {
    constexpr std::int64_t most = 4096;  // each is a copy of the weight's channels
    std::int64_t phases = 1;
    for (std::size_t i = 0; i < windows.count(); ++i) {
      const std::int64_t stride = windows.strides()[i];
      if (stride == 1) continue;
      if (windows.dilations()[i] != 1 || stride > most / phases) return false;
      phases *= stride;
    }
    return phases > 1 && windows.kernel().known.has_value();
  }

  // `before` and `after` are taken away at the ends, added where negative.
  Value convolve(Value x, Value weight, const Sizes& before, const Sizes& after) const {
    const Sizes strides = windows_.strides(), ones = Ints(count(), 1);
    // Places q before `first`, and as many from x's last place on as `last` says, are computed.
    const Sizes left = combine(node_, Op::sub, windows_.reach(), after);
    Ints first(count(), 0), last = spans_;
    for (std::size_t i = 0; i < count() && before.known && left.known; ++i) {
      first[i] = std::max<std::int64_t>((*before.known)[i], 0) / windows_.strides()[i];
      last[i] = -quotient_down(-(*left.known)[i], windows_.strides()[i]);
    }
    const Windows inner = windows_.moved_by_one(
        taps_, combine(node_, Op::sub, combine(node_, Op::sub, spans_, ones), first),
        combine(node_, Op::sub, last, ones));
    const Value all =
        convolved(node_, inner, inner.over(inner.padded(x)), of_phases(weight), groups_);
    return windows_.pad(interleaved(all, weight), no_value,
                        combine(node_, Op::sub, combine(node_, Op::mul, first, strides), before),
                        combine(node_, Op::sub, left, combine(node_, Op::mul, last, strides)));
  }

 private:
  std::size_t count() const { return windows_.count(); }
  Value vector(Ints elements) const { return node_.index_vector(std::move(elements)); }
  Value times(Value dim, std::int64_t factor) const {
    return factor == 1 ? dim : dim * vector({factor});
  }

  // The weight [C, M / groups, window...] as [groups * phases * M / groups, C / groups, taps...].
  Value of_phases(Value weight) const {
    const Value inputs = quotient(node_, dim_of(weight, 0), groups_), outputs = dim_of(weight, 1);
    Ints parts, turned, order{0};
    std::int64_t phases = groups_;
    for (std::size_t i = 0; i < count(); ++i) {
      const auto axis = static_cast<std::int64_t>(3 + 2 * i);
      parts.insert(parts.end(), {taps_[i], windows_.strides()[i]});
      turned.push_back(axis);
      order.push_back(axis + 1);
      phases *= windows_.strides()[i];
    }
    order.insert(order.end(), {2, 1});
    order.insert(order.end(), turned.begin(), turned.end());
    const Value whole = windows_.pad(weight, no_value, Ints(count(), 0), missing_);
    const Value apart = reshaped(whole, {vector({groups_}), inputs, outputs, vector(parts)});
    return reshaped(transpose(mirrored_along(node_, apart, turned), order),
                    {times(outputs, phases), inputs, vector(taps_)});
  }

  // [N, groups * phases * M / groups, places...] as [N, M, places times strides...].
  Value interleaved(Value y, Value weight) const {
    const Sizes places = dims_between(node_, y, 2, 2 + count());
    const Value outputs = dim_of(weight, 1), batch = dim_of(y, 0);
    const auto dims = static_cast<std::int64_t>(count());
    Ints phases{groups_}, order{0, 1, 2 + dims};
    for (std::int64_t i = 0; i < dims; ++i) {
      phases.push_back(windows_.strides()[static_cast<std::size_t>(i)]);
      order.insert(order.end(), {3 + dims + i, 2 + i});
    }
    const Value apart = reshaped(y, {batch, vector(phases), outputs, vector_of(node_, places)});
    return reshaped(transpose(apart, order),
                    {batch, times(outputs, groups_),
                     vector_of(node_, combine(node_, Op::mul, places, windows_.strides()))});
  }

  Node& node_;
  const Windows& windows_;
  std::int64_t groups_;
  // Each dim has the places of a phase's window, what the weight lacks of them all, and their span.
  Ints taps_, missing_, spans_;
};

// What is left of the result when its pads are taken away, of what is known already.
void check_rest(Node& node, const Sizes& spread, const Sizes& front, const Sizes& back,
                const Sizes& border) {
  const Sizes rest = combine(
      node, Op::sub, combine(node, Op::add, spread, combine(node, Op::add, front, back)), border);
  for (std::size_t i = 0; rest.known && i < rest.known->size(); ++i) {
    if ((*rest.known)[i] >= 1) continue;
    node.malformed(
        "leaves {} elements of dim {} of its result (pads, auto_pad or "
        "output_shape say so); expected at least 1",
        (*rest.known)[i], i + 2);
  }
}

}  // namespace

void import_transposed_convolution(Node& node) {
  node.check_same_dtypes();
  const Value x = node.operand(0), weight = node.operand(1);
  const Windows windows(node, x, Windows::kernel_of(node, x, weight));
  const std::size_t count = windows.count();
  const std::int64_t groups = groups_of(node);
  const auto channels = x.extent(1), inputs = weight.extent(0);
  if (channels && *channels % groups != 0) {
    node.malformed("has group = {}, which does not divide the {} channels of input 0", groups,
                   *channels);
  }
  if (channels && inputs && *channels != *inputs) {
    node.malformed("has an input 1 (the weight) for {} channels; input 0 has {}", *inputs,
                   *channels);
  }
  if (inputs) node.hold_extent(x, 1, *inputs, "input 0");
  const Ints& strides = windows.strides();
  const Ints ones(count, 1), twos(count, 2);
  const Ints more = Windows::attribute(node, "output_padding", count, 0, 0);
  const std::string same = node.string("auto_pad", "NOTSET");
  const Sizes extents = dims_between(node, x, 2, 2 + count);
  Sizes before = windows.before(), after = windows.after();
  if (node.has_attribute("output_shape") || same == "SAME_UPPER" || same == "SAME_LOWER") {
    const Sizes wanted = node.has_attribute("output_shape")
                             ? Sizes(Windows::attribute(node, "output_shape", count, 1, 1))
                             : combine(node, Op::mul, extents, strides);
    const Sizes steps = combine(node, Op::mul, combine(node, Op::sub, extents, ones), strides);
    const Sizes all = combine(node, Op::add, combine(node, Op::add, steps, windows.reach()), more);
    const Sizes total = combine(node, Op::sub, all, wanted);
    // Half of it, rounded down: a negative total adds.
    const Ints zeros(count, 0);
    const Sizes missing = combine(node, Op::max, combine(node, Op::sub, zeros, total), zeros);
    const Sizes surplus = combine(node, Op::div, combine(node, Op::max, total, zeros), twos);
    before = combine(node, Op::sub, surplus,
                     combine(node, Op::div, combine(node, Op::add, missing, ones), twos));
    after = combine(node, Op::sub, total, before);
    if (same != "SAME_UPPER") std::swap(before, after);
  }
  const Sizes border = combine(node, Op::sub, windows.reach(), ones);
  const Sizes front = combine(node, Op::sub, border, before);
  const Sizes gap = combine(node, Op::sub, more, combine(node, Op::sub, strides, ones));
  const Sizes back = combine(node, Op::add, combine(node, Op::sub, border, after), gap);
  check_rest(node, combine(node, Op::mul, extents, strides), front, back, border);
  const Value y = Phases::suit(windows)
                      ? Phases(node, windows, groups)
                            .convolve(x, weight, before, combine(node, Op::sub, after, more))
                      : by_spreading(node, windows, x, weight, groups, front, back);
  node.output(0, with_bias(node, y, node.optional_operand(2), count));
}

}  // namespace anydim::frontends
