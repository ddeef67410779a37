#include "ir/loops/access_proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/dims/case_proof.h"
#include "ir/error.h"
#include "ir/text/print.h"

namespace anydim::ir {

namespace {

// more - less - least, unless it leaves 64 bits: then it says nothing.
void add_difference(std::vector<Dim>& all, const Dim& more, const Dim& less, std::int64_t least) {
  try {
    all.push_back(more - less - least);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Internal) throw;
  }
}

// A symbol whose least value would leave the loop no point has another one.
void raise_symbols(const Dim& extent, SymbolTable& symbols) {
  for (const DimLeaf& leaf : extent.leaves()) {
    const SymbolInfo* known = symbols.find(leaf);
    if (known == nullptr || known->low >= known->high) continue;
    if (known->low == INT64_MIN) continue;
    const Dim least = extent.substitute(std::map<DimLeaf, Dim>{{leaf, known->low}});
    if (bounds(least, symbols).high > 0) continue;
    SymbolInfo raised = *known;
    raised.low = std::min(raised.low + raised.multiple, raised.high);
    symbols.declare(leaf, raised);
  }
}

}  // namespace

AccessProof::AccessProof(const SymbolTable& symbols, std::span<const Iteration> around)
    : symbols_(symbols) {
  for (const Iteration& loop : around) {
    never_runs_ = never_runs_ || bounds(loop.extent, symbols).high < 1;
    add_difference(assumed_, loop.extent, 0, 1);
    // None of the factors of an extent is 0.
    if (loop.extent.kind() == Dim::Kind::Sum && loop.extent.terms().size() == 1 &&
        loop.extent.constant_part() == 0)
      for (const Dim& factor : loop.extent.terms()[0].factors)
        if (bounds(factor, symbols).low >= 0) add_difference(assumed_, factor, 0, 1);
    raise_symbols(loop.extent, symbols_);
  }
}

// A checked index is 0 in an empty dim, which is not below its extent.
bool AccessProof::is_below(const DimLeaf& index) const {
  const SymbolInfo* known = symbols_.find(index);
  return known != nullptr && known->below && proven_less(0, *known->below, assumed_, symbols_);
}

std::vector<Dim> AccessProof::assumed(std::span<const Dim> dims,
                                      std::span<const ScalarStep::Condition> conditions) const {
  std::vector<Dim> all = assumed_;
  std::set<DimLeaf> leaves;
  for (const Dim& dim : dims) dim.collect_leaves(leaves);
  for (const auto& [comparison, left, right] : conditions) {
    std::set<DimLeaf> mentioned;
    left.collect_leaves(mentioned);
    right.collect_leaves(mentioned);
    if (std::ranges::any_of(mentioned, [&](const DimLeaf& leaf) {
          return leaf.is_step() && !leaves.contains(leaf) && !is_below(leaf);
        }))
      continue;
    leaves.merge(mentioned);
    if (comparison == Comparison::Less) add_difference(all, right, left, 1);
    if (comparison == Comparison::LessEqual || comparison == Comparison::Equal)
      add_difference(all, right, left, 0);
    if (comparison == Comparison::Equal) add_difference(all, left, right, 0);
  }
  for (const DimLeaf& leaf : leaves)
    if (const SymbolInfo* known = symbols_.find(leaf); known != nullptr && known->below)
      add_difference(all, *known->below, Dim::of(leaf), 1);
  return all;
}

bool AccessProof::proven(const Dim& a, const Dim& b,
                         std::span<const ScalarStep::Condition> conditions) const {
  const std::vector<Dim> dims{a, b};
  return never_runs_ || proven_less(a, b, assumed(dims, conditions), symbols_);
}

std::optional<std::string> AccessProof::flaw(
    std::string_view what, const std::vector<Dim>& index, const TensorType& type,
    std::span<const ScalarStep::Condition> conditions) const {
  if (never_runs_) return std::nullopt;
  const std::vector<Dim> assumed = this->assumed(index, conditions);
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (proven_less_equal(0, index[i], assumed, symbols_) &&
        proven_less(index[i], type.dims[i], assumed, symbols_))
      continue;
    const Interval range = bounds(index[i], symbols_);
    return fmt::format(
        "{} of {}: dim {} is accessed at {}, in [{}, {}], which is not proven to be "
        "inside [0, {})",
        what, print(type), i, index[i].to_string(), range.low, range.high,
        type.dims[i].to_string());
  }
  return std::nullopt;
}

}  // namespace anydim::ir
