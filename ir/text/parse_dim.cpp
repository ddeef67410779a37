#include "ir/text/parse_dim.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "ir/printable.h"
#include "ir/quote.h"

namespace anydim::ir {
namespace {

class DimReader {
 public:
  DimReader(TokenStream& tokens, const DimScope& scope) : tokens_(tokens), scope_(scope) {}

  Dim sum() {
    const TokenStream::Nesting nesting(tokens_);
    const std::size_t begin = tokens_.peek().offset;
    Dim total = tokens_.at("-") ? negated() : product();
    while (tokens_.at("+") || tokens_.at("-")) {
      Dim right;
      if (tokens_.at("-")) {
        right = negated();
      } else {
        tokens_.take();
        right = product();
      }
      total = located(begin, [&] { return total + right; });
    }
    return total;
  }

 private:
  // Errors of the dim algebra (overflow, division by zero, growth out of bounds) get the place in
  // the text.
  template <typename Make>
  Dim located(std::size_t begin, Make&& make) {
    try {
      return make();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::Internal) throw;
      tokens_.fail(begin, error.what());
    }
  }

  Dim negated() {
    const std::size_t begin = tokens_.take().offset;
    if (tokens_.peek().kind == TokenKind::Number) {
      // -9223372036854775808 has no positive counterpart, so sign and digits are read as one.
      const Dim first = number(begin, "-");
      return rest_of_product(begin, first);
    }
    const Dim value = product();
    return located(begin, [&] { return Dim(0) - value; });
  }

  Dim number(std::size_t begin, std::string_view sign) {
    const Token token = tokens_.take();
    const std::string digits = std::string(sign) + token.text;
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc::result_out_of_range)
      tokens_.fail(begin, "{} does not fit 64 bits", digits);
    if (error != std::errc{} || end != digits.data() + digits.size()) {
      tokens_.fail(begin, "'{}' is not an integer", printable(digits));
    }
    return value;
  }

  Dim product() {
    const std::size_t begin = tokens_.peek().offset;
    return rest_of_product(begin, atom());
  }

  Dim rest_of_product(std::size_t begin, Dim total) {
    while (tokens_.accept("*")) {
      const Dim right = atom();
      total = located(begin, [&] { return total * right; });
    }
    return total;
  }

  Dim atom() {
    const Token& next = tokens_.peek();
    switch (next.kind) {
      case TokenKind::Number: return number(next.offset, "");
      case TokenKind::String: return symbol(tokens_.take());
      case TokenKind::Identifier: {
        const Token name = tokens_.take();
        return tokens_.at("(") ? function(name) : symbol(name);
      }
      case TokenKind::Punctuation:
        if (tokens_.accept("(")) {
          const Dim inside = sum();
          tokens_.expect(")");
          return inside;
        }
        if (tokens_.at("?") && scope_.unknown)
          tokens_.fail(next, "'?' stands for a whole dim, not for a part of one");
        break;
      case TokenKind::LoopVariable:
      case TokenKind::StepName:
        if (scope_.inside_kernel) return scope_.inside_kernel(tokens_.take());
        break;
      case TokenKind::ValueName:
      case TokenKind::GlobalName:
      case TokenKind::End: break;
    }
    tokens_.expected("a dim");
  }

  Dim symbol(const Token& token) {
    if (token.text.empty()) tokens_.fail(token, "a symbol has a name");
    return scope_.symbol(token);
  }

  std::vector<Dim> arguments(const Token& name, std::size_t fewest, std::size_t most) {
    std::vector<Dim> list;
    tokens_.expect("(");
    do list.push_back(sum());
    while (list.size() < most && tokens_.accept(","));
    if (list.size() < fewest) {
      tokens_.expected(fmt::format("',' and another of the {} arguments of {}", fewest, name.text));
    }
    tokens_.expect(")");
    return list;
  }

  Dim function(const Token& name) {
    using Binary = Dim (*)(const Dim&, const Dim&);
    struct Row {
      std::string_view name;
      Binary apply;
      std::size_t most;
    };
    constexpr std::size_t any = 1000;
    static constexpr std::array<Row, 6> rows = {{{"floor_div", &floor_div, 2},
                                                 {"ceil_div", &ceil_div, 2},
                                                 {"mod", &mod, 2},
                                                 {"broadcast", &broadcast, 2},
                                                 {"min", &min, any},
                                                 {"max", &max, any}}};
    for (const Row& row : rows) {
      if (row.name != name.text) continue;
      const std::vector<Dim> list = arguments(name, 2, row.most);
      Dim result = list[0];
      for (std::size_t i = 1; i < list.size(); ++i) {
        result = located(name.offset, [&] { return row.apply(result, list[i]); });
      }
      return result;
    }
    if (name.text == "select") return select_function(name);
    if (name.text == "value") return value_function();
    tokens_.fail(name,
                 "'{}' is not a function of dims; there are floor_div, ceil_div, mod, min, max, "
                 "select, broadcast and value",
                 printable(name.text));
  }

