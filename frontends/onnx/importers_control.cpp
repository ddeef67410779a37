// If, Loop and Scan.

#include "frontends/onnx/importers.h"

namespace anydim::frontends {

namespace {

Value condition(Node& node, Value value) {
  if (value.dtype() != DType::Bool)
    node.malformed("takes a bool as condition, got {}", ir::name_of(value.dtype()));
  return rank_0(value);
}

void give_outputs(Node& node, const Values& values) {
  if (values.size() < node.output_count())
    node.malformed("has {} outputs, its graph gives {}", node.output_count(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) node.output(i, values[i]);
}

bool differ_in_rank(const Node& node, const Values& results, const Values& others) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto* const dims = node.dims(results[i]);
    const auto* const other = node.dims(others[i]);
    if (dims != nullptr && other != nullptr && dims->size() != other->size()) return true;
  }
  return false;
}

// What a scan reads and writes along, of each of its inputs and outputs.
struct ScanSides {
  Ints input_axes, output_axes, input_directions, output_directions;
};

Ints per_side(Node& node, std::string_view name, std::size_t count) {
  Ints list = node.optional_integers(name).value_or(Ints(count, 0));
  if (list.size() != count)
    node.malformed("has {} elements in attribute '{}', expected {}", list.size(), name, count);
  return list;
}

// The extent of `value` along an axis, as a scalar.
Value extent(Value value, std::int64_t axis) { return gather(shape_of(value), axis, 0); }

// One loop over the scanned axis. Outputs along the first axis in order are scanned by the loop;
// others go through a list.
Values scan(Node& node, const Values& states, const Values& inputs, const ScanSides& sides) {
  const Value trips = extent(inputs[0], sides.input_axes[0]);
  const std::size_t outputs = sides.output_axes.size();
  const auto plain = [&](std::size_t i) {
    return sides.output_axes[i] == 0 && sides.output_directions[i] == 0;
  };
  Values carried = states;
  std::vector<std::size_t> list_of(outputs, 0);  // position among the carried values
  for (std::size_t o = 0; o < outputs; ++o) {
    if (plain(o)) continue;
    list_of[o] = carried.size();
    carried.push_back(node.emit_list(Op::list, {}, 1, DType::F32));
  }
  Node::Loop loop(node, trips, no_value, carried);
  const Values entering = loop.carried();
  Values arguments(entering.begin(), entering.begin() + static_cast<std::ptrdiff_t>(states.size()));
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Value index = sides.input_directions[k] != 0 ? loop.round_from_end() : loop.round();
    arguments.push_back(gather(inputs[k], index, sides.input_axes[k]));
  }
  const Values given = node.graph("body", arguments);
  if (given.size() != states.size() + outputs)
    node.malformed("has a body of {} outputs, expected {}", given.size(), states.size() + outputs);
  Values yielded{loop.goes_on()};
  for (std::size_t s = 0; s < states.size(); ++s) yielded.push_back(given[s]);
  for (std::size_t o = 0; o < outputs; ++o) {
    if (plain(o)) continue;
    const Value element = given[states.size() + o];
    const Value place = sides.output_directions[o] != 0 ? node.scalar(DType::I64, 0) : no_value;
    yielded.push_back(node.emit_list(Op::list_insert, {entering[list_of[o]], element, place}, 1,
                                     element.dtype()));
  }
  for (std::size_t o = 0; o < outputs; ++o)
    if (plain(o)) yielded.push_back(given[states.size() + o]);
  const Values results = loop.close(yielded);
  Values all(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(states.size()));
  std::size_t next_plain = carried.size();
  for (std::size_t o = 0; o < outputs; ++o) {
    if (plain(o)) all.push_back(results[next_plain++]);
    else
      all.push_back(node.emit(Op::list_concat, {results[list_of[o]]},
                              {{"axis", sides.output_axes[o]}, {"new_axis", std::int64_t{1}}}));
  }
  return all;
}

}  // namespace

