#include "frontends/onnx/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "frontends/onnx/function_builder.h"
#include "frontends/onnx/node.h"
#include "frontends/onnx/node_order.h"
#include "frontends/onnx/symbols.h"
#include "frontends/onnx/tensor.h"
#include "frontends/onnx/unsupported.h"
#include "frontends/sizes.h"
#include "ir/error.h"
#include "onnx_schema/onnx.pb.h"

namespace anydim::frontends {

namespace {

std::string node_name(const onnx::NodeProto& node, int index) {
  return node.name().empty() ? fmt::format("{} #{}", node.op_type(), index) : node.name();
}

std::unordered_set<std::string> names_in(const onnx::GraphProto& graph) {
  std::unordered_set<std::string> names;
  for (const auto& input : graph.input()) names.insert(input.name());
  for (const auto& tensor : graph.initializer()) names.insert(tensor.name());
  for (const auto& node : graph.node()) names.insert(node.output().begin(), node.output().end());
  return names;
}

class GraphImporter : public Subgraphs {
 public:
  GraphImporter(onnx::GraphProto& graph, const Opsets& opsets, ExternalData& external,
                const WeightsApart& weights)
      : graph_(graph), opsets_(opsets), external_(external), weights_(weights),
        builder_("main", names_in(graph)), symbols_(builder_.function().symbols) {}

  ir::Function run() {
    refuse_unsupported(graph_, opsets_);
    if (graph_.sparse_initializer_size() > 0) {
      throw Error(ErrorKind::Unsupported,
                  "the model has {} sparse initialiser(s); Anydim supports only dense ones",
                  graph_.sparse_initializer_size());
    }
    for (const auto& tensor : graph_.initializer()) initialised_.insert(tensor.name());
    for (const auto& input : graph_.input()) import_input(input);
    for (int i = 0; i < graph_.initializer_size(); ++i) {
      const auto apart = weights_.places.find(i);
      import_initialiser(*graph_.mutable_initializer(i),
                         apart == weights_.places.end() ? nullptr : &apart->second);
    }
    import_nodes(graph_, 0);
    import_outputs();
    for (const auto& value : graph_.value_info()) note_declared_type(value);
    for (const auto& output : graph_.output()) note_declared_type(output);
    return builder_.take();
  }

  // A graph in a node: initialisers and nodes of its own, names of its own, which may hide those
  // around it.
  std::vector<ir::ValueId> import(onnx::GraphProto& graph,
                                  const std::vector<ir::ValueId>& arguments,
                                  const std::string& name) override {
    if (graph.input_size() != static_cast<int>(arguments.size())) {
      throw Error(ErrorKind::Malformed, "{} takes {} input(s), expected {}", name,
                  graph.input_size(), arguments.size());
    }
    scopes_.emplace_back();
    ++inner_graphs_;
    for (int i = 0; i < graph.input_size(); ++i) {
      const std::string& input = graph.input(i).name();
      define(input, arguments[static_cast<std::size_t>(i)], name);
    }
    for (auto& tensor : *graph.mutable_initializer()) import_initialiser(tensor);
    import_nodes(graph, 0);
    std::vector<ir::ValueId> results;
    for (const auto& output : graph.output()) results.push_back(output_of(name, output.name()));
    scopes_.pop_back();
    --inner_graphs_;
    return results;
  }

  std::optional<std::size_t> declared_rank(ir::ValueId value) const override {
    return builder_.rank(value);
  }

  bool is_result(const std::string& output) const override {
    Names reads;
    for (const auto& node : graph_.node()) add_reads(node, reads);
    return inner_graphs_ == 0 && !reads.contains(output) &&
           std::ranges::find(graph_.output(), output, &onnx::ValueInfoProto::name) !=
               graph_.output().end();
  }

  void drop_ones(const std::string& output, ir::ValueId ones) override { ones_[output] = ones; }

  bool read_apart(std::vector<Choice> choices, std::vector<ir::Block>& branches) override {
    internal_check(branches.size() == std::size_t{1} << choices.size(), "every case has a branch");
    if (readings_apart_ + branches.size() > most_readings_apart + 1) return false;
    readings_apart_ += branches.size() - 1;
    apart_ = Apart{std::move(choices), std::move(branches)};
    return true;
  }

