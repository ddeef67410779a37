// Pooling: a reduction over windows, or over all that windows could move over.
#include <algorithm>
#include <cmath>
#include <limits>

#include "frontends/onnx/importers.h"
#include "frontends/onnx/window.h"

namespace anydim::frontends {

namespace {

Value reduced(Node& node, Op op, Value x, Ints axes) {
  return node.emit(op, {x}, {{"axes", std::move(axes)}});
}

Windows pooling_windows(Node& node, int first_opset_of_ceil_mode) {
  const Value x = node.operand(0);
  Windows windows(node, x, Windows::kernel_attribute(node, x));
  if (node.opset() >= first_opset_of_ceil_mode && node.flag("ceil_mode", false)) windows.round_up();
  return windows;
}

Value lowest(Node& node, DType dtype) {
  if (ir::is_float(dtype)) return node.scalar(dtype, -std::numeric_limits<double>::infinity());
  if (!ir::is_signed(dtype)) return node.scalar(dtype, 0);
  return node.scalar(dtype, -std::ldexp(1.0, static_cast<int>(ir::size_of(dtype)) * 8 - 1));
}

// One dim of an i64 vector's elements, as a vector of one.
Value element(Node& node, Value vector, std::size_t i) {
  return gather(vector, node.index_vector({static_cast<std::int64_t>(i)}), 0);
}

// Where in x the largest element of each window lies: its position among all elements, row-major,
// or column-major within an image.
Value positions_of_largest(Node& node, const Windows& windows, Value x, Value moved,
                           bool column_major) {
  const std::size_t count = windows.count(), rank = count + 2;
  const Value places = vector_of(node, dims_between(node, moved, 0, rank)),
              kernel = vector_of(node, windows.kernel());
  const Value flat = reshaped(
      moved, {places, node.emit(Op::reduce_prod, {kernel}, {{"keepdims", std::int64_t{1}}})});
  Value within = node.emit(Op::arg_max, {flat}, {{"axis", std::int64_t{-1}}});
  const Value shape = shape_of(x), before = vector_of(node, windows.before());
  // 0, 1, 2, ... along one dim of the result.
  const auto along = [&](std::size_t dim) {
    const Value numbers = positions(element(node, places, dim));
    Ints after;
    for (std::size_t i = dim + 1; i < rank; ++i)
      after.push_back(static_cast<std::int64_t>(i - dim));
    return after.empty() ? numbers : with_axes(numbers, std::move(after));
  };
  Values coordinates(count);
  for (std::size_t i = count; i-- > 0;) {
    const Value size = element(node, kernel, i);
    Value inside = within;
    if (i > 0) {
      inside = within % size;
      within = within / size;
    }
    const Value start =
        along(2 + i) * node.index_vector({windows.strides()[i]}) - element(node, before, i);
    coordinates[i] = inside * node.index_vector({windows.dilations()[i]}) + start;
  }
  if (column_major) std::reverse(coordinates.begin(), coordinates.end());
  const auto step = [&](Value total, Value extent, Value next) { return total * extent + next; };
  Value image = step(along(0), element(node, shape, 1), along(1));
  Value place = no_value;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t dim = column_major ? count - 1 - i : i;
    const Value extent = element(node, shape, 2 + dim);
    place = i == 0 ? coordinates[0] : step(place, extent, coordinates[i]);
    image = image * extent;
  }
  return place + image;
}

}  // namespace

void import_max_pool(Node& node) {
  const Windows windows = pooling_windows(node, 10);
  const bool column_major = node.opset() >= 8 && node.flag("storage_order", false);
  const Value x = node.operand(0);
  const Value moved = windows.over(windows.padded(x, lowest(node, node.dtype())));
  node.output(0, reduced(node, Op::reduce_max, moved, windows.window_axes()));
  if (node.wants_output(1))
    node.output(1, positions_of_largest(node, windows, x, moved, column_major));
}

// Of ONNX Runtime, which has it for integers of 8 bits.
void import_channels_last_max_pool(Node& node) {
  const Value x = channels_first(node, node.operand(0));
  Windows windows(node, x, Windows::kernel_attribute(node, x));
  if (node.flag("ceil_mode", false)) windows.round_up();
  const Value moved = windows.over(windows.padded(x, lowest(node, node.dtype())));
  node.output(0, channels_last(node, reduced(node, Op::reduce_max, moved, windows.window_axes())));
}

Value means_of_windows(Node& node, Value x, const Windows& windows, bool padding_counts) {
  const Value moved = windows.over(windows.padded(x));
  if (!windows.pads() || (padding_counts && windows.extra().all(0)))
    return reduced(node, Op::reduce_mean, moved, windows.window_axes());
  const Value sum = reduced(node, Op::reduce_sum, moved, windows.window_axes());
  return sum / windows.elements(x.dtype(), padding_counts);
}

void import_average_pool(Node& node) {
  const bool padding_counts = node.opset() >= 7 && node.flag("count_include_pad", false);
  node.output(0,
              means_of_windows(node, node.operand(0), pooling_windows(node, 10), padding_counts));
}

namespace {

// The p-th root of the sum of p-th powers of magnitudes.
Value p_norm(Node& node, Value x, double p, const Ints& axes, std::int64_t keepdims) {
  const ir::Attributes over{{"axes", axes}, {"keepdims", keepdims}};
  const Value size = abs(x);
  if (p == 1) return node.emit(Op::reduce_sum, {size}, over);
  if (p == 2) return sqrt(node.emit(Op::reduce_sum, {x * x}, over));
  const Value sum = node.emit(Op::reduce_sum, {pow(size, p)}, over);
  return pow(sum, 1 / p);
}

double norm_order(Node& node) {
  const double p = node.opset() < 2 ? node.real("p", 2) : static_cast<double>(node.integer("p", 2));
  if (!(p >= 1)) node.malformed("has p = {}; expected at least 1", p);
  return p;
}

}  // namespace