void import_if(Node& node) {
  const Value wanted = condition(node, node.operand(0));
  // Exporters write a branch for every rank that an input could have; where shapes tell which is
  // taken, the other one need not fit.
  if (const auto known = node.known_element(wanted)) {
    node.ignore_attribute("then_branch");
    node.ignore_attribute("else_branch");
    give_outputs(node, node.graph(*known != 0 ? "then_branch" : "else_branch", {}));
    return;
  }
  node.open_block({});
  Values results = node.graph("then_branch", {});
  std::vector<ir::Block> blocks;
  blocks.push_back(node.close_block(results));
  node.open_block({});
  const Values otherwise = node.graph("else_branch", {});
  blocks.push_back(node.close_block(otherwise));
  if (results.size() != otherwise.size())
    node.malformed("has branches of {} and {} outputs", results.size(), otherwise.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (node.lists(results[i]) != node.lists(otherwise[i]))
      node.unsupported(
          "has branches of which one gives a tensor and one a sequence or optional as output {}",
          i);
    // An empty sequence has elements of any type.
    if (node.lists(results[i]) == 0 && results[i].dtype() != otherwise[i].dtype()) {
      node.malformed("has branches that give {} and {} as output {}",
                     ir::name_of(results[i].dtype()), ir::name_of(otherwise[i].dtype()), i);
    }
  }
  if (differ_in_rank(node, results, otherwise) &&
      node.read_apart({{wanted, "takes its then_branch", "takes its else_branch"}}, blocks))
    return;
  give_outputs(node, node.emit_branch(wanted, std::move(blocks)));
}

void import_loop(Node& node) {
  const Value trips = node.has_operand(0) ? rank_0(node.index_operand(0)) : no_value;
  const Value wanted = node.has_operand(1) ? condition(node, node.operand(1)) : no_value;
  Values carried;
  for (std::size_t k = 2; k < node.operand_count(); ++k) carried.push_back(node.operand(k));
  Node::Loop loop(node, trips, wanted, carried);
  // A body may declare the round and the condition as vectors of one element.
  Values arguments = loop.parameters();
  for (const std::size_t i : {0, 1})
    if (node.graph_input_rank("body", i) == 1) arguments[i] = with_axes(arguments[i], {0});
  Values yielded = node.graph("body", arguments);
  if (yielded.size() < carried.size() + 1) {
    node.malformed("has a body of {} outputs, expected at least {}", yielded.size(),
                   carried.size() + 1);
  }
  yielded[0] = condition(node, yielded[0]);
  give_outputs(node, loop.close(yielded));
}

void import_scan(Node& node) {
  const std::int64_t scanned = node.integer("num_scan_inputs");
  const auto count = static_cast<std::int64_t>(node.operand_count());
  if (scanned < 1 || scanned > count) node.malformed("scans {} of its {} inputs", scanned, count);
  const Values operands = node.operands();
  const Values states(operands.begin(), operands.end() - scanned),
      inputs(operands.end() - scanned, operands.end());
  if (node.output_count() < states.size())
    node.malformed("has {} outputs, expected at least {}", node.output_count(), states.size());
  const std::size_t outputs = node.output_count() - states.size();
  ScanSides sides;
  sides.input_axes = per_side(node, "scan_input_axes", inputs.size());
  sides.output_axes = per_side(node, "scan_output_axes", outputs);
  sides.input_directions = per_side(node, "scan_input_directions", inputs.size());
  sides.output_directions = per_side(node, "scan_output_directions", outputs);
  give_outputs(node, scan(node, states, inputs, sides));
}

// Opset 8: everything has a batch axis first, each row of which is scanned by itself.
void import_batched_scan(Node& node) {
  if (node.has_operand(0))
    node.unsupported(
        "scans rows of different lengths (sequence_lens), which Anydim does not support in opset "
        "8");
  const std::int64_t scanned = node.integer("num_scan_inputs");
  const auto count = static_cast<std::int64_t>(node.operand_count()) - 1;
  if (scanned < 1 || scanned > count) node.malformed("scans {} of its {} inputs", scanned, count);
  Values all;
  for (std::int64_t k = 1; k <= count; ++k)
    all.push_back(node.operand(static_cast<std::size_t>(k)));
  const auto states = static_cast<std::size_t>(count - scanned);
  if (node.output_count() < states)
    node.malformed("has {} outputs, expected at least {}", node.output_count(), states);
  ScanSides sides;
  sides.input_axes.assign(static_cast<std::size_t>(scanned), 0);
  sides.input_directions = per_side(node, "directions", static_cast<std::size_t>(scanned));
  sides.output_axes.assign(node.output_count() - states, 0);
  sides.output_directions.assign(node.output_count() - states, 0);
  const Value batch = extent(all[0], 0);
  Node::Loop loop(node, batch, no_value, {});
  Values rows;
  for (const Value value : all) rows.push_back(gather(value, loop.round(), 0));
  const auto middle = rows.begin() + static_cast<std::ptrdiff_t>(states);
  Values yielded = scan(node, {rows.begin(), middle}, {middle, rows.end()}, sides);
  yielded.insert(yielded.begin(), loop.goes_on());
  give_outputs(node, loop.close(yielded));
}

}  // namespace anydim::frontends