 private:
  // A node whose branches what follows is still to be read behind.
  struct Apart {
    std::vector<Choice> choices;
    std::vector<ir::Block> branches;
  };
  // What was read behind a branch, or why it could not be.
  struct Behind {
    ir::Block block;
    std::optional<Error> refused;
    std::vector<std::optional<ir::ValueId>> ones{};  // of each result, as drop_ones() takes it
  };
  static constexpr std::size_t most_readings_apart = 16;

  // Names of a graph in a node are its own: they may stand in other graphs too.
  bool inner() const { return scopes_.size() > 1; }

  const ir::ValueId* find_value(const std::string& name) const {
    for (std::size_t i = scopes_.size(); i-- > 0;)
      if (const auto found = scopes_[i].find(name); found != scopes_[i].end())
        return &found->second;
    return nullptr;
  }

  // The value that a graph in a node calls its output.
  ir::ValueId output_of(const std::string& graph, const std::string& output) const {
    if (const ir::ValueId* value = find_value(output)) return *value;
    throw Error(ErrorKind::Malformed, "{}: its output {} is a value that nothing defines", graph,
                quoted_name(output));
  }

  void define(const std::string& name, ir::ValueId value, const std::string& by) {
    if (scopes_.back().emplace(name, value).second) return;
    throw Error(ErrorKind::Malformed, "{} defines the value {}, which is defined before it already",
                by, quoted_name(name));
  }

  ir::TensorType input_type(const onnx::ValueInfoProto& input) {
    const std::string what = fmt::format("input {}", quoted_name(input.name()));
    if (!input.has_type()) throw Error(ErrorKind::Malformed, what + " has no type");
    if (!input.type().has_tensor_type()) {
      throw Error(
          ErrorKind::Unsupported,
          what + " is no tensor (a sequence, map or optional); Anydim supports only tensors");
    }
    const auto& declared = input.type().tensor_type();
    ir::TensorType type;
    type.dtype = element_type_numbered(declared.elem_type(), what).held();
    if (!declared.has_shape())
      throw Error(ErrorKind::Unsupported,
                  what + " has no rank; Anydim needs the rank of every input");
    for (const auto& dim : declared.shape().dim()) {
      // Some converters write -1 for a dim that they do not know, and ONNX Runtime takes it so.
      if (dim.has_dim_value() && dim.dim_value() >= 0) type.dims.emplace_back(dim.dim_value());
      else if (names_a_dim(dim.dim_param())) type.dims.push_back(symbols_.named(dim.dim_param()));
      else type.dims.push_back(symbols_.nameless(input.name(), type.dims.size()));
    }
    return type;
  }

  void import_input(const onnx::ValueInfoProto& input) {
    if (input.name().empty())
      throw Error(ErrorKind::Malformed, "the graph has an input without a name");
    if (initialised_.contains(input.name()))
      return;  // a default value, which Anydim takes as the value
    ir::TensorType type = input_type(input);
    const ir::DType dtype = type.dtype;
    const ir::ValueId value = builder_.add_named(input.name(), std::move(type), dtype);
    define(input.name(), value, "the graph's input");
    note_element_type(value, input.type().tensor_type().elem_type());
    builder_.function().body.parameters.push_back(value);
  }

  void note_element_type(ir::ValueId value, std::int64_t number) {
    const ElementType& type = element_type_numbered(number, "a value");
    if (type.narrow) builder_.set_element_type(value, type);
  }

  void import_initialiser(onnx::TensorProto& proto, const Extent* apart = nullptr) {
    const std::string name = proto.name();
    if (name.empty())
      throw Error(ErrorKind::Malformed, "the graph has an initialiser without a name");
    const std::string what = fmt::format("initialiser {}", quoted_name(name));
    ir::Tensor tensor = apart == nullptr ? take_tensor(proto, what, external_)
                                         : tensor_apart(proto, what, apart->length,
                                                        ModelFile::source(weights_.file, *apart));
    const ir::ValueId value = inner() ? builder_.add_intermediate(name, tensor.dtype())
                                      : builder_.add_named(name, {}, tensor.dtype());
    define(name, value, what);
    note_element_type(value, proto.data_type());
    ir::Binding binding;
    binding.op = ir::Op::constant;
    binding.results = {value};
    binding.attributes.emplace("value", std::move(tensor));
    binding.source = name;
    builder_.add_binding(std::move(binding));
  }

