#include "tests/ptx/mutation/statements.h"

#include <cctype>

namespace anydim::ptx {

namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%' ||
         c == '.';
}

std::string trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0)
    text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
    text.remove_suffix(1);
  return std::string(text);
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::vector<Statement> statements() {
    while (skip_blanks()) {
      if (depth_ == 0) outside();
      else if (text_[at_] == '{') open();
      else if (text_[at_] == '}') close();
      else if (text_[at_] == '.') skip_past(';');
      else if (!label()) instruction();
    }
    return std::move(statements_);
  }

 private:
  // Moves to the next character that is neither blank nor comment; false at the end.
  bool skip_blanks() {
    while (at_ < text_.size()) {
      if (text_.substr(at_, 2) == "//") skip_past('\n');
      else if (text_.substr(at_, 2) == "/*") skip_to(text_.find("*/", at_) + 2);
      else if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0) skip_to(at_ + 1);
      else return true;
    }
    return false;
  }

  void skip_to(std::size_t place) {
    for (place = std::min(place, text_.size()); at_ < place; ++at_)
      line_ += text_[at_] == '\n' ? 1 : 0;
  }
  void skip_past(char end) {
    skip_to(text_.find(end, at_) == std::string_view::npos ? text_.size()
                                                           : text_.find(end, at_) + 1);
  }

  void open() {
    ++depth_;
    skip_to(at_ + 1);
  }
  void close() {
    --depth_;
    skip_to(at_ + 1);
  }

  // Between functions: an opening brace that no initialiser owns starts a body.
  void outside() {
    if (text_[at_] == '{') return open();
    const std::size_t stop = text_.find_first_of("{;=", at_);
    if (stop == std::string_view::npos) return skip_to(text_.size());
    if (text_[stop] == '=') {
      skip_to(stop);
      return skip_past(';');
    }
    skip_to(text_[stop] == ';' ? stop + 1 : stop);
  }

  bool label() {
    std::size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    if (end == at_ || end >= text_.size() || text_[end] != ':' || text_.substr(end, 2) == "::")
      return false;
    skip_to(end + 1);
    return true;
  }

  void instruction() {
    Statement statement;
    statement.begin = at_;
    statement.line = line_;
    const std::size_t end = text_.find(';', at_);
    std::string_view body = text_.substr(at_, end - at_);
    if (body.front() == '@') {
      const std::size_t blank = body.find_first_of(" \t");
      statement.guard = std::string(body.substr(0, blank)) + " ";
      body.remove_prefix(blank);
    }
    const std::string text = trimmed(body);
    const std::size_t blank = text.find_first_of(" \t");
    statement.opcode = text.substr(0, blank);
    if (blank != std::string::npos) split_operands(text.substr(blank), statement.operands);
    skip_to(end + 1);
    statement.end = at_;
    statements_.push_back(std::move(statement));
  }

  static void split_operands(std::string_view text, std::vector<std::string>& operands) {
    int nested = 0;
    std::size_t begin = 0;
    for (std::size_t i = 0; i <= text.size(); ++i) {
      const char c = i < text.size() ? text[i] : ',';
      if (c == '{' || c == '[' || c == '(') ++nested;
      else if (c == '}' || c == ']' || c == ')') --nested;
      else if (c == ',' && nested == 0) {
        operands.push_back(trimmed(text.substr(begin, i - begin)));
        begin = i + 1;
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  int depth_ = 0;
  std::vector<Statement> statements_;
};

}  // namespace

std::vector<Statement> statements_of(std::string_view ptx) { return Scanner(ptx).statements(); }

}  // namespace anydim::ptx
