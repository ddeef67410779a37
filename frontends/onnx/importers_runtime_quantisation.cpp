// The operators of ONNX Runtime (domain com.microsoft) that multiply or gather quantised numbers.

#include <array>
#include <bit>
#include <memory>
#include <utility>

#include "frontends/onnx/importers.h"
#include "frontends/onnx/packed_numbers.h"
#include "frontends/onnx/quantisation.h"

namespace anydim::frontends {

namespace {

std::int64_t bits_of(Node& node) {
  const std::int64_t bits = node.integer("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8)
    node.malformed("has bits = {}; expected 2, 4 or 8", bits);
  return bits;
}

std::int64_t block_of(Node& node, std::int64_t block) {
  if (block < 16 || block > 1 << 20 || !std::has_single_bit(static_cast<std::uint64_t>(block))) {
    node.malformed("has block_size = {}; expected a power of 2 from 16", block);
  }
  return block;
}

// Rank-1 scales of rows of `a` stand before its last dim.
Value by_row(Value parameter) {
  return parameter.rank() == 1 && parameter.length() != 1 ? with_axes(parameter, {1}) : parameter;
}

Value with_bias(Node& node, Value x, std::size_t operand) {
  return node.has_operand(operand) ? x + node.operand(operand) : x;
}

// An operand as [dims], which tools also write as a vector.
Value shaped(Node& node, std::size_t operand, std::string_view name, const Ints& dims) {
  const Value value = node.operand(operand);
  std::int64_t held = 1, wanted = 1;
  for (std::size_t axis = 0; axis < value.rank(); ++axis) {
    const auto extent = value.extent(static_cast<std::int64_t>(axis));
    if (!extent)
      node.unsupported("has an input {} ({}) of a shape that is not known before it runs", operand,
                       name);
    held = *extent == 0 || held > (std::int64_t{1} << 50) / *extent ? 0 : held * *extent;
  }
  for (const std::int64_t dim : dims) wanted *= dim;
  if (held != wanted) {
    node.malformed(
        "takes {} elements as input {} ({}), got {}; attributes K, N, bits and block_size say so",
        wanted, operand, name, held);
  }
  return node.emit(Op::reshape, {value}, {{"shape", dims}});
}

// Numbers of 8 or fewer bits [rows, width] from rows of whole bytes, the lowest bits first, less
// half of what there are, in i8. They are made when they are read, and go with who reads them.
class CentredNumbers : public ir::TensorSource {
 public:
  CentredNumbers(ir::Tensor packed, std::int64_t rows, std::int64_t bits)
      : packed_(std::move(packed)), rows_(rows), bits_(static_cast<int>(bits)) {}

  void read(std::span<std::byte> to) const override {
    const ir::Tensor opened = packed_.opened();
    const auto rows = static_cast<std::size_t>(rows_);
    const std::size_t bytes = opened.bytes().size() / rows, elements = to.size() / rows;
    const int half = 1 << (bits_ - 1);
    for (std::size_t row = 0; row < rows; ++row) {
      unpack_numbers<std::int8_t>(
          opened.bytes().subspan(row * bytes, bytes), bits_, to.subspan(row * elements, elements),
          [&](unsigned number) {
            return static_cast<std::int8_t>(static_cast<int>(number) - half);
          });
    }
  }

 private:
  ir::Tensor packed_;
  std::int64_t rows_;
  int bits_;
};

ir::Tensor centred_numbers(const ir::Tensor& packed, std::int64_t rows, std::int64_t width,
                           std::int64_t bits) {
  return {DType::I8, {rows, width}, std::make_shared<CentredNumbers>(packed, rows, bits)};
}

}  // namespace

// Inputs: a, b, scale and zero point of b, bias. a is quantised on the way.
void import_dynamic_quantize_matmul(Node& node) {
  const Value product = quantised_product(node, node.operand(0), node.operand(1), node.operand(2),
                                          node.optional_operand(3));
  node.output(0, with_bias(node, product, 4));
}

// Inputs: a, b, their scales, their zero points, bias.
void import_matmul_integer_to_float(Node& node) {
  const Value product = integer_product(node.operand(0), node.optional_operand(4), node.operand(1),
                                        node.optional_operand(5));
  const Value scale = by_row(node.operand(2)) * node.operand(3);
  node.output(0, with_bias(node, cast(product, scale.dtype()) * scale, 6));
}

// a times the transpose of weights [N, K], of which every block of a row has a scale.
void import_matmul_n_bits(Node& node) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  const std::int64_t rows = node.integer("N"), width = node.integer("K"), bits = bits_of(node);
  if (rows < 1 || rows > most || width < 1 || width > most)
    node.malformed("has N = {} and K = {}; expected 1 to {}", rows, width, most);
  const std::int64_t block = block_of(node, node.integer("block_size")),
                     blocks = (width + block - 1) / block;
  // How coarsely the left operand may be rounded: 4 allows bytes, any other less than that.
  const bool bytes_suffice = node.integer("accuracy_level", 0) == 4;
  if (const std::int64_t order = node.integer("weight_prepacked", 0); order != 0) {
    node.unsupported("has weight_prepacked = {}: weights in the order of one device", order);
  }
  if (node.has_operand(4)) node.unsupported("has an input 4 (g_idx)");
  const Value a = node.operand(0);
  if (const auto last = a.extent(-1); last && *last != width)
    node.malformed("has K = {}, but rows of {} elements in input 0", width, *last);
  if (node.operand(1).dtype() != DType::U8) {
    node.unsupported("has weights of {}; Anydim supports packed u8",
                     ir::name_of(node.operand(1).dtype()));
  }
  const DType dtype = node.dtype();
  Value matrix = no_value;
  const std::int64_t zero_bytes = (blocks * bits + 7) / 8;
  const auto packed = node.constant_operand(1), scales = node.constant_operand(2);
  std::optional<ir::Tensor> zeros;
  if (node.has_operand(3) && node.operand(3).dtype() == DType::U8) zeros = node.constant_operand(3);
  if (packed && scales && zeros.has_value() == node.has_operand(3)) {
    // Bytes as they are read by the product, which is of f32, and a scale for each block of a row.
    const auto along_rows = [&](Value of_blocks) {
      const Value each =
          node.emit(Op::broadcast_to, {of_blocks}, {{"shape", Ints{rows, blocks, block}}});
      return node.emit(Op::reshape, {each}, {{"shape", Ints{rows, blocks * block}}});
    };
    // They refuse another number of elements.
    shaped(node, 1, "B", {rows, blocks, block * bits / 8});
    Value of_blocks = shaped(node, 2, "scales", {rows, blocks, 1});
    if (scales->dtype() != DType::F32) {
      ir::Tensor real(DType::F32, {rows, blocks, 1});
      for (std::int64_t i = 0; i < real.elements(); ++i) real.set_real(i, scales->real_at(i));
      of_blocks = node.constant(std::move(real));
    }
    const Value each = along_rows(of_blocks);
    Value integers = node.constant(centred_numbers(*packed, rows, blocks * block, bits));
    if (zeros) {
      shaped(node, 3, "zero_points", {rows, zero_bytes});
      const Value zero = node.constant(centred_numbers(*zeros, rows, blocks, bits));
      integers = centred(integers, along_rows(with_axes(zero, {2})));
    }
    matrix = cast(integers, DType::F32) * each;
  } else {
    const Value bytes = shaped(node, 1, "B", {rows, blocks, block * bits / 8});
    const Value weights = cast(unpacked(node, bytes, bits), dtype);
    Value zero = node.scalar(dtype, static_cast<double>(std::int64_t{1} << (bits - 1)));
    if (node.has_operand(3)) {
      if (node.operand(3).dtype() == DType::U8) {
        zero = slice(unpacked(node, shaped(node, 3, "zero_points", {rows, zero_bytes}), bits), 1, 0,
                     blocks);
      } else {
        zero = shaped(node, 3, "zero_points", {rows, blocks});
      }
      zero = with_axes(cast(zero, dtype), {2});
    }
    const Value scale = with_axes(shaped(node, 2, "scales", {rows, blocks}), {2});
    const Value real = (weights - zero) * cast(scale, dtype);
    matrix = node.emit(Op::reshape, {real}, {{"shape", Ints{rows, blocks * block}}});
  }
  if (blocks * block != width) matrix = slice(matrix, 1, 0, width);
  const Value columns = transpose(matrix, {1, 0});
  ir::Attributes rounding;
  if (bytes_suffice) rounding.emplace("left_block", block);
  const Value product =
      node.emit(Op::matmul, {cast(a, matrix.dtype()), columns}, std::move(rounding));
  node.output(0, with_bias(node, cast(product, dtype), 5));
}

namespace {

// The 16 numbers of a type of 4 bits, each times the largest of its block. FP4 of bitsandbytes: a
// sign, then twelfths of powers of two and of three times such; NF4: the normal distribution's, as
// QLoRA (arXiv:2305.14314, appendix E) lists them.
constexpr std::array<float, 16> fp4_numbers{
    0,    5.208333333e-03F,  2.F / 3,  1,  1.F / 3,  0.5F,  1.F / 6,  0.25F,
    -0.F, -5.208333333e-03F, -2.F / 3, -1, -1.F / 3, -0.5F, -1.F / 6, -0.25F};
constexpr std::array<float, 16> nf4_numbers{-1,
                                            -0.6961928009986877F,
                                            -0.5250730514526367F,
                                            -0.39491748809814453F,
                                            -0.28444138169288635F,
                                            -0.18477343022823334F,
                                            -0.09105003625154495F,
                                            0,
                                            0.07958029955625534F,
                                            0.16093020141124725F,
                                            0.24611230194568634F,
                                            0.33791524171829224F,
                                            0.44070982933044434F,
                                            0.5626170039176941F,
                                            0.7229568362236023F,
                                            1};

// Numbers of a block in f32, from bytes whose high halves come first. They are made when they are
// read, and go with who reads them.
class BlockScaledNumbers : public ir::TensorSource {
 public:
  BlockScaledNumbers(ir::Tensor packed, ir::Tensor largest, std::int64_t block,
                     const std::array<float, 16>& numbers)
      : packed_(std::move(packed)), largest_(std::move(largest)),
        block_(static_cast<std::size_t>(block)), numbers_(numbers) {}

