// Ranges, proofs and simplification.
#include "ir/dims/symbols.h"

#include <gtest/gtest.h>

#include "ir/dims/assumed_extents.h"
#include "ir/dims/case_proof.h"
#include "ir/error.h"
#include "tests/ir/symbol_range.h"

namespace anydim::ir {
namespace {

Dim sym(const char* name) { return Dim::symbol(name); }

const Dim b = sym("b"), d = sym("d"), h = sym("h"), i = sym("i"), j = sym("j"), k = sym("k"),
          m = sym("m"), n = sym("n"), s = sym("s"), t = sym("t");

SymbolInfo below(Dim end) {
  SymbolInfo info;
  info.below = std::move(end);
  return info;
}

TEST(SymbolTable, DeclaresFindsAndRemoves) {
  SymbolTable symbols;
  symbols.declare("n", range(1, 8));
  symbols.declare("m");
  symbols.declare("n", range(1, 4));
  EXPECT_EQ(symbols.names(), (std::vector<std::string>{"n", "m"}));
  EXPECT_EQ(symbols.find("n")->high, 4);
  EXPECT_EQ(symbols.find("m")->high, default_symbol_maximum);
  EXPECT_FALSE(symbols.contains("z"));
  symbols.remove("n");
  EXPECT_EQ(symbols.names(), (std::vector<std::string>{"m"}));
}

TEST(AssumedExtents, HoldOfTheirPartsWhileTheyLive) {
  SymbolTable symbols;
  symbols.declare("n", range(-50, 50));
  const Dim e = Dim::value(3, 0), f = Dim::value(3, 1);
  {
    AssumedExtents assumed(symbols);
    assumed.add(floor_div(e + 7, 8));
    assumed.add(2 * n - 9);
    assumed.add(min(f, 6));
    EXPECT_EQ(bounds(e, symbols).low, -7);
    EXPECT_EQ(bounds(n, symbols).low, 5);
    EXPECT_EQ(bounds(f, symbols).low, 0);
    EXPECT_EQ(prove_equal(floor_div(e + 7, 8), -1, symbols), Proof::No);
    assumed.add(e * f);  // which of both is not told
    EXPECT_EQ(bounds(e, symbols).low, -7);
  }
  EXPECT_EQ(symbols.find(e.leaf()), nullptr);
  EXPECT_EQ(bounds(n, symbols).low, -50);
  EXPECT_EQ(prove_equal(floor_div(e + 7, 8), -1, symbols), Proof::Unknown);
}

TEST(SymbolTable, FreshNamesAreNew) {
  SymbolTable symbols;
  EXPECT_EQ(symbols.fresh("u"), sym("u"));
  EXPECT_EQ(symbols.fresh("u"), sym("u_1"));
  EXPECT_EQ(symbols.fresh("u"), sym("u_2"));
  EXPECT_EQ(symbols.fresh("v"), sym("v"));
  EXPECT_TRUE(symbols.find("u_1")->unbacked);
  for (int x = 3; x < 500; ++x)
    EXPECT_EQ(symbols.fresh("u"), Dim::symbol("u_" + std::to_string(x)));
}

TEST(SymbolTable, NarrowKeepsTheReason) {
  SymbolTable symbols;
  symbols.declare("seq");
  EXPECT_TRUE(symbols.narrow("seq", {INT64_MIN, 512}, "gather '/Gather'"));
  EXPECT_FALSE(symbols.narrow("seq", {0, 600}, "other"));
  EXPECT_EQ(symbols.find("seq")->reason, "gather '/Gather'");
  try {
    symbols.narrow("seq", {600, 700}, "add '/Add'");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
    EXPECT_STREQ(error.what(),
                 "dimension 'seq' can have no value: it is in [0, 512] (gather '/Gather'), but "
                 "must be in [600, 700] (add '/Add')");
  }
}

TEST(Bounds, OfEveryKind) {
  SymbolTable symbols;
  symbols.declare("n", range(1, 10));
  symbols.declare("m", range(-3, 4));
  symbols.declare("e", range(3, 21, 4));
  const auto of = [&](const Dim& dim) { return bounds(dim, symbols); };
  EXPECT_EQ(of(2 * n - 1), (Interval{1, 19}));
  EXPECT_EQ(of(n * m), (Interval{-30, 40}));
  EXPECT_EQ(of(m * m), (Interval{0, 16}));
  EXPECT_EQ(of(floor_div(m, n)), (Interval{-3, 4}));
  EXPECT_EQ(of(floor_div(n, m)), (Interval{-10, 10}));
  EXPECT_EQ(of(mod(m, 3)), (Interval{0, 2}));
  EXPECT_EQ(of(mod(n, 100)), (Interval{1, 10}));
  EXPECT_EQ(of(mod(n, m)), (Interval{-2, 3}));
  EXPECT_EQ(of(min(n, m)), (Interval{-3, 4}));
  EXPECT_EQ(of(max(n, m)), (Interval{1, 10}));
  EXPECT_EQ(of(select(Comparison::Less, n, m, 20, m)), (Interval{-3, 20}));
  EXPECT_EQ(of(broadcast(n, m)), (Interval{-3, 10}));
  EXPECT_EQ(of(sym("e")), (Interval{4, 20}));
  EXPECT_EQ(of(sym("undeclared")), (Interval{0, default_symbol_maximum}));
  EXPECT_EQ(of(Dim::value(0, 0)), Interval{});
}

TEST(Bounds, SaturateSoundly) {
  SymbolTable symbols;
  symbols.declare("big", range(INT64_MIN, INT64_MAX));
  EXPECT_EQ(bounds(s * t * h, symbols), (Interval{0, INT64_MAX}));
  EXPECT_EQ(bounds(0 - s * t * h * b, symbols), (Interval{INT64_MIN, 0}));
  EXPECT_EQ(bounds(sym("big") * sym("big"), symbols), (Interval{0, INT64_MAX}));
  EXPECT_EQ(bounds(sym("big") - 1, symbols), (Interval{INT64_MIN, INT64_MAX - 1}));
  EXPECT_EQ(bounds(floor_div(sym("big"), -1), symbols), (Interval{INT64_MIN + 1, INT64_MAX}));
}

TEST(Divisor, OfEveryKind) {
  SymbolTable symbols;
  symbols.declare("e", range(0, 1000, 8));
  const Dim e = sym("e");
  EXPECT_EQ(divisor(e, symbols), 8);
  EXPECT_EQ(divisor(e * n * 3 + 12, symbols), 12);
  EXPECT_EQ(divisor(floor_div(e, 4), symbols), 2);
  EXPECT_EQ(divisor(mod(e, 12), symbols), 4);
  EXPECT_EQ(divisor(min(e, 20), symbols), 4);
  EXPECT_EQ(divisor(select(Comparison::Less, n, m, e, 2), symbols), 2);
  EXPECT_EQ(divisor(0, symbols), 0);
  EXPECT_EQ(divisor(-6, symbols), 6);
}

TEST(Prove, Equality) {
  SymbolTable symbols;
  symbols.declare("e", range(0, 1000, 2));
  symbols.declare("one", range(1, 1));
  symbols.declare("n", range(1, 8));
  EXPECT_EQ(prove_equal(n + m, m + n, symbols), Proof::Yes);
  EXPECT_EQ(prove_equal(n, n + 1, symbols), Proof::No);
  EXPECT_EQ(prove_equal(n, m, symbols), Proof::Unknown);
  EXPECT_EQ(prove_equal(n, 9, symbols), Proof::No);
  EXPECT_EQ(prove_equal(sym("e"), 7, symbols), Proof::No);
  EXPECT_EQ(prove_equal(sym("e"), 2 * m + 1, symbols), Proof::No);
  EXPECT_EQ(prove_equal(sym("e"), 6, symbols), Proof::Unknown);
  EXPECT_EQ(prove_equal(sym("one"), 1, symbols), Proof::Yes);
  EXPECT_EQ(prove(Comparison::NotEqual, n, 9, symbols), Proof::Yes);
  EXPECT_EQ(prove_equal(INT64_MAX, sym("big") + INT64_MIN, symbols), Proof::Unknown);
}

TEST(Prove, Order) {
  SymbolTable symbols;
  symbols.declare("n", range(1, 8));
  symbols.declare("j", below(s));
  symbols.declare("m", below(b * s));
  EXPECT_EQ(prove_less(n, 9, symbols), Proof::Yes);
  EXPECT_EQ(prove_less(n, 1, symbols), Proof::No);
  EXPECT_EQ(prove_less(n, 5, symbols), Proof::Unknown);
  EXPECT_EQ(prove_less(j, s, symbols), Proof::Yes);
  EXPECT_EQ(prove_less_equal(s, j, symbols), Proof::No);
  EXPECT_EQ(prove_less(i * s + j, (i + 1) * s, symbols), Proof::Yes);
  EXPECT_EQ(prove_less(floor_div(m, s), b, symbols), Proof::Yes);
  EXPECT_EQ(prove_less(mod(m, s), s, symbols), Proof::Yes);
  EXPECT_EQ(prove_less_equal(min(s, 512), s, symbols), Proof::Yes);
  EXPECT_EQ(prove_less_equal(s, max(s, 512), symbols), Proof::Yes);
  EXPECT_EQ(prove_less_equal(floor_div(t, 2), t, symbols), Proof::Yes);
  EXPECT_EQ(prove_less_equal(t, 8 * ceil_div(t, 8), symbols), Proof::Yes);
  EXPECT_EQ(prove_less(8 * ceil_div(t, 8), t + 8, symbols), Proof::Yes);
  EXPECT_EQ(prove_less_equal(select(Comparison::Equal, t, 1, s, min(s, t)), s, symbols),
            Proof::Yes);
  EXPECT_EQ(prove(Comparison::LessEqual, 0, n * t - t, symbols), Proof::Yes);
}

TEST(Simplify, DecidedByRanges) {
  SymbolTable symbols;
  symbols.declare("seq", range(0, 512));
  symbols.declare("n");
  symbols.declare("two", range(2, 9));
  const Dim seq = sym("seq");
  EXPECT_EQ(simplify(min(seq, 512), symbols), seq);
  EXPECT_EQ(simplify(min(seq, 511), symbols), min(seq, 511));
  EXPECT_EQ(simplify(max(seq, 0), symbols), seq);
  EXPECT_EQ(simplify(max(0, min(seq, INT64_MAX)), symbols), seq);
  EXPECT_EQ(simplify(select(Comparison::Equal, n, -1, seq, n), symbols), n);
  EXPECT_EQ(simplify(select(Comparison::Less, n, 0, n + 4, n), symbols), n);
  EXPECT_EQ(simplify(select(Comparison::Less, n, n + seq + 1, 1, 0), symbols), Dim(1));
  EXPECT_EQ(simplify(broadcast(n, sym("two")), symbols), sym("two"));
  EXPECT_EQ(simplify(broadcast(n, seq), symbols), broadcast(n, seq));
  EXPECT_EQ(simplify(mod(seq, 513), symbols), seq);
  EXPECT_EQ(simplify(floor_div(seq, 513), symbols), Dim(0));
  symbols.declare("one", range(1, 1));
  EXPECT_EQ(simplify(sym("one") * n + broadcast(sym("one"), seq), symbols), n + seq);
}

TEST(Simplify, IndicesOfReshapes) {
  SymbolTable symbols;
  symbols.declare("b", range(1, 64));
  symbols.declare("s", range(0, 512));
  symbols.declare("i", below(b));
  symbols.declare("j", below(s));
  symbols.declare("k", below(t));
  symbols.declare("h", range(0, 11));
  symbols.declare("d", range(0, 31));
  symbols.declare("m", below(b * s));
  const auto same = [&](const Dim& dim, const Dim& expected) {
    EXPECT_EQ(simplify(dim, symbols), expected)
        << dim.to_string() << " gives " << simplify(dim, symbols).to_string();
  };
  same(floor_div(i * s + j, s), i);
  same(mod(i * s + j, s), j);
  same(floor_div(i * 12 * 32 + h * 32 + d, 32), i * 12 + h);
  same(mod(i * 12 * 32 + h * 32 + d, 32), d);
  same(floor_div(i * 12 * 32 + h * 32 + d, 384), i);
  same(mod(i * 12 * 32 + h * 32 + d, 384), h * 32 + d);
  same(mod(floor_div(i * 12 * 32 + h * 32 + d, 32), 12), h);
  // Strides of several symbols: [i, j, k] in [b, s, t], flattened and taken apart again.
  const Dim flat = i * s * t + j * t + k;
  same(floor_div(flat, t), i * s + j);
  same(mod(flat, t), k);
  same(floor_div(flat, s * t), i);
  same(mod(flat, s * t), j * t + k);
  same(mod(floor_div(flat, t), s), j);
  same(floor_div(mod(flat, s * t), t), j);
  // Heads: [b, s, 12, 32] seen as [b, 12, s, 32].
  const Dim heads = i * 12 * s * 32 + h * s * 32 + j * 32 + d;
  same(floor_div(heads, 32 * s), i * 12 + h);
  same(floor_div(heads, 384 * s), i);
  same(mod(floor_div(heads, 32), s), j);
  same(floor_div(m, s) * s * 384 + mod(m, s) * 384 + d, m * 384 + d);
  // An extent that can be 0 in a way that its bounds do not tell.
  const Dim cut = max(0, max(0, s - 2) - min(1, s));
  symbols.declare("c", below(448 * cut));
  const Dim c = Dim::symbol("c");
  same(floor_div(i * 448 * cut + c, 448 * cut), i);
  same(mod(c, 448 * cut), c);
}

TEST(Simplify, SymbolicDivisorsThatArePositive) {
  SymbolTable symbols;
  symbols.declare("s", range(1, 512));
  symbols.declare("t", range(1, 512));
  EXPECT_EQ(simplify(floor_div(floor_div(m, t), s), symbols), floor_div(m, s * t));
  EXPECT_EQ(simplify(floor_div(mod(m, s * t), t), symbols), mod(floor_div(m, t), s));
  EXPECT_EQ(
      simplify(floor_div(m, s * t) * s * t + mod(floor_div(m, t), s) * t + mod(m, t), symbols), m);
  EXPECT_EQ(simplify(floor_div(m, s * t) * s * t + floor_div(mod(m, s * t), t) * t +
                         mod(mod(m, s * t), t),
                     symbols),
            m);
  EXPECT_EQ(simplify(floor_div(m + s - 1, s), symbols), simplify(ceil_div(m, s), symbols));
  EXPECT_EQ(simplify(mod(floor_div(m, t), s) - floor_div(m, t) + s * floor_div(floor_div(m, t), s),
                     symbols),
            Dim(0));
}

TEST(Simplify, EmptyLoopsGiveNoKnowledgeElsewhere) {
  SymbolTable symbols;
  symbols.declare("j", below(s));
  // s may be 0 where j is not mentioned.
  EXPECT_EQ(simplify(max(s, 1), symbols), max(s, 1));
  EXPECT_EQ(simplify(max(s, 1) + j, symbols), s + j);
}

// A loop that runs tells as much of sizes that are divided, as strides of convolutions divide them.
TEST(Simplify, LoopsOverQuotientsAreNotEmpty) {
  SymbolTable symbols;
  const Dim rows = ceil_div(s, 16), columns = floor_div(t - 1, 2) + 1;
  symbols.declare("s", range(0, 512));
  symbols.declare("t", range(0, 512));
  symbols.declare("m", below(384 * rows * columns));
  symbols.declare("j", below(columns));
  EXPECT_EQ(simplify(floor_div(m, rows * columns) * rows * columns +
                         mod(floor_div(m, columns), rows) * columns + mod(m, columns),
                     symbols),
            m);
  EXPECT_EQ(simplify(max(t, 1) + j, symbols), t + j);
  EXPECT_EQ(simplify(max(t, 2) + j, symbols), max(t, 2) + j);
  // Nothing where no loop is mentioned.
  EXPECT_EQ(simplify(max(rows, 1), symbols), max(rows, 1));
}

// An index that is reflected at the ends of n elements, as pad does it.
TEST(CaseProof, KnowsRemaindersAndMeans) {
  SymbolTable symbols;
  symbols.declare("n", range(0, 1000));
  symbols.declare("i", range(-50, 5000));
  const Dim turn = max(1, 2 * n - 2), within = mod(i, turn);
  const Dim reflected = min(within, 2 * n - 2 - within);
  EXPECT_TRUE(proven_less(reflected, n, {n - 1}, symbols));
  EXPECT_TRUE(proven_less_equal(0, reflected, {n - 1}, symbols));
  EXPECT_FALSE(proven_less(reflected, n - 1, {n - 1}, symbols));
  EXPECT_FALSE(proven_less_equal(0, reflected, {}, symbols));
  EXPECT_TRUE(proven_less(mod(i, n * n + 1), n * n + 1, {}, symbols));
  EXPECT_FALSE(proven_less(mod(i, n), n, {}, symbols));
  EXPECT_TRUE(proven_less(mod(i, n), n, {n - 1}, symbols));
  EXPECT_TRUE(proven_less_equal(i, n, {2 * n - 2 * i + 1}, symbols));
  EXPECT_FALSE(proven_less_equal(i, n, {2 * n - 2 * i + 2}, symbols));
}

}  // namespace
}  // namespace anydim::ir
