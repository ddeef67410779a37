// What tests/ir/ops cannot show of shape rules: proofs of preconditions, ranges that follow from
// them, and the expressions themselves.
#include "ir/shapes/shape_rule.h"

#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/shapes/infer.h"
#include "ir/shapes/shape_rules.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"

namespace anydim::ir {
namespace {

using Relation = Relation;

const Dim n = Dim::symbol("n"), m = Dim::symbol("m");

SymbolTable table() {
  SymbolTable symbols;
  SymbolInfo info{.low = 1, .high = 100, .below = {}, .reason = {}};
  symbols.declare("n", info);
  info.low = 0;
  info.multiple = 4;
  symbols.declare("m", info);
  return symbols;
}

Proof proof(Relation relation, const Dim& left, const Dim& right) {
  return prove({relation, left, right, ""}, table());
}

TEST(Precondition, IsProvenFromRanges) {
  EXPECT_EQ(proof(Relation::Equal, n + 1, 1 + n), Proof::Yes);
  EXPECT_EQ(proof(Relation::Equal, n, 101), Proof::No);
  EXPECT_EQ(proof(Relation::Equal, n, m), Proof::Unknown);
  EXPECT_EQ(proof(Relation::Broadcastable, n, 1), Proof::Yes);
  EXPECT_EQ(proof(Relation::Broadcastable, n + 1, 200), Proof::No);
  EXPECT_EQ(proof(Relation::Broadcastable, n, 200), Proof::Unknown);  // n may be 1
  EXPECT_EQ(proof(Relation::ExpandsTo, 1, n), Proof::Yes);
  EXPECT_EQ(proof(Relation::ExpandsTo, n + 1, 1), Proof::No);  // it would shrink
  EXPECT_EQ(proof(Relation::LessEqual, n, 100), Proof::Yes);
  EXPECT_EQ(proof(Relation::LessEqual, 101, n), Proof::No);
  EXPECT_EQ(proof(Relation::NonZero, n, 0), Proof::Yes);
  EXPECT_EQ(proof(Relation::NonZero, m, 0), Proof::Unknown);
  EXPECT_EQ(proof(Relation::NonZero, 0, 0), Proof::No);
  EXPECT_EQ(proof(Relation::MultipleOf, m * n, 4), Proof::Yes);
  EXPECT_EQ(proof(Relation::MultipleOf, m + 2, 4), Proof::No);
  EXPECT_EQ(proof(Relation::MultipleOf, n, 4), Proof::Unknown);
  EXPECT_EQ(proof(Relation::MultipleOf, n, 0), Proof::No);
  EXPECT_EQ(proof(Relation::MultipleOf, n * m, n), Proof::Yes);
  EXPECT_EQ(proof(Relation::MultipleOf, n * m, m), Proof::Unknown);  // m may be 0
}

TEST(Precondition, SaysWhatItExpects) {
  const Function function;
  EXPECT_EQ(to_string({Relation::Equal, n, 3, "dimension 1 of operand 0"}, function),
            "dimension 1 of operand 0: expected 3, got n");
  EXPECT_EQ(to_string({Relation::Broadcastable, 4, 3, "dimension 1 of operand 0"}, function),
            "dimension 1 of operand 0: expected 3 or 1, got 4");
  EXPECT_EQ(to_string({Relation::Broadcastable, n, m, "dimension 1 of operand 0"}, function),
            "dimension 1 of operand 0: expected m or one of both 1, got n");
  EXPECT_EQ(to_string({Relation::ExpandsTo, n, 3, "x"}, function), "x: expected 3 or 1, got n");
  EXPECT_EQ(to_string({Relation::LessEqual, n, 3, "x"}, function), "x: expected at most 3, got n");
  EXPECT_EQ(to_string({Relation::NonZero, n, 0, "x"}, function),
            "x: expected a number other than 0, got n");
  EXPECT_EQ(to_string({Relation::MultipleOf, n, 3, "x"}, function),
            "x: expected a multiple of 3, got n");
}

struct Narrowed {
  bool changed;
  std::int64_t low, high;
  std::string reason;
  bool operator==(const Narrowed&) const = default;
};

Narrowed narrow(Relation relation, const Dim& left, const Dim& right,
                SymbolTable symbols = table()) {
  const bool changed = narrow_from({relation, left, right, ""}, symbols, "add 'Node' (%y)");
  const SymbolInfo& info = *symbols.find("n");
  return {changed, info.low, info.high, info.reason};
}

TEST(NarrowFrom, TakesWhatThePreconditionImplies) {
  const std::string why = "add 'Node' (%y)";
  EXPECT_EQ(narrow(Relation::Equal, n, 7), (Narrowed{true, 7, 7, why}));
  EXPECT_EQ(narrow(Relation::Equal, 7, n), (Narrowed{true, 7, 7, why}));
  EXPECT_EQ(narrow(Relation::LessEqual, n, 50), (Narrowed{true, 1, 50, why}));
  EXPECT_EQ(narrow(Relation::LessEqual, 50, n), (Narrowed{true, 50, 100, why}));
  // A position table of 64 rows, sliced to the length; with RoBERTa's offset of 2; and a slice of a
  // slice.
  EXPECT_EQ(narrow(Relation::Broadcastable, n, min(n, 64)), (Narrowed{true, 1, 64, why}));
  EXPECT_EQ(narrow(Relation::Broadcastable, min(n, 64), n), (Narrowed{true, 1, 64, why}));
  EXPECT_EQ(narrow(Relation::Broadcastable, n, max(0, min(n + 2, 64) - 2)),
            (Narrowed{true, 1, 62, why}));
  EXPECT_EQ(narrow(Relation::Broadcastable, n, 64), (Narrowed{true, 1, 64, why}));  // 64 or 1
  EXPECT_EQ(narrow(Relation::ExpandsTo, n, min(n, 64)), (Narrowed{true, 1, 64, why}));
}

TEST(NarrowFrom, TakesNoMore) {
  const Narrowed unchanged{false, 1, 100, ""};
  EXPECT_EQ(narrow(Relation::Broadcastable, n, min(n, 1)), unchanged);  // 1 goes with every length
  EXPECT_EQ(narrow(Relation::Broadcastable, n, min(Dim::symbol("k"), 50)),
            unchanged);  // which may be 1
  EXPECT_EQ(narrow(Relation::Equal, n, m), unchanged);
  EXPECT_EQ(narrow(Relation::Equal, 2 * n, 8), unchanged);
  EXPECT_EQ(narrow(Relation::LessEqual, n, 100), unchanged);
  EXPECT_EQ(narrow(Relation::NonZero, n, 0), unchanged);
}

TEST(NarrowFrom, RefusesAnEmptyRange) {
  SymbolTable symbols = table();
  symbols.narrow("n", {.low = 20}, "check_shape 'First' (%a)");
  try {
    narrow(Relation::LessEqual, n, 10, symbols);
    FAIL() << "no value of n is left";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
    const std::string message = error.what();
    EXPECT_NE(message.find("check_shape 'First' (%a)"), std::string::npos) << message;
    EXPECT_NE(message.find("add 'Node' (%y)"), std::string::npos) << message;
  }
}

std::int64_t least(Relation relation, const Dim& left, const Dim& right, std::int64_t low = 1) {
  SymbolTable symbols = table();
  SymbolInfo info = *symbols.find("n");
  info.low = low;
  symbols.declare("n", info);
  const auto of_parameter = [](const std::string& symbol) { return symbol == "n"; };
  const bool changed =
      narrow_from_below({relation, left, right, ""}, of_parameter, symbols, "windows 'Node' (%y)");
  info = *symbols.find("n");
  EXPECT_EQ(changed, info.low > low);
  EXPECT_EQ(info.reason, changed ? "windows 'Node' (%y)" : "");
  return info.low;
}

TEST(NarrowFromBelow, TakesTheLeastValueThatIsNotRefuted) {
  EXPECT_EQ(least(Relation::GreaterEqual, floor_div(n - 3, 2) + 1, 4), 9);
  EXPECT_EQ(least(Relation::LessEqual, 3, floor_div(floor_div(n, 7) - 1, 2)), 49);
  EXPECT_EQ(least(Relation::LessEqual, 10, min(n * n, 3 * n)), 4);
  EXPECT_EQ(least(Relation::GreaterEqual, mod(n, 7), 3), 3);  // 7 is for the run to check
  EXPECT_EQ(least(Relation::Equal, 2 * n, m + 5, 0), 1);
}

TEST(NarrowFromBelow, TakesNoMore) {
  EXPECT_EQ(least(Relation::GreaterEqual, n, 1), 1);
  EXPECT_EQ(least(Relation::GreaterEqual, m, 50), 1);  // m is not a parameter's
  EXPECT_EQ(least(Relation::GreaterEqual, n + m, 20), 1);
  EXPECT_EQ(least(Relation::Equal, 2 * n, 7), 1);
  EXPECT_EQ(least(Relation::MultipleOf, n, 8), 1);
}

TEST(SliceExtent, IsPlainWhereSignsAreKnown) {
  const SymbolTable symbols = table();
  const auto text = [&](const Dim& start, const Dim& end, const Dim& step) {
    return simplify(slice_extent(n, start, end, step, symbols), symbols).to_string();
  };
  const std::int64_t last = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(text(0, last, 1), "n");
  EXPECT_EQ(text(1, last, 1), "n - 1");  // n is at least 1
  EXPECT_EQ(text(0, -1, 1), "n - 1");
  EXPECT_EQ(text(0, 64, 1), "min(64, n)");
  EXPECT_EQ(text(0, m, 1), "min(m, n)");
  EXPECT_EQ(text(-1, -last - 1, -1), "n");
  EXPECT_EQ(text(0, last, 2), "ceil_div(n, 2)");
  EXPECT_EQ(text(0, last, last), "1");
}

TEST(TruncatingDivision, IsFloorWhereNothingIsNegative) {
  const SymbolTable symbols = table();
  EXPECT_EQ(truncating_div(n, 4, symbols), floor_div(n, 4));
  const auto at = [&](std::int64_t value) {
    return truncating_div(n - 50, -4, symbols).evaluate([&](const DimLeaf&) { return value; });
  };
  EXPECT_EQ(at(1), 12);
  EXPECT_EQ(at(50), 0);
  EXPECT_EQ(at(55), -1);
}

// The shape data of the function's result after inference, as text.
std::string contents_of_result(const std::string& text) {
  Module module = parse(text);
  const InferenceResult inferred = infer_types(module);
  const Function& main = module.functions[0];
  const ShapeData& shape_data = inferred.functions[0].shape_data[main.body.results[0]];
  if (!shape_data) return "unknown";
  std::string joined;
  for (const Dim& dim : *shape_data) joined += (joined.empty() ? "" : ", ") + print(main, dim);
  return "(" + joined + ")";
}

TEST(ShapeData, AreFollowedThroughShapeArithmetic) {
  const auto of = [](const std::string& body) {
    return contents_of_result(
        "fn @main(%x: Tensor[(b, s, 12), f32], %k: Tensor[(2), i64], %f: Tensor[(), f32]) { %s = "
        "shape_of(%x) " +
        body + " }");
  };
  EXPECT_EQ(of("return %s"), "(b, s, 12)");
  EXPECT_EQ(of("%r = mul(%s, shape(2, 3, 4)) return %r"), "(2*b, 3*s, 48)");
  EXPECT_EQ(of("%r = div(%s, shape(1, 2, 5)) return %r"), "(b, floor_div(s, 2), 2)");
  EXPECT_EQ(of("%r = mod(%s, dim(5)) return %r"), "(mod(b, 5), mod(s, 5), 2)");
  EXPECT_EQ(of("%r = reduce_prod(%s) return %r"), "(12*b*s)");
  EXPECT_EQ(of("%r = reduce_sum(%s) {axes = (0), keepdims = 1} return %r"), "(b + s + 12)");
  EXPECT_EQ(of("%r = reduce_max(%s) return %r"), "(max(12, b, s))");
  EXPECT_EQ(of("%r = concat(%s, shape(-1)) {axis = 0} return %r"), "(b, s, 12, -1)");
  EXPECT_EQ(of("%r = concat(%s, %k) {axis = 0} return %r"),
            "(b, s, 12, value(%k, 0), value(%k, 1))");
  EXPECT_EQ(of("%r = strided_slice(%s) {starts = (-2), ends = (9)} return %r"), "(s, 12)");
  EXPECT_EQ(of("%r = gather(%s, constant(i64 (2) [2, -3])) return %r"), "(12, b)");
  EXPECT_EQ(of("%r = where(equal(%s, shape(1, 1, 12)), shape(7, 8, 9), %s) return %r"),
            "(select(b == 1, 7, b), select(s == 1, 8, s), 9)");
  EXPECT_EQ(of("%r = tile(%s) {repeats = (2)} return %r"), "(b, s, 12, b, s, 12)");
  EXPECT_EQ(of("%r = full(%f) {shape = (2)} return %r"), "unknown");
  EXPECT_EQ(of("%r = add(%k, %k) return %r"),
            "unknown");  // nothing is gained by following what only the run knows
  EXPECT_EQ(of("%r = cast(mul(%s, dim(100))) {to = i32} return %r"),
            "unknown");  // 100 s may wrap in i32
  EXPECT_EQ(of("%r = cast(cast(%s) {to = i32}) {to = i64} return %r"), "(b, s, 12)");
  EXPECT_EQ(of("%r = div(%s, shape(0, 1, 1)) return %r"), "unknown");            // the run fails
  EXPECT_EQ(of("%r = mul(%s, dim(9223372036854775807)) return %r"), "unknown");  // the run wraps
  EXPECT_EQ(of("%r = arange() {start = 3, stop = 9, step = 2} return %r"), "(3, 5, 7)");
}

TEST(ShapeRule, CountsOperands) {
  Function function;
  Binding binding;
  binding.op = Op::add;
  binding.results = {function.add_value("y")};
  const Type type = TensorType{DType::F32, {n}};
  const std::vector<OperandFacts> one{{&type, nullptr, nullptr}};
  SymbolTable symbols;
  try {
    apply_shape_rule(function, binding, one, symbols);
    FAIL() << "add takes two operands";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Malformed);
    EXPECT_STREQ(error.what(), "add (%y): expected 2 operands, got 1.");
  }
}

}  // namespace
}  // namespace anydim::ir