  void read(std::span<std::byte> to) const override {
    const ir::Tensor packed = packed_.opened(), largest = largest_.opened();
    const ir::Reals scales(largest);
    const std::size_t count = to.size() / sizeof(float);
    for (std::size_t i = 0; i < count; ++i) {
      const auto byte = std::to_integer<unsigned>(packed.bytes()[i / 2]);
      const float number =
          numbers_[i % 2 == 0 ? byte >> 4 : byte & 15U] * static_cast<float>(scales[i / block_]);
      std::memcpy(to.data() + i * sizeof(float), &number, sizeof(float));
    }
  }

 private:
  ir::Tensor packed_, largest_;
  std::size_t block_;
  const std::array<float, 16>& numbers_;
};

}  // namespace

// a times the transpose of weights [N, K]: one number in 16 for each of them, and the largest of
// each block.
void import_matmul_bnb4(Node& node) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  const std::int64_t rows = node.integer("N"), width = node.integer("K"),
                     block = block_of(node, node.integer("block_size")),
                     type = node.integer("quant_type");
  if (rows < 1 || rows > most || width < 1 || width > most)
    node.malformed("has N = {} and K = {}; expected 1 to {}", rows, width, most);
  if (type != 0 && type != 1)
    node.malformed("has quant_type = {}; expected 0 (FP4) or 1 (NF4)", type);
  node.ignore_attribute("training_mode");
  if (!node.flag("transB", true)) node.unsupported("has transB = 0, which training alone needs");
  const auto packed = node.constant_operand(1), largest = node.constant_operand(2);
  if (!packed || !largest)
    node.unsupported("has weights that are not known before it runs (inputs 1 and 2)");
  const std::int64_t count = rows * width;
  if (packed->dtype() != DType::U8 || packed->elements() != (count + 1) / 2)
    node.malformed(
        "takes {} bytes as input 1 (B), got {} elements of {}; attributes K "
        "and N say so",
        (count + 1) / 2, packed->elements(), ir::name_of(packed->dtype()));
  if (const std::int64_t blocks = (count + block - 1) / block; largest->elements() != blocks)
    node.malformed(
        "takes {} elements as input 2 (absmax), got {}; attributes K, N and "
        "block_size say so",
        blocks, largest->elements());
  const Value weights =
      node.constant({DType::F32,
                     {rows, width},
                     std::make_shared<BlockScaledNumbers>(*packed, *largest, block,
                                                          type == 0 ? fp4_numbers : nf4_numbers)});
  const Value columns = transpose(weights, {1, 0});
  const Value a = node.operand(0);
  if (const auto last = a.extent(-1); last && *last != width)
    node.malformed("has K = {}, but rows of {} elements in input 0", width, *last);
  node.output(0, cast(matmul(cast(a, DType::F32), columns), node.dtype()));
}

