#include "codegen_cpu/task_loop.h"

#include <memory>

#include "codegen_cpu/scalars/index_emitter.h"
#include "codegen_cpu/vector_loop.h"

namespace anydim::codegen_cpu {

TaskPlan plan_tasks(std::span<const ir::Iteration> outer, const Dim& length, const Dim& grain,
                    std::int64_t multiple, bool whole_rows) {
  TaskPlan plan;
  plan.length = length;
  plan.rows = Dim(1);
  for (const ir::Iteration& iteration : outer) plan.rows = plan.rows * iteration.extent;
  plan.rows_per_task = ir::max(floor_div(grain, ir::max(length, Dim(1))), Dim(1));
  if (whole_rows) {
    plan.piece = length;
    plan.pieces = Dim(1);
  } else {
    plan.piece = ir::ceil_div(grain, Dim(multiple)) * multiple;
    plan.pieces = ceil_div(length, plan.piece);
  }
  plan.tasks = ceil_div(plan.rows, plan.rows_per_task) * plan.pieces;
  return plan;
}

namespace {

constexpr std::int64_t most_flat_vectors = 8;

// The variables of row number `row`, the last fastest.
void define_point(KernelBuilder& kernel, Scope& scope, std::span<const ir::Iteration> outer,
                  llvm::Value* row) {
  for (std::size_t i = outer.size(); i-- > 0;) {
    if (i == 0) {
      scope.define(outer[i].variable, row);
      return;
    }
    llvm::Value* extent = emit_index(kernel, kernel.root(), outer[i].extent);
    auto& at = kernel.at(scope);
    scope.define(outer[i].variable, at.CreateURem(row, extent));
    row = at.CreateUDiv(row, extent);
  }
}

}  // namespace

void emit_tasks(KernelBuilder& kernel, Scope& scope, std::span<const ir::Iteration> outer,
                const TaskPlan& plan, llvm::Value* begin, llvm::Value* end, const RowBody& body,
                const RowBody& before) {
  Scope& root = kernel.root();
  llvm::Value* rows = emit_index(kernel, root, plan.rows);
  llvm::Value* rows_per_task = emit_index(kernel, root, plan.rows_per_task);
  llvm::Value* length = emit_index(kernel, root, plan.length);
  llvm::Value* piece = emit_index(kernel, root, plan.piece);
  llvm::Value* pieces = emit_index(kernel, root, ir::max(plan.pieces, Dim(1)));
  const bool cut = !plan.pieces.is_constant(1);
  kernel.for_range(scope, begin, end, 1, [&](Scope& task, llvm::Value* number) {
    auto& at = kernel.at(task);
    llvm::Value *group = number, *first = kernel.constant(0), *last = length;
    if (cut) {
      group = at.CreateUDiv(number, pieces);
      first = at.CreateMul(at.CreateURem(number, pieces), piece);
      last = at.CreateBinaryIntrinsic(llvm::Intrinsic::smin, at.CreateAdd(first, piece), length);
    }
    llvm::Value* first_row = at.CreateMul(group, rows_per_task);
    if (outer.empty() || plan.rows_per_task.is_constant(1)) {
      define_point(kernel, task, outer, first_row);
      body(task, first, last);
      return;
    }
    llvm::Value* last_row = at.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                                     at.CreateAdd(first_row, rows_per_task), rows);
    if (before) before(task, first, last);
    kernel.loop(task, first_row, last_row, 1, [&](Scope& row, llvm::Value* number_of_row) {
      define_point(kernel, row, outer, number_of_row);
      body(row, first, last);
    });
  });
}

void emit_row_groups(KernelBuilder& kernel, Scope& scope, std::span<const ir::Iteration> outer,
                     const TaskPlan& plan, std::int64_t together, const RowGroupBody& body) {
  llvm::Value* rows = emit_index(kernel, kernel.root(), plan.rows);
  llvm::Value* of_task = emit_index(kernel, kernel.root(), plan.rows_per_task);
  const auto group = [&](Scope& own, llvm::Value* first, std::int64_t count) {
    std::vector<std::unique_ptr<Scope>> scopes;
    std::vector<Scope*> each;
    for (std::int64_t i = 0; i < count; ++i) {
      scopes.push_back(std::make_unique<Scope>(own));
      each.push_back(scopes.back().get());
      llvm::Value* number = kernel.at(own).CreateAdd(first, kernel.constant(i), "", true, true);
      define_point(kernel, *each.back(), outer, number);
    }
    body(each);
  };
  kernel.for_range(scope, kernel.begin(), kernel.end(), 1, [&](Scope& task, llvm::Value* number) {
    auto& at = kernel.at(task);
    llvm::Value* first = at.CreateMul(number, of_task);
    llvm::Value* last =
        at.CreateBinaryIntrinsic(llvm::Intrinsic::smin, at.CreateAdd(first, of_task), rows);
    llvm::Value* left = at.CreateURem(at.CreateSub(last, first), kernel.constant(together));
    llvm::Value* grouped = at.CreateSub(last, left);
    kernel.for_range(task, first, grouped, together,
                     [&](Scope& own, llvm::Value* row) { group(own, row, together); });
    kernel.for_range(task, grouped, last, 1,
                     [&](Scope& own, llvm::Value* row) { group(own, row, 1); });
  });
}

