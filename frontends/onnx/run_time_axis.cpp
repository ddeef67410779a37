#include "frontends/onnx/run_time_axis.h"

#include <fmt/format.h>

namespace anydim::frontends {

RunTimeAxis run_time_axis(Node& node, ValueId axis, ValueId shape, std::int64_t behind) {
  const auto apply = [&](Op op, ValueId a, ValueId b) { return node.emit(op, {a, b}); };
  const auto integer = [&](std::int64_t value) {
    return node.scalar(ir::DType::I64, static_cast<double>(value));
  };
  const ValueId named = node.emit(Op::shape_of, {shape});  // how many it may name
  const ValueId rank = apply(Op::add, named, integer(behind));
  const ValueId given = node.rank_0(axis), is_negative = apply(Op::less, given, integer(0));
  const ValueId place = node.emit(
      Op::where, {is_negative, apply(Op::add, given, node.without_axes(rank, {0})), given});
  const ValueId within = apply(Op::logical_and, apply(Op::less, place, named),
                               apply(Op::greater_equal, place, integer(0)));
  node.emit_many(Op::assertion, {within, given},
                 {{"message", fmt::format("{}: the axis is out of range:", node.description())}},
                 0);
  const ValueId places = node.positions(named);
  const auto extent = [&](Op relation) {
    const ValueId chosen =
        node.emit(Op::where, {apply(relation, places, place), shape, integer(1)});
    return node.emit(Op::reduce_prod, {chosen}, {{"keepdims", std::int64_t{1}}});
  };
  return {place, extent(Op::less), extent(Op::equal), extent(Op::greater)};
}

}  // namespace anydim::frontends
