// Linear quantisation: real = (integer - zero point) * scale.
#include "frontends/onnx/importers.h"
#include "frontends/onnx/narrowing.h"
#include "frontends/onnx/quantisation.h"

namespace anydim::frontends {

namespace {

// The dims as numbers; nullopt where one is not known yet.
std::optional<Ints> known_extents(const Node& node, Value value) {
  const std::vector<ir::Dim>* dims = node.dims(value);
  if (dims == nullptr) return std::nullopt;
  Ints extents;
  for (const ir::Dim& dim : *dims) {
    if (!dim.constant()) return std::nullopt;
    extents.push_back(*dim.constant());
  }
  return extents;
}

// A parameter of every block along an axis as one of every element of x.
Value of_elements(Node& node, Value parameter, std::int64_t axis, std::int64_t block, Value x) {
  const auto blocks = known_extents(node, parameter);
  const auto extent = x.extent(axis);
  if (!blocks || !extent) {
    const Value each = node.emit(Op::repeat, {parameter}, {{"repeats", block}, {"axis", axis}});
    return node.emit(Op::dyn_strided_slice,
                     {each, node.index_vector({0}), dim_of(x, axis), node.index_vector({axis})});
  }
  // Views, which the kernels that read weights see through.
  Ints apart = *blocks, joined = *blocks;
  apart.insert(apart.begin() + axis + 1, block);
  joined[static_cast<std::size_t>(axis)] *= block;
  const Value each =
      node.emit(Op::broadcast_to, {with_axes(parameter, {axis + 1})}, {{"shape", apart}});
  const Value all = node.emit(Op::reshape, {each}, {{"shape", joined}});
  return joined[static_cast<std::size_t>(axis)] == *extent ? all : slice(all, axis, 0, *extent);
}

}  // namespace

Value along_axis(Node& node, Value parameter, Value x, const Granularity& granularity) {
  if (parameter.rank() == 0) return parameter;
  const std::size_t rank = x.rank();
  if (granularity.block > 0) {
    if (parameter.rank() != rank) {
      node.malformed("has block_size = {}, so scales of rank {}, got {}", granularity.block, rank,
                     parameter.rank());
    }
    const auto here = static_cast<std::int64_t>(node.axis(granularity.axis, rank));
    const auto blocks = parameter.extent(here), extent = x.extent(here);
    if (blocks && extent && (*extent + granularity.block - 1) / granularity.block != *blocks) {
      node.malformed("has block_size = {}, which makes {} elements {} blocks, but {} scales",
                     granularity.block, *extent,
                     (*extent + granularity.block - 1) / granularity.block, *blocks);
    }
    return of_elements(node, parameter, here, granularity.block, x);
  }
  if (parameter.rank() != 1) node.malformed("has scales of more than one dim and no block_size");
  if (parameter.length() == 1) return without_axes(parameter, {0});
  const std::size_t here = node.axis(granularity.axis, rank);
  Ints after;
  for (std::size_t i = here + 1; i < rank; ++i)
    after.push_back(static_cast<std::int64_t>(i - here));
  return after.empty() ? parameter : with_axes(parameter, std::move(after));
}

Value quantised(Node& node, Value x, Value scale, Value zero_point, const ElementType& to,
                bool saturate) {
  const bool real = to.narrow && to.narrow->real;
  Value scaled = x / scale;
  if (!real) scaled = round(scaled);
  if (zero_point != no_value) scaled = scaled + cast(zero_point, x.dtype());
  return real ? converted(node, scaled, to, saturate) : saturated(node, scaled, to);
}

Value quantised(Node& node, Value x, Value scale, Value zero_point, DType to) {
  return quantised(node, x, scale, zero_point, element_type_of(to), true);
}

void check_8_bits(const Node& node, std::size_t operand) {
  const DType dtype = node.operand(operand).dtype();
  if (dtype != DType::I8 && dtype != DType::U8)
    node.malformed("takes i8 or u8 as input {}, got {}", operand, ir::name_of(dtype));
}

Value centred(Value x, Value zero_point) {
  const Value wide = cast(x, DType::I32);
  return zero_point == no_value ? wide : wide - cast(zero_point, DType::I32);
}

namespace {

Value along_rows(Value parameter) {
  return parameter.rank() == 0 || parameter.length() == 1 ? parameter : with_axes(parameter, {1});
}

void check_quantised(const Node& node, std::size_t index) {
  if (!node.has_operand(index)) return;
  const Value value = node.operand(index);
  if (!ir::is_integer(value.dtype()) && !node.element_type_of(value).narrow) {
    node.malformed("takes integers or floats of at most 8 bits as input {}, got {}", index,
                   ir::name_of(value.dtype()));
  }
}

Granularity granularity_of(Node& node) {
  Granularity found;
  if (node.opset() >= 13) found.axis = node.integer("axis", 1);
  if (node.opset() >= 21) found.block = node.integer("block_size", 0);
  constexpr std::int64_t most = std::int64_t{1} << 40;
  if (found.block < 0 || found.block > most)
    node.malformed("has block_size = {}; expected 0 or a number of elements", found.block);
  return found;
}

// 0: as told by other inputs.
std::optional<DType> told_dtype(Node& node, std::string_view name) {
  return node.integer(name, 0) == 0 ? std::nullopt : node.element_type(name);
}
const ElementType* told_type(Node& node, std::string_view name) {
  return node.integer(name, 0) == 0 ? nullptr : node.any_element_type(name);
}

void quantize_linear(Node& node, const Granularity& granularity, std::optional<DType> precision,
                     const ElementType* output, bool saturate) {
  check_quantised(node, 2);
  const bool real = ir::is_float(node.dtype());
  const DType computed = precision.value_or(real ? node.operand(1).dtype() : DType::F32);
  const Value x = cast(node.operand(0), computed);
  const Value scale = along_axis(node, cast(node.operand(1), computed), x, granularity);
  const Value zero =
      node.has_operand(2) ? along_axis(node, node.operand(2), x, granularity) : no_value;
  const ElementType& to = node.has_operand(2) ? node.element_type_of(node.operand(2))
                          : output != nullptr ? *output
                                              : element_type_of(DType::U8);
  if (output != nullptr && output != &to) {
    node.malformed("has output_dtype = {}, but a zero point of {}", output->text(), to.text());
  }
  node.output(0, quantised(node, x, scale, zero, to, saturate));
}

void dequantize_linear(Node& node, const Granularity& granularity, std::optional<DType> output) {
  check_quantised(node, 0);
  const Value x = node.operand(0);
  const Value zero =
      node.has_operand(2) ? along_axis(node, node.operand(2), x, granularity) : no_value;
  const DType dtype = output.value_or(node.operand(1).dtype());
  // Floats have a zero point of 0.
  const Value distance = cast(ir::is_float(x.dtype()) ? x : centred(x, zero), dtype);
  node.output(0, distance * cast(along_axis(node, node.operand(1), x, granularity), dtype));
}

}  // namespace

void import_quantize_linear(Node& node) {
  const bool saturate = node.opset() < 19 || node.flag("saturate", true);
  const ElementType* output = node.opset() >= 21 ? told_type(node, "output_dtype") : nullptr;
  const auto precision = node.opset() >= 23 ? told_dtype(node, "precision") : std::nullopt;
  quantize_linear(node, granularity_of(node), precision, output, saturate);
}

void import_dequantize_linear(Node& node) {
  dequantize_linear(node, granularity_of(node),
                    node.opset() >= 23 ? told_dtype(node, "output_dtype") : std::nullopt);
}

void import_runtime_quantize_linear(Node& node) {
  quantize_linear(node, {.axis = node.integer("axis", 1)}, std::nullopt, nullptr, true);
}

void import_runtime_dequantize_linear(Node& node) {
  dequantize_linear(node, {.axis = node.integer("axis", 1)}, std::nullopt);
}

Quantised quantised_over_range(Node& node, Value x) {
  const Value zero = node.scalar(DType::F32, 0), highest = node.scalar(DType::F32, 255);
  const Value top = max(node.emit(Op::reduce_max, {x}), zero);
  const Value bottom = min(node.emit(Op::reduce_min, {x}), zero);
  const Value scale = (top - bottom) / highest;
  const Value offset = -bottom / scale;
  const Value zero_point = cast(round(min(max(offset, zero), highest)), DType::U8);
  return {quantised(node, x, scale, zero_point, DType::U8), scale, zero_point};
}

void import_dynamic_quantize_linear(Node& node) {
  const Quantised result = quantised_over_range(node, node.operand(0));
  node.output(0, result.y);
  node.output(1, result.scale);
  node.output(2, result.zero_point);
}

Value integer_product(Value a, Value a_zero, Value b, Value b_zero) {
  if (a_zero != no_value) a_zero = along_rows(a_zero);
  return matmul(centred(a, a_zero), centred(b, b_zero));
}

Value quantised_product(Node& node, Value x, Value b, Value scale, Value zero_point) {
  const Quantised a = quantised_over_range(node, x);
  const Value product = integer_product(a.y, a.zero_point, b, zero_point);
  return cast(product, DType::F32) * (a.scale * scale);
}

void import_matmul_integer(Node& node) {
  node.output(0, integer_product(node.operand(0), node.optional_operand(2), node.operand(1),
                                 node.optional_operand(3)));
}

Value unpacked(Node& node, Value bytes, std::int64_t bits) {
  if (bits == 8) return bytes;
  const auto rank = static_cast<std::int64_t>(bytes.rank());
  const Value lowest = node.scalar(DType::U8, static_cast<double>((1 << bits) - 1));
  Values parts;
  for (std::int64_t shift = 0; shift < 8; shift += bits) {
    const Value moved =
        shift == 0 ? bytes
                   : node.emit(Op::shift_right,
                               {bytes, node.scalar(DType::U8, static_cast<double>(shift))});
    parts.push_back(with_axes(node.emit(Op::bit_and, {moved, lowest}), {rank}));
  }
  const Value all = concat(parts, rank);
  Ints shape(static_cast<std::size_t>(rank - 1), 0);
  shape.push_back(-1);
  return node.emit(Op::dyn_reshape, {all, node.index_vector(std::move(shape))},
                   {{"zero_copies", std::int64_t{1}}});
}

// Inputs: a, its scale and zero point; b likewise; scale and zero point of the result.
void import_qlinear_matmul(Node& node) {
  const Value scales = along_rows(node.operand(1)) * node.operand(4);
  const Value ratio = node.operand(6) / scales;
  const Value product =
      cast(integer_product(node.operand(0), node.operand(2), node.operand(3), node.operand(5)),
           ratio.dtype());
  node.output(0, quantised(node, product, ratio, node.operand(7), node.operand(7).dtype()));
}

}  // namespace anydim::frontends
