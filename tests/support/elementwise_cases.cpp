#include "tests/support/elementwise_cases.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <sstream>

#include "ir/ops.h"

namespace anydim::tests {
namespace {

using Names = std::vector<std::string>;

const Names real_unary{"abs",   "neg",   "sign",  "floor", "ceil",    "round", "sqrt", "reciprocal", "exp",
                       "log",   "sin",   "cos",   "tan",   "asin",    "acos",  "atan", "sinh",       "cosh",
                       "asinh", "acosh", "atanh", "tanh",  "sigmoid", "erf",   "relu", "gelu",       "gelu_tanh"};
const Names real_tests{"is_nan", "is_inf"};
const Names real_binary{"add", "sub", "mul", "div", "mod", "pow", "min", "max"};
const Names comparisons{"equal", "less", "less_equal", "greater", "greater_equal"};
const Names integer_unary{"abs", "neg", "sign", "relu", "bit_not"};
const Names integer_binary{"add", "sub",     "mul",    "div",     "mod",        "pow",        "min",
                           "max", "bit_and", "bit_or", "bit_xor", "shift_left", "shift_right"};
const Names bool_unary{"not"};
const Names bool_binary{"and", "or", "xor"};

// One kernel with an output an op: op(%x) or op(%x, %y).
std::string text_of(const Names& unary, const Names& binary, const std::string& dtype, const std::string& result) {
  std::string types, body, results;
  int count = 0;
  const auto add = [&](const std::string& op, const std::string& arguments) {
    const std::string name = "%r" + std::to_string(count++);
    body += "  " + name + " = " + op + "(" + arguments + ")\n";
    types += (types.empty() ? "" : ", ") + ("Tensor[(n), " + result + "]");
    results += (results.empty() ? "" : ", ") + name;
  };
  for (const std::string& op : unary) add(op, "%x");
  for (const std::string& op : binary) add(op, "%x, %y");
  return "fn @main(%x: Tensor[(n), " + dtype + "], %y: Tensor[(n), " + dtype + "]) -> (" + types + ")\n  where n in [0, 5000] {\n" + body +
         "  return " + results + "\n}";
}

Names joined(const Names& a, const Names& b) {
  Names both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

ElementwiseCase casts_from(const std::string& from) {
  const Names dtypes{"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "bool"};
  std::string types, body, results;
  Names names;
  for (const std::string& to : dtypes) {
    const std::string name = "%to_" + to;
    body += "  " + name + " = cast(%x) {to = " + to + "}\n";
    types += "Tensor[(n), " + to + "], ";
    results += name + ", ";
    names.push_back("cast to " + to);
  }
  body += "  %none = cast(%y) {to = bool}\n  %chosen = where(%none, %x, %y)\n";
  names.emplace_back("where");
  return {"fn @main(%x: Tensor[(n), " + from + "], %y: Tensor[(n), " + from + "]) -> (" + types + "Tensor[(n), " + from +
              "])\n  where n in [0, 5000] {\n" + body + "  return " + results + "%chosen\n}",
          names, *ir::dtype_named(from), 0};
}

}  // namespace

std::vector<ElementwiseCase> elementwise_cases() {
  using ir::DType;
  std::vector<ElementwiseCase> cases;
  for (const DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16}) {
    const std::string name(ir::name_of(dtype));
    const double tolerance = dtype == DType::F64 ? 1e-14 : dtype == DType::F32 ? 1e-6 : dtype == DType::F16 ? 2e-3 : 1e-2;
    cases.push_back({text_of(real_unary, real_binary, name, name), joined(real_unary, real_binary), dtype, tolerance});
    cases.push_back({text_of(real_tests, comparisons, name, "bool"), joined(real_tests, comparisons), dtype, 0});
  }
  for (const DType dtype : {DType::I64, DType::I32, DType::I16, DType::I8, DType::U64, DType::U32, DType::U16, DType::U8}) {
    const std::string name(ir::name_of(dtype));
    cases.push_back({text_of(integer_unary, integer_binary, name, name), joined(integer_unary, integer_binary), dtype, 0});
    cases.push_back({text_of({}, comparisons, name, "bool"), comparisons, dtype, 0});
  }
  const Names of_bools = joined(bool_binary, {"equal"});
  cases.push_back({text_of(bool_unary, of_bools, "bool", "bool"), joined(bool_unary, of_bools), DType::Bool, 0});
  for (const char* from : {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "bool"})
    cases.push_back(casts_from(from));
  for (const std::string attributes : {"negative = 0, positive = 1", "negative = 1, positive = 0", "negative = 0, positive = 0"}) {
    cases.push_back(
        {"fn @main(%x: Tensor[(n), f32], %y: Tensor[(n), f32]) -> Tensor[(n), bool]\n  where n in [0, 5000] {\n  %r = is_inf(%x) {" +
             attributes + "}\n  return %r\n}",
         {"is_inf"},
         DType::F32,
         0});
  }
  for (const DType dtype : {DType::F32, DType::I32, DType::U8}) {
    const std::string type = "Tensor[(n), " + std::string(ir::name_of(dtype)) + "]";
    cases.push_back({"fn @main(%x: " + type + ", %y: " + type + ") -> " + type +
                         "\n  where n in [0, 5000] {\n  %r = mod(%x, %y) {truncate = 1}\n  return %r\n}",
                     {"mod"},
                     dtype,
                     1e-6});
  }
  return cases;
}

std::vector<ir::Tensor> special_pairs(ir::DType dtype) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> reals{0.0,  -0.0,   1.0,  -1.0,   0.5,  -0.5,  1.5,   2.5,       -2.5,     3.0,       0.3,         -0.7,
                            7.25, -19.75, 88.5, -103.0, 1e-3, -1e-3, 100.0, 12345.678, infinity, -infinity, std::nan("")};
  if (dtype != ir::DType::F16)
    reals.insert(reals.end(),
                 {1e-39, -1e-39, 1e-45, 1.17549435e-38, 3e38, -3e38, 8388609.0, 1e10, -1e20, 65519.9999, -65520.0, 1.00048828126});
  std::vector<std::int64_t> integers{0, 1, 2, 3, 5, 7, 12, 63, 100, 127};
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

std::string compare(const ElementwiseCase& tested, const std::vector<ir::Tensor>& inputs, const std::vector<ir::Tensor>& got,
                    const std::vector<ir::Tensor>& expected) {
  std::ostringstream text;
  if (got.size() != tested.names.size()) {
    text << got.size() << " results for " << tested.names.size();
    return text.str();
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    for (std::int64_t k = 0; k < expected[i].elements(); ++k) {
      const double a = got[i].real_at(k), b = expected[i].real_at(k);
      if (a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tested.tolerance * std::max(1.0, std::abs(b))) continue;
      text << tested.names[i] << " " << ir::name_of(tested.dtype) << " of " << inputs[0].real_at(k) << ", " << inputs[1].real_at(k) << ": "
           << a << " for " << b;
      return text.str();
    }
  }
  return {};
}

std::vector<std::string> ops_without_case() {
  std::set<std::string> covered{"cast", "where"};
  for (const Names* names :
       {&real_unary, &real_tests, &real_binary, &comparisons, &integer_unary, &integer_binary, &bool_unary, &bool_binary}) {
    covered.insert(names->begin(), names->end());
  }
  Names missing;
  for (const ir::OpInfo& op : ir::all_ops()) {
    if (op.has(ir::traits::elementwise) && !covered.contains(std::string(op.text))) missing.emplace_back(op.text);
  }
  return missing;
}

}  // namespace anydim::tests
