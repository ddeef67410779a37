#include "ir/loops/straight_run.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ir/dims/affine.h"
#include "ir/loops/scalar_program.h"

namespace anydim::ir {

namespace {

constexpr std::int64_t any_length = std::numeric_limits<std::int64_t>::max();
// Of a period whose turns each row counts for itself.
constexpr std::int64_t shortest_period = 32;

class Straightener {
 public:
  Straightener(const Iteration& run, const SymbolTable& symbols)
      : run_(run), symbols_(symbols), end_(run.extent) {}

  const Dim& begin() const { return begin_; }
  const Dim& end() const { return end_; }

  // What `dim` is in the run, which is narrowed for it; the dim itself where it is not understood.
  Dim straight(const Dim& dim) {
    if (along(dim)) return dim;
    switch (dim.kind()) {
      case Dim::Kind::Sum: {
        Dim sum(dim.constant_part());
        for (const Dim::Term& term : dim.terms()) {
          Dim product(term.coefficient);
          for (const Dim& factor : term.factors) product = product * straight(factor);
          sum = sum + product;
        }
        return sum;
      }
      case Dim::Kind::Mod:
      case Dim::Kind::FloorDiv: return unwrapped(dim);
      case Dim::Kind::Min:
      case Dim::Kind::Max: return rising(dim);
      default: return dim;
    }
  }

 private:
  struct Line {
    std::int64_t stride;
    Dim base;
  };
  std::optional<Line> along(const Dim& dim) const {
    const auto affine = affine_in(dim, run_.variable);
    const auto stride = affine ? affine->stride.constant() : std::nullopt;
    if (!stride || *stride == std::numeric_limits<std::int64_t>::min()) return std::nullopt;
    return Line{*stride, affine->base};
  }

  // No other loop's variable decides it.
  static bool same_in_rows(const Dim& dim) {
    return std::ranges::all_of(dim.leaves(), [](const DimLeaf& leaf) { return leaf.is_symbol(); });
  }
  Dim simple(const Dim& dim) const { return simplify(dim, symbols_); }

  // Points of the run in [begin, end); 0 where its begin is not known to be near.
  std::int64_t length(const Dim& begin, const Dim& end) const {
    const Dim first = simple(max(begin, begin_)), last = simple(min(end, end_));
    if (!first.is_constant()) return 0;
    const auto count = simple(last - first).constant();
    return count.value_or(any_length);
  }

  // Between two places where it wraps around, of which the longest stretch is taken.
  Dim unwrapped(const Dim& dim) {
    const Dim inside = straight(dim.operands()[0]), &period = dim.operands()[1];
    const auto line = along(inside);
    if (!line || line->stride < 1 || period.mentions(run_.variable) ||
        bounds(period, symbols_).low < 1)
      return dim;
    const auto begin_of = [&](const Dim& turn) {
      return simple(floor_div(turn * period - line->base + (line->stride - 1), line->stride));
    };
    Dim turn;
    std::int64_t longest = 0;
    if (same_in_rows(line->base)) {
      for (const std::int64_t each : {0, 1, -1}) {
        const std::int64_t points = length(begin_of(each), begin_of(each + 1));
        if (points > longest) std::tie(turn, longest) = std::pair(Dim(each), points);
      }
      if (longest < 1) return dim;
    } else {
      // Of a row that begins anywhere: the turn of its first point, or the next one, as one of them
      // holds more of the row.
      if (bounds(period, symbols_).high < shortest_period) return dim;
      const Dim first = simple(floor_div(line->base, period)), next = begin_of(first + 1);
      turn = simple(select(Comparison::Less, next * 2, run_.extent, first + 1, first));
    }
    begin_ = simple(max(begin_, begin_of(turn)));
    end_ = simple(min(end_, begin_of(turn + 1)));
    return dim.kind() == Dim::Kind::Mod ? inside - turn * period : turn;
  }

  // Where the operand that rises fastest is the least, or the most.
  Dim rising(const Dim& dim) {
    std::vector<Line> lines;
    std::vector<Dim> operands;
    for (const Dim& operand : dim.operands()) {
      operands.push_back(straight(operand));
      const auto line = along(operands.back());
      if (!line) return dim;
      lines.push_back(*line);
    }
    const auto best = std::ranges::max_element(lines, {}, &Line::stride);
    if (best->stride < 1) return dim;
    Dim begin = begin_, end = end_;
    for (const Line& other : lines) {
      if (&other == &*best) continue;
      const std::int64_t closing = best->stride - other.stride;
      if (closing == 0) return dim;
      const Dim ahead = other.base - best->base;
      if (dim.kind() == Dim::Kind::Min) end = min(end, floor_div(ahead, closing) + 1);
      else begin = max(begin, ceil_div(ahead, closing));
    }
    begin_ = simple(begin);
    end_ = simple(end);
    return operands[static_cast<std::size_t>(best - lines.begin())];
  }

  const Iteration& run_;
  const SymbolTable& symbols_;
  Dim begin_, end_;
};

}  // namespace

std::optional<StraightRun> straight_run(const MapPart& part, const SymbolTable& symbols) {
  if (part.space.empty()) return std::nullopt;
  StraightRun found{.program = part.program, .begin = {}, .end = {}};
  Straightener straightener(part.space.back(), symbols);
  bool any = false;
  for (ScalarStep& step : found.program.steps) {
    auto* load = std::get_if<step::Load>(&step.kind);
    if (load == nullptr) continue;
    for (Dim& dim : load->index) {
      if (!steps_mentioned(dim).empty()) continue;
      Dim straight = simplify(straightener.straight(dim), symbols);
      any = any || !(straight == dim);
      dim = std::move(straight);
    }
  }
  // Conditions that fold as the loads do are straight where these are.
  for (ScalarStep& step : found.program.steps) {
    if (!any || !step.is<step::Guarded>()) continue;
    for_each_dim(step, [&](Dim& dim) {
      if (!steps_mentioned(dim).empty()) return;
      Straightener same = straightener;
      Dim straight = simplify(same.straight(dim), symbols);
      if (same.begin() == straightener.begin() && same.end() == straightener.end())
        dim = std::move(straight);
    });
  }
  // Short runs are not worth their code, as the two points of floor_div(p, 2) that read one place.
  // That of an iteration known to have one point reads a place that no variable tells, which would
  // be read before the run, even where it is empty.
  const Dim count = simplify(straightener.end() - straightener.begin(), symbols);
  const std::int64_t most = bounds(count, symbols).high,
                     extent = bounds(part.space.back().extent, symbols).high;
  if (!any || extent < 2 || most < extent / 2) return std::nullopt;
  found.begin = straightener.begin();
  found.end = straightener.end();
  return found;
}

}  // namespace anydim::ir
