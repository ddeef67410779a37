// Scalar programs (ir/loops/loop_form.h) as CUDA C++.
#pragma once

#include <string>
#include <vector>

#include "codegen_cuda/scalars/index_writer.h"
#include "ir/loops/step_placer.h"

namespace anydim::codegen_cuda {

// Statements of placed kernels: each step is a named constant of value_type of its dtype, a store
// an assignment.
//
//     ScalarWriter epilogue(kernel, form.epilogue, point, {form.epilogue_step});
//     epilogue.set_accumulated(0, "sum", point);
//     std::string value = epilogue.value(point, form.epilogue_step);  // "gelu7", a float
//     epilogue.store(point, store);  // out0[...] = to_bf16(gelu7);
class ScalarWriter : public ir::StepPlacer<CodeScope, std::string> {
 public:
  // Copies what it needs of `program`. `roots` and `floor` as ir::KernelProgram and ir::StepPlacer
  // take them.
  ScalarWriter(KernelWriter& kernel, const ir::ScalarProgram& program, CodeScope& floor,
               const std::vector<std::int32_t>& roots);

  // What stands for a slot or a step is an expression of value_type, evaluated each time it is
  // used: best a name.
  void set_scratch(std::int32_t slot, const std::string& expression, CodeScope& home);

  // The value of a store's step as an element of the result's storage_type; before it is rounded to
  // that, a float where the result is of 16-bit floats.
  std::string stored_value(CodeScope& scope, const ir::Store& store);
  std::string unrounded_value(CodeScope& scope, const ir::Store& store) {
    return value(scope, stored_step(store));
  }
  // Writes the checked indices that a store's index mentions: its offset may be written in `scope`
  // afterwards.
  void place_store(CodeScope& scope, const ir::Store& store);
  // A store's index over the kernel's leaves.
  std::vector<ir::Dim> store_index(const ir::Store& store) const {
    return program().own(store.index);
  }

  // Whether a step happens only under a condition: of a Guarded step, or that the dims it is
  // gathered from are not empty.
  bool conditional(std::int32_t step);
  // Whether a checked index that a load reads at varies with the variable.
  bool index_varies(std::int32_t load, const ir::DimLeaf& variable) const;
  // Address of the element that a load reads; the checked indices it needs are written in `scope`
  // at the latest.
  std::string address(CodeScope& scope, std::int32_t load);
  // Row-major offsets over the kernel's leaves (steps as this kernel numbers them).
  ir::Dim load_offset(std::int32_t step) const;
  ir::Dim store_offset(const ir::Store& store) const;

 private:
  ir::Interval interval_of(const ir::Dim& dim) override { return kernel_.interval_of(dim); }
  std::int32_t stored_step(const ir::Store& store) const override;
  std::string write(CodeScope& home, const ir::PlacedStep& placed) override;
  std::string write(CodeScope& home, const ir::PlacedInverse& inverse) override;
  void write(CodeScope& scope, const ir::PlacedStore& store) override;

  void put(CodeScope& scope, const ir::PlacedStore& store);  // without its mask
  std::string named(CodeScope& home, ir::DType dtype, std::string_view stem,
                    const std::string& expression);
  std::string load(CodeScope& home, const ir::PlacedStep& placed, const ir::step::Load& read);
  std::string checked_index(CodeScope& home, const ir::PlacedStep& placed,
                            const ir::step::CheckedIndex& checked);
  std::string mask(CodeScope& scope, const ir::KernelMask& mask);  // empty: everywhere

  KernelWriter& kernel_;
};

// A literal of value_type.
std::string literal(ir::DType dtype, double real, std::int64_t integer);
// One elementwise op as an expression; operands are names or literals of value_type of
// `operand_dtype` (where's condition: bool).
std::string elementwise(KernelWriter& kernel, const ir::ScalarStep& step, ir::DType operand_dtype,
                        const std::vector<std::string>& operands);
// An element in memory (an lvalue) as a value, and a value as an element.
std::string widened(KernelWriter& kernel, ir::DType dtype, const std::string& element);
std::string narrowed(KernelWriter& kernel, ir::DType dtype, const std::string& value);

}  // namespace anydim::codegen_cuda
