// Scalar programs (ir/loop_form.h) as CUDA C++ statements.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen_cuda/index_writer.h"

namespace anydim::codegen_cuda {

// Steps are written on demand, each into a named constant of value_type of its dtype, in the outermost scope that has all it needs, but not outside of `floor`
// (the scope up to which the program is known to run at least once: loads must not be hoisted past it), and once a scope.
//
//     ScalarWriter epilogue(kernel, form.epilogue, point, {form.epilogue_step});
//     epilogue.set_accumulated(0, "sum", point);
//     std::string value = epilogue.value(point, form.epilogue_step);   // "gelu7", a float
//     epilogue.store(point, store);                                    // out0[...] = to_bf16(gelu7);
class ScalarWriter {
 public:
  // Copies what it needs of `program`. `roots`: steps that are used from outside (stored, reduced, kept), besides those no step uses.
  ScalarWriter(KernelWriter& kernel, const ir::ScalarProgram& program, CodeScope& floor, const std::vector<std::int32_t>& roots = {});

  // Slots, and loads or other steps, that the caller provides: an expression of value_type (evaluated each time it is used: best a name), valid in `home` and below.
  // Steps that use it are written in `home` or deeper.
  void set_accumulated(std::int32_t slot, std::string expression, CodeScope& home);
  void set_scratch(std::int32_t slot, std::string expression, CodeScope& home);
  void set_load(std::int32_t step, std::string expression, CodeScope& home);

  // The value of a step: a name or a literal. A division of f32 numbers of an inner loop by a row's reduction (softmax, layer norm) multiplies
  // by the reciprocal, found once a row: its error is 1.5 ulp instead of 0.5.
  std::string value(CodeScope& scope, std::int32_t step) { return place(scope, step).text; }
  // The value of a store's step as an element of the result's storage_type.
  std::string stored_value(CodeScope& scope, const ir::Store& store);
  void store(CodeScope& scope, const ir::Store& store) { update(scope, store, std::nullopt); }
  // element = value, or element = combine(element, value).
  void update(CodeScope& scope, const ir::Store& store, const std::optional<ir::Op>& combine);
  // Writes the checked indices that a store's index mentions: its offset may be written in `scope` afterwards.
  void place_indices(CodeScope& scope, const ir::Store& store);
  // A store's index over the kernel's leaves.
  std::vector<ir::Dim> store_index(const ir::Store& store) const;

  const std::vector<ir::ScalarStep>& steps() const { return steps_; }
  ir::DType dtype(std::int32_t step) const { return steps_.at(static_cast<std::size_t>(step)).dtype; }
  // Whether a step happens only under a condition: of a Guarded step, or that the dims it is gathered from are not empty.
  bool conditional(std::int32_t step) const;
  // Whether the step, its operands or an index that it reads at mention a loop variable.
  bool varies(std::int32_t step, const ir::DimLeaf& variable) const;
  // Whether a checked index that a load reads at varies with the variable.
  bool index_varies(std::int32_t load, const ir::DimLeaf& variable) const;
  // Address of the element that a load reads; the checked indices it needs are written in `scope` at the latest.
  std::string address(CodeScope& scope, std::int32_t load);
  // Row-major offsets over the kernel's leaves (steps as this kernel numbers them).
  ir::Dim load_offset(std::int32_t step) const;
  ir::Dim store_offset(const ir::Store& store) const;

 private:
  struct Placed {
    std::string text;
    CodeScope* home = nullptr;
  };
  ir::Dim own(const ir::Dim& dim) const { return dim.substitute(names_); }
  Placed place(CodeScope& scope, std::int32_t step);
  void place_steps(CodeScope& scope, const ir::ScalarStep& step);
  void place_steps(CodeScope& scope, const ir::Dim& dim);
  CodeScope& home_of_step(CodeScope& scope, const ir::ScalarStep& step, std::int32_t position, const std::vector<Placed>& operands);
  Placed write(CodeScope& home, std::int32_t position, const std::vector<Placed>& operands);
  std::string named(CodeScope& home, ir::DType dtype, std::string_view stem, const std::string& expression);
  std::string mask_of(CodeScope& scope, std::int32_t position);
  std::string conditions(CodeScope& scope, const ir::ScalarStep& guarded);
  std::string load(CodeScope& home, std::int32_t position);
  // Where a load goes through a checked index, 0 stands for one out of range; in an empty dim it is no element at all.
  static std::set<std::int32_t> steps_read_at(const ir::ScalarStep& load);  // checked indices
  std::vector<ir::Dim> extents_that_may_be_empty(const ir::ScalarStep& load) const;
  std::string checked_index(CodeScope& home, std::int32_t position, const std::string& index);
  std::string shared_division(CodeScope& home, std::int32_t position, const std::vector<Placed>& operands);

  KernelWriter& kernel_;
  CodeScope& floor_;
  std::uint32_t number_;
  std::map<ir::DimLeaf, ir::Dim> names_;  // step leaves as they are called in this kernel
  std::vector<ir::ScalarStep> steps_;
  std::vector<std::vector<std::int32_t>> guards_;  // a step runs only where one of these Guarded steps needs it; empty: always
  std::vector<bool> reduced_;                      // a step computed from a reduction
  std::map<std::int32_t, Placed> accumulated_, scratch_, loads_;
};

// A literal of value_type.
std::string literal(ir::DType dtype, double real, std::int64_t integer);
// One elementwise op as an expression; operands are names or literals of value_type of `operand_dtype` (where's condition: bool).
std::string elementwise(KernelWriter& kernel, const ir::ScalarStep& step, ir::DType operand_dtype,
                        const std::vector<std::string>& operands);
// An element in memory (an lvalue) as a value, and a value as an element.
std::string widened(KernelWriter& kernel, ir::DType dtype, const std::string& element);
std::string narrowed(KernelWriter& kernel, ir::DType dtype, const std::string& value);

}  // namespace anydim::codegen_cuda
