// The bias of an attention as a scalar program of its indices, whatever ops an exporter made it of, and what is left of it under assumptions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/module.h"
#include "ir/scalar_access.h"

namespace anydim::passes {

// Its indices are the symbols below; they run over the batch dims of attention's result, its rows and its keys.
struct BiasProgram {
  ir::Stretch stretch;
  ir::AccessContext context;  // buffers: the function's parameters by position, then `constants`
  ir::ScalarProgram program;  // the last step is the element
  std::size_t batch_rank = 0;
  std::vector<ir::ValueId> constants;  // matrices
};
ir::Dim batch_symbol(std::size_t axis);  // "$b0", "$b1", ..
ir::Dim row_symbol();                    // "$i"
ir::Dim key_symbol();                    // "$j"

// Throws ir::NoLoopForm where an element is no scalar program. `attention` is a binding of `block` with a bias, `block` the body of `function`.
void build_bias(BiasProgram& bias, const ir::Function& function, const ir::Block& block, const ir::Binding& attention);

// Entries of a mask, which is parameter `buffer`, at two places of it.
struct Assumption {
  std::int32_t buffer = -1;
  std::vector<ir::Dim> place{};
  std::int64_t entry = 0;
};

// The program's live steps with the assumptions put in place and everything folded that they decide; the last step is the element. Steps that read a constant matrix
// whose rows step from one number to another along a diagonal become conditions.
ir::ScalarProgram fold(const BiasProgram& bias, const std::vector<Assumption>& assumptions);
// The same where the key is the row itself.
ir::ScalarProgram fold_on_diagonal(const BiasProgram& bias, const std::vector<Assumption>& assumptions);

// Bounds of what the last step can be, with symbols in their ranges.
struct RealRange {
  double low = 0, high = 0;
};
RealRange range_of(const ir::ScalarProgram& program, const ir::SymbolTable& symbols);

}  // namespace anydim::passes
