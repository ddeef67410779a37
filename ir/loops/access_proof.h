// Whether an index is inside a buffer at every point of the loops around it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/loops/loop_form.h"

namespace anydim::ir {

class AccessProof {
 public:
  // `symbols`: of the form, with its loop variables and the checked indices that dims mention.
  // `around`: the loops that the access stands in, each of which runs at least once then.
  AccessProof(const SymbolTable& symbols, std::span<const Iteration> around);

  // What is not proven of the access, which `what` names ("load 0"), of a buffer of that type and
  // as many dims as `index` has, where all of `conditions` hold and the checked indices that it
  // mentions have an element to name; nothing where it is inside.
  std::optional<std::string> flaw(std::string_view what, const std::vector<Dim>& index,
                                  const TensorType& type,
                                  std::span<const ScalarStep::Condition> conditions) const;

  // Whether a < b where all of `conditions` hold, and likewise.
  bool proven(const Dim& a, const Dim& b, std::span<const ScalarStep::Condition> conditions) const;

 private:
  bool is_below(const DimLeaf& index) const;
  std::vector<Dim> assumed(std::span<const Dim> dims,
                           std::span<const ScalarStep::Condition> conditions) const;

  SymbolTable symbols_;
  std::vector<Dim> assumed_;  // not negative
  bool never_runs_ = false;
};

}  // namespace anydim::ir