  std::vector<ir::ValueId> operands_of(const onnx::NodeProto& proto, const std::string& what) {
    std::vector<ir::ValueId> operands;
    for (const std::string& input : proto.input()) {
      if (input.empty()) {
        operands.push_back(ir::no_value);
        continue;
      }
      const ir::ValueId* found = find_value(input);
      if (found == nullptr) {
        throw Error(ErrorKind::Malformed,
                    "{} reads the value {}, which no input, initialiser or earlier node defines",
                    what, quoted_name(input));
      }
      operands.push_back(*found);
    }
    return operands;
  }

  void import_nodes(onnx::GraphProto& graph, int first) {
    for (int i = first; i < graph.node_size(); ++i)
      if (!import_node(graph, i)) return;
  }

  // False where what follows the node was read as well.
  bool import_node(onnx::GraphProto& graph, int index) {
    onnx::NodeProto& proto = *graph.mutable_node(index);
    const std::string name = node_name(proto, index);
    const auto [domain, opset] = opsets_.of_node(proto.domain());
    const Operator* row = find_operator(domain, proto.op_type(), opset);
    internal_check(row != nullptr, "unsupported operators were refused before");
    Node node(builder_, external_, *this, proto, name, opset,
              operands_of(proto, fmt::format("node {} ({})", quoted_name(name),
                                             printable(proto.op_type()))));
    check_form(node, proto, *row);
    const std::size_t first_new = builder_.function().values.size();
    const bool controls = std::ranges::any_of(
        proto.attribute(), [](const auto& attribute) { return attribute.has_g(); });
    row->import(node);
    node.check_attributes_used();
    if (apart_) {
      import_apart(node, graph, index, *std::exchange(apart_, std::nullopt));
      return false;
    }
    keep_narrow_type(node);
    for (std::size_t i = 0; i < node.output_count(); ++i) {
      if (!node.wants_output(i)) continue;
      const std::string& output = proto.output(static_cast<int>(i));
      ir::ValueId value = node.results()[i].id();
      internal_check(value != ir::no_value, "an importer gives every output that its row allows");
      if (controls && !inner()) value = with_declared_rank(node, output, value);
      define(output, value, node.description());
      if (value >= first_new && !inner() && renamed_.insert(value).second)
        builder_.rename(value, output);
    }
    return true;
  }

  // What follows a node, behind each of its branches. Where it cannot be computed behind one, with
  // values of the rank that this gives, no call may take it: exporters write a branch for every
  // rank that a value could have had.
  void import_apart(Node& node, const onnx::GraphProto& graph, int index, Apart apart) {
    std::vector<std::string> ends;  // the graph's outputs that are not there yet
    for (const auto& output : graph.output())
      if (find_value(output.name()) == nullptr) ends.push_back(output.name());
    const std::size_t first_new = builder_.function().values.size();
    std::vector<Behind> cases;
    for (ir::Block& branch : apart.branches)
      cases.push_back(read_behind(std::move(branch), graph, index, ends));
    const std::vector<std::size_t> levelled =
        inner_graphs_ == 0 ? level_ranks(node, cases, ends) : std::vector<std::size_t>{};
    for (; apart.choices.size() > 1; apart.choices.pop_back()) {
      std::vector<Behind> joined;
      for (std::size_t i = 0; i < cases.size(); i += 2) {
        builder_.open_block({});
        std::optional<Error> refused;
        std::vector<ir::ValueId> results =
            join(node, apart.choices.back(), cases[i], cases[i + 1], refused);
        joined.push_back({builder_.close_block(std::move(results)), std::move(refused)});
      }
      cases = std::move(joined);
    }
    std::optional<Error> refused;
    const std::vector<ir::ValueId> results =
        join(node, apart.choices[0], cases[0], cases[1], refused);
    if (refused) throw Error(*refused);
    for (std::size_t i = 0; i < ends.size(); ++i) {
      define(ends[i], results[i], node.description());
      if (results[i] >= first_new && !inner() && renamed_.insert(results[i]).second)
        builder_.rename(results[i], ends[i]);
    }
    for (std::size_t i = 0; i < levelled.size(); ++i)
      drop_ones(ends[levelled[i]], results[ends.size() + i]);
  }

