// Sequences, which are lists here, and optionals, which are lists of at most one element.
#include "frontends/onnx/importers.h"

namespace anydim::frontends {

namespace {

ValueId position(Node& node, std::size_t operand) {
  return node.has_operand(operand) ? node.rank_0(node.index_operand(operand)) : ir::no_value;
}

void need_sequence(Node& node, std::size_t operand) {
  if (node.lists(node.operand(operand)) == 0)
    node.malformed("takes a sequence as input {}, got a tensor", operand);
}

ValueId one_element(Node& node, ValueId scalar) {
  return node.emit(Op::reshape, {scalar}, {{"shape", std::vector<std::int64_t>{1}}});
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
  const ValueId place = position(node, 2);
  node.output(0, node.emit_list(Op::list_insert, {node.operand(0), node.operand(1), place}, 1,
                                node.dtype(node.operand(1))));
}

void import_sequence_erase(Node& node) {
  need_sequence(node, 0);
  const ValueId place = position(node, 1);
  node.output(0, node.emit_list(Op::list_erase, {node.operand(0), place}, 1, node.dtype()));
}

void import_sequence_at(Node& node) {
  need_sequence(node, 0);
  const ValueId place = node.rank_0(node.index_operand(1));
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
  const ValueId x = node.operand(0);
  const DType dtype = node.dtype();
  const ValueId one_step = node.scalar(DType::I64, 1), zero = node.scalar(DType::I64, 0);
  const ValueId axes = node.index_vector({axis});
  const ValueId shape = node.emit(Op::shape_of, {x});
  const ValueId whole =
      node.emit(Op::gather, {shape, node.scalar(DType::I64, static_cast<double>(axis))},
                {{"axis", std::int64_t{0}}});
  ValueId trips = whole, size = one_step, sizes = ir::no_value;
  if (node.has_operand(1)) {
    const auto rank = node.declared_rank(node.operand(1));
    if (!rank)
      node.unsupported(
          "has a computed input 'split'; Anydim needs to know its rank when it reads the model");
    const ValueId split = node.index_operand(1);
    if (*rank == 0) {
      size = split;
      const ValueId rounded = node.emit(Op::sub, {node.emit(Op::add, {whole, split}), one_step});
      trips = node.emit(Op::div, {rounded, split});
    } else {
      // Parts of one size, as PyTorch writes a repeat_interleave, have an extent that is known.
      if (const auto every = node.every_element(split))
        size = node.scalar(DType::I64, static_cast<double>(*every));
      else sizes = split;
      trips = node.emit(Op::gather, {node.emit(Op::shape_of, {split}), zero},
                        {{"axis", std::int64_t{0}}});
    }
  }
  const ValueId empty = node.emit_list(Op::list, {}, 1, dtype);
  Node::Loop loop(node, trips, ir::no_value, {empty, zero});
  const ValueId i = loop.round(), list = loop.carried()[0], begin = loop.carried()[1];
  ValueId element = ir::no_value, end = ir::no_value;
  const bool single = sizes == ir::no_value && node.known_element(size) == 1;
  if (single || drops_axis(node)) {
    element = node.emit(Op::gather, {x, i}, {{"axis", axis}});
    if (!drops_axis(node)) element = node.with_axes(element, {axis});  // of an extent that is known
    end = begin;
  } else {
    const ValueId length = sizes == ir::no_value
                               ? size
                               : node.emit(Op::gather, {sizes, i}, {{"axis", std::int64_t{0}}});
    end = node.emit(Op::add, {begin, length});
    element = node.emit(Op::dyn_strided_slice,
                        {x, one_element(node, begin), one_element(node, end), axes});
  }
  const ValueId longer = node.emit_list(Op::list_insert, {list, element}, 1, dtype);
  node.output(0, loop.close({loop.goes_on(), longer, end})[0]);
}

// The graph for each element of the first sequence, with those of other sequences at the same
// place; tensors are the same for all.
void import_sequence_map(Node& node) {
  need_sequence(node, 0);
  const std::vector<ValueId> operands = node.operands();
  const ValueId trips = node.emit(Op::list_length, {operands[0]});
  std::vector<ValueId> carried;
  for (std::size_t o = 0; o < node.output_count(); ++o)
    carried.push_back(node.emit_list(Op::list, {}, 1, DType::F32));
  Node::Loop loop(node, trips, ir::no_value, carried);
  const std::vector<ValueId> entering = loop.carried();
  std::vector<ValueId> arguments;
  for (const ValueId operand : operands)
    arguments.push_back(node.lists(operand) == 0
                            ? operand
                            : node.emit_list(Op::list_at, {operand, loop.round()},
                                             node.lists(operand) - 1, node.dtype(operand)));
  const std::vector<ValueId> given = node.graph("body", arguments);
  if (given.size() != node.output_count())
    node.malformed("has a body of {} outputs, expected {}", given.size(), node.output_count());
  std::vector<ValueId> yielded{loop.goes_on()};
  for (std::size_t o = 0; o < given.size(); ++o)
    yielded.push_back(
        node.emit_list(Op::list_insert, {entering[o], given[o]}, 1, node.dtype(given[o])));
  const std::vector<ValueId> results = loop.close(yielded);
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
  const ValueId length = node.emit(Op::list_length, {node.operand(0)});
  node.output(0, node.emit(Op::greater, {length, node.scalar(DType::I64, 0)}));
}

void import_optional_get_element(Node& node) {
  const ValueId value = node.operand(0);
  if (node.lists(value) == 0) {
    node.output(0, value);
    return;
  }
  node.output(0, node.emit_list(Op::list_at, {value, node.scalar(DType::I64, 0)},
                                node.lists(value) - 1, node.dtype(value)));
}

}  // namespace anydim::frontends
