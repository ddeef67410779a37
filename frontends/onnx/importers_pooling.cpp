// Pooling: a reduction over windows, or over all that windows could move over.
#include <algorithm>
#include <cmath>
#include <limits>

#include "frontends/onnx/importers.h"
#include "frontends/onnx/window.h"

namespace anydim::frontends {

namespace {

ValueId reduced(Node& node, Op op, ValueId x, std::vector<std::int64_t> axes) {
  return node.emit(op, {x}, {{"axes", std::move(axes)}});
}

Windows pooling_windows(Node& node, int first_opset_of_ceil_mode) {
  const ValueId x = node.operand(0);
  Windows windows(node, x, Windows::kernel_attribute(node, x));
  if (node.opset() >= first_opset_of_ceil_mode && node.flag("ceil_mode", false)) windows.round_up();
  return windows;
}

ValueId lowest(Node& node, DType dtype) {
  if (ir::is_float(dtype)) return node.scalar(dtype, -std::numeric_limits<double>::infinity());
  if (!ir::is_signed(dtype)) return node.scalar(dtype, 0);
  return node.scalar(dtype, -std::ldexp(1.0, static_cast<int>(ir::size_of(dtype)) * 8 - 1));
}

// One dim of an i64 vector's elements, as a vector of one.
ValueId element(Node& node, ValueId vector, std::size_t i) {
  return node.emit(Op::gather, {vector, node.index_vector({static_cast<std::int64_t>(i)})},
                   {{"axis", std::int64_t{0}}});
}

// Where in x the largest element of each window lies: its position among all elements, row-major,
// or column-major within an image.
ValueId positions_of_largest(Node& node, const Windows& windows, ValueId x, ValueId moved,
                             bool column_major) {
  const std::size_t count = windows.count(), rank = count + 2;
  const ValueId places = vector_of(node, dims_between(node, moved, 0, rank)),
                kernel = vector_of(node, windows.kernel());
  const ValueId flat = node.reshaped(
      moved, {places, node.emit(Op::reduce_prod, {kernel}, {{"keepdims", std::int64_t{1}}})});
  ValueId within = node.emit(Op::arg_max, {flat}, {{"axis", std::int64_t{-1}}});
  const ValueId shape = node.emit(Op::shape_of, {x}), before = vector_of(node, windows.before());
  // 0, 1, 2, ... along one dim of the result.
  const auto along = [&](std::size_t dim) {
    const ValueId positions = node.positions(element(node, places, dim));
    std::vector<std::int64_t> after;
    for (std::size_t i = dim + 1; i < rank; ++i)
      after.push_back(static_cast<std::int64_t>(i - dim));
    return after.empty() ? positions : node.with_axes(positions, std::move(after));
  };
  std::vector<ValueId> coordinates(count);
  for (std::size_t i = count; i-- > 0;) {
    const ValueId size = element(node, kernel, i);
    ValueId inside = within;
    if (i > 0) {
      inside = node.emit(Op::mod, {within, size});
      within = node.emit(Op::div, {within, size});
    }
    const ValueId start = node.emit(
        Op::sub, {node.emit(Op::mul, {along(2 + i), node.index_vector({windows.strides()[i]})}),
                  element(node, before, i)});
    coordinates[i] = node.emit(
        Op::add,
        {node.emit(Op::mul, {inside, node.index_vector({windows.dilations()[i]})}), start});
  }
  if (column_major) std::reverse(coordinates.begin(), coordinates.end());
  const auto step = [&](ValueId total, ValueId extent, ValueId next) {
    return node.emit(Op::add, {node.emit(Op::mul, {total, extent}), next});
  };
  ValueId image = step(along(0), element(node, shape, 1), along(1));
  ValueId place = ir::no_value;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t dim = column_major ? count - 1 - i : i;
    const ValueId extent = element(node, shape, 2 + dim);
    place = i == 0 ? coordinates[0] : step(place, extent, coordinates[i]);
    image = node.emit(Op::mul, {image, extent});
  }
  return node.emit(Op::add, {place, image});
}

}  // namespace

