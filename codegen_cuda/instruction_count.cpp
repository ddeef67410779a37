#include "codegen_cuda/instruction_count.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "codegen_cuda/scalars/vector_lanes.h"
#include "codegen_cuda/work.h"
#include "ir/dims/affine.h"
#include "ir/overloaded.h"

namespace anydim::codegen_cuda {

namespace {

// Where instructions stand, each more often than the one before.
enum class Level : std::uint8_t { Block, Row, Vector, Lane };
// What is computed once where several statements need it.
enum class What : std::uint8_t { Address, Expression, Quotient, Comparison };

// Counted on machine code for sm_90a.
constexpr double entry_instructions = 11;  // parameters, the thread's number, the wait, the end
constexpr double divided = 23, divided_wide = 33;  // by a size that only the run knows
constexpr double divided_by_constant = 2, divided_wide_by_constant = 7;
constexpr double rest = 1, rest_wide = 5;               // of a quotient that is there
constexpr double multiplied_wide = 6, scaled_wide = 3;  // by a size, by a constant
constexpr double checked = 9, checked_by_size = 13;     // an index, from both ends
constexpr double next_point = 4, next_point_wide = 6;   // of a loop of the grid
constexpr double first_point_wide = 3;                  // and its beginning, more
constexpr double access_bytes = 16;                     // of one instruction, at most

std::size_t words(DType dtype) { return ir::size_of(dtype) == 8 ? 2 : 1; }

class Counter {
 public:
  Counter(const ir::PlacedKernel& kernel, const CountedLoops& loops)
      : kernel_(kernel), loops_(loops) {}

  KernelCount count() {
    look(kernel_.body);
    count_.block = entry_instructions;
    for (const std::string& name : kernel_.symbols.names())
      if (mentioned_.contains({.symbol = name})) count_.block += 1;
    // Pointers are parameters.
    count_.block += static_cast<double>(kernel_.parameters.size() + kernel_.results.size());
    walk(kernel_.body, {});
    return std::move(count_);
  }

 private:
  using Loops = std::vector<ir::Iteration>;

  // ---- what is read how often, and which leaves anything mentions ----

  void look(const ir::KernelBlock& block) {
    const auto mention = [&](const Dim& dim) { dim.collect_leaves(mentioned_); };
    for (const ir::KernelStatement& statement : block) {
      std::visit(ir::Overloaded{
                     [&](const ir::KernelLoop& loop) {
                       mention(loop.loop.extent);
                       look(loop.body);
                     },
                     [&](const ir::KernelSection& section) { look(section.body); },
                     [&](const ir::PlacedStep& placed) {
                       values_[{ir::KernelValue::Kind::Step, placed.program, placed.number}] =
                           &placed.step;
                       for (const ir::KernelValue& operand : placed.operands) ++uses_[operand];
                       ir::for_each_dim(placed.step, mention);
                     },
                     [&](const ir::PlacedInverse& inverse) { ++uses_[inverse.of]; },
                     [&](const ir::PlacedStore& store) {
                       ++uses_[store.value];
                       stored_.insert(store.value);
                       for (const Dim& dim : store.index) mention(dim);
                     },
                     [&](const ir::PlacedKeep& keep) { ++uses_[keep.value]; },
                     [](const auto&) {},
                 },
                 statement.kind);
    }
  }

  // ---- statements ----

  void walk(const ir::KernelBlock& block, const Loops& around) {
    for (const ir::KernelStatement& statement : block) {
      std::visit(ir::Overloaded{
                     [&](const ir::KernelLoop& loop) { enter(loop, around); },
                     [&](const ir::KernelSection& section) {
                       begin_section();
                       walk(section.body, around);
                       in_section_ = false;
                     },
                     [&](const ir::PlacedStep& placed) { step(placed, level(around)); },
                     [&](const ir::PlacedInverse&) { add(level(around), inverse_instructions()); },
                     [&](const ir::PlacedStore& placed) { store(placed); },
                     [&](const ir::PlacedKeep& placed) { keep(placed, level(around)); },
                     [](const auto&) {},
                 },
                 statement.kind);
    }
  }

  // Loops of several sections share nothing but what a row has.
  void begin_section() {
    count_.sections.emplace_back();
    in_section_ = true;
    std::erase_if(known_, [](const auto& known) { return std::get<Level>(known) > Level::Row; });
  }

