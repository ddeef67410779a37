// A padded module in which hidden rows are zeros: what a call gets that cannot take the packed way
// (passes/remove_padding.h).
#pragma once

#include <cstddef>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "ir/module.h"
#include "passes/pass.h"
#include "passes/remove_padding.h"

namespace anydim::passes {

struct HideOptions {
  // Results have zeros at the rows that the mask hides.
  bool results = false;
  // Nothing of a hidden row reaches rows that take part, infinities and NaN included, as in the
  // packed module: these values (PackingPlan::reductions) leave them out, and keys and values of
  // attention have zeros there for what is no ordinary number. Only for modules that
  // remove_padding() packs, whose results it leaves as they are otherwise.
  bool reach = false;
  std::set<ir::ValueId> reductions{};
  // Only in calls whose entries are all 0 or 1 does nothing reach them: the proof rests on it
  // (PackingPlan::question without steps), even where attention asks one question of an entry.
  bool entries_are_bits = true;
  // By position: floats whose elements must be at most `input_limit` either way for hidden rows not
  // to reach others.
  std::vector<std::size_t> limited_inputs{};
  double input_limit = std::numeric_limits<double>::infinity();
};

// `reach` as the packed module has it, where there is one.
HideOptions hiding_like(const PackingResult& packing);

struct HiddenRows {
  ir::Module module;     // @main over the same parameters; types inferred
  std::string reason{};  // why hidden rows of some result are as the model computes them though
                         // zeros were asked for; empty where they are zeros
};

// `module` as run_to_fork() leaves it. The mask is what its first attention that has one
// proves (passes/mask_proof.h); without any, the module stays as it is.
HiddenRows hide_rows(const ir::Module& module, const HideOptions& options);

}  // namespace anydim::passes