void import_max_pool(Node& node) {
  const Windows windows = pooling_windows(node, 10);
  const bool column_major = node.opset() >= 8 && node.flag("storage_order", false);
  const ValueId x = node.operand(0);
  const ValueId moved = windows.over(windows.padded(x, lowest(node, node.dtype())));
  node.output(0, reduced(node, Op::reduce_max, moved, windows.window_axes()));
  if (node.wants_output(1))
    node.output(1, positions_of_largest(node, windows, x, moved, column_major));
}

// Of ONNX Runtime, which has it for integers of 8 bits.
void import_channels_last_max_pool(Node& node) {
  const ValueId x = channels_first(node, node.operand(0));
  Windows windows(node, x, Windows::kernel_attribute(node, x));
  if (node.flag("ceil_mode", false)) windows.round_up();
  const ValueId moved = windows.over(windows.padded(x, lowest(node, node.dtype())));
  node.output(0, channels_last(node, reduced(node, Op::reduce_max, moved, windows.window_axes())));
}

ValueId means_of_windows(Node& node, ValueId x, const Windows& windows, bool padding_counts) {
  const ValueId moved = windows.over(windows.padded(x));
  if (!windows.pads() || (padding_counts && windows.extra().all(0)))
    return reduced(node, Op::reduce_mean, moved, windows.window_axes());
  const ValueId sum = reduced(node, Op::reduce_sum, moved, windows.window_axes());
  return node.emit(Op::div, {sum, windows.elements(node.dtype(x), padding_counts)});
}

void import_average_pool(Node& node) {
  const bool padding_counts = node.opset() >= 7 && node.flag("count_include_pad", false);
  node.output(0,
              means_of_windows(node, node.operand(0), pooling_windows(node, 10), padding_counts));
}

