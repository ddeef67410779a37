// Fourier transforms and what goes with them.
#include <numbers>
#include <optional>

#include "frontends/onnx/importers.h"
#include "frontends/onnx/run_time_axis.h"

namespace anydim::frontends {

namespace {

ValueId apply(Node& node, Op op, ValueId a, ValueId b) { return node.emit(op, {a, b}); }

ValueId integer(Node& node, std::int64_t value) {
  return node.scalar(DType::I64, static_cast<double>(value));
}

// What is longer than the transform is cut; what is shorter counts as followed by zeros, which add
// nothing. `x` is [.., sample, 1 or 2], `length` of rank 0.
ValueId cut_to(Node& node, ValueId x, ValueId length) {
  return node.emit(Op::dyn_strided_slice,
                   {x, node.index_vector({0}), node.with_axes(length, {0}),
                    node.index_vector({static_cast<std::int64_t>(node.rank(x)) - 2})});
}

ValueId one_sided_count(Node& node, ValueId length) {
  return apply(node, Op::add, apply(node, Op::div, length, integer(node, 2)), integer(node, 1));
}

struct Turns {
  ValueId cosine, sine;  // [rows, columns]
};
// Of the angles 2 pi row * column / length.
Turns turns_of(Node& node, ValueId rows, ValueId columns, ValueId length, DType dtype) {
  // A whole turn changes nothing: angles are exact for any length.
  const ValueId product = apply(node, Op::mul, node.with_axes(rows, {1}), columns);
  const ValueId turn = node.cast(apply(node, Op::mod, product, length), dtype);
  const ValueId full = node.scalar(dtype, 2 * std::numbers::pi);
  const ValueId angle =
      apply(node, Op::div, apply(node, Op::mul, turn, full), node.cast(length, dtype));
  return {node.emit(Op::cos, {angle}), node.emit(Op::sin, {angle})};
}

// Real (0) or imaginary (1) parts.
ValueId parts_of(Node& node, ValueId x, std::int64_t which) {
  return node.emit(Op::gather, {x, integer(node, which)},
                   {{"axis", static_cast<std::int64_t>(node.rank(x)) - 1}});
}

std::int64_t known_parts(Node& node, ValueId x) {
  const auto known = node.extent(x, -1);
  if (!known || (*known != 1 && *known != 2))
    node.unsupported("transforms a signal whose last dimension is not known to be 1 or 2");
  return *known;
}

// The sums of x[.., j] times exp(-2 pi i j k / length), or with the other sign and divided by the
// length: a product with the matrix of the angles' cosines and sines. `x` is [.., sample, 1 or 2],
// `length` of rank 0; the result is [.., frequency, 2].
ValueId transformed(Node& node, ValueId x, ValueId length, bool inverse, bool one_sided) {
  const DType dtype = node.dtype(x);
  const auto rank = static_cast<std::int64_t>(node.rank(x));
  const std::int64_t parts = known_parts(node, x);
  x = cut_to(node, x, length);
  const ValueId sample = node.positions(node.dim_of(x, rank - 2));
  const ValueId count = one_sided ? one_sided_count(node, length) : length;
  const auto [cosine, sine] =
      turns_of(node, sample, node.positions(node.with_axes(count, {0})), length, dtype);
  const ValueId real = parts_of(node, x, 0);
  ValueId along_cosine = apply(node, Op::matmul, real, cosine),
          along_sine = apply(node, Op::matmul, real, sine);
  if (!inverse) along_sine = node.emit(Op::neg, {along_sine});
  if (parts == 2) {
    const ValueId imaginary = parts_of(node, x, 1);
    const ValueId across = apply(node, Op::matmul, imaginary, sine);
    along_cosine = apply(node, inverse ? Op::sub : Op::add, along_cosine, across);
    along_sine = apply(node, Op::add, along_sine, apply(node, Op::matmul, imaginary, cosine));
  }
  ValueId both =
      node.emit(Op::concat,
                {node.with_axes(along_cosine, {rank - 1}), node.with_axes(along_sine, {rank - 1})},
                {{"axis", rank - 1}});
  if (inverse) both = apply(node, Op::div, both, node.cast(length, dtype));
  return both;
}

// The real signal [.., sample, 1] whose one-sided spectrum is `x`, [.., frequency, 2]. A frequency
// stands for its mirror image too, but for the first, and for the last of an even length:
//
//   signal[n] = sum over k of weight[k] * (real[k] * cos - imaginary[k] * sin) / length
ValueId real_signal(Node& node, ValueId x, ValueId length) {
  const DType dtype = node.dtype(x);
  const auto rank = static_cast<std::int64_t>(node.rank(x));
  if (known_parts(node, x) != 2)
    node.malformed(
        "takes a spectrum of real numbers (a last dimension of 1) as input 0; a "
        "one-sided inverse transform is of complex ones");
  x = cut_to(node, x, one_sided_count(node, length));
  const ValueId frequency = node.positions(node.dim_of(x, rank - 2));
  const auto [cosine, sine] =
      turns_of(node, frequency, node.positions(node.with_axes(length, {0})), length, dtype);
  const ValueId mirrored =
      node.emit(Op::logical_and,
                {apply(node, Op::less, integer(node, 0), frequency),
                 apply(node, Op::less, apply(node, Op::mul, frequency, integer(node, 2)), length)});
  const ValueId weight = apply(
      node, Op::div, node.emit(Op::where, {mirrored, node.scalar(dtype, 2), node.scalar(dtype, 1)}),
      node.cast(length, dtype));
  const auto product = [&](std::int64_t part, ValueId turns) {
    return apply(node, Op::matmul, apply(node, Op::mul, parts_of(node, x, part), weight), turns);
  };
  return node.with_axes(apply(node, Op::sub, product(0, cosine), product(1, sine)), {rank - 1});
}

// The dims `from` and `to` change places.
ValueId swapped(Node& node, ValueId x, std::size_t from, std::size_t to) {
  if (from == to) return x;
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i < node.rank(x); ++i)
    order.push_back(static_cast<std::int64_t>(i == from ? to : i == to ? from : i));
  return node.emit(Op::transpose, {x}, {{"perm", std::move(order)}});
}

// As the node's attributes and its operand 1, a length, say.
ValueId transformed_along(Node& node, ValueId x, std::size_t axis) {
  const bool inverse = node.flag("inverse", false), one_sided = node.flag("onesided", false);
  const bool real = inverse && one_sided;
  ValueId length =
      node.has_operand(1) ? node.index_operand(1) : node.dim_of(x, static_cast<std::int64_t>(axis));
  if (real && !node.has_operand(1))
    length = apply(node, Op::mul, apply(node, Op::sub, length, integer(node, 1)), integer(node, 2));
  length = node.rank_0(length);
  const std::size_t last = node.rank(x) - 2;
  const ValueId moved = swapped(node, x, axis, last);
  const ValueId result = real ? real_signal(node, moved, length)
                              : transformed(node, moved, length, inverse, one_sided);
  return swapped(node, result, axis, last);
}

}  // namespace

