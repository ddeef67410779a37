#include "codegen_cpu/pack_emitter.h"

#include "codegen_cpu/index_emitter.h"
#include "codegen_cpu/scalar_emitter.h"
#include "codegen_cpu/vector_loop.h"

namespace anydim::codegen_cpu {

namespace {

using llvm::Value;

std::int64_t lanes_of(KernelBuilder& kernel, ir::DType dtype) { return kernel.target().lanes(static_cast<int>(ir::size_of(dtype))); }

void store_vector(KernelBuilder& kernel, Scope& scope, ir::DType dtype, Value* value, Value* base, Value* offset) {
  auto& builder = kernel.at(scope);
  value = narrow(kernel, dtype, kernel.splat(value, static_cast<unsigned>(lanes_of(kernel, dtype))));
  Value* place = kernel.element_pointer(base, dtype, offset);
  builder.CreateAlignedStore(value, place, llvm::Align(static_cast<std::uint64_t>(kernel.target().vector_bytes())));
}

// One vector at a time along the columns.
void pack_columns(KernelBuilder& kernel, Scope& scope, const PackPanels& pack) {
  const std::int64_t lanes = lanes_of(kernel, pack.dtype), panel = 64 / static_cast<std::int64_t>(ir::size_of(pack.dtype));
  const auto columns = pack.column.extent.constant();
  const VectorLoop loop{.symbol = pack.column.symbol, .first = pack.first_column, .count = pack.columns, .width = lanes, .may_end_early = !columns || *columns % lanes != 0};
  for_vectors(kernel, scope, loop, [&](Scope& vectors, Value* c) {
    auto& builder = kernel.at(vectors);
    Value* within = builder.CreateURem(c, kernel.constant(panel));
    Value* base = builder.CreateAdd(builder.CreateMul(builder.CreateSub(c, within), pack.depths), within);
    kernel.for_range(vectors, kernel.constant(0), pack.depths, 1, [&](Scope& point, Value* k) {
      point.define(pack.depth.symbol, kernel.at(point).CreateAdd(pack.first_depth, k));
      ProgramEmitter program(kernel, pack.program, point);
      Value* value = program.value(point, static_cast<std::int32_t>(pack.program.steps.size()) - 1);
      auto& inner = kernel.at(point);
      store_vector(kernel, point, pack.dtype, value, pack.to, inner.CreateAdd(base, inner.CreateMul(k, kernel.constant(panel))));
    });
  });
}

}  // namespace

void emit_pack_rows(KernelBuilder& kernel, Scope& scope, const PackRows& pack) {
  const std::int64_t lanes = lanes_of(kernel, pack.dtype);
  Value* count = emit_index(kernel, kernel.root(), pack.inner.extent);
  Value* stride = emit_index(kernel, kernel.root(), pack.row_stride);
  kernel.loop(scope, kernel.constant(0), pack.rows, 1, [&](Scope& row, Value* r) {
    auto& builder = kernel.at(row);
    row.define(pack.row, builder.CreateAdd(pack.first_row, r));
    Value* base = builder.CreateMul(r, stride);
    const auto extent = pack.inner.extent.constant();
    const VectorLoop loop{.symbol = pack.inner.symbol, .first = kernel.constant(0), .count = count, .width = lanes, .may_end_early = !extent || *extent % lanes != 0};
    for_vectors(kernel, row, loop, [&](Scope& vectors, Value* position) {
      ProgramEmitter program(kernel, pack.program, vectors);
      Value* value = program.value(vectors, static_cast<std::int32_t>(pack.program.steps.size()) - 1);
      Value* offset = kernel.at(vectors).CreateAdd(base, position);
      store_vector(kernel, vectors, pack.dtype, value, pack.to, offset);
    });
  });
}

void emit_pack_panels(KernelBuilder& kernel, Scope& scope, const PackPanels& pack) {
  pack_columns(kernel, scope, pack);
}

}  // namespace anydim::codegen_cpu
