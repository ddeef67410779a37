// What is known of symbols, and proofs that use it.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/dims/dim.h"

namespace anydim::ir {

inline constexpr std::int64_t default_symbol_maximum = (std::int64_t{1} << 31) - 1;

// Inclusive; the extreme values of int64 mean unbounded.
struct Interval {
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
  bool operator==(const Interval&) const = default;
};

struct SymbolInfo {
  std::int64_t low = 0;
  std::int64_t high = default_symbol_maximum;
  std::int64_t multiple = 1;  // the symbol is a multiple of this
  std::optional<Dim> below;   // the symbol is < this dim (loop variables: below = extent)
  std::string reason;  // why the range is narrower than declared, naming the source node; empty: as
                       // declared
  bool unbacked = false;  // opened by a `?`: printed as `?` where its scope ends
};

// Symbols of one function, in order of declaration; of a loop form, its loop variables and steps
// too.
class SymbolTable {
 public:
  // Declares or replaces.
  void declare(const std::string& name, SymbolInfo info = {});
  // A symbol not yet in the table, named after `stem` (`stem`, `stem_1`, ...), unbacked.
  Dim fresh(std::string_view stem);
  const SymbolInfo* find(std::string_view name) const;  // null: not declared
  // A leaf of any kind; names() lists symbols only. An Element, of which nothing holds by itself,
  // is declared by AssumedExtents alone.
  void declare(const DimLeaf& leaf, SymbolInfo info);
  void remove(const DimLeaf& leaf);
  const SymbolInfo* find(const DimLeaf& leaf) const;
  // What holds of the leaf: the default SymbolInfo where it is not declared.
  const SymbolInfo& info(const DimLeaf& leaf) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  // Intersects the range; true when it became narrower (then `reason` is kept). An empty
  // intersection throws Error{Unsupported} naming the symbol, both ranges and both reasons.
  bool narrow(const std::string& name, Interval range, const std::string& reason);
  void remove(std::string_view name);
  const std::vector<std::string>& names() const { return order_; }

 private:
  std::vector<std::string> order_;
  std::map<std::string, SymbolInfo, std::less<>> infos_;
  std::map<DimLeaf, SymbolInfo> variables_;  // leaves that are no symbols
};

enum class Proof { Yes, No, Unknown };

// A sound enclosure of every value the dim takes over the symbols' ranges (tensor elements are
// unbounded).
Interval bounds(const Dim& dim, const SymbolTable& symbols);
// What `dim` is where `known` lies in `range`: unbounded unless dim is `known`, or both are
// products and dim a positive multiple of known.
Interval bounds_by(const Dim& dim, const Dim& known, const Interval& range,
                   const SymbolTable& symbols);
// The largest integer proven to divide every value (0 for the constant 0).
std::int64_t divisor(const Dim& dim, const SymbolTable& symbols);

Proof prove_equal(const Dim& a, const Dim& b, const SymbolTable& symbols);
Proof prove_less(const Dim& a, const Dim& b, const SymbolTable& symbols);
Proof prove_less_equal(const Dim& a, const Dim& b, const SymbolTable& symbols);
Proof prove(Comparison comparison, const Dim& a, const Dim& b, const SymbolTable& symbols);

// Rewrites with what ranges prove: min, max, select and broadcast that are decided; floor_div(q * b
// + r, b) with 0 <= r < b becomes q and mod becomes r, also for symbolic b and where only `below`
// proves r < b: floor_div(i * s + j, s) = i when j is below s.
Dim simplify(const Dim& dim, const SymbolTable& symbols);

}  // namespace anydim::ir