  Behind read_behind(ir::Block branch, const onnx::GraphProto& graph, int index,
                     const std::vector<std::string>& ends) {
    const FunctionBuilder::Mark mark = builder_.mark();
    const std::size_t depth = scopes_.size(), inner_graphs = inner_graphs_;
    const bool strict = builder_.set_strict(true);
    Behind behind;
    try {
      behind.block = import_behind(std::move(branch), graph, index, ends);
      for (const std::string& end : ends) {
        const auto found = ones_.find(end);
        behind.ones.push_back(found == ones_.end() ? std::nullopt : std::optional(found->second));
      }
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::Internal) throw;
      behind.refused = error;
      builder_.back_to(mark);
      scopes_.resize(depth);
      inner_graphs_ = inner_graphs;
      apart_.reset();
    }
    for (const std::string& end : ends) ones_.erase(end);
    builder_.set_strict(strict);
    return behind;
  }

  // The values behind both branches, of what was read where the condition holds and where it does
  // not.
  // `refused` is set, and there are no values, where neither case can be computed.
  std::vector<ir::ValueId> join(Node& node, const Choice& choice, Behind& then, Behind& otherwise,
                                std::optional<Error>& refused) {
    if (then.refused && otherwise.refused) {
      refused = then.refused;
      return {};
    }
    if (then.refused || otherwise.refused) {
      const Value holds = then.refused ? !choice.condition : choice.condition;
      node.emit_many(
          ir::Op::assertion, {holds},
          {{"message",
            fmt::format("{} {}, behind which the model cannot be "
                        "computed: {}",
                        node.description(), then.refused ? choice.where_it_holds : choice.elsewhere,
                        (then.refused ? then : otherwise).refused->what())}},
          0);
      ir::Block& kept = then.refused ? otherwise.block : then.block;
      std::vector<ir::ValueId> results = kept.results;
      builder_.add_all(std::move(kept));
      return results;
    }
    std::vector<ir::Block> blocks;
    blocks.push_back(std::move(then.block));
    blocks.push_back(std::move(otherwise.block));
    return ids_of(node.emit_branch(choice.condition, std::move(blocks)));
  }

  // Where an output of the model has another rank in one case than in another, all cases give it as
  // many dims, the first ones 1, and a further result that says which of them the output does not
  // have. The positions of these outputs in `ends`.
  std::vector<std::size_t> level_ranks(Node& node, std::vector<Behind>& cases,
                                       const std::vector<std::string>& ends) {
    std::vector<std::size_t> levelled;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      std::set<std::size_t> ranks;
      bool drops = false;
      for (const Behind& behind : cases) {
        if (behind.refused) continue;
        if (const auto rank = builder_.rank(behind.block.results[i])) ranks.insert(*rank);
        drops = drops || behind.ones[i];
      }
      if (ranks.size() < 2 && !drops) continue;
      levelled.push_back(i);
      for (Behind& behind : cases) {
        if (behind.refused) continue;
        if (builder_.rank(behind.block.results[i])) level_rank(node, behind, i, *ranks.rbegin());
        else
          behind.refused =
              Error(ErrorKind::Unsupported, "the rank of the output {} is not known then",
                    quoted_name(ends[i]));
      }
    }
    return levelled;
  }

  void level_rank(Node& node, Behind& behind, std::size_t result, std::size_t wanted) {
    std::vector<ir::ValueId> results = behind.block.results;
    builder_.reopen(std::move(behind.block));
    const std::size_t rank = *builder_.rank(results[result]);
    const Value all(node, results[result]);
    Value ones;
    if (!behind.ones[result]) ones = node.index_vector(Ints(rank, 0));
    else if (*behind.ones[result] == ir::no_value) ones = shape_of(all);
    else ones = Value(node, *behind.ones[result]);
    if (rank < wanted) {
      Ints first(wanted - rank);
      std::iota(first.begin(), first.end(), std::int64_t{0});
      ones = concat({node.index_vector(Ints(first.size(), 1)), ones}, 0);
      results[result] = with_axes(all, std::move(first)).id();
    }
    results.push_back(ones.id());
    behind.block = builder_.close_block(std::move(results));
  }

