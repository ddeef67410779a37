#include "tests/ir/random_module.h"

#include <cmath>
#include <limits>

#include "ir/error.h"
#include "ir/random_tensor.h"
#include "ir/region.h"

namespace anydim::ir::test {
namespace {

class Choices {
 public:
  explicit Choices(const std::vector<std::uint8_t>& bytes) : bytes_(bytes) {}
  std::size_t below(std::size_t count) {
    return position_ < bytes_.size() ? bytes_[position_++] % count : 0;
  }
  bool flip() { return below(2) == 1; }
  bool exhausted() const { return position_ >= bytes_.size(); }

 private:
  const std::vector<std::uint8_t>& bytes_;
  std::size_t position_ = 0;
};

class FunctionMaker {
 public:
  FunctionMaker(Choices& choices, const std::vector<Region>& regions, std::size_t functions)
      : choices_(choices), regions_(regions), functions_(functions) {}

  Function make(std::string name, bool region) {
    function_.name = std::move(name);
    static const std::vector<std::string> names = {
        "n", "m", "past length", "select", "\xc3\xbc\xff", "s0", "unknown_0"};
    for (std::size_t count = choices_.below(5), i = 0; i < count; ++i) {
      const std::string& symbol = names[choices_.below(names.size())];
      if (!function_.symbols.contains(symbol)) function_.symbols.declare(symbol, symbol_info());
    }
    for (std::size_t count = choices_.below(4), i = 0; i < count; ++i)
      function_.body.parameters.push_back(new_value());
    block(function_.body, 6, 0);
    for (const ValueId id : function_.body.results) {
      function_.result_names.push_back(region            ? ""
                                       : choices_.flip() ? function_.values[id].name
                                                         : text());
    }
    if (region) function_.result_names.clear();
    return std::move(function_);
  }

 private:
  std::string text() {
    static const std::vector<std::string> texts = {
        "x",        "/bert/Add_1", "a b", "",  "\"\\\n\t\r\x7f", "\xe2\x88\x91",
        "\xed\xa0", "none",        "%0",  "7", "nested_0",       "return"};
    return texts[choices_.below(texts.size())];
  }

  std::int64_t integer() {
    static const std::vector<std::int64_t> integers = {0,
                                                       1,
                                                       -1,
                                                       2,
                                                       7,
                                                       512,
                                                       -3,
                                                       std::numeric_limits<std::int64_t>::max(),
                                                       std::numeric_limits<std::int64_t>::min()};
    return integers[choices_.below(integers.size())];
  }

  double real() {
    static const std::vector<double> reals = {
        0.0, -0.0, 1, 0.1, 1e-12, -3e300, 5e-324, INFINITY, -INFINITY, std::nan(""), 1.0 / 3};
    return reals[choices_.below(reals.size())];
  }

  DType dtype() { return static_cast<DType>(choices_.below(13)); }

  SymbolInfo symbol_info() {
    SymbolInfo info;
    if (choices_.flip()) info.low = integer();
    info.high = std::max(info.low, integer());
    if (choices_.flip()) info.multiple = 8;
    if (choices_.flip()) info.below = settled_dim();
    if (choices_.flip()) info.reason = text();
    info.unbacked = choices_.flip();
    return info;
  }

  Dim leaf() {
    const auto& symbols = function_.symbols.names();
    if (!symbols.empty() && choices_.flip())
      return Dim::symbol(symbols[choices_.below(symbols.size())]);
    if (!function_.values.empty() && choices_.below(4) == 1) {
      // Any value may be read in a type or bound, also one that comes later.
      return Dim::value(static_cast<ValueId>(choices_.below(function_.values.size())),
                        static_cast<std::int64_t>(choices_.below(3)));
    }
    static const std::vector<std::int64_t> extents = {
        0, 1, -1, 2, 7, 512, -3};  // 64-bit limits are the dims' own tests' business
    return extents[choices_.below(extents.size())];
  }

  Dim dim(int depth) {
    if (depth == 0 || choices_.below(3) == 0) return leaf();
    const Dim a = dim(depth - 1);
    const Dim b = dim(depth - 1);
    try {
      switch (choices_.below(10)) {
        case 0: return a + b;
        case 1: return a - b;
        case 2: return a * b;
        case 3: return floor_div(a, b);
        case 4: return ceil_div(a, b);
        case 5: return mod(a, b);
        case 6: return min(a, b);
        case 7: return max(a, b);
        case 8: return broadcast(a, b);
        default:
          return select(static_cast<Comparison>(choices_.below(4)), a, b, dim(depth - 1),
                        dim(depth - 1));
      }
    } catch (const Error&) {
      return a;  // the expression leaves 64 bits or divides by zero
    }
  }

