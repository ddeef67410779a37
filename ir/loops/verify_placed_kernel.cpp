#include "ir/loops/verify_placed_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "ir/loops/access_proof.h"
#include "ir/loops/verify_steps.h"
#include "ir/overloaded.h"
#include "ir/text/print.h"

namespace anydim::ir {

namespace {

using Section = KernelSection::Kind;
using Conditions = std::vector<ScalarStep::Condition>;
using Slots = std::map<std::int32_t, DType>;
// A slot of scratch has an element for each point of the loops that it is kept in: `around`.
struct ScratchSlot {
  DType dtype{};
  std::vector<Iteration> around;
};
// What stages of a row leave to the statements behind them in the row's block, and what the
// statement that is being looked at adds to that.
struct Row {
  Slots accumulated, reduced;
  std::map<std::int32_t, ScratchSlot> scratch, kept;
};

bool is_stage(const KernelStatement& statement) {
  const auto* section = std::get_if<KernelSection>(&statement.kind);
  return section != nullptr &&
         (section->kind == Section::Stage || section->kind == Section::RowResult);
}

class KernelVerifier {
 public:
  explicit KernelVerifier(const PlacedKernel& kernel) : kernel_(kernel), header_(kernel) {}

  std::optional<LoopFormFlaw> run() {
    try {
      verify_header(header_);
      block(kernel_.body);
      if (kernel_.segments) segments();
      return std::nullopt;
    } catch (const Flaw& flaw) {
      return LoopFormFlaw{next_ == 0 ? LoopFormFlaw::header : next_ - 1, flaw.message,
                          flaw.unproven};
    }
  }

 private:
  // Checks the first loop, which counts them, and the loops of their rows.
  void segments() {
    next_ = 0;
    std::vector<Dim> rows;
    for (const KernelCheck& check : kernel_.checks)
      if (check.kind == KernelCheck::Kind::Offsets) rows.push_back(check.extent);
    expect(!rows.empty(), [] { return "expected a check of offsets, got none"; });
    verify_segments(header_, *kernel_.segments, rows.front());
  }

  // What stands in a block happens only where every loop in it has a point.
  void block(const KernelBlock& statements) {
    const std::size_t before = running_.size();
    add_loops(statements);
    const bool row = std::ranges::any_of(statements, is_stage);
    const std::optional<Row> outside = row ? std::exchange(row_, Row()) : std::nullopt;
    for (const KernelStatement& statement : statements) {
      ++next_;
      std::visit([this](const auto& one) { verify(one); }, statement.kind);
      if (row) end_of_stage();
    }
    if (row) row_ = outside;
    running_.resize(before);
  }

  // Results and scratch are whole once what writes them has run.
  void end_of_stage() {
    row_->accumulated.merge(std::exchange(row_->reduced, {}));
    row_->scratch.merge(std::exchange(row_->kept, {}));
  }

  // Not of the sections, which happen by themselves.
  void add_loops(const KernelBlock& statements) {
    for (const KernelStatement& statement : statements) {
      const auto* loop = std::get_if<KernelLoop>(&statement.kind);
      if (loop == nullptr) continue;
      if (std::ranges::find(running_, loop->loop) == running_.end()) running_.push_back(loop->loop);
      add_loops(loop->body);
    }
  }

  // What stands in an inner block is not known outside of it.
  void inner(const KernelBlock& body) {
    const auto steps = steps_;
    const auto inverses = inverses_;
    block(body);
    steps_ = steps;
    inverses_ = inverses;
  }

  void verify(const KernelLoop& loop) {
    count(loop.loop);
    around_.push_back(loop.loop);
    inner(loop.body);
    around_.pop_back();
  }

  void declared(const DimLeaf& leaf, const Dim& extent) const {
    const SymbolInfo* known = header_.symbols.find(leaf);
    expect(known != nullptr && known->low == 0 && known->below == extent, [&] {
      return fmt::format("{} is not declared below its extent {}", to_string(leaf),
                         extent.to_string());
    });
  }

  void count(const Iteration& loop) const {
    verify_leaves(loop.extent, header_.symbols, {}, nullptr);
    const bool open = std::ranges::any_of(
        around_, [&](const Iteration& other) { return other.variable == loop.variable; });
    expect(loop.variable.is_loop() && !open, [&] {
      return fmt::format("expected another loop than {} around it", to_string(loop.variable));
    });
    declared(loop.variable, loop.extent);
  }

  void verify(const KernelSection& section) {
    for (const auto& condition : section.conditions)
      for (const Dim& dim : {condition.left, condition.right})
        verify_leaves(dim, header_.symbols, around_, nullptr);
    const std::size_t outer = conditions_.size();
    conditions_.insert(conditions_.end(), section.conditions.begin(), section.conditions.end());
    const Slots carried = carried_;
    const bool has_product = has_product_;
    has_product_ =
        kernel_.product && (section.kind == Section::Score || section.kind == Section::Epilogue);
    if (section.kind == Section::InOrder) carries(section.body);
    inner(section.body);
    carried_ = carried;
    has_product_ = has_product;
    conditions_.resize(outer);
  }