  // The block with what follows the node; its results are the values called `ends`.
  ir::Block import_behind(ir::Block branch, const onnx::GraphProto& graph, int index,
                          const std::vector<std::string>& ends) {
    onnx::GraphProto copy = graph;  // reading takes tensors out
    const onnx::NodeProto& proto = graph.node(index);
    const std::vector<ir::ValueId> given = branch.results;
    builder_.reopen(std::move(branch));
    scopes_.emplace_back();
    for (std::size_t i = 0; i < given.size() && static_cast<int>(i) < proto.output_size(); ++i)
      if (const std::string& name = proto.output(static_cast<int>(i)); !name.empty())
        define(name, given[i], "a branch");
    import_nodes(copy, index + 1);
    std::vector<ir::ValueId> results;
    for (const std::string& end : ends) results.push_back(output_of(graph.name(), end));
    scopes_.pop_back();
    return builder_.close_block(std::move(results));
  }

  // No operator computes with integers of fewer than 8 bits: one that takes some first and gives
  // what they are held in has moved them.
  void keep_narrow_type(Node& node) {
    if (node.operand_count() == 0 || !node.has_operand(0)) return;
    const ElementType& type = node.element_type_of(node.operand(0));
    if (!type.narrow || type.narrow->real) return;
    for (const Value value : node.results()) {
      if (value == no_value || value.dtype() != type.held()) continue;
      if (builder_.element_type(value.id()) == nullptr) node.set_element_type(value, type);
    }
  }

  // What control flow gives has no rank yet that importers could ask for. The one that the model
  // declares is held to by a transpose, which moves nothing.
  ir::ValueId with_declared_rank(Node& node, const std::string& output, ir::ValueId value) {
    if (builder_.type(value) != nullptr || builder_.lists(value) > 0) return value;
    const auto& all = graph_.value_info();
    const auto declared = std::ranges::find(all, output, &onnx::ValueInfoProto::name);
    if (declared == all.end() || !declared->type().has_tensor_type() ||
        !declared->type().tensor_type().has_shape())
      return value;
    std::vector<std::int64_t> axes(
        static_cast<std::size_t>(declared->type().tensor_type().shape().dim_size()));
    std::iota(axes.begin(), axes.end(), std::int64_t{0});
    value = transpose(Value(node, value), axes).id();
    builder_.know(value, std::vector<std::optional<ir::Dim>>(axes.size()));
    return value;
  }

  static void check_form(const Node& node, const onnx::NodeProto& proto, const Operator& row) {
    const int inputs = proto.input_size();
    if (inputs < row.minimum_inputs || (row.maximum_inputs >= 0 && inputs > row.maximum_inputs)) {
      node.malformed("has {} input(s), expected {}", inputs,
                     count_text(row.minimum_inputs, row.maximum_inputs));
    }
    const int outputs = proto.output_size();
    if (outputs < 1 || (row.maximum_outputs >= 0 && outputs > row.maximum_outputs)) {
      node.malformed("has {} output(s), expected {}", outputs, count_text(1, row.maximum_outputs));
    }
    if (row.minimum_inputs > 0 && node.lists(node.operand(0)) > 0 &&
        row.elements != Elements::Lists) {
      node.malformed("takes a tensor as input 0, got a sequence or an optional");
    }
    if (row.minimum_inputs > 0 && !contains(row.elements, node.dtype())) {
      node.malformed("takes {} as input 0, got {}", name_of(row.elements),
                     ir::name_of(node.dtype()));
    }
  }

  static std::string count_text(int least, int most) {
    if (most < 0) return fmt::format("{} or more", least);
    return least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
  }

