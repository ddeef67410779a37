// The canonical form of dims, identity by identity.
#include "ir/dims/dim.h"

#include <gtest/gtest.h>

#include "ir/dims/symbols.h"
#include "ir/error.h"

namespace anydim::ir {
namespace {

Dim sym(const char* name) { return Dim::symbol(name); }

const Dim a = sym("a"), b = sym("b"), c = sym("c"), i = sym("i"), k = sym("k"), m = sym("m"),
          n = sym("n"), s = sym("s"), t = sym("t");

std::string text(const Dim& dim) { return dim.to_string(); }

TEST(DimForm, SumsAndProducts) {
  EXPECT_EQ(text(1 + n + n), "2*n + 1");
  EXPECT_EQ(n + m, m + n);
  EXPECT_EQ(n - n, Dim(0));
  EXPECT_EQ((n + 1) * (n - 1), n * n - 1);
  EXPECT_EQ(text(b * s * 384 - b + 2), "384*b*s - b + 2");
  EXPECT_EQ(text(0 - n), "-n");
  EXPECT_EQ((a + b) * (a + b), a * a + 2 * a * b + b * b);
  EXPECT_EQ(product(std::vector<Dim>{b, s, 4}), 4 * s * b);
  EXPECT_EQ(product({}), Dim(1));
  EXPECT_EQ((n * 0).constant(), 0);
}

TEST(DimForm, KindsAndParts) {
  EXPECT_EQ((2 * n).kind(), Dim::Kind::Sum);
  EXPECT_EQ((n * m).kind(), Dim::Kind::Sum);
  EXPECT_EQ((n + 0).kind(), Dim::Kind::Symbol);
  const Dim sum = 3 * n * m + n + 7;
  ASSERT_EQ(sum.terms().size(), 2u);
  EXPECT_EQ(sum.terms()[0].coefficient, 3);
  EXPECT_EQ(sum.terms()[0].factors, (std::vector<Dim>{m, n}));
  EXPECT_EQ(sum.constant_part(), 7);
  EXPECT_EQ(Dim::value(3, 1).leaf(), element_leaf(3, 1));
  EXPECT_EQ(n.leaf().symbol, "n");
}

TEST(DimForm, OrderIsTotal) {
  const std::vector<Dim> dims = {0,
                                 3,
                                 n,
                                 m,
                                 n + 1,
                                 n * m,
                                 floor_div(n, m),
                                 mod(n, 3),
                                 min(n, m),
                                 max(n, 2),
                                 Dim::value(1, 0),
                                 Dim::value(1, 1)};
  for (std::size_t x = 0; x < dims.size(); ++x) {
    for (std::size_t y = 0; y < dims.size(); ++y) {
      EXPECT_EQ((dims[x] < dims[y]) + (dims[y] < dims[x]) + (dims[x] == dims[y]), 1)
          << text(dims[x]) << " ? " << text(dims[y]);
    }
  }
}

TEST(Division, ExactPartsComeOut) {
  EXPECT_EQ(floor_div(n * 4, 4), n);
  EXPECT_EQ(floor_div(b * s * 384, s * 384), b);
  EXPECT_EQ(floor_div(i * s + k, s), i + floor_div(k, s));
  EXPECT_EQ(mod(i * s + k, s), mod(k, s));
  EXPECT_EQ(floor_div(2 * n + 1, 2), n);
  EXPECT_EQ(mod(2 * n + 1, 2), Dim(1));
  EXPECT_EQ(floor_div(n + 7, 3), floor_div(n + 1, 3) + 2);
  EXPECT_EQ(mod(n + 7, 3), mod(n + 1, 3));
  EXPECT_EQ(floor_div(i * n + i + k, n + 1), i + floor_div(k, n + 1));
  EXPECT_EQ(mod((n + 1) * (m + 2) * i + k, (n + 1) * (m + 2)), mod(k, (n + 1) * (m + 2)));
  EXPECT_EQ(floor_div((a + b) * (a - b), a + b), a - b);
  EXPECT_EQ(floor_div(n, n), Dim(1));
  EXPECT_EQ(mod(n, n), Dim(0));
}

TEST(Division, CommonFactorsCancel) {
  EXPECT_EQ(floor_div(4 * n + 2, 6), floor_div(2 * n + 1, 3));
  EXPECT_EQ(mod(4 * n + 2, 6), 2 * mod(2 * n + 1, 3));
  EXPECT_EQ(floor_div(a * n, b * n), floor_div(a, b));
  EXPECT_EQ(mod(a * n, b * n), n * mod(a, b));
  EXPECT_EQ(floor_div(4 * n + 1, 8), floor_div(n, 2));
  EXPECT_EQ(mod(4 * n + 1, 8), 4 * mod(n, 2) + 1);
}

TEST(Division, Nested) {
  EXPECT_EQ(floor_div(floor_div(n, m), 3), floor_div(n, 3 * m));
  EXPECT_EQ(floor_div(floor_div(n, 2) + 3, 4), floor_div(n + 6, 8));
  EXPECT_EQ(mod(mod(n, 12), 4), mod(n, 4));
  EXPECT_EQ(mod(mod(n, m * s), s), mod(n, s));
  EXPECT_EQ(mod(5 * mod(n, 4) + k, 4), mod(n + k, 4));
  EXPECT_EQ(floor_div(mod(n, 12), 4), mod(floor_div(n, 4), 3));
}

TEST(Division, Signs) {
  EXPECT_EQ(floor_div(-7, 2), Dim(-4));
  EXPECT_EQ(mod(-7, 2), Dim(1));
  EXPECT_EQ(mod(7, -2), Dim(-1));
  EXPECT_EQ(floor_div(n, 0 - m), floor_div(0 - n, m));
  EXPECT_EQ(mod(n, 0 - m), 0 - mod(0 - n, m));
  EXPECT_EQ(ceil_div(n, 2), floor_div(n + 1, 2));
  EXPECT_EQ(ceil_div(n + 5, 8), floor_div(n + 12, 8));
  EXPECT_EQ(ceil_div(7, 2), Dim(4));
  EXPECT_EQ(ceil_div(-7, 2), Dim(-3));
}

TEST(Division, QuotientAndRemainderMeetAgain) {
  EXPECT_EQ(floor_div(m, s) * s + mod(m, s), m);
  EXPECT_EQ(floor_div(m, s) * s * 384 + mod(m, s) * 384 + k, m * 384 + k);
  EXPECT_EQ(floor_div(m, s) * s * t * k + t * k * mod(m, s) + a * b - 1, m * t * k + a * b - 1);
  EXPECT_EQ(n - 2 * floor_div(n, 2), mod(n, 2));
  EXPECT_EQ(n - mod(n, 4), 4 * floor_div(n, 4));
  EXPECT_EQ(floor_div(n + 3, 4) * 4 + mod(n + 3, 4), n + 3);
  EXPECT_EQ(floor_div(n, m + 1) * (m + 1) + mod(n, m + 1), n);
  EXPECT_EQ(floor_div(a + b, m + 1) * (m + 1) * t + mod(a + b, m + 1) * t, (a + b) * t);
  EXPECT_EQ(floor_div(4 * n + 2, 6) * 6 + mod(4 * n + 2, 6), 4 * n + 2);
  EXPECT_EQ(floor_div(0 - n, 3) * 3 + mod(0 - n, 3), 0 - n);
  // Three levels, as a [12, 32]-tiled index comes out of two reshapes.
  EXPECT_EQ(floor_div(m, 384) * 384 + mod(floor_div(m, 32), 12) * 32 + mod(m, 32), m);
}

TEST(Division, PartsOfAQuotientStay) {
  EXPECT_EQ(text(64 * floor_div(n, 2)), "64*floor_div(n, 2)");
  EXPECT_EQ(text(floor_div(n, 2) + mod(m, 2)), "floor_div(n, 2) + mod(m, 2)");
}

TEST(MinMax, Canonical) {
  EXPECT_EQ(min(n, m), min(m, n));
  EXPECT_EQ(min(n, min(m, n)), min(n, m));
  EXPECT_EQ(min(min(n, 5), 3), min(n, 3));
  EXPECT_EQ(min(n + 2, n - 1), n - 1);
  EXPECT_EQ(max(n + 2, n), n + 2);
  EXPECT_EQ(max(min(n, m), n), n);
  EXPECT_EQ(min(n, INT64_MAX), n);
  EXPECT_EQ(max(n, INT64_MIN), n);
  EXPECT_EQ(min(INT64_MAX, INT64_MAX), Dim(INT64_MAX));
  EXPECT_EQ(text(max(0, n - 1)), "max(0, n - 1)");
}

TEST(Select, Canonical) {
  using enum Comparison;
  EXPECT_EQ(select(Equal, n, n, a, b), a);
  EXPECT_EQ(select(Less, n, n + 1, a, b), a);
  EXPECT_EQ(select(Less, 3, 2, a, b), b);
  EXPECT_EQ(select(Equal, n, m, a, a), a);
  EXPECT_EQ(select(NotEqual, n, m, a, b), select(Equal, m, n, b, a));
  EXPECT_EQ(select(LessEqual, n, 3, a, b), select(Less, n, 4, a, b));
  EXPECT_EQ(select(Less, 3, n, a, b), select(LessEqual, 4, n, a, b));
  EXPECT_EQ(select(Equal, 2 * n + 1, 5, a, b), select(Equal, n, 2, a, b));
  EXPECT_EQ(select(Equal, 2 * n + 1, 2 * m, a, b), b);
  EXPECT_EQ(text(select(Equal, n, -1, a, b)), "select(n == -1, a, b)");
  EXPECT_EQ(text(select(LessEqual, n, m, a, b)), "select(m < n, b, a)");
  EXPECT_EQ(text(select(Less, n, INT64_MIN + 1, a, b)), "select(n < -9223372036854775807, a, b)");
  // Where n is 0 both are, but for an m of 0.
  EXPECT_EQ(text(select(Equal, n, 0, 0, floor_div(n, m))), "select(n == 0, 0, floor_div(n, m))");
  EXPECT_EQ(text(select(Equal, n, 0, 0, floor_div(n, 3))), "floor_div(n, 3)");
  EXPECT_EQ(select(Equal, n, 0, n * m, n), n);
  EXPECT_EQ(select(Equal, n, 3, n + a, b), select(Equal, n, 3, a + 3, b));
  EXPECT_EQ(text(select(Equal, n, 0, n * m + 1, n)), "select(n == 0, 1, n)");
  EXPECT_EQ(text(select(Equal, m, 0, 0, floor_div(n, m))), "select(m == 0, 0, floor_div(n, m))");
}

TEST(Broadcast, Canonical) {
  EXPECT_EQ(broadcast(1, n), n);
  EXPECT_EQ(broadcast(n, 1), n);
  EXPECT_EQ(broadcast(n, 5), Dim(5));
  EXPECT_EQ(broadcast(n, n), n);
  EXPECT_EQ(broadcast(n, m), broadcast(m, n));
  EXPECT_EQ(broadcast(n, broadcast(m, n)), broadcast(n, m));
  EXPECT_EQ(broadcast(broadcast(a, b), c), broadcast(a, broadcast(c, b)));
}

TEST(Print, ReadsLikeTheGrammar) {
  EXPECT_EQ(text(ceil_div(n, s)), "ceil_div(n, s)");
  EXPECT_EQ(text(0 - ceil_div(n, s)), "-ceil_div(n, s)");
  EXPECT_EQ(text(ceil_div(n, 8) * 8), "8*ceil_div(n, 8)");
  EXPECT_EQ(text(2 - 3 * ceil_div(n + 1, s)), "-3*ceil_div(n + 1, s) + 2");
  EXPECT_EQ(text(Dim::value(3, 1) + 1), "value(%3, 1) + 1");
  EXPECT_EQ(Dim::value(3, 1).to_string([](ValueId) { return "%shape"; }), "value(%shape, 1)");
  EXPECT_EQ(text(broadcast(n, m) * min(n, min(m, 3))), "min(3, m, n)*broadcast(m, n)");
  EXPECT_EQ(text(Dim(INT64_MIN)), "-9223372036854775808");
  EXPECT_EQ(text(n + INT64_MIN), "n - 9223372036854775808");
}

TEST(Leaves, LoopVariablesAndStepsAreNoSymbols) {
  const DimLeaf row = loop_leaf(LoopRole::MatrixRow), other = loop_leaf(LoopRole::MatrixRow, 1),
                step = step_leaf(3);
  const Dim dim = 8 * Dim::of(row) + Dim::of(step) + n;
  EXPECT_EQ(dim.to_string(), "#3 + 8*$m0 + n");
  EXPECT_EQ(to_string(step_leaf(3, 2)), "#2.3");
  EXPECT_TRUE(dim.mentions(row));
  EXPECT_FALSE(dim.mentions(other));
  EXPECT_FALSE(dim.mentions(step_leaf(3, 1)));
  EXPECT_NE(Dim::of(row), Dim::symbol("$m0"));
  EXPECT_EQ(dim.substitute(std::map<DimLeaf, Dim>{{row, 2}, {step, n}}), 16 + 2 * n);
  SymbolTable symbols;
  SymbolInfo below_four;
  below_four.below = Dim(4);
  symbols.declare(row, below_four);
  EXPECT_TRUE(symbols.names().empty());
  EXPECT_EQ(bounds(8 * Dim::of(row), symbols), (Interval{0, 24}));
  EXPECT_EQ(bounds(Dim::of(other), symbols).high, default_symbol_maximum);
}

TEST(Leaves, AreFoundAndReplaced) {
  const Dim dim = floor_div(n * m, Dim::value(2, 0)) + select(Comparison::Less, s, t, a, 1);
  EXPECT_EQ(dim.leaves().size(), 6u);
  EXPECT_TRUE(dim.mentions(DimLeaf{.symbol = "t"}));
  EXPECT_FALSE(dim.mentions(DimLeaf{.symbol = "b"}));
  EXPECT_TRUE(dim.mentions(element_leaf(2, 0)));
  EXPECT_EQ(dim.substitute({{"s", 1}, {"t", 2}, {"n", 6}}), floor_div(6 * m, Dim::value(2, 0)) + a);
  EXPECT_EQ(&dim.substitute({{"z", 1}}).node(), &dim.node());
  EXPECT_EQ((n + m).substitute({{"n", m}, {"m", n}}), n + m);
}

std::string error_of(const auto& action, ErrorKind kind = ErrorKind::Inputs) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "no error";
}

std::int64_t at(const Dim& dim, std::int64_t n_value, std::int64_t m_value) {
  return dim.evaluate([&](const DimLeaf& leaf) { return leaf.symbol == "n" ? n_value : m_value; });
}

TEST(Evaluate, Values) {
  EXPECT_EQ(at(3 * n * m - 2, 4, 5), 58);
  EXPECT_EQ(at(floor_div(n, m), -7, 2), -4);
  EXPECT_EQ(at(mod(n, m), -7, 2), 1);
  EXPECT_EQ(at(mod(n, m), 7, -2), -1);
  EXPECT_EQ(at(ceil_div(n, m), 7, 2), 4);
  EXPECT_EQ(at(select(Comparison::Equal, m, 0, 0, floor_div(n, m)), 7, 0), 0);
  EXPECT_EQ(at(broadcast(n, m), 1, 9), 9);
  EXPECT_EQ(at(n - m, INT64_MIN, INT64_MIN), 0);
}

TEST(Evaluate, ErrorsNameTheExpression) {
  EXPECT_EQ(error_of([] { at(floor_div(n, m) + 1, 3, 0); }),
            "the dim expression floor_div(n, m) + 1 divides by zero for m = 0, n = 3");
  EXPECT_EQ(error_of([] { at(n * m, INT64_MAX, 2); }),
            "the dim expression m*n leaves the range of 64-bit integers for m = 2, n = "
            "9223372036854775807");
  EXPECT_EQ(error_of([] { at(floor_div(n, m), INT64_MIN, -1); }),
            "the dim expression floor_div(n, m) leaves the range of 64-bit integers for m = -1, n "
            "= -9223372036854775808");
  EXPECT_EQ(error_of([] { floor_div(3, 0).evaluate([](const DimLeaf&) { return 0; }); }),
            "the dim expression floor_div(3, 0) divides by zero");
}

TEST(Limits, CoefficientsThatOverflowAreErrors) {
  EXPECT_EQ(error_of([] { (n * INT64_MAX) * 2; }),
            "the dim expression (9223372036854775807*n) * (2) leaves the range of 64-bit integers");
  EXPECT_EQ(error_of([] { Dim(INT64_MAX) + 1; }),
            "the dim expression (9223372036854775807) + (1) leaves the range of 64-bit integers");
  EXPECT_EQ(
      error_of([] { floor_div(INT64_MIN, -1); }),
      "the dim expression floor_div(-9223372036854775808, -1) leaves the range of 64-bit integers");
  EXPECT_EQ(error_of([] { Dim(0) - Dim(INT64_MIN); }),
            "the dim expression (0) - (-9223372036854775808) leaves the range of 64-bit integers");
}

TEST(Limits, ExplosionsEndInAnError) {
  Dim sum = 0;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) sum = sum + sym(name);
  const std::string message = error_of(
      [&] {
        Dim power = 1;
        for (int times = 0; times < 40; ++times) power = power * sum;
      },
      ErrorKind::Unsupported);
  EXPECT_NE(message.find("simplify the model's shape arithmetic"), std::string::npos) << message;
  const std::string wide = error_of(
      [&] {
        Dim most = 0;
        for (int x = 0; x < 100; ++x) most = max(most, sym(("x" + std::to_string(x)).c_str()));
      },
      ErrorKind::Unsupported);
  EXPECT_EQ(
      wide,
      "a min or max of dims has more than 64 operands; simplify the model's shape arithmetic");
}

TEST(Limits, DeepNestingIsBounded) {
  Dim deep = n;
  for (int level = 0; level < 900; ++level)
    deep = floor_div(deep * m + 1, m + sym(level % 2 == 0 ? "s" : "t"));
  EXPECT_EQ(deep.substitute({{"n", 3}}).leaves().size(), 3u);
  EXPECT_LT(deep.to_string().size(), 100000u);
  EXPECT_EQ(deep.evaluate([](const DimLeaf&) { return 1; }), 1);
  const SymbolTable symbols;
  EXPECT_EQ(simplify(deep, symbols).leaves().size(), 4u);
  EXPECT_EQ(prove_less_equal(0, deep, symbols), Proof::Yes);
  const std::string message = error_of(
      [&] {
        for (int level = 0; level < 200; ++level) deep = floor_div(deep * m + 1, m + s);
      },
      ErrorKind::Unsupported);
  EXPECT_EQ(
      message,
      "a dim expression nests deeper than 1000 levels; simplify the model's shape arithmetic");
}

}  // namespace
}  // namespace anydim::ir
