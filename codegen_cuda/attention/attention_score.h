// How attention's score program is computed on a tile of products, and which keys a row can see at
// all.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/dims/symbols.h"
#include "ir/loops/loop_form.h"

namespace anydim::codegen_cuda {

enum class ScoreForm : std::uint8_t {
  Scaled,   // scale * product, scale > 0
  Masked,   // the same for keys that the row sees, and weight 0 for those that it doesn't, as the
            // conditions of its KeyRange say
  Column,   // scale * product + what depends on the key (and the batch point), not on the query
  Element,  // scale * product + what depends on query and key
  Plain,    // anything else
};

struct AttentionScore {
  ScoreForm form = ScoreForm::Plain;
  double scale = 1;
  ir::ScalarProgram program;  // Masked, Column and Element: what is added to the product, as its
                              // last step (f32), 0 or less where Masked; Plain: the score
};

AttentionScore attention_score(const ir::AttentionForm& form, const ir::SymbolTable& symbols);

// Keys that rows first ... last (first_row_leaf, last_row_leaf) may see lie in [begin, end) for
// each begin and end listed: outside, the score is -infinity, or so low beside a key that the row
// surely sees that its weight is 0. Every one of those rows sees the keys that lie in all of
// [whole_begin, whole_end) (ScoreForm::Masked; of other forms a score may mask what it likes). Dims
// are over region symbols, batch variables and those leaves.
struct KeyRange {
  std::vector<ir::Dim> begins, ends, whole_begins, whole_ends;
  bool depends_on_batch = false;
  bool none_behind_row = false;  // no row sees a key behind its own number
};
inline const ir::DimLeaf first_row_leaf = ir::loop_leaf(ir::LoopRole::Bound, 0),
                         last_row_leaf = ir::loop_leaf(ir::LoopRole::Bound, 1);

KeyRange key_range(const ir::AttentionForm& form, const ir::SymbolTable& symbols);

}  // namespace anydim::codegen_cuda
