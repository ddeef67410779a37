// The graph: a module holds functions and regions; a function is a block of single-assignment
// bindings.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/dims/dim.h"
#include "ir/dims/symbols.h"
#include "ir/ops.h"
#include "ir/policy.h"
#include "ir/tensor.h"
#include "ir/type.h"
#include "ir/value_names.h"

namespace anydim::ir {

// Constants only: a symbol never stands in an attribute. Which attributes an op takes, of which
// kind, is in ir/ops.def.
using Attribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>,
                               std::vector<double>, DType, Tensor>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

struct Value {
  std::string name;  // unique in its function, without the leading %; any characters (the text form
                     // quotes where needed)
  Type type;
  // Where the type is what the module's author wrote: inference holds it against what it finds
  // (ir/shapes/infer.h) and then takes the mark away. Demand: it must be so. Hint: it is said to be
  // so, and may be wrong.
  enum class Declared : std::uint8_t { Nothing, Demand, Hint };
  Declared declared = Declared::Nothing;
};

struct Binding;

struct Block {
  std::vector<ValueId> parameters;
  std::vector<Binding> bindings;
  std::vector<ValueId> results;
};

// One op applied. An absent optional operand in the middle is `no_value`.
inline constexpr ValueId no_value = ~ValueId{0};

struct Binding {
  Op op{};
  std::vector<ValueId> operands{};
  std::vector<ValueId> results{};
  Attributes attributes{};
  std::vector<Dim> dims{};      // shape, dim: the literal; check_shape: the demanded dims; bind:
                                // {symbol, upper bound}; region: the caller's dims for the region's
                                // symbols, in the order of its symbol table
  std::vector<Block> blocks{};  // if: then, else; loop: body
  std::uint32_t callee =
      0;                 // call: index into Module::functions; region: index into Module::regions
  std::string source{};  // name of the node in the model that this came from, for messages
};

struct Function {
  std::string name;
  std::vector<Value> values;              // indexed by ValueId
  Block body;                             // its parameters and results are the function's
  std::vector<std::string> result_names;  // outputs' names, one a result
  SymbolTable symbols;  // parameter symbols (the `where` clause) and symbols opened inside

  ValueId add_value(std::string name, Type type = {});  // makes the name unique by a suffix
  const TensorType& tensor_type(ValueId id) const;  // internal error where the value isn't a tensor

 private:
  ValueNames names_;
};

struct LoopForm;

// What one kernel computes. The body is ordinary bindings over region-local symbols (named s0, s1,
// ... in order of first appearance), so that the evaluator can run it and equal bodies print
// equally: `identity` (the printed body with values renumbered) is the key of kernels.
struct Region {
  std::string name;  // for people: what it does and a number, e.g. "matmul_gelu_3"
  Function body;     // parameters: inputs (weights too); results: outputs
  // parameter positions that every caller gives constants: they may be packed
  std::vector<std::uint32_t> weights;
  // those among them of i8 whose elements are from -8 to 7: they may be packed in 4 bits
  std::vector<std::uint32_t> weights_of_4_bits{};
  bool is_weight(std::size_t parameter) const {
    return std::find(weights.begin(), weights.end(), parameter) != weights.end();
  }
  bool is_weight_of_4_bits(std::size_t parameter) const {
    return std::find(weights_of_4_bits.begin(), weights_of_4_bits.end(), parameter) !=
           weights_of_4_bits.end();
  }
  std::vector<Dim> keys;  // what buckets are cut by: bucket_keys() of ir/loops/loop_form.h, over
                          // the body's symbols
  std::string identity;   // set by seal() of ir/region.h; covers the body and the weights
  // the body's, where set_form() of ir/loops/loop_form.h was called since; copies share it
  std::shared_ptr<const LoopForm> form;
};

struct Module {
  std::vector<Function> functions;  // functions[0] is the entry, @main
  std::vector<Region> regions;
  // of what is compiled from it; later ones win (ir/policy.h)
  std::vector<PolicyChoice> policies{};
};

// Attribute access with the table's default; an internal error where neither is there or the kind
// differs.
std::int64_t integer_attribute(const Binding& binding, std::string_view name);
double real_attribute(const Binding& binding, std::string_view name);
const std::string& string_attribute(const Binding& binding, std::string_view name);
const std::vector<std::int64_t>& integers_attribute(const Binding& binding, std::string_view name);
// The same, or `count` ones where the attribute is absent.
std::vector<std::int64_t> integers_or_ones(const Binding& binding, std::string_view name,
                                           std::size_t count);
DType dtype_attribute(const Binding& binding, std::string_view name);
const Tensor& tensor_attribute(const Binding& binding, std::string_view name);
bool has_attribute(const Binding& binding, std::string_view name);

// Symbols that a caller decides: those of the parameters' dims, in order of appearance.
std::vector<std::string> parameter_symbols(const Function& function);
// Writes these symbols as those dims, in the types of all values and in the dims of bindings,
// nested ones too; the symbols leave the table. Functions and regions that are called have their
// own.
void substitute_symbols(Function& function, const std::map<std::string, Dim>& dims);

bool is_overwrite(Op op);  // or its dynamic twin
// Whether it is an overwrite whose result takes its first operand's memory (ir/ops.def).
bool is_in_place(const Binding& binding);

// "add '/bert/Add_1' (%y)": op, source node and result, for messages.
std::string describe(const Function& function, const Binding& binding);

}  // namespace anydim::ir