  void enter(const ir::KernelLoop& loop, const Loops& around) {
    Loops nest = around;
    nest.push_back(loop.loop);
    const bool inner = nest.size() > loops_.outer;
    if (inner && !in_section_) begin_section();
    const bool last = !std::ranges::any_of(loop.body, [](const ir::KernelStatement& statement) {
      return std::holds_alternative<ir::KernelLoop>(statement.kind);
    });
    levels_[loop.loop.variable] = !inner                     ? Level::Row
                                  : last && loops_.width > 1 ? Level::Lane
                                                             : Level::Vector;
    if (inner && last) {
      innermost_ = loop.loop;
      count_.sections.back().has_points = true;
      place_in(std::span(nest).subspan(loops_.outer), Level::Vector);
    }
    if (nest.size() == loops_.outer) place_in(nest, Level::Row);
    walk(loop.body, nest);
    if (inner && last) innermost_.reset();
  }

  // A point's number taken apart into the loops that are mentioned.
  void place_in(std::span<const ir::Iteration> nest, Level level) {
    const Dim points = ir::points_of(nest);
    const bool wide = is_wide(points);
    if (level == Level::Row || loops_.outer == 0) {
      const Dim vectors = ir::ceil_div(points, level == Level::Row ? 1 : loops_.width);
      index(ir::simplify(vectors, kernel_.symbols), Level::Block);
      add(level, wide ? next_point_wide : next_point);
      if (wide) add(Level::Block, first_point_wide);
    }
    for (std::size_t i = nest.size(); i-- > 1;) {
      if (nest[i].extent.is_constant(1)) continue;
      const bool outside = std::ranges::any_of(nest.first(i), [&](const ir::Iteration& loop) {
        return mentioned_.contains(loop.variable);
      });
      Dim extent = nest[i].extent;
      if (i + 1 == nest.size() && level == Level::Vector)
        extent = ir::simplify(ir::ceil_div(extent, loops_.width), kernel_.symbols);
      if (outside || mentioned_.contains(nest[i].variable)) add(level, division(extent, wide));
      if (outside && mentioned_.contains(nest[i].variable)) add(level, wide ? rest_wide : rest);
    }
  }

  void step(const ir::PlacedStep& placed, Level level) {
    const ir::ScalarStep& step = placed.step;
    std::visit(ir::Overloaded{
                   [&](const ir::step::Extent& extent) { index(extent.value, level); },
                   [&](const ir::step::Load& read) {
                     conditions(placed.mask, level);
                     access(kernel_.parameters.at(static_cast<std::size_t>(read.buffer)),
                            read.buffer, read.index, level, placed.mask.alternatives.empty());
                     if (ir::is_half(step.dtype) || step.dtype == DType::Bool) add(level, 1);
                   },
                   [&](const ir::step::CheckedIndex& checked_index) {
                     const DimLeaf leaf = ir::step_leaf(placed.number, placed.program);
                     levels_[leaf] = level;
                     reached_[leaf] = reached(placed.operands.front());
                     index(checked_index.extent, level);
                     conditions(placed.mask, level);
                     add(level, checked_index.extent.is_constant() ? checked : checked_by_size);
                   },
                   [&](const ir::step::Guarded& guarded) {
                     for (const auto& condition : guarded.conditions) compare(condition, level);
                     add(level, static_cast<double>(words(step.dtype)));
                   },
                   [&](const ir::step::Apply&) {
                     if (level > Level::Row || repeats_.insert(spelled(placed)).second)
                       add(level, applied(placed));
                   },
                   [](const auto&) {},
               },
               step.kind);
    auto& loops = reached_by_[{ir::KernelValue::Kind::Step, placed.program, placed.number}];
    for (const ir::KernelValue& operand : placed.operands) loops.merge(std::set(reached(operand)));
    ir::for_each_dim(step, [&](const Dim& dim) { loops.merge(loops_of(dim)); });
  }

  // An op of a row by what it computes: the same one of another stage is computed once.
  std::string spelled(const ir::PlacedStep& placed) {
    const ir::ScalarStep& step = placed.step;
    std::string text = fmt::format("{} {}(", ir::name_of(step.dtype), ir::info(step.op()).text);
    for (const ir::KernelValue& operand : placed.operands) {
      const auto constant = values_.find(operand);
      if (operand.kind == ir::KernelValue::Kind::Accumulated) {
        text += fmt::format("slot {}, ", operand.number);
      } else if (constant != values_.end() && constant->second->is<ir::step::Constant>()) {
        const auto& number = constant->second->as<ir::step::Constant>();
        text += fmt::format("{} {}, ", number.real, number.integer);
      } else {
        const auto found = spellings_.find(operand);
        text += found == spellings_.end()
                    ? fmt::format("{} {} {}, ", static_cast<int>(operand.kind), operand.program,
                                  operand.number)
                    : found->second + ", ";
      }
    }
    text += ")";
    spellings_[{ir::KernelValue::Kind::Step, placed.program, placed.number}] = text;
    return text;
  }

