// A padded module in which hidden rows are zeros: what a call gets that cannot take the packed way
// (passes/remove_padding.h).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ir/module.h"

namespace anydim::passes {

struct HideOptions {
  // Results have zeros at the rows that the mask hides.
  bool results = false;
  // Nothing of a hidden row reaches rows that take part, infinities and NaN included, as in the
  // packed module: sums over rows have zeros there, ranges by which activations are quantised are
  // those of the other rows, and keys and values have zeros for what is no ordinary number. Only
  // for modules that remove_padding() packs, whose results it leaves as they are otherwise; and,
  // where entries_are_bits, only in calls whose entries are all 0 or 1, and where inputs are
  // limited, only in calls that keep to it.
  bool reach = false;
  // What remove_padding() proved rests on entries that are 0 or 1 (PackingPlan::question without
  // steps): of any other entry nothing is known, even where attention asks one question of it.
  bool entries_are_bits = true;
  // By position: floats whose elements must be at most `input_limit` either way for hidden rows not
  // to reach others.
  std::vector<std::size_t> limited_inputs{};
  double input_limit = 0;
};

struct HiddenRows {
  ir::Module module;     // @main over the same parameters; types inferred
  std::string reason{};  // why hidden rows of some result are as the model computes them though
                         // zeros were asked for; empty where they are zeros
};

// `module` as run_to_fork() leaves it. The mask is what its first attention that has one
// proves (passes/mask_proof.h); without any, the module stays as it is.
HiddenRows hide_rows(const ir::Module& module, const HideOptions& options);

}  // namespace anydim::passes
