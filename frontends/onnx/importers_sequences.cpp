// Sequences, which are lists here, and optionals, which are lists of at most one element.
#include "frontends/onnx/importers.h"

namespace anydim::frontends {

namespace {

Value position(Node& node, std::size_t operand) {
  return node.has_operand(operand) ? rank_0(node.index_operand(operand)) : no_value;
}

void need_sequence(Node& node, std::size_t operand) {
  if (node.lists(node.operand(operand)) == 0)
    node.malformed("takes a sequence as input {}, got a tensor", operand);
}

Value one_element(Node& node, Value scalar) {
  return node.emit(Op::reshape, {scalar}, {{"shape", Ints{1}}});
}

}  // namespace

void import_sequence_empty(Node& node) {
  node.ignore_attribute("dtype");  // elements decide
  node.output(0, node.emit_list(Op::list, {}, 1, DType::F32));
}

void import_sequence_construct(Node& node) {
  node.check_same_dtypes();
  node.output(0, node.emit_list(Op::list, node.operands(), 1, node.dtype()));
}

void import_sequence_insert(Node& node) {
  need_sequence(node, 0);
  const Value place = position(node, 2);
  node.output(0, node.emit_list(Op::list_insert, {node.operand(0), node.operand(1), place}, 1,
                                node.operand(1).dtype()));
}

void import_sequence_erase(Node& node) {
  need_sequence(node, 0);
  const Value place = position(node, 1);
  node.output(0, node.emit_list(Op::list_erase, {node.operand(0), place}, 1, node.dtype()));
}

void import_sequence_at(Node& node) {
  need_sequence(node, 0);
  const Value place = rank_0(node.index_operand(1));
  node.output(0, node.emit_list(Op::list_at, {node.operand(0), place},
                                node.lists(node.operand(0)) - 1, node.dtype()));
}

void import_sequence_length(Node& node) {
  need_sequence(node, 0);
  node.output(0, node.emit(Op::list_length, {node.operand(0)}));
}

void import_concat_from_sequence(Node& node) {
  need_sequence(node, 0);
  ir::Attributes attributes{{"axis", node.integer("axis")},
                            {"new_axis", node.integer("new_axis", 0)}};
  node.output(0, node.emit_list(Op::list_concat, {node.operand(0)}, 0, node.dtype(),
                                std::move(attributes)));
}

// The standard has 'keepdims' ignored beside a 'split'. PyTorch's unbind writes a split of 1 and
// relies on ONNX Runtime, which drops the axis there; larger parts it refuses to make.
bool drops_axis(Node& node) {
  if (node.integer("keepdims", 1) != 0) return false;
  return !node.has_operand(1) ||
         (node.declared_rank(node.operand(1)) == 0 && node.known_element(node.operand(1)) == 1);
}

// A loop that slices one part after the other.
void import_split_to_sequence(Node& node) {
  const std::int64_t axis = node.integer("axis", 0);
  const Value x = node.operand(0);
  const DType dtype = node.dtype();
  const Value one_step = node.scalar(DType::I64, 1), zero = node.scalar(DType::I64, 0);
  const Value axes = node.index_vector({axis});
  const Value shape = shape_of(x);
  const Value whole = gather(shape, axis, 0);
  Value trips = whole, size = one_step, sizes = no_value;
  if (node.has_operand(1)) {
    const auto rank = node.declared_rank(node.operand(1));
    if (!rank)
      node.unsupported(
          "has a computed input 'split'; Anydim needs to know its rank when it reads the model");
    const Value split = node.index_operand(1);
    if (*rank == 0) {
      size = split;
      const Value rounded = whole + split - one_step;
      trips = rounded / split;
    } else {
      // Parts of one size, as PyTorch writes a repeat_interleave, have an extent that is known.
      if (const auto every = node.every_element(split))
        size = node.scalar(DType::I64, static_cast<double>(*every));
      else sizes = split;
      trips = gather(shape_of(split), zero, 0);
    }
  }
  const Value empty = node.emit_list(Op::list, {}, 1, dtype);
  Node::Loop loop(node, trips, no_value, {empty, zero});
  const Value i = loop.round(), list = loop.carried()[0], begin = loop.carried()[1];
  Value element = no_value, end = no_value;
  const bool single = sizes == no_value && node.known_element(size) == 1;
  if (single || drops_axis(node)) {
    element = gather(x, i, axis);
    if (!drops_axis(node)) element = with_axes(element, {axis});  // of an extent that is known
    end = begin;
  } else {
    const Value length = sizes == no_value ? size : gather(sizes, i, 0);
    end = begin + length;
    element = node.emit(Op::dyn_strided_slice,
                        {x, one_element(node, begin), one_element(node, end), axes});
  }
  const Value longer = node.emit_list(Op::list_insert, {list, element}, 1, dtype);
  node.output(0, loop.close({loop.goes_on(), longer, end})[0]);
}

// The graph for each element of the first sequence, with those of other sequences at the same
// place; tensors are the same for all.
void import_sequence_map(Node& node) {
  need_sequence(node, 0);
  const Values operands = node.operands();
  const Value trips = node.emit(Op::list_length, {operands[0]});
  Values carried;
  for (std::size_t o = 0; o < node.output_count(); ++o)
    carried.push_back(node.emit_list(Op::list, {}, 1, DType::F32));
  Node::Loop loop(node, trips, no_value, carried);
  const Values entering = loop.carried();
  Values arguments;
  for (const Value operand : operands)
    arguments.push_back(node.lists(operand) == 0
                            ? operand
                            : node.emit_list(Op::list_at, {operand, loop.round()},
                                             node.lists(operand) - 1, operand.dtype()));
  const Values given = node.graph("body", arguments);
  if (given.size() != node.output_count())
    node.malformed("has a body of {} outputs, expected {}", given.size(), node.output_count());
  Values yielded{loop.goes_on()};
  for (std::size_t o = 0; o < given.size(); ++o)
    yielded.push_back(
        node.emit_list(Op::list_insert, {entering[o], given[o]}, 1, given[o].dtype()));
  const Values results = loop.close(yielded);
  for (std::size_t o = 0; o < results.size(); ++o) node.output(o, results[o]);
}

// ---- Optionals ----

void import_optional(Node& node) {
  node.ignore_attribute("type");  // the element decides
  if (!node.has_operand(0)) {
    node.output(0, node.emit_list(Op::list, {}, 1, DType::F32));
    return;
  }
  node.output(0, node.emit_list(Op::list, {node.operand(0)}, node.lists(node.operand(0)) + 1,
                                node.dtype()));
}

// From opset 18 on a tensor is taken as an optional that has it.
void import_optional_has_element(Node& node) {
  if (!node.has_operand(0) || node.lists(node.operand(0)) == 0) {
    node.output(0, node.scalar(DType::Bool, node.has_operand(0) ? 1 : 0));
    return;
  }
  const Value length = node.emit(Op::list_length, {node.operand(0)});
  node.output(0, length > 0);
}

void import_optional_get_element(Node& node) {
  const Value value = node.operand(0);
  if (node.lists(value) == 0) {
    node.output(0, value);
    return;
  }
  node.output(0, node.emit_list(Op::list_at, {value, node.scalar(DType::I64, 0)},
                                node.lists(value) - 1, value.dtype()));
}

}  // namespace anydim::frontends
