#include "passes/decompose_counts.h"

#include <cstdint>
#include <limits>

#include "ir/error.h"
#include "ir/scalar.h"
#include "passes/binding_writer.h"

namespace anydim::passes {

using namespace ir;

namespace {

class CountedOp {
 public:
  CountedOp(Function& function, const Binding& binding, std::vector<Binding>& into)
      : function_(function), binding_(binding),
        writer_(function, into, binding.source, std::string(info(binding.op).text)),
        x_(binding.operands[0]), type_(function.tensor_type(x_)) {}

  void write() {
    switch (binding_.op) {  // NOLINT: those that open a count
      case Op::nonzero: return nonzero();
      case Op::compress: return compress();
      case Op::unique: return unique();
      case Op::non_max_suppression: return non_max_suppression();
      case Op::dyn_arange: return progression();
      default: break;
    }
    internal_error("an op that opens a count has a way to find it");
  }

 private:
  // Positions of those of a mask's `elements` that are true; as many as the symbol `count` says,
  // which is bound here. By value: new values move those that there are.
  ValueId selected(ValueId mask, Dim count, Dim elements) {
    internal_check(count.kind() == Dim::Kind::Symbol, "a count is a symbol");
    const std::vector<ValueId> found = writer_.emit_many(Op::compact, {mask}, 2);
    writer_.push({.op = Op::bind, .operands = {found[1]}, .dims = {count, elements}});
    return writer_.first(found[0], count);
  }

  // Coordinate `axis` of row-major positions in `dims`.
  ValueId coordinate(ValueId positions, const std::vector<Dim>& dims, std::size_t axis) {
    ValueId index = positions;
    const Dim stride = product({dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, dims.end()});
    if (!stride.is_constant(1)) index = writer_.emit(Op::div, {index, writer_.dim(stride)});
    if (axis > 0)
      index =
          writer_.emit(Op::mod, {index, writer_.dim(dims[axis])}, {{"truncate", std::int64_t{1}}});
    return index;
  }

  void nonzero() {
    const Dim count = function_.tensor_type(binding_.results[0]).dims[1];
    const ValueId positions =
        selected(type_.dtype == DType::Bool ? x_ : writer_.cast(x_, DType::Bool), count,
                 product(type_.dims));
    if (type_.rank() == 0) {
      const ValueId shape = writer_.shape({0, count});
      writer_.emit(Op::dyn_zeros, {shape}, {{"dtype", DType::I64}}, binding_.results[0]);
      return;
    }
    std::vector<ValueId> rows;
    for (std::size_t axis = 0; axis < type_.rank(); ++axis)
      rows.push_back(writer_.with_axis(coordinate(positions, type_.dims, axis), 0));
    writer_.emit(Op::concat, rows, {{"axis", std::int64_t{0}}}, binding_.results[0]);
  }

  // The axis that the op works along, and x; without the attribute x is laid out as one vector.
  std::size_t along() {
    if (has_attribute(binding_, "axis")) {
      const std::int64_t given = integer_attribute(binding_, "axis");
      return static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(type_.rank())
                                                : given);
    }
    type_.dims = {product(type_.dims)};
    x_ = writer_.reshaped(x_, type_.dims);
    return 0;
  }

  void compress() {
    const std::size_t axis = along();
    const ValueId condition = binding_.operands[1];
    const Dim count = function_.tensor_type(binding_.results[0]).dims[axis];
    const ValueId positions = selected(condition, count, function_.tensor_type(condition).dims[0]);
    writer_.gathered(x_, positions, static_cast<std::int64_t>(axis), binding_.results[0]);
  }

  // Reals from data, in f64 as the evaluator has them.
  void progression() {
    std::vector<ValueId> numbers;
    for (const ValueId operand : binding_.operands) {
      const bool scalar = function_.tensor_type(operand).rank() == 0;
      numbers.push_back(writer_.cast(scalar ? operand : writer_.reshaped(operand, {}), DType::F64));
    }
    const TensorType type = function_.tensor_type(binding_.results[0]);
    const ValueId steps = writer_.emit(
        Op::ceil,
        {writer_.emit(Op::div, {writer_.emit(Op::sub, {numbers[1], numbers[0]}), numbers[2]})});
    const auto limit = static_cast<double>(default_symbol_maximum);
    const ValueId finite =
        writer_.emit(Op::less, {writer_.emit(Op::abs, {steps}), writer_.number(DType::F64, limit)});
    Binding check{
        .op = Op::assertion,
        .operands = {finite, binding_.operands[0], binding_.operands[1], binding_.operands[2]}};
    check.attributes.emplace("message", std::string(arange_demand));
    writer_.push(std::move(check));
    const ValueId count = writer_.emit(Op::max, {writer_.cast(steps, DType::I64), writer_.dim(0)});
    writer_.push(
        {.op = Op::bind, .operands = {count}, .dims = {type.dims[0], Dim(default_symbol_maximum)}});
    const ValueId places = writer_.cast(writer_.counted(type.dims[0]), DType::F64);
    const ValueId reals =
        writer_.emit(Op::add, {numbers[0], writer_.emit(Op::mul, {places, numbers[2]})});
    writer_.emit(Op::cast, {reals}, {{"to", type.dtype}}, binding_.results[0]);
  }