  // The dim built again from its parts with the public operations.
  static Dim rebuilt(const Dim& dim) {
    std::vector<Dim> parts;
    for (const Dim& operand : dim.operands()) parts.push_back(rebuilt(operand));
    switch (dim.kind()) {
      case Dim::Kind::Constant:
      case Dim::Kind::Symbol:
      case Dim::Kind::Value: return dim;
      case Dim::Kind::Sum: {
        Dim sum = 0;
        for (const Dim::Term& term : dim.terms()) {
          Dim product = term.coefficient;
          for (const Dim& factor : term.factors) product = product * rebuilt(factor);
          sum = sum + product;
        }
        return sum + dim.constant_part();
      }
      case Dim::Kind::FloorDiv: return floor_div(parts[0], parts[1]);
      case Dim::Kind::Mod: return mod(parts[0], parts[1]);
      case Dim::Kind::Min:
      case Dim::Kind::Max: {
        Dim chosen = parts[0];
        for (const Dim& part : parts)
          chosen = dim.kind() == Dim::Kind::Min ? min(chosen, part) : max(chosen, part);
        return chosen;
      }
      case Dim::Kind::Select:
        return select(dim.comparison(), parts[0], parts[1], parts[2], parts[3]);
      case Dim::Kind::Broadcast: return broadcast(parts[0], parts[1]);
    }
    return dim;
  }

  // A dim that the algebra rebuilds as it is: whether every expression does is the business of
  // tests/ir/dim_property_test.cpp.
  Dim settled_dim() {
    const Dim made = dim(3);
    try {
      return rebuilt(made) == made ? made : Dim(7);
    } catch (const Error&) {
      return 7;
    }
  }

  std::vector<Dim> dims(std::size_t count) {
    std::vector<Dim> list;
    while (list.size() < count) list.push_back(settled_dim());
    return list;
  }

  Type type(int depth) {
    Type result;
    switch (choices_.below(depth == 0 ? 4 : 7)) {
      case 0: return result;
      case 4:
        result.kind = Type::Kind::List;
        result.elements = {type(depth - 1)};
        return result;
      case 5:
        result.kind = Type::Kind::Tuple;
        for (std::size_t count = choices_.below(3), i = 0; i < count; ++i)
          result.elements.push_back(type(depth - 1));
        return result;
      case 6:
        result.kind = Type::Kind::Function;
        for (std::size_t count = choices_.below(3), i = 0; i < count; ++i)
          result.elements.push_back(type(depth - 1));
        for (std::size_t count = choices_.below(3), i = 0; i < count; ++i)
          result.results.push_back(type(depth - 1));
        return result;
      default: return TensorType{dtype(), dims(choices_.below(4))};
    }
  }

  ValueId new_value() {
    const std::string name = text();
    const Type known = type(2);
    const ValueId id = function_.add_value(name, known);
    in_scope_.push_back(id);
    return id;
  }

  ValueId operand() {
    if (in_scope_.empty() || choices_.below(8) == 7) return no_value;
    return in_scope_[choices_.below(in_scope_.size())];
  }

  void block(Block& block, std::size_t most, int depth) {
    for (std::size_t count = choices_.below(most), i = 0; i < count && !choices_.exhausted(); ++i)
      block.bindings.push_back(binding(depth));
    if (in_scope_.empty()) return;
    for (std::size_t count = choices_.below(4), i = 0; i < count; ++i)
      block.results.push_back(in_scope_[choices_.below(in_scope_.size())]);
  }

  Tensor tensor() {
    Tensor result = random_tensor(
        dtype(),
        choices_.flip() ? std::vector<std::int64_t>{2, static_cast<std::int64_t>(choices_.below(4))}
                        : std::vector<std::int64_t>{13, 5},
        choices_.below(9), text());
    if (choices_.flip()) return result;
    return Tensor(result.dtype(), result.dims(), result.bytes(), result.owner());
  }

  Attribute attribute(AttributeInfo::Kind kind) {
    switch (kind) {
      case AttributeInfo::Kind::Integer: return integer();
      case AttributeInfo::Kind::Real: return real();
      case AttributeInfo::Kind::String: return text();
      case AttributeInfo::Kind::Integers: {
        std::vector<std::int64_t> list(choices_.below(4));
        for (std::int64_t& item : list) item = integer();
        return list;
      }
      case AttributeInfo::Kind::Reals: {
        std::vector<double> list(choices_.below(4));
        for (double& item : list) item = real();
        return list;
      }
      case AttributeInfo::Kind::DType: return dtype();
      case AttributeInfo::Kind::Tensor: return tensor();
    }
    return integer();
  }

