// Scalar programs (ir/loops/loop_form.h) as CUDA C++ statements.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen_cuda/scalars/index_writer.h"
#include "ir/loops/step_placer.h"

namespace anydim::codegen_cuda {

// Each step is written into a named constant of value_type of its dtype.
//
//     ScalarWriter epilogue(kernel, form.epilogue, point, {form.epilogue_step});
//     epilogue.set_accumulated(0, "sum", point);
//     std::string value = epilogue.value(point, form.epilogue_step);   // "gelu7", a float
//     epilogue.store(point, store);                                    // out0[...] =
//     to_bf16(gelu7);
class ScalarWriter : public ir::StepPlacer<CodeScope, std::string> {
 public:
  // Copies what it needs of `program`. `roots` and `floor` as ir::KernelProgram and ir::StepPlacer
  // take them.
  ScalarWriter(KernelWriter& kernel, const ir::ScalarProgram& program, CodeScope& floor,
               const std::vector<std::int32_t>& roots = {});

  // Slots, and loads or other steps, that the caller provides: an expression of value_type
  // (evaluated each time it is used: best a name), valid in `home` and below. Steps that use it are
  // written in `home` or deeper.
  void set_accumulated(std::int32_t slot, std::string expression, CodeScope& home);
  void set_scratch(std::int32_t slot, std::string expression, CodeScope& home);
  void set_load(std::int32_t step, std::string expression, CodeScope& home);

  // The value of a store's step as an element of the result's storage_type.
  std::string stored_value(CodeScope& scope, const ir::Store& store);
  void store(CodeScope& scope, const ir::Store& store) { update(scope, store, std::nullopt); }
  // element = value, or element = combine(element, value).
  void update(CodeScope& scope, const ir::Store& store, const std::optional<ir::Op>& combine);
  // Writes the checked indices that a store's index mentions: its offset may be written in `scope`
  // afterwards.
  void place_store(CodeScope& scope, const ir::Store& store);
  // A store's index over the kernel's leaves.
  std::vector<ir::Dim> store_index(const ir::Store& store) const;

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
  std::optional<Placed> given(std::int32_t step) override;
  ir::Interval interval_of(const ir::Dim& dim) override { return kernel_.interval_of(dim); }
  std::string emit(CodeScope& home, std::int32_t step,
                   const std::vector<std::string>& operands) override;
  std::string holds(CodeScope& scope, const ir::ScalarStep::Condition& condition) override;
  std::string always(CodeScope&) override { return "true"; }
  std::string both(CodeScope&, const std::string& a, const std::string& b) override {
    return "(" + a + " && " + b + ")";
  }
  std::string either(CodeScope&, const std::string& a, const std::string& b) override {
    return "(" + a + " || " + b + ")";
  }
  std::string reciprocal(CodeScope& scope, std::int32_t divisor, const std::string& value) override;
  std::string product(CodeScope& scope, std::int32_t step, const std::string& a,
                      const std::string& b) override;

  std::string named(CodeScope& home, ir::DType dtype, std::string_view stem,
                    const std::string& expression);
  std::string load(CodeScope& home, std::int32_t step);
  std::string checked_index(CodeScope& home, std::int32_t step, const std::string& index);

  KernelWriter& kernel_;
  CodeScope& floor_;
  std::map<std::int32_t, Placed> accumulated_, scratch_, loads_;
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
