// Reads one dim from tokens.
#pragma once

#include <cstdint>
#include <functional>

#include "ir/dims/dim.h"
#include "ir/dims/symbols.h"
#include "ir/text/lexer.h"

namespace anydim::ir {

struct DimScope {
  // the dim that a name in the text stands for; may fail at the token
  std::function<Dim(const Token&)> symbol;
  std::function<ValueId(const Token&)>
      value;                     // the tensor of value(%t, i); empty: not allowed here
  std::function<Dim()> unknown;  // what `?` stands for; empty: not allowed here
  // what $m0 and #3 stand for; empty: not allowed here
  std::function<Dim(const Token&)> inside_kernel{};
};

// Throws Error{Malformed} at the place: grammar, overflow, an expression that grows out of bounds,
// nesting.
Dim read_dim(TokenStream& tokens, const DimScope& scope);
// "(" dim {"," dim} ")"
std::vector<Dim> read_dims(TokenStream& tokens, const DimScope& scope);

// One of == != < <=
Comparison read_comparison(TokenStream& tokens);
// A bare or quoted name; `what`: what is expected.
Token read_symbol_name(TokenStream& tokens, std::string_view what);
// "where" symbol range {"," symbol range}, if it follows, into the table.
void read_where_clause(TokenStream& tokens, const DimScope& scope, SymbolTable& symbols);

// A number with an optional minus sign, in the range of int64.
std::int64_t read_integer(TokenStream& tokens, std::string_view what);

}  // namespace anydim::ir
