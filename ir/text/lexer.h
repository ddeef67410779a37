// Tokens of the text form, read one at a time, and the errors that point into the text.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/error.h"

namespace anydim::ir {

enum class TokenKind {
  Identifier,
  Number,
  String,
  ValueName,     // %y
  GlobalName,    // @main
  LoopVariable,  // $m0
  StepName,      // #3
  Punctuation,
  End
};

struct Token {
  TokenKind kind = TokenKind::End;
  std::string text;        // of strings and names: the content, without sigil, quotes and escapes
  std::size_t offset = 0;  // of its first byte in the text
  std::size_t length = 0;
};

// One token of lookahead over `text`, which must outlive the stream. Comments run from // to the
// end of the line.
class TokenStream {
 public:
  TokenStream(std::string_view text, std::string source_name);

  const Token& peek() const { return next_; }
  Token take();

  // Whether the next token is this punctuation or bare word.
  bool at(std::string_view text) const;
  bool accept(std::string_view text);
  void expect(std::string_view text);
  Token expect(TokenKind kind, std::string_view what);
  template <typename... Words>
  void expect_all(const Words&... words) {
    (expect(words), ...);
  }
  // What is quoted behind the word; empty where the word does not follow.
  std::string quoted_behind(std::string_view word, std::string_view what) {
    return accept(word) ? expect(TokenKind::String, what).text : std::string();
  }
  // Reads `one`, and another behind each comma.
  template <typename One>
  void separated(One&& one) {
    do one();
    while (accept(","));
  }
  // Any number of them, with commas, between brackets.
  template <typename One>
  auto list(std::string_view open, One&& one, std::string_view close) {
    std::vector<decltype(one())> all;
    expect(open);
    if (accept(close)) return all;
    separated([&] { all.push_back(one()); });
    expect(close);
    return all;
  }

  // Throw Error{Malformed}: "NAME:LINE:COLUMN: MESSAGE", the line and a caret under the token.
  [[noreturn]] void fail(std::size_t offset, std::string_view message) const;
  [[noreturn]] void fail(const Token& token, std::string_view message) const {
    fail(token.offset, message);
  }
  // The message as fmt::format takes it, in parts.
  template <typename Place, typename First, typename... Rest>
  [[noreturn]] void fail(const Place& place, fmt::format_string<First, Rest...> message,
                         First&& first, Rest&&... rest) const {
    fail(place, fmt::format(message, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
  // "expected WHAT, found TOKEN" at the next token
  [[noreturn]] void expected(std::string_view what) const;

  std::string_view text() const { return text_; }

  // Counts nesting while it lives; past the limit the text is refused, so that hostile nesting
  // cannot exhaust the stack.
  class Nesting {
   public:
    explicit Nesting(TokenStream& stream);
    ~Nesting() { --stream_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    TokenStream& stream_;
  };
  static constexpr int maximum_depth = 200;

 private:
  Token lex();
  void skip_blanks();
  Token lex_name(TokenKind kind);
  Token lex_number();
  std::string lex_quoted();

  std::string_view text_;
  std::string source_name_;
  std::size_t position_ = 0;
  Token next_;
  int depth_ = 0;
};

}  // namespace anydim::ir
