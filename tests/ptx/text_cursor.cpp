#include "tests/ptx/text_cursor.h"

#include <bit>
#include <cctype>
#include <cstdlib>

#include "ir/error.h"

namespace anydim::ptx {
namespace {

bool is_word_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
}
bool is_word_part(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
}

}  // namespace

void malformed_ptx(int line, const std::string& what) {
  throw Error(ErrorKind::Malformed, "PTX line " + std::to_string(line) + ": " + what + ".");
}

void unsupported_ptx(int line, const std::string& what) {
  throw Error(ErrorKind::Unsupported, "PTX line " + std::to_string(line) + ": " + what + ".");
}

void TextCursor::fail(const std::string& what) const {
  malformed_ptx(line_,
                what + ", found " + (at_end() ? "the end" : "'" + std::string(1, peek()) + "'"));
}

void TextCursor::step() {
  if (text_[position_] == '\n') ++line_;
  ++position_;
}

void TextCursor::skip() {
  while (!at_end()) {
    if (std::isspace(static_cast<unsigned char>(peek()))) {
      step();
    } else if (peek() == '/' && peek_second() == '/') {
      while (!at_end() && peek() != '\n') step();
    } else if (peek() == '/' && peek_second() == '*') {
      step();
      do step();
      while (!at_end() && !(peek() == '*' && peek_second() == '/'));
      for (int i = 0; i < 2 && !at_end(); ++i) step();
    } else {
      break;
    }
  }
}

bool TextCursor::take(char c) {
  if (peek() != c) return false;
  step();
  skip();
  return true;
}

void TextCursor::expect(char c) {
  if (!take(c)) fail("expected '" + std::string(1, c) + "'");
}

bool TextCursor::at_word() const { return is_word_start(peek()) || peek() == '.'; }

std::string TextCursor::word() {
  if (!is_word_start(peek())) fail("expected a name");
  const std::size_t begin = position_;
  while (!at_end() && is_word_part(peek())) step();
  std::string result(text_.substr(begin, position_ - begin));
  skip();
  return result;
}

std::string TextCursor::dotted() {
  if (!is_word_start(peek())) fail("expected a name");
  const std::size_t begin = position_;
  while (!at_end()) {
    if (is_word_part(peek()) || peek() == '.') {
      step();
    } else if (peek() == ':' && peek_second() == ':') {
      step();
      step();
    } else {
      break;
    }
  }
  std::string result(text_.substr(begin, position_ - begin));
  skip();
  return result;
}

std::string TextCursor::directive() {
  if (peek() != '.') fail("expected a directive");
  step();
  return word();
}

std::string TextCursor::quoted() {
  if (peek() != '"') fail("expected a string");
  step();
  const std::size_t begin = position_;
  while (!at_end() && peek() != '"') step();
  std::string result(text_.substr(begin, position_ - begin));
  expect('"');
  return result;
}

bool TextCursor::label() {
  if (!is_word_start(peek())) return false;
  std::size_t end = position_;
  while (end < text_.size() && is_word_part(text_[end])) ++end;
  while (end < text_.size() && (text_[end] == ' ' || text_[end] == '\t')) ++end;
  return end < text_.size() && text_[end] == ':' &&
         (end + 1 == text_.size() || text_[end + 1] != ':');
}

bool TextCursor::number_ahead() const {
  const char c = peek() == '-' ? peek_second() : peek();
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

void TextCursor::number(OperandText& operand) {
  const bool negative = peek() == '-';
  if (negative) step();
  const std::size_t begin = position_;
  while (!at_end() && (is_word_part(peek()) || peek() == '.')) step();
  std::string digits(text_.substr(begin, position_ - begin));
  const char mark = digits.size() > 1 && digits[0] == '0' ? digits[1] : '\0';
  char* end = nullptr;
  if (mark == 'f' || mark == 'F' || mark == 'd' || mark == 'D') {
    const bool is_single = mark == 'f' || mark == 'F';
    if (negative || digits.size() != (is_single ? 10U : 18U)) fail("malformed number " + digits);
    operand.kind = OperandText::Kind::Real;
    operand.real_bits = std::strtoull(digits.c_str() + 2, &end, 16);
    operand.real_bytes = is_single ? 4 : 8;
    operand.real = is_single ? std::bit_cast<float>(static_cast<std::uint32_t>(operand.real_bits))
                             : std::bit_cast<double>(operand.real_bits);
  } else if (digits.find('.') != std::string::npos) {
    operand.kind = OperandText::Kind::Real;
    operand.real = std::strtod(digits.c_str(), &end) * (negative ? -1 : 1);
    operand.real_bits = std::bit_cast<std::uint64_t>(operand.real);
    operand.real_bytes = 8;
  } else {
    if (digits.back() == 'U') digits.pop_back();
    operand.kind = OperandText::Kind::Integer;
    const bool binary = mark == 'b' || mark == 'B';
    const std::uint64_t magnitude =
        std::strtoull(digits.c_str() + (binary ? 2 : 0), &end, binary ? 2 : 0);
    operand.integer = static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude);
  }
  if (end == nullptr || *end != '\0') fail("malformed number " + digits);
  skip();
}

std::int64_t TextCursor::integer() {
  if (!number_ahead()) fail("expected an integer");
  OperandText operand;
  number(operand);
  if (operand.kind != OperandText::Kind::Integer) fail("expected an integer");
  return operand.integer;
}

}  // namespace anydim::ptx
