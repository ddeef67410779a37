// What holds of the parts of an extent because it is one.
#pragma once

#include <optional>
#include <vector>

#include "ir/dims/symbols.h"

namespace anydim::ir {

// Extents of tensors are not negative, and where a tensor has an element, not 0: while this lives,
// proofs over `symbols` know it of the symbols and tensor elements that they are made of, as far as
// these can be told apart.
class AssumedExtents {
 public:
  explicit AssumedExtents(SymbolTable& symbols) : symbols_(symbols) {}
  AssumedExtents(const AssumedExtents&) = delete;
  ~AssumedExtents();
  void add(const Dim& extent, std::int64_t least = 0) { at_least(extent, least); }

 private:
  void at_least(const Dim& dim, std::int64_t least);
  void raise(const DimLeaf& leaf, std::int64_t least);

  struct Before {
    DimLeaf leaf;
    std::optional<SymbolInfo> info;  // nothing: it was not declared
  };
  SymbolTable& symbols_;
  std::vector<Before> before_;
};

}  // namespace anydim::ir
