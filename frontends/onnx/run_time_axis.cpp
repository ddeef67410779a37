#include "frontends/onnx/run_time_axis.h"

#include <fmt/format.h>

namespace anydim::frontends {

RunTimeAxis run_time_axis(Node& node, Value axis, Value shape, std::int64_t behind) {
  const Value named = shape_of(shape);  // how many it may name
  const Value rank = named + behind;
  const Value given = rank_0(axis), is_negative = given < 0;
  const Value place = where(is_negative, given + without_axes(rank, {0}), given);
  const Value within = (place < named) & (place >= 0);
  node.emit_many(Op::assertion, {within, given},
                 {{"message", fmt::format("{}: the axis is out of range:", node.description())}},
                 0);
  const Value places = positions(named);
  const auto extent = [&](Value chosen) {
    return node.emit(Op::reduce_prod, {where(chosen, shape, 1)}, {{"keepdims", std::int64_t{1}}});
  };
  return {place, extent(places < place), extent(equal(places, place)), extent(places > place)};
}

}  // namespace anydim::frontends