void VectorTurn::enter(Scope& own, std::size_t vector) const {
  own.define(variable, vectors[vector].position);
  own.set_lanes(vectors[vector].lanes);
}

void emit_vector_turns(KernelBuilder& kernel, Scope& scope, const VectorRange& range,
                       const std::function<void(Scope&, const VectorTurn&)>& body) {
  const auto lanes = [&](llvm::Value* mask) {
    return range.width == 1 ? Lanes{}
                            : Lanes{.variable = range.variable, .width = range.width, .mask = mask};
  };
  const std::int64_t turn = std::int64_t{range.width} * range.unroll;
  const bool masks = range.width > 1 && kernel.target().level != Level::Baseline;
  const auto* from = llvm::dyn_cast<llvm::ConstantInt>(range.first);
  const auto* to = llvm::dyn_cast<llvm::ConstantInt>(range.last);
  if (range.flat && masks && from != nullptr && to != nullptr &&
      to->getSExtValue() - from->getSExtValue() <= most_flat_vectors * range.width) {
    std::int64_t place = from->getSExtValue();
    const std::int64_t end = to->getSExtValue();
    while (place < end) {
      Scope own(scope);
      VectorTurn all{range.variable, {}};
      const std::int64_t vectors = place + turn <= end ? std::int64_t{range.unroll} : 1;
      for (std::int64_t i = 0; i < vectors; ++i, place += range.width) {
        llvm::Value* mask = end - place < range.width ? lanes_below(kernel, own, range.width,
                                                                    kernel.constant(end - place))
                                                      : nullptr;
        all.vectors.push_back({kernel.constant(place), lanes(mask)});
      }
      body(own, all);
    }
    return;
  }
  // The place from which on less is left than `step`.
  const auto end_of_whole = [&](llvm::Value* first, std::int64_t step) {
    auto& at = kernel.at(scope);
    llvm::Value* count = at.CreateSub(range.last, first);
    return at.CreateSub(range.last, at.CreateURem(count, kernel.constant(step)));
  };
  const auto whole_turns = [&](llvm::Value* first, llvm::Value* last, unsigned vectors) {
    kernel.for_range(
        scope, first, last, std::int64_t{range.width} * vectors,
        [&](Scope& inner, llvm::Value* position) {
          VectorTurn all{range.variable, {}};
          auto& at = kernel.at(inner);
          for (std::int64_t copy = 0; copy < vectors; ++copy)
            all.vectors.push_back(
                {copy == 0
                     ? position
                     : at.CreateAdd(position, kernel.constant(copy * range.width), "", true, true),
                 lanes(nullptr)});
          body(inner, all);
        });
  };
  if (range.whole) return whole_turns(range.first, range.last, range.unroll);
  llvm::Value* rest_first = range.first;
  if (turn > 1) {
    rest_first = end_of_whole(range.first, turn);
    whole_turns(range.first, rest_first, range.unroll);
  }
  const bool masks_are_dear = kernel.target().level != Level::Avx512;
  if (range.unroll > 1 && range.width > 1 && masks_are_dear) {
    llvm::Value* partial_first = end_of_whole(rest_first, range.width);
    whole_turns(rest_first, partial_first, 1);
    rest_first = partial_first;
  }
  if (!masks) {
    kernel.for_range(scope, rest_first, range.last, 1, [&](Scope& inner, llvm::Value* position) {
      body(inner, {range.variable, {{position, {}}}});
    });
    return;
  }
  const auto rest = [&](Scope& inner, llvm::Value* position) {
    llvm::Value* left = kernel.at(inner).CreateSub(range.last, position);
    body(inner,
         {range.variable, {{position, lanes(lanes_below(kernel, inner, range.width, left))}}});
  };
  if (range.unroll > 1 && !masks_are_dear) {
    kernel.for_range(scope, rest_first, range.last, range.width, rest);
  } else {
    llvm::Value* some = kernel.at(scope).CreateICmpSLT(rest_first, range.last);
    kernel.guarded(scope, some, [&](Scope& inner) { rest(inner, rest_first); });
  }
}

void emit_vector_range(KernelBuilder& kernel, Scope& scope, const VectorRange& range,
                       const std::function<void(Scope&, unsigned)>& body) {
  emit_vector_turns(kernel, scope, range, [&](Scope& turn, const VectorTurn& all) {
    for (std::size_t copy = 0; copy < all.vectors.size(); ++copy) {
      Scope one(turn);
      all.enter(one, copy);
      body(one, static_cast<unsigned>(copy));
    }
  });
}

void emit_both_sides(KernelBuilder& kernel, Scope& scope, llvm::Value* first, llvm::Value* from,
                     llvm::Value* to, llvm::Value* last, const RowBody& body) {
  kernel.loop(scope, kernel.constant(0), kernel.constant(2), 1,
              [&](Scope& side, llvm::Value* number) {
                auto& at = kernel.at(side);
                llvm::Value* left = at.CreateICmpEQ(number, kernel.constant(0));
                llvm::Value* begin = at.CreateSelect(left, first, to);
                llvm::Value* end = at.CreateSelect(left, from, last);
                body(side, begin, end);
              });
}

}  // namespace anydim::codegen_cpu