  // ---- unique ----

  // Whether each place of the sorted slices has another slice than the place before it.
  ValueId starts_group(ValueId order, std::size_t axis) {
    const Dim& extent = type_.dims[axis];
    const ValueId place = writer_.counted(extent);
    const ValueId before =
        writer_.emit(Op::max, {writer_.emit(Op::sub, {place, writer_.dim(1)}), writer_.dim(0)});
    const auto along = static_cast<std::int64_t>(axis);
    const ValueId own = writer_.gathered(x_, order, along);
    const ValueId other = writer_.gathered(x_, writer_.gathered(order, before), along);
    ValueId same = writer_.emit(Op::equal, {own, other});
    if (is_float(type_.dtype)) {
      const ValueId both = writer_.emit(
          Op::logical_and, {writer_.emit(Op::is_nan, {own}), writer_.emit(Op::is_nan, {other})});
      same = writer_.emit(Op::logical_or, {same, both});
    }
    ValueId differs = writer_.emit(Op::logical_not, {same});
    if (type_.rank() > 1) {
      std::vector<std::int64_t> others;
      for (std::size_t i = 0; i < type_.rank(); ++i)
        if (i != axis) others.push_back(static_cast<std::int64_t>(i));
      const ValueId any =
          writer_.emit(Op::reduce_max, {writer_.cast(differs, DType::I32)}, {{"axes", others}});
      differs = writer_.emit(Op::greater, {any, writer_.number(DType::I32, 0)});
    }
    return writer_.emit(Op::logical_or,
                        {differs, writer_.emit(Op::equal, {place, writer_.dim(0)})});
  }

  // Element order[i] is values[i].
  ValueId scattered(ValueId order, ValueId values, const Dim& extent, DType dtype,
                    ValueId result = no_value) {
    const ValueId shape = writer_.shape({extent});
    const ValueId empty = writer_.emit(Op::dyn_zeros, {shape}, {{"dtype", dtype}});
    return writer_.emit(Op::scatter_elements, {empty, order, values}, {{"axis", std::int64_t{0}}},
                        result);
  }

  ValueId running_count(ValueId mask) {
    const ValueId sums = writer_.emit(Op::cumulative_sum, {writer_.cast(mask, DType::I64)},
                                      {{"axis", std::int64_t{0}}});
    return writer_.emit(Op::sub, {sums, writer_.dim(1)});
  }

  // From where each group starts to where the next one does; the last ends with the places.
  ValueId lengths(ValueId starts, const Dim& count, const Dim& extent, ValueId result) {
    const ValueId next = writer_.emit(Op::add, {writer_.counted(count), writer_.dim(1)});
    const ValueId last = writer_.dim(count - 1);
    const ValueId following = writer_.gathered(starts, writer_.emit(Op::min, {next, last}));
    const ValueId more = writer_.emit(Op::less_equal, {next, last});
    const ValueId end = writer_.emit(Op::where, {more, following, writer_.dim(extent)});
    return writer_.emit(Op::sub, {end, starts}, {}, result);
  }

  void unique() {
    const std::size_t axis = along();
    const auto position = static_cast<std::int64_t>(axis);
    const Dim extent = type_.dims[axis];
    const Dim count = function_.tensor_type(binding_.results[1]).dims[0];
    const std::vector<ValueId>& results = binding_.results;
    const ValueId order =
        writer_.emit(Op::argsort, {x_}, {{"axis", position}, {"slices", std::int64_t{1}}});
    const ValueId starts_here = starts_group(order, axis);
    const ValueId group = running_count(starts_here);
    const ValueId starts = selected(starts_here, count, extent);
    if (integer_attribute(binding_, "sorted") != 0) {
      writer_.gathered(order, starts, 0, results[1]);
      writer_.gathered(x_, results[1], position, results[0]);
      scattered(order, group, extent, DType::I64, results[2]);
      lengths(starts, count, extent, results[3]);
      return;
    }
    // Groups are renumbered by their first positions.
    const ValueId first_here = scattered(order, starts_here, extent, DType::Bool);
    writer_.emit(Op::dyn_strided_slice,
                 {writer_.emit_many(Op::compact, {first_here}, 2)[0], writer_.shape({0}),
                  writer_.shape({count})},
                 {}, results[1]);
    writer_.gathered(x_, results[1], position, results[0]);
    const ValueId number =
        writer_.gathered(running_count(first_here), writer_.gathered(order, starts));
    const ValueId sorted_group = scattered(order, group, extent, DType::I64);
    writer_.gathered(number, sorted_group, 0, results[2]);
    const ValueId sorted_lengths = lengths(starts, count, extent, no_value);
    writer_.gathered(sorted_lengths, writer_.gathered(sorted_group, results[1]), 0, results[3]);
  }

