#include "ir/text/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/quote.h"
#include "ir/region.h"
#include "ir/renumber.h"
#include "ir/shapes/shape_rules.h"
#include "ir/text/function_parser.h"
#include "ir/text/policy_text.h"
#include "ir/text/print.h"

namespace anydim::ir {
namespace {

// a declared result's `?`; no symbol of a text has this name bare
constexpr std::string_view unknown_mark = "?";

// A stem that begins no name in the text, so that numbering it gives fresh names without looking
// again.
std::string unused_stem(std::string_view text, std::string stem) {
  while (text.find(stem) != std::string_view::npos) stem.insert(stem.size() - 1, "x");
  return stem;
}

template <typename List>
std::uint32_t index_of(const List& list, const Token& name, std::string_view what,
                       const TokenStream& tokens) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].name == name.text) return static_cast<std::uint32_t>(i);
  }
  tokens.fail(name, "there is no {} {}", what, global_text(name.text));
}

void resolve_region(Binding& binding, const Reference& reference, const Module& module,
                    const TokenStream& tokens) {
  binding.callee = index_of(module.regions, reference.name, "region", tokens);
  const Region& region = module.regions[binding.callee];
  const auto& names = region.body.symbols.names();
  std::vector<Dim> ordered;
  for (const std::string& name : names) {
    const auto found = std::find_if(reference.symbols.begin(), reference.symbols.end(),
                                    [&](const Token& token) { return token.text == name; });
    if (found == reference.symbols.end()) {
      tokens.fail(reference.name, "region {} needs a dim for its symbol {}: [{} = ...]",
                  global_text(region.name), symbol_text(name), symbol_text(name));
    }
    ordered.push_back(binding.dims[static_cast<std::size_t>(found - reference.symbols.begin())]);
  }
  for (auto token = reference.symbols.begin(); token != reference.symbols.end(); ++token) {
    const auto same = [&](const Token& other) { return other.text == token->text; };
    if (!region.body.symbols.contains(token->text)) {
      tokens.fail(*token, "region {} has no symbol {}", global_text(region.name),
                  symbol_text(token->text));
    }
    if (std::find_if(reference.symbols.begin(), token, same) != token) {
      tokens.fail(*token, "symbol {} is given twice", symbol_text(token->text));
    }
  }
  binding.dims = std::move(ordered);
}

void resolve(Block& block, const ParseState& state, const Module& module) {
  for (Binding& binding : block.bindings) {
    if (binding.op == Op::call || binding.op == Op::closure) {
      binding.callee = index_of(module.functions, state.references[binding.callee].name, "function",
                                state.tokens);
    } else if (binding.op == Op::region) {
      resolve_region(binding, state.references[binding.callee], module, state.tokens);
    }
    for (Block& inner : binding.blocks) resolve(inner, state, module);
  }
}

template <typename List>
Token definition_name(TokenStream& tokens, const List& list, std::string_view what) {
  const Token name =
      tokens.expect(TokenKind::GlobalName, fmt::format("the name of a {}, @name", what));
  for (const auto& other : list) {
    if (other.name == name.text)
      tokens.fail(name, "{} {} is defined twice", what, global_text(name.text));
  }
  return name;
}

}  // namespace

PolicyChoice read_policy_choice(TokenStream& tokens) {
  PolicyChoice choice;
  if (tokens.peek().kind == TokenKind::GlobalName) choice.region = tokens.take().text;
  const std::optional<Policy> policy = policy_of(tokens.peek().text);
  if (!policy || tokens.peek().kind != TokenKind::Identifier)
    tokens.expected("a policy: symbolic, bucketed, exact or library");
  tokens.take();
  choice.policy = *policy;
  return choice;
}

Type FunctionParser::read_type() {
  header_ = false;
  marking_ = true;
  return type();
}

Function FunctionParser::parse(std::string name, Region* region) {
  function_.name = std::move(name);
  parameters(region);
  const std::optional<DeclaredResults> declared = result_types();
  where();
  body();
  if (declared) check_results(*declared);
  finish();
  return std::move(function_);
}

void FunctionParser::parameters(Region* region) {
  tokens_.expect("(");
  if (tokens_.accept(")")) return;
  tokens_.separated([&] {
    const auto position = static_cast<std::uint32_t>(function_.body.parameters.size());
    if (region != nullptr && tokens_.accept("weight")) {
      region->weights.push_back(position);
      if (tokens_.accept("i4")) region->weights_of_4_bits.push_back(position);
    }
    const Token name = tokens_.expect(TokenKind::ValueName, "a parameter, %name");
    function_.body.parameters.push_back(define(name, optional_type()));
  });
  tokens_.expect(")");
}

