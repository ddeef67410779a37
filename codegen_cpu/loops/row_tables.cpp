#include "codegen_cpu/loops/row_tables.h"

#include <limits>

namespace anydim::codegen_cpu {

RowTables::RowTables(KernelBuilder& kernel, ScratchLayout& layout, const ProgramEmitter& program,
                     const std::vector<std::int32_t>& kept, const Dim& length, unsigned width)
    : kernel_(kernel) {
  const Dim elements = ir::ceil_div(length, width) * width;
  for (const std::int32_t position : kept) {
    const ScalarStep& step = program.program().step(position);
    Table table{.step = position};
    table.computed = table.stored = kernel.value_type(step.dtype);
    if (const auto* index = std::get_if<ir::step::CheckedIndex>(&step.kind)) {
      table.is_index = true;
      // Gathers with narrow indices are faster.
      const bool narrow =
          kernel.interval_of(index->extent).high <= std::numeric_limits<std::int32_t>::max();
      table.stored = narrow ? llvm::Type::getInt32Ty(kernel.context()) : table.computed;
    }
    const auto bytes = static_cast<std::int64_t>(table.stored->getScalarSizeInBits() / 8);
    table.base = layout.reserve(kernel, elements * bytes);
    tables_.push_back(table);
  }
}

llvm::Value* RowTables::place(Scope& point, const Table& table) const {
  llvm::Value* position = point.find(variable_);
  auto& at = kernel_.at(point);
  return at.CreateGEP(table.stored, table.base, at.CreateSub(position, first_));
}

void RowTables::fill(Scope& task, ProgramEmitter& program, const VectorRange& range) {
  variable_ = range.variable;
  first_ = range.first;
  emit_vector_range(kernel_, task, range, [&](Scope& point, unsigned) {
    for (const Table& table : tables_) {
      llvm::Value* value = program.value(point, table.step);
      auto& at = kernel_.at(point);
      value = kernel_.splat(value, point.lanes().width);
      llvm::Type* type = kernel_.vector_of(table.stored, point.lanes().width);
      if (table.is_index) value = at.CreateTrunc(value, type);
      llvm::Value* pointer = place(point, table);
      kernel_.at(point).CreateAlignedStore(value, pointer,
                                           llvm::Align(table.stored->getScalarSizeInBits() / 8));
    }
  });
}

void RowTables::give(Scope& point, const ProgramEmitter& program) const {
  for (const Table& table : tables_) {
    llvm::Type* type = kernel_.vector_of(table.stored, point.lanes().width);
    llvm::Value* pointer = place(point, table);
    auto& at = kernel_.at(point);
    llvm::Value* value =
        at.CreateAlignedLoad(type, pointer, llvm::Align(table.stored->getScalarSizeInBits() / 8));
    if (table.is_index) {
      value = at.CreateSExt(value, kernel_.vector_of(table.computed, point.lanes().width));
      point.define(program.program().leaf_of(table.step), value);
    }
    point.values.insert_or_assign(program.program().value_of(table.step), value);
  }
}

}  // namespace anydim::codegen_cpu
