#include "codegen_cpu/pack_emitter.h"

#include <vector>

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
  const VectorLoop loop{.symbol = pack.column.symbol,
                        .first = pack.first_column,
                        .count = pack.columns,
                        .width = lanes,
                        .may_end_early = !columns || *columns % lanes != 0};
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

// Rows become columns, one bit of their position at a time.
void transpose(KernelBuilder& kernel, std::vector<Value*>& rows) {
  auto& builder = kernel.here();
  const std::size_t size = rows.size();
  for (std::size_t bit = 1; bit < size; bit *= 2) {
    std::vector<int> even, odd;
    for (std::size_t lane = 0; lane < size; ++lane) {
      const bool second = (lane & bit) != 0;
      even.push_back(static_cast<int>(second ? (lane ^ bit) + size : lane));
      odd.push_back(static_cast<int>(second ? lane + size : lane ^ bit));
    }
    for (std::size_t row = 0; row < size; ++row) {
      if ((row & bit) != 0) continue;
      Value *a = rows[row], *b = rows[row | bit];
      rows[row] = builder.CreateShuffleVector(a, b, even);
      rows[row | bit] = builder.CreateShuffleVector(a, b, odd);
    }
  }
}

// Squares of vectors: read along the depth, stored along the columns. Columns beyond the last repeat it; depths beyond the last are written as
// zeros where the next panel, or the slack behind the last one, comes after.
void pack_transposed(KernelBuilder& kernel, Scope& scope, const PackPanels& pack) {
  const std::int64_t lanes = lanes_of(kernel, pack.dtype), panel = 64 / static_cast<std::int64_t>(ir::size_of(pack.dtype));
  Value* last = kernel.at(scope).CreateSub(pack.columns, kernel.constant(1));
  kernel.loop(scope, kernel.constant(0), pack.columns, lanes, [&](Scope& group, Value* c) {
    auto& builder = kernel.at(group);
    Value* within = builder.CreateURem(c, kernel.constant(panel));
    Value* base = builder.CreateAdd(builder.CreateMul(builder.CreateSub(c, within), pack.depths), within);
    std::vector<Value*> columns;
    for (std::int64_t i = 0; i < lanes; ++i) {
      Value* column = builder.CreateBinaryIntrinsic(llvm::Intrinsic::umin, builder.CreateAdd(c, kernel.constant(i)), last);
      columns.push_back(builder.CreateAdd(pack.first_column, column));
    }
    const auto depth = pack.depth.extent.constant();
    const VectorLoop loop{.symbol = pack.depth.symbol,
                          .first = pack.first_depth,
                          .count = pack.depths,
                          .width = lanes,
                          .may_end_early = !depth || *depth % lanes != 0};
    for_vectors(kernel, group, loop, [&](Scope& vectors, Value* k) {
      std::vector<Value*> rows;
      for (Value* column : columns) {
        Scope one(vectors);
        one.define(pack.column.symbol, column);
        ProgramEmitter program(kernel, pack.program, one);
        Value* value = program.value(one, static_cast<std::int32_t>(pack.program.steps.size()) - 1);
        kernel.at(one);
        rows.push_back(kernel.splat(value, static_cast<unsigned>(lanes)));
      }
      auto& inner = kernel.at(vectors);
      transpose(kernel, rows);
      Value* place = inner.CreateAdd(base, inner.CreateMul(k, kernel.constant(panel)));
      for (std::int64_t i = 0; i < lanes; ++i)
        store_vector(kernel, vectors, pack.dtype, rows[static_cast<std::size_t>(i)], pack.to,
                     inner.CreateAdd(place, kernel.constant(i * panel)));
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
    const VectorLoop loop{.symbol = pack.inner.symbol,
                          .first = kernel.constant(0),
                          .count = count,
                          .width = lanes,
                          .may_end_early = !extent || *extent % lanes != 0};
    for_vectors(kernel, row, loop, [&](Scope& vectors, Value* position) {
      ProgramEmitter program(kernel, pack.program, vectors);
      Value* value = program.value(vectors, static_cast<std::int32_t>(pack.program.steps.size()) - 1);
      Value* offset = kernel.at(vectors).CreateAdd(base, position);
      store_vector(kernel, vectors, pack.dtype, value, pack.to, offset);
    });
  });
}

void emit_pack_panels(KernelBuilder& kernel, Scope& scope, const PackPanels& pack) {
  if (pack.transposed) pack_transposed(kernel, scope, pack);
  else pack_columns(kernel, scope, pack);
}

}  // namespace anydim::codegen_cpu
