// Ops whose size only the data tells.
#include "frontends/onnx/importers.h"

namespace anydim::frontends {

void import_nonzero(Node& node) { node.output(0, node.emit(Op::nonzero, {node.operand(0)})); }

void import_compress(Node& node) {
  ir::Attributes attributes;
  if (node.has_attribute("axis")) attributes.emplace("axis", node.integer("axis"));
  // A mask of the input's shape, which exporters write where no axis is named, is taken in order.
  Value chosen = node.operand(1);
  if (chosen.rank() > 1) chosen = reshaped(chosen, {node.index_vector({-1})});
  node.output(0, node.emit(Op::compress, {node.operand(0), chosen}, std::move(attributes)));
}

void import_unique(Node& node) {
  ir::Attributes attributes{{"sorted", std::int64_t{node.flag("sorted", true) ? 1 : 0}}};
  if (node.has_attribute("axis")) attributes.emplace("axis", node.integer("axis"));
  const Values results = node.emit_many(Op::unique, {node.operand(0)}, std::move(attributes), 4);
  for (std::size_t i = 0; i < results.size(); ++i) node.output(i, results[i]);
}

void import_non_max_suppression(Node& node) {
  const auto one = [&](std::size_t index, DType dtype, double otherwise) {
    return node.has_operand(index) ? rank_0(node.operand(index)) : node.scalar(dtype, otherwise);
  };
  const std::int64_t centred = node.flag("center_point_box", false) ? 1 : 0;
  const Value score = node.has_operand(4) ? rank_0(node.operand(4)) : no_value;
  node.output(0, node.emit(Op::non_max_suppression,
                           {node.operand(0), node.operand(1), one(2, DType::I64, 0),
                            one(3, node.dtype(), 0), score},
                           {{"center_point_box", centred}}));
}

}  // namespace anydim::frontends
