// A place in PTX text: skips blanks and comments, reads words, knows its line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/ptx/syntax.h"

namespace anydim::ptx {

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) { skip(); }

  int line() const { return line_; }
  bool at_end() const { return position_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[position_]; }
  char peek_second() const { return position_ + 1 < text_.size() ? text_[position_ + 1] : '\0'; }

  bool take(char c);        // and the blanks behind it
  void expect(char c);      // throws
  bool at_word() const;     // letter, _, $, % or .
  std::string word();       // letters, digits, _ $ %, from the first on; throws where there is none
  std::string dotted();     // word, then also . and ::
  std::string directive();  // .name; throws
  void skip_one() { step(), skip(); }
  std::string quoted();  // "..."
  bool ahead(std::string_view text) const { return text_.substr(position_, text.size()) == text; }
  bool label();                       // does `word :` start here?
  bool number_ahead() const;          // digit, or - and a digit
  void number(OperandText& operand);  // integer, 0f, 0d or decimal
  std::int64_t integer();             // throws on anything else
  [[noreturn]] void fail(const std::string& what) const;

 private:
  void skip();
  void step();
  std::string_view text_;
  std::size_t position_ = 0;
  int line_ = 1;
};

[[noreturn]] void malformed_ptx(int line, const std::string& what);
[[noreturn]] void unsupported_ptx(int line, const std::string& what);

}  // namespace anydim::ptx