  // ---- non-maximum suppression ----

  // Candidates that are looked at first: of each box that is asked for, and beyond those.
  static constexpr std::int64_t looked_at = 4, looked_at_least = 64;

  struct Sides {
    ValueId low[2], high[2], area;
  };

  // Corners and areas [batch, class, box] of the boxes, in each class by falling score.
  Sides sorted_sides(ValueId order, const std::vector<Dim>& dims) {
    const bool centred = integer_attribute(binding_, "center_point_box") != 0;
    const auto sorted = [&](ValueId of_box) {
      const ValueId spread =
          writer_.emit(Op::dyn_broadcast_to, {writer_.with_axis(of_box, 1), writer_.shape(dims)});
      return writer_.emit(Op::gather_elements, {spread, order}, {{"axis", std::int64_t{2}}});
    };
    Sides sides{};
    for (std::int64_t i = 0; i < 2; ++i) {
      const auto given = [&](std::int64_t at) { return writer_.gathered(x_, writer_.dim(at), 2); };
      ValueId a = given(i), b = given(i + 2);
      if (centred) {
        const ValueId half = writer_.emit(Op::div, {b, writer_.number(type_.dtype, 2)});
        b = writer_.emit(Op::add, {a, half});
        a = writer_.emit(Op::sub, {a, half});
      }
      sides.low[i] = sorted(writer_.emit(Op::min, {a, b}));
      sides.high[i] = sorted(writer_.emit(Op::max, {a, b}));
    }
    const auto length = [&](int i) { return writer_.emit(Op::sub, {sides.high[i], sides.low[i]}); };
    sides.area = writer_.emit(Op::mul, {length(0), length(1)});
    return sides;
  }