namespace {

// How many numbers a row of `bytes` holds.
std::int64_t packed_width(Node& node, std::int64_t bytes, std::int64_t bits, std::int64_t block) {
  const std::int64_t width = bytes * 8 / bits, blocks = (width + block - 1) / block;
  const std::int64_t zero_bytes = (blocks * bits + 7) / 8;
  if (const auto given = node.has_operand(3) ? node.operand(3).extent(-1) : std::nullopt;
      given && *given != zero_bytes) {
    node.malformed(
        "has block_size = {} and bits = {}, so rows of {} bytes as input 3 (zero_points), got {}",
        block, bits, zero_bytes, *given);
  }
  return width;
}

}  // namespace

// Rows of a table of quantised numbers, each block along an axis with a scale; only what is
// gathered is made real. Numbers of 4 bits count from 0 where no zero point is given, packed bytes
// from half of what their bits hold.
void import_gather_block_quantized(Node& node) {
  const Value data = node.operand(0), scales = node.operand(2);
  const std::size_t rank = data.rank();
  const std::int64_t block = block_of(node, node.integer("block_size", 128));
  const auto gathered = static_cast<std::int64_t>(node.axis(node.integer("gather_axis", 0), rank));
  const auto blocked = static_cast<std::int64_t>(node.axis(node.integer("quantize_axis", 1), rank));
  const auto& narrow = node.element_type_of(data).narrow;
  const bool packed = !narrow;
  if (packed ? node.dtype() != DType::U8 : narrow->real.has_value()) {
    node.unsupported("has data of {}; Anydim supports packed u8 and integers of 4 bits",
                     node.element_type_of(data).text());
  }
  if (packed && blocked + 1 != static_cast<std::int64_t>(rank)) {
    node.unsupported(
        "has quantize_axis = {}; Anydim supports blocks of packed u8 along the last axis", blocked);
  }
  if (gathered == blocked)
    node.unsupported(
        "has gather_axis = quantize_axis = {}; Anydim supports blocks along another axis than the "
        "one it gathers along",
        gathered);
  if (scales.rank() != rank) node.malformed("takes scales of rank {}, got {}", rank, scales.rank());
  const auto extent = data.extent(blocked), blocks = scales.extent(blocked);
  if (!extent) node.unsupported("has data of a width that is not known before it runs");
  const std::int64_t bits = bits_of(node),
                     width = packed ? packed_width(node, *extent, bits, block) : *extent;
  if (blocks && *blocks != (width + block - 1) / block) {
    node.malformed("has block_size = {}, so {} scales for {} numbers, got {}", block,
                   (width + block - 1) / block, width, *blocks);
  }
  const Value indices = node.index_operand(1);
  const auto rows = [&](Value of) { return gather(of, indices, gathered); };
  const DType dtype = scales.dtype();
  const auto real = [&](Value of) {
    const Value taken = rows(of);
    return cast(packed ? unpacked(node, taken, bits) : taken, dtype);
  };
  const Value numbers = real(data);
  const std::int64_t axis =
      blocked < gathered ? blocked : blocked + static_cast<std::int64_t>(indices.rank()) - 1;
  const auto along = [&](Value each) {
    return slice(node.emit(Op::repeat, {each}, {{"repeats", block}, {"axis", axis}}), axis, 0,
                 width);
  };
  Value result = numbers;
  if (node.has_operand(3)) {
    result = numbers - along(real(node.operand(3)));
  } else if (packed) {
    const auto half = static_cast<double>(std::int64_t{1} << (bits - 1));
    result = numbers - half;
  }
  node.output(0, result * along(rows(scales)));
}

}  // namespace anydim::frontends
