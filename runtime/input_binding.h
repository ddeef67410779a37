// Symbols from the shapes of a call's inputs, quickly.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/program.h"
#include "ir/tensor.h"

namespace anydim::runtime {

bool are_constants(std::span<const ir::Dim> dims);
// Only the element type of such an input counts: no instruction reads it, and its declared extents
// are constants, which bind no symbol.
bool takes_any_shape(const ir::Code::Input& input);

// A straight list of comparisons for what programs demand most (constants, symbols, ranges,
// multiples). What doesn't fit it, and every input that fails it, goes through ir::bind_symbols,
// which has the messages.
class InputBinding {
 public:
  explicit InputBinding(const ir::Program& program);

  // Sets the leaf slots bound from inputs. Throws Error{Inputs} (ir/shapes/bind.h).
  void bind(std::span<const ir::Tensor> inputs, std::span<std::int64_t> slots) const;

 private:
  struct Step {
    enum class Kind : std::uint8_t { Constant, Bind, Compare, Expression };
    Kind kind = Kind::Constant;
    std::uint32_t input = 0, dim = 0;
    std::int64_t low = 0, high = 0, multiple = 1;  // Constant: low; Bind: the symbol's
    std::int64_t offset = 0;  // Bind: the extent is the symbol's value and this
    std::int32_t value = -1;  // Bind and Compare: position in the table of symbol values
    ir::Dim expected{};       // Expression: of symbols bound before
  };
  struct Leaf {
    std::int32_t slot = 0, value = 0;
  };
  bool bind_quickly(std::span<const ir::Tensor> inputs, std::span<std::int64_t> slots) const;
  void bind_slowly(std::span<const ir::Tensor> inputs, std::span<std::int64_t> slots) const;

  const ir::Program& program_;
  ir::Function function_;           // parameters only, for ir::bind_symbols
  std::vector<std::size_t> bound_;  // inputs that these parameters are
  std::vector<Step> steps_;
  std::map<std::string, std::int32_t, std::less<>> positions_;  // of symbols in the table of values
  std::vector<Leaf> leaves_;
  std::size_t values_ = 0;
  bool quick_ = true;
};

}  // namespace anydim::runtime