  // In each class the first box that is still there takes away those after it that overlap it, then
  // the first that is left behind it, and so on: until classes have as many as are asked for, or
  // none left. A trip is a box that is kept, not one of those taken away.
  ValueId left_over(const Sides& sides, ValueId candidates, const Dim& boxes) {
    Block body;
    const ValueId trip = writer_.new_value(), going_on = writer_.new_value(),
                  kept = writer_.new_value(), wanted = writer_.new_value(),
                  at = writer_.new_value();
    body.parameters = {trip, going_on, kept, wanted, at};
    const Attributes all_dims{{"keepdims", std::int64_t{0}}},
        of_class{{"axes", std::vector<std::int64_t>{2}}, {"keepdims", std::int64_t{1}}};
    // Numbers have 32 bits where they suffice, which go through vectors twice as fast.
    const bool narrow =
        bounds(boxes, function_.symbols).high <= std::numeric_limits<std::int32_t>::max();
    const DType number = narrow ? DType::I32 : DType::I64;
    const ValueId numbers = writer_.cast(writer_.counted(boxes), number),
                  none = writer_.cast(writer_.dim(boxes), number);
    const auto first_of = [&](ValueId there) {
      return writer_.emit(Op::reduce_min, {writer_.emit(Op::where, {there, numbers, none})},
                          of_class);
    };
    const ValueId behind = writer_.emit(Op::add, {writer_.counted(boxes), writer_.dim(1)});
    const ValueId ends = writer_.emit(
        Op::reduce_max, {writer_.emit(Op::mul, {writer_.cast(candidates, DType::I64), behind})},
        of_class);
    const ValueId trips =
        writer_.emit(Op::max, {writer_.emit(Op::reduce_max, {ends}, all_dims), writer_.dim(0)});
    const ValueId asked = writer_.emit(Op::add, {writer_.emit(Op::mul, {ends, writer_.dim(0)}),
                                                 writer_.cast(binding_.operands[2], DType::I64)});
    const ValueId start = first_of(candidates);
    std::vector<Binding>* outside = writer_.write_to(body.bindings);
    const ValueId some_left = writer_.emit(Op::less, {at, none});
    const ValueId place = writer_.emit(
        Op::max, {writer_.emit(Op::min, {writer_.cast(at, DType::I64), writer_.dim(boxes - 1)}),
                  writer_.dim(0)});
    const auto here = [&](ValueId value) {
      return writer_.emit(Op::gather_elements, {value, place}, {{"axis", std::int64_t{2}}});
    };
    const ValueId zero = writer_.number(type_.dtype, 0);
    ValueId common[2];
    for (int side = 0; side < 2; ++side) {
      const ValueId end = writer_.emit(Op::min, {sides.high[side], here(sides.high[side])});
      const ValueId begin = writer_.emit(Op::max, {sides.low[side], here(sides.low[side])});
      common[side] = writer_.emit(Op::max, {writer_.emit(Op::sub, {end, begin}), zero});
    }
    const ValueId both = writer_.emit(Op::mul, {common[0], common[1]});
    const ValueId all =
        writer_.emit(Op::sub, {writer_.emit(Op::add, {here(sides.area), sides.area}), both});
    const ValueId share = writer_.emit(Op::where, {writer_.emit(Op::greater, {all, zero}),
                                                   writer_.emit(Op::div, {both, all}), zero});
    const ValueId over = writer_.emit(Op::greater, {share, binding_.operands[3]});
    const ValueId later = writer_.emit(Op::greater, {numbers, at});
    const ValueId taken =
        writer_.emit(Op::logical_and, {writer_.emit(Op::logical_and, {some_left, over}), later});
    const ValueId next =
        writer_.emit(Op::logical_and, {kept, writer_.emit(Op::logical_not, {taken})});
    const ValueId next_at = first_of(writer_.emit(Op::logical_and, {next, later}));
    const ValueId still_wanted =
        writer_.emit(Op::sub, {wanted, writer_.cast(some_left, DType::I64)});
    const ValueId open = writer_.emit(
        Op::where, {writer_.emit(Op::less, {next_at, none}), still_wanted, writer_.dim(0)});
    const ValueId some =
        writer_.emit(Op::greater, {writer_.emit(Op::reduce_max, {open}, all_dims), writer_.dim(0)});
    writer_.write_to(*outside);
    body.results = {some, next, still_wanted, next_at};
    const ValueId result = writer_.new_value();
    Binding loop{.op = Op::loop,
                 .operands = {trips, no_value, candidates, asked, start},
                 .results = {result, writer_.new_value(), writer_.new_value()}};
    loop.blocks.push_back(std::move(body));
    writer_.push(std::move(loop));
    return result;
  }

  // What boxes come to that are looked at, in each class by falling score: [batch, class, rank].
  struct Suppressed {
    ValueId order, kept;
  };

  // Of the first `ranks` boxes of each class. A score that is not above `lowest` is no candidate.
  Suppressed suppressed(ValueId scores, ValueId lowest, std::vector<Dim> dims, const Dim& ranks) {
    const std::int64_t last = 2;
    const ValueId order = writer_.emit(Op::argsort, {scores, writer_.dim(ranks)},
                                       {{"axis", last}, {"descending", std::int64_t{1}}});
    dims.back() = ranks;
    ValueId candidates;
    if (lowest != no_value) {
      const ValueId sorted = writer_.emit(Op::gather_elements, {scores, order}, {{"axis", last}});
      candidates = writer_.emit(Op::greater, {sorted, lowest});
    } else {
      candidates = filled(DType::Bool, 1, dims);
    }
    return {order, left_over(sorted_sides(order, dims), candidates, ranks)};
  }

  // The number, of at most `most`, as an extent.
  Dim bound_to(ValueId number, const Dim& most) {
    const Dim symbol = function_.symbols.fresh("d");
    writer_.push({.op = Op::bind, .operands = {number}, .dims = {symbol, most}});
    return min(symbol, most);
  }

  ValueId filled(DType dtype, double number, const std::vector<Dim>& dims) {
    return writer_.emit(Op::dyn_full, {writer_.number(dtype, number), writer_.shape(dims)});
  }

  ValueId of_all(Op reduction, ValueId value) {
    return writer_.emit(reduction, {value}, {{"keepdims", std::int64_t{0}}});
  }