  double applied(const ir::PlacedStep& placed) {
    const ir::ScalarStep& step = placed.step;
    const auto dtype_of = [&](std::size_t operand) {
      const auto found = values_.find(placed.operands.at(operand));
      return found == values_.end() ? DType::F32 : found->second->dtype;
    };
    const DType from = dtype_of(placed.operands.size() - 1);
    if (step.op() == ir::Op::cast) {
      if (from == step.dtype || (ir::is_half(from) && step.dtype == DType::F32)) return 0;
      // Rounded, and widened again unless it is only stored, which converts.
      if (ir::is_half(step.dtype)) return is_only_stored(placed) ? 0 : 2;
      return 1;
    }
    if (step.op() == ir::Op::bitcast)
      return (ir::is_half(from) ? 1 : 0) + (ir::is_half(step.dtype) ? 1 : 0);
    double instructions = operation_clocks(step);
    if (words(from) == 2 && !ir::is_float(from) && instructions == 1)
      instructions = step.op() == ir::Op::mul ? 4 : 2;
    // A product that is only added is part of the sum's instruction.
    if (step.op() == ir::Op::add || step.op() == ir::Op::sub) {
      for (const ir::KernelValue& operand : placed.operands)
        if (joins(operand)) return instructions - 1;
    }
    // By a constant, without its reciprocal, which is known; by a power of two, multiplied by that.
    if (step.op() == ir::Op::div && ir::is_float(step.dtype)) {
      const auto divisor = values_.find(placed.operands.at(1));
      if (divisor != values_.end() && divisor->second->is<ir::step::Constant>()) {
        int exponent = 0;
        const double half = std::frexp(divisor->second->as<ir::step::Constant>().real, &exponent);
        return std::abs(half) == 0.5 ? 1 : instructions - special_instructions;
      }
    }
    return instructions;
  }

  // A product of floats that nothing else reads.
  bool joins(const ir::KernelValue& operand) const {
    const auto found = values_.find(operand);
    return found != values_.end() && found->second->applies(ir::Op::mul) &&
           ir::is_float(found->second->dtype) && uses_.at(operand) == 1;
  }
  bool is_only_stored(const ir::PlacedStep& placed) const {
    const ir::KernelValue value{ir::KernelValue::Kind::Step, placed.program, placed.number};
    return stored_.contains(value) && uses_.at(value) == 1;
  }

  void keep(const ir::PlacedKeep& placed, Level level) {
    if (placed.kind != ir::PlacedKeep::Kind::Accumulated) return;
    if (!count_.sections.back().has_points) return;
    count_.sections.back().reductions.push_back(placed.dtype.value());
    const bool joined = placed.reduce == ir::Reduce::Sum && joins(placed.value);
    add(level, (joined ? 0 : 1) * static_cast<double>(words(placed.dtype.value())));
  }

  void store(const ir::PlacedStore& placed) {
    Level level = Level::Block;
    for (const Dim& dim : placed.index) level = std::max(level, level_of(dim));
    if (innermost_) level = std::max(level, levels_.at(innermost_->variable));
    else if (in_section_ || loops_.outer > 0) level = std::max(level, Level::Row);
    conditions(placed.mask, level);
    const ir::TensorType& type = kernel_.results.at(static_cast<std::size_t>(placed.output));
    const bool whole = access(type, -1 - placed.output, placed.index, level,
                              placed.mask.alternatives.empty() && !placed.combine);
    // One instruction converts two neighbours.
    if (ir::is_half(type.dtype)) add(level, whole ? 0.5 : 1);
  }