std::optional<FunctionParser::DeclaredResults> FunctionParser::result_types() {
  if (!tokens_.accept("->")) return std::nullopt;
  DeclaredResults declared;
  declared.offset = tokens_.peek().offset;
  header_ = false;  // symbols here are uses
  marking_ = true;
  declared.types = tokens_.at("(") ? types("(", ")") : std::vector<Type>{type()};
  header_ = true;
  marking_ = false;
  return declared;
}

// Symbols of parameters that the clause leaves out have the default range; the table keeps the
// clause's order, then theirs.
void FunctionParser::where() {
  header_ = false;
  read_where_clause(tokens_, scope(Symbols::Uses), function_.symbols);
  for (const auto& [name, unbacked] : parameter_symbols_) {
    if (function_.symbols.contains(name)) continue;
    SymbolInfo symbol;
    symbol.unbacked = unbacked;
    function_.symbols.declare(name, symbol);
  }
}

void FunctionParser::body() {
  tokens_.expect("{");
  statements(function_.body);
  if (!tokens_.accept("return")) tokens_.expected("'return'");
  bool named = kind_ == Kind::Function;
  if (!tokens_.at("}")) {
    tokens_.separated([&] {
      const ValueId id = operand(function_.body);
      if (id == no_value) tokens_.expected("a result: 'none' cannot be returned, ',' or '}'");
      function_.body.results.push_back(id);
      if (tokens_.accept("as")) {
        named = true;
        function_.result_names.push_back(
            tokens_.expect(TokenKind::String, "the name of the result, quoted").text);
      } else {
        function_.result_names.push_back(kind_ == Kind::Function ? function_.values[id].name : "");
      }
    });
  }
  if (!named) function_.result_names.clear();
  tokens_.expect("}");
}

// A declared type gives the type of a result whose binding has none; otherwise both must agree, `?`
// agreeing with any dim.
void FunctionParser::check_results(const DeclaredResults& declared) {
  const auto& results = function_.body.results;
  if (declared.types.size() != results.size()) {
    tokens_.fail(declared.offset, "{} declares {} results but returns {}",
                 global_text(function_.name), declared.types.size(), results.size());
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    Value& value = function_.values[results[i]];
    if (value.type.kind == Type::Kind::Unknown) {
      value.type = with_fresh_symbols(declared.types[i]);
      value.declared = kind_ == Kind::Function ? Value::Declared::Demand : Value::Declared::Nothing;
    } else if (!matches(declared.types[i], value.type)) {
      if (kind_ == Kind::Function && same_but_for_dims(declared.types[i], value.type)) {
        function_.body.results[i] = declared_result(results[i], declared.types[i]);
        continue;
      }
      tokens_.fail(declared.offset, "result {} of {} is declared {}, but {} is {}", i,
                   global_text(function_.name), print(function_, declared.types[i]),
                   value_text(value.name), print(function_, value.type));
    }
  }
}

bool FunctionParser::same_but_for_dims(const Type& declared, const Type& actual) {
  return declared.is_tensor() && actual.is_tensor() &&
         declared.tensor.dtype == actual.tensor.dtype &&
         declared.tensor.rank() == actual.tensor.rank();
}

// A second demand on a value that has one, or on a parameter: checked where the function returns
// it.
ValueId FunctionParser::declared_result(ValueId value, const Type& declared) {
  Binding check{.op = Op::check_shape, .operands = {value}};
  const std::vector<Dim>& known = function_.values[value].type.tensor.dims;
  for (std::size_t axis = 0; axis < known.size(); ++axis) {
    const Dim& wanted = declared.tensor.dims[axis];
    check.dims.push_back(wanted == Dim::symbol(std::string(unknown_mark)) ? known[axis] : wanted);
  }
  check.attributes.emplace(
      "what", fmt::format("{}, a result of {}", value_text(function_.values[value].name),
                          global_text(function_.name)));
  const ValueId result = define_nested();
  check.results = {result};
  function_.body.bindings.push_back(std::move(check));
  return result;
}

