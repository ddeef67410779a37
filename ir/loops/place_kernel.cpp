#include <algorithm>
#include <functional>
#include <set>
#include <span>
#include <utility>

#include "ir/loops/placed_kernel.h"
#include "ir/loops/step_placer.h"

namespace anydim::ir {

namespace {

using Space = std::span<const Iteration>;

// Statements of an inner scope join the outer one's when the inner one ends, so that what is placed
// further out meanwhile stands before them.
class BlockScope {
 public:
  explicit BlockScope(BlockScope* parent = nullptr)
      : parent_(parent), depth_(parent ? parent->depth_ + 1 : 1) {}
  BlockScope(const BlockScope&) = delete;
  BlockScope& operator=(const BlockScope&) = delete;

  BlockScope* parent() const { return parent_; }
  int depth() const { return depth_; }
  void define(const DimLeaf& leaf) { leaves_.insert(leaf); }
  bool find(const DimLeaf& leaf, BlockScope** home) {
    for (BlockScope* scope = this; scope != nullptr; scope = scope->parent_) {
      if (!scope->leaves_.contains(leaf)) continue;
      *home = scope;
      return true;
    }
    return false;
  }

  void add(auto statement) { block_.push_back({std::move(statement)}); }
  // `body` fills a scope of its own; `holder` gets its statements and joins these.
  void inner(auto holder, const std::function<void(BlockScope&)>& body) {
    BlockScope scope(this);
    if constexpr (requires { holder.loop; }) scope.define(holder.loop.variable);
    body(scope);
    holder.body = std::move(scope.block_);
    add(std::move(holder));
  }
  // A scope for each loop of the space, the body in the innermost.
  void loops(Space space, const std::function<void(BlockScope&)>& body) {
    if (space.empty()) return body(*this);
    inner(KernelLoop{space.front(), {}},
          [&](BlockScope& scope) { scope.loops(space.subspan(1), body); });
  }
  KernelBlock take() { return std::move(block_); }

  PlacedValues<KernelValue> values;

 private:
  BlockScope* parent_;
  int depth_;
  KernelBlock block_;
  std::set<DimLeaf> leaves_;
};

class BlockProgram : public StepPlacer<BlockScope, KernelValue> {
 public:
  // Keeps `symbols` by reference.
  BlockProgram(SymbolTable& symbols, const ScalarProgram& steps, std::uint32_t number,
               BlockScope& floor, const std::vector<std::int32_t>& roots)
      : StepPlacer(KernelProgram(steps, roots, number, symbols), floor), symbols_(symbols) {}

  void define_slot(std::int32_t slot, BlockScope& home) {
    set_accumulated(slot, {KernelValue::Kind::Accumulated, 0, slot}, home);
  }
  // Where elements of scratch are read.
  void set_point(BlockScope& point) { point_ = &point; }

 private:
  Interval interval_of(const Dim& dim) override { return bounds(dim, symbols_); }
  BlockScope& outermost_of(BlockScope&, std::int32_t step, BlockScope& floor) override {
    return program().step(step).is<step::Scratch>() ? *point_ : floor;
  }
  KernelValue write(BlockScope& home, const PlacedStep& placed) override {
    if (placed.step.is<step::CheckedIndex>()) home.define(program().leaf_of(placed.number));
    home.add(placed);
    return program().value_of(placed.number);
  }
  KernelValue write(BlockScope& home, const PlacedInverse& inverse) override {
    home.add(inverse);
    return {KernelValue::Kind::Inverse, inverse.program, inverse.number};
  }
  void write(BlockScope& scope, const PlacedStore& store) override { scope.add(store); }

  const SymbolTable& symbols_;
  BlockScope* point_ = nullptr;
};

class KernelMaker {
 public:
  PlacedKernel make(const LoopForm& form) {
    made_.kind = kind_name(form);
    made_.parameters = form.parameters;
    made_.results = form.results;
    made_.symbols = form.symbols;
    made_.checks = form.checks;
    for (const std::string& symbol : form.symbols.names()) root_.define({.symbol = symbol});
    std::visit([this](const auto& kind) { write(kind); }, form.kind);
    made_.body = root_.take();
    return std::move(made_);
  }

 private:
  using Section = KernelSection::Kind;

  void write(const MapForm& form) {
    for (const MapPart& part : form.parts) {
      const auto write = [&](BlockScope& floor) {
        BlockProgram program(made_.symbols, part.program, programs_++, floor, roots_of(part));
        floor.loops(part.space, [&](BlockScope& point) {
          for (const Store& store : part.stores) program.store(point, store);
        });
      };
      if (form.parts.size() > 1) section(root_, Section::Part, write);
      else write(root_);
    }
  }

  void write(const RowForm& form) {
    made_.segments = form.segments;
    root_.loops(form.outer,
                [&](BlockScope& row) { write(row, form.inner, form.stages, form.accumulators); });
  }

  // The stages of one row. A result is known from the end of its stage on.
  void write(BlockScope& row, Space inner, const std::vector<RowStage>& stages,
             std::int32_t accumulators) {
    for (const RowStage& stage : stages) {
      section(row, stage.per_row ? Section::RowResult : Section::Stage, [&](BlockScope& floor) {
        BlockProgram program(made_.symbols, stage.program, programs_++, floor, roots_of(stage));
        for (std::int32_t slot = 0; slot < accumulators; ++slot) program.define_slot(slot, row);
        floor.loops(stage.per_row ? Space() : inner, [&](BlockScope& point) {
          program.set_point(point);
          for (const auto& keep : stage.keeps)
            keep_in(
                point,
                {PlacedKeep::Kind::Scratch, keep.slot, {}, {}, program.value(point, keep.step)});
          for (const auto& reduction : stage.reductions) {
            keep_in(point, {PlacedKeep::Kind::Accumulated, reduction.slot, reduction.dtype,
                            reduction.kind, program.value(point, reduction.step)});
          }
          for (const Store& store : stage.stores) program.store(point, store);
        });
      });
    }
  }