  Dim select_function(const Token& name) {
    tokens_.expect("(");
    const Dim left = sum();
    const Comparison comparison = read_comparison(tokens_);
    const Dim right = sum();
    tokens_.expect(",");
    const Dim then = sum();
    tokens_.expect(",");
    const Dim otherwise = sum();
    tokens_.expect(")");
    return located(name.offset, [&] { return select(comparison, left, right, then, otherwise); });
  }

  Dim value_function() {
    tokens_.expect("(");
    if (!scope_.value)
      tokens_.fail(tokens_.peek(), "value(%tensor, element) has no meaning outside a function");
    const Token name = tokens_.expect(TokenKind::ValueName, "the name of a tensor, %name");
    const ValueId tensor = scope_.value(name);
    tokens_.expect(",");
    const std::int64_t element = read_integer(tokens_, "the number of an element");
    tokens_.expect(")");
    return Dim::value(tensor, element);
  }

  TokenStream& tokens_;
  const DimScope& scope_;
};

}  // namespace

Dim read_dim(TokenStream& tokens, const DimScope& scope) {
  if (scope.unknown && tokens.accept("?")) return scope.unknown();
  return DimReader(tokens, scope).sum();
}

Comparison read_comparison(TokenStream& tokens) {
  if (tokens.accept("==")) return Comparison::Equal;
  if (tokens.accept("!=")) return Comparison::NotEqual;
  if (tokens.accept("<")) return Comparison::Less;
  if (tokens.accept("<=")) return Comparison::LessEqual;
  tokens.expected("one of == != < <=");
}

std::vector<Dim> read_dims(TokenStream& tokens, const DimScope& scope) {
  return tokens.list("(", [&] { return read_dim(tokens, scope); }, ")");
}

namespace {

// What follows the name of a symbol: its range and what else is known of it.
SymbolInfo read_symbol_info(TokenStream& tokens, const DimScope& scope) {
  SymbolInfo symbol;
  if (tokens.accept("in")) {
    const std::size_t begin = tokens.peek().offset;
    tokens.expect("[");
    symbol.low = read_integer(tokens, "the least value of the symbol");
    tokens.expect(",");
    symbol.high = read_integer(tokens, "the greatest value of the symbol");
    tokens.expect("]");
    if (symbol.low > symbol.high)
      tokens.fail(begin, "the range [{}, {}] is empty", symbol.low, symbol.high);
  }
  if (tokens.accept("multiple")) {
    const std::size_t begin = tokens.peek().offset;
    symbol.multiple = read_integer(tokens, "the number that divides the symbol");
    if (symbol.multiple < 1)
      tokens.fail(begin, "a symbol is a multiple of at least 1, not of {}", symbol.multiple);
  }
  if (tokens.accept("below")) symbol.below = read_dim(tokens, scope);
  symbol.unbacked = tokens.accept("unbacked");
  symbol.reason = tokens.quoted_behind("because", "the reason of the range, quoted");
  return symbol;
}

}  // namespace

Token read_symbol_name(TokenStream& tokens, std::string_view what) {
  const TokenKind kind = tokens.peek().kind;
  if (kind != TokenKind::Identifier && kind != TokenKind::String) tokens.expected(what);
  return tokens.take();
}

void read_where_clause(TokenStream& tokens, const DimScope& scope, SymbolTable& symbols) {
  if (!tokens.accept("where")) return;
  tokens.separated([&] {
    const Token name = read_symbol_name(tokens, "the name of a symbol");
    if (name.text.empty()) tokens.fail(name, "a symbol has a name");
    if (symbols.contains(name.text))
      tokens.fail(name, "symbol {} is declared twice", symbol_text(name.text));
    symbols.declare(name.text, read_symbol_info(tokens, scope));
  });
}

std::int64_t read_integer(TokenStream& tokens, std::string_view what) {
  const std::size_t begin = tokens.peek().offset;
  const std::string sign = tokens.accept("-") ? "-" : "";
  const Token token = tokens.expect(TokenKind::Number, what);
  const std::string digits = sign + token.text;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range)
    tokens.fail(begin, "{} does not fit 64 bits", digits);
  if (error != std::errc{} || end != digits.data() + digits.size()) {
    tokens.fail(begin, "expected {}, found '{}'", what, printable(digits));
  }
  return value;
}

}  // namespace anydim::ir
