// Scalar programs as LLVM values: one element, or as many as there are lanes.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "codegen_cpu/scalars/index_emitter.h"
#include "ir/loops/step_placer.h"

namespace anydim::codegen_cpu {

// Statements of placed kernels as LLVM instructions. A value in registers has
// KernelBuilder::value_type of its dtype; it is a vector where it differs between the scope's
// lanes. Contiguous lanes are stored at once, others one by one; lanes that don't exist are not
// written. No two lanes may meet in an element that a store combines with what is there.
class ProgramEmitter : public ir::StepPlacer<Scope, llvm::Value*> {
 public:
  // Copies what it needs of `program`. `roots` and `floor` as KernelProgram and StepPlacer take
  // them.
  ProgramEmitter(KernelBuilder& kernel, const ir::ScalarProgram& program, Scope& floor,
                 const std::vector<std::int32_t>& roots);

  // Scratch slot `slot` is a vector of `dtype` at `base`, read at element `index`.
  void set_scratch(std::int32_t slot, llvm::Value* base, ir::DType dtype, const ir::Dim& index);

 private:
  struct ScratchSlot {
    llvm::Value* base = nullptr;
    ir::DType dtype{};
    ir::Dim index;
  };

  ir::Interval interval_of(const ir::Dim& dim) override { return kernel_.interval_of(dim); }
  Scope& outermost_of(Scope& scope, std::int32_t step, Scope& floor) override;
  llvm::Value* write(Scope& home, const ir::PlacedStep& placed) override;
  llvm::Value* write(Scope& home, const ir::PlacedInverse& inverse) override;
  void write(Scope& scope, const ir::PlacedStore& store) override;

  void put(Scope& scope, const ir::PlacedStore& store);  // without its mask
  llvm::Value* checked_index(Scope& home, const ir::PlacedStep& placed,
                             const ir::step::CheckedIndex& checked);
  llvm::Value* select(Scope& home, const ir::PlacedStep& placed, const ir::step::Guarded& guarded);
  bool reads_zero_instead(const ir::ScalarStep& step) const;
  // Behind `first`, where there is one; all of them scalars or all vectors.
  std::vector<llvm::Value*> operands(Scope& home, const ir::PlacedStep& placed,
                                     llvm::Value* first = nullptr);
  llvm::Value* mask(Scope& scope, const ir::KernelMask& mask);  // null: everywhere
  // The offset of an element in a buffer, counted as KernelBuilder does; found once, however many
  // scopes read it.
  const ir::Dim& offset_of(std::size_t buffer, const std::vector<ir::Dim>& index);

  KernelBuilder& kernel_;
  std::map<std::pair<std::size_t, std::vector<ir::Dim>>, ir::Dim> offsets_;
  std::map<std::int32_t, ScratchSlot> scratch_;
};

// Loads and stores of `dtype` elements, one or a vector, at `offset` in `base`: uniform, contiguous
// or gathered as the offset's change between lanes demands. `mask`: i1 or <width x i1> or null (all
// lanes of the scope that exist). Masked-off lanes read 0.
llvm::Value* load_elements(KernelBuilder& kernel, Scope& scope, llvm::Value* base, ir::DType dtype,
                           const ir::Dim& offset, llvm::Value* mask = nullptr,
                           bool constant_memory = false);
void store_elements(KernelBuilder& kernel, Scope& scope, llvm::Value* base, ir::DType dtype,
                    const ir::Dim& offset, llvm::Value* value);

// Between memory and registers, at here(): value_type <-> storage_type, any width.
llvm::Value* widen(KernelBuilder& kernel, ir::DType dtype, llvm::Value* stored);
llvm::Value* narrow(KernelBuilder& kernel, ir::DType dtype, llvm::Value* value);

// Where `failed` (and `mask`, where there is one) holds in a lane that exists: sets the error slot
// with `check` and the lane's `value` (i64).
void report_where(KernelBuilder& kernel, Scope& scope, llvm::Value* failed, llvm::Value* mask,
                  std::int32_t check, llvm::Value* value);

// One elementwise op, at the end of `scope`; operands have value_type of `operand_dtype` (where's
// condition: bool), all scalars or all as wide as the scope's lanes. `mask`: lanes whose failures
// count, null for all.
llvm::Value* emit_elementwise(KernelBuilder& kernel, Scope& scope, const ir::ScalarStep& step,
                              ir::DType operand_dtype, const std::vector<llvm::Value*>& operands,
                              llvm::Value* mask);

}  // namespace anydim::codegen_cpu
