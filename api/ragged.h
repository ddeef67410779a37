// Texts laid end to end, without padding and without a mask: ids of all of them and where each
// begins, in; results of the same form, out.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/inputs.h"
#include "ir/dims/symbols.h"
#include "runtime/executable.h"
#include "runtime/packing.h"

namespace anydim {

// A model over the rows of `offsets.back()` tokens: text t has rows offsets[t] to offsets[t + 1] -
// 1.
struct RaggedProgram {
  std::shared_ptr<const runtime::Executable> executable{};
  // the model's without its mask; (tokens, ..) in place of (batch, sequence, ..)
  std::vector<InputInfo> inputs{};
  std::vector<InputInfo> outputs{};               // the model's, likewise
  std::vector<bool> input_rows{}, output_rows{};  // which have tokens as their first dim; the
                                                  // others are as the padded model has them
  std::vector<runtime::RowVector> vectors{};      // what the executable takes after the inputs
  bool first_rows = false;                        // a text without tokens has no result
  ir::SymbolInfo texts{}, length{};  // ranges of the number of texts and of a text's tokens
};

// What the executable is called with. Throws Error{Inputs} where offsets are no i64 vector, do not
// start with 0, fall, or end elsewhere than the inputs' rows; for inputs of another number, dtype
// or rank; for more texts or longer texts than the model takes; and for a text without tokens where
// the model reads every text's first.
std::vector<ir::Tensor> ragged_call(const RaggedProgram& program,
                                    const std::vector<ir::Tensor>& inputs,
                                    const ir::Tensor& offsets);

}  // namespace anydim
