// Index expressions in kernels against Dim::evaluate, at every point of a small iteration space.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <optional>
#include <vector>

#include "codegen_cpu/emitters.h"
#include "codegen_cpu/scalars/index_emitter.h"
#include "ir/error.h"
#include "tests/codegen_cpu/expect_right.h"

namespace anydim::codegen_cpu::testing {
namespace {

using ir::Dim;

constexpr std::int64_t rows = 3, columns = 21;

// A map that stores `dim` over i < rows, j < columns and the region's symbol s.
TestRegion region_storing(const Dim& dim) {
  TestRegion test = make_region(
      "fn @main(%x: Tensor[(s), i64], %y: Tensor[(3, 21), i64]) -> Tensor[(3, 21), i64]\n  where s "
      "in [0, 100] {\n"
      "  %z = neg(%y)\n  return %z\n}");
  ir::MapPart part;
  part.space = {{{.symbol = "i"}, Dim(rows)}, {{.symbol = "j"}, Dim(columns)}};
  for (const ir::Iteration& iteration : part.space) {
    ir::SymbolInfo info;
    info.high = *iteration.extent.constant() - 1;
    info.below = iteration.extent;
    test.form.symbols.declare(iteration.variable, info);
  }
  part.program.steps = {{ir::DType::I64, ir::step::Extent{dim}}};
  part.stores = {{0, {Dim::symbol("i"), Dim::symbol("j")}, 0}};
  test.form.kind = ir::MapForm{{part}};
  return test;
}

rc::Gen<Dim> arbitrary_dim(int depth) {
  const std::vector<std::string> names{"i", "j", "j", "s"};
  const auto leaf =
      rc::gen::oneOf(rc::gen::map(rc::gen::inRange(-5, 12), [](int value) { return Dim(value); }),
                     rc::gen::map(rc::gen::elementOf(names),
                                  [](const std::string& name) { return Dim::symbol(name); }));
  if (depth == 0) return leaf;
  const auto pair = rc::gen::pair(arbitrary_dim(depth - 1), arbitrary_dim(depth - 1));
  using Pair = std::pair<Dim, Dim>;
  return rc::gen::oneOf(
      leaf, rc::gen::map(pair, [](const Pair& p) { return p.first + p.second; }),
      rc::gen::map(pair, [](const Pair& p) { return p.first - p.second * 3; }),
      rc::gen::map(pair, [](const Pair& p) { return p.first * p.second; }),
      rc::gen::map(pair, [](const Pair& p) { return min(p.first, p.second); }),
      rc::gen::map(pair, [](const Pair& p) { return max(p.first, p.second); }),
      rc::gen::map(pair,
                   [](const Pair& p) {
                     return p.second.is_constant(0) ? p.first : floor_div(p.first, p.second);
                   }),
      rc::gen::map(
          pair,
          [](const Pair& p) { return p.second.is_constant(0) ? p.first : mod(p.first, p.second); }),
      rc::gen::map(pair, [](const Pair& p) { return broadcast(p.first, p.second); }),
      rc::gen::map(rc::gen::pair(pair, pair), [](const std::pair<Pair, Pair>& p) {
        return select(ir::Comparison::LessEqual, p.first.first, p.first.second, p.second.first,
                      p.second.second);
      }));
}

// First difference between kernels that store `dim` and its evaluation; empty: none.
std::string difference_at(const Dim& dim, std::int64_t s) {
  const TestRegion region = region_storing(dim);
  for (const Target& target : targets()) {
    for (const ir::Schedule& schedule : candidates(region, target, {})) {
      const TestKernel kernel = compile(region, target, {}, schedule);
      const auto got =
          run(region, target, kernel, {{"s", s}}, random_inputs(region, {{"s", s}}, 1));
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
          std::int64_t expected = 0;
          try {
            expected = dim.evaluate([&](const ir::DimLeaf& leaf) {
              return leaf.symbol == "i" ? i : leaf.symbol == "j" ? j : s;
            });
          } catch (const Error&) {
            continue;  // no value here: the kernel may store anything, but it must not trap
          }
          const std::int64_t stored = got[0].integer_at(i * columns + j);
          if (stored != expected)
            return fmt::format("{} at i={} j={} s={} on {}: expected {}, got {}", dim.to_string(),
                               i, j, s, name_of(target.level), expected, stored);
        }
      }
    }
  }
  return "";
}

TEST(IndexEmitter, DivisorsThatAreZeroInSomeLanes) {
  const Dim j = Dim::symbol("j"), s = Dim::symbol("s");
  const Dim divisor = select(ir::Comparison::Less, j, s, j, 0);
  for (const Dim& dividend : {min(Dim(-5), s), s - 50, 3 * j}) {
    EXPECT_EQ(difference_at(floor_div(dividend, divisor), 3), "");
    EXPECT_EQ(difference_at(mod(dividend, divisor), 17), "");
    // 0 only in lanes behind the loop's end.
    EXPECT_EQ(difference_at(floor_div(dividend, j - columns), 0), "");
    EXPECT_EQ(difference_at(mod(dividend, j - columns) * max(s, j), 0), "");
  }
}

// Lanes that begin with a multiple of their number do not leave a remainder's period amid a vector.
TEST(LaneStride, OfRemaindersWhereLanesAreAligned) {
  ir::SymbolTable symbols;
  symbols.declare("n");
  symbols.declare("s");
  const Dim n = Dim::symbol("n"), s = Dim::symbol("s");
  struct Case {
    Dim dim;
    std::optional<Dim> anywhere, aligned;
  };
  const std::vector<Case> cases{
      {n, 1, 1},
      {2 * n + mod(s, 64), 2, 2},
      {mod(n, 64), std::nullopt, 1},
      {floor_div(n, 16), std::nullopt, 0},
      {3 * s * floor_div(n, 32) + 2 * mod(n, 32), std::nullopt, 2},
      {s * mod(n, 48), std::nullopt, s},
      {mod(n, 24), std::nullopt, std::nullopt},
      {mod(n, s), std::nullopt, std::nullopt},
      {mod(n + 1, 64), std::nullopt, std::nullopt},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.dim.to_string());
    for (const bool aligned : {false, true}) {
      Scope scope(nullptr, nullptr);
      scope.set_lanes({.variable = n.leaf(), .width = 16, .aligned = aligned});
      EXPECT_EQ(lane_stride(scope, one.dim, symbols), aligned ? one.aligned : one.anywhere);
    }
  }
}

TEST(IndexEmitter, AgreesWithEvaluation) {
  ASSERT_TRUE(rc::check([] {
    Dim dim;
    try {
      dim = *arbitrary_dim(3);
    } catch (const Error&) {
      RC_DISCARD("the expression divides by zero everywhere");
    }
    const std::string difference = difference_at(dim, *rc::gen::inRange<std::int64_t>(0, 20));
    if (!difference.empty()) RC_FAIL(difference);
  }));
}

}  // namespace
}  // namespace anydim::codegen_cpu::testing