  // Loads or stores an element; true where neighbours are one access.
  bool access(const ir::TensorType& type, std::int32_t buffer, const std::vector<Dim>& index_of,
              Level level, bool always) {
    const Dim offset = ir::linear_offset(index_of, type.dims, kernel_.symbols);
    const auto bytes = static_cast<double>(ir::size_of(type.dtype));
    std::set<DimLeaf> loops = loops_of(offset);
    double lane_bytes = bytes, beside = 1;
    bool whole = false;
    if (innermost_) {
      whole = always && is_contiguous(kernel_.symbols, offset, innermost_->variable,
                                      innermost_->extent, static_cast<int>(loops_.width));
    }
    if (offset.mentions(loops_.lanes)) {
      constexpr double sector = 32;
      const auto along = ir::affine_in(offset, loops_.lanes);
      const auto stride = along ? along->stride.constant() : std::nullopt;
      lane_bytes = std::clamp(stride ? std::abs(static_cast<double>(*stride)) * bytes : sector,
                              bytes, std::max(sector, bytes));
      const auto row = ir::affine_in(offset, loops_.beside);
      if (row && row->stride.is_constant(1)) beside = lane_bytes / bytes;
    }
    if (seen_.insert({buffer, offset}).second)
      count_.accesses.push_back({std::move(loops), lane_bytes, beside});
    // Addresses of vectors that are a fixed way apart are offsets from the first's, unless a loop
    // counts them in 64 bits.
    const bool steady = innermost_ && loops_.outer > 0 &&
                        (loops_.unrolled || !is_wide(innermost_->extent)) &&
                        ir::affine_in(offset, innermost_->variable).has_value();
    const Level at = whole && level == Level::Lane ? Level::Vector : level;
    const Level place = steady ? std::min(at, Level::Row) : at;
    const bool narrow = !is_wide(offset) || !is_wide(ir::product(type.dims));
    index(offset, place, narrow);
    if (computes(What::Address, buffer, offset, place)) add(place, narrow ? 1 : 2);
    const double together = whole ? static_cast<double>(loops_.width) : 1;
    add(at, std::ceil(together * bytes / access_bytes));
    return whole;
  }

  // ---- index expressions ----

  // Instructions of an expression that nothing has computed yet at this place or further out.
  // `narrow`: 32 bits suffice, whatever the ranges of what it is made of.
  void index(const Dim& dim, Level level, bool narrow = false) {
    if (dim.is_constant() || dim.kind() == Dim::Kind::Symbol || dim.kind() == Dim::Kind::Value)
      return;
    level = std::min(level, level_of(dim));
    if (!computes(What::Expression, 0, dim, level)) return;
    const bool wide = !narrow && is_wide(dim);
    if (dim.kind() == Dim::Kind::Sum) {
      bool first = true;
      for (const Dim::Term& term : dim.terms()) {
        for (const Dim& factor : term.factors) index(factor, level, narrow);
        const double products = static_cast<double>(term.factors.size()) - 1;
        const bool scaled = term.coefficient != 1;
        if (wide)
          add(level, products * multiplied_wide + (scaled ? scaled_wide : 0) + (first ? 0 : 2));
        else add(level, std::max(products + (scaled ? 1 : 0), first ? 0.0 : 1.0));
        first = false;
      }
      return;
    }
    for (const Dim& operand : dim.operands()) index(operand, level);
    switch (dim.kind()) {
      case Dim::Kind::FloorDiv:
      case Dim::Kind::Mod: {
        const Dim quotient = ir::floor_div(dim.operands()[0], dim.operands()[1]);
        const bool both = is_wide(dim.operands()[0]) || is_wide(dim.operands()[1]);
        if (computes(What::Quotient, 0, quotient, level))
          add(level, division(dim.operands()[1], both));
        if (dim.kind() == Dim::Kind::Mod) add(level, both ? rest_wide : rest);
        return;
      }
      case Dim::Kind::Min:
      case Dim::Kind::Max:
        return add(level, (wide ? 3 : 1) * (static_cast<double>(dim.operands().size()) - 1));
      case Dim::Kind::Select:
      case Dim::Kind::Broadcast: return add(level, wide ? 4 : 2);
      default: return;
    }
  }

  double division(const Dim& divisor, bool wide) const {
    if (const auto constant = divisor.constant()) {
      if (*constant > 0 && std::has_single_bit(static_cast<std::uint64_t>(*constant)))
        return wide ? 2 : 1;
      return wide ? divided_wide_by_constant : divided_by_constant;
    }
    return wide || is_wide(divisor) ? divided_wide : divided;
  }

  void compare(const ir::ScalarStep::Condition& condition, Level level) {
    index(condition.left, level);
    index(condition.right, level);
    level = std::min(level, std::max(level_of(condition.left), level_of(condition.right)));
    if (computes(What::Comparison, 0, condition.left - condition.right, level))
      add(level, is_wide(condition.left) || is_wide(condition.right) ? 2 : 1);
  }
  void conditions(const ir::KernelMask& mask, Level level) {
    for (const auto& all : mask.alternatives)
      for (const auto& condition : all) compare(condition, level);
  }

