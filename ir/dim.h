// Dims: integer expressions over symbols, in one canonical form.
//
// A Dim is an immutable value (a shared pointer to a node; copying is cheap, safe between threads). Smart constructors bring every
// expression to canonical form: a polynomial with sorted monomials over atoms (symbol, tensor element, floor division, mod, min, max,
// select, broadcast); structural equality of canonical forms is operator==. Equality is sound, not complete: == false does not prove
// that two dims differ (see ir/symbols.h for proofs that use ranges).
//
// Arithmetic is exact 64-bit: canonicalisation and evaluation that would overflow throw Error{Inputs} naming the expression.
// Division follows floor (towards minus infinity); mod has the divisor's sign: a == b * floor_div(a, b) + mod(a, b), and the
// canonical form knows it: floor_div(a, b) * b + mod(a, b) comes out as a, with any common factor.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace anydim::ir {

using ValueId = std::uint32_t;

class Dim;

enum class Comparison { Equal, NotEqual, Less, LessEqual };

// A leaf that is not a constant: a named symbol, or element `element` of the small integer tensor `value` of the same function.
struct DimLeaf {
  std::string symbol;  // empty for a tensor element
  ValueId value = 0;
  std::int64_t element = 0;
  auto operator<=>(const DimLeaf&) const = default;
  bool is_symbol() const { return !symbol.empty(); }
};

class Dim {
 public:
  enum class Kind { Constant, Symbol, Value, Sum, FloorDiv, Mod, Min, Max, Select, Broadcast };

  // A product of atoms with an integer coefficient; factors are sorted and never sums or constants.
  struct Term;

  Dim();                       // the constant 0
  Dim(std::int64_t constant);  // NOLINT: implicit on purpose, dims are integers first
  static Dim symbol(std::string name);
  static Dim value(ValueId tensor, std::int64_t element);

  Kind kind() const;
  std::optional<std::int64_t> constant() const;
  bool is_constant() const { return constant().has_value(); }
  bool is_constant(std::int64_t wanted) const { return constant() == wanted; }
  const DimLeaf& leaf() const;             // Symbol and Value
  const std::vector<Term>& terms() const;  // Sum: without the constant part
  std::int64_t constant_part() const;      // Sum: its constant; Constant: itself; else 0
  const std::vector<Dim>& operands()
      const;                      // FloorDiv, Mod, Min, Max, Broadcast: two (Min, Max: two or more); Select: lhs, rhs, then, else
  Comparison comparison() const;  // Select
  std::size_t hash() const;

  friend bool operator==(const Dim& a, const Dim& b);
  // A total order, stable between runs; has no arithmetic meaning.
  friend bool operator<(const Dim& a, const Dim& b);

  // Every leaf the expression mentions.
  void collect_leaves(std::set<DimLeaf>& leaves) const;
  std::set<DimLeaf> leaves() const;
  bool mentions(const DimLeaf& leaf) const;

  // Replaces leaves for which `replacement` gives a dim, then canonicalises.
  Dim substitute(const std::function<std::optional<Dim>(const DimLeaf&)>& replacement) const;
  Dim substitute(const std::map<std::string, Dim>& symbols) const;

  // Exact value. `lookup` gives the value of a leaf. Throws Error{Inputs} on overflow and on division by zero, naming the expression.
  std::int64_t evaluate(const std::function<std::int64_t(const DimLeaf&)>& lookup) const;

  // As written in the text form, e.g. `2*n + 1`, `floor_div(n, 2)`, `value(%shape, 0)`. `name_of` prints tensor names.
  std::string to_string(const std::function<std::string(ValueId)>& name_of = {}) const;

  struct Node;
  explicit Dim(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  const Node& node() const { return *node_; }

 private:
  std::shared_ptr<const Node> node_;
};

struct Dim::Term {
  std::int64_t coefficient = 1;
  std::vector<Dim> factors;  // sorted atoms; repeated for powers
  bool operator==(const Term&) const = default;
};

Dim operator+(const Dim& a, const Dim& b);
Dim operator-(const Dim& a, const Dim& b);
Dim operator*(const Dim& a, const Dim& b);
Dim floor_div(const Dim& a, const Dim& b);
Dim ceil_div(const Dim& a, const Dim& b);
Dim mod(const Dim& a, const Dim& b);
Dim min(const Dim& a, const Dim& b);
Dim max(const Dim& a, const Dim& b);
// `then` where lhs COMPARISON rhs holds, else `otherwise`. Decided at once where both sides are constants or equal.
Dim select(Comparison comparison, const Dim& lhs, const Dim& rhs, const Dim& then, const Dim& otherwise);
// The extent of two broadcast extents: b where a == 1, else a (the caller states the precondition a == b, a == 1 or b == 1).
Dim broadcast(const Dim& a, const Dim& b);
Dim product(std::span<const Dim> dims);  // 1 for none
Dim sum(std::span<const Dim> dims);      // 0 for none; in time near their number, where adding one after the other would be quadratic

}  // namespace anydim::ir
