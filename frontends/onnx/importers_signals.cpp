// Fourier transforms and what goes with them.
#include <numbers>
#include <optional>

#include "frontends/onnx/importers.h"
#include "frontends/onnx/run_time_axis.h"

namespace anydim::frontends {

namespace {

// What is longer than the transform is cut; what is shorter counts as followed by zeros, which add
// nothing. `x` is [.., sample, 1 or 2], `length` of rank 0.
Value cut_to(Node& node, Value x, Value length) {
  return node.emit(Op::dyn_strided_slice,
                   {x, node.index_vector({0}), with_axes(length, {0}),
                    node.index_vector({static_cast<std::int64_t>(x.rank()) - 2})});
}

Value one_sided_count(Value length) { return length / 2 + 1; }

struct Turns {
  Value cosine, sine;  // [rows, columns]
};
// Of the angles 2 pi row * column / length.
Turns turns_of(Node& node, Value rows, Value columns, Value length, DType dtype) {
  // A whole turn changes nothing: angles are exact for any length.
  const Value product = with_axes(rows, {1}) * columns;
  const Value turn = cast(product % length, dtype);
  const Value full = node.scalar(dtype, 2 * std::numbers::pi);
  const Value angle = turn * full / cast(length, dtype);
  return {node.emit(Op::cos, {angle}), node.emit(Op::sin, {angle})};
}

// Real (0) or imaginary (1) parts.
Value parts_of(Value x, std::int64_t which) {
  return gather(x, which, static_cast<std::int64_t>(x.rank()) - 1);
}

std::int64_t known_parts(Node& node, Value x) {
  const auto known = x.extent(-1);
  if (!known || (*known != 1 && *known != 2))
    node.unsupported("transforms a signal whose last dimension is not known to be 1 or 2");
  return *known;
}

// The sums of x[.., j] times exp(-2 pi i j k / length), or with the other sign and divided by the
// length: a product with the matrix of the angles' cosines and sines. `x` is [.., sample, 1 or 2],
// `length` of rank 0; the result is [.., frequency, 2].
Value transformed(Node& node, Value x, Value length, bool inverse, bool one_sided) {
  const DType dtype = x.dtype();
  const auto rank = static_cast<std::int64_t>(x.rank());
  const std::int64_t parts = known_parts(node, x);
  x = cut_to(node, x, length);
  const Value sample = positions(dim_of(x, rank - 2));
  const Value count = one_sided ? one_sided_count(length) : length;
  const auto [cosine, sine] =
      turns_of(node, sample, positions(with_axes(count, {0})), length, dtype);
  const Value real = parts_of(x, 0);
  Value along_cosine = matmul(real, cosine), along_sine = matmul(real, sine);
  if (!inverse) along_sine = -along_sine;
  if (parts == 2) {
    const Value imaginary = parts_of(x, 1);
    const Value across = matmul(imaginary, sine);
    along_cosine = inverse ? along_cosine - across : along_cosine + across;
    along_sine = along_sine + matmul(imaginary, cosine);
  }
  Value both =
      concat({with_axes(along_cosine, {rank - 1}), with_axes(along_sine, {rank - 1})}, rank - 1);
  if (inverse) both = both / cast(length, dtype);
  return both;
}

// The real signal [.., sample, 1] whose one-sided spectrum is `x`, [.., frequency, 2]. A frequency
// stands for its mirror image too, but for the first, and for the last of an even length:
//
//   signal[n] = sum over k of weight[k] * (real[k] * cos - imaginary[k] * sin) / length
Value real_signal(Node& node, Value x, Value length) {
  const DType dtype = x.dtype();
  const auto rank = static_cast<std::int64_t>(x.rank());
  if (known_parts(node, x) != 2)
    node.malformed(
        "takes a spectrum of real numbers (a last dimension of 1) as input 0; a "
        "one-sided inverse transform is of complex ones");
  x = cut_to(node, x, one_sided_count(length));
  const Value frequency = positions(dim_of(x, rank - 2));
  const auto [cosine, sine] =
      turns_of(node, frequency, positions(with_axes(length, {0})), length, dtype);
  const Value mirrored = (0 < frequency) & (frequency * 2 < length);
  const Value weight = where(mirrored, node.scalar(dtype, 2), 1) / cast(length, dtype);
  const auto product = [&](std::int64_t part, Value turns) {
    return matmul(parts_of(x, part) * weight, turns);
  };
  return with_axes(product(0, cosine) - product(1, sine), {rank - 1});
}

// The dims `from` and `to` change places.
Value swapped(Value x, std::size_t from, std::size_t to) {
  if (from == to) return x;
  Ints order;
  for (std::size_t i = 0; i < x.rank(); ++i)
    order.push_back(static_cast<std::int64_t>(i == from ? to : i == to ? from : i));
  return transpose(x, std::move(order));
}

// As the node's attributes and its operand 1, a length, say.
Value transformed_along(Node& node, Value x, std::size_t axis) {
  const bool inverse = node.flag("inverse", false), one_sided = node.flag("onesided", false);
  const bool real = inverse && one_sided;
  Value length =
      node.has_operand(1) ? node.index_operand(1) : dim_of(x, static_cast<std::int64_t>(axis));
  if (real && !node.has_operand(1)) length = (length - 1) * 2;
  length = rank_0(length);
  const std::size_t last = x.rank() - 2;
  const Value moved = swapped(x, axis, last);
  const Value result = real ? real_signal(node, moved, length)
                            : transformed(node, moved, length, inverse, one_sided);
  return swapped(result, axis, last);
}

}  // namespace

void import_dft(Node& node) {
  const Value x = node.operand(0);
  const std::size_t rank = x.rank();
  if (rank < 2) node.malformed("takes a signal of rank 2 or more as input 0, got rank {}", rank);
  std::optional<std::int64_t> given = node.opset() < 20 ? node.integer("axis", 1) : -2;
  if (node.opset() >= 20 && node.has_operand(2)) given = node.known_element(node.operand(2));
  if (given) {
    const std::size_t axis = node.axis(*given, rank);
    if (axis + 1 == rank)
      node.malformed("transforms along the last dimension, which holds real and imaginary parts");
    return node.output(0, transformed_along(node, x, axis));
  }
  const Value parts = node.index_vector({known_parts(node, x)});
  const Value shape = slice(shape_of(x), 0, 0, -1);
  const RunTimeAxis axis = run_time_axis(node, node.index_operand(2), shape, 1);
  const Value middle = reshaped(x, {axis.before, axis.count, axis.after, parts});
  const Value result = transformed_along(node, middle, 1);
  const Value place = positions(shape_of(shape));
  const Value dims = where(equal(place, axis.place), dim_of(result, 1), shape);
  node.output(0, reshaped(result, {dims, dim_of(result, -1)}));
}

void import_stft(Node& node) {
  Value signal = node.operand(0);
  // [batch, sample] of real numbers, as PyTorch writes it and ONNX Runtime takes it.
  if (signal.rank() == 2) signal = with_axes(signal, {2});
  const Value step = rank_0(node.index_operand(1));
  if (!node.has_operand(2) && !node.has_operand(3))
    node.malformed("has neither a window nor a frame length");
  const Value length =
      rank_0(node.has_operand(3) ? node.index_operand(3) : dim_of(node.operand(2), 0));
  const Value samples = rank_0(dim_of(signal, 1));
  const Value frames = (samples - length) / step + 1;
  const Value first = positions(with_axes(frames, {0})) * step;
  const Value places = with_axes(first, {1}) + positions(with_axes(length, {0}));
  Value cut = gather(signal, places, 1);
  if (node.has_operand(2)) cut = cut * with_axes(node.operand(2), {1});
  node.output(0, transformed(node, cut, length, false, node.flag("onesided", true)));
}

// Triangles over the spectrum's bins, their corners at equal distances on the mel scale: 2595
// log10(1 + hertz / 700).
void import_mel_weight_matrix(Node& node) {
  const DType dtype = node.element_type("output_datatype").value_or(DType::F32);
  const DType computed = DType::F64;
  const Value bins = rank_0(node.index_operand(0)), length = rank_0(node.index_operand(1));
  const Value rate = cast(rank_0(node.operand(2)), computed);
  const auto mel = [&](std::size_t index) {
    const Value hertz = cast(rank_0(node.operand(index)), computed);
    return log(1 + hertz / 700) * (2595 / std::numbers::ln10);
  };
  const Value low = mel(3), high = mel(4);
  const Value corners = bins + 2;
  const Value distance = (high - low) / cast(corners, computed);
  const Value number_of = cast(positions(with_axes(corners, {0})), computed);
  const Value at_mel = number_of * distance + low;
  const Value power = exp(at_mel * (std::numbers::ln10 / 2595));
  const Value hertz = 700 * (power - 1);
  const Value scaled = cast(length + 1, computed) * hertz;
  const Value corner = floor(scaled / rate);

  const auto of_triangle = [&](std::int64_t offset) {
    const Value begin = node.index_vector({offset});
    const Value end = with_axes(bins + offset, {0});
    return node.emit(Op::dyn_strided_slice, {corner, begin, end});
  };
  const Value left = of_triangle(0), centre = of_triangle(1), right = of_triangle(2);
  const Value spectrum = length / 2 + 1;
  const Value bin = with_axes(cast(positions(with_axes(spectrum, {0})), computed), {1});
  const auto share = [&](Value part, Value whole) {
    return part / max(whole, 1);  // of a side without width nothing is read
  };
  const Value rising = share(bin - left, centre - left);
  const Value falling = share(right - bin, right - centre);
  const Value on_left = (bin >= left) & (bin < centre);
  const Value on_right = (bin > centre) & (bin <= right);
  const Value at_top = equal(bin, centre);
  const Value sides = where(on_left, rising, where(on_right, falling, 0));
  node.output(0, cast(where(at_top, 1, sides), dtype));
}

}  // namespace anydim::frontends
