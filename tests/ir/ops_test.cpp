#include "ir/ops.h"

#include <gtest/gtest.h>

#include <set>

#include "ir/error.h"
#include "ir/module.h"

namespace anydim::ir {
namespace {

TEST(OpsTable, EveryNameFindsItsRow) {
  std::set<std::string_view> names;
  for (const OpInfo& row : all_ops()) {
    EXPECT_EQ(op_named(row.text), row.op) << row.text;
    EXPECT_EQ(&info(row.op), &row);
    EXPECT_TRUE(names.insert(row.text).second) << row.text << " stands twice";
  }
  EXPECT_FALSE(op_named("no_such_op"));
}

TEST(OpsTable, AritiesAreConsistent) {
  for (const OpInfo& row : all_ops()) {
    EXPECT_GE(row.minimum_operands, 0) << row.text;
    if (row.maximum_operands != -1) {
      EXPECT_LE(row.minimum_operands, row.maximum_operands) << row.text;
    }
    if (row.has(traits::literal)) {
      EXPECT_EQ(row.maximum_operands, 0) << row.text;
    }
    if (row.has(traits::commutative)) {
      EXPECT_EQ(row.minimum_operands, 2) << row.text;
      EXPECT_EQ(row.maximum_operands, 2) << row.text;
    }
    if (row.has(traits::elementwise)) {
      EXPECT_EQ(row.results, 1) << row.text;
    }
  }
}

TEST(OpsTable, DynamicNamesAndTraitAgree) {
  for (const OpInfo& row : all_ops())
    EXPECT_EQ(row.has(traits::dynamic), row.text.starts_with("dyn.")) << row.text;
}

TEST(OpsTable, TwinsPointAtEachOther) {
  EXPECT_EQ(static_twin(Op::dyn_reshape), Op::reshape);
  EXPECT_EQ(dynamic_twin(Op::reshape), Op::dyn_reshape);
  EXPECT_FALSE(static_twin(Op::reshape));
  EXPECT_FALSE(dynamic_twin(Op::matmul));
  for (const OpInfo& row : all_ops()) {
    if (!row.has(traits::dynamic)) continue;
    const auto twin = static_twin(row.op);
    ASSERT_TRUE(twin) << row.text << " has no static twin";
    EXPECT_EQ(dynamic_twin(*twin), row.op) << row.text;
  }
}

TEST(OpsTable, AttributesParse) {
  for (const OpInfo& row : all_ops()) {
    std::set<std::string_view> names;
    for (const AttributeInfo& attribute : attributes_of(row.op)) {
      EXPECT_FALSE(attribute.name.empty()) << row.text;
      EXPECT_TRUE(names.insert(attribute.name).second) << row.text << "." << attribute.name;
    }
  }
  const auto sum = attributes_of(Op::reduce_sum);
  ASSERT_EQ(sum.size(), 2u);
  EXPECT_EQ(sum[0].name, "axes");
  EXPECT_EQ(sum[0].kind, AttributeInfo::Kind::Integers);
  EXPECT_TRUE(sum[0].optional);
  EXPECT_FALSE(sum[0].default_text);
  EXPECT_EQ(sum[1].default_text, "0");
  const auto perm = attributes_of(Op::cast);
  ASSERT_EQ(perm.size(), 1u);
  EXPECT_FALSE(perm[0].optional);
}

TEST(Attributes, DefaultsComeFromTheTable) {
  Binding norm{.op = Op::layer_norm};
  EXPECT_EQ(integer_attribute(norm, "axis"), -1);
  EXPECT_EQ(real_attribute(norm, "epsilon"), 1e-5);
  norm.attributes["axis"] = std::int64_t{2};
  EXPECT_EQ(integer_attribute(norm, "axis"), 2);
  EXPECT_TRUE(has_attribute(norm, "axis"));
  EXPECT_FALSE(has_attribute(norm, "epsilon"));
  EXPECT_EQ(dtype_attribute(Binding{.op = Op::arange}, "dtype"), DType::I64);
}

std::string message_of(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Internal);
    return error.what();
  }
  return "no error";
}

TEST(Attributes, AbsentOrOfAnotherKindIsInternal) {
  Binding reshape{.op = Op::reshape, .source = "/view"};
  EXPECT_NE(message_of([&] {
              integers_attribute(reshape, "shape");
            }).find("reshape '/view' has attribute 'shape'"),
            std::string::npos);
  reshape.attributes["shape"] = std::int64_t{3};
  EXPECT_NE(message_of([&] {
              integers_attribute(reshape, "shape");
            }).find("of the kind that ir/ops.def gives it"),
            std::string::npos);
}

TEST(Function, ValueNamesStayUnique) {
  Function function;
  EXPECT_EQ(function.values[function.add_value("y")].name, "y");
  EXPECT_EQ(function.values[function.add_value("y")].name, "y_1");
  EXPECT_EQ(function.values[function.add_value("y_5")].name, "y_5");
  EXPECT_EQ(function.values[function.add_value("y")].name, "y_6");
  EXPECT_EQ(function.values[function.add_value("yes")].name, "yes");
  EXPECT_EQ(function.values[function.add_value("y_1")].name, "y_1_1");
  EXPECT_EQ(function.values[function.add_value("y_x")].name, "y_x");
}

TEST(Function, DescribesABinding) {
  Function function;
  const ValueId y = function.add_value("y");
  EXPECT_EQ(describe(function, Binding{.op = Op::add, .results = {y}, .source = "/bert/Add_1"}),
            "add '/bert/Add_1' (%y)");
  EXPECT_EQ(describe(function, Binding{.op = Op::bind}), "bind");
}

TEST(Function, TensorTypeOfSomethingElseIsInternal) {
  Function function;
  function.name = "main";
  const ValueId y = function.add_value("y");
  EXPECT_NE(
      message_of([&] { function.tensor_type(y); }).find("value %y of function @main is a tensor"),
      std::string::npos);
}

}  // namespace
}  // namespace anydim::ir