  // A carry is there from the first point on.
  void carries(const KernelBlock& body) {
    for (const KernelStatement& statement : body) {
      if (const auto* loop = std::get_if<KernelLoop>(&statement.kind)) carries(loop->body);
      if (const auto* keep = std::get_if<PlacedKeep>(&statement.kind);
          keep != nullptr && keep->kind == PlacedKeep::Kind::Carry)
        carried_[keep->slot] = keep->dtype.value_or(DType::F32);
    }
  }

  DType dtype(const KernelValue& value) const {
    if (value.kind == KernelValue::Kind::Accumulated) {
      for (const Slots* slots : {&carried_, row_ ? &row_->accumulated : nullptr})
        if (slots != nullptr)
          if (const auto slot = slots->find(value.number); slot != slots->end())
            return slot->second;
      expect(has_product_ && value.number >= 0 && value.number < kernel_.gates, [&] {
        return fmt::format("accumulated {}: nothing has been written there", value.number);
      });
      return *kernel_.product;
    }
    const auto key = std::pair(value.program, value.number);
    const bool inverse = value.kind == KernelValue::Kind::Inverse;
    const auto step = steps_.find(key);
    expect(inverse ? inverses_.contains(key) : step != steps_.end(), [&] {
      return fmt::format("{}{} does not stand above", to_string(step_leaf(key.second, key.first)),
                         inverse ? ".inverse" : "");
    });
    return inverse ? DType::F32 : step->second->dtype;
  }

  void expect_dtype(const KernelValue& value, DType wanted) const {
    const DType got = dtype(value);
    expect(got == wanted, [&] {
      return fmt::format("expected a value of dtype {}, got {}", name_of(wanted), name_of(got));
    });
  }

  void verify(const PlacedStep& placed) {
    std::vector<DType> dtypes;
    for (const KernelValue& operand : placed.operands) dtypes.push_back(dtype(operand));
    const ScalarStep& step = placed.step;
    verify_dtypes(step, dtypes);
    for_each_dim(step, [this](const Dim& dim) { leaves(dim); });
    for (const Conditions& conditions : placed.mask.alternatives) verify(conditions);
    const Overloaded verify_kind{
        [&](const step::Load& read) { load(read, step.dtype, placed.mask); },
        [&](const step::Apply&) {
          const ScalarStep* by = nullptr;
          if (placed.operands.size() > 1 && placed.operands[1].kind == KernelValue::Kind::Step)
            by = steps_.at({placed.operands[1].program, placed.operands[1].number});
          verify_divisor(header_, step, by);
        },
        [&](const step::CheckedIndex& index) {
          verify_check(header_, index.check, KernelCheck::Kind::Index, index.extent);
          declared(step_leaf(placed.number, placed.program), index.extent);
        },
        [&](const step::Scratch& element) { scratch(element.slot, step.dtype); },
        [](const step::Accumulated&) {
          throw Flaw{"expected 'accumulated' among operands alone, got a step", false};
        },
        [](const step::Constant&) {},
        [](const step::Extent&) {},
        [](const step::Guarded&) {},
    };
    std::visit(verify_kind, step.kind);
    const auto key = std::pair(placed.program, placed.number);
    expect(steps_.emplace(key, &step).second, [&] {
      return fmt::format("{} is there twice", to_string(step_leaf(key.second, key.first)));
    });
  }

  void scratch(std::int32_t number, DType dtype) const {
    const ScratchSlot* slot = nullptr;
    if (row_)
      if (const auto found = row_->scratch.find(number); found != row_->scratch.end())
        slot = &found->second;
    expect(slot != nullptr && slot->dtype == dtype, [&] {
      return fmt::format("expected a slot of scratch of {} that is whole, got {}", name_of(dtype),
                         number);
    });
    expect(slot->around == around_, [&] {
      return fmt::format("expected scratch {} to be read in the loops that it is kept in", number);
    });
  }

  void verify(const Conditions& conditions) const {
    for (const auto& condition : conditions) {
      leaves(condition.left);
      leaves(condition.right);
    }
  }

  void leaves(const Dim& dim) const {
    for (const DimLeaf& leaf : dim.leaves())
      if (leaf.is_step())
        expect(checked_index(leaf) != nullptr, [&] {
          return fmt::format("the dim {} mentions {}: expected a checked index that stands above",
                             dim.to_string(), to_string(leaf));
        });
    const Dim others = dim.substitute([](const DimLeaf& leaf) -> std::optional<Dim> {
      return leaf.is_step() ? std::optional(Dim(0)) : std::nullopt;
    });
    verify_leaves(others, header_.symbols, around_, nullptr);
  }

