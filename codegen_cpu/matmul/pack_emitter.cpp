#include "codegen_cpu/matmul/pack_emitter.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "codegen_cpu/scalars/element_vectors.h"
#include "codegen_cpu/scalars/index_emitter.h"
#include "codegen_cpu/scalars/scalar_emitter.h"
#include "codegen_cpu/task_split.h"
#include "codegen_cpu/vector_loop.h"
#include "ir/loops/digits.h"
#include "ir/loops/scalar_program.h"

namespace anydim::codegen_cpu {

namespace {

std::int64_t lanes_of(KernelBuilder& kernel, ir::DType dtype) {
  return kernel.target().lanes(static_cast<int>(ir::size_of(dtype)));
}

// So many columns of one step fill a vector.
std::int64_t step_lanes(KernelBuilder& kernel, const PackPanels& pack) {
  return lanes_of(kernel, pack.dtype) / pack.depths_of_step;
}
// Columns of a panel.
std::int64_t panel_of(const PackPanels& pack) {
  return 64 / (pack.depths_of_step * static_cast<std::int64_t>(ir::size_of(pack.dtype)));
}

llvm::Align vector_align(KernelBuilder& kernel) {
  return llvm::Align(static_cast<std::uint64_t>(kernel.target().vector_bytes()));
}

// `zeros`: lanes that don't exist are 0.
Value* stored_vector(KernelBuilder& kernel, Scope& scope, ir::DType dtype, bool zeros, Value* value,
                     std::int64_t lanes) {
  kernel.at(scope);
  value = narrow(kernel, dtype, kernel.splat(value, static_cast<unsigned>(lanes)));
  Value* mask = scope.lanes().mask;
  if (!zeros || mask == nullptr || static_cast<std::int64_t>(scope.lanes().width) != lanes)
    return value;
  return kernel.here().CreateSelect(mask, value, llvm::Constant::getNullValue(value->getType()));
}

// The element of the program's last step at the scope's point.
Value* element(KernelBuilder& kernel, Scope& scope, const ir::ScalarProgram& steps) {
  const std::int32_t last = ir::last_step(steps);
  ProgramEmitter program(kernel, steps, scope, {last});
  return program.value(scope, last);
}

// A step of several depths is as large as an i32.
Value* step_pointer(KernelBuilder& kernel, const PackPanels& pack, Value* step) {
  return kernel.element_pointer(pack.to, pack.depths_of_step == 1 ? pack.dtype : ir::DType::I32,
                                step);
}

// A program whose loop variables have been taken apart into digits (ir/loops/digits.h).
struct PackedRun {
  ir::ScalarProgram program;
  ir::Iteration run;  // the columns' innermost digit: along it elements lie at a constant distance
  std::optional<ir::Iteration> rest;  // what counts the runs, where there is more than one
  std::vector<ir::Iteration> depths;  // in the order of their loops
  Dim depth;                          // over them
};

// Digits that decide whether there is an element come first, so that the others' loops need not ask
// again.
void put_conditions_first(const ir::ScalarProgram& program, std::vector<ir::Iteration>& digits) {
  const auto decides = [&](const ir::Iteration& digit) {
    return std::ranges::any_of(program.steps, [&](const ir::ScalarStep& step) {
      return step.is<ir::step::Guarded>() &&
             ir::any_dim(step, [&](const Dim& dim) { return dim.mentions(digit.variable); });
    });
  };
  std::vector<ir::Iteration> ordered;
  std::ranges::copy_if(digits, std::back_inserter(ordered), decides);
  std::ranges::copy_if(digits, std::back_inserter(ordered), std::not_fn(decides));
  digits = std::move(ordered);
}

PackedRun packed_run(KernelBuilder& kernel, const PackPanels& pack) {
  PackedRun result{.program = pack.program,
                   .run = pack.column,
                   .rest = {},
                   .depths = {pack.depth},
                   .depth = pack.depth.index()};
  if (!pack.whole_depth || pack.depths_of_step != 1) return result;
  ir::SymbolTable& symbols = kernel.symbols();
  const auto fresh = [&] { return ir::loop_leaf(ir::LoopRole::Made, kernel.fresh_number()); };
  const std::vector<Dim> depths = ir::digit_extents(result.program, pack.depth.variable, symbols);
  if (!depths.empty() &&
      ir::simplify(ir::mod(pack.depth.extent, depths.back()), symbols).is_constant(0)) {
    const ir::Digits digits = ir::split(pack.depth, depths, fresh, symbols);
    result.program = ir::over_digits(result.program, digits, symbols);
    result.depths = digits.digits;
    result.depth = digits.value;
  }
  if (const std::vector<Dim> columns =
          ir::digit_extents(result.program, pack.column.variable, symbols);
      !columns.empty()) {
    const ir::Digits digits = ir::split(pack.column, {columns.front()}, fresh, symbols);
    result.program = ir::over_digits(result.program, digits, symbols);
    result.rest = digits.digits.front();
    result.run = digits.digits.back();
  }
  put_conditions_first(result.program, result.depths);
  return result;
}

void for_digits(KernelBuilder& kernel, Scope& scope, std::span<const ir::Iteration> digits,
                const std::function<void(Scope&)>& body) {
  if (digits.empty()) return body(scope);
  llvm::Value* extent = emit_index(kernel, kernel.root(), digits.front().extent);
  kernel.for_range(scope, kernel.constant(0), extent, 1, [&](Scope& inner, llvm::Value* index) {
    inner.define(digits.front().variable, index);
    for_digits(kernel, inner, digits.subspan(1), body);
  });
}

// Vectors of columns that lie in one run, each within one vector of its panel. body(vectors,
// position of the first column).
void for_runs(KernelBuilder& kernel, Scope& scope, const PackPanels& pack, const PackedRun& packed,
              std::int64_t lanes, const KernelBuilder::LoopBody& body) {
  Value* extent = emit_index(kernel, kernel.root(), packed.run.extent);
  Value* width = kernel.constant(lanes);
  const Share columns{.first = pack.first_column, .count = pack.columns};
  for_parts(kernel, scope, columns, extent, [&](Scope& run, const Share& part) {
    run.define(packed.rest->variable, part.number);
    auto& at = kernel.at(run);
    Value* start = at.CreateMul(part.number, extent);
    Value* from = at.CreateSub(part.first, pack.first_column);
    Value* to = at.CreateAdd(from, part.count);
    Value* last = at.CreateUDiv(at.CreateAdd(to, kernel.constant(lanes - 1)), width);
    kernel.loop(run, at.CreateUDiv(from, width), last, 1, [&](Scope& piece, Value* index) {
      auto& inner = kernel.at(piece);
      Value* vector = inner.CreateMul(index, width);
      Value* position = inner.CreateBinaryIntrinsic(llvm::Intrinsic::umax, vector, from);
      Value* end =
          inner.CreateBinaryIntrinsic(llvm::Intrinsic::umin, inner.CreateAdd(vector, width), to);
      piece.define(packed.run.variable,
                   inner.CreateSub(inner.CreateAdd(pack.first_column, position), start));
      piece.set_lanes({.variable = packed.run.variable,
                       .width = static_cast<unsigned>(lanes),
                       .mask = lanes_below(kernel, piece, lanes, inner.CreateSub(end, position))});
      body(piece, position);
    });
  });
}

// Where a column's first step lies, in steps.
Value* first_step(KernelBuilder& kernel, Scope& scope, const PackPanels& pack, Value* column) {
  auto& builder = kernel.at(scope);
  Value* within = builder.CreateURem(column, kernel.constant(panel_of(pack)));
  return builder.CreateAdd(builder.CreateMul(builder.CreateSub(column, within), pack.steps),
                           within);
}

// A vector of a step, `base` where its columns' first steps lie.
void store_step(KernelBuilder& kernel, Scope& scope, const PackPanels& pack, Value* base,
                Value* value, Value* step) {
  auto& builder = kernel.at(scope);
  Value* place = step_pointer(
      kernel, pack,
      builder.CreateAdd(base, builder.CreateMul(step, kernel.constant(panel_of(pack)))));
  builder.CreateAlignedStore(value, place, vector_align(kernel));
}

llvm::FixedVectorType* joined_type(KernelBuilder& kernel, const PackPanels& pack) {
  return llvm::FixedVectorType::get(kernel.here().getInt32Ty(),
                                    static_cast<unsigned>(step_lanes(kernel, pack)));
}

// Zeros from this step on.
void store_zeros(KernelBuilder& kernel, Scope& scope, const PackPanels& pack, Value* base,
                 Value* begin) {
  kernel.for_range(scope, begin, pack.steps, 1, [&](Scope& point, Value* step) {
    store_step(kernel, point, pack, base, llvm::Constant::getNullValue(joined_type(kernel, pack)),
               step);
  });
}

// The elements at a depth.
Value* depth_vector(KernelBuilder& kernel, Scope& scope, const PackPanels& pack, Value* depth) {
  Scope inner(scope);
  inner.define(pack.depth.variable, kernel.at(scope).CreateAdd(pack.first_depth, depth));
  return stored_vector(kernel, inner, pack.dtype, pack.depths_of_step != 1,
                       element(kernel, inner, pack.program), step_lanes(kernel, pack));
}

// The elements of a step of several depths, the first in the lowest bits. `exist`: how many there
// are; null: all.
Value* joined_step(KernelBuilder& kernel, Scope& scope, const PackPanels& pack, Value* depth,
                   Value* exist) {
  auto* type = joined_type(kernel, pack);
  const std::int64_t bits = 32 / pack.depths_of_step;
  Value* joined = nullptr;
  for (std::int64_t i = 0; i < pack.depths_of_step; ++i) {
    Value* number = kernel.constant(i);
    if (exist != nullptr)
      number = kernel.at(scope).CreateBinaryIntrinsic(
          llvm::Intrinsic::umin, number, kernel.at(scope).CreateSub(exist, kernel.constant(1)));
    Value* one = depth_vector(kernel, scope, pack, kernel.at(scope).CreateAdd(depth, number));
    auto& builder = kernel.at(scope);
    one = builder.CreateShl(builder.CreateZExt(one, type), static_cast<std::uint64_t>(bits * i));
    if (exist != nullptr)
      one = builder.CreateSelect(builder.CreateICmpULT(kernel.constant(i), exist), one,
                                 llvm::Constant::getNullValue(type));
    joined = joined == nullptr ? one : builder.CreateOr(joined, one);
  }
  return joined;
}

// Steps of several depths each: whole ones, one that the depth ends within, zeros.
void pack_joined(KernelBuilder& kernel, Scope& vectors, const PackPanels& pack, Value* base) {
  Value* together = kernel.constant(pack.depths_of_step);
  const auto store = [&](Scope& point, Value* step, Value* exist) {
    Value* depth = kernel.at(point).CreateMul(step, together);
    store_step(kernel, point, pack, base, joined_step(kernel, point, pack, depth, exist), step);
  };
  Value* whole = kernel.at(vectors).CreateUDiv(pack.depths, together);
  kernel.for_range(vectors, kernel.constant(0), whole, 1,
                   [&](Scope& point, Value* step) { store(point, step, nullptr); });
  auto& after = kernel.at(vectors);
  Value* exist = after.CreateURem(pack.depths, together);
  Value* ends_within = after.CreateICmpNE(exist, kernel.constant(0));
  kernel.guarded(vectors, ends_within, [&](Scope& point) { store(point, whole, exist); });
  auto& behind = kernel.at(vectors);
  store_zeros(kernel, vectors, pack, base,
              behind.CreateAdd(whole, behind.CreateZExt(ends_within, behind.getInt64Ty())));
}

void pack_runs(KernelBuilder& kernel, Scope& scope, const PackPanels& pack,
               const PackedRun& packed) {
  const std::int64_t lanes = step_lanes(kernel, pack), panel = panel_of(pack);
  for_runs(kernel, scope, pack, packed, lanes, [&](Scope& vectors, Value* c) {
    Value* base = first_step(kernel, vectors, pack, c);
    for_digits(kernel, vectors, packed.depths, [&](Scope& point) {
      Value* value = element(kernel, point, packed.program);
      value = narrow(kernel, pack.dtype, kernel.splat(value, static_cast<unsigned>(lanes)));
      Value* step = emit_index(kernel, point, packed.depth * panel);
      auto& inner = kernel.at(point);
      inner.CreateMaskedStore(value, step_pointer(kernel, pack, inner.CreateAdd(base, step)),
                              llvm::Align(ir::size_of(pack.dtype)), vectors.lanes().mask);
    });
  });
}

// One vector at a time along the columns.
void pack_columns(KernelBuilder& kernel, Scope& scope, const PackPanels& pack) {
  const PackedRun packed = packed_run(kernel, pack);
  if (packed.rest) return pack_runs(kernel, scope, pack, packed);
  const std::int64_t lanes = step_lanes(kernel, pack);
  const auto columns = pack.column.extent.constant();
  const VectorLoop loop{.variable = pack.column.variable,
                        .first = pack.first_column,
                        .count = pack.columns,
                        .width = lanes,
                        .may_end_early = pack.any_columns || !columns || *columns % lanes != 0};
  for_vectors(kernel, scope, loop, [&](Scope& vectors, Value* c) {
    Value* base = first_step(kernel, vectors, pack, c);
    if (packed.depths.size() > 1) {
      for_digits(kernel, vectors, packed.depths, [&](Scope& point) {
        Value* value = stored_vector(kernel, point, pack.dtype, pack.depths_of_step != 1,
                                     element(kernel, point, packed.program), lanes);
        store_step(kernel, point, pack, base, value, emit_index(kernel, point, packed.depth));
      });
    } else if (pack.depths_of_step == 1) {
      kernel.for_range(vectors, kernel.constant(0), pack.depths, 1, [&](Scope& point, Value* k) {
        store_step(kernel, point, pack, base, depth_vector(kernel, point, pack, k), k);
      });
    } else {
      pack_joined(kernel, vectors, pack, base);
    }
  });
}

// Squares of vectors of steps: read along the depth, stored along the columns. Columns beyond the
// last repeat it; steps beyond the last are written as zeros where the next panel, or the slack
// behind the last one, comes after.
void pack_transposed(KernelBuilder& kernel, Scope& scope, const PackPanels& pack) {
  const std::int64_t lanes = step_lanes(kernel, pack), together = pack.depths_of_step;
  Value* last = kernel.at(scope).CreateSub(pack.columns, kernel.constant(1));
  kernel.loop(scope, kernel.constant(0), pack.columns, lanes, [&](Scope& group, Value* c) {
    auto& builder = kernel.at(group);
    Value* base = first_step(kernel, group, pack, c);
    std::vector<Value*> columns;
    for (std::int64_t i = 0; i < lanes; ++i) {
      Value* column = builder.CreateBinaryIntrinsic(llvm::Intrinsic::umin,
                                                    builder.CreateAdd(c, kernel.constant(i)), last);
      columns.push_back(builder.CreateAdd(pack.first_column, column));
    }
    const auto depth = pack.depth.extent.constant();
    const VectorLoop loop{.variable = pack.depth.variable,
                          .first = pack.first_depth,
                          .count = pack.depths,
                          .width = lanes * together,
                          .may_end_early = !depth || *depth % (lanes * together) != 0};
    for_vectors(kernel, group, loop, [&](Scope& vectors, Value* k) {
      std::vector<Value*> rows;
      for (Value* column : columns) {
        Scope one(vectors);
        one.define(pack.column.variable, column);
        Value* row = stored_vector(kernel, one, pack.dtype, together != 1,
                                   element(kernel, one, pack.program), lanes * together);
        if (together != 1) {
          row = kernel.at(one).CreateBitCast(row, joined_type(kernel, pack));
        }
        rows.push_back(row);
      }
      auto& inner = kernel.at(vectors);
      transpose(kernel, rows);
      Value* step = inner.CreateUDiv(k, kernel.constant(together));
      for (std::int64_t i = 0; i < lanes; ++i)
        store_step(kernel, vectors, pack, base, rows[static_cast<std::size_t>(i)],
                   inner.CreateAdd(step, kernel.constant(i)));
    });
    if (together == 1) return;
    auto& after = kernel.at(group);
    Value* width = kernel.constant(lanes * together);
    Value* begin = after.CreateMul(
        after.CreateUDiv(after.CreateAdd(pack.depths, after.CreateSub(width, kernel.constant(1))),
                         width),
        kernel.constant(lanes));
    store_zeros(kernel, group, pack, base, begin);
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
      Value* value = stored_vector(kernel, vectors, pack.dtype, pack.zeros_behind,
                                   element(kernel, vectors, pack.program), lanes);
      auto& inner = kernel.at(vectors);
      Value* place = kernel.element_pointer(pack.to, pack.dtype, inner.CreateAdd(base, position));
      inner.CreateAlignedStore(value, place, vector_align(kernel));
    });
    if (!pack.zeros_behind) return;
    // The last vector ended in zeros; what is left of its cache line on machines with shorter ones.
    auto& after = kernel.at(row);
    Value* width = kernel.constant(lanes);
    Value* begin = after.CreateMul(
        after.CreateUDiv(after.CreateAdd(count, after.CreateSub(width, kernel.constant(1))), width),
        width);
    auto* type =
        llvm::FixedVectorType::get(kernel.storage_type(pack.dtype), static_cast<unsigned>(lanes));
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

Value* first_packed_line(KernelBuilder& kernel, Scope& scope, const WindowedRows& windows,
                         Value* line) {
  Value* output = emit_index(kernel, kernel.root(), windows.output_lines);
  Value* packed = emit_index(kernel, kernel.root(), windows.line.extent);
  auto& builder = kernel.at(scope);
  Value* within =
      builder.CreateMul(builder.CreateURem(line, output), kernel.constant(windows.lines.step));
  return builder.CreateAdd(builder.CreateMul(builder.CreateUDiv(line, output), packed), within);
}

void emit_pack_lines(KernelBuilder& kernel, Scope& scope, const PackLines& pack) {
  const WindowedRows& windows = pack.windows;
  Value* lines = emit_index(kernel, kernel.root(), windows.line.extent);
  Value* begin = first_packed_line(kernel, scope, windows, pack.first_line);
  auto& builder = kernel.at(scope);
  Value* last =
      builder.CreateAdd(pack.first_line, builder.CreateSub(pack.lines, kernel.constant(1)));
  Value* end = kernel.at(scope).CreateAdd(first_packed_line(kernel, scope, windows, last),
                                          kernel.constant(windows.lines.reach()));
  const std::int32_t element = ir::last_step(windows.program);
  ProgramEmitter program(kernel, windows.program, scope, {element});
  const std::int64_t lanes = lanes_of(kernel, pack.dtype);
  const ir::Iteration &outer = windows.planes ? windows.channel : windows.place,
                      &inner = windows.planes ? windows.place : windows.channel;
  const Dim apart = windows.planes ? windows.slice_elements() : Dim(windows.place_elements());
  Value* line_elements = emit_index(kernel, kernel.root(), windows.line_elements());
  Value* count = emit_index(kernel, kernel.root(), inner.extent);
  Value* end_of_line = emit_index(kernel, kernel.root(), outer.extent);
  Value* slices = kernel.constant(windows.window_slices());
  const auto known = inner.extent.constant();
  const VectorLoop loop{.variable = inner.variable,
                        .first = kernel.constant(0),
                        .count = count,
                        .width = lanes,
                        .may_end_early = !known || *known % lanes != 0};
  const Dim place =
      windows.slice.index() * windows.slice_elements() + outer.index() * apart + inner.index();
  const Share packed{.first = begin, .count = kernel.at(scope).CreateSub(end, begin)};
  for_parts(kernel, scope, packed, lines, [&](Scope& image, const Share& part) {
    image.define(windows.image.variable, part.number);
    auto& outside = kernel.at(image);
    Value* first = outside.CreateSub(part.first, outside.CreateMul(part.number, lines));
    Value* memory = kernel.element_pointer(
        pack.to, pack.dtype,
        outside.CreateMul(outside.CreateSub(part.first, begin), line_elements));
    kernel.loop(image, kernel.constant(0), part.count, 1, [&](Scope& line, Value* number) {
      auto& at = kernel.at(line);
      line.define(windows.line.variable, at.CreateAdd(first, number));
      Value* to = kernel.element_pointer(memory, pack.dtype, at.CreateMul(number, line_elements));
      kernel.loop(line, kernel.constant(0), slices, 1, [&](Scope& slice, Value* index) {
        slice.define(windows.slice.variable, index);
        kernel.for_range(slice, kernel.constant(0), end_of_line, 1,
                         [&](Scope& part_of_line, Value* position) {
                           part_of_line.define(outer.variable, position);
                           for_vectors(kernel, part_of_line, loop, [&](Scope& vectors, Value*) {
                             Value* value = program.value(vectors, element);
                             store_elements(kernel, vectors, to, pack.dtype, place, value);
                           });
                         });
      });
    });
  });
}

Value* first_step_of_column(KernelBuilder& kernel, std::int64_t panel, Value* column,
                            Value* steps) {
  auto& builder = kernel.here();
  Value* within = builder.CreateURem(column, kernel.constant(panel));
  return builder.CreateAdd(builder.CreateMul(builder.CreateSub(column, within), steps), within);
}

}  // namespace anydim::codegen_cpu