  // Few boxes are candidates where scores have to be above something, and of many candidates the
  // best are looked at first: where as many of them are kept as are asked for, no others matter.
  void non_max_suppression() {
    ValueId scores = binding_.operands[1];
    const std::vector<Dim> dims = function_.tensor_type(scores).dims;
    const Attributes of_class{{"axes", std::vector<std::int64_t>{2}},
                              {"keepdims", std::int64_t{0}}};
    const auto counted = [&](ValueId there) {
      return writer_.emit(Op::reduce_sum, {writer_.cast(there, DType::I64)}, of_class);
    };
    const bool threshold = binding_.operands.size() > 4 && binding_.operands[4] != no_value;
    const ValueId lowest = threshold ? binding_.operands[4] : no_value,
                  asked = writer_.reshaped(writer_.cast(binding_.operands[2], DType::I64), {});
    const ValueId there =
        threshold ? writer_.emit(Op::greater, {scores, lowest}) : filled(DType::Bool, 1, dims);
    if (threshold) {
      const double least = -std::numeric_limits<double>::infinity();
      scores = writer_.emit(
          Op::where, {there, scores, writer_.number(function_.tensor_type(scores).dtype, least)});
    }
    const ValueId candidates = counted(there), none = writer_.dim(0);
    const ValueId most = writer_.emit(Op::max, {of_all(Op::reduce_max, candidates), none});
    const Dim all = bound_to(most, dims[2]);
    const ValueId some = writer_.emit(
        Op::add,
        {writer_.emit(Op::mul, {writer_.emit(Op::min, {asked, most}), writer_.dim(looked_at)}),
         writer_.dim(looked_at_least)});
    const Dim best =
        bound_to(writer_.emit(Op::max, {writer_.emit(Op::min, {some, most}), none}), all);
    const Suppressed first = suppressed(scores, lowest, dims, best);
    const ValueId enough = writer_.emit(
        Op::greater_equal, {counted(first.kept), writer_.emit(Op::min, {asked, candidates})});
    const ValueId looked_at_all = writer_.emit(Op::less_equal, {candidates, writer_.dim(best)});
    const ValueId done =
        of_all(Op::reduce_min,
               writer_.cast(writer_.emit(Op::logical_or, {enough, looked_at_all}), DType::I64));
    const Suppressed found = extended(first, done, scores, lowest, dims, best, all);
    choose(found, asked, dims, all);
  }

  // `first` where that is enough, and all candidates otherwise.
  Suppressed extended(const Suppressed& first, ValueId done, ValueId scores, ValueId lowest,
                      const std::vector<Dim>& dims, const Dim& best, const Dim& all) {
    Block then, otherwise;
    std::vector<Binding>* outside = writer_.write_to(then.bindings);
    std::vector<Dim> missing = dims;
    missing.back() = all - best;
    for (const auto& [value, dtype] :
         {std::pair(first.order, DType::I64), std::pair(first.kept, DType::Bool)})
      then.results.push_back(writer_.emit(Op::concat, {value, filled(dtype, 0, missing)},
                                          {{"axis", std::int64_t{2}}}));
    writer_.write_to(otherwise.bindings);
    const Suppressed second = suppressed(scores, lowest, dims, all);
    otherwise.results = {second.order, second.kept};
    writer_.write_to(*outside);
    Binding branch{.op = Op::branch,
                   .operands = {writer_.cast(done, DType::Bool)},
                   .results = {writer_.new_value(), writer_.new_value()}};
    const std::vector<ValueId> results = branch.results;
    branch.blocks.push_back(std::move(then));
    branch.blocks.push_back(std::move(otherwise));
    writer_.push(std::move(branch));
    return {results[0], results[1]};
  }

  // Of those that are kept, as many of each class as are asked for.
  void choose(const Suppressed& found, ValueId asked, std::vector<Dim> dims, const Dim& ranks) {
    dims.back() = ranks;
    const ValueId number = writer_.emit(Op::cumulative_sum, {writer_.cast(found.kept, DType::I64)},
                                        {{"axis", std::int64_t{2}}});
    const ValueId few = writer_.emit(Op::less_equal, {number, asked});
    const ValueId chosen = writer_.emit(Op::logical_and, {found.kept, few});
    const ValueId positions =
        selected(chosen, function_.tensor_type(binding_.results[0]).dims[0], product(dims));
    const ValueId box = writer_.gathered(writer_.reshaped(found.order, {product(dims)}), positions);
    std::vector<ValueId> columns;
    for (const ValueId column :
         {coordinate(positions, dims, 0), coordinate(positions, dims, 1), box})
      columns.push_back(writer_.with_axis(column, 1));
    writer_.emit(Op::concat, columns, {{"axis", std::int64_t{1}}}, binding_.results[0]);
  }

  Function& function_;
  const Binding& binding_;
  BindingWriter writer_;
  ValueId x_;
  TensorType type_;
};

}  // namespace

void write_counted(Function& function, const Binding& binding, std::vector<Binding>& into) {
  CountedOp(function, binding, into).write();
}

}  // namespace anydim::passes
