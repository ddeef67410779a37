#include "ir/loops/verify_loop_form.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ir/loops/scalar_program.h"
#include "ir/loops/verify_steps.h"

namespace anydim::ir {

namespace {

using Space = std::vector<Iteration>;

Space joined(Space first, std::initializer_list<Iteration> more) {
  first.insert(first.end(), more);
  return first;
}
Space joined(Space first, const Space& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

class LoopFormVerifier {
 public:
  explicit LoopFormVerifier(const LoopForm& form) : form_(form), header_(form) {}

  std::optional<LoopFormFlaw> run() {
    try {
      verify_header(header_);
      std::visit([this](const auto& kind) { verify(kind); }, form_.kind);
      return std::nullopt;
    } catch (const Flaw& flaw) {
      return LoopFormFlaw{next_ == 0 ? LoopFormFlaw::header : next_ - 1, flaw.message,
                          flaw.unproven};
    }
  }

 private:
  void statement() { ++next_; }

  // Loops that no other of the form are.
  void loops(const Space& space) {
    for (const Iteration& loop : space) {
      verify_leaves(loop.extent, form_.symbols, {}, nullptr);
      const SymbolInfo* known = form_.symbols.find(loop.variable);
      expect(loop.variable.is_loop() && loops_.insert(loop.variable).second,
             [&] { return fmt::format("the loop {} is there twice", to_string(loop.variable)); });
      expect(known != nullptr && known->low == 0 && known->below == loop.extent, [&] {
        return fmt::format("the loop {} is not declared below its extent {}",
                           to_string(loop.variable), loop.extent.to_string());
      });
    }
  }

  StepPlace place(Space around) const {
    return {.header = &header_, .around = std::move(around), .accumulated = {}, .scratch = {}};
  }

  // The steps of a program, each a line.
  ProgramVerifier steps(const ScalarProgram& program, const StepPlace& place,
                        const std::vector<std::int32_t>& roots) {
    for (const std::int32_t root : roots)
      expect(root >= 0 && static_cast<std::size_t>(root) < program.steps.size(), [&] {
        return fmt::format("expected one of the program's {} steps, got #{}", program.steps.size(),
                           root);
      });
    const std::size_t first = next_;
    for (std::size_t i = 0; i < program.steps.size(); ++i) {
      statement();
      verify_order(program, place, static_cast<std::int32_t>(i));
    }
    next_ = first;
    ProgramVerifier verifier(program, place, roots);
    for (std::size_t i = 0; i < program.steps.size(); ++i) {
      statement();
      verifier.step(static_cast<std::int32_t>(i));
    }
    return verifier;
  }

  void stores(const std::vector<Store>& stores, const ProgramVerifier& verifier) {
    for (const Store& store : stores) {
      statement();
      verifier.store(store);
    }
  }

  void verify(const MapForm& map) {
    for (const MapPart& part : map.parts) {
      statement();
      loops(part.space);
      stores(part.stores, steps(part.program, place(part.space), roots_of(part)));
    }
  }

  void verify(const RowForm& rows) {
    statement();
    loops(rows.outer);
    loops(rows.inner);
    expect(!rows.inner.empty(), [] { return "expected an inner loop, got none"; });
    if (rows.segments) {
      statement();
      expect(!rows.outer.empty() && rows.outer.front().extent == rows.segments->count &&
                 rows.inner.size() == 1,
             [] { return "expected the segments' loop first, and one loop over their rows"; });
      verify_segments(header_, *rows.segments, rows.inner.front().extent);
    }
    stages(rows.stages, rows.outer, rows.inner, rows.scratch, rows.accumulators, {});
  }

  void verify(const MatmulForm& matmul) {
    statement();
    loops(joined(matmul.batch, {matmul.m, matmul.n, matmul.k}));
    Space right = joined(matmul.batch, {matmul.k, matmul.n});
    if (matmul.gate) {
      loops({*matmul.gate});
      right.push_back(*matmul.gate);
      const std::optional<std::int64_t> gates = matmul.gate->extent.constant();
      expect(gates && *gates >= 2 && *gates <= most_gates, [&] {
        return fmt::format("expected 2 to {} gates, got {}", most_gates,
                           matmul.gate->extent.to_string());
      });
      expect(matmul.rows.empty(), [] { return "a product with gates has no stages over rows"; });
    }
    element(matmul.left, joined(matmul.batch, {matmul.m, matmul.k}));
    element(matmul.right, right);
    StepPlace point = place(joined(matmul.batch, {matmul.m, matmul.n}));
    for (std::int32_t gate = 0; gate < matmul.gates(); ++gate)
      point.accumulated.emplace(gate, matmul.accumulate);
    const ProgramVerifier epilogue = steps(matmul.epilogue, point, roots_of(matmul));
    statement();
    stores(matmul.stores, epilogue);
    std::map<std::int32_t, DType> scratch;
    if (!matmul.rows.empty()) scratch.emplace(0, epilogue.dtype(matmul.epilogue_step));
    stages(matmul.rows, joined(matmul.batch, {matmul.m}), {matmul.n}, matmul.scratch,
           matmul.accumulators, scratch);
  }

  void verify(const AttentionForm& attention) {
    statement();
    loops(
        joined(attention.batch, {attention.row, attention.width, attention.key, attention.depth}));
    if (attention.segments) {
      statement();
      verify_segments(header_, *attention.segments, attention.row.extent);
      expect(attention.key.extent == attention.row.extent, [&] {
        return fmt::format("expected as many keys as rows, {}, got {}",
                           attention.row.extent.to_string(), attention.key.extent.to_string());
      });
    }
    element(attention.q, joined(attention.batch, {attention.row, attention.depth}));
    element(attention.k, joined(attention.batch, {attention.key, attention.depth}));
    element(attention.v, joined(attention.batch, {attention.key, attention.width}));
    StepPlace score = place(joined(attention.batch, {attention.row, attention.key}));
    expect(!attention.score.steps.empty(), [] { return "expected a score, got no step"; });
    const DType dtype = attention.score.steps.back().dtype;
    score.accumulated = {{0, dtype}};
    element(attention.score, score);
    expect(dtype == DType::F32 || dtype == DType::F64,
           [&] { return fmt::format("expected a score of f32 or f64, got {}", name_of(dtype)); });
    StepPlace point = place(joined(attention.batch, {attention.row, attention.width}));
    point.accumulated = {{0, dtype}};
    stores(attention.stores, steps(attention.epilogue, point, roots_of(attention)));
  }

  void verify(const OrderedForm& ordered) {
    statement();
    loops(ordered.outer);
    for (const OrderedStage& stage : ordered.stages) {
      statement();
      loops(stage.inner);
      for (const auto& condition : stage.conditions) {
        verify_leaves(condition.left, form_.symbols, ordered.outer, nullptr);
        verify_leaves(condition.right, form_.symbols, ordered.outer, nullptr);
      }
      StepPlace point = place(joined(ordered.outer, stage.inner));
      point.conditions = stage.conditions;
      for (const auto& carry : stage.carries) point.accumulated[carry.slot] = carry.dtype;
      const ProgramVerifier verifier = steps(stage.program, point, roots_of(stage));
      for (const auto& carry : stage.carries) {
        statement();
        verifier.expect_dtype(carry.next, carry.dtype);
      }
      for (const auto& update : stage.updates) {
        statement();
        const bool known = !update.combine || *update.combine == Op::add ||
                           *update.combine == Op::mul || *update.combine == Op::min ||
                           *update.combine == Op::max;
        expect(known, [&] {
          return fmt::format("expected store, add, mul, min or max, got {}",
                             info(*update.combine).text);
        });
        verifier.store(update.store);
      }
    }
  }

  void verify(const CompactForm& compact) {
    statement();
    loops(compact.space);
    const ProgramVerifier verifier =
        steps(compact.program, place(compact.space), {compact.selected});
    statement();
    verifier.expect_dtype(compact.selected, DType::Bool);
    verify_compaction(header_, compact.space, compact.positions, compact.count);
  }

  void verify(const SortForm& sort) {
    statement();
    loops(joined(joined(sort.outer, {sort.item}), sort.depth));
    loops({sort.rank});
    const ProgramVerifier verifier =
        steps(sort.program, place(joined(joined(sort.outer, {sort.item}), sort.depth)), {sort.key});
    statement();
    const StepPlace ranked = place(joined(sort.outer, {sort.rank}));
    verify_store(ranked, form_.symbols, sort.output, sort.index, DType::I64, nullptr);
  }

  void element(const ScalarProgram& program, Space around) {
    element(program, place(std::move(around)));
  }
  void element(const ScalarProgram& program, const StepPlace& place) {
    expect(!program.steps.empty(), [] { return "expected an element, got no step"; });
    steps(program, place, {last_step(program)});
  }

  // `scratch`: the slots that are there before the first stage.
  void stages(const std::vector<RowStage>& stages, const Space& outer, const Space& inner,
              const std::vector<DType>& slots, std::int32_t accumulators,
              std::map<std::int32_t, DType> scratch) {
    std::map<std::int32_t, DType> accumulated;
    for (const RowStage& stage : stages) {
      StepPlace point = place(stage.per_row ? outer : joined(outer, inner));
      point.accumulated = accumulated;
      if (!stage.per_row) point.scratch = scratch;
      const ProgramVerifier verifier = steps(stage.program, point, roots_of(stage));
      for (const auto& keep : stage.keeps) {
        statement();
        keeps_nothing(stage);
        expect(keep.slot >= 0 && static_cast<std::size_t>(keep.slot) < slots.size(), [&] {
          return fmt::format("expected one of {} slots of scratch, got {}", slots.size(),
                             keep.slot);
        });
        verifier.expect_dtype(keep.step, slots[static_cast<std::size_t>(keep.slot)]);
        defined(scratch, keep.slot, slots[static_cast<std::size_t>(keep.slot)]);
      }
      for (const auto& reduction : stage.reductions) {
        statement();
        keeps_nothing(stage);
        expect(reduction.slot >= 0 && reduction.slot < accumulators, [&] {
          return fmt::format("expected one of {} accumulators, got {}", accumulators,
                             reduction.slot);
        });
        verifier.expect_dtype(reduction.step, reduction.dtype);
        defined(accumulated, reduction.slot, reduction.dtype);
      }
      this->stores(stage.stores, verifier);
    }
  }

  static void keeps_nothing(const RowStage& stage) {
    expect(!stage.per_row, [] { return "a row's result keeps and reduces nothing"; });
  }
  static void defined(std::map<std::int32_t, DType>& slots, std::int32_t slot, DType dtype) {
    expect(slots.emplace(slot, dtype).second,
           [&] { return fmt::format("slot {} is written twice", slot); });
  }

  const LoopForm& form_;
  const KernelHeader header_;
  std::set<DimLeaf> loops_;
  std::size_t next_ = 0;  // statement
};

}  // namespace

std::optional<LoopFormFlaw> verify_loop_form(const LoopForm& form) {
  return LoopFormVerifier(form).run();
}

}  // namespace anydim::ir
