// Ops that pick, place or rearrange elements.
#include "frontends/onnx/importers.h"
#include "frontends/onnx/reversed_sequences.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

namespace {

// One number, whether it comes as rank 0 or as a vector of one.
Value single(Value value) { return value.rank() == 0 ? value : without_axes(value, {0}); }

void check_integers(Node& node, std::size_t index) {
  const DType dtype = node.operand(index).dtype();
  if (!ir::is_integer(dtype))
    node.malformed("takes integers as input {}, got {}", index, ir::name_of(dtype));
}

Value binary(Node& node, Op op, Value a, std::int64_t b) {
  return node.emit(op, {a, node.scalar(a.dtype(), static_cast<double>(b))});
}

}  // namespace

void import_arg(Node& node, Op op) {
  const std::int64_t keep = node.flag("keepdims", true) ? 1 : 0;
  const std::int64_t last = node.opset() >= 12 && node.flag("select_last_index", false) ? 1 : 0;
  node.output(0,
              node.emit(op, {node.operand(0)},
                        {{"axis", node.integer("axis", 0)}, {"keepdims", keep}, {"last", last}}));
}

void import_cumulative_sum(Node& node) {
  const std::int64_t exclusive = node.flag("exclusive", false) ? 1 : 0,
                     reverse = node.flag("reverse", false) ? 1 : 0;
  node.output(0, node.emit(Op::dyn_cumulative_sum, {node.operand(0), node.index_operand(1)},
                           {{"exclusive", exclusive}, {"reverse", reverse}}));
}

void import_top_k(Node& node) {
  const std::int64_t axis = node.integer("axis", -1);
  const std::int64_t largest = node.opset() < 11 || node.flag("largest", true) ? 1 : 0;
  if (node.opset() >= 11)
    node.flag("sorted", true);  // sorted is one of the orders that unsorted allows
  const Value k = node.opset() < 10
                      ? node.scalar(DType::I64, static_cast<double>(node.integer("k")))
                      : node.index_operand(1);
  const auto parts = node.emit_many(Op::dyn_top_k, {node.operand(0), k},
                                    {{"axis", axis}, {"largest", largest}}, 2);
  node.output(0, parts[0]);
  node.output(1, parts[1]);
}

void import_one_hot(Node& node) {
  const Value values = node.operand(2);
  const auto value = [&](std::int64_t i) { return gather(values, i, 0); };
  const Value indices = cast(node.operand(0), DType::I64);
  const Value depth = single(cast(node.operand(1), DType::I64));
  node.output(0, node.emit(Op::dyn_one_hot, {indices, value(0), value(1), depth},
                           {{"axis", node.integer("axis", -1)}}));
}

namespace {

Value hardmax(Node& node, Value x, std::int64_t axis) {
  const Value largest = node.emit(Op::arg_max, {x}, {{"axis", axis}});
  const DType dtype = x.dtype();
  const Value depth = without_axes(dim_of(x, axis), {0});
  return node.emit(Op::dyn_one_hot, {largest, node.scalar(dtype, 0), node.scalar(dtype, 1), depth},
                   {{"axis", axis}});
}

}  // namespace

void import_hardmax(Node& node) {
  node.output(0, hardmax(node, node.operand(0), node.integer("axis", -1)));
}

void import_flattened_hardmax(Node& node) {
  const Value x = node.operand(0);
  const Value flat = node.emit(Op::flatten, {x}, {{"axis", node.integer("axis", 1)}});
  node.output(0, node.emit(Op::dyn_reshape, {hardmax(node, flat, 1), shape_of(x)}));
}

void import_scatter_elements(Node& node) {
  check_integers(node, 1);
  const std::string reduction = node.opset() >= 16 ? node.string("reduction", "none") : "none";
  node.output(0, node.emit(Op::scatter_elements, node.operands(),
                           {{"axis", node.integer("axis", 0)}, {"reduction", reduction}}));
}

void import_scatter_nd(Node& node) {
  check_integers(node, 1);
  const std::string reduction = node.opset() >= 16 ? node.string("reduction", "none") : "none";
  node.output(0, node.emit(Op::scatter_nd, node.operands(), {{"reduction", reduction}}));
}

