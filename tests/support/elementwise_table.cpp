#include "tests/support/elementwise_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "ir/error.h"

namespace anydim::tests {
namespace {

using ir::DType;
using UnsignedWide = unsigned __int128;
using Row = ElementwiseRow;

// The function of the wide types that `body` is on both.
Row numbers(std::string_view op, auto body, std::string attributes = {}, bool exact = true) {
  return {op, std::move(attributes), exact, body, body};
}
Row comparison(std::string_view op, auto body) { return {op, {}, true, body, body}; }
Row exact(std::string_view op, auto body, std::string attributes = {}) {
  return {op, std::move(attributes), true, body};
}
Row rounded(std::string_view op, auto body) { return {op, {}, false, body}; }
Row on_bits(std::string_view op, auto body) { return {op, {}, true, nullptr, body}; }
Row on_truth(std::string_view op, auto body) { return {op, {}, true, nullptr, nullptr, body}; }

// Beyond what two factors of 64 bits need the product wraps, as unsigned ones do.
WideInteger product(WideInteger a, WideInteger b) {
  return static_cast<WideInteger>(static_cast<UnsignedWide>(a) * static_cast<UnsignedWide>(b));
}
WideReal product(WideReal a, WideReal b) { return a * b; }

WideReal remainder(WideReal a, WideReal b) { return std::fmod(a, b); }
WideInteger remainder(WideInteger a, WideInteger b) { return a % b; }

// With the sign of the divisor, a zero's too.
WideReal modulo(WideReal a, WideReal b) {
  const WideReal rest = std::fmod(a, b);
  return rest == 0                               ? std::copysign(rest, b)
         : std::signbit(rest) != std::signbit(b) ? rest + b
                                                 : rest;
}
WideInteger modulo(WideInteger a, WideInteger b) { return (a % b + b) % b; }

WideReal power(WideReal a, WideReal b) { return std::pow(a, b); }
WideInteger power(WideInteger base, WideInteger exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  if (exponent == 0) return 1;
  const WideInteger root = power(base, exponent / 2);
  return product(product(root, root), exponent % 2 == 0 ? WideInteger{1} : base);
}

template <typename Number>
bool unordered(Number a, Number b) {
  return a != a || b != b;
}

std::vector<Row> make_rows() {
  const auto nan = std::numeric_limits<WideReal>::quiet_NaN();
  const auto inf = std::numeric_limits<WideReal>::infinity();
  return {
      numbers("abs", [](auto a, auto) { return a < 0    ? -a
                                               : a == 0 ? decltype(a){0}
                                                        : a; }),
      numbers("neg", [](auto a, auto) { return -a; }),
      numbers(
          "sign",
          [](auto a, auto) {
            return a > 0 ? decltype(a){1} : a < 0 ? decltype(a){-1} : a == 0 ? decltype(a){0} : a;
          }),
      numbers("relu", [](auto a, auto) { return a < 0 ? decltype(a){0} : a; }),
      exact("floor", [](WideReal a, WideReal) { return std::floor(a); }),
      exact("ceil", [](WideReal a, WideReal) { return std::ceil(a); }),
      exact("round", [](WideReal a, WideReal) { return std::nearbyint(a); }),
      exact("sqrt", [](WideReal a, WideReal) { return std::sqrt(a); }),
      exact("reciprocal", [](WideReal a, WideReal) { return 1 / a; }),
      rounded("exp", [](WideReal a, WideReal) { return std::exp(a); }),
      rounded("log", [](WideReal a, WideReal) { return std::log(a); }),
      rounded("sin", [](WideReal a, WideReal) { return std::sin(a); }),
      rounded("cos", [](WideReal a, WideReal) { return std::cos(a); }),
      rounded("tan", [](WideReal a, WideReal) { return std::tan(a); }),
      rounded("asin", [](WideReal a, WideReal) { return std::asin(a); }),
      rounded("acos", [](WideReal a, WideReal) { return std::acos(a); }),
      rounded("atan", [](WideReal a, WideReal) { return std::atan(a); }),
      rounded("sinh", [](WideReal a, WideReal) { return std::sinh(a); }),
      rounded("cosh", [](WideReal a, WideReal) { return std::cosh(a); }),
      rounded("asinh", [](WideReal a, WideReal) { return std::asinh(a); }),
      rounded("acosh", [](WideReal a, WideReal) { return std::acosh(a); }),
      rounded("atanh", [](WideReal a, WideReal) { return std::atanh(a); }),
      rounded("tanh", [](WideReal a, WideReal) { return std::tanh(a); }),
      rounded("sigmoid", [](WideReal a, WideReal) { return 1 / (1 + std::exp(-a)); }),
      rounded("erf", [](WideReal a, WideReal) { return std::erf(a); }),
      rounded("erfc", [](WideReal a, WideReal) { return std::erfc(a); }),
      // Without the difference of near numbers: 1 + erf(x) is erfc(-x), and 1 + tanh(x) is 2 / (1 +
      // exp(-2 x)). At -inf the product is 0 times inf.
      rounded("gelu",
              [=](WideReal a, WideReal) {
                return a == -inf ? nan : a / 2 * std::erfc(-a / std::numbers::sqrt2_v<WideReal>);
              }),
      rounded("gelu_tanh",
              [=](WideReal a, WideReal) {
                const WideReal inner =
                    std::sqrt(2 * std::numbers::inv_pi_v<WideReal>) * (a + 0.044715L * a * a * a);
                return a == -inf ? nan : a / (1 + std::exp(-2 * inner));
              }),
      exact("is_nan", [](WideReal a, WideReal) { return a != a; }),
      exact("is_inf", [=](WideReal a, WideReal) { return a == inf || a == -inf; }),
      exact(
          "is_inf", [=](WideReal a, WideReal) { return a == inf; }, "negative = 0"),
      exact(
          "is_inf", [=](WideReal a, WideReal) { return a == -inf; }, "positive = 0"),
      exact(
          "is_inf", [](WideReal, WideReal) { return false; }, "negative = 0, positive = 0"),
      numbers("add", [](auto a, auto b) { return a + b; }),
      numbers("sub", [](auto a, auto b) { return a - b; }),
      numbers("mul", [](auto a, auto b) { return product(a, b); }),
      numbers("div", [](auto a, auto b) { return a / b; }),
      numbers(
          "mod", [](auto a, auto b) { return modulo(a, b); }, {}, false),
      numbers(
          "mod", [](auto a, auto b) { return remainder(a, b); }, "truncate = 1"),
      numbers(
          "pow", [](auto a, auto b) { return power(a, b); }, {}, false),
      numbers("min", [](auto a, auto b) { return unordered(a, b) ? a + b
                                                 : a < b         ? a
                                                                 : b; }),
      numbers("max", [](auto a, auto b) { return unordered(a, b) ? a + b
                                                 : a > b         ? a
                                                                 : b; }),
      {"equal", {}, true, std::equal_to<>{}, std::equal_to<>{}, std::equal_to<>{}},
      comparison("less", [](auto a, auto b) { return a < b; }),
      comparison("less_equal", [](auto a, auto b) { return a <= b; }),
      comparison("greater", [](auto a, auto b) { return a > b; }),
      comparison("greater_equal", [](auto a, auto b) { return a >= b; }),
      on_truth("not", [](bool a, bool) { return !a; }),
      on_truth("and", [](bool a, bool b) { return a && b; }),
      on_truth("or", [](bool a, bool b) { return a || b; }),
      on_truth("xor", [](bool a, bool b) { return a != b; }),
      on_bits("bit_not", [](WideInteger a, WideInteger) { return ~a; }),
      on_bits("bit_and", [](WideInteger a, WideInteger b) { return a & b; }),
      on_bits("bit_or", [](WideInteger a, WideInteger b) { return a | b; }),
      on_bits("bit_xor", [](WideInteger a, WideInteger b) { return a ^ b; }),
      // A count below 0 is, unsigned, past every width.
      on_bits("shift_left",
              [](WideInteger a, WideInteger b) {
                return b < 0 || b >= 64 ? 0 : product(a, WideInteger{1} << b);
              }),
      on_bits("shift_right",
              [](WideInteger a, WideInteger b) {
                return a >> (b < 0 || b >= 64 ? 127 : static_cast<int>(b));
              }),
  };
}

// The integer that the element is, also above int64.
WideInteger integer_of(const ir::Tensor& tensor, std::int64_t at) {
  const std::int64_t bits = tensor.integer_at(at);
  return tensor.dtype() == DType::U64 ? static_cast<WideInteger>(static_cast<std::uint64_t>(bits))
                                      : bits;
}

}  // namespace

bool ElementwiseRow::accepts(DType dtype) const {
  return static_cast<bool>(dtype == DType::Bool  ? on_bools != nullptr
                           : ir::is_float(dtype) ? on_reals != nullptr
                                                 : on_integers != nullptr);
}

DType ElementwiseRow::result(DType dtype) const {
  return info().has(ir::traits::compares) ? DType::Bool : dtype;
}

std::string ElementwiseRow::applied(std::string_view x, std::string_view y) const {
  std::string text = std::string(op) + "(" + std::string(x);
  if (operands() == 2) text += ", " + std::string(y);
  return text + ")" + (attributes.empty() ? "" : " {" + attributes + "}");
}

ir::Tensor ElementwiseRow::reference(const ir::Tensor& x, std::int64_t x_at, const ir::Tensor& y,
                                     std::int64_t y_at) const {
  const DType dtype = x.dtype();
  ir::Tensor value(result(dtype), {});
  if (dtype == DType::Bool) {
    value.set_integer(0, on_bools(x.integer_at(x_at) != 0, y.integer_at(y_at) != 0) ? 1 : 0);
  } else if (!ir::is_float(dtype)) {
    value.set_integer(
        0, static_cast<std::int64_t>(on_integers(integer_of(x, x_at), integer_of(y, y_at))));
  } else if (const WideReal real = on_reals(x.real_at(x_at), y.real_at(y_at));
             value.dtype() == DType::Bool) {
    value.set_integer(0, real != 0 ? 1 : 0);
  } else {
    // By way of the type in which narrow floats are computed.
    value.set_real(0, dtype == DType::F64 ? static_cast<double>(real)
                                          : static_cast<double>(static_cast<float>(real)));
  }
  return value;
}

std::span<const ElementwiseRow> elementwise_rows() {
  static const std::vector<Row> rows = make_rows();
  return rows;
}

std::span<const DType> all_dtypes() {
  static constexpr std::array dtypes{DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64,
                                     DType::I32, DType::I16, DType::I8,  DType::U64,  DType::U32,
                                     DType::U16, DType::U8,  DType::Bool};
  return dtypes;
}

double elementwise_tolerance(DType dtype) {
  switch (dtype) {  // NOLINT: the others hold no reals
    case DType::F64: return 1e-14;
    case DType::F32: return 1e-6;
    case DType::F16: return 2e-3;
    case DType::BF16: return 1e-2;
    default: return 0;
  }
}

std::vector<ir::Tensor> special_pairs(ir::DType dtype) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> reals{0.0,  -0.0,  1.0,   -1.0,      0.5,      -0.5,      1.5,         2.5,
                            -2.5, 3.0,   0.3,   -0.7,      7.25,     -19.75,    88.5,        -103.0,
                            1e-3, -1e-3, 100.0, 12345.678, infinity, -infinity, std::nan("")};
  if (dtype != ir::DType::F16)
    reals.insert(reals.end(), {1e-39, -1e-39, 1e-45, 1.17549435e-38, 3e38, -3e38, 8388609.0, 1e10,
                               -1e20, 65519.9999, -65520.0, 1.00048828126});
  std::vector<std::int64_t> integers{0, 1, 2, 3, 5, 7, 8, 12, 31, 32, 63, 64, 100, 127};
  if (ir::is_signed(dtype)) {
    integers.insert(integers.end(), {-1, -2, -3, -7, -100, -128});
    if (dtype != ir::DType::I8) integers.insert(integers.end(), {-30000, 32767, -32768});
    if (ir::size_of(dtype) >= 4) integers.insert(integers.end(), {INT32_MAX, INT32_MIN});
    if (ir::size_of(dtype) == 8) integers.insert(integers.end(), {INT64_MAX, INT64_MIN, 1LL << 40});
  } else if (dtype != ir::DType::Bool) {
    integers.push_back(255);
    if (ir::size_of(dtype) >= 2) integers.push_back(65535);
    if (ir::size_of(dtype) == 8) integers.push_back(-1);
  }
  if (dtype == ir::DType::Bool) integers = {0, 1};
  const std::size_t count = ir::is_float(dtype) ? reals.size() : integers.size();
  const auto length = static_cast<std::int64_t>(count * count);
  ir::Tensor x(dtype, {length}), y(dtype, {length});
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < count; ++k) {
      const auto at = static_cast<std::int64_t>(i * count + k);
      if (ir::is_float(dtype)) {
        x.set_real(at, reals[i]);
        y.set_real(at, reals[k]);
      } else {
        x.set_integer(at, integers[i]);
        y.set_integer(at, dtype != ir::DType::Bool && integers[k] == 0 ? 3 : integers[k]);
      }
    }
  }
  return {std::move(x), std::move(y)};
}

ir::Tensor special_values(ir::DType dtype, std::vector<std::int64_t> extents, std::size_t operand) {
  const ir::Tensor values = special_pairs(dtype)[operand];
  ir::Tensor tensor(dtype, std::move(extents));
  const std::size_t available = values.bytes().size();
  for (std::size_t i = 0; i < tensor.bytes().size(); ++i)
    tensor.mutable_bytes()[i] = values.bytes()[i % available];
  return tensor;
}

}  // namespace anydim::tests