void FunctionParser::finish() {
  for (const auto& [id, token] : mentioned_) {
    if (!defined_[id])
      tokens_.fail(token, "{} is not defined in this function", value_text(token.text));
  }
  for (const Token& token : used_symbols_) {
    if (function_.symbols.contains(token.text)) continue;
    tokens_.fail(token,
                 "symbol {} is not known in {}: it must come from a parameter's type, the where "
                 "clause, check_shape or bind",
                 symbol_text(token.text), global_text(function_.name));
  }
  // What was named before its definition took its id early.
  if (!mentioned_.empty()) renumber(function_, definition_order(function_));
}

Type FunctionParser::optional_type() { return tokens_.accept(":") ? type() : Type{}; }

Type FunctionParser::type() {
  const TokenStream::Nesting nesting(tokens_);
  Type result;
  if (tokens_.accept("_")) return result;
  if (tokens_.accept("type_of")) return type_of_value();
  if (tokens_.accept("Tensor")) {
    result.kind = Type::Kind::Tensor;
    tokens_.expect("[");
    result.tensor.dims =
        tokens_.accept("as_shape")
            ? dims_of_value()
            : read_dims(tokens_, scope(header_ ? Symbols::Declares : Symbols::Uses));
    tokens_.expect(",");
    result.tensor.dtype = read_dtype(tokens_);
    tokens_.expect("]");
    return result;
  }
  if (tokens_.accept("Tuple")) {
    result.kind = Type::Kind::Tuple;
    result.elements = marked([&] { return types("[", "]"); });
    return result;
  }
  if (tokens_.accept("List")) {
    result.kind = Type::Kind::List;
    tokens_.expect("[");
    result.elements = marked([&] { return std::vector<Type>{type()}; });
    tokens_.expect("]");
    return result;
  }
  if (tokens_.accept("Function")) {
    result.kind = Type::Kind::Function;
    tokens_.expect("[");
    result.elements = marked([&] { return types("(", ")"); });
    tokens_.expect(",");
    result.results = marked([&] { return types("(", ")"); });
    tokens_.expect("]");
    return result;
  }
  tokens_.expected("a type: Tensor[...], Tuple[...], List[...], Function[...] or _");
}

// The type written of a value before.
Type FunctionParser::type_of_value() {
  tokens_.expect("(");
  const Token token = tokens_.expect(TokenKind::ValueName, "a value, %name");
  const ValueId id = use(token);
  tokens_.expect(")");
  if (function_.values[id].type.kind == Type::Kind::Unknown)
    tokens_.fail(token, "type_of({}) needs a type that is written: {} has none",
                 value_text(token.text), value_text(token.text));
  return function_.values[id].type;
}

// The dims that are a vector's elements; how many there are must be written.
std::vector<Dim> FunctionParser::dims_of_value() {
  tokens_.expect("(");
  const Token token = tokens_.expect(TokenKind::ValueName, "a vector of integers, %name");
  const ValueId id = use(token);
  tokens_.expect(")");
  const TensorType& type = function_.values[id].type.tensor;
  const bool counted = function_.values[id].type.is_tensor() && is_integer(type.dtype) &&
                       type.rank() == 1 && within_shape_data_limit(type.dims[0]);
  if (!counted)
    tokens_.fail(token,
                 "as_shape({}) needs a vector of integers of a short, written length, as {}: "
                 "Tensor[(2), i64] has",
                 value_text(token.text), value_text(token.text));
  std::vector<Dim> dims;
  for (std::int64_t i = 0; i < *type.dims[0].constant(); ++i) dims.push_back(Dim::value(id, i));
  return dims;
}

// `?` stays what it is inside of tuples, lists and functions: no single extent.
std::vector<Type> FunctionParser::marked(const std::function<std::vector<Type>()>& read) {
  const bool before = std::exchange(marking_, true);
  std::vector<Type> list = read();
  marking_ = before;
  return list;
}

DimScope FunctionParser::scope(Symbols symbols) {
  DimScope scope;
  scope.symbol = [this, symbols](const Token& token) { return symbol(token, symbols); };
  scope.value = [this](const Token& token) { return mention(token); };
  scope.unknown = [this] {
    return marking_ ? Dim::symbol(std::string(unknown_mark)) : fresh_symbol();
  };
  return scope;
}

Dim FunctionParser::symbol(const Token& token, Symbols symbols) {
  if (symbols == Symbols::Uses) {
    used_symbols_.push_back(token);
  } else if (header_) {
    parameter_symbols_.emplace_back(token.text, false);
  } else if (!function_.symbols.contains(token.text)) {
    function_.symbols.declare(token.text);
  }
  return Dim::symbol(token.text);
}