  const step::CheckedIndex* checked_index(const DimLeaf& leaf) const {
    const auto found = steps_.find({leaf.value, leaf.step()});
    return found == steps_.end() ? nullptr : std::get_if<step::CheckedIndex>(&found->second->kind);
  }

  void load(const step::Load& load, DType dtype, const KernelMask& mask) const {
    const TensorType& type = verify_parameter(header_, load.buffer);
    expect(type.dtype == dtype, [&] {
      return fmt::format("expected {}, the dtype of parameter {}, got {}", name_of(type.dtype),
                         load.buffer, name_of(dtype));
    });
    inside(fmt::format("load {}", load.buffer), load.index, type, mask);
  }

  void inside(const std::string& what, const std::vector<Dim>& index, const TensorType& type,
              const KernelMask& mask) const {
    verify_rank(what, index, type);
    std::vector<Conditions> ways = mask.alternatives;
    if (ways.empty()) ways.emplace_back();
    const AccessProof proof(header_.symbols, running_);
    for (Conditions& way : ways) {
      way.insert(way.end(), conditions_.begin(), conditions_.end());
      if (auto flaw = proof.flaw(what, index, type, way)) throw Flaw{*std::move(flaw), true};
      for (const Dim& dim : index)
        for (const DimLeaf& leaf : dim.leaves())
          if (const auto* checked = leaf.is_step() ? checked_index(leaf) : nullptr)
            if (!proof.proven(0, checked->extent, way))
              throw Flaw{
                  fmt::format("{} of {}: {} is below {}, which is not proven to be more "
                              "than 0",
                              what, print(type), to_string(leaf), checked->extent.to_string()),
                  true};
    }
  }

  void verify(const PlacedInverse& inverse) {
    expect_dtype(inverse.of, DType::F32);
    expect(inverses_.emplace(inverse.program, inverse.number).second,
           [] { return "the reciprocal is there twice"; });
  }

  void verify(const PlacedStore& store) {
    for (const Dim& dim : store.index) leaves(dim);
    for (const Conditions& conditions : store.mask.alternatives) verify(conditions);
    const TensorType& type = verify_result(header_, store.output);
    expect_dtype(store.value, type.dtype);
    inside(fmt::format("store {}", store.output), store.index, type, store.mask);
  }

  void verify(const PlacedKeep& keep) {
    const DType got = dtype(keep.value);
    if (keep.dtype) expect_dtype(keep.value, *keep.dtype);
    const bool kept = keep.kind == PlacedKeep::Kind::Scratch;
    if (!kept && keep.kind != PlacedKeep::Kind::Accumulated) return;
    expect(row_.has_value(), [&] {
      return fmt::format("{} {} outlives its point: expected it in a row, a block of stages",
                         kept ? "scratch" : "accumulated", keep.slot);
    });
    const bool first = kept ? row_->kept.emplace(keep.slot, ScratchSlot{got, around_}).second
                            : row_->reduced.emplace(keep.slot, got).second;
    expect(first &&
               !(kept ? row_->scratch.contains(keep.slot) : row_->accumulated.contains(keep.slot)),
           [&] { return fmt::format("slot {} is written twice", keep.slot); });
  }

  void verify(const PlacedSelection& selection) {
    expect_dtype(selection.selected, DType::Bool);
    verify_compaction(header_, around_, selection.positions, selection.count);
  }

  void verify(const PlacedRanking& ranking) {
    count(ranking.rank);
    around_.push_back(ranking.rank);
    const TensorType& type = verify_result(header_, ranking.output);
    expect(type.dtype == DType::I64, [&] {
      return fmt::format("expected result {} to be i64, got {}", ranking.output,
                         name_of(type.dtype));
    });
    for (const Dim& dim : ranking.index) leaves(dim);
    inside(fmt::format("store {}", ranking.output), ranking.index, type, {});
    around_.pop_back();
  }

  const PlacedKernel& kernel_;
  const KernelHeader header_;
  std::vector<Iteration> around_;
  std::vector<Iteration> running_;  // that have points: around, and in the blocks around
  Conditions conditions_;           // of the sections around
  std::map<std::pair<std::uint32_t, std::int32_t>, const ScalarStep*> steps_;
  std::set<std::pair<std::uint32_t, std::int32_t>> inverses_;
  Slots carried_;           // from the point before, in an ordered stage
  std::optional<Row> row_;  // around
  bool has_product_ = false;
  std::size_t next_ = 0;  // statement
};

}  // namespace

std::optional<LoopFormFlaw> verify_placed_kernel(const PlacedKernel& kernel) {
  return KernelVerifier(kernel).run();
}

}  // namespace anydim::ir
