#include "tests/support/elementwise_cases.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace anydim::tests {
namespace {

// All casts, bitcasts and where.
ElementwiseCase conversions_from(ir::DType dtype) {
  const std::string from(ir::name_of(dtype));
  std::string types, body, results;
  std::vector<std::string> names;
  const auto convert = [&](std::string op, const std::string& x, ir::DType wanted) {
    const std::string to(ir::name_of(wanted)), name = "%" + op + "_" + to;
    body += "  " + name + " = " + op + "(" + x + ") {to = " + to + "}\n";
    types += "Tensor[(n), " + to + "], ";
    results += name + ", ";
    names.push_back(std::move(op) + " to " + to);
  };
  for (const ir::DType wanted : all_dtypes()) convert("cast", "%x", wanted);
  // Which NaN a 16-bit float is, a conversion to the f32 of a register changes.
  std::string bits = "%x";
  if (ir::is_half(dtype)) {
    body += "  %nan = is_nan(%x)\n  %zero = zeros() {shape = (), dtype = " + from + "}\n";
    body += "  %real = where(%nan, %zero, %x)\n";
    bits = "%real";
  }
  for (const ir::DType wanted : all_dtypes())
    if (ir::size_of(wanted) == ir::size_of(dtype)) convert("bitcast", bits, wanted);
  body += "  %none = cast(%y) {to = bool}\n  %chosen = where(%none, %x, %y)\n";
  names.emplace_back("where");
  return {"fn @main(%x: Tensor[(n), " + from + "], %y: Tensor[(n), " + from + "]) -> (" + types +
              "Tensor[(n), " + from + "])\n  where n in [0, 5000] {\n" + body + "  return " +
              results + "%chosen\n}",
          names, dtype, 0};
}

}  // namespace

ElementwiseCase elementwise_case(ir::DType dtype, ir::DType result, const ElementwiseDims& dims) {
  const auto type = [](const std::string& extents, ir::DType held) {
    return "Tensor[" + extents + ", " + std::string(ir::name_of(held)) + "]";
  };
  std::string types, body, results;
  std::vector<std::string> names;
  for (const ElementwiseRow& row : elementwise_rows()) {
    if (!row.accepts(dtype) || row.result(dtype) != result ||
        (row.operands() == 1 && dims.x != dims.result))
      continue;
    const std::string name = "%r" + std::to_string(names.size());
    const std::string comma = names.empty() ? "" : ", ";
    body += "  " + name + " = " + row.applied("%x", "%y") + "\n";
    types += comma + type(dims.result, result);
    results += comma + name;
    names.push_back(row.applied("x", "y"));
  }
  return {"fn @main(%x: " + type(dims.x, dtype) + ", %y: " + type(dims.y, dtype) + ") -> (" +
              types + ")\n  where n in [0, 5000] {\n" + body + "  return " + results + "\n}",
          names, dtype, elementwise_tolerance(result)};
}

std::vector<ElementwiseCase> elementwise_cases() {
  std::vector<ElementwiseCase> cases;
  for (const ir::DType dtype : all_dtypes()) {
    cases.push_back(elementwise_case(dtype, dtype));
    if (dtype != ir::DType::Bool) cases.push_back(elementwise_case(dtype, ir::DType::Bool));
    cases.push_back(conversions_from(dtype));
  }
  return cases;
}

std::string compare(const ElementwiseCase& tested, const std::vector<ir::Tensor>& inputs,
                    const std::vector<ir::Tensor>& got, const std::vector<ir::Tensor>& expected) {
  std::ostringstream text;
  if (got.size() != tested.names.size()) {
    text << got.size() << " results for " << tested.names.size();
    return text.str();
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    for (std::int64_t k = 0; k < expected[i].elements(); ++k) {
      const double a = got[i].real_at(k), b = expected[i].real_at(k);
      if (a == b || (std::isnan(a) && std::isnan(b)) ||
          std::abs(a - b) <= tested.tolerance * std::max(1.0, std::abs(b)))
        continue;
      text << tested.names[i] << " on " << ir::name_of(tested.dtype) << ", element " << k << ": "
           << a << " for " << b;
      for (const ir::Tensor& input : inputs)
        if (input.dims() == got[i].dims()) text << ", operand " << input.real_at(k);
      return text.str();
    }
  }
  return {};
}

}  // namespace anydim::tests
