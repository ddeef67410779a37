// Bodies of elementwise ops as CUDA C++ expressions; their meaning is ir/scalar.h's.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "codegen_cuda/scalar_writer.h"
#include "ir/error.h"

namespace anydim::codegen_cuda {

namespace {

using ir::DType;
using ir::Op;

// Flags of a step (ir/loop_form.h).
constexpr unsigned negative_or_truncate = 1, positive_flag = 2;

class Elementwise {
 public:
  Elementwise(KernelWriter& kernel, const ir::ScalarStep& step, DType dtype, const std::vector<std::string>& operands)
      : kernel_(kernel), step_(step), dtype_(dtype), operands_(operands) {}

  std::string text() {
    if (step_.op == Op::where) return fmt::format("{} ? {} : {}", operands_.at(0), operands_.at(1), operands_.at(2));
    if (step_.op == Op::cast) return cast(a(), dtype_, step_.dtype);
    if (dtype_ == DType::Bool) return on_bools();
    return ir::is_float(dtype_) ? on_reals() : on_integers();
  }

 private:
  const std::string& a() const { return operands_.at(0); }
  const std::string& b() const { return operands_.at(1); }
  std::string infix(const char* symbol) const { return fmt::format("{} {} {}", a(), symbol, b()); }
  bool doubles() const { return dtype_ == DType::F64; }

  std::string call(const char* function) const {
    return operands_.size() == 1 ? fmt::format("{}({})", function, a()) : fmt::format("{}({}, {})", function, a(), b());
  }
  // A function of the device library: named without suffix for f64, with f for f32.
  std::string library(const char* function) const { return call((std::string(function) + (doubles() ? "" : "f")).c_str()); }
  std::string piece(const char* name, const char* function) {
    kernel_.use(name);
    return call(function);
  }
  std::string real(double value) const { return literal(doubles() ? DType::F64 : DType::F32, value, 0); }

  std::string cast(const std::string& value, DType from, DType to) {
    if (from == to) return value;
    if (to == DType::Bool) return ir::is_float(from) ? fmt::format("{} != {}", value, literal(from, 0, 0)) : fmt::format("{} != 0", value);
    if (ir::is_float(from) && !ir::is_float(to)) {
      kernel_.use("truncate");
      return fmt::format("truncate_to_{}({})", ir::name_of(to), value);
    }
    if (to == DType::F16 || to == DType::BF16) {
      // A number of a narrow float type, kept in a wider register.
      kernel_.use("elements");
      std::string single = from == DType::F64   ? fmt::format("odd_float({})", value)
                           : ir::is_float(from) ? value
                                                : fmt::format("(float){}", value);
      return fmt::format("widen(to_{}({}))", ir::name_of(to), single);
    }
    return fmt::format("({}){}", value_type(to), value);
  }

  std::string on_bools() {
    switch (step_.op) {  // NOLINT: other ops aren't defined on bools
      case Op::logical_not:
      case Op::bit_not: return "!" + a();
      case Op::logical_and:
      case Op::bit_and:
      case Op::min:
      case Op::mul: return infix("&&");
      case Op::logical_or:
      case Op::bit_or:
      case Op::max:
      case Op::add: return infix("||");
      case Op::logical_xor:
      case Op::bit_xor: return infix("!=");
      default: return comparison();
    }
  }

  std::string comparison() {
    switch (step_.op) {  // NOLINT: comparisons only
      case Op::equal: return infix("==");
      case Op::less: return infix("<");
      case Op::less_equal: return infix("<=");
      case Op::greater: return infix(">");
      case Op::greater_equal: return infix(">=");
      default: undefined();
    }
  }

  std::string on_integers() {
    const bool is_signed = ir::is_signed(dtype_);
    const auto whole = [&](const char* text) { return fmt::format("({})({})", value_type(dtype_), text); };
    switch (step_.op) {  // NOLINT: comparisons come after
      case Op::abs: return is_signed ? piece("integers", "magnitude") : a();
      case Op::neg: return piece("integers", "wrap_negate");
      case Op::sign: return piece("integers", "sign_of");
      case Op::relu: return is_signed ? fmt::format("{} < 0 ? ({})0 : {}", a(), value_type(dtype_), a()) : a();
      case Op::floor:
      case Op::ceil:
      case Op::round: return a();
      case Op::bit_not: return whole(("~" + a()).c_str());
      case Op::add: return piece("integers", "wrap_add");
      case Op::sub: return piece("integers", "wrap_subtract");
      case Op::mul: return piece("integers", "wrap_multiply");
      case Op::div: return piece("integers", "divide");
      case Op::mod: return piece("integers", (step_.flags & negative_or_truncate) != 0 ? "truncated_remainder" : "floored_remainder");
      case Op::pow: return piece("integers", "integer_power");
      case Op::min: return fmt::format("{} < {} ? {} : {}", a(), b(), a(), b());
      case Op::max: return fmt::format("{} > {} ? {} : {}", a(), b(), a(), b());
      case Op::bit_and: return whole(infix("&").c_str());
      case Op::bit_or: return whole(infix("|").c_str());
      case Op::bit_xor: return whole(infix("^").c_str());
      case Op::shift_left: return shifted(fmt::format("(unsigned long long)({}) << {}", a(), b()), "0");
      case Op::shift_right: return shifted(fmt::format("{} >> {}", a(), b()), is_signed ? fmt::format("{} < 0 ? -1 : 0", a()) : "0");
      default: return comparison();
    }
  }

  // `within` where the count, taken as unsigned, is below the width; else `beyond`.
  std::string shifted(const std::string& within, const std::string& beyond) {
    return fmt::format("(unsigned long long)({}) < {} ? ({})({}) : ({})({})", b(), 8 * ir::size_of(dtype_), value_type(dtype_), within,
                       value_type(dtype_), beyond);
  }

