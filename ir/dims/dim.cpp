#include "ir/dims/dim.h"

#include <algorithm>
#include <array>

#include "ir/dims/dim_node.h"
#include "ir/error.h"
#include "ir/hash.h"

namespace anydim::ir {

using namespace detail;

namespace {

std::size_t hash_of(const Dim::Node& node) {
  std::size_t hash =
      mixed(static_cast<std::size_t>(node.kind) * 7 + static_cast<std::size_t>(node.comparison),
            static_cast<std::size_t>(node.constant));
  if (node.kind == Dim::Kind::Symbol || node.kind == Dim::Kind::Value) {
    hash = mixed(mixed(hash, static_cast<std::size_t>(node.leaf.kind)), fnv1a(node.leaf.symbol));
    hash = mixed(mixed(hash, node.leaf.value), static_cast<std::size_t>(node.leaf.element));
  }
  for (const Dim::Term& term : node.terms) {
    hash = mixed(hash, static_cast<std::size_t>(term.coefficient));
    for (const Dim& factor : term.factors) hash = mixed(hash, factor.hash());
  }
  for (const Dim& operand : node.operands) hash = mixed(hash, operand.hash());
  return hash;
}

void measure(Dim::Node& node) {
  std::uint64_t size = 1;
  std::uint32_t depth = 0;
  const auto include = [&](const Dim& part) {
    size += part.node().size;
    depth = std::max(depth, part.node().depth);
  };
  for (const Dim::Term& term : node.terms) {
    ++size;
    for (const Dim& factor : term.factors) include(factor);
  }
  for (const Dim& operand : node.operands) include(operand);
  if (!node.operands.empty()) ++depth;
  if (size > maximum_size) {
    throw Error(
        ErrorKind::Unsupported,
        "a dim expression grew beyond {} terms and operands; simplify the model's shape arithmetic",
        maximum_size);
  }
  if (depth > maximum_depth) {
    throw Error(
        ErrorKind::Unsupported,
        "a dim expression nests deeper than {} levels; simplify the model's shape arithmetic",
        maximum_depth);
  }
  node.size = static_cast<std::uint32_t>(size);
  node.depth = depth;
}

std::shared_ptr<const Dim::Node> finished(Dim::Node&& node) {
  measure(node);
  node.hash = hash_of(node);
  return std::make_shared<const Dim::Node>(std::move(node));
}

std::shared_ptr<const Dim::Node> constant_node(std::int64_t constant) {
  Dim::Node node;
  node.constant = constant;
  return finished(std::move(node));
}

// Extents are mostly small constants; these share their nodes.
constexpr std::int64_t first_shared = -8;
constexpr std::int64_t shared_count = 1024;

const std::shared_ptr<const Dim::Node>& shared_constant(std::int64_t constant) {
  static const auto nodes = [] {
    std::array<std::shared_ptr<const Dim::Node>, shared_count> made;
    for (std::int64_t i = 0; i < shared_count; ++i)
      made[static_cast<std::size_t>(i)] = constant_node(first_shared + i);
    return made;
  }();
  return nodes[static_cast<std::size_t>(constant - first_shared)];
}

}  // namespace

bool holds(Comparison comparison, std::int64_t left, std::int64_t right) {
  switch (comparison) {
    case Comparison::Equal: return left == right;
    case Comparison::NotEqual: return left != right;
    case Comparison::Less: return left < right;
    case Comparison::LessEqual: return left <= right;
  }
  internal_error("a comparison is one of the enumerators");
}

std::string_view sign_of(Comparison comparison) {
  switch (comparison) {
    case Comparison::Equal: return "==";
    case Comparison::NotEqual: return "!=";
    case Comparison::Less: return "<";
    case Comparison::LessEqual: return "<=";
  }
  internal_error("a comparison is one of the enumerators");
}

Dim::Dim() : Dim(std::int64_t{0}) {}

Dim::Dim(std::int64_t constant)
    : node_(constant >= first_shared && constant < first_shared + shared_count
                ? shared_constant(constant)
                : constant_node(constant)) {}

DimLeaf element_leaf(ValueId tensor, std::int64_t element) {
  return {.kind = DimLeaf::Kind::Element, .value = tensor, .element = element};
}

DimLeaf loop_leaf(LoopRole role, std::int64_t number) {
  return {.kind = DimLeaf::Kind::Loop, .value = static_cast<ValueId>(role), .element = number};
}

DimLeaf step_leaf(std::int32_t position, std::uint32_t program) {
  return {.kind = DimLeaf::Kind::Step, .value = program, .element = position};
}

std::string to_string(const DimLeaf& leaf) { return Dim::of(leaf).to_string(); }

Dim Dim::of(DimLeaf leaf) {
  internal_check(leaf.is_symbol() != leaf.symbol.empty(), "a symbol has a name");
  Node node;
  node.kind = leaf.is_element() ? Kind::Value : Kind::Symbol;
  node.leaf = std::move(leaf);
  return Dim(finished(std::move(node)));
}

Dim Dim::symbol(std::string name) { return of({.symbol = std::move(name)}); }

Dim Dim::value(ValueId tensor, std::int64_t element) { return of(element_leaf(tensor, element)); }

Dim::Kind Dim::kind() const { return node_->kind; }

std::optional<std::int64_t> Dim::constant() const {
  if (node_->kind != Kind::Constant) return std::nullopt;
  return node_->constant;
}

const DimLeaf& Dim::leaf() const {
  internal_check(node_->kind == Kind::Symbol || node_->kind == Kind::Value,
                 "leaf() of a symbol or tensor element");
  return node_->leaf;
}

const std::vector<Dim::Term>& Dim::terms() const { return node_->terms; }
std::int64_t Dim::constant_part() const { return node_->constant; }
const std::vector<Dim>& Dim::operands() const { return node_->operands; }
Comparison Dim::comparison() const { return node_->comparison; }
std::size_t Dim::hash() const { return node_->hash; }

std::uint32_t Dim::size() const { return node_->size; }

bool operator==(const Dim& a, const Dim& b) {
  if (a.node_ == b.node_) return true;
  const Dim::Node& x = *a.node_;
  const Dim::Node& y = *b.node_;
  return x.hash == y.hash && x.kind == y.kind && x.comparison == y.comparison &&
         x.constant == y.constant && x.leaf == y.leaf && x.terms == y.terms &&
         x.operands == y.operands;
}

bool operator<(const Dim& a, const Dim& b) { return compare(a, b) < 0; }

void Dim::collect_leaves(std::set<DimLeaf>& leaves) const {
  if (node_->kind == Kind::Symbol || node_->kind == Kind::Value) leaves.insert(node_->leaf);
  for (const Term& term : node_->terms) {
    for (const Dim& factor : term.factors) factor.collect_leaves(leaves);
  }
  for (const Dim& operand : node_->operands) operand.collect_leaves(leaves);
}

std::set<DimLeaf> Dim::leaves() const {
  std::set<DimLeaf> found;
  collect_leaves(found);
  return found;
}

bool Dim::mentions(const DimLeaf& leaf) const {
  if (node_->kind == Kind::Symbol || node_->kind == Kind::Value) return node_->leaf == leaf;
  const auto in = [&](const Dim& part) { return part.mentions(leaf); };
  return std::ranges::any_of(
             node_->terms,
             [&](const Term& term) { return std::ranges::any_of(term.factors, in); }) ||
         std::ranges::any_of(node_->operands, in);
}

Dim operator+(const Dim& a, const Dim& b) { return add(a, b, nullptr); }
Dim operator-(const Dim& a, const Dim& b) { return subtract(a, b, nullptr); }
Dim operator*(const Dim& a, const Dim& b) { return multiply(a, b, nullptr); }
Dim floor_div(const Dim& a, const Dim& b) { return divide(a, b, nullptr); }
Dim mod(const Dim& a, const Dim& b) { return remainder(a, b, nullptr); }
Dim min(const Dim& a, const Dim& b) { return choose(Dim::Kind::Min, {a, b}, nullptr); }
Dim max(const Dim& a, const Dim& b) { return choose(Dim::Kind::Max, {a, b}, nullptr); }
Dim broadcast(const Dim& a, const Dim& b) { return join({a, b}, nullptr); }

Dim ceil_div(const Dim& a, const Dim& b) {
  // As exporters write it, so that both come out equal; for other divisors, whose sign is unknown,
  // this form does not hold.
  if (b.is_constant() && b.constant_part() > 0 && !a.is_constant())
    return floor_div(a + (b - 1), b);
  return Dim(0) - floor_div(Dim(0) - a, b);
}

Dim select(Comparison comparison, const Dim& lhs, const Dim& rhs, const Dim& then,
           const Dim& otherwise) {
  return decide(comparison, lhs, rhs, then, otherwise, nullptr);
}

Dim product(std::span<const Dim> dims) {
  Dim result = 1;
  for (const Dim& dim : dims) result = result * dim;
  return result;
}

Dim sum(std::span<const Dim> dims) {
  if (dims.empty()) return 0;
  if (dims.size() == 1) return dims[0];
  const std::size_t half = dims.size() / 2;
  return sum(dims.first(half)) + sum(dims.subspan(half));
}

namespace detail {

Dim make_sum(Polynomial polynomial) {
  if (polynomial.terms.empty()) return Dim(polynomial.constant);
  const Dim::Term& first = polynomial.terms.front();
  if (polynomial.constant == 0 && polynomial.terms.size() == 1 && first.coefficient == 1 &&
      first.factors.size() == 1) {
    return first.factors.front();
  }
  Dim::Node node;
  node.kind = Dim::Kind::Sum;
  node.constant = polynomial.constant;
  node.terms = std::move(polynomial.terms);
  return Dim(finished(std::move(node)));
}

Dim make_atom(Dim::Kind kind, std::vector<Dim> operands, Comparison comparison) {
  Dim::Node node;
  node.kind = kind;
  node.comparison = comparison;
  node.operands = std::move(operands);
  return Dim(finished(std::move(node)));
}

std::string abbreviated(const Dim& dim) {
  constexpr std::size_t longest = 300;
  std::string text = dim.to_string();
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  return text;
}

void throw_overflow(const std::string& expression) {
  throw Error(ErrorKind::Inputs, "the dim expression {} leaves the range of 64-bit integers",
              expression);
}

namespace {

int three_way(const auto& a, const auto& b) { return a < b ? -1 : (b < a ? 1 : 0); }

int compare_lists(const std::vector<Dim>& a, const std::vector<Dim>& b) {
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (const int order = compare(a[i], b[i]); order != 0) return order;
  }
  return three_way(a.size(), b.size());
}

}  // namespace

int compare_monomials(const std::vector<Dim>& a, const std::vector<Dim>& b) {
  if (a.size() != b.size()) return a.size() > b.size() ? -1 : 1;
  return compare_lists(a, b);
}

int compare(const Dim& a, const Dim& b) {
  const Dim::Node& x = a.node();
  const Dim::Node& y = b.node();
  if (&x == &y) return 0;
  if (x.kind != y.kind) return three_way(x.kind, y.kind);
  if (x.kind == Dim::Kind::Symbol || x.kind == Dim::Kind::Value) return three_way(x.leaf, y.leaf);
  for (std::size_t i = 0; i < x.terms.size() && i < y.terms.size(); ++i) {
    if (const int order = compare_monomials(x.terms[i].factors, y.terms[i].factors); order != 0)
      return order;
    if (const int order = three_way(x.terms[i].coefficient, y.terms[i].coefficient); order != 0)
      return order;
  }
  if (const int order = three_way(x.terms.size(), y.terms.size()); order != 0) return order;
  if (const int order = three_way(x.constant, y.constant); order != 0) return order;
  if (const int order = three_way(x.comparison, y.comparison); order != 0) return order;
  return compare_lists(x.operands, y.operands);
}

}  // namespace detail
}  // namespace anydim::ir