void import_dft(Node& node) {
  const ValueId x = node.operand(0);
  const std::size_t rank = node.rank(x);
  if (rank < 2) node.malformed("takes a signal of rank 2 or more as input 0, got rank {}", rank);
  std::optional<std::int64_t> given = node.opset() < 20 ? node.integer("axis", 1) : -2;
  if (node.opset() >= 20 && node.has_operand(2)) given = node.known_element(node.operand(2));
  if (given) {
    const std::size_t axis = node.axis(*given, rank);
    if (axis + 1 == rank)
      node.malformed("transforms along the last dimension, which holds real and imaginary parts");
    return node.output(0, transformed_along(node, x, axis));
  }
  const ValueId parts = node.index_vector({known_parts(node, x)});
  const ValueId shape = node.slice(node.emit(Op::shape_of, {x}), 0, 0, -1);
  const RunTimeAxis axis = run_time_axis(node, node.index_operand(2), shape, 1);
  const ValueId middle = node.reshaped(x, {axis.before, axis.count, axis.after, parts});
  const ValueId result = transformed_along(node, middle, 1);
  const ValueId place = node.positions(node.emit(Op::shape_of, {shape}));
  const ValueId dims = node.emit(
      Op::where, {apply(node, Op::equal, place, axis.place), node.dim_of(result, 1), shape});
  node.output(0, node.reshaped(result, {dims, node.dim_of(result, -1)}));
}

