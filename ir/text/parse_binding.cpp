#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/number_text.h"
#include "ir/printable.h"
#include "ir/text/function_parser.h"

namespace anydim::ir {
namespace {

std::string operand_count(std::int64_t count) {
  return fmt::format("{} operand{}", count, count == 1 ? "" : "s");
}

bool is_constant_literal(const Binding& binding) {
  return (binding.op == Op::shape || binding.op == Op::dim) &&
         std::all_of(binding.dims.begin(), binding.dims.end(),
                     [](const Dim& dim) { return dim.is_constant(); });
}

}  // namespace

void FunctionParser::statements(Block& block) {
  while (!tokens_.at("return") && !tokens_.at("yield") && !tokens_.at("}")) {
    if (tokens_.at("bind")) {
      bind_statement(block);
    } else {
      binding(block);
    }
  }
}

void FunctionParser::binding(Block& block) {
  std::vector<std::pair<Token, Type>> results;
  if (tokens_.peek().kind == TokenKind::ValueName) {
    tokens_.separated([&] {
      const Token name = tokens_.expect(TokenKind::ValueName, "a name, %name");
      results.emplace_back(name, optional_type());
    });
    tokens_.expect("=");
  } else if (tokens_.peek().kind != TokenKind::Identifier) {
    tokens_.expected("a binding (%name = op(...)), 'return' or 'yield'");
  }
  const Token op = tokens_.peek();
  Binding binding;
  application(binding, block, results.empty() ? std::string_view{} : results[0].first.text);
  binding.source = tokens_.quoted_behind("from", "the name of a node, quoted");
  const int wanted = info(binding.op).results;
  if (wanted >= 0 && static_cast<std::size_t>(wanted) != results.size()) {
    tokens_.fail(op, "{} has {} result{}, this binding names {}", info(binding.op).text, wanted,
                 wanted == 1 ? "" : "s", results.size());
  }
  blocks(binding);
  for (auto& [name, type] : results) binding.results.push_back(define(name, std::move(type)));
  block.bindings.push_back(std::move(binding));
}

// bind k = %count where k <= 4*n
void FunctionParser::bind_statement(Block& block) {
  const Token keyword = tokens_.take();
  Binding binding;
  binding.op = Op::bind;
  binding.dims.push_back(read_dim(tokens_, scope(Symbols::Declares)));
  tokens_.expect("=");
  binding.operands.push_back(operand(block));
  tokens_.expect("where");
  const std::size_t repeated = tokens_.peek().offset;
  if (read_dim(tokens_, scope(Symbols::Declares)) != binding.dims[0]) {
    tokens_.fail(repeated, "expected the bound of the symbol that this binds, SYMBOL <= BOUND");
  }
  tokens_.expect("<=");
  binding.dims.push_back(read_dim(tokens_, scope(Symbols::Uses)));
  binding.source = tokens_.quoted_behind("from", "the name of a node, quoted");
  block.bindings.push_back(std::move(binding));
}

ValueId FunctionParser::operand(Block& block) {
  const Token& next = tokens_.peek();
  if (next.kind == TokenKind::ValueName) return use(tokens_.take());
  if (next.kind != TokenKind::Identifier) tokens_.expected("an operand: %name, none or op(...)");
  if (tokens_.accept("none")) return no_value;
  const TokenStream::Nesting nesting(tokens_);
  const Token op = tokens_.peek();
  Binding inner;
  const std::string name = state_.value_stem + std::to_string(fresh_values_);
  application(inner, block, name);
  const int results = info(inner.op).results;
  if ((results != 1 && results != -1) || inner.op == Op::branch || inner.op == Op::loop) {
    tokens_.fail(op, "{} cannot stand inside an expression: bind its results first",
                 info(inner.op).text);
  }
  const ValueId id = define_nested();
  inner.results.push_back(id);
  block.bindings.push_back(std::move(inner));
  return id;
}

void FunctionParser::application(Binding& binding, Block& block, std::string_view result_name) {
  const Token name = tokens_.expect(TokenKind::Identifier, "the name of an op");
  const std::optional<Op> op = op_named(name.text);
  if (!op) tokens_.fail(name, "there is no op '{}'", printable(name.text));
  if (*op == Op::bind)
    tokens_.fail(
        name, "bind opens a symbol and has no result: bind SYMBOL = %count where SYMBOL <= BOUND");
  binding.op = *op;
  if (*op == Op::call || *op == Op::closure || *op == Op::region) {
    binding.callee = static_cast<std::uint32_t>(state_.references.size());
    state_.references.push_back(
        {tokens_.expect(
             TokenKind::GlobalName,
             fmt::format("the name of a {}, @name", *op == Op::region ? "region" : "function")),
         {}});
  }
  const std::size_t bindings_before = block.bindings.size();
  tokens_.expect("(");
  if (*op == Op::constant) {
    binding.attributes.emplace("value", read_tensor(tokens_, result_name, state_.options.files));
  } else if (*op == Op::shape || *op == Op::dim || *op == Op::check) {
    if (!tokens_.at(")"))
      tokens_.separated([&] { binding.dims.push_back(read_dim(tokens_, scope(Symbols::Uses))); });
    if (*op == Op::check && binding.dims.size() != 2) {
      tokens_.fail(name, "check holds two dims against each other, here are {}",
                   binding.dims.size());
    }
    if (*op == Op::dim && binding.dims.size() != 1) {
      tokens_.fail(name, "dim holds one dim, here are {}; a vector is shape(...)",
                   binding.dims.size());
    }
  } else if (!tokens_.at(")")) {
    operands(binding, block);
  }
  tokens_.expect(")");
  choose_twin(binding, block, name, bindings_before);
  attributes(binding);
  check_arity(binding, name);
  if (binding.op == Op::region && tokens_.at("[")) region_dims(binding);
}

void FunctionParser::operands(Binding& binding, Block& block) {
  do {
    if (binding.op == Op::check_shape && binding.operands.size() == 1 && tokens_.at("(")) {
      binding.dims = read_dims(tokens_, scope(Symbols::Declares));
      return;
    }
    binding.operands.push_back(operand(block));
  } while (tokens_.accept(","));
  if (binding.op == Op::check_shape) tokens_.expected("',' and the demanded dims, (n, 10)");
}

// `reshape(%x, shape(2, 3))` is the static op, `reshape(%x, shape(n, 3))` and `reshape(%x, %s)` are
// dyn.reshape.
void FunctionParser::choose_twin(Binding& binding, Block& block, const Token& name,
                                 std::size_t first_literal) {
  const std::optional<Op> dynamic = dynamic_twin(binding.op);
  const int most = info(binding.op).maximum_operands;
  if (!dynamic || most < 0 || binding.operands.size() <= static_cast<std::size_t>(most)) return;
  const std::size_t extra = binding.operands.size() - static_cast<std::size_t>(most);
  const std::vector<AttributeInfo> taken = literal_attributes(*dynamic);
  const std::size_t nested = block.bindings.size() - first_literal;
  bool constant = extra <= taken.size() && extra <= nested;
  for (std::size_t i = 0; constant && i < extra; ++i) {
    const Binding& literal = block.bindings[block.bindings.size() - extra + i];
    const bool fits = taken[i].kind == AttributeInfo::Kind::Integers
                          ? literal.op == Op::shape
                          : taken[i].kind == AttributeInfo::Kind::Integer && literal.op == Op::dim;
    constant = fits && is_constant_literal(literal) &&
               literal.results[0] == binding.operands[static_cast<std::size_t>(most) + i];
  }
  if (!constant) {
    binding.op = *dynamic;
    check_arity(binding, name);
    return;
  }
  for (std::size_t i = extra; i-- > 0;) {
    const Binding& literal = block.bindings.back();
    const std::string attribute(taken[i].name);
    if (literal.op == Op::dim) {
      binding.attributes.emplace(attribute, *literal.dims[0].constant());
    } else {
      std::vector<std::int64_t> values;
      for (const Dim& dim : literal.dims) values.push_back(*dim.constant());
      binding.attributes.emplace(attribute, std::move(values));
    }
    // The literal's value was the last one made: nothing else names it.
    ids_.erase(function_.values.back().name);
    function_.values.pop_back();
    defined_.pop_back();
    --fresh_values_;
    block.bindings.pop_back();
    binding.operands.pop_back();
  }
}

void FunctionParser::check_arity(const Binding& binding, const Token& name) {
  const OpInfo& row = info(binding.op);
  const auto count = static_cast<std::int64_t>(binding.operands.size());
  if (count >= row.minimum_operands && (row.maximum_operands < 0 || count <= row.maximum_operands))
    return;
  std::string wanted = operand_count(row.minimum_operands);
  if (row.maximum_operands < 0) {
    wanted = "at least " + wanted;
  } else if (row.maximum_operands != row.minimum_operands) {
    wanted = fmt::format("{} to {}", row.minimum_operands, operand_count(row.maximum_operands));
  }
  tokens_.fail(name, "{} takes {}, here {} {}", row.text, wanted, count == 1 ? "is" : "are", count);
}

void FunctionParser::attributes(Binding& binding) {
  // After `if(...)`'s keyword comes a block; before it only attributes open a brace.
  if (!tokens_.accept("{")) return;
  if (tokens_.accept("}")) return;
  tokens_.separated([&] {
    const Token name = tokens_.expect(TokenKind::Identifier, "the name of an attribute");
    const AttributeInfo* found = find_attribute(binding.op, name.text);
    if (found == nullptr) {
      std::string names;
      for (const AttributeInfo& row : attributes_of(binding.op))
        names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
      tokens_.fail(name, "{} has no attribute '{}'; it takes {}", info(binding.op).text,
                   printable(name.text), names.empty() ? "none" : names);
    }
    if (binding.attributes.contains(name.text))
      tokens_.fail(name, "attribute '{}' is given twice", printable(name.text));
    tokens_.expect("=");
    Attribute value = attribute(name, binding, found->kind);
    binding.attributes.emplace(name.text, std::move(value));
  });
  tokens_.expect("}");
}

// Called where a constant must stand.
void FunctionParser::refuse_symbol(const Token& name, const Binding& binding) {
  const Token& next = tokens_.peek();
  const bool symbolic = next.kind == TokenKind::Identifier || next.text == "?";
  if (!symbolic || next.text == "inf" || next.text == "nan") return;
  const std::optional<Op> dynamic = dynamic_twin(binding.op);
  tokens_.fail(
      next, "attribute '{}' of {} holds constants, not the symbol {}{}", printable(name.text),
      info(binding.op).text, printable(next.text),
      dynamic ? fmt::format("; {} takes it as an operand, shape(...)", info(*dynamic).text) : "");
}

Attribute FunctionParser::attribute(const Token& name, const Binding& binding,
                                    AttributeInfo::Kind kind) {
  const auto integer = [&] {
    refuse_symbol(name, binding);
    return read_integer(tokens_, "an integer");
  };
  const auto real = [&] {
    refuse_symbol(name, binding);
    return this->real();
  };
  switch (kind) {
    case AttributeInfo::Kind::Integer: return integer();
    case AttributeInfo::Kind::Real: return real();
    case AttributeInfo::Kind::String:
      return tokens_.expect(TokenKind::String, "a quoted string").text;
    case AttributeInfo::Kind::Integers:
      refuse_symbol(name, binding);
      return tokens_.list("(", integer, ")");
    case AttributeInfo::Kind::Reals: return tokens_.list("(", real, ")");
    case AttributeInfo::Kind::DType: return read_dtype(tokens_);
    case AttributeInfo::Kind::Tensor: return read_tensor(tokens_, {}, state_.options.files);
  }
  tokens_.expected("the value of an attribute");
}

double FunctionParser::real() {
  const std::size_t begin = tokens_.peek().offset;
  const double sign = tokens_.accept("-") ? -1 : 1;
  if (tokens_.accept("inf")) return sign * std::numeric_limits<double>::infinity();
  if (tokens_.accept("nan")) return std::copysign(std::numeric_limits<double>::quiet_NaN(), sign);
  const Token token = tokens_.expect(TokenKind::Number, "a number");
  const auto value = parsed_number<double>(token.text);
  if (!value)
    tokens_.fail(begin, "'{}' is not a 64-bit floating-point number", printable(token.text));
  return sign * *value;
}

// [s0 = n, s1 = 2*n]
void FunctionParser::region_dims(Binding& binding) {
  tokens_.expect("[");
  tokens_.separated([&] {
    const Token name = read_symbol_name(tokens_, "a symbol of the region");
    tokens_.expect("=");
    binding.dims.push_back(read_dim(tokens_, scope(Symbols::Uses)));
    state_.references[binding.callee].symbols.push_back(name);
  });
  tokens_.expect("]");
}

void FunctionParser::blocks(Binding& binding) {
  if (binding.op == Op::branch) {
    tokens_.expect("then");
    binding.blocks.push_back(nested_block());
    tokens_.expect("else");
    binding.blocks.push_back(nested_block());
  } else if (binding.op == Op::loop) {
    tokens_.expect("body");
    binding.blocks.push_back(nested_block());
  }
}

Block FunctionParser::nested_block() {
  const TokenStream::Nesting nesting(tokens_);
  Block block;
  const auto parameter = [this] {
    const Token name = tokens_.expect(TokenKind::ValueName, "a parameter of the block, %name");
    return define(name, optional_type());
  };
  if (tokens_.at("(")) block.parameters = tokens_.list("(", parameter, ")");
  tokens_.expect("{");
  statements(block);
  if (!tokens_.accept("yield")) tokens_.expected("'yield'");
  if (!tokens_.at("}")) tokens_.separated([&] { block.results.push_back(operand(block)); });
  tokens_.expect("}");
  return block;
}

}  // namespace anydim::ir
