// Scalar programs as LLVM values: one element, or as many as there are lanes.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "codegen_cpu/index_emitter.h"

namespace anydim::codegen_cpu {

// A value in registers has KernelBuilder::value_type of its dtype; it is a vector where it differs between the scope's lanes.
//
// Steps are emitted on demand, in the outermost scope that has all they need, but not outside of `floor` (the scope up to which the
// program is known to run at least once: loads must not be hoisted past it), and once a scope.
class ProgramEmitter {
 public:
  // Copies what it needs of `program`. `roots`: steps that are used from outside (stored, reduced, kept), besides those no step uses.
  ProgramEmitter(KernelBuilder& kernel, const ir::ScalarProgram& program, Scope& floor, const std::vector<std::int32_t>& roots = {});

  // The value of Accumulated slot `slot` from now on, computed in `home` (steps that use it are emitted there or deeper, so give each
  // new value a scope of its own).
  void set_accumulated(std::int32_t slot, llvm::Value* value, Scope& home);
  // Scratch slot `slot` is a vector of `dtype` at `base`, read at element `index`.
  void set_scratch(std::int32_t slot, llvm::Value* base, ir::DType dtype, const ir::Dim& index);

  // The value of a step in `scope`. A division of f32 numbers of an inner loop by a row's reduction (softmax, layer norm) multiplies by the
  // reciprocal, found once a row: its error is 1.5 ulp instead of 0.5.
  llvm::Value* value(Scope& scope, std::int32_t step) { return place(scope, step).value; }
  // Writes to a result. Contiguous lanes are stored at once, others one by one; lanes that don't exist are not written.
  void store(Scope& scope, const ir::Store& store);
  // The same, or combines with what is there (combine: an elementwise op of two operands). No two lanes may meet in an element.
  void update(Scope& scope, const ir::Store& store, const std::optional<ir::Op>& combine);
  ir::DType dtype(std::int32_t step) const { return steps_.at(static_cast<std::size_t>(step)).dtype; }

 private:
  struct Placed {
    llvm::Value* value = nullptr;
    Scope* home = nullptr;
  };
  struct ScratchSlot {
    llvm::Value* base = nullptr;
    ir::DType dtype{};
    ir::Dim index;
  };

  ir::Dim own(const ir::Dim& dim) const { return dim.substitute(names_); }
  // Of an element in a buffer, counted as KernelBuilder does; found once, however many scopes read it.
  const ir::Dim& offset_of(std::size_t buffer, std::vector<ir::Dim> index);
  Placed place(Scope& scope, std::int32_t step);
  Scope& home_of_step(Scope& scope, const ir::ScalarStep& step, std::int32_t position, const std::vector<Placed>& operands);
  llvm::Value* emit(Scope& home, std::int32_t position, const std::vector<Placed>& operands);
  llvm::Value* mask_of(Scope& scope, std::int32_t position);
  llvm::Value* conditions(Scope& scope, const ir::ScalarStep& guarded);
  llvm::Value* emit_shared_division(Scope& home, std::int32_t position, const std::vector<Placed>& operands);
  llvm::Value* emit_checked_index(Scope& home, std::int32_t position, llvm::Value* index);

  KernelBuilder& kernel_;
  Scope& floor_;
  std::uint32_t number_;
  std::map<ir::DimLeaf, ir::Dim> names_;  // step leaves as they are called in this kernel
  std::vector<ir::ScalarStep> steps_;
  std::vector<std::vector<std::int32_t>> guards_;  // a step runs only where one of these Guarded steps needs it; empty: always
  std::map<std::pair<std::size_t, std::vector<ir::Dim>>, ir::Dim> offsets_;
  std::vector<bool> reduced_;  // a step computed from a reduction
  std::map<std::int32_t, Placed> accumulated_;
  std::map<std::int32_t, ScratchSlot> scratch_;
};

// Loads and stores of `dtype` elements, one or a vector, at `offset` in `base`: uniform, contiguous or gathered as the offset's change
// between lanes demands. `mask`: i1 or <width x i1> or null (all lanes of the scope that exist). Masked-off lanes read 0.
llvm::Value* load_elements(KernelBuilder& kernel, Scope& scope, llvm::Value* base, ir::DType dtype, const ir::Dim& offset,
                           llvm::Value* mask = nullptr, bool constant_memory = false);
void store_elements(KernelBuilder& kernel, Scope& scope, llvm::Value* base, ir::DType dtype, const ir::Dim& offset, llvm::Value* value);

// Between memory and registers, at here(): value_type <-> storage_type, any width.
llvm::Value* widen(KernelBuilder& kernel, ir::DType dtype, llvm::Value* stored);
llvm::Value* narrow(KernelBuilder& kernel, ir::DType dtype, llvm::Value* value);

// Where `failed` (and `mask`, where there is one) holds in a lane that exists: sets the error slot with `check` and the lane's `value` (i64).
void report_where(KernelBuilder& kernel, Scope& scope, llvm::Value* failed, llvm::Value* mask, std::int32_t check, llvm::Value* value);

// One elementwise op, at the end of `scope`; operands have value_type of `operand_dtype` (where's condition: bool), all scalars or all
// as wide as the scope's lanes. `mask`: lanes whose failures count, null for all.
llvm::Value* emit_elementwise(KernelBuilder& kernel, Scope& scope, const ir::ScalarStep& step, ir::DType operand_dtype,
                              const std::vector<llvm::Value*>& operands, llvm::Value* mask);

}  // namespace anydim::codegen_cpu
