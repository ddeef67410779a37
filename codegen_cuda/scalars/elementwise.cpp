// Bodies of elementwise ops as CUDA C++ expressions; their meaning is ir/scalar.h's.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>

#include "codegen_cuda/scalars/scalar_writer.h"
#include "ir/error.h"
#include "ir/integer_body.h"
#include "ir/loops/scalar_program.h"
#include "ir/real_body.h"

namespace anydim::codegen_cuda {

namespace {

class Elementwise {
 public:
  Elementwise(KernelWriter& kernel, const ir::ScalarStep& step, DType dtype,
              const std::vector<std::string>& operands)
      : kernel_(kernel), step_(step), dtype_(dtype), operands_(operands) {}

  std::string text() {
    if (step_.op() == Op::where)
      return fmt::format("{} ? {} : {}", operands_.at(0), operands_.at(1), operands_.at(2));
    if (step_.op() == Op::cast) return cast(a(), dtype_, step_.dtype);
    if (step_.op() == Op::bitcast) return bitcast(a(), dtype_, step_.dtype);
    return ir::is_float(dtype_)
               ? ir::RealBody(*this, ir::scalar_op(step_), std::span(operands_)).value()
               : ir::IntegerBody(*this, ir::scalar_op(step_), dtype_, std::span(operands_)).value();
  }

  // Steps of ir::RealBody and ir::IntegerBody; a value is an expression that can stand as an
  // operand of any other.
  using Value = std::string;

  Value real(double value) const {
    return anydim::codegen_cuda::literal(doubles() ? DType::F64 : DType::F32, value, 0);
  }
  bool is_literal(const Value& value, double number) const { return value == real(number); }
  Value arithmetic(Op op, const Value& x, const Value& y) const {
    return fmt::format("({} {} {})", x,
                       op == Op::add   ? "+"
                       : op == Op::sub ? "-"
                       : op == Op::mul ? "*"
                                       : "/",
                       y);
  }
  Value multiply_add(const Value& x, const Value& y, const Value& z) const {
    return library("fma", {x, y, z});
  }
  Value compare(Op op, const Value& x, const Value& y) const {
    return fmt::format("({} {} {})", x, comparison(op), y);
  }
  Value is_nan(const Value& x) const { return fmt::format("({} != {})", x, x); }
  Value never() const { return "false"; }
  Value differ(const Value& x, const Value& y) const { return fmt::format("({} != {})", x, y); }
  Value select(const Value& condition, const Value& x, const Value& y) const {
    return fmt::format("({} ? {} : {})", condition, x, y);
  }
  Value negate(const Value& x) const { return fmt::format("(-{})", x); }
  Value magnitude(const Value& x) const { return library("fabs", {x}); }
  Value copy_sign(const Value& x, const Value& sign) const {
    return library("copysign", {x, sign});
  }
  Value integral(Op op, const Value& x) const {
    return library(op == Op::floor ? "floor" : op == Op::ceil ? "ceil" : "rint", {x});
  }
  Value square_root(const Value& x) const { return library("sqrt", {x}); }
  Value extreme(Op op, const Value& x, const Value& y) {
    if (!ir::is_float(dtype_))
      return select(compare(op == Op::min ? Op::less : Op::greater, x, y), x, y);
    kernel_.use("reals");
    return called(op == Op::min ? "lesser" : "greater", {x, y});
  }
  Value function(ir::LibraryFunction function, std::span<const Value> operands) const {
    return library(std::string(ir::name_of(function)), {operands.begin(), operands.end()});
  }
  Value with(const Value& value, auto body) const {
    return fmt::format("([&](const {} kept) {{ return {}; }})({})", value_type(dtype_),
                       body(Value("kept")), value);
  }

  Value integer(std::int64_t value) const {
    return anydim::codegen_cuda::literal(dtype_, 0, value);
  }
  Value wrapped(Op op, const Value& x, const Value& y) {
    return integers(op == Op::add   ? "wrap_add"
                    : op == Op::sub ? "wrap_subtract"
                                    : "wrap_multiply",
                    {x, y});
  }
  Value bits(Op op, const Value& x, const Value& y) const {
    const bool truths = dtype_ == DType::Bool;
    const char* symbol = op == Op::bit_and  ? (truths ? "&&" : "&")
                         : op == Op::bit_or ? (truths ? "||" : "|")
                                            : (truths ? "!=" : "^");
    return whole(fmt::format("{} {} {}", x, symbol, y));
  }
  Value complement(const Value& x) const { return whole((dtype_ == DType::Bool ? "!" : "~") + x); }
  Value quotient(const Value& x, const Value& y) { return integers("divide", {x, y}); }
  Value remainder(const Value& x, const Value& y) {
    return integers("truncated_remainder", {x, y});
  }
  Value power(const Value& x, const Value& y) { return integers("integer_power", {x, y}); }
  Value counts_bits(const Value& count) const {
    return fmt::format("((unsigned long long){} < {})", count, width());
  }
  Value shifted(Op op, const Value& x, const Value& count) {
    const Value bits = integers("bit_count", {count});
    return whole(op == Op::shift_left ? fmt::format("(unsigned long long){} << {}", x, bits)
                                      : fmt::format("{} >> {}", x, bits));
  }

