#include "frontends/onnx/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "frontends/sizes.h"
#include "ir/error.h"
#include "ir/shapes/shape_rule.h"
#include "onnx_schema/onnx.pb.h"

namespace anydim::frontends {

namespace {

// One node may make many values and bindings, which repeat these: a long name must not be
// multiplied by their number.
constexpr std::size_t longest_stem = 128;
constexpr std::size_t longest_source = 256;

}  // namespace

Node::Node(FunctionBuilder& builder, ExternalData& external, Subgraphs& subgraphs,
           onnx::NodeProto& proto, std::string name, int opset,
           const std::vector<ir::ValueId>& operands)
    : builder_(builder), external_(external), subgraphs_(subgraphs), proto_(proto),
      name_(std::move(name)), opset_(opset), operands_(of(operands)),
      results_(static_cast<std::size_t>(proto.output_size())) {}

Values Node::of(const std::vector<ir::ValueId>& ids) {
  Values values;
  for (const ir::ValueId id : ids)
    values.push_back(id == ir::no_value ? no_value : Value(*this, id));
  return values;
}

std::string Node::description() const {
  return fmt::format("node {} ({})", quoted_name(name_), printable(proto_.op_type()));
}

void Node::refuse(ErrorKind kind, std::string_view reason) const {
  throw Error(kind, "{} {}", description(), reason);
}

bool Node::has_operand(std::size_t index) const { return optional_operand(index) != no_value; }

Value Node::optional_operand(std::size_t index) const {
  return index < operands_.size() ? operands_[index] : no_value;
}

Value Node::operand(std::size_t index) const {
  const Value value = optional_operand(index);
  if (value == no_value) malformed("leaves out input {}, which it needs", index);
  return value;
}

Value Node::index_operand(std::size_t index) {
  const Value value = operand(index);
  if (!ir::is_integer(value.dtype())) {
    malformed("takes integers as input {}, got {}", index, ir::name_of(value.dtype()));
  }
  return cast(value, ir::DType::I64);
}

Value Node::optional_index_operand(std::size_t index) {
  return has_operand(index) ? index_operand(index) : no_value;
}

Values Node::operands() const {
  Values all;
  for (std::size_t i = 0; i < operands_.size(); ++i) all.push_back(operand(i));
  return all;
}

std::optional<ir::Tensor> Node::constant_operand(std::size_t index) const {
  const Value value = optional_operand(index);
  const ir::Tensor* tensor = value == no_value ? nullptr : builder_.constant(value.id());
  return tensor == nullptr ? std::nullopt : std::optional(*tensor);
}

ir::DType Value::dtype() const { return node_->builder_.dtype(id_); }

std::size_t Value::rank() const {
  if (const std::optional<std::size_t> known = node_->builder_.rank(id_)) return *known;
  node_->unsupported("has an input of a rank that isn't known before it runs");
}

std::optional<std::int64_t> Value::length() const {
  const ir::TensorType* type = node_->builder_.type(id_);
  return type == nullptr || type->rank() != 1 ? std::nullopt : extent(-1);
}

Value Node::of_length(Value vector, std::int64_t length) {
  const auto* const known = dims(vector);
  const bool is_vector = known == nullptr || known->size() == 1;  // what is none is refused later
  if (!is_vector || vector.length()) return vector;
  return reshaped(vector, {index_vector({length})});
}

const ir::Dim* Node::dim(Value value, std::int64_t axis) const {
  const ir::TensorType* type = builder_.type(value.id());
  if (type == nullptr) return nullptr;
  if (axis < 0) axis += static_cast<std::int64_t>(type->rank());
  const auto at = static_cast<std::size_t>(axis);
  return axis < 0 || at >= type->rank() ? nullptr : &type->dims[at];
}

std::optional<std::int64_t> Value::extent(std::int64_t axis) const {
  const ir::Dim* found = node_->dim(*this, axis);
  return found == nullptr ? std::nullopt : found->constant();
}

void Node::hold_extent(Value value, std::int64_t axis, std::int64_t extent, std::string_view name) {
  const ir::Dim* found = dim(value, axis);
  if (found == nullptr) return;
  if (const auto known = found->constant(); known && *known != extent)
    malformed("takes {} with dimension {} of {}, got {}", name, axis, extent, *known);
  if (found->is_constant() || !of_inputs(*found)) return;
  ir::Binding check = ir::check_of(
      {ir::Relation::Equal, *found, extent, fmt::format("dimension {} of {}", axis, name), {}},
      description());
  check.source = name_.substr(0, longest_source);
  builder_.add_binding(std::move(check));
  const std::vector<ir::Dim>& before = *dims(value);
  std::vector<std::optional<ir::Dim>> after(before.begin(), before.end());
  after[static_cast<std::size_t>(axis)] = extent;
  builder_.know(value.id(), after);
}

bool Node::same_extent(Value a, std::int64_t a_axis, Value b, std::int64_t b_axis) const {
  const ir::Dim *first = dim(a, a_axis), *second = dim(b, b_axis);
  return first != nullptr && second != nullptr && *first == *second;
}

const std::vector<ir::Dim>* Node::dims(Value value) const {
  const ir::TensorType* type = builder_.type(value.id());
  return type == nullptr ? nullptr : &type->dims;
}

std::size_t Node::axis(std::int64_t axis, std::size_t rank) const {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank)
    malformed("has axis = {}, out of range for rank {}", axis, rank);
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

void Node::check_rank(std::size_t index, std::size_t rank) const {
  if (const std::size_t given = operand(index).rank(); given != rank)
    malformed("takes rank {} as input {}, got {}", rank, index, given);
}

void Node::check_same_dtypes() const {
  for (const Value value : operands_) {
    if (value == no_value || value.dtype() == dtype()) continue;
    malformed("takes inputs of one element type, got {} and {}", ir::name_of(dtype()),
              ir::name_of(value.dtype()));
  }
}

void Node::check_same_shape(std::size_t operand, std::string_view name, Value like,
                            std::string_view wanted) const {
  const Value value = this->operand(operand);
  const auto text = [&](Value of) {
    std::vector<std::string> shown;
    for (std::size_t i = 0; i < of.rank(); ++i) {
      const auto known = of.extent(static_cast<std::int64_t>(i));
      shown.push_back(known ? std::to_string(*known) : "?");
    }
    return fmt::format("({})", fmt::join(shown, ", "));
  };
  bool same = value.rank() == like.rank();
  for (std::size_t i = 0; same && i < like.rank(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const auto got = value.extent(at), expected = like.extent(at);
    same = !got || !expected || *got == *expected;
  }
  if (!same)
    malformed("takes an input {} ({}) of the shape {} of {}, got {}", operand, name, text(like),
              wanted, text(value));
}

std::string Node::stem() const {
  for (const std::string& output : proto_.output()) {
    if (!output.empty()) return output.substr(0, longest_stem);
  }
  return name_.substr(0, longest_stem);
}

Value Node::emit(ir::Op op, Values operands, ir::Attributes attributes) {
  return emit_many(op, std::move(operands), std::move(attributes), 1).front();
}

Values Node::emit_many(ir::Op op, Values operands, ir::Attributes attributes, std::size_t results) {
  while (!operands.empty() && operands.back() == no_value) operands.pop_back();
  ir::Binding binding;
  binding.op = op;
  binding.operands = ids_of(operands);
  binding.attributes = std::move(attributes);
  binding.source = name_.substr(0, longest_source);
  for (std::size_t i = 0; i < results; ++i) {
    binding.results.push_back(
        builder_.add_intermediate(stem(), result_dtype(binding, builder_, i)));
  }
  Values values = of(binding.results);
  builder_.add_binding(std::move(binding));
  return values;
}

Value Node::constant(ir::Tensor value) {
  return emit(ir::Op::constant, {}, {{"value", std::move(value)}});
}

Value Node::scalar(ir::DType dtype, double value) {
  ir::Tensor tensor(dtype, {});
  if (ir::is_float(dtype)) tensor.set_real(0, value);
  else tensor.set_integer(0, static_cast<std::int64_t>(value));
  return constant(std::move(tensor));
}

Value Node::index_vector(Ints elements) {
  const auto count = static_cast<std::int64_t>(elements.size());
  return constant(ir::Tensor::of(ir::DType::I64, {count}, elements));
}

// ---- Control flow ----

Value Node::unknown(ir::DType dtype, int lists) {
  const Value value = of(builder_.add_intermediate(stem(), dtype));
  if (lists > 0) builder_.set_lists(value.id(), lists);
  return value;
}

void Node::open_block(const Values& parameters) { builder_.open_block(ids_of(parameters)); }

ir::Block Node::close_block(const Values& results) { return builder_.close_block(ids_of(results)); }

Value Node::emit_list(ir::Op op, Values operands, int lists, ir::DType dtype,
                      ir::Attributes attributes) {
  while (!operands.empty() && operands.back() == no_value) operands.pop_back();
  ir::Binding binding{.op = op, .operands = ids_of(operands), .attributes = std::move(attributes)};
  binding.source = name_.substr(0, longest_source);
  const Value value = unknown(dtype, lists);
  binding.results = {value.id()};
  std::optional<std::size_t> rank;  // of the tensors, of which a first one's is all others'
  const std::size_t tensors =
      std::min<std::size_t>(binding.operands.size(), op == ir::Op::list_insert ? 2 : 1);
  for (std::size_t i = 0; i < tensors && !rank; ++i) rank = rank_within(operands[i]);
  const auto new_axis = binding.attributes.find("new_axis");
  if (rank && new_axis != binding.attributes.end() && std::get<std::int64_t>(new_axis->second) != 0)
    ++*rank;
  builder_.add_binding(std::move(binding));
  if (rank && lists > 0) builder_.set_element_rank(value.id(), *rank);
  else if (rank) know(value, std::vector<std::optional<ir::Dim>>(*rank));
  return value;
}

Values Node::emit_blocks(ir::Op op, Values operands, std::vector<ir::Block> blocks,
                         const Values& like) {
  ir::Binding binding{.op = op, .operands = ids_of(operands), .blocks = std::move(blocks)};
  binding.source = name_.substr(0, longest_source);
  for (const Value value : like)
    binding.results.push_back(unknown(value.dtype(), lists(value)).id());
  Values results = of(binding.results);
  builder_.add_binding(std::move(binding));
  return results;
}

Values Node::emit_branch(Value condition, std::vector<ir::Block> branches) {
  const Values results = of(branches[0].results), others = of(branches[1].results);
  Values joined = emit_blocks(ir::Op::branch, {condition}, std::move(branches), results);
  for (std::size_t i = 0; i < joined.size(); ++i) {
    const auto *one = dims(results[i]), *other = dims(others[i]);
    if (one == nullptr || other == nullptr || one->size() != other->size()) continue;
    std::vector<std::optional<ir::Dim>> known(one->size());
    for (std::size_t axis = 0; axis < known.size(); ++axis)
      if ((*one)[axis].is_constant() && (*one)[axis] == (*other)[axis]) known[axis] = (*one)[axis];
    know(joined[i], known);
  }
  return joined;
}

std::optional<std::size_t> Node::rank_within(Value value) const {
  return builder_.lists(value.id()) > 0 ? builder_.element_rank(value.id())
                                        : builder_.rank(value.id());
}

void Node::know_rank(Value value, Value like, std::size_t more) {
  const std::optional<std::size_t> rank = rank_within(like);
  if (!rank) return;
  if (builder_.lists(value.id()) > 0) builder_.set_element_rank(value.id(), *rank);
  else know(value, std::vector<std::optional<ir::Dim>>(*rank + more));
}

Node::Loop::Loop(Node& node, Value trips, Value condition, const Values& carried)
    : node_(node), operands_{trips, condition},
      parameters_{node.unknown(ir::DType::I64), node.unknown(ir::DType::Bool)} {
  for (const Value scalar : parameters_) node.know(scalar, {});
  for (const Value value : carried) {
    operands_.push_back(value);
    parameters_.push_back(node.unknown(value.dtype(), node.lists(value)));
    node.know_rank(parameters_.back(), value);
  }
  node.open_block(parameters_);
  node.builder_.rounds().push_back(round().id());
}

Node::Loop::~Loop() { node_.builder_.rounds().pop_back(); }

Value Node::Loop::round_from_end() { return operands_[0] - round() - 1; }

Values Node::Loop::close(Values next) {
  const Values like(next.begin() + 1, next.end());
  std::vector<ir::Block> body;
  body.push_back(node_.close_block(next));
  const Values results = node_.emit_blocks(ir::Op::loop, operands_, std::move(body), like);
  const std::size_t carried = operands_.size() - 2;
  for (std::size_t i = 0; i < results.size(); ++i) {
    node_.know_rank(results[i], like[i], i < carried ? 0 : 1);
    if (i < carried) node_.know_rank(results[i], operands_[i + 2]);
  }
  return results;
}

std::optional<std::size_t> Node::declared_rank(Value value) const {
  if (const ir::Tensor* tensor = builder_.constant(value.id())) return tensor->rank();
  return subgraphs_.declared_rank(value.id());
}

std::size_t Node::output_count() const { return results_.size(); }

bool Node::wants_output(std::size_t index) const {
  return index < results_.size() && !proto_.output(static_cast<int>(index)).empty();
}

void Node::output(std::size_t index, Value value) {
  if (wants_output(index)) results_[index] = value;
}

bool Node::is_result(std::size_t index) const {
  return subgraphs_.is_result(proto_.output(static_cast<int>(index)));
}

void Node::drop_ones(std::size_t index) {
  subgraphs_.drop_ones(proto_.output(static_cast<int>(index)), ir::no_value);
}

}  // namespace anydim::frontends
