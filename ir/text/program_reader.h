// Parts of a program's text; used by ir/text/parse_program.cpp and ir/text/parse_code.cpp only.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/program.h"
#include "ir/text/function_parser.h"
#include "ir/text/parse_dim.h"

namespace anydim::ir {

class ProgramReader {
 public:
  ProgramReader(std::string_view text, const std::string& source_name)
      : state_{.tokens = TokenStream(text, source_name),
               .options = {.source_name = source_name, .files = {}},
               .references = {},
               .symbol_stem = "opened",
               .value_stem = "nested"} {}
  ProgramReader(const ProgramReader&) = delete;
  ProgramReader& operator=(const ProgramReader&) = delete;

 protected:
  using Slot = Code::Slot;

  Dim dim() { return read_dim(tokens_, scope_); }
  std::string string(std::string_view what) { return tokens_.expect(TokenKind::String, what).text; }
  std::int32_t number(std::string_view what) {
    const Token token = tokens_.peek();
    const std::int64_t value = read_integer(tokens_, what);
    if (value < 0 || value > INT32_MAX) tokens_.fail(token, "expected {}, found '{}'", what, value);
    return static_cast<std::int32_t>(value);
  }
  // Negative ones count from the end.
  std::int32_t axis() {
    const Token token = tokens_.peek();
    const std::int64_t value = read_integer(tokens_, "an axis");
    if (value < INT32_MIN || value > INT32_MAX) tokens_.fail(token, "no tensor has such an axis");
    return static_cast<std::int32_t>(value);
  }
  void next_number(std::size_t wanted, std::string_view what) {
    const Token token = tokens_.peek();
    if (static_cast<std::size_t>(number(what)) != wanted)
      tokens_.fail(token, "expected {}, {}, found '{}'", what, wanted, token.text);
    tokens_.expect(":");
  }

  // s3 and b3; - is none.
  std::int32_t lettered(char letter, std::string_view what) {
    if (tokens_.accept("-")) return -1;
    const Token& token = tokens_.peek();
    const std::string_view text = token.text;
    std::int32_t value = -1;
    const char* end = text.data() + text.size();
    if (token.kind != TokenKind::Identifier || text.front() != letter ||
        std::from_chars(text.data() + 1, end, value).ptr != end || value < 0 || text.size() < 2)
      tokens_.expected(what);
    tokens_.take();
    return value;
  }
  Slot slot() { return lettered('s', "a slot, as s3, or '-'"); }
  std::int32_t buffer() { return lettered('b', "a buffer, as b3, or '-'"); }
  // The same behind a word.
  Slot slot(std::string_view word) { return tokens_.expect(word), slot(); }
  std::int32_t buffer(std::string_view word) { return tokens_.expect(word), buffer(); }

  template <typename Read>
  auto list(Read&& read) {
    return tokens_.list("(", read, ")");
  }
  std::vector<Slot> slots() {
    return list([this] { return slot(); });
  }
  std::vector<std::int32_t> buffers() {
    return list([this] { return buffer(); });
  }
  std::vector<Slot> slots(std::string_view word) { return tokens_.expect(word), slots(); }
  std::vector<std::int32_t> buffers(std::string_view word) {
    return tokens_.expect(word), buffers();
  }
  template <typename Read>
  std::vector<std::pair<std::int32_t, std::int32_t>> copies(Read&& read) {
    return list([&] {
      const std::int32_t to = read();
      tokens_.expect("=");
      return std::pair(to, read());
    });
  }
  Code::Argument argument() {
    Code::Argument given;
    given.buffer = buffer();
    tokens_.expect(":");
    given.dtype = read_dtype(tokens_);
    given.dims = slots();
    return given;
  }
  std::vector<Code::Argument> arguments() {
    return list([this] { return argument(); });
  }
  std::vector<Code::Opened> opened() {
    if (!tokens_.accept("opens")) return {};
    return list([this] {
      Code::Opened one;
      one.slot = slot();
      tokens_.expect_all("=", "result");
      one.result = number("the number of a result");
      tokens_.expect("axis");
      one.axis = number("an axis");
      return one;
    });
  }
  std::string source() { return tokens_.quoted_behind("from", "the node in the model, quoted"); }

  ParseState state_;
  TokenStream& tokens_ = state_.tokens;
  DimScope scope_{.symbol = [](const Token& token) { return Dim::symbol(token.text); },
                  .value = {},
                  .unknown = {}};
};

// Reads functions.
class CodeParser : public ProgramReader {
 public:
  using ProgramReader::ProgramReader;

 protected:
  // Behind its number; `instructions`: where each begins.
  Code code(std::vector<std::size_t>& instructions);

 private:
  Code::Input input();
  void symbol(Code& code);
  void placed(Code& code);
  Code::Instruction instruction();
  Code::Instruction launch();
  Code::Instruction assertion();
  Code::Instruction jump();
  Code::Instruction allocate();
  Code::Instruction append();
  Code::Instruction call();
  Code::Instruction to_slot(Slot to);
  Code::Instruction to_buffer(std::int32_t to);
  Code::Instruction element(std::int32_t to);
  Code::Instruction concat(std::int32_t to);
};

}  // namespace anydim::ir