  Binding binding(int depth) {
    Binding made;
    const auto ops = all_ops();
    made.op = ops[choices_.below(ops.size())].op;
    if (choices_.below(4) == 1) {
      static constexpr Op special[] = {Op::constant,    Op::shape, Op::dim,
                                       Op::check_shape, Op::bind,  Op::call,
                                       Op::branch,      Op::loop,  Op::region};
      made.op = special[choices_.below(std::size(special))];
    }
    const bool deep = depth >= 3 && (made.op == Op::branch || made.op == Op::loop);
    const bool nothing_to_bind = made.op == Op::bind && function_.symbols.names().empty();
    if (deep || nothing_to_bind || (made.op == Op::region && regions_.empty())) made.op = Op::relu;
    const OpInfo& row = info(made.op);
    std::size_t operands = static_cast<std::size_t>(row.minimum_operands);
    const std::size_t most =
        row.maximum_operands < 0 ? operands + 3 : static_cast<std::size_t>(row.maximum_operands);
    operands += choices_.below(most - operands + 1);
    while (made.operands.size() < operands) made.operands.push_back(operand());
    for (const AttributeInfo& known : attributes_of(made.op)) {
      if (made.op == Op::constant || choices_.flip())
        made.attributes.emplace(std::string(known.name), attribute(known.kind));
    }
    if (choices_.flip()) made.source = text();
    payload(made, depth);
    const std::size_t results =
        row.results < 0
            ? choices_.below(3) + (made.op == Op::split || made.op == Op::dyn_split ? 1 : 0)
            : static_cast<std::size_t>(row.results);
    while (made.results.size() < results) made.results.push_back(new_value());
    return made;
  }

  void payload(Binding& made, int depth) {
    if (made.op == Op::shape || made.op == Op::check_shape) made.dims = dims(choices_.below(4));
    if (made.op == Op::dim) made.dims = dims(1);
    if (made.op == Op::check) made.dims = dims(2);
    if (made.op == Op::bind) {
      const auto& symbols = function_.symbols.names();
      made.dims = {Dim::symbol(symbols[choices_.below(symbols.size())]), settled_dim()};
    }
    if (made.op == Op::call || made.op == Op::closure)
      made.callee = static_cast<std::uint32_t>(choices_.below(functions_));
    if (made.op == Op::region) {
      made.callee = static_cast<std::uint32_t>(choices_.below(regions_.size()));
      made.dims = dims(regions_[made.callee].body.symbols.names().size());
    }
    const std::size_t blocks = made.op == Op::branch ? 2 : made.op == Op::loop ? 1 : 0;
    for (std::size_t i = 0; i < blocks; ++i) {
      const std::vector<ValueId> outside = in_scope_;
      Block& inner = made.blocks.emplace_back();
      for (std::size_t count = choices_.below(3), j = 0; j < count; ++j)
        inner.parameters.push_back(new_value());
      block(inner, 4, depth + 1);
      in_scope_ = outside;
    }
  }

  Choices& choices_;
  const std::vector<Region>& regions_;
  std::size_t functions_;
  Function function_;
  std::vector<ValueId> in_scope_;
};

}  // namespace

Module random_module(const std::vector<std::uint8_t>& bytes) {
  Choices choices(bytes);
  Module module;
  const std::size_t regions = choices.below(3);
  const std::size_t functions = 1 + choices.below(3);
  for (std::size_t i = 0; i < regions; ++i) {
    Region region;
    region.name = i == 0 ? "first region" : "r_" + std::to_string(i);
    region.body = FunctionMaker(choices, {}, functions).make(region.name, true);
    for (std::uint32_t j = 0; j < region.body.body.parameters.size(); ++j) {
      if (!choices.flip()) continue;
      region.weights.push_back(j);
      const Type& type = region.body.values[region.body.body.parameters[j]].type;
      if (type.is_tensor() && type.tensor.dtype == DType::I8 && choices.flip())
        region.weights_of_4_bits.push_back(j);
    }
    seal(region);
    module.regions.push_back(std::move(region));
  }
  for (std::size_t i = 0; i < functions; ++i) {
    module.functions.push_back(FunctionMaker(choices, module.regions, functions)
                                   .make(i == 0 ? "main" : "f\"" + std::to_string(i), false));
  }
  return module;
}

}  // namespace anydim::ir::test
