// Random expressions against brute force: the canonical form, simplification, bounds, divisors and
// proofs must agree with evaluating the expression as written, at every assignment of small
// integers that the symbols' ranges allow.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "ir/dims/case_proof.h"
#include "ir/dims/symbols.h"
#include "ir/error.h"
#include "ir/text/parse_dim.h"
#include "tests/ir/dim_tree.h"

namespace anydim::ir::test {
namespace {

using Bytes = std::vector<std::uint8_t>;
const std::vector<std::string> names = {"a", "b", "i", "j"};

// Trees whose canonical form exceeds 64 bits or the size limits say nothing here.
std::optional<Dim> built(const Tree& tree) {
  try {
    return build(tree);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::int64_t value_of(const Dim& dim, const Assignment& assignment) {
  return dim.evaluate([&](const DimLeaf& leaf) { return assignment.at(leaf.symbol); });
}

// Every assignment that obeys the table, for ranges of a few values.
std::vector<Assignment> assignments_of(const SymbolTable& symbols) {
  std::vector<Assignment> all = {{}};
  for (const std::string& name : names) {
    std::vector<Assignment> longer;
    const SymbolInfo& info = *symbols.find(name);
    for (const Assignment& assignment : all) {
      std::int64_t high = info.high;
      if (info.below) high = std::min(high, value_of(*info.below, assignment) - 1);
      for (std::int64_t value = info.low; value <= high; ++value) {
        if (value % info.multiple != 0) continue;
        longer.push_back(assignment);
        longer.back()[name] = value;
      }
    }
    all = std::move(longer);
  }
  return all;
}

// Ranges of up to five values; i and j may be below an expression of the symbols before them.
SymbolTable random_symbols(Choices& choices) {
  SymbolTable symbols;
  for (const std::string& name : names) {
    SymbolInfo info;
    info.low = choices.next(7) - 2;
    info.high = info.low + choices.next(5);
    if (choices.next(4) == 3) {
      info.multiple = 2;
      info.low *= 2;
      info.high *= 2;
    }
    const bool loop = (name == "i" || name == "j") && choices.next(3) != 2;
    if (loop) {
      const Dim a = Dim::symbol("a");
      const Dim b = Dim::symbol("b");
      const std::vector<Dim> ends = {a, b, a * b, a + b, 3, min(a, b), 2 * a, a * a};
      info.low = 0;
      info.high = 12;
      info.multiple = 1;
      info.below =
          ends[static_cast<std::size_t>(choices.next(static_cast<std::int64_t>(ends.size())))];
    }
    symbols.declare(name, info);
  }
  return symbols;
}

std::string show(const SymbolTable& symbols) {
  std::string text;
  for (const std::string& name : symbols.names()) {
    const SymbolInfo& info = *symbols.find(name);
    text += name + " in [" + std::to_string(info.low) + ", " + std::to_string(info.high) +
            "] multiple " + std::to_string(info.multiple) +
            (info.below ? " below " + info.below->to_string() : "") + "; ";
  }
  return text;
}

void expect_equal(std::int64_t got, std::int64_t expected, const Assignment& assignment) {
  if (got != expected)
    RC_FAIL("got " + rc::toString(got) + ", expected " + rc::toString(expected) + " at " +
            rc::toString(assignment));
}

auto bytes(int most) { return rc::gen::resize(most, rc::gen::arbitrary<Bytes>()); }

void check(const char* name, const auto& property) { EXPECT_TRUE(rc::check(name, property)); }

TEST(DimProperty, CanonicalFormHasTheValueOfTheTree) {
  check("canonical form", [] {
    const Bytes chosen = *bytes(60);
    Choices choices(chosen);
    const Tree tree = random_tree(choices, names, 5);
    const auto dim = built(tree);
    if (!dim) return;
    RC_LOG() << show(tree) << " is " << dim->to_string() << "\n";
    for (std::int64_t code = 0; code < 625; code += 3) {
      const Assignment assignment = {{"a", code % 5 - 1},
                                     {"b", code / 5 % 5 - 1},
                                     {"i", code / 25 % 5 - 2},
                                     {"j", code / 125 - 1}};
      const auto expected = evaluate(tree, assignment);
      if (!expected) continue;
      expect_equal(value_of(*dim, assignment), *expected, assignment);
    }
  });
}

TEST(DimProperty, PolynomialsAreEqualWhenTheyAreTheSameFunction) {
  check("polynomials", [] {
    const Bytes chosen = *bytes(40);
    Choices choices(chosen);
    const Dim x = build(random_polynomial(choices, names, 3));
    const Dim y = build(random_polynomial(choices, names, 3));
    const Dim z = build(random_polynomial(choices, names, 3));
    RC_ASSERT(x + y == y + x);
    RC_ASSERT((x + y) + z == x + (y + z));
    RC_ASSERT(x * y == y * x);
    RC_ASSERT((x * y) * z == x * (y * z));
    RC_ASSERT(x * (y + z) == x * y + x * z);
    RC_ASSERT((x + y).hash() == (y + x).hash());
    RC_ASSERT(x - y + y == x);
    RC_ASSERT((x < y) + (y < x) + (x == y) == 1);
  });
}

TEST(DimProperty, QuotientTimesDivisorPlusRemainderIsTheDividend) {
  check("division identity", [] {
    const Bytes chosen = *bytes(40);
    Choices choices(chosen);
    const Dim x = build(random_polynomial(choices, names, 3));
    const Dim y = build(random_polynomial(choices, names, 2));
    const Dim factor = build(random_polynomial(choices, names, 1));
    const Dim rest = build(random_polynomial(choices, names, 2));
    if (y.is_constant(0)) return;
    RC_LOG() << "x " << x.to_string() << ", y " << y.to_string() << ", factor "
             << factor.to_string() << ", rest " << rest.to_string() << "\n";
    RC_LOG() << "floor_div " << floor_div(x, y).to_string() << ", mod " << mod(x, y).to_string()
             << "\n";
    RC_ASSERT(floor_div(x, y) * y + mod(x, y) == x);
    const Dim sum = factor * (floor_div(x, y) * y) + rest + factor * mod(x, y);
    RC_LOG() << "sum " << sum.to_string() << "\n";
    RC_ASSERT(sum == factor * x + rest);
  });
}

Dim reread(const std::string& text) {
  TokenStream tokens(text, "dim");
  DimScope scope;
  scope.symbol = [](const Token& token) { return Dim::symbol(token.text); };
  return read_dim(tokens, scope);
}

TEST(DimProperty, PrintedDimsReadBackTheSame) {
  check("round trip", [] {
    const Bytes chosen = *bytes(60);
    Choices choices(chosen);
    const auto dim = built(random_tree(choices, names, 4));
    if (!dim) return;
    const std::string text = dim->to_string();
    RC_LOG() << text << "\n";
    const Dim again = reread(text);
    RC_LOG() << again.to_string() << "\n";
    RC_ASSERT(again == *dim);
  });
}

TEST(DimProperty, SimplifyingTwiceChangesNothing) {
  check("simplify twice", [] {
    const Bytes chosen = *bytes(60);
    Choices choices(chosen);
    const SymbolTable symbols = random_symbols(choices);
    const auto dim = built(random_tree(choices, names, 4));
    if (!dim || assignments_of(symbols).empty()) return;  // ranges without values prove anything
    try {
      const Dim once = simplify(*dim, symbols);
      const Dim twice = simplify(once, symbols);
      RC_LOG() << show(symbols) << "\n"
               << dim->to_string() << "\n"
               << once.to_string() << "\n"
               << twice.to_string() << "\n";
      RC_ASSERT(once == twice);
    } catch (const Error&) {
    }
  });
}

// A tensor's index, flattened and taken apart again, is the index; seen in a shape with merged axes
// and flattened again, it is the flat index.
TEST(DimProperty, ReshapesOfIndicesCancel) {
  check("reshapes", [] {
    const Bytes chosen = *bytes(40);
    Choices choices(chosen);
    const Dim s = Dim::symbol("s");
    const Dim t = Dim::symbol("t");
    const std::vector<Dim> some = {s, t, Dim::symbol("b"), 12, 32, s + 1, 2 * t, s * t};
    SymbolTable symbols;
    std::vector<Dim> extents;
    std::vector<Dim> index;
    const std::int64_t rank = 2 + choices.next(3);
    for (std::int64_t axis = 0; axis < rank; ++axis) {
      extents.push_back(
          some[static_cast<std::size_t>(choices.next(static_cast<std::int64_t>(some.size())))]);
      const std::string name = "i" + std::to_string(axis);
      SymbolInfo info;
      info.below = extents.back();
      symbols.declare(name, info);
      index.push_back(Dim::symbol(name));
    }
    Dim flat = 0;
    for (std::size_t axis = 0; axis < extents.size(); ++axis)
      flat = flat * extents[axis] + index[axis];
    for (const Dim& extent : extents) RC_LOG() << "extent " << extent.to_string() << "\n";
    const auto part = [](const Dim& whole, const std::vector<Dim>& shape, std::size_t axis) {
      const Dim stride = product(std::span(shape).subspan(axis + 1));
      return axis == 0 ? floor_div(whole, stride) : mod(floor_div(whole, stride), shape[axis]);
    };
    for (std::size_t axis = 0; axis < extents.size(); ++axis) {
      const Dim back = simplify(part(flat, extents, axis), symbols);
      RC_LOG() << "axis " << axis << " is " << back.to_string() << "\n";
      RC_ASSERT(back == index[axis]);
      RC_ASSERT(prove_less(part(flat, extents, axis), extents[axis], symbols) == Proof::Yes);
    }
    std::vector<Dim> merged;
    for (const Dim& extent : extents) {
      if (!merged.empty() && choices.next(2) == 1) merged.back() = merged.back() * extent;
      else merged.push_back(extent);
    }
    SymbolInfo info;
    info.below = product(extents);
    symbols.declare("m", info);
    for (const Dim& from : {flat, Dim::symbol("m")}) {
      for (const auto& shape : {merged, extents}) {
        Dim again = 0;
        for (std::size_t axis = 0; axis < shape.size(); ++axis)
          again = again * shape[axis] + part(from, shape, axis);
        again = simplify(again, symbols);
        RC_LOG() << "again " << again.to_string() << "\n";
        RC_ASSERT(again == from);
      }
    }
  });
}

TEST(DimProperty, SubstitutionCommutesWithEvaluation) {
  check("substitution", [] {
    const Bytes chosen = *bytes(60);
    Choices choices(chosen);
    const Tree tree = random_tree(choices, names, 4);
    const Tree inner = random_tree(choices, {"b", "j"}, 2);
    const auto dim = built(tree);
    const auto replacement = built(inner);
    if (!dim || !replacement) return;
    std::optional<Dim> replaced;
    try {
      replaced = dim->substitute({{"a", *replacement}});
    } catch (const Error&) {
      return;
    }
    RC_LOG() << dim->to_string() << " with a = " << replacement->to_string() << " is "
             << replaced->to_string() << "\n";
    for (std::int64_t code = 0; code < 125; ++code) {
      Assignment assignment = {
          {"a", 0}, {"b", code % 5 - 1}, {"i", code / 5 % 5 - 2}, {"j", code / 25 - 1}};
      const auto value = evaluate(inner, assignment);
      if (!value) continue;
      assignment["a"] = *value;
      const auto expected = evaluate(tree, assignment);
      if (!expected) continue;
      expect_equal(value_of(*replaced, assignment), *expected, assignment);
    }
  });
}

TEST(DimProperty, SimplificationBoundsAndDivisorsHoldOverTheRanges) {
  check("simplify, bounds, divisor", [] {
    const Bytes chosen = *bytes(80);
    Choices choices(chosen);
    const SymbolTable symbols = random_symbols(choices);
    const Tree tree = random_tree(choices, names, 4);
    const auto dim = built(tree);
    if (!dim) return;
    std::optional<Dim> simple;
    try {
      simple = simplify(*dim, symbols);
    } catch (const Error&) {
      return;
    }
    const Interval range = bounds(*dim, symbols);
    const Interval simple_range = bounds(*simple, symbols);
    const std::int64_t step = divisor(*dim, symbols);
    RC_LOG() << show(symbols) << "\n"
             << show(tree) << " is " << dim->to_string() << "\nsimplifies to "
             << simple->to_string() << "\n";
    RC_LOG() << "in [" << range.low << ", " << range.high << "], then [" << simple_range.low << ", "
             << simple_range.high << "], divisor " << step << "\n";
    for (const Assignment& assignment : assignments_of(symbols)) {
      const auto expected = evaluate(tree, assignment);
      if (!expected) continue;
      expect_equal(value_of(*simple, assignment), *expected, assignment);
      RC_ASSERT(range.low <= *expected && *expected <= range.high);
      // A leaf that simplification dropped takes what followed from it along, so its bounds are
      // asked with the original's loops in view.
      RC_ASSERT(simple_range.low <= *expected && *expected <= simple_range.high);
      RC_ASSERT((step == 0 ? *expected == 0 : *expected % step == 0));
    }
  });
}

TEST(DimProperty, ProofsAreNeverWrong) {
  check("proofs", [] {
    const Bytes chosen = *bytes(80);
    Choices choices(chosen);
    const SymbolTable symbols = random_symbols(choices);
    const Tree left = random_tree(choices, names, 3);
    const Tree right = random_tree(choices, names, 3);
    const auto x = built(left);
    const auto y = built(right);
    if (!x || !y) return;
    const Proof equal = prove_equal(*x, *y, symbols);
    const Proof less = prove_less(*x, *y, symbols);
    const Proof at_most = prove_less_equal(*x, *y, symbols);
    RC_LOG() << show(symbols) << "\n" << show(left) << " ? " << show(right) << "\n";
    RC_LOG() << "equal " << static_cast<int>(equal) << " less " << static_cast<int>(less)
             << " at most " << static_cast<int>(at_most) << "\n";
    for (const Assignment& assignment : assignments_of(symbols)) {
      const auto a = evaluate(left, assignment);
      const auto b = evaluate(right, assignment);
      if (!a || !b) continue;
      if (equal != Proof::Unknown) RC_ASSERT((*a == *b) == (equal == Proof::Yes));
      if (less != Proof::Unknown) RC_ASSERT((*a < *b) == (less == Proof::Yes));
      if (at_most != Proof::Unknown) RC_ASSERT((*a <= *b) == (at_most == Proof::Yes));
    }
  });
}

// Under conditions that hold somewhere: those of two other random expressions.
TEST(DimProperty, ProofsByCasesAreNeverWrong) {
  check("proofs by cases", [] {
    const Bytes chosen = *bytes(100);
    Choices choices(chosen);
    const SymbolTable symbols = random_symbols(choices);
    std::vector<Tree> trees;
    std::vector<Dim> dims;
    for (int i = 0; i < 4; ++i) {
      trees.push_back(random_tree(choices, names, i < 2 ? 3 : 2));
      const auto dim = built(trees.back());
      if (!dim) return;
      dims.push_back(*dim);
    }
    const std::vector<Dim> assumed(dims.begin() + 2, dims.end());
    const bool less = proven_less(dims[0], dims[1], assumed, symbols),
               at_most = proven_less_equal(dims[0], dims[1], assumed, symbols);
    RC_LOG() << show(symbols) << "\n";
    for (const Tree& tree : trees) RC_LOG() << show(tree) << "\n";
    RC_LOG() << "less " << less << " at most " << at_most << "\n";
    for (const Assignment& assignment : assignments_of(symbols)) {
      std::vector<std::int64_t> values;
      for (const Tree& tree : trees)
        if (const auto value = evaluate(tree, assignment)) values.push_back(*value);
      if (values.size() < trees.size() || values[2] < 0 || values[3] < 0) continue;
      if (less) RC_ASSERT(values[0] < values[1]);
      if (at_most) RC_ASSERT(values[0] <= values[1]);
    }
  });
}

}  // namespace
}  // namespace anydim::ir::test
