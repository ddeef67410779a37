// What simplification knows while it works on one expression: bounds and comparisons from the
// symbol table, remembered per node. Internal to ir, like ir/dims/dim_node.h.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "ir/dims/dim_node.h"
#include "ir/dims/symbols.h"

namespace anydim::ir::detail {

class Facts {
 public:
  // `subject`: the expression that is evaluated. Where it mentions a symbol below an extent, that
  // extent is not empty.
  Facts(const SymbolTable& symbols, std::initializer_list<Dim> subjects);

  Interval bounds(const Dim& dim);
  std::int64_t divisor(const Dim& dim);
  bool positive(const Dim& dim) { return bounds(dim).low >= 1; }
  // dim >= 0 for all values: by bounds, or by putting bounds that are expressions (`below`,
  // operands of min) in place of atoms.
  bool not_negative(const Dim& dim);
  bool in_range(const Dim& dim, const Dim& end);  // 0 <= dim < end
  // Whether a few values show a == b and a few others a != b, so that neither can be proven.
  bool seen_both_ways(const Dim& a, const Dim& b);
  Interval symbol_bounds(const DimLeaf& leaf);
  const SymbolInfo* find(const DimLeaf& leaf) const { return symbols_.find(leaf); }
  Dim simplified(const Dim& dim);  // one pass, bottom up
  Dim settled(const Dim& dim);     // passes until nothing changes

 private:
  void assume_not_empty(const Dim& extent, std::int64_t least);
  void assume_loops(const Dim& subject);
  bool is_settled_sum(const Dim& dim);
  Interval compute_bounds(const Dim& dim);
  Interval quotient_bounds(const Dim& dim);
  Interval mod_bounds(const Dim& dim);
  // +1: never falls as the symbol grows, -1: never rises, 0: does not depend on it; nothing: not
  // known.
  std::optional<int> direction(const Dim& dim, const DimLeaf& symbol);
  std::optional<int> sum_direction(const Dim& dim, const DimLeaf& symbol);
  std::optional<int> sign(const Dim& dim);
  bool search(const Dim& dim, int depth);
  std::optional<Dim> without_a_symbol(const Dim& dim, bool loops);
  using Samples = std::array<std::int64_t, 5>;
  std::int64_t choose_sample(const DimLeaf& leaf, std::size_t sample);
  std::int64_t sample_of(const DimLeaf& leaf, std::size_t sample);
  std::optional<std::int64_t> sampled(const Dim& dim, std::size_t sample);
  Interval compute_symbol_bounds(const DimLeaf& leaf);
  bool refuted(const Dim& dim);
  bool takes_place(const Dim& dim, std::size_t sample);
  bool search_atom(const Dim& dim, const Dim& atom, int depth);

  const SymbolTable& symbols_;
  std::map<DimLeaf, std::int64_t> raised_;  // lower bounds that follow from loop variables
  std::set<DimLeaf> open_;                  // symbols whose bounds are being computed
  struct Hash {
    std::size_t operator()(const Dim& dim) const { return dim.hash(); }
  };
  std::map<DimLeaf, Interval> symbol_bounds_;
  std::map<DimLeaf, Samples> samples_;
  std::unordered_map<Dim, Interval, Hash> bounds_;
  std::unordered_map<Dim, Dim, Hash> simplified_;
  int budget_ = 0;  // steps left of the search in progress
};

}  // namespace anydim::ir::detail