void import_eye_like(Node& node) {
  const Value x = node.operand(0);
  const DType dtype = node.element_type("dtype").value_or(node.dtype());
  if (x.rank() != 2) node.malformed("takes a matrix as input 0, got rank {}", x.rank());
  const Value rows = binary(node, Op::add, positions(dim_of(x, 0)), node.integer("k", 0));
  const Value columns = positions(dim_of(x, 1));
  node.output(0, cast(equal(with_axes(rows, {1}), columns), dtype));
}

Value reversed_sequences(Node& node, Value x, Value lengths, std::int64_t time_axis) {
  const std::int64_t batch_axis = 1 - time_axis;
  lengths = with_axes(lengths, {time_axis});
  const Value step = with_axes(positions(dim_of(x, time_axis)), {batch_axis});
  const Value reversed = binary(node, Op::sub, lengths - step, 1);
  const Value from = where(step < lengths, reversed, step);
  const Value rows =
      with_axes(positions(dim_of(x, batch_axis)), {time_axis}) + binary(node, Op::mul, step, 0);
  const Value first = with_axes(batch_axis == 0 ? rows : from, {2}),
              second = with_axes(batch_axis == 0 ? from : rows, {2});
  const Value indices = concat({first, second}, 2);
  return node.emit(Op::gather_nd, {x, indices});
}

void import_reverse_sequence(Node& node) {
  const std::int64_t batch = node.integer("batch_axis", 1), time = node.integer("time_axis", 0);
  if (batch + time != 1 || batch * time != 0) {
    node.malformed("has batch_axis = {} and time_axis = {}; expected 0 and 1, or 1 and 0", batch,
                   time);
  }
  node.output(0, reversed_sequences(node, node.operand(0), node.index_operand(1), time));
}

namespace {

std::int64_t block_size(Node& node) {
  const std::int64_t block = node.integer("blocksize");
  if (block < 1 || block > 1 << 15)
    node.malformed("has blocksize = {}; expected from 1 to {}", block, 1 << 15);
  return block;
}

// Dim `axis` of x is cut into `parts` by attribute blocksize.
void check_parts(Node& node, std::int64_t block, std::int64_t parts, std::int64_t axis) {
  const auto extent = node.operand(0).extent(axis);
  if (!extent || *extent % parts == 0) return;
  node.malformed("has blocksize = {}, which takes a multiple of {} as dim {} of input 0, got {}",
                 block, parts, axis, *extent);
}

std::string block_order(Node& node) { return node.one_of({"DCR", "CRD"}, "mode", "DCR"); }

}  // namespace

void import_depth_to_space(Node& node) {
  const Value x = node.operand(0);
  const std::int64_t block = block_size(node);
  check_parts(node, block, block * block, 1);
  const std::string mode = node.opset() >= 11 ? block_order(node) : "DCR";
  const Value b = node.index_vector({block});
  const Value batch = dim_of(x, 0), height = dim_of(x, 2), width = dim_of(x, 3);
  const Value depth = binary(node, Op::div, dim_of(x, 1), block * block);
  const Value split =
      mode == "DCR"
          ? transpose(reshaped(x, {batch, b, b, depth, height, width}), {0, 3, 4, 1, 5, 2})
          : transpose(reshaped(x, {batch, depth, b, b, height, width}), {0, 1, 4, 2, 5, 3});
  node.output(0, reshaped(split, {batch, depth, binary(node, Op::mul, height, block),
                                  binary(node, Op::mul, width, block)}));
}

void import_space_to_depth(Node& node) {
  const Value x = node.operand(0);
  const std::int64_t block = block_size(node);
  for (const std::int64_t axis : {2, 3}) check_parts(node, block, block, axis);
  const std::string mode = node.opset() >= 28 ? block_order(node) : "DCR";
  const Value b = node.index_vector({block});
  const Value batch = dim_of(x, 0), depth = dim_of(x, 1);
  const Value height = binary(node, Op::div, dim_of(x, 2), block),
              width = binary(node, Op::div, dim_of(x, 3), block);
  const Value split = transpose(reshaped(x, {batch, depth, height, b, width, b}),
                                mode == "DCR" ? Ints{0, 3, 5, 1, 2, 4} : Ints{0, 1, 3, 5, 2, 4});
  node.output(0,
              reshaped(split, {batch, binary(node, Op::mul, depth, block * block), height, width}));
}

