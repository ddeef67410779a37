#include "codegen_cpu/pack_emitter.h"

#include <vector>

#include "codegen_cpu/index_emitter.h"
#include "codegen_cpu/matmul_operands.h"
#include "codegen_cpu/scalar_emitter.h"
#include "codegen_cpu/vector_loop.h"

namespace anydim::codegen_cpu {

namespace {

using llvm::Value;

std::int64_t lanes_of(KernelBuilder& kernel, ir::DType dtype) { return kernel.target().lanes(static_cast<int>(ir::size_of(dtype))); }

// Of one step: as many columns fill a vector.
std::int64_t step_lanes(KernelBuilder& kernel, ir::DType dtype) { return lanes_of(kernel, dtype) / depths_of_step(dtype); }

llvm::Align vector_align(KernelBuilder& kernel) { return llvm::Align(static_cast<std::uint64_t>(kernel.target().vector_bytes())); }

// Lanes that don't exist are 0 in the narrow dtypes.
Value* stored_vector(KernelBuilder& kernel, Scope& scope, ir::DType dtype, Value* value, std::int64_t lanes) {
  kernel.at(scope);
  value = narrow(kernel, dtype, kernel.splat(value, static_cast<unsigned>(lanes)));
  Value* mask = scope.lanes().mask;
  if (depths_of_step(dtype) == 1 || mask == nullptr || static_cast<std::int64_t>(scope.lanes().width) != lanes) return value;
  return kernel.here().CreateSelect(mask, value, llvm::Constant::getNullValue(value->getType()));
}

// The element of the program's last step at the scope's point.
Value* element(KernelBuilder& kernel, Scope& scope, const ir::ScalarProgram& steps) {
  ProgramEmitter program(kernel, steps, scope);
  return program.value(scope, static_cast<std::int32_t>(steps.steps.size()) - 1);
}

// A step of P columns is as large as P f32 elements whatever its dtype, or as one of the wider dtypes alone.
Value* step_pointer(KernelBuilder& kernel, const PackPanels& pack, Value* step) {
  return kernel.element_pointer(pack.to, depths_of_step(pack.dtype) == 1 ? pack.dtype : ir::DType::F32, step);
}

// One vector at a time along the columns.
void pack_columns(KernelBuilder& kernel, Scope& scope, const PackPanels& pack) {
  const std::int64_t lanes = step_lanes(kernel, pack.dtype), panel = panel_columns(pack.dtype), pair = depths_of_step(pack.dtype);
  const auto columns = pack.column.extent.constant();
  const VectorLoop loop{.variable = pack.column.variable,
                        .first = pack.first_column,
                        .count = pack.columns,
                        .width = lanes,
                        .may_end_early = !columns || *columns % lanes != 0};
  for_vectors(kernel, scope, loop, [&](Scope& vectors, Value* c) {
    auto& builder = kernel.at(vectors);
    Value* within = builder.CreateURem(c, kernel.constant(panel));
    Value* base = builder.CreateAdd(builder.CreateMul(builder.CreateSub(c, within), pack.steps), within);
    const auto at_depth = [&](Scope& point, Value* k) {
      Scope depth(point);
      depth.define(pack.depth.variable, kernel.at(point).CreateAdd(pack.first_depth, k));
      return stored_vector(kernel, depth, pack.dtype, element(kernel, depth, pack.program), lanes);
    };
    const auto store = [&](Scope& point, Value* value, Value* step) {
      auto& inner = kernel.at(point);
      Value* place = step_pointer(kernel, pack, inner.CreateAdd(base, inner.CreateMul(step, kernel.constant(panel))));
      inner.CreateAlignedStore(value, place, vector_align(kernel));
    };
    if (pair == 1) {
      kernel.for_range(vectors, kernel.constant(0), pack.depths, 1, [&](Scope& point, Value* k) { store(point, at_depth(point, k), k); });
      return;
    }
    auto* type = llvm::FixedVectorType::get(builder.getInt32Ty(), static_cast<unsigned>(lanes));
    Value* whole = kernel.at(vectors).CreateUDiv(pack.depths, kernel.constant(pair));
    kernel.for_range(vectors, kernel.constant(0), whole, 1, [&](Scope& point, Value* step) {
      Value* k = kernel.at(point).CreateMul(step, kernel.constant(pair));
      Value* even = at_depth(point, k);
      Value* odd = at_depth(point, kernel.at(point).CreateAdd(k, kernel.constant(1)));
      auto& inner = kernel.at(point);
      store(point, inner.CreateOr(inner.CreateZExt(even, type), inner.CreateShl(inner.CreateZExt(odd, type), 16)), step);
    });
    auto& after = kernel.at(vectors);
    Value* ended = after.CreateURem(pack.depths, kernel.constant(pair));
    kernel.guarded(vectors, after.CreateICmpNE(ended, kernel.constant(0)), [&](Scope& point) {
      Value* last = at_depth(point, kernel.at(point).CreateMul(whole, kernel.constant(pair)));
      store(point, kernel.at(point).CreateZExt(last, type), whole);
    });
    Value* begin = kernel.at(vectors).CreateAdd(whole, ended);
    kernel.for_range(vectors, begin, pack.steps, 1,
                     [&](Scope& point, Value* step) { store(point, llvm::Constant::getNullValue(type), step); });
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

// Squares of vectors of steps: read along the depth, stored along the columns. Columns beyond the last repeat it; steps beyond the last are written as
// zeros where the next panel, or the slack behind the last one, comes after.
void pack_transposed(KernelBuilder& kernel, Scope& scope, const PackPanels& pack) {
  const std::int64_t lanes = step_lanes(kernel, pack.dtype), panel = panel_columns(pack.dtype), pair = depths_of_step(pack.dtype);
  Value* last = kernel.at(scope).CreateSub(pack.columns, kernel.constant(1));
  kernel.loop(scope, kernel.constant(0), pack.columns, lanes, [&](Scope& group, Value* c) {
    auto& builder = kernel.at(group);
    Value* within = builder.CreateURem(c, kernel.constant(panel));
    Value* base = builder.CreateAdd(builder.CreateMul(builder.CreateSub(c, within), pack.steps), within);
    std::vector<Value*> columns;
    for (std::int64_t i = 0; i < lanes; ++i) {
      Value* column = builder.CreateBinaryIntrinsic(llvm::Intrinsic::umin, builder.CreateAdd(c, kernel.constant(i)), last);
      columns.push_back(builder.CreateAdd(pack.first_column, column));
    }
    const auto store = [&](Scope& point, Value* value, Value* step) {
      Value* place = step_pointer(kernel, pack, kernel.at(point).CreateAdd(base, kernel.at(point).CreateMul(step, kernel.constant(panel))));
      kernel.at(point).CreateAlignedStore(value, place, vector_align(kernel));
    };
    const auto depth = pack.depth.extent.constant();
    const VectorLoop loop{.variable = pack.depth.variable,
                          .first = pack.first_depth,
                          .count = pack.depths,
                          .width = lanes * pair,
                          .may_end_early = !depth || *depth % (lanes * pair) != 0};
    for_vectors(kernel, group, loop, [&](Scope& vectors, Value* k) {
      std::vector<Value*> rows;
      for (Value* column : columns) {
        Scope one(vectors);
        one.define(pack.column.variable, column);
        Value* row = stored_vector(kernel, one, pack.dtype, element(kernel, one, pack.program), lanes * pair);
        if (pair != 1) {
          auto& inner = kernel.at(one);
          row = inner.CreateBitCast(row, llvm::FixedVectorType::get(inner.getInt32Ty(), static_cast<unsigned>(lanes)));
        }
        rows.push_back(row);
      }
      auto& inner = kernel.at(vectors);
      transpose(kernel, rows);
      Value* step = inner.CreateUDiv(k, kernel.constant(pair));
      for (std::int64_t i = 0; i < lanes; ++i) store(vectors, rows[static_cast<std::size_t>(i)], inner.CreateAdd(step, kernel.constant(i)));
    });
    if (pair == 1) return;
    auto* type = llvm::FixedVectorType::get(builder.getInt32Ty(), static_cast<unsigned>(lanes));
    auto& after = kernel.at(group);
    Value* width = kernel.constant(lanes * pair);
    Value* begin = after.CreateMul(after.CreateUDiv(after.CreateAdd(pack.depths, after.CreateSub(width, kernel.constant(1))), width),
                                   kernel.constant(lanes));
    kernel.for_range(group, begin, pack.steps, 1,
                     [&](Scope& point, Value* step) { store(point, llvm::Constant::getNullValue(type), step); });
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
    const VectorLoop loop{.variable = pack.inner.variable,
                          .first = kernel.constant(0),
                          .count = count,
                          .width = lanes,
                          .may_end_early = !extent || *extent % lanes != 0};
    for_vectors(kernel, row, loop, [&](Scope& vectors, Value* position) {
      Value* value = stored_vector(kernel, vectors, pack.dtype, element(kernel, vectors, pack.program), lanes);
      auto& inner = kernel.at(vectors);
      Value* place = kernel.element_pointer(pack.to, pack.dtype, inner.CreateAdd(base, position));
      inner.CreateAlignedStore(value, place, vector_align(kernel));
    });
    if (depths_of_step(pack.dtype) == 1) return;
    // The last vector ended in zeros; what is left of its cache line on machines with shorter ones.
    auto& after = kernel.at(row);
    Value* width = kernel.constant(lanes);
    Value* begin = after.CreateMul(after.CreateUDiv(after.CreateAdd(count, after.CreateSub(width, kernel.constant(1))), width), width);
    auto* type = llvm::FixedVectorType::get(kernel.storage_type(pack.dtype), static_cast<unsigned>(lanes));
    kernel.for_range(row, begin, stride, lanes, [&](Scope& rest, Value* position) {
      auto& inner = kernel.at(rest);
      Value* place = kernel.element_pointer(pack.to, pack.dtype, inner.CreateAdd(base, position));
      inner.CreateAlignedStore(llvm::Constant::getNullValue(type), place, vector_align(kernel));
    });
  });
}

void emit_pack_panels(KernelBuilder& kernel, Scope& scope, const PackPanels& pack) {
  if (pack.transposed) pack_transposed(kernel, scope, pack);
  else pack_columns(kernel, scope, pack);
}

}  // namespace anydim::codegen_cpu
