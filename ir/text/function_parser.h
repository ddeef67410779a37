// The parser of one function or region body; used by ir/text/parse.cpp only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "ir/text/lexer.h"
#include "ir/text/parse.h"
#include "ir/text/parse_dim.h"

namespace anydim::ir {

// A call or region whose name is looked up when all definitions are known.
struct Reference {
  Token name;
  std::vector<Token> symbols;  // of [s0 = n, ...], in the order written, beside Binding::dims
};

// What the functions of one text share.
struct ParseState {
  TokenStream tokens;
  ParseOptions options;
  std::vector<Reference>
      references;           // Binding::callee is an index into this until all are resolved
  std::string symbol_stem;  // of symbols that `?` opens: no name in the text starts with it
  std::string value_stem;   // of nested expressions' values, likewise
};

class FunctionParser {
 public:
  enum class Kind { Function, Region };
  FunctionParser(ParseState& state, Kind kind)
      : state_(state), tokens_(state.tokens), kind_(kind) {}

  // Reads from the parameter list to the closing brace; marks the weights of `region`, whose body
  // it is, if any.
  Function parse(std::string name, Region* region = nullptr);
  // A type that stands by itself, over any symbols; `?` is an extent that opens one.
  Type read_type();

 private:
  // What a symbol in a dim does: Declares opens it where it is new, Uses needs it declared
  // somewhere in the function.
  enum class Symbols { Declares, Uses };

  struct DeclaredResults {
    std::size_t offset = 0;
    std::vector<Type> types;
  };

  // Header and types (ir/text/parse.cpp).
  void parameters(Region* region);
  std::optional<DeclaredResults> result_types();
  void where();
  void body();
  void check_results(const DeclaredResults& declared);
  void finish();
  Type type();
  std::vector<Type> types(std::string_view open, std::string_view close) {
    return tokens_.list(open, [this] { return type(); }, close);
  }
  std::vector<Type> marked(const std::function<std::vector<Type>()>& read);
  Type optional_type();
  Type type_of_value();
  std::vector<Dim> dims_of_value();
  DimScope scope(Symbols symbols);
  Dim symbol(const Token& token, Symbols symbols);
  Dim fresh_symbol();
  bool matches(const Type& declared, const Type& actual) const;
  static bool same_but_for_dims(const Type& declared, const Type& actual);
  ValueId declared_result(ValueId value, const Type& declared);
  Type with_fresh_symbols(Type declared);

  // Values.
  ValueId mention(const Token& token);
  ValueId define(const Token& token, Type type);
  ValueId use(const Token& token);
  ValueId define_nested();

  // Blocks and bindings (ir/text/parse_binding.cpp).
  void statements(Block& block);
  void binding(Block& block);
  void bind_statement(Block& block);
  ValueId operand(Block& block);
  void application(Binding& binding, Block& block, std::string_view result_name);
  void operands(Binding& binding, Block& block);
  void choose_twin(Binding& binding, Block& block, const Token& name, std::size_t first_literal);
  void check_arity(const Binding& binding, const Token& name);
  void attributes(Binding& binding);
  Attribute attribute(const Token& name, const Binding& binding, AttributeInfo::Kind kind);
  double real();
  void refuse_symbol(const Token& name, const Binding& binding);
  void region_dims(Binding& binding);
  void blocks(Binding& binding);
  Block nested_block();

  ParseState& state_;
  TokenStream& tokens_;
  Kind kind_;
  Function function_;
  std::map<std::string, ValueId, std::less<>> ids_;
  std::vector<bool> defined_;           // by ValueId
  std::map<ValueId, Token> mentioned_;  // by value(...) before their definition
  std::vector<Token> used_symbols_;     // checked when the whole function is known
  // in order; whether a `?` opened it
  std::vector<std::pair<std::string, bool>> parameter_symbols_;
  bool header_ = true;    // until the where clause is read
  bool marking_ = false;  // in declared results, where `?` opens nothing
  std::uint64_t fresh_symbols_ = 0;
  std::uint64_t fresh_values_ = 0;
};

}  // namespace anydim::ir
