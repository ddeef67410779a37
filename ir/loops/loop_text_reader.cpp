#include "ir/loops/loop_text_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/loops/loop_form_text.h"
#include "ir/loops/scalar_program.h"
#include "ir/number_text.h"
#include "ir/quote.h"

namespace anydim::ir {

namespace {

bool is_role(LoopRole role) {
  switch (role) {
    case LoopRole::Batch:
    case LoopRole::Reduced:
    case LoopRole::Depth:
    case LoopRole::Width:
    case LoopRole::Gate:
    case LoopRole::Query:
    case LoopRole::Key:
    case LoopRole::Contracted:
    case LoopRole::Lane:
    case LoopRole::MatrixRow:
    case LoopRole::MatrixColumn:
    case LoopRole::Outer:
    case LoopRole::Point:
    case LoopRole::Row:
    case LoopRole::Segment:
    case LoopRole::Rank:
    case LoopRole::Update:
    case LoopRole::Vector:
    case LoopRole::Bound:
    case LoopRole::Made:
    case LoopRole::Tile: return true;
  }
  return false;
}

// A whole number without a sign; nothing where the text is something else or too large.
template <typename Number>
std::optional<Number> whole(std::string_view text) {
  const auto value = parsed_number<Number>(text);
  return value && *value >= 0 ? value : std::nullopt;
}

}  // namespace

LoopTextReader::LoopTextReader(TokenStream& tokens, LoopForm& form)
    : tokens_(tokens), form_(form),
      scope_{.symbol = [](const Token& token) { return Dim::symbol(token.text); },
             .value = {},
             .unknown = {},
             .inside_kernel = [this](const Token& token) { return inside_kernel(token); }} {}

void LoopTextReader::header() {
  form_.parameters = types("parameter");
  form_.results = types("result");
  symbols();
  checks();
}

void LoopTextReader::checks() {
  while (tokens_.accept("check")) {
    expect_number(static_cast<std::int32_t>(form_.checks.size()), "the check's number");
    form_.checks.push_back(check());
  }
}

std::vector<TensorType> LoopTextReader::types(const char* keyword) {
  std::vector<TensorType> types;
  while (tokens_.accept(keyword)) {
    expect_number(static_cast<std::int32_t>(types.size()), "the next number");
    tokens_.expect_all(":", "Tensor", "[");
    TensorType type{.dims = read_dims(tokens_, scope_)};
    tokens_.expect(",");
    type.dtype = dtype();
    tokens_.expect("]");
    types.push_back(std::move(type));
  }
  return types;
}

KernelCheck LoopTextReader::check() {
  using CheckKind = KernelCheck::Kind;
  KernelCheck check;
  tokens_.expect(":");
  const std::vector<CheckKind> kinds{CheckKind::Index, CheckKind::Divisor, CheckKind::Offsets,
                                     CheckKind::Work};
  const auto kind = std::ranges::find_if(
      kinds, [&](CheckKind one) { return tokens_.at(loop_form_text::name_of(one)); });
  if (kind == kinds.end()) tokens_.expected("index, divisor, offsets or work");
  tokens_.take();
  check.kind = *kind;
  tokens_.expect("of");
  check.extent = dim();
  tokens_.expect(",");
  check.what = tokens_.expect(TokenKind::String, "what is checked, quoted").text;
  check.source = tokens_.quoted_behind("from", "the node in the model, quoted");
  return check;
}

Dim LoopTextReader::inside_kernel(const Token& token) {
  if (token.kind == TokenKind::LoopVariable) {
    const auto number =
        token.text.empty() ? std::nullopt : whole<std::int64_t>(token.text.substr(1));
    if (!number || !is_role(static_cast<LoopRole>(token.text[0])))
      tokens_.fail(token,
                   "expected a loop variable, $ and the letter of a kind of loop and a number as "
                   "in $m0, found '${}'",
                   token.text);
    return Dim::of(loop_leaf(static_cast<LoopRole>(token.text[0]), *number));
  }
  return Dim::of(step_leaf_of(token, token.text));
}

DimLeaf LoopTextReader::step_leaf_of(const Token& token, std::string_view text) {
  const std::size_t point = text.find('.');
  const auto program = point == text.npos ? 0 : whole<std::int32_t>(text.substr(0, point));
  const auto position = whole<std::int32_t>(point == text.npos ? text : text.substr(point + 1));
  if (!program || !position || (*program == 0) != (point == text.npos))
    tokens_.fail(token, "expected a step, # and its number, found '#{}'", token.text);
  return step_leaf(*position, static_cast<std::uint32_t>(*program));
}

DimLeaf LoopTextReader::loop_variable() {
  return inside_kernel(tokens_.expect(TokenKind::LoopVariable, "a loop variable, as $m0")).leaf();
}

Iteration LoopTextReader::iteration() {
  const std::size_t begin = tokens_.peek().offset;
  const DimLeaf variable = loop_variable();
  tokens_.expect("<");
  return counted(variable, dim(), begin);
}

Iteration LoopTextReader::counted(const DimLeaf& variable, Dim extent, std::size_t begin) {
  Iteration iteration{variable, std::move(extent)};
  for (const Iteration& other : iterations_)
    if (other.variable == iteration.variable && !(other.extent == iteration.extent))
      tokens_.fail(begin, "the loop variable {} has the extents {} and {}",
                   to_string(iteration.variable), other.extent.to_string(),
                   iteration.extent.to_string());
  iterations_.push_back(iteration);
  return iteration;
}

std::vector<Iteration> LoopTextReader::space() {
  std::vector<Iteration> space;
  if (tokens_.peek().kind != TokenKind::LoopVariable) return space;
  tokens_.separated([&] { space.push_back(iteration()); });
  return space;
}

void LoopTextReader::declare_iterations() {
  for (const Iteration& one : iterations_)
    declare_iteration(one.variable, one.extent, form_.symbols);
}

std::vector<ScalarStep::Condition> LoopTextReader::conditions() {
  std::vector<ScalarStep::Condition> all;
  do {
    Dim left = dim();
    const Comparison comparison = read_comparison(tokens_);
    all.push_back({comparison, std::move(left), dim()});
  } while (tokens_.accept("and"));
  return all;
}

std::vector<ScalarStep::Condition> LoopTextReader::where() {
  return tokens_.accept("where") ? conditions() : std::vector<ScalarStep::Condition>{};
}

std::int32_t LoopTextReader::step_name() {
  const Token token = tokens_.expect(TokenKind::StepName, "a step, # and its number");
  const auto position = whole<std::int32_t>(token.text);
  if (!position) tokens_.fail(token, "expected a step, # and its number, found '#{}'", token.text);
  return *position;
}

std::int32_t LoopTextReader::number(const char* what) {
  const Token token = tokens_.expect(TokenKind::Number, what);
  const auto value = whole<std::int32_t>(token.text);
  if (!value) tokens_.fail(token, "expected {}, found '{}'", what, token.text);
  return *value;
}

void LoopTextReader::expect_number(std::int32_t wanted, const char* what) {
  const Token token = tokens_.peek();
  if (number(what) != wanted)
    tokens_.fail(token, "expected {}, {}, found '{}'", what, wanted, token.text);
}

std::int32_t LoopTextReader::optional_check() {
  if (!tokens_.accept(",")) return -1;
  tokens_.expect("check");
  return number("the number of a check");
}

ScalarStep LoopTextReader::step(DType dtype) {
  ScalarStep step{dtype, step::Constant{}};
  const Token first = tokens_.peek();
  if (first.kind == TokenKind::Number || tokens_.at("-") || tokens_.at("inf") ||
      tokens_.at("nan")) {
    step::Constant& constant = step.as<step::Constant>();
    if (is_float(dtype)) constant.real = read_real(tokens_);
    else constant.integer = read_integer(tokens_, "an integer");
    return step;
  }
  if (first.kind != TokenKind::Identifier)
    tokens_.expected(
        "what the step does: a number, load, extent, index, guarded, accumulated, "
        "scratch or an elementwise op");
  tokens_.take();
  if (first.text == "extent") {
    step.kind = step::Extent{dim()};
  } else if (first.text == "load") {
    const std::int32_t buffer = number("the number of a parameter");
    step.kind = step::Load{buffer, index()};
  } else if (first.text == "index") {
    step.operands = operands();
    tokens_.expect("below");
    const Dim extent = dim();
    step.kind = step::CheckedIndex{extent, optional_check()};
  } else if (first.text == "guarded") {
    step.operands = operands();
    step.kind = step::Guarded{where()};
  } else if (first.text == "accumulated") {
    step.kind = step::Accumulated{number("the number of a slot")};
  } else if (first.text == "scratch") {
    step.kind = step::Scratch{number("the number of a slot")};
  } else {
    const std::optional<Op> op = op_named(first.text);
    if (!op || !info(*op).has(traits::elementwise))
      tokens_.fail(first,
                   "expected what the step does: a number, load, extent, index, guarded, "
                   "accumulated, scratch or an elementwise op, found '{}'",
                   first.text);
    step.kind = step::Apply{*op};
    step.operands = operands();
    attributes(step);
    step.as<step::Apply>().check = optional_check();
  }
  return step;
}

// {truncate = 1}
void LoopTextReader::attributes(ScalarStep& step) {
  step::Apply& applied = step.as<step::Apply>();
  Binding binding{.op = applied.op};
  if (tokens_.accept("{")) {
    const Attributes kept = step_attributes(step);
    tokens_.separated([&] {
      const Token name = tokens_.expect(TokenKind::Identifier, "the name of an attribute");
      const auto found = kept.find(name.text);
      if (found == kept.end() || !std::holds_alternative<std::int64_t>(found->second))
        tokens_.fail(name, "steps of {} have no attribute {}", info(applied.op).text, name.text);
      tokens_.expect("=");
      const std::size_t begin = tokens_.peek().offset;
      const std::int32_t value = number("0 or 1");
      if (value > 1) tokens_.fail(begin, "expected 0 or 1, found '{}'", value);
      if (!binding.attributes.emplace(name.text, std::int64_t{value}).second)
        tokens_.fail(name, "the attribute {} is given twice", name.text);
    });
    tokens_.expect("}");
  }
  applied.flags = step_flags(scalar_op(binding));
}

Reduce LoopTextReader::reduce() {
  for (const Reduce reduce : {Reduce::Sum, Reduce::Product, Reduce::Max, Reduce::Min})
    if (tokens_.accept(loop_form_text::name_of(reduce))) return reduce;
  tokens_.expected("sum, product, max or min");
}

bool LoopTextReader::descending() {
  const bool falling = tokens_.accept("falling");
  if (!falling && !tokens_.accept("rising")) tokens_.expected("'rising' or 'falling'");
  return falling;
}

std::pair<std::int32_t, std::int32_t> LoopTextReader::compaction() {
  const auto behind_to = [this] {
    tokens_.expect("to");
    return number("the number of a result");
  };
  std::pair<std::int32_t, std::int32_t> results{-1, -1};
  const bool positions = tokens_.accept("positions");
  if (positions) results.first = behind_to();
  if (positions && !tokens_.accept(",")) return results;
  if (!tokens_.accept("count")) tokens_.expected(positions ? "'count'" : "'positions' or 'count'");
  results.second = behind_to();
  return results;
}

void LoopTextReader::expect_end(const char* word, const char* line) const {
  if (tokens_.peek().kind != TokenKind::End && !tokens_.at(word)) tokens_.expected(line);
}

Segments LoopTextReader::segments() {
  Segments segments{.count = dim()};
  tokens_.expect_all("by", "offsets", "in");
  segments.offsets = number("the number of a parameter");
  segments.check = optional_check();
  if (tokens_.accept(",")) {
    tokens_.expect_all("begun", "as", "listed", "in");
    segments.work = number("the number of a parameter");
    segments.work_check = optional_check();
  }
  return segments;
}

std::string LoopTextReader::kind() {
  std::vector<std::string_view> names{
#define ANYDIM_KERNEL_KIND(name, Form) #name,
#include "ir/loops/kernel_kinds.def"
#undef ANYDIM_KERNEL_KIND
  };
  for (const std::string_view name : names)
    if (tokens_.accept(name)) return std::string(name);
  const std::string_view last = names.back();
  names.pop_back();
  tokens_.expected(fmt::format("a kind of kernel: {} or {}", fmt::join(names, ", "), last));
}

std::string region_heading(std::string_view word, std::string_view name) {
  return fmt::format("{} {}: ", word, global_text(name));
}

std::string reread_regions(std::string_view text, const std::string& source_name, const char* word,
                           const char* line,
                           const std::function<std::string(TokenStream&)>& reread) {
  return read_alone(text, source_name, line, [&](TokenStream& tokens) {
    std::string all;
    do {
      tokens.expect(word);
      const Token name = tokens.expect(TokenKind::GlobalName, "the name of a region, @name");
      tokens.expect(":");
      if (!all.empty()) all += "\n";
      all += region_heading(word, name.text) + reread(tokens);
    } while (tokens.at(word));
    return all;
  });
}

}  // namespace anydim::ir
