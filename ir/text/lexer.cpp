#include "ir/text/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ir/printable.h"
#include "ir/quote.h"

namespace anydim::ir {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_character(char c) { return is_letter(c) || is_digit(c) || c == '.'; }
// What the names of one kind begin with.
TokenKind kind_behind(char sigil) {
  switch (sigil) {
    case '%': return TokenKind::ValueName;
    case '@': return TokenKind::GlobalName;
    case '$': return TokenKind::LoopVariable;
    case '#': return TokenKind::StepName;
    default: return TokenKind::End;
  }
}
bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

constexpr std::array<std::string_view, 18> punctuation = {
    "->", "<=", "==", "!=", "(", ")", "[", "]", "{", "}", ",", ":", "=", "+", "-", "*", "<", "?"};

// The line around `offset`, cut to a window where it is long, and the caret's place in it.
std::string excerpt(std::string_view text, std::size_t offset) {
  constexpr std::size_t before = 80, after = 60;
  std::size_t begin = offset;
  while (begin > 0 && text[begin - 1] != '\n' && offset - begin < before) --begin;
  std::size_t end = offset;
  while (end < text.size() && text[end] != '\n' && end - offset < after) ++end;
  while (begin < offset && is_continuation(text[begin])) ++begin;
  while (end < text.size() && end > offset && is_continuation(text[end])) --end;
  std::string line(text.substr(begin, end - begin));
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  std::size_t column = 0;
  for (std::size_t i = begin; i < offset; ++i) column += is_continuation(text[i]) ? 0 : 1;
  return fmt::format("  {}\n  {:>{}}", line, "^", column + 1);
}

}  // namespace

TokenStream::TokenStream(std::string_view text, std::string source_name)
    : text_(text), source_name_(std::move(source_name)) {
  next_ = lex();
}

TokenStream::Nesting::Nesting(TokenStream& stream) : stream_(stream) {
  if (stream.depth_ >= maximum_depth) {
    stream.fail(stream.peek(), "this is nested more than {} levels deep", maximum_depth);
  }
  ++stream.depth_;
}

Token TokenStream::take() {
  Token token = std::move(next_);
  next_ = lex();
  return token;
}

bool TokenStream::at(std::string_view text) const {
  return (next_.kind == TokenKind::Punctuation || next_.kind == TokenKind::Identifier) &&
         next_.text == text;
}

bool TokenStream::accept(std::string_view text) {
  if (!at(text)) return false;
  take();
  return true;
}

void TokenStream::expect(std::string_view text) {
  if (!accept(text)) expected(fmt::format("'{}'", text));
}

Token TokenStream::expect(TokenKind kind, std::string_view what) {
  if (next_.kind != kind) expected(what);
  return take();
}

void TokenStream::fail(std::size_t offset, std::string_view message) const {
  offset = std::min(offset, text_.size());
  const auto line =
      1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(offset), '\n');
  const std::size_t newline = offset == 0 ? std::string_view::npos : text_.rfind('\n', offset - 1);
  const std::size_t column = newline == std::string_view::npos ? offset + 1 : offset - newline;
  throw Error(ErrorKind::Malformed, "{}:{}:{}: {}\n{}", source_name_, line, column, message,
              excerpt(text_, offset));
}

void TokenStream::expected(std::string_view what) const {
  std::string found = "the end of the text";
  if (next_.kind != TokenKind::End) {
    constexpr std::size_t longest = 40;
    const std::string_view token = text_.substr(next_.offset, next_.length);
    found = token.size() <= longest ? fmt::format("'{}'", printable(token))
                                    : fmt::format("'{}...'", printable(token.substr(0, longest)));
  }
  fail(next_, "expected {}, found {}", what, found);
}

void TokenStream::skip_blanks() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++position_;
    } else if (text_.substr(position_, 2) == "//") {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else {
      return;
    }
  }
}

Token TokenStream::lex() {
  skip_blanks();
  const std::size_t begin = position_;
  Token token;
  if (begin < text_.size()) {
    const char c = text_[begin];
    if (const TokenKind kind = kind_behind(c); kind != TokenKind::End) {
      token = lex_name(kind);
    } else if (c == '"') {
      token.kind = TokenKind::String;
      token.text = lex_quoted();
    } else if (is_digit(c)) {
      token = lex_number();
    } else if (is_letter(c)) {
      while (position_ < text_.size() && is_name_character(text_[position_])) ++position_;
      token.kind = TokenKind::Identifier;
      token.text = text_.substr(begin, position_ - begin);
    } else {
      const auto found = std::find_if(
          punctuation.begin(), punctuation.end(),
          [&](std::string_view mark) { return text_.substr(begin).starts_with(mark); });
      if (found == punctuation.end()) {
        std::size_t end = begin + 1;
        while (end < text_.size() && is_continuation(text_[end]) && end < begin + 4) ++end;
        fail(begin, "the character {} has no meaning here",
             quote(text_.substr(begin, end - begin)));
      }
      token.kind = TokenKind::Punctuation;
      token.text = *found;
      position_ += found->size();
    }
  }
  token.offset = begin;
  token.length = position_ - begin;
  return token;
}

Token TokenStream::lex_name(TokenKind kind) {
  const std::size_t begin = position_++;
  Token token;
  token.kind = kind;
  if (position_ < text_.size() && text_[position_] == '"') {
    token.text = lex_quoted();
    return token;
  }
  while (position_ < text_.size() && is_name_character(text_[position_])) ++position_;
  token.text = text_.substr(begin + 1, position_ - begin - 1);
  if (token.text.empty()) fail(begin, "expected a name or a quoted name after '{}'", text_[begin]);
  return token;
}

// Digits, letters and dots belong to the number, also where they make no sense, so that `2n` is one
// wrong number and not a number and a name.
Token TokenStream::lex_number() {
  const std::size_t begin = position_;
  const bool hexadecimal = text_.substr(begin).starts_with("0x");
  while (position_ < text_.size()) {
    const char c = text_[position_];
    const bool exponent_sign = (c == '+' || c == '-') && !hexadecimal &&
                               (text_[position_ - 1] == 'e' || text_[position_ - 1] == 'E');
    if (!is_name_character(c) && !exponent_sign) break;
    ++position_;
  }
  Token token;
  token.kind = TokenKind::Number;
  token.text = text_.substr(begin, position_ - begin);
  return token;
}

std::string TokenStream::lex_quoted() {
  const std::size_t begin = position_++;
  std::string out;
  while (true) {
    if (position_ >= text_.size() || text_[position_] == '\n')
      fail(begin, "this string has no closing quote on its line");
    const char c = text_[position_++];
    if (c == '"') return out;
    if (c != '\\') {
      out += c;
      continue;
    }
    const char escape = position_ < text_.size() ? text_[position_++] : '\0';
    if (escape == '"' || escape == '\\') {
      out += escape;
    } else if (escape == 'n') {
      out += '\n';
    } else if (escape == 't') {
      out += '\t';
    } else if (escape == 'r') {
      out += '\r';
    } else if (escape == 'x' && position_ + 2 <= text_.size() && hex_digit(text_[position_]) >= 0 &&
               hex_digit(text_[position_ + 1]) >= 0) {
      out += static_cast<char>(hex_digit(text_[position_]) * 16 + hex_digit(text_[position_ + 1]));
      position_ += 2;
    } else {
      fail(position_ - 2, R"(expected \", \\, \n, \t, \r or \x and two hexadecimal digits)");
    }
  }
}

}  // namespace anydim::ir