  std::string on_reals() {
    switch (step_.op) {  // NOLINT: comparisons come after
      case Op::abs: return library("fabs");
      case Op::neg: return "-" + a();
      case Op::sign: return piece("reals", "sign_of_real");
      case Op::floor: return library("floor");
      case Op::ceil: return library("ceil");
      case Op::round: return library("rint");
      case Op::sqrt: return library("sqrt");
      case Op::reciprocal: return real(1) + " / " + a();
      case Op::exp: return library("exp");
      case Op::log: return library("log");
      case Op::sin: return library("sin");
      case Op::cos: return library("cos");
      case Op::tan: return library("tan");
      case Op::asin: return library("asin");
      case Op::acos: return library("acos");
      case Op::atan: return library("atan");
      case Op::sinh: return library("sinh");
      case Op::cosh: return library("cosh");
      case Op::asinh: return library("asinh");
      case Op::acosh: return library("acosh");
      case Op::atanh: return library("atanh");
      case Op::tanh: return library("tanh");
      case Op::erf: return library("erf");
      case Op::sigmoid: return piece("reals", "sigmoid");
      case Op::gelu: return piece("reals", "gelu");
      case Op::gelu_tanh: return piece("reals", "gelu_tanh");
      case Op::relu: return fmt::format("{} < {} ? {} : {}", a(), real(0), real(0), a());
      case Op::is_nan: return fmt::format("{} != {}", a(), a());
      case Op::is_inf: return is_infinite();
      case Op::add: return infix("+");
      case Op::sub: return infix("-");
      case Op::mul: return infix("*");
      case Op::div: return infix("/");
      case Op::mod: return (step_.flags & negative_or_truncate) != 0 ? library("fmod") : piece("reals", "floored_remainder_of");
      case Op::pow: return power();
      case Op::min: return piece("reals", "lesser");
      case Op::max: return piece("reals", "greater");
      default: return comparison();
    }
  }

  std::string is_infinite() const {
    const double infinity = std::numeric_limits<double>::infinity();
    const bool below = (step_.flags & negative_or_truncate) != 0, above = (step_.flags & positive_flag) != 0;
    if (below && above) return fmt::format("{}({}) == {}", doubles() ? "fabs" : "fabsf", a(), real(infinity));
    if (below || above) return fmt::format("{} == {}", a(), real(above ? infinity : -infinity));
    return "false";
  }

  // Squares and cubes are what models raise to; the products are as good as pow.
  std::string power() const {
    if (b() == real(1)) return a();
    if (b() == real(2)) return fmt::format("{} * {}", a(), a());
    if (b() == real(3)) return fmt::format("{} * {} * {}", a(), a(), a());
    return library("pow");
  }

  [[noreturn]] void undefined() const {
    internal_error("the op " + std::string(ir::info(step_.op).text) + " has a body for " + std::string(ir::name_of(dtype_)));
  }

  KernelWriter& kernel_;
  const ir::ScalarStep& step_;
  DType dtype_;
  const std::vector<std::string>& operands_;
};

std::string real_literal(double value, bool is_double) {
  if (std::isnan(value)) return is_double ? "__longlong_as_double(0x7ff8000000000000ll)" : "__int_as_float(0x7fc00000)";
  if (std::isinf(value)) {
    const char* text = is_double ? "__longlong_as_double(0x7ff0000000000000ll)" : "__int_as_float(0x7f800000)";
    return value < 0 ? fmt::format("(-{})", text) : text;
  }
  std::string text = is_double ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  if (!is_double) text += "f";
  return std::signbit(value) ? "(" + text + ")" : text;
}

}  // namespace

std::string literal(DType dtype, double real, std::int64_t integer) {
  if (ir::is_float(dtype))
    return real_literal(dtype == DType::F64 ? real : static_cast<double>(static_cast<float>(real)), dtype == DType::F64);
  if (dtype == DType::Bool) return integer != 0 ? "true" : "false";
  if (dtype == DType::I64) {
    return integer == std::numeric_limits<std::int64_t>::min() ? "(-9223372036854775807ll - 1)"
           : integer < 0                                       ? fmt::format("({}ll)", integer)
                                                               : fmt::format("{}ll", integer);
  }
  if (dtype == DType::U64) return fmt::format("{}ull", static_cast<std::uint64_t>(integer));
  if (dtype == DType::I32) {
    return integer == std::numeric_limits<std::int32_t>::min() ? "(-2147483647 - 1)"
           : integer < 0                                       ? fmt::format("({})", integer)
                                                               : std::to_string(integer);
  }
  if (dtype == DType::U32) return fmt::format("{}u", static_cast<std::uint32_t>(integer));
  return fmt::format("({}){}", value_type(dtype), integer);
}

std::string elementwise(KernelWriter& kernel, const ir::ScalarStep& step, DType operand_dtype, const std::vector<std::string>& operands) {
  return Elementwise(kernel, step, operand_dtype, operands).text();
}

std::string widened(KernelWriter& kernel, DType dtype, const std::string& element) {
  if (value_type(dtype) == storage_type(dtype)) return element;
  kernel.use("elements");
  return "widen(" + element + ")";
}

std::string narrowed(KernelWriter& kernel, DType dtype, const std::string& value) {
  if (value_type(dtype) == storage_type(dtype)) return value;
  kernel.use("elements");
  const char* function = dtype == DType::F16 ? "to_f16" : dtype == DType::BF16 ? "to_bf16" : "to_boolean";
  return fmt::format("{}({})", function, value);
}

}  // namespace anydim::codegen_cuda