void import_stft(Node& node) {
  ValueId signal = node.operand(0);
  // [batch, sample] of real numbers, as PyTorch writes it and ONNX Runtime takes it.
  if (node.rank(signal) == 2) signal = node.with_axes(signal, {2});
  const ValueId step = node.rank_0(node.index_operand(1));
  if (!node.has_operand(2) && !node.has_operand(3))
    node.malformed("has neither a window nor a frame length");
  const ValueId length =
      node.rank_0(node.has_operand(3) ? node.index_operand(3) : node.dim_of(node.operand(2), 0));
  const ValueId samples = node.rank_0(node.dim_of(signal, 1));
  const ValueId frames =
      apply(node, Op::add, apply(node, Op::div, apply(node, Op::sub, samples, length), step),
            integer(node, 1));
  const ValueId first = apply(node, Op::mul, node.positions(node.with_axes(frames, {0})), step);
  const ValueId places =
      apply(node, Op::add, node.with_axes(first, {1}), node.positions(node.with_axes(length, {0})));
  ValueId cut = node.emit(Op::gather, {signal, places}, {{"axis", std::int64_t{1}}});
  if (node.has_operand(2)) cut = apply(node, Op::mul, cut, node.with_axes(node.operand(2), {1}));
  node.output(0, transformed(node, cut, length, false, node.flag("onesided", true)));
}

// Triangles over the spectrum's bins, their corners at equal distances on the mel scale: 2595
// log10(1 + hertz / 700).
void import_mel_weight_matrix(Node& node) {
  const DType dtype = node.element_type("output_datatype").value_or(DType::F32);
  const DType computed = DType::F64;
  const auto number = [&](double value) { return node.scalar(computed, value); };
  const ValueId bins = node.rank_0(node.index_operand(0)),
                length = node.rank_0(node.index_operand(1));
  const ValueId rate = node.cast(node.rank_0(node.operand(2)), computed);
  const auto mel = [&](std::size_t index) {
    const ValueId hertz = node.cast(node.rank_0(node.operand(index)), computed);
    const ValueId log = node.emit(
        Op::log, {apply(node, Op::add, number(1), apply(node, Op::div, hertz, number(700)))});
    return apply(node, Op::mul, log, number(2595 / std::numbers::ln10));
  };
  const ValueId low = mel(3), high = mel(4);
  const ValueId corners = apply(node, Op::add, bins, integer(node, 2));
  const ValueId distance =
      apply(node, Op::div, apply(node, Op::sub, high, low), node.cast(corners, computed));
  const ValueId number_of = node.cast(node.positions(node.with_axes(corners, {0})), computed);
  const ValueId at_mel = apply(node, Op::add, apply(node, Op::mul, number_of, distance), low);
  const ValueId power =
      node.emit(Op::exp, {apply(node, Op::mul, at_mel, number(std::numbers::ln10 / 2595))});
  const ValueId hertz = apply(node, Op::mul, number(700), apply(node, Op::sub, power, number(1)));
  const ValueId scaled = apply(
      node, Op::mul, node.cast(apply(node, Op::add, length, integer(node, 1)), computed), hertz);
  const ValueId corner = node.emit(Op::floor, {apply(node, Op::div, scaled, rate)});

  const auto of_triangle = [&](std::int64_t offset) {
    const ValueId begin = node.index_vector({offset});
    const ValueId end = node.with_axes(apply(node, Op::add, bins, integer(node, offset)), {0});
    return node.emit(Op::dyn_strided_slice, {corner, begin, end});
  };
  const ValueId left = of_triangle(0), centre = of_triangle(1), right = of_triangle(2);
  const ValueId spectrum =
      apply(node, Op::add, apply(node, Op::div, length, integer(node, 2)), integer(node, 1));
  const ValueId bin =
      node.with_axes(node.cast(node.positions(node.with_axes(spectrum, {0})), computed), {1});
  const auto share = [&](ValueId part, ValueId whole) {
    return apply(
        node, Op::div, part,
        node.emit(Op::max, {whole, number(1)}));  // of a side without width nothing is read
  };
  const ValueId rising = share(apply(node, Op::sub, bin, left), apply(node, Op::sub, centre, left));
  const ValueId falling =
      share(apply(node, Op::sub, right, bin), apply(node, Op::sub, right, centre));
  const auto both = [&](ValueId a, ValueId b) { return apply(node, Op::logical_and, a, b); };
  const ValueId on_left =
      both(apply(node, Op::greater_equal, bin, left), apply(node, Op::less, bin, centre));
  const ValueId on_right =
      both(apply(node, Op::greater, bin, centre), apply(node, Op::less_equal, bin, right));
  const ValueId at_top = apply(node, Op::equal, bin, centre);
  const ValueId sides =
      node.emit(Op::where, {on_left, rising, node.emit(Op::where, {on_right, falling, number(0)})});
  node.output(0, node.cast(node.emit(Op::where, {at_top, number(1), sides}), dtype));
}

}  // namespace anydim::frontends
