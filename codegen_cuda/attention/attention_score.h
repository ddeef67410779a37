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
  Column,   // scale * product + what depends on the key (and the batch point), not on the query
  Element,  // scale * product + what depends on query and key
  Plain,    // anything else
};

struct AttentionScore {
  ScoreForm form = ScoreForm::Plain;
  double scale = 1;
  ir::ScalarProgram program;  // Column and Element: what is added to the product, as its last step
                              // (f32); Plain: the score
};

AttentionScore attention_score(const ir::AttentionForm& form);

// Keys that rows first ... last (first_row_leaf, last_row_leaf) may see lie in [begin, end) for
// each begin and end listed: outside, the score is -infinity, or so low beside a key that the row
// surely sees that its weight is 0. Dims are over region symbols, batch variables and those leaves.
struct KeyRange {
  std::vector<ir::Dim> begins, ends;
  bool depends_on_batch = false;
};
inline const ir::DimLeaf first_row_leaf = ir::loop_leaf(ir::LoopRole::Bound, 0),
                         last_row_leaf = ir::loop_leaf(ir::LoopRole::Bound, 1);

KeyRange key_range(const ir::AttentionForm& form, const ir::SymbolTable& symbols);

}  // namespace anydim::codegen_cuda
