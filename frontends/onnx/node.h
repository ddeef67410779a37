// One node of the model while it is imported: its operands and attributes, checked, and the
// bindings it becomes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/external_data.h"
#include "frontends/onnx/function_builder.h"
#include "frontends/onnx/value.h"
#include "ir/module.h"
#include "ir/refusing.h"

namespace onnx {
class AttributeProto;
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace anydim::frontends {

// Importers name these all the time.
using ir::DType;
using ir::Op;

// What only the run decides of a node, in words that follow the node's description.
struct Choice {
  Value condition;
  std::string where_it_holds, elsewhere;
};

// Reads a graph that stands in a node's attribute into the innermost open block; what it does not
// define itself comes from the graphs around it.
class Subgraphs {
 public:
  virtual ~Subgraphs() = default;
  // `arguments` stand for the graph's inputs. The values of its outputs.
  virtual std::vector<ir::ValueId> import(onnx::GraphProto& graph,
                                          const std::vector<ir::ValueId>& arguments,
                                          const std::string& name) = 0;
  // Whether a node's output is one of the model and nothing else reads it.
  virtual bool is_result(const std::string& output) const = 0;
  // That this output, of the model, is to have only those dims whose element of `ones`, an i64
  // vector, is not 1; ir::no_value: those that are not 1.
  virtual void drop_ones(const std::string& output, ir::ValueId ones) = 0;
  // As far as it is known.
  virtual std::optional<std::size_t> declared_rank(ir::ValueId value) const = 0;
  // For a node whose outputs have a rank that only the run decides: has what follows the node read
  // once behind each branch, in place of the node's outputs. There are two branches for one choice,
  // the first where its condition holds, and twice as many for each further one, of which the last
  // tells neighbours apart. False, and nothing is done, where that was asked for too often.
  virtual bool read_apart(std::vector<Choice> choices, std::vector<ir::Block>& branches) = 0;
};

class Node final : public Refusing {
 public:
  // `name` is the node's, or what stands for it; `operands` has `no_value` where an optional input
  // is left out.
  Node(FunctionBuilder& builder, ExternalData& external, Subgraphs& subgraphs,
       onnx::NodeProto& proto, std::string name, int opset,
       const std::vector<ir::ValueId>& operands);

  int opset() const { return opset_; }  // of the operator's domain
  std::string description() const;      // "node 'x' (Op)"; malformed() and unsupported() begin so

  // Operands
  std::size_t operand_count() const { return operands_.size(); }
  bool has_operand(std::size_t index) const;
  Value operand(std::size_t index) const;           // Malformed where it is left out
  Value optional_operand(std::size_t index) const;  // no_value where it is left out
  Value index_operand(std::size_t index);           // an integer tensor, as i64
  Value optional_index_operand(std::size_t index);
  Values operands() const;  // all; Malformed where one is left out
  ir::DType dtype() const { return operand(0).dtype(); }
  // As FunctionBuilder has it, else that of the dtype.
  const ElementType& element_type_of(Value value) const {
    const ElementType* set = builder_.element_type(value.id());
    return set != nullptr ? *set : frontends::element_type_of(value.dtype());
  }
  void set_element_type(Value value, const ElementType& type) {
    builder_.set_element_type(value.id(), type);
  }
  // where it is an initialiser or a Constant
  std::optional<ir::Tensor> constant_operand(std::size_t index) const;
  std::optional<std::int64_t> known_element(Value value) const {
    return builder_.known_element(value.id());
  }  // as FunctionBuilder has it
  std::optional<std::int64_t> every_element(Value value) const {
    return builder_.every_element(value.id());
  }  // as FunctionBuilder has it
  // A vector as it is where its length is known; else as one of `length`, which the call checks.
  Value of_length(Value vector, std::int64_t length);
  bool same_extent(Value a, std::int64_t a_axis, Value b,
                   std::int64_t b_axis) const;  // where that is known
  std::size_t axis(std::int64_t axis,
                   std::size_t rank) const;  // from the front; Malformed out of range
  void check_rank(std::size_t operand, std::size_t rank) const;  // Malformed where it is another
  void check_same_dtypes() const;  // of all operands; Malformed where they differ
  // Malformed where the dim, of what the node's text calls `name`, is known to be another number.
  // Where a call's inputs tell it, the call checks it, and it is that number from here on.
  void hold_extent(Value value, std::int64_t axis, std::int64_t extent, std::string_view name);
  // Malformed where the operand's rank or a dim is known to differ from that of `like`. `name` is
  // the operand's, `wanted` says whose shape it is.
  void check_same_shape(std::size_t operand, std::string_view name, Value like,
                        std::string_view wanted) const;
  const std::vector<ir::Dim>* dims(Value value) const;  // nullptr where they aren't known
  bool of_inputs(const ir::Dim& dim) const { return builder_.of_inputs(dim); }
  ir::Proof proof_of_one(const ir::Dim& dim) const {
    return ir::prove_equal(dim, 1, builder_.function().symbols);
  }

  // Attributes. Malformed where one has another kind, or is missing and has no default. Each may be
  // asked for more than once; one that nobody asks for is refused at the end, as its meaning would
  // be lost.
  bool has_attribute(std::string_view name) const;
  int attribute_count() const;
  std::int64_t integer(std::string_view name, std::int64_t fallback);
  std::int64_t integer(std::string_view name);
  bool flag(std::string_view name, bool fallback);  // an integer that must be 0 or 1
  double real(std::string_view name, double fallback);
  double real(std::string_view name);
  std::string string(std::string_view name, std::string_view fallback);
  // Malformed where it is another one.
  std::string one_of(std::span<const std::string_view> words, std::string_view name,
                     std::string_view fallback);
  std::string one_of(std::initializer_list<std::string_view> words, std::string_view name,
                     std::string_view fallback) {
    return one_of(std::span(words.begin(), words.size()), name, fallback);
  }
  Ints integers(std::string_view name);
  std::optional<Ints> optional_integers(std::string_view name);
  std::vector<double> reals(std::string_view name);
  std::vector<std::string> strings(std::string_view name);  // empty where it is missing
  ir::Tensor tensor(std::string_view name);                 // moves the data out: once
  const ElementType& tensor_type(std::string_view name);    // of such a tensor
  // An element type by ONNX's number; nothing where it is missing.
  std::optional<ir::DType> element_type(std::string_view name);
  const ElementType* any_element_type(std::string_view name);  // null where it is missing
  void ignore_attribute(std::string_view name);                // one that has no meaning here
  void check_attributes_used() const;

  // Bindings
  Value emit(ir::Op op, Values operands, ir::Attributes attributes = {});
  Values emit_many(ir::Op op, Values operands, ir::Attributes attributes, std::size_t results);
  Value constant(ir::Tensor value);
  Value scalar(ir::DType dtype, double value);  // rank 0
  Value index_vector(Ints elements);            // rank 1, i64

  // Control flow. A block is open from open_block() to close_block(); bindings that are emitted
  // meanwhile are its own.
  void open_block(const Values& parameters);
  ir::Block close_block(const Values& results);
  bool read_apart(std::vector<Choice> choices, std::vector<ir::Block>& branches) {
    return subgraphs_.read_apart(std::move(choices), branches);
  }
  Values graph(std::string_view name,
               const Values& arguments);  // the attribute's, into the open block
  int graph_inputs(std::string_view name);
  // As the graph declares it; nothing where it does not, or has fewer inputs.
  std::optional<std::size_t> graph_input_rank(std::string_view name, std::size_t index);
  int lists(Value value) const { return builder_.lists(value.id()); }
  // A value of the op in list form: `lists` as FunctionBuilder has it, elements of `dtype`.
  Value emit_list(ir::Op op, Values operands, int lists, ir::DType dtype,
                  ir::Attributes attributes = {});
  // Results have the element types and lists of `like`.
  Values emit_blocks(ir::Op op, Values operands, std::vector<ir::Block> blocks, const Values& like);
  // What two branches give, the first where the condition holds: known to have their rank where it
  // is one, and the dims that are the same number.
  Values emit_branch(Value condition, std::vector<ir::Block> branches);
  void know(Value value, const std::vector<std::optional<ir::Dim>>& dims) {
    builder_.know(value.id(), dims);
  }  // as FunctionBuilder has it
  std::optional<std::size_t> declared_rank(Value value) const;

  // A loop. What is emitted before close() is its body; as inference has it, carried values keep
  // the rank with which they enter.
  class Loop {
   public:
    // `trips` (i64) and `condition` (bool) have rank 0 or are absent.
    Loop(Node& node, Value trips, Value condition, const Values& carried);
    Loop(const Loop&) = delete;
    ~Loop();
    // Of the body: the number of the round, whether the loop goes on, the carried values.
    const Values& parameters() const { return parameters_; }
    Value round() const { return parameters_[0]; }
    Value round_from_end();  // trips - 1 in the first round
    Value goes_on() const { return parameters_[1]; }
    Values carried() const { return {parameters_.begin() + 2, parameters_.end()}; }
    // `next`: whether another round follows, the carried values, and what each round gives. Returns
    // the carried values at the end and those of all rounds, along a new first axis.
    Values close(Values next);

   private:
    Node& node_;
    Values operands_, parameters_;
  };

  // Random numbers, as FunctionBuilder has them
  Value random_seed() { return of(builder_.random_seed()); }
  std::uint64_t random_number() { return builder_.random_number(); }
  Values rounds() { return of(builder_.rounds()); }

  // Outputs
  std::size_t output_count() const;
  bool wants_output(std::size_t index) const;
  void output(std::size_t index, Value value);
  bool is_result(std::size_t index) const;            // as Subgraphs has it
  void drop_ones(std::size_t index);                  // those of the output, which is_result()
  const Values& results() const { return results_; }  // no_value where none was given

 private:
  friend class Value;
  [[noreturn]] void refuse(ErrorKind kind, std::string_view reason) const override;
  const onnx::AttributeProto* find(std::string_view name, int type, std::string_view kind);
  std::string stem() const;
  Value of(ir::ValueId id) { return {*this, id}; }
  Values of(const std::vector<ir::ValueId>& ids);
  Value unknown(ir::DType dtype, int lists = 0);  // a value of no type yet
  // Of a tensor, or of the tensors in a list, where it is known.
  std::optional<std::size_t> rank_within(Value value) const;
  // `value` has the rank of `like` and `more`, where that is known; lists have it of their tensors.
  void know_rank(Value value, Value like, std::size_t more = 0);
  const ir::Dim* dim(Value value, std::int64_t axis) const;  // null where it isn't known

  FunctionBuilder& builder_;
  ExternalData& external_;
  Subgraphs& subgraphs_;
  onnx::NodeProto& proto_;
  std::string name_;
  int opset_;
  Values operands_;
  Values results_;
  std::set<std::string, std::less<>> used_attributes_;
};

}  // namespace anydim::frontends