  void write(const MatmulForm& form) {
    made_.product = form.accumulate;
    made_.gates = form.gates();
    element(Section::Left, form.left, loops(form.batch, {form.m, form.k}));
    std::vector<Iteration> right = loops(form.batch, {form.k, form.n});
    if (form.gate) right.push_back(*form.gate);
    element(Section::Right, form.right, right);
    const std::vector<Iteration> rows = loops(form.batch, {form.m});
    section(root_, Section::Epilogue, [&](BlockScope& floor) {
      BlockProgram program(made_.symbols, form.epilogue, programs_++, floor, roots_of(form));
      floor.loops(rows, [&](BlockScope& row) {
        row.loops({&form.n, 1}, [&](BlockScope& point) {
          for (std::int32_t gate = 0; gate < form.gates(); ++gate) program.define_slot(gate, point);
          for (const Store& store : form.stores) program.store(point, store);
          if (!form.rows.empty())
            keep_in(
                point,
                {PlacedKeep::Kind::Scratch, 0, {}, {}, program.value(point, form.epilogue_step)});
        });
        write(row, {&form.n, 1}, form.rows, form.accumulators);
      });
    });
  }

  void write(const AttentionForm& form) {
    made_.product = form.score.steps.back().dtype;
    made_.segments = form.segments;
    element(Section::Query, form.q, loops(form.batch, {form.row, form.depth}));
    element(Section::Key, form.k, loops(form.batch, {form.key, form.depth}));
    element(Section::Value, form.v, loops(form.batch, {form.key, form.width}));
    element(Section::Score, form.score, loops(form.batch, {form.row, form.key}));
    section(root_, Section::Epilogue, [&](BlockScope& floor) {
      BlockProgram program(made_.symbols, form.epilogue, programs_++, floor, roots_of(form));
      floor.loops(loops(form.batch, {form.row, form.width}), [&](BlockScope& point) {
        program.define_slot(0, point);
        for (const Store& store : form.stores) program.store(point, store);
      });
    });
  }

  // Nothing leaves a point: what it reads may differ from what the point before it read.
  void write(const OrderedForm& form) {
    root_.loops(form.outer, [&](BlockScope& row) {
      for (const OrderedStage& stage : form.stages) {
        row.inner(KernelSection{Section::InOrder, stage.conditions, {}}, [&](BlockScope& floor) {
          floor.loops(stage.inner, [&](BlockScope& point) {
            BlockProgram program(made_.symbols, stage.program, programs_++, point, roots_of(stage));
            for (const auto& carry : stage.carries) program.define_slot(carry.slot, point);
            for (const auto& update : stage.updates)
              program.store(point, update.store, update.combine);
            for (const auto& carry : stage.carries)
              keep_in(point, {PlacedKeep::Kind::Carry,
                              carry.slot,
                              carry.dtype,
                              {},
                              program.value(point, carry.next)});
          });
        });
      }
    });
  }

  void write(const CompactForm& form) {
    root_.loops(form.space, [&](BlockScope& point) {
      BlockProgram program(made_.symbols, form.program, programs_++, point, {form.selected});
      point.add(PlacedSelection{program.value(point, form.selected), form.positions, form.count});
    });
  }

  void write(const SortForm& form) {
    root_.loops(form.outer, [&](BlockScope& row) {
      row.loops({&form.item, 1}, [&](BlockScope& item) {
        item.loops(form.depth, [&](BlockScope& point) {
          BlockProgram program(made_.symbols, form.program, programs_++, item, {form.key});
          keep_in(point, {PlacedKeep::Kind::Key, -1, {}, {}, program.value(point, form.key)});
        });
      });
      row.add(PlacedRanking{form.output, form.index, form.rank, form.descending});
    });
  }

  // A program whose last step is an element that the kernel's own loops read.
  void element(Section kind, const ScalarProgram& steps, const std::vector<Iteration>& space) {
    section(root_, kind, [&](BlockScope& floor) {
      const std::int32_t last = last_step(steps);
      BlockProgram program(made_.symbols, steps, programs_++, floor, {last});
      floor.loops(space, [&](BlockScope& point) {
        program.define_slot(0, point);
        keep_in(point, {PlacedKeep::Kind::Element, -1, {}, {}, program.value(point, last)});
      });
    });
  }

  static void section(BlockScope& scope, Section kind,
                      const std::function<void(BlockScope&)>& body) {
    scope.inner(KernelSection{kind, {}, {}}, body);
  }
  static void keep_in(BlockScope& scope, PlacedKeep keep) { scope.add(keep); }
  static std::vector<Iteration> loops(const std::vector<Iteration>& batch,
                                      std::initializer_list<Iteration> more) {
    std::vector<Iteration> all = batch;
    all.insert(all.end(), more);
    return all;
  }

  PlacedKernel made_;
  BlockScope root_;
  std::uint32_t programs_ = 0;
};

}  // namespace

KernelMask both(const KernelMask& a, const KernelMask& b) {
  if (a.alternatives.empty()) return b;
  if (b.alternatives.empty()) return a;
  KernelMask result;
  for (const auto& first : a.alternatives)
    for (const auto& second : b.alternatives) {
      auto& all = result.alternatives.emplace_back(first);
      for (const auto& condition : second)
        if (std::ranges::find(all, condition) == all.end()) all.push_back(condition);
    }
  return result;
}

PlacedKernel place_kernel(const LoopForm& form) { return KernelMaker().make(form); }

}  // namespace anydim::ir