void import_lp_pool(Node& node) {
  const Windows windows = pooling_windows(node, 18);
  node.output(0, p_norm(node, windows.over(windows.padded(node.operand(0))), norm_order(node),
                        windows.window_axes(), 0));
}

void import_global_pool(Node& node, Op op) {
  const Value x = node.operand(0);
  node.output(
      0, node.emit(op, {x}, {{"axes", axes_between(2, x.rank())}, {"keepdims", std::int64_t{1}}}));
}

void import_global_lp_pool(Node& node) {
  const Value x = node.operand(0);
  node.output(0, p_norm(node, x, norm_order(node), axes_between(2, x.rank()), 1));
}

// x's elements at the positions that MaxPool gave, zeros elsewhere. Inputs: x, positions, the
// result's shape.
void import_max_unpool(Node& node) {
  const Value x = node.operand(0);
  const Windows windows(node, x, Windows::kernel_attribute(node, x));
  const std::size_t count = windows.count();
  Value shape = node.optional_index_operand(2);
  if (shape == no_value) {
    const Ints ones(count, 1);
    const Sizes steps =
        combine(node, Op::mul, combine(node, Op::sub, dims_between(node, x, 2, 2 + count), ones),
                windows.strides());
    const Sizes all = combine(node, Op::add, steps, windows.reach());
    const Sizes kept =
        combine(node, Op::sub, all, combine(node, Op::add, windows.before(), windows.after()));
    shape = concat({vector_of(node, dims_between(node, x, 0, 2)), vector_of(node, kept)}, 0);
  }
  const Value flat = node.index_vector({-1});
  const Value total = node.emit(Op::reduce_prod, {shape}, {{"keepdims", std::int64_t{1}}});
  const Value empty = node.emit(Op::dyn_full, {node.scalar(node.dtype(), 0), total});
  const Value filled = node.emit(
      Op::scatter_elements, {empty, reshaped(node.index_operand(1), {flat}), reshaped(x, {flat})},
      {{"axis", std::int64_t{0}}});
  node.output(0, node.emit(Op::dyn_reshape, {filled, shape}));
}

// Sums what windows over an image would have taken from it: [N, C * places in a window, windows] to
// [N, C, d...]. Inputs: x, the image's dims, a window's.
void import_column_to_image(Node& node) {
  const Value x = node.operand(0), image = node.index_operand(1), block = node.index_operand(2);
  const auto length = image.length(), block_length = block.length();
  if (!length || length != block_length)
    node.unsupported("has an image and a block whose ranks aren't known to be the same");
  const auto count = static_cast<std::size_t>(*length);
  const Ints strides = Windows::attribute(node, "strides", count, 1, 1);
  const Ints dilations = Windows::attribute(node, "dilations", count, 1, 1);
  const Ints pads = Windows::attribute(node, "pads", 2 * count, 0, 0);
  const Ints ones(count, 1),
      before(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(count)),
      after(pads.begin() + static_cast<std::ptrdiff_t>(count), pads.end());
  const Sizes padded = combine(node, Op::add, combine(node, Op::add, Sizes(image), before), after);
  const Sizes reach =
      combine(node, Op::add,
              combine(node, Op::mul, combine(node, Op::sub, Sizes(block), ones), dilations), ones);
  const Sizes places = combine(
      node, Op::add, combine(node, Op::div, combine(node, Op::sub, padded, reach), strides), ones);
  // Where in the padded image each place of each window lies: [window..., places...], row-major.
  Value position = no_value;
  for (std::size_t i = 0; i < count; ++i) {
    const auto spread = [&](Value extent, std::int64_t step, std::size_t dim) {
      const Value line = positions(element(node, extent, i)) * node.index_vector({step});
      Ints behind;
      for (std::size_t k = dim + 1; k < 2 * count; ++k)
        behind.push_back(static_cast<std::int64_t>(k - dim));
      return behind.empty() ? line : with_axes(line, std::move(behind));
    };
    const Value here =
        spread(block, dilations[i], i) + spread(vector_of(node, places), strides[i], count + i);
    const Value extent = element(node, vector_of(node, padded), i);
    position = i == 0 ? here : position * extent + here;
  }
  const auto product = [&](Value vector) {
    return node.emit(Op::reduce_prod, {vector}, {{"keepdims", std::int64_t{1}}});
  };
  const Value taken = product(block) * product(vector_of(node, places));
  const Value batch = dim_of(x, 0), channels = dim_of(x, 1) / product(block);
  const Value updates = reshaped(x, {batch, channels, taken});
  const Value rows = concat({batch, channels, taken}, 0);
  const Value indices =
      node.emit(Op::dyn_broadcast_to, {reshaped(position, {node.index_vector({-1})}), rows});
  const Value dims = concat({batch, channels, product(vector_of(node, padded))}, 0);
  const Value empty = node.emit(Op::dyn_full, {node.scalar(node.dtype(), 0), dims});
  const Value sums = node.emit(Op::scatter_elements, {empty, indices, updates},
                               {{"axis", std::int64_t{2}}, {"reduction", std::string("add")}});
  const Value whole = reshaped(sums, {batch, channels, vector_of(node, padded)});
  Ints axes, front, back;
  for (std::size_t i = 0; i < count; ++i) {
    axes.push_back(static_cast<std::int64_t>(i) + 2);
    front.push_back(-before[i]);
    back.push_back(-after[i]);
  }
  node.output(0, node.emit(Op::pad, {whole}, {{"before", front}, {"after", back}, {"axes", axes}}));
}

}  // namespace anydim::frontends
