#include <fmt/format.h>

#include <algorithm>

#include "frontends/onnx/importers.h"

namespace anydim::frontends {

namespace {

constexpr std::size_t most_open_ones = 3;  // eight cases

void check_integers(Node& node, std::size_t index) {
  const ir::DType dtype = node.operand(index).dtype();
  if (!ir::is_integer(dtype))
    node.malformed("takes integers as input {}, got {}", index, ir::name_of(dtype));
}

void emit_gather(Node& node, Op op, std::string_view attribute) {
  check_integers(node, 1);
  node.output(
      0, node.emit(op, node.operands(), {{std::string(attribute), node.integer(attribute, 0)}}));
}

void output_parts(Node& node, Op op, Values operands, ir::Attributes attributes) {
  const auto parts =
      node.emit_many(op, std::move(operands), std::move(attributes), node.output_count());
  for (std::size_t i = 0; i < parts.size(); ++i) node.output(i, parts[i]);
}

// Without axes, every dim of 1 goes: which these are may not be known before a call. A result of
// the model has the rank then that the call gives it; where something reads it, and a call's inputs
// tell which dims are 1, what follows is read for each of the cases.
void squeeze_ones(Node& node) {
  const Value value = node.operand(0);
  Ints ones, open;
  bool told_by_inputs = true;
  const auto as_inferred = [&] { node.output(0, node.emit(Op::squeeze, {value})); };
  const auto* const dims = node.dims(value);
  if (dims == nullptr) return as_inferred();
  for (std::size_t axis = 0; axis < dims->size(); ++axis) {
    const ir::Proof one = node.proof_of_one((*dims)[axis]);
    if (one == ir::Proof::No) continue;
    if (one == ir::Proof::Unknown && !node.of_inputs((*dims)[axis])) told_by_inputs = false;
    (one == ir::Proof::Yes ? ones : open).push_back(static_cast<std::int64_t>(axis));
  }
  if (!open.empty() && node.is_result(0)) {
    node.output(0, ones.empty() ? value : without_axes(value, std::move(ones)));
    return node.drop_ones(0);
  }
  if (open.empty() || open.size() > most_open_ones || !told_by_inputs) return as_inferred();
  std::vector<Choice> is_one;
  for (const std::int64_t axis : open) {
    const Value extent = rank_0(dim_of(value, axis));
    is_one.push_back({equal(extent, 1), fmt::format("takes dimension {} away, which is 1", axis),
                      fmt::format("keeps dimension {}, which is not 1", axis)});
  }
  std::vector<ir::Block> cases;
  for (std::size_t number = 0; number < std::size_t{1} << open.size(); ++number) {
    Ints gone = ones;
    for (std::size_t i = 0; i < open.size(); ++i)
      if ((number >> (open.size() - 1 - i) & 1) == 0) gone.push_back(open[i]);
    node.open_block({});
    const Value squeezed = gone.empty() ? value : without_axes(value, std::move(gone));
    cases.push_back(node.close_block({squeezed}));
  }
  if (!node.read_apart(std::move(is_one), cases))
    node.unsupported(
        "has no axes, and {} dims of its input may be 1, after other nodes whose "
        "results have a rank that only a call tells; give the axes",
        open.size());
}

}  // namespace

void import_concat(Node& node) {
  node.check_same_dtypes();
  node.output(0, concat(node.operands(), node.integer("axis")));
}

void import_expand(Node& node) {
  node.output(0, node.emit(Op::dyn_broadcast_to, {node.operand(0), node.index_operand(1)}));
}

void import_flatten(Node& node) {
  node.output(0, node.emit(Op::flatten, {node.operand(0)}, {{"axis", node.integer("axis", 1)}}));
}

void import_gather(Node& node) { emit_gather(node, Op::gather, "axis"); }
void import_gather_elements(Node& node) { emit_gather(node, Op::gather_elements, "axis"); }

void import_gather_nd(Node& node) {
  if (node.opset() >= 12) {
    emit_gather(node, Op::gather_nd, "batch_dims");
    return;
  }
  check_integers(node, 1);
  node.output(0, node.emit(Op::gather_nd, node.operands()));
}

void import_reshape(Node& node) {
  const bool zero_is_zero = node.opset() >= 14 && node.flag("allowzero", false);
  node.output(0, node.emit(Op::dyn_reshape, {node.operand(0), node.index_operand(1)},
                           {{"zero_copies", std::int64_t{zero_is_zero ? 0 : 1}}}));
}

void import_slice(Node& node) {
  Values operands{node.operand(0), node.index_operand(1), node.index_operand(2),
                  node.optional_index_operand(3), node.optional_index_operand(4)};
  // How many axes are sliced one of the vectors may tell where others do not.
  std::optional<std::int64_t> count;
  for (std::size_t i = 1; i < operands.size() && !count; ++i)
    if (operands[i] != no_value) count = operands[i].length();
  // Exporters leave it to the call only where each bound is one element of a vector, itself sliced.
  const auto may_be_one = [&](Value vector) {
    if (vector == no_value) return true;
    const auto* const dims = node.dims(vector);
    return dims != nullptr && dims->size() == 1 &&
           node.proof_of_one(dims->front()) != ir::Proof::No;
  };
  if (!count && std::all_of(operands.begin() + 1, operands.end(), may_be_one)) count = 1;
  for (std::size_t i = 1; count && i < operands.size(); ++i)
    if (operands[i] != no_value) operands[i] = node.of_length(operands[i], *count);
  node.output(0, node.emit(Op::dyn_strided_slice, std::move(operands)));
}

void import_slice_attributes(Node& node) {
  ir::Attributes attributes{{"starts", node.integers("starts")}, {"ends", node.integers("ends")}};
  if (auto axes = node.optional_integers("axes")) attributes.emplace("axes", *std::move(axes));
  node.output(0, node.emit(Op::strided_slice, {node.operand(0)}, std::move(attributes)));
}

void import_split(Node& node) {
  const std::int64_t axis = node.integer("axis", 0);
  const auto outputs = static_cast<std::int64_t>(node.output_count());
  if (node.opset() >= 18 && node.has_attribute("num_outputs")) {
    const std::int64_t demanded = node.integer("num_outputs");
    if (node.has_operand(1))
      node.malformed("has both the input 'split' and the attribute 'num_outputs'; expected one");
    if (demanded != outputs)
      node.malformed("has {} outputs, but num_outputs = {}", outputs, demanded);
  } else if (node.opset() >= 18 && !node.has_operand(1)) {
    node.malformed("has neither the input 'split' nor the attribute 'num_outputs'; expected one");
  }
  if (node.has_operand(1))
    output_parts(node, Op::dyn_split, {node.operand(0), node.index_operand(1)}, {{"axis", axis}});
  else output_parts(node, Op::split, {node.operand(0)}, {{"axis", axis}});
}

void import_split_attribute(Node& node) {
  ir::Attributes attributes{{"axis", node.integer("axis", 0)}};
  if (auto sizes = node.optional_integers("split")) {
    if (sizes->size() != node.output_count()) {
      node.malformed("has {} outputs, but {} sizes in the attribute 'split'", node.output_count(),
                     sizes->size());
    }
    attributes.emplace("sizes", *std::move(sizes));
  }
  output_parts(node, Op::split, {node.operand(0)}, std::move(attributes));
}

void import_squeeze(Node& node) {
  if (node.has_operand(1))
    node.output(0, node.emit(Op::dyn_squeeze, {node.operand(0), node.index_operand(1)}));
  else squeeze_ones(node);
}

void import_squeeze_attribute(Node& node) {
  if (auto axes = node.optional_integers("axes"))
    node.output(0, without_axes(node.operand(0), *std::move(axes)));
  else squeeze_ones(node);
}

void import_tile(Node& node) {
  node.output(0, node.emit(Op::dyn_tile, {node.operand(0), node.index_operand(1)}));
}

void import_transpose(Node& node) {
  ir::Attributes attributes;
  if (auto perm = node.optional_integers("perm")) attributes.emplace("perm", *std::move(perm));
  node.output(0, node.emit(Op::transpose, {node.operand(0)}, std::move(attributes)));
}

void import_trilu(Node& node) {
  const std::int64_t upper = node.flag("upper", true) ? 1 : 0;
  if (node.has_operand(1)) {
    node.output(
        0, node.emit(Op::dyn_trilu, {node.operand(0), node.index_operand(1)}, {{"upper", upper}}));
  } else {
    node.output(0, node.emit(Op::trilu, {node.operand(0)}, {{"upper", upper}}));
  }
}

void import_unsqueeze(Node& node) {
  node.output(0, node.emit(Op::dyn_expand_dims, {node.operand(0), node.index_operand(1)}));
}

// Of ONNX Runtime: one axis, of rank 0 or 1.
void import_expand_dims(Node& node) {
  const Value axis = reshaped(node.index_operand(1), {node.index_vector({1})});
  node.output(0, node.emit(Op::dyn_expand_dims, {node.operand(0), axis}));
}

void import_unsqueeze_attribute(Node& node) {
  node.output(0, node.emit(Op::expand_dims, {node.operand(0)}, {{"axes", node.integers("axes")}}));
}

}  // namespace anydim::frontends