 private:
  const std::string& a() const { return operands_.at(0); }
  bool doubles() const { return dtype_ == DType::F64; }

  static std::string called(const std::string& function, const std::vector<Value>& operands) {
    return fmt::format("{}({})", function, fmt::join(operands, ", "));
  }
  // A function of the device library: named without suffix for f64, with f for f32.
  std::string library(const std::string& function, const std::vector<Value>& operands) const {
    return called(function + (doubles() ? "" : "f"), operands);
  }
  std::string integers(const char* function, const std::vector<Value>& operands) {
    kernel_.use("integers");
    return called(function, operands);
  }
  // What is computed in a wider type, in this one.
  std::string whole(const std::string& expression) const {
    return fmt::format("(({})({}))", value_type(dtype_), expression);
  }
  std::size_t width() const { return 8 * ir::size_of(dtype_); }

  std::string cast(const std::string& value, DType from, DType to) {
    if (from == to) return value;
    if (to == DType::Bool)
      return ir::is_float(from) ? fmt::format("{} != {}", value, literal(from, 0, 0))
                                : fmt::format("{} != 0", value);
    if (ir::is_float(from) && !ir::is_float(to)) {
      kernel_.use("truncate");
      return fmt::format("truncate_to_{}({})", ir::name_of(to), value);
    }
    if (ir::is_half(to)) {
      // A number of a narrow float type, kept in a wider register.
      kernel_.use("elements");
      std::string single = from == DType::F64   ? fmt::format("odd_float({})", value)
                           : ir::is_float(from) ? value
                                                : fmt::format("(float){}", value);
      return fmt::format("widen(to_{}({}))", ir::name_of(to), single);
    }
    return fmt::format("({}){}", value_type(to), value);
  }

  // By way of an unsigned integer, the bits that memory would hold.
  std::string bitcast(const std::string& value, DType from, DType to) {
    return from == to ? value : with_bits(to, bits_of(from, value));
  }

  std::string bits_of(DType dtype, const std::string& value) {
    if (dtype == DType::F64) return fmt::format("__double_as_longlong({})", value);
    if (dtype == DType::F32) return fmt::format("__float_as_uint({})", value);
    if (value_type(dtype) == storage_type(dtype)) return value;
    return narrowed(kernel_, dtype, value) + ".bits";
  }

  std::string with_bits(DType dtype, const std::string& bits) {
    if (dtype == DType::F64) return fmt::format("__longlong_as_double({})", bits);
    if (dtype == DType::F32) return fmt::format("__uint_as_float({})", bits);
    if (dtype == DType::Bool) return fmt::format("{} != 0", bits);
    if (!ir::is_half(dtype)) return fmt::format("({}){}", value_type(dtype), bits);
    return widened(kernel_, dtype,
                   fmt::format("{}{{(unsigned short){}}}", storage_type(dtype), bits));
  }

  const char* comparison(Op op) const {
    switch (op) {  // NOLINT: comparisons only
      case Op::equal: return "==";
      case Op::less: return "<";
      case Op::less_equal: return "<=";
      case Op::greater: return ">";
      case Op::greater_equal: return ">=";
      default: internal_error("a comparison is one of five");
    }
  }

  KernelWriter& kernel_;
  const ir::ScalarStep& step_;
  DType dtype_;
  const std::vector<std::string>& operands_;
};

std::string real_literal(double value, bool is_double) {
  if (std::isnan(value))
    return is_double ? "__longlong_as_double(0x7ff8000000000000ll)" : "__int_as_float(0x7fc00000)";
  if (std::isinf(value)) {
    const char* text =
        is_double ? "__longlong_as_double(0x7ff0000000000000ll)" : "__int_as_float(0x7f800000)";
    return value < 0 ? fmt::format("(-{})", text) : text;
  }
  std::string text =
      is_double ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  if (!is_double) text += "f";
  return std::signbit(value) ? "(" + text + ")" : text;
}

}  // namespace

std::string literal(DType dtype, double real, std::int64_t integer) {
  if (ir::is_float(dtype))
    return real_literal(dtype == DType::F64 ? real : static_cast<double>(static_cast<float>(real)),
                        dtype == DType::F64);
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

std::string elementwise(KernelWriter& kernel, const ir::ScalarStep& step, DType operand_dtype,
                        const std::vector<std::string>& operands) {
  return bare(Elementwise(kernel, step, operand_dtype, operands).text());
}

std::string widened(KernelWriter& kernel, DType dtype, const std::string& element) {
  if (value_type(dtype) == storage_type(dtype)) return element;
  kernel.use("elements");
  return "widen(" + element + ")";
}

std::string narrowed(KernelWriter& kernel, DType dtype, const std::string& value) {
  if (value_type(dtype) == storage_type(dtype)) return value;
  kernel.use("elements");
  const char* function = dtype == DType::F16    ? "to_f16"
                         : dtype == DType::BF16 ? "to_bf16"
                                                : "to_boolean";
  return fmt::format("{}({})", function, value);
}

}  // namespace anydim::codegen_cuda