  bool is_wide(const Dim& dim) const {
    const ir::Interval interval = ir::bounds(dim, kernel_.symbols);
    return interval.high > std::numeric_limits<std::int32_t>::max() ||
           interval.low < std::numeric_limits<std::int32_t>::min();
  }

  // False where it is there already, at this place or further out.
  bool computes(What what, std::int32_t buffer, const Dim& dim, Level level) {
    for (const Level at : {Level::Block, Level::Row, Level::Vector, Level::Lane})
      if (at <= level && known_.contains({what, buffer, dim, at})) return false;
    return known_.insert({what, buffer, dim, level}).second;
  }

  // ---- places ----

  Level level(const Loops& around) const {
    if (around.empty() && !(in_section_ && loops_.outer > 0)) return Level::Block;
    if (around.size() <= loops_.outer) return Level::Row;
    return levels_.at(around.back().variable);
  }
  Level level_of(const Dim& dim) const {
    Level deepest = Level::Block;
    for (const DimLeaf& leaf : dim.leaves())
      if (const auto found = levels_.find(leaf); found != levels_.end())
        deepest = std::max(deepest, found->second);
    return deepest;
  }
  // The loops that a dim varies with, also through an index that was read.
  std::set<DimLeaf> loops_of(const Dim& dim) const {
    std::set<DimLeaf> loops;
    for (const DimLeaf& leaf : dim.leaves()) {
      if (leaf.is_loop()) loops.insert(leaf);
      if (const auto found = reached_.find(leaf); found != reached_.end())
        loops.insert(found->second.begin(), found->second.end());
    }
    return loops;
  }
  const std::set<DimLeaf>& reached(const ir::KernelValue& value) const {
    static const std::set<DimLeaf> none;
    const auto found = reached_by_.find(value);
    return found == reached_by_.end() ? none : found->second;
  }

  void add(Level level, double instructions) {
    if (level == Level::Block) count_.block += instructions;
    else if (level == Level::Row)
      (in_section_ ? count_.sections.back().once : count_.row) += instructions;
    else
      count_.sections.back().vector +=
          instructions * (level == Level::Lane ? static_cast<double>(loops_.width) : 1);
  }

  static constexpr double special_instructions = 7;  // of one, besides itself
  static double inverse_instructions() {
    return operation_clocks({DType::F32, ir::step::Apply{ir::Op::reciprocal}, {}});
  }

  const ir::PlacedKernel& kernel_;
  const CountedLoops loops_;
  KernelCount count_;
  bool in_section_ = false;
  std::optional<ir::Iteration> innermost_;
  std::map<DimLeaf, Level> levels_;               // of loops and checked indices
  std::map<DimLeaf, std::set<DimLeaf>> reached_;  // by a checked index: the loops it varies with
  std::map<ir::KernelValue, std::set<DimLeaf>> reached_by_;
  std::set<DimLeaf> mentioned_;
  std::map<ir::KernelValue, const ir::ScalarStep*> values_;
  std::map<ir::KernelValue, int> uses_;
  std::set<ir::KernelValue> stored_;
  std::map<ir::KernelValue, std::string> spellings_;
  std::set<std::string> repeats_;
  std::set<std::tuple<What, std::int32_t, Dim, Level>> known_;  // what has been computed
  std::set<std::pair<std::int32_t, Dim>> seen_;
};

}  // namespace

KernelCount count_kernel(const ir::PlacedKernel& kernel, const CountedLoops& loops) {
  return Counter(kernel, loops).count();
}

double warp_exchange(DType dtype) {
  constexpr double steps = 5, parted = 2;  // it looks whether lanes have parted
  return parted + steps * 2 * static_cast<double>(words(dtype));
}
double block_exchange(DType dtype) {
  constexpr double through_memory = 12;  // places, a barrier
  return 2 * warp_exchange(dtype) + through_memory;
}
double column_exchange(DType dtype, double parts) {
  constexpr double through_memory = 14;
  return through_memory + 2 * parts * static_cast<double>(words(dtype));
}

double touched(std::span<const ir::Iteration> space, std::span<const double> extents,
               const std::set<DimLeaf>& loops, double together) {
  double elements = 1, inside = 1;
  for (std::size_t i = space.size(); i-- > 0;) {
    if (loops.contains(space[i].variable))
      elements *= std::clamp(std::ceil(together / inside), 1.0, std::max(extents[i], 1.0));
    inside *= extents[i];
  }
  return elements;
}

}  // namespace anydim::codegen_cuda