namespace {

std::string pad_mode(Node& node) {
  const std::string mode = node.string("mode", "constant");
  // Opset 19 brings `wrap`; exporters write it, and ONNX Runtime reads it, in models of 18 too.
  const bool known = mode == "constant" || mode == "reflect" || mode == "edge" ||
                     (mode == "wrap" && node.opset() >= 18);
  if (!known)
    node.malformed("takes 'constant', 'reflect', 'edge' or 'wrap' as attribute 'mode', got {}",
                   quoted_name(mode));
  return mode;
}

Value part(Node& node, Value vector, std::int64_t first, std::int64_t last) {
  const auto one = [](std::int64_t value) { return Ints{value}; };
  return node.emit(Op::strided_slice, {vector}, {{"starts", one(first)}, {"ends", one(last)}});
}

void pad(Node& node, Value pads, Value axes) {
  const std::string mode = pad_mode(node);
  const auto* const dims = node.dims(node.operand(0));
  const auto padded = axes != no_value  ? axes.length()
                      : dims == nullptr ? std::nullopt
                                        : std::optional(static_cast<std::int64_t>(dims->size()));
  if (padded) pads = node.of_length(pads, 2 * *padded);
  const auto length = pads.length();
  if (!length) node.unsupported("has an input 1 (pads) of unknown length");
  if (*length % 2 != 0) node.malformed("takes an even number of pads as input 1, got {}", *length);
  const Value value = node.has_operand(2) ? single(node.operand(2)) : node.scalar(node.dtype(), 0);
  node.output(0, node.emit(Op::dyn_pad,
                           {node.operand(0), value, part(node, pads, 0, *length / 2),
                            part(node, pads, *length / 2, *length), axes},
                           {{"mode", mode}}));
}

}  // namespace

void import_pad(Node& node) {
  pad(node, node.index_operand(1), node.opset() >= 18 ? node.optional_index_operand(3) : no_value);
}

// Of ONNX Runtime: the pads may be a row of a matrix.
void import_runtime_pad(Node& node) {
  pad(node, reshaped(node.index_operand(1), {node.index_vector({-1})}), no_value);
}

// Dims of the axes become what input 1 says: by half of the difference at each end, and what is
// left over at the other one.
void import_center_crop_pad(Node& node) {
  const Value x = node.operand(0), wanted = node.index_operand(1);
  const auto rank = static_cast<std::int64_t>(x.rank());
  Ints axes;
  for (std::int64_t i = 0; i < rank; ++i) axes.push_back(i);
  if (const auto given = node.optional_integers("axes")) {
    axes.clear();
    for (const std::int64_t axis : *given)
      axes.push_back(static_cast<std::int64_t>(node.axis(axis, static_cast<std::size_t>(rank))));
  }
  const auto count = wanted.length();
  if (count && *count != static_cast<std::int64_t>(axes.size())) {
    node.malformed("takes {} extents as input 1, got {}", axes.size(), *count);
  }
  const Value chosen = node.index_vector(axes);
  const Value now = gather(shape_of(x), chosen, 0);
  const Value added = wanted - now;
  const Value before = binary(node, Op::div, added, 2);
  node.output(
      0, node.emit(Op::dyn_pad, {x, node.scalar(node.dtype(), 0), before, added - before, chosen}));
}

void import_pad_attributes(Node& node) {
  const std::string mode = pad_mode(node);
  const Ints pads = node.integers("pads");
  if (pads.size() % 2 != 0) node.malformed("takes an even number of pads, got {}", pads.size());
  const auto half = pads.begin() + static_cast<std::ptrdiff_t>(pads.size() / 2);
  const Ints before(pads.begin(), half), after(half, pads.end());
  const Value value = node.scalar(node.dtype(), node.real("value", 0));
  node.output(0, node.emit(Op::pad, {node.operand(0), value},
                           {{"before", before}, {"after", after}, {"mode", mode}}));
}

void import_bit_shift(Node& node) {
  node.check_same_dtypes();
  const std::string direction = node.one_of({"LEFT", "RIGHT"}, "direction", "");
  node.output(0,
              node.emit(direction == "LEFT" ? Op::shift_left : Op::shift_right, node.operands()));
}

}  // namespace anydim::frontends