  void import_outputs() {
    if (graph_.output_size() == 0) throw Error(ErrorKind::Malformed, "the graph has no outputs");
    std::set<std::string> seen;
    ir::Function& function = builder_.function();
    for (const auto& output : graph_.output()) {
      const ir::ValueId* found = find_value(output.name());
      if (found == nullptr) {
        throw Error(ErrorKind::Malformed, "the graph's output {} is a value that nothing defines",
                    quoted_name(output.name()));
      }
      // Names tell outputs apart: listed again, it is the same one.
      if (!seen.insert(output.name()).second) continue;
      if (builder_.lists(*found) > 0) {
        throw Error(
            ErrorKind::Unsupported,
            "the graph's output {} is a sequence or an optional; outputs of a program are tensors",
            quoted_name(output.name()));
      }
      check_output_type(output, *found);
      function.body.results.push_back(result(output.name(), *found));
      function.result_names.push_back(output.name());
    }
  }

  // What the caller gets of an output.
  ir::ValueId result(const std::string& output, ir::ValueId value) {
    const auto found = ones_.find(output);
    if (found == ones_.end()) return value;
    ir::Binding drop{.op = ir::Op::drop_ones, .operands = {value}};
    if (found->second != ir::no_value) drop.operands.push_back(found->second);
    const ir::ValueId made = builder_.add_intermediate(output, builder_.dtype(value));
    drop.results = {made};
    builder_.add_binding(std::move(drop));
    return made;
  }

  // Exporters and tools leave types behind that stopped being true: they are hints, which inference
  // warns of where they are wrong.
  void note_declared_type(const onnx::ValueInfoProto& declared) {
    const ir::ValueId* found = find_value(declared.name());
    if (found == nullptr || !declared.type().has_tensor_type() || builder_.lists(*found) > 0 ||
        ones_.contains(declared.name()))
      return;
    ir::Value& value = builder_.function().values[*found];
    const auto& proto = declared.type().tensor_type();
    if (value.type.kind != ir::Type::Kind::Unknown || !proto.has_shape()) return;
    ir::TensorType type{builder_.dtype(*found), {}};
    for (const auto& dim : proto.shape().dim()) {
      if (dim.has_dim_value() && dim.dim_value() >= 0) type.dims.emplace_back(dim.dim_value());
      else type.dims.push_back(symbols_.known(dim.dim_param()).value_or(ir::any_extent()));
    }
    value.type = std::move(type);
    value.declared = ir::Value::Declared::Hint;
  }

  void check_output_type(const onnx::ValueInfoProto& output, ir::ValueId value) {
    const ElementType* type = builder_.element_type(value);
    if (type != nullptr && type->narrow) {
      throw Error(ErrorKind::Unsupported,
                  "the graph's output {} has the element type {}, in which Anydim gives no "
                  "results; cast it in the model",
                  quoted_name(output.name()), type->name);
    }
    if (!output.type().has_tensor_type() || output.type().tensor_type().elem_type() == 0) return;
    const ir::DType declared = dtype_numbered(output.type().tensor_type().elem_type(),
                                              fmt::format("output {}", quoted_name(output.name())));
    if (declared == builder_.dtype(value)) return;
    throw Error(
        ErrorKind::Malformed, "the graph declares its output {} as {}, but it is computed as {}",
        quoted_name(output.name()), ir::name_of(declared), ir::name_of(builder_.dtype(value)));
  }

  onnx::GraphProto& graph_;
  const Opsets& opsets_;
  ExternalData& external_;
  const WeightsApart& weights_;
  FunctionBuilder builder_;
  SymbolNames symbols_;
  std::unordered_set<std::string> initialised_;
  std::vector<std::unordered_map<std::string, ir::ValueId>> scopes_{
      1};  // the model's names, of inner graphs last
  std::unordered_set<ir::ValueId> renamed_;
  std::optional<Apart> apart_;
  // by output of the model: which of the dims of 1 of its value it does not have, as drop_ones()
  // takes it
  std::unordered_map<std::string, ir::ValueId> ones_;
  std::size_t readings_apart_ = 0;
  std::size_t inner_graphs_ = 0;  // in attributes of nodes, that are being read
};

}  // namespace

ir::Function import_graph(onnx::GraphProto& graph, const Opsets& opsets, ExternalData& external,
                          const WeightsApart& weights) {
  return GraphImporter(graph, opsets, external, weights).run();
}

}  // namespace anydim::frontends
