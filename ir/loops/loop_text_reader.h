// Reads what the texts of loop forms and of placed kernels share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/loops/loop_form.h"
#include "ir/text/lexer.h"
#include "ir/text/parse_dim.h"
#include "ir/text/tensor_text.h"

namespace anydim::ir {

// Every reader throws Error{Malformed} at the place, saying what it expected. Symbols and loop
// variables may be mentioned before they are known: verification looks at them all.
class LoopTextReader {
 public:
  LoopTextReader(TokenStream& tokens, LoopForm& form);

  TokenStream& tokens() { return tokens_; }

  std::string kind();  // of a kernel: its name
  void header();       // types, symbols and checks, into the form
  void symbols() { read_where_clause(tokens_, scope_, form_.symbols); }
  void checks();

  Dim dim() { return read_dim(tokens_, scope_); }
  std::vector<Dim> index() {
    return tokens_.list("[", [this] { return dim(); }, "]");
  }
  // "$p0 < n", declared in the form's symbols by declare_iterations().
  Iteration iteration();
  std::vector<Iteration> space();  // any number of them with commas
  // Every iteration read so far, below its extent: once all symbols are known.
  void declare_iterations();

  std::vector<ScalarStep::Condition> conditions();  // one or more, with `and`
  std::vector<ScalarStep::Condition> where();       // none without the word
  // What stands behind "#0: f32 = " of a step of that dtype; operands are steps of its own program.
  ScalarStep step(DType dtype);
  // Operands are read by this instead of step_name().
  void read_operands_with(std::function<std::int32_t()> read) { read_operand_ = std::move(read); }
  DimLeaf step_leaf_of(const Token& token, std::string_view text);  // "3" or "1.3"
  std::int32_t step_name();                                         // "#3"
  std::int32_t number(const char* what);                            // not negative
  void expect_number(std::int32_t wanted, const char* what);
  DType dtype() { return read_dtype(tokens_); }
  Reduce reduce();      // sum, product, max or min
  bool descending();    // falling or rising
  Segments segments();  // behind the word
  // Refuses what is neither the end of the text nor `word`, which begins the next heading; `line`:
  // what was expected. Asked for before verification, which what was not read would mislead.
  void expect_end(const char* word, const char* line) const;
  // The results for positions and count, -1 where not wanted.
  std::pair<std::int32_t, std::int32_t> compaction();

 private:
  DimLeaf loop_variable();
  Iteration counted(const DimLeaf& variable, Dim extent, std::size_t begin);
  Dim inside_kernel(const Token& token);
  std::vector<TensorType> types(const char* keyword);
  KernelCheck check();
  void attributes(ScalarStep& step);
  std::vector<std::int32_t> operands() { return tokens_.list("(", read_operand_, ")"); }
  std::int32_t optional_check();

  TokenStream& tokens_;
  LoopForm& form_;
  DimScope scope_;
  std::vector<Iteration> iterations_;
  std::function<std::int32_t()> read_operand_ = [this] { return step_name(); };
};

// A text that is one form or kernel, as `read` takes it; `line`: what else might follow.
template <typename Read>
auto read_alone(std::string_view text, const std::string& source_name, const char* line,
                Read&& read) {
  TokenStream tokens(text, source_name);
  auto whole = read(tokens);
  if (tokens.peek().kind != TokenKind::End) tokens.expected(line);
  return whole;
}
// What stands in front of a region's form or kernel: "loops @gather_0: ".
std::string region_heading(std::string_view word, std::string_view name);
// Several, one behind the other, each behind its heading: as `reread` prints them.
std::string reread_regions(std::string_view text, const std::string& source_name, const char* word,
                           const char* line,
                           const std::function<std::string(TokenStream&)>& reread);

}  // namespace anydim::ir