Dim FunctionParser::fresh_symbol() {
  const std::string name = state_.symbol_stem + std::to_string(fresh_symbols_++);
  if (header_) {
    parameter_symbols_.emplace_back(name, true);
  } else {
    SymbolInfo symbol;
    symbol.unbacked = true;
    function_.symbols.declare(name, symbol);
  }
  return Dim::symbol(name);
}

bool FunctionParser::matches(const Type& declared, const Type& actual) const {
  const auto all = [&](const std::vector<Type>& left, const std::vector<Type>& right) {
    return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                      [&](const Type& a, const Type& b) { return matches(a, b); });
  };
  if (declared.kind == Type::Kind::Unknown) return true;
  const auto same_dim = [](const Dim& a, const Dim& b) {
    return a == Dim::symbol(std::string(unknown_mark)) || a == b;
  };
  const auto& dims = declared.tensor.dims;
  return declared.kind == actual.kind && declared.tensor.dtype == actual.tensor.dtype &&
         std::equal(dims.begin(), dims.end(), actual.tensor.dims.begin(), actual.tensor.dims.end(),
                    same_dim) &&
         all(declared.elements, actual.elements) && all(declared.results, actual.results);
}

Type FunctionParser::with_fresh_symbols(Type declared) {
  for (Dim& dim : declared.tensor.dims) {
    if (dim == Dim::symbol(std::string(unknown_mark))) dim = fresh_symbol();
  }
  return declared;
}

ValueId FunctionParser::mention(const Token& token) {
  const auto [found, added] =
      ids_.emplace(token.text, static_cast<ValueId>(function_.values.size()));
  if (added) {
    function_.values.push_back({token.text, {}});
    defined_.push_back(false);
    mentioned_.emplace(found->second, token);
  }
  return found->second;
}

ValueId FunctionParser::define(const Token& token, Type type) {
  const auto [found, added] =
      ids_.emplace(token.text, static_cast<ValueId>(function_.values.size()));
  const ValueId id = found->second;
  if (added) {
    function_.values.push_back({token.text, {}});
    defined_.push_back(false);
  } else if (defined_[id]) {
    tokens_.fail(token, "{} is already defined in this function", value_text(token.text));
  }
  defined_[id] = true;
  const bool demands = !header_ && kind_ == Kind::Function && type.kind != Type::Kind::Unknown;
  function_.values[id].declared = demands ? Value::Declared::Demand : Value::Declared::Nothing;
  function_.values[id].type = std::move(type);
  return id;
}

ValueId FunctionParser::use(const Token& token) {
  const auto found = ids_.find(token.text);
  if (found == ids_.end() || !defined_[found->second]) {
    tokens_.fail(token, "{} is not defined before this use", value_text(token.text));
  }
  return found->second;
}

ValueId FunctionParser::define_nested() {
  Token token;
  token.text = state_.value_stem + std::to_string(fresh_values_++);
  return define(token, {});
}

Module parse(std::string_view text, const ParseOptions& options) {
  ParseState state{TokenStream(text, options.source_name),
                   options,
                   {},
                   unused_stem(text, "unknown_"),
                   unused_stem(text, "nested_")};
  TokenStream& tokens = state.tokens;
  Module module;
  while (tokens.peek().kind != TokenKind::End) {
    if (tokens.accept("fn")) {
      const Token name = definition_name(tokens, module.functions, "function");
      module.functions.push_back(
          FunctionParser(state, FunctionParser::Kind::Function).parse(name.text));
    } else if (tokens.accept("region")) {
      Region region;
      region.name = definition_name(tokens, module.regions, "region").text;
      region.body = FunctionParser(state, FunctionParser::Kind::Region).parse(region.name, &region);
      module.regions.push_back(std::move(region));
    } else if (tokens.accept("policy")) {
      module.policies.push_back(read_policy_choice(tokens));
    } else {
      tokens.expected("'fn', 'region' or 'policy'");
    }
  }
  if (module.functions.empty()) tokens.expected("a function, fn @main(...)");
  for (Function& function : module.functions) resolve(function.body, state, module);
  for (Region& region : module.regions) {
    resolve(region.body.body, state, module);
    seal(region);
  }
  return module;
}

}  // namespace anydim::ir
