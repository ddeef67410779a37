// A value's element as a scalar program of its indices, whatever ops an exporter made it of, and
// what is left of it under assumptions on a mask's entries.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/loops/scalar_access.h"
#include "ir/loops/scalar_fold.h"
#include "ir/module.h"

namespace anydim::passes {

// Its indices are the symbols below.
struct ElementProgram {
  ir::Subgraph subgraph;
  ir::AccessContext context;  // buffers: the function's parameters by position, then `constants`,
                              // then values that are no scalar programs
  ir::ScalarProgram program;  // the last step is the element
  std::size_t batch_rank = 0;
  std::vector<ir::ValueId> constants;  // of several elements
  bool finite = false;                 // buffers hold neither infinities nor NaN
  // of a bias of bools: what stands for the score where the element is false
  std::optional<double> fill{};
  // Keys are compared with the sum of a mask's entries in their sequence; the program has the key's
  // entry in that place, which says the same where entries are 0 or 1 and those of 1 come first.
  bool counts_rows = false;
};
// The loop variables of an attention's scores, as in its loop form.
ir::Dim batch_index(std::size_t axis);
ir::Dim row_index();
ir::Dim key_index();

// Makes the program of an attention's bias, whose indices run over the batch dims of its result,
// its rows and its keys. Throws ir::NoLoopForm where an element is no scalar program. `attention`
// is a binding of `block` with a bias, `block` the body of `function`.
void build_bias(ElementProgram& bias, const ir::Function& function, const ir::Block& block,
                const ir::Binding& attention);
// What a Load step of the program reads, where that is a constant.
const ir::Tensor* constant_of(const ElementProgram& element, const ir::ScalarStep& load);
// What the bias adds to scores: the element itself, of bools 0 or the fill. It outlives neither
// `bias` nor what that was made of.
ElementProgram as_added(const ElementProgram& bias, ir::DType dtype);
// The program of any value at `index`, which is made of the variables of `space`. What other than
// elementwise ops and views computes is read from buffers. Buffers are taken to be finite.
void build_element(ElementProgram& element, const ir::Function& function, const ir::Block& block,
                   ir::ValueId value, const std::vector<ir::Dim>& index,
                   const std::vector<ir::Iteration>& space);

// A step that reads nothing but one entry of a parameter: the function of that entry which it
// computes, as a program whose only Load has no index.
struct EntryFunction {
  std::int32_t buffer = -1;
  std::vector<ir::Dim> place;
  ir::ScalarProgram function;
};
std::optional<EntryFunction> entry_function(const ir::ScalarProgram& program, std::size_t step);
// The entry, where this truth value of the function leaves only one.
std::optional<double> only_entry(const ir::ScalarProgram& function, bool truth);

// An entry of a parameter of `dtype` to which a function with a bool result gives this answer,
// among those that its constants make likely.
std::optional<std::int64_t> entry_that_answers(const ir::ScalarProgram& function, ir::DType dtype,
                                               bool truth);

// That a function of a mask's entry at a place is a number.
struct Assumption {
  std::int32_t buffer = -1;
  std::vector<ir::Dim> place{};
  ir::ScalarProgram function{};  // no steps: the entry itself
  double is = 0;
};
struct Assumptions {
  std::vector<Assumption> entries{};
  std::optional<std::int32_t> zero_or_one{};  // a buffer with no other elements
};

// Which keys of a row a bias is looked at for.
enum class Keys : std::uint8_t { All, Before, Own, After };
// The program folded (ir/loops/scalar_fold.h) with the assumptions put in place.
ir::Folded fold(const ElementProgram& element, const Assumptions& assumptions,
                Keys keys = Keys::All);

}  // namespace anydim::passes
