#include "tests/ir/dim_tree.h"

#include <algorithm>

namespace anydim::ir::test {

namespace {

Tree leaf(Choices& choices, const std::vector<std::string>& symbols) {
  Tree tree;
  if (choices.next(3) < 2) {
    tree.kind = Tree::Kind::Symbol;
    tree.symbol =
        symbols[static_cast<std::size_t>(choices.next(static_cast<std::int64_t>(symbols.size())))];
  } else {
    tree.constant = choices.next(12) - 3;
  }
  return tree;
}

std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  std::int64_t quotient = a / b;
  while (quotient * b > a && b > 0) --quotient;
  while (quotient * b < a && b < 0) --quotient;
  return quotient;
}

}  // namespace

Tree random_tree(Choices& choices, const std::vector<std::string>& symbols, int depth) {
  if (depth == 0 || choices.exhausted()) return leaf(choices, symbols);
  // Divisions and sums are what the rules are about, so they come more often.
  static constexpr Tree::Kind kinds[] = {
      Tree::Kind::Symbol,   Tree::Kind::Add,     Tree::Kind::Multiply,  Tree::Kind::FloorDiv,
      Tree::Kind::Mod,      Tree::Kind::Add,     Tree::Kind::Subtract,  Tree::Kind::Multiply,
      Tree::Kind::FloorDiv, Tree::Kind::Mod,     Tree::Kind::Min,       Tree::Kind::Max,
      Tree::Kind::Select,   Tree::Kind::CeilDiv, Tree::Kind::Broadcast,
  };
  Tree tree;
  tree.kind = kinds[choices.next(std::size(kinds))];
  if (tree.kind == Tree::Kind::Symbol) return leaf(choices, symbols);
  int children = 2;
  if (tree.kind == Tree::Kind::Select) {
    tree.comparison = static_cast<Comparison>(choices.next(4));
    children = 4;
  }
  for (int i = 0; i < children; ++i)
    tree.children.push_back(random_tree(choices, symbols, depth - 1));
  return tree;
}

Tree random_polynomial(Choices& choices, const std::vector<std::string>& symbols, int depth) {
  if (depth == 0 || choices.exhausted()) return leaf(choices, symbols);
  static constexpr Tree::Kind kinds[] = {Tree::Kind::Symbol, Tree::Kind::Add, Tree::Kind::Subtract,
                                         Tree::Kind::Multiply};
  Tree tree;
  tree.kind = kinds[choices.next(std::size(kinds))];
  if (tree.kind == Tree::Kind::Symbol) return leaf(choices, symbols);
  for (int i = 0; i < 2; ++i)
    tree.children.push_back(random_polynomial(choices, symbols, depth - 1));
  return tree;
}

std::optional<std::int64_t> evaluate(const Tree& tree, const Assignment& assignment) {
  if (tree.kind == Tree::Kind::Constant) return tree.constant;
  if (tree.kind == Tree::Kind::Symbol) return assignment.at(tree.symbol);
  const auto first = evaluate(tree.children[0], assignment);
  const auto second = evaluate(tree.children[1], assignment);
  if (!first || !second) return std::nullopt;
  const std::int64_t a = *first;
  const std::int64_t b = *second;
  switch (tree.kind) {
    case Tree::Kind::Constant:
    case Tree::Kind::Symbol: return std::nullopt;
    case Tree::Kind::Add: return a + b;
    case Tree::Kind::Subtract: return a - b;
    case Tree::Kind::Multiply: return a * b;
    case Tree::Kind::FloorDiv:
      if (b == 0) return std::nullopt;
      return floor_quotient(a, b);
    case Tree::Kind::CeilDiv:
      if (b == 0) return std::nullopt;
      return -floor_quotient(-a, b);
    case Tree::Kind::Mod:
      if (b == 0) return std::nullopt;
      return a - b * floor_quotient(a, b);
    case Tree::Kind::Min: return std::min(a, b);
    case Tree::Kind::Max: return std::max(a, b);
    case Tree::Kind::Select: {
      const bool holds = tree.comparison == Comparison::Equal      ? a == b
                         : tree.comparison == Comparison::NotEqual ? a != b
                         : tree.comparison == Comparison::Less     ? a < b
                                                                   : a <= b;
      return evaluate(tree.children[holds ? 2 : 3], assignment);
    }
    case Tree::Kind::Broadcast:
      if (a != b && a != 1 && b != 1) return std::nullopt;
      return a == 1 ? b : a;
  }
  return std::nullopt;
}

Dim build(const Tree& tree) {
  const auto child = [&](std::size_t i) { return build(tree.children[i]); };
  switch (tree.kind) {
    case Tree::Kind::Constant: return tree.constant;
    case Tree::Kind::Symbol: return Dim::symbol(tree.symbol);
    case Tree::Kind::Add: return child(0) + child(1);
    case Tree::Kind::Subtract: return child(0) - child(1);
    case Tree::Kind::Multiply: return child(0) * child(1);
    case Tree::Kind::FloorDiv: return floor_div(child(0), child(1));
    case Tree::Kind::CeilDiv: return ceil_div(child(0), child(1));
    case Tree::Kind::Mod: return mod(child(0), child(1));
    case Tree::Kind::Min: return min(child(0), child(1));
    case Tree::Kind::Max: return max(child(0), child(1));
    case Tree::Kind::Select: return select(tree.comparison, child(0), child(1), child(2), child(3));
    case Tree::Kind::Broadcast: return broadcast(child(0), child(1));
  }
  return 0;
}

std::string show(const Tree& tree) {
  static constexpr const char* names[] = {"",         "",    "add", "sub", "mul",    "floor_div",
                                          "ceil_div", "mod", "min", "max", "select", "broadcast"};
  static constexpr const char* signs[] = {" == ", " != ", " < ", " <= "};
  if (tree.kind == Tree::Kind::Constant) return std::to_string(tree.constant);
  if (tree.kind == Tree::Kind::Symbol) return tree.symbol;
  std::string text = names[static_cast<int>(tree.kind)];
  for (std::size_t i = 0; i < tree.children.size(); ++i) {
    const bool compared = tree.kind == Tree::Kind::Select && i == 1;
    text += i == 0 ? "(" : compared ? signs[static_cast<int>(tree.comparison)] : ", ";
    text += show(tree.children[i]);
  }
  return text + ")";
}

}  // namespace anydim::ir::test
