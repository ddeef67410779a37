// Elementwise ops by their table (tests/support/elementwise_table.h): types, broadcasting, values
// by the reference evaluator, and what is refused. What one op alone has (dims that it computes,
// division by zero) stands in ops/.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "ir/error.h"
#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "tests/ir/op_file.h"
#include "tests/support/elementwise_table.h"

namespace anydim::ir::test {
namespace {

using tests::ElementwiseRow;

std::string tensor_type(std::string_view dims, DType dtype) {
  return fmt::format("Tensor[{}, {}]", dims, name_of(dtype));
}

// The op on %x and %y of these dims and dtypes.
Module inferred(const ElementwiseRow& row, std::string_view x, DType x_dtype, std::string_view y,
                DType y_dtype) {
  const std::string second = row.operands() == 2 ? ", %y: " + tensor_type(y, y_dtype) : "";
  Module module =
      parse(fmt::format("fn @main(%x: {}{}) {{\n  %r = {} from \"Node\"\n  return %r\n}}",
                        tensor_type(x, x_dtype), second, row.applied("%x", "%y")));
  infer_types(module);
  return module;
}

std::string type_of_result(const Module& module) {
  const Function& main = module.functions[0];
  return print(main, main.values[main.body.results[0]].type);
}

std::string refusal(const auto& act) {
  try {
    act();
  } catch (const Error& error) {
    return error_text(error);
  }
  return "accepted";
}

Tensor evaluated(const ElementwiseRow& row, const Module& module, const Tensor& x,
                 const Tensor& y) {
  std::vector<Tensor> inputs{x};
  if (row.operands() == 2) inputs.push_back(y);
  return evaluate(module, module.functions[0], inputs)[0];
}

bool agrees(const ElementwiseRow& row, DType operands, double got, double expected) {
  if (std::isnan(expected)) return std::isnan(got);
  if (got == expected) return got != 0 || !row.exact || std::signbit(got) == std::signbit(expected);
  // Even a wide real is rounded twice on its way into an f64.
  const double tolerance = !row.exact               ? tests::elementwise_tolerance(operands)
                           : operands == DType::F64 ? 0x1p-52
                                                    : 0;
  return std::abs(got - expected) <= tolerance * std::max(1.0, std::abs(expected));
}

// `got` at `at` is what the row's reference gives for those elements of the operands.
void expect_element(const ElementwiseRow& row, const Tensor& x, std::int64_t x_at, const Tensor& y,
                    std::int64_t y_at, const Tensor& got, std::int64_t at) {
  const Tensor expected = row.reference(x, x_at, y, y_at);
  ASSERT_EQ(got.dtype(), expected.dtype());
  const bool same = is_float(expected.dtype())
                        ? agrees(row, x.dtype(), got.real_at(at), expected.real_at(0))
                        : got.integer_at(at) == expected.integer_at(0);
  ASSERT_TRUE(same) << row.applied(fmt::format("{}", x.real_at(x_at)),
                                   fmt::format("{}", y.real_at(y_at)))
                    << " of " << name_of(x.dtype()) << " is " << got.real_at(at) << " for "
                    << expected.real_at(0);
}

// The row's name and dtype, of which each test runs all.
void for_each_accepted(const auto& test) {
  for (const ElementwiseRow& row : tests::elementwise_rows()) {
    for (const DType dtype : tests::all_dtypes()) {
      if (!row.accepts(dtype)) continue;
      SCOPED_TRACE(fmt::format("{} on {}", row.applied("x", "y"), name_of(dtype)));
      test(row, dtype);
    }
  }
}

TEST(Elementwise, EveryOpHasARow) {
  std::set<std::string_view> covered{"cast", "bitcast", "where"};
  for (const std::string_view op : covered)
    EXPECT_TRUE(std::filesystem::exists(fmt::format("ops/{}.test", op)));
  for (const ElementwiseRow& row : tests::elementwise_rows()) covered.insert(row.op);
  for (const OpInfo& op : all_ops())
    EXPECT_EQ(op.has(traits::elementwise), covered.contains(op.text))
        << op.text << ": tests/support/elementwise_table.cpp";
}

TEST(Elementwise, ValuesAreTheReferences) {
  for_each_accepted([](const ElementwiseRow& row, DType dtype) {
    const std::vector<Tensor> pairs = tests::special_pairs(dtype);
    const Module module = inferred(row, "(n)", dtype, "(n)", dtype);
    EXPECT_EQ(type_of_result(module), tensor_type("(n)", row.result(dtype)));
    const Tensor got = evaluated(row, module, pairs[0], pairs[1]);
    ASSERT_EQ(got.dims(), pairs[0].dims());
    for (std::int64_t at = 0; at < got.elements(); ++at)
      ASSERT_NO_FATAL_FAILURE(expect_element(row, pairs[0], at, pairs[1], at, got, at));
  });
}

// Dims as inference sees them and extents of a call.
struct Form {
  std::string_view x, y, result;
  std::vector<std::int64_t> x_extents, y_extents, result_extents;
};

// The row-major place in an operand of what the result has at `at`.
std::int64_t place_in(const std::vector<std::int64_t>& operand,
                      const std::vector<std::int64_t>& result, std::int64_t at) {
  std::int64_t place = 0, stride = 1;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t extent = result[result.size() - 1 - i];
    if (i < operand.size()) {
      const std::int64_t own = operand[operand.size() - 1 - i];
      place += own == 1 ? 0 : at % extent * stride;
      stride *= own;
    }
    at /= extent;
  }
  return place;
}

const Form unary_forms[] = {
    {"(n, 0, 3)", "()", "(n, 0, 3)", {2, 0, 3}, {}, {2, 0, 3}},
    {"()", "()", "()", {}, {}, {}},
    {"(2, n)", "()", "(2, n)", {2, 3}, {}, {2, 3}},
};
const Form binary_forms[] = {
    {"(n, 1, 3)", "(2, 1)", "(n, 2, 3)", {2, 1, 3}, {2, 1}, {2, 2, 3}},
    // Which of the two is broadcast only the run decides.
    {"(n, 2)", "(m, 2)", "(broadcast(m, n), 2)", {1, 2}, {3, 2}, {3, 2}},
    {"(n)", "(1)", "(n)", {0}, {1}, {0}},
    {"()", "(2, 2)", "(2, 2)", {}, {2, 2}, {2, 2}},
};

TEST(Elementwise, OperandsBroadcast) {
  for_each_accepted([](const ElementwiseRow& row, DType dtype) {
    for (const Form& form :
         row.operands() == 2 ? std::span<const Form>(binary_forms) : unary_forms) {
      const Tensor x = tests::special_values(dtype, form.x_extents, 0),
                   y = tests::special_values(dtype, form.y_extents, 1);
      const Module module = inferred(row, form.x, dtype, form.y, dtype);
      EXPECT_EQ(type_of_result(module), tensor_type(form.result, row.result(dtype)));
      const Tensor got = evaluated(row, module, x, y);
      ASSERT_EQ(got.dims(), form.result_extents);
      for (std::int64_t at = 0; at < got.elements(); ++at) {
        const std::int64_t y_at =
            row.operands() == 2 ? place_in(form.y_extents, form.result_extents, at) : 0;
        ASSERT_NO_FATAL_FAILURE(expect_element(
            row, x, place_in(form.x_extents, form.result_extents, at), y, y_at, got, at));
      }
    }
  });
}

// As a message names what the row accepts.
std::string accepted_text(const ElementwiseRow& row) {
  if (row.on_reals && row.on_integers) return row.on_bools ? "a tensor" : "a tensor of numbers";
  return row.on_reals ? "a float tensor" : row.on_integers ? "an integer tensor" : "a bool tensor";
}

TEST(Elementwise, OtherDtypesAreRefused) {
  for (const ElementwiseRow& row : tests::elementwise_rows()) {
    for (const DType dtype : tests::all_dtypes()) {
      if (row.accepts(dtype)) continue;
      EXPECT_EQ(refusal([&] { inferred(row, "(n)", dtype, "(n)", dtype); }),
                fmt::format("malformed: {} 'Node' (%r): operand 0 (%x) must be {}, got {}.\n",
                            row.op, accepted_text(row), tensor_type("(n)", dtype)));
    }
  }
}

TEST(Elementwise, MisfitsAreRefused) {
  for_each_accepted([](const ElementwiseRow& row, DType dtype) {
    if (row.operands() != 2) return;
    const DType other = dtype == DType::I16 ? DType::F32 : DType::I16;
    EXPECT_EQ(
        refusal([&] { inferred(row, "(2)", dtype, "(2)", other); }),
        fmt::format(
            "malformed: {} 'Node' (%r): operand 1 (%y) must be {} like operand 0 (%x), got {}.\n",
            row.op, name_of(dtype), name_of(other)));
    EXPECT_EQ(refusal([&] { inferred(row, "(2, 3)", dtype, "(4)", dtype); }),
              fmt::format("malformed: {} 'Node' (%r): dimension 1 of operand 0: expected 4 or 1, "
                          "got 3.\n  operand 0 (%x): {}\n  operand 1 (%y): {}\n",
                          row.op, tensor_type("(2, 3)", dtype), tensor_type("(4)", dtype)));
    const Module module = inferred(row, "(n)", dtype, "(m)", dtype);
    EXPECT_EQ(refusal([&] { evaluated(row, module, Tensor(dtype, {3}), Tensor(dtype, {4})); }),
              fmt::format("inputs: {} 'Node' (%r): shapes (3) and (4) don't broadcast: 3 and 4 in "
                          "dimension 0 of the result.\n",
                          row.op));
  });
}

}  // namespace
}  // namespace anydim::ir::test
