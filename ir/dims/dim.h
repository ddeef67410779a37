// Dims: integer expressions over symbols, in one canonical form.
//
// A Dim is an immutable value (a shared pointer to a node; copying is cheap, safe between threads).
// Constructors bring every expression to canonical form: a polynomial with sorted monomials over
// atoms (leaves, floor division, mod, min, max, select, broadcast); structural equality of those is
// operator==. Leaves are symbols, tensor elements, loop variables and steps. Equality is sound, not
// complete: == false does not prove that dims differ (see ir/dims/symbols.h for proofs by ranges).
//
// Arithmetic is exact 64-bit: canonicalisation and evaluation that would overflow throw
// Error{Inputs} naming the expression. Division follows floor (towards minus infinity); mod has the
// divisor's sign: a == b * floor_div(a, b) + mod(a, b), and the canonical form knows it:
// floor_div(a, b) * b + mod(a, b) comes out as a, with any common factor.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace anydim::ir {

using ValueId = std::uint32_t;

class Dim;

enum class Comparison { Equal, NotEqual, Less, LessEqual };
bool holds(Comparison comparison, std::int64_t left, std::int64_t right);
std::string_view sign_of(Comparison comparison);  // as in C++

// What a loop variable of a kernel counts. Print shows its letter and its number: `$m0`.
enum class LoopRole : char {
  Batch = 'b',
  Reduced = 'c',  // inner points of a row; data that a scatter copies
  Depth = 'd',
  Width = 'e',
  Gate = 'g',
  Query = 'i',
  Key = 'j',  // of attention and of sorting; points of a running sum
  Contracted = 'k',
  Lane = 'l',
  MatrixRow = 'm',
  MatrixColumn = 'n',
  Outer = 'o',
  Point = 'p',
  Row = 'r',
  Segment = 's',
  Rank = 't',
  Update = 'u',
  // What code generators add: vectors and tiles of another loop's points, an end of a loop, and
  // whatever else counts in one kernel.
  Vector = 'v',
  Bound = 'w',
  Made = 'x',
  Tile = 'y',
};

// A leaf that is not a constant. Functions have symbols and elements; loop forms and kernels have
// loop variables and steps too.
struct DimLeaf {
  enum class Kind : std::uint8_t {
    Element,  // element `element` of the small integer tensor `value` of the same function
    Step,     // the result of step `element` of a scalar program; `value` tells the programs of one
              // kernel apart
    Loop,     // the loop variable number `element` of the role that `value` is
    Symbol,   // `symbol`, a name
  };
  Kind kind = Kind::Symbol;
  std::string symbol{};  // empty but for a Symbol
  ValueId value = 0;
  std::int64_t element = 0;
  auto operator<=>(const DimLeaf&) const = default;
  bool is_symbol() const { return kind == Kind::Symbol; }
  bool is_element() const { return kind == Kind::Element; }
  bool is_loop() const { return kind == Kind::Loop; }
  bool is_step() const { return kind == Kind::Step; }
  std::int32_t step() const {
    return static_cast<std::int32_t>(element);
  }  // of a Step: its position in the program
};

DimLeaf element_leaf(ValueId tensor, std::int64_t element);
DimLeaf loop_leaf(LoopRole role, std::int64_t number = 0);
DimLeaf step_leaf(std::int32_t position, std::uint32_t program = 0);
// As in print: `n`, `"past length"`, `$m0`, `#3`, `value(%2, 0)`.
std::string to_string(const DimLeaf& leaf);

class Dim {
 public:
  // Value: an element of a tensor; Symbol: any other leaf, loop variables and steps among them.
  enum class Kind { Constant, Symbol, Value, Sum, FloorDiv, Mod, Min, Max, Select, Broadcast };

  // A product of atoms with an integer coefficient; factors are sorted and never sums or constants.
  struct Term;

  Dim();                       // the constant 0
  Dim(std::int64_t constant);  // NOLINT: implicit on purpose, dims are integers first
  static Dim symbol(std::string name);
  static Dim value(ValueId tensor, std::int64_t element);
  static Dim of(DimLeaf leaf);

  Kind kind() const;
  std::optional<std::int64_t> constant() const;
  bool is_constant() const { return constant().has_value(); }
  bool is_constant(std::int64_t wanted) const { return constant() == wanted; }
  const DimLeaf& leaf() const;               // Symbol and Value
  const std::vector<Term>& terms() const;    // Sum: without the constant part
  std::int64_t constant_part() const;        // Sum: its constant; Constant: itself; else 0
  const std::vector<Dim>& operands() const;  // FloorDiv, Mod, Min, Max, Broadcast: two (Min, Max:
                                             // two or more); Select: lhs, rhs, then, else
  Comparison comparison() const;             // Select
  std::size_t hash() const;
  std::uint32_t size() const;  // terms and operands when it is written out

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
  Dim substitute(const std::map<DimLeaf, Dim>& leaves) const;

  // Exact value. `lookup` gives the value of a leaf. Throws Error{Inputs} on overflow and on
  // division by zero, naming the expression.
  std::int64_t evaluate(const std::function<std::int64_t(const DimLeaf&)>& lookup) const;

  // As written in the text form, e.g. `2*n + 1`, `floor_div(n, 2)`, `value(%shape, 0)`. `name_of`
  // prints tensor names.
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
// `then` where lhs COMPARISON rhs holds, else `otherwise`. Decided at once where both sides are
// constants or equal.
Dim select(Comparison comparison, const Dim& lhs, const Dim& rhs, const Dim& then,
           const Dim& otherwise);
// The extent of two broadcast extents: b where a == 1, else a (the caller states the precondition a
// == b, a == 1 or b == 1).
Dim broadcast(const Dim& a, const Dim& b);
Dim product(std::span<const Dim> dims);  // 1 for none
Dim sum(std::span<const Dim> dims);      // 0 for none; in time near their number, where adding one
                                         // after the other would be quadratic

}  // namespace anydim::ir