namespace {

// The p-th root of the sum of p-th powers of magnitudes.
ValueId p_norm(Node& node, ValueId x, double p, const std::vector<std::int64_t>& axes,
               std::int64_t keepdims) {
  const ir::Attributes over{{"axes", axes}, {"keepdims", keepdims}};
  const ValueId size = node.emit(Op::abs, {x});
  if (p == 1) return node.emit(Op::reduce_sum, {size}, over);
  if (p == 2)
    return node.emit(Op::sqrt, {node.emit(Op::reduce_sum, {node.emit(Op::mul, {x, x})}, over)});
  const ValueId sum =
      node.emit(Op::reduce_sum, {node.emit(Op::pow, {size, node.scalar(node.dtype(x), p)})}, over);
  return node.emit(Op::pow, {sum, node.scalar(node.dtype(x), 1 / p)});
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
  const ValueId x = node.operand(0);
  node.output(
      0,
      node.emit(op, {x}, {{"axes", axes_between(2, node.rank(x))}, {"keepdims", std::int64_t{1}}}));
}

void import_global_lp_pool(Node& node) {
  const ValueId x = node.operand(0);
  node.output(0, p_norm(node, x, norm_order(node), axes_between(2, node.rank(x)), 1));
}

// x's elements at the positions that MaxPool gave, zeros elsewhere. Inputs: x, positions, the
// result's shape.
void import_max_unpool(Node& node) {
  const ValueId x = node.operand(0);
  const Windows windows(node, x, Windows::kernel_attribute(node, x));
  const std::size_t count = windows.count();
  ValueId shape = node.optional_index_operand(2);
  if (shape == ir::no_value) {
    const std::vector<std::int64_t> ones(count, 1);
    const Sizes steps =
        combine(node, Op::mul, combine(node, Op::sub, dims_between(node, x, 2, 2 + count), ones),
                windows.strides());
    const Sizes all = combine(node, Op::add, steps, windows.reach());
    const Sizes kept =
        combine(node, Op::sub, all, combine(node, Op::add, windows.before(), windows.after()));
    shape =
        node.emit(Op::concat, {vector_of(node, dims_between(node, x, 0, 2)), vector_of(node, kept)},
                  {{"axis", std::int64_t{0}}});
  }
  const ValueId flat = node.index_vector({-1});
  const ValueId total = node.emit(Op::reduce_prod, {shape}, {{"keepdims", std::int64_t{1}}});
  const ValueId empty = node.emit(Op::dyn_full, {node.scalar(node.dtype(), 0), total});
  const ValueId filled =
      node.emit(Op::scatter_elements,
                {empty, node.reshaped(node.index_operand(1), {flat}), node.reshaped(x, {flat})},
                {{"axis", std::int64_t{0}}});
  node.output(0, node.emit(Op::dyn_reshape, {filled, shape}));
}

// Sums what windows over an image would have taken from it: [N, C * places in a window, windows] to
// [N, C, d...]. Inputs: x, the image's dims, a window's.
void import_column_to_image(Node& node) {
  const ValueId x = node.operand(0), image = node.index_operand(1), block = node.index_operand(2);
  const auto length = node.length(image), block_length = node.length(block);
  if (!length || length != block_length)
    node.unsupported("has an image and a block whose ranks aren't known to be the same");
  const auto count = static_cast<std::size_t>(*length);
  const std::vector<std::int64_t> strides = Windows::attribute(node, "strides", count, 1, 1);
  const std::vector<std::int64_t> dilations = Windows::attribute(node, "dilations", count, 1, 1);
  const std::vector<std::int64_t> pads = Windows::attribute(node, "pads", 2 * count, 0, 0);
  const std::vector<std::int64_t> ones(count, 1),
      before(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(count)),
      after(pads.begin() + static_cast<std::ptrdiff_t>(count), pads.end());
  const Sizes padded = combine(node, Op::add, combine(node, Op::add, Sizes(image), before), after);
  const Sizes reach =
      combine(node, Op::add,
              combine(node, Op::mul, combine(node, Op::sub, Sizes(block), ones), dilations), ones);
  const Sizes places = combine(
      node, Op::add, combine(node, Op::div, combine(node, Op::sub, padded, reach), strides), ones);
  // Where in the padded image each place of each window lies: [window..., places...], row-major.
  ValueId position = ir::no_value;
  for (std::size_t i = 0; i < count; ++i) {
    const auto spread = [&](ValueId extent, std::int64_t step, std::size_t dim) {
      const ValueId line =
          node.emit(Op::mul, {node.positions(element(node, extent, i)), node.index_vector({step})});
      std::vector<std::int64_t> behind;
      for (std::size_t k = dim + 1; k < 2 * count; ++k)
        behind.push_back(static_cast<std::int64_t>(k - dim));
      return behind.empty() ? line : node.with_axes(line, std::move(behind));
    };
    const ValueId here = node.emit(
        Op::add,
        {spread(block, dilations[i], i), spread(vector_of(node, places), strides[i], count + i)});
    const ValueId extent = element(node, vector_of(node, padded), i);
    position = i == 0 ? here : node.emit(Op::add, {node.emit(Op::mul, {position, extent}), here});
  }
  const auto product = [&](ValueId vector) {
    return node.emit(Op::reduce_prod, {vector}, {{"keepdims", std::int64_t{1}}});
  };
  const ValueId taken = node.emit(Op::mul, {product(block), product(vector_of(node, places))});
  const ValueId batch = node.dim_of(x, 0),
                channels = node.emit(Op::div, {node.dim_of(x, 1), product(block)});
  const ValueId updates = node.reshaped(x, {batch, channels, taken});
  const ValueId rows = node.emit(Op::concat, {batch, channels, taken}, {{"axis", std::int64_t{0}}});
  const ValueId indices =
      node.emit(Op::dyn_broadcast_to, {node.reshaped(position, {node.index_vector({-1})}), rows});
  const ValueId dims = node.emit(Op::concat, {batch, channels, product(vector_of(node, padded))},
                                 {{"axis", std::int64_t{0}}});
  const ValueId empty = node.emit(Op::dyn_full, {node.scalar(node.dtype(), 0), dims});
  const ValueId sums = node.emit(Op::scatter_elements, {empty, indices, updates},
                                 {{"axis", std::int64_t{2}}, {"reduction", std::string("add")}});
  const ValueId whole = node.reshaped(sums, {batch, channels, vector_of(node, padded)});
  std::vector<std::int64_t> axes, front, back;
  for (std::size_t i = 0; i < count; ++i) {
    axes.push_back(static_cast<std::int64_t>(i) + 2);
    front.push_back(-before[i]);
    back.push_back(-after[i]);
  }
  node.output(0, node.emit(Op::pad, {whole}, {{"before", front}, {"after", back}, {"axes", axes}}));
}

}  // namespace anydim::frontends
