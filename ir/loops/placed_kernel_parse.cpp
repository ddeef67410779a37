#include "ir/loops/placed_kernel_parse.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "ir/loops/kernel_program.h"
#include "ir/loops/loop_text_reader.h"
#include "ir/loops/placed_kernel_text.h"
#include "ir/loops/verify_placed_kernel.h"

namespace anydim::ir {

namespace {

using Section = KernelSection::Kind;

constexpr const char* heading = "kernel";
constexpr const char* line = "another line of the kernel or the end of the text";

class KernelParser {
 public:
  explicit KernelParser(TokenStream& tokens) : tokens_(tokens), reader_(tokens, header_) {
    reader_.read_operands_with([this] {
      operands_.push_back(value());
      return std::int32_t{0};
    });
  }

  PlacedKernel parse() {
    const std::size_t begin = tokens_.peek().offset;
    PlacedKernel kernel;
    kernel.kind = reader_.kind();
    if (tokens_.accept("in")) kernel.product = reader_.dtype();
    if (kernel.product && tokens_.accept("gates"))
      kernel.gates = reader_.number("a number of gates");
    reader_.header();
    if (tokens_.accept("segments")) kernel.segments = reader_.segments();
    while (at_statement()) kernel.body.push_back(statement());
    reader_.expect_end(heading, line);
    reader_.declare_iterations();
    kernel.parameters = std::move(header_.parameters);
    kernel.results = std::move(header_.results);
    kernel.checks = std::move(header_.checks);
    kernel.symbols = std::move(header_.symbols);
    for (const auto& [leaf, extent] : indices_) declare_checked_index(leaf, extent, kernel.symbols);
    if (const auto flaw = verify_placed_kernel(kernel))
      tokens_.fail(flaw->statement < statements_.size() ? statements_[flaw->statement] : begin,
                   flaw->message);
    return kernel;
  }

 private:
  std::optional<Section> at_section() const {
    for (int i = 0; i <= static_cast<int>(Section::InOrder); ++i) {
      const auto kind = static_cast<Section>(i);
      const std::string_view name = name_of(kind);
      if (tokens_.at(name.substr(0, name.find(' ')))) return kind;
    }
    return std::nullopt;
  }

  bool at_statement() const {
    return tokens_.peek().kind == TokenKind::StepName || at_section() || update_word() ||
           std::ranges::any_of(words_, [&](const char* word) { return tokens_.at(word); });
  }

  // What a store combines with; nothing where no store is next.
  std::optional<std::optional<Op>> update_word() const {
    if (tokens_.at("store")) return std::optional<Op>();
    for (const Op op : {Op::add, Op::mul, Op::min, Op::max})
      if (tokens_.at(info(op).text)) return std::optional(op);
    return std::nullopt;
  }

  KernelStatement statement() {
    statements_.push_back(tokens_.peek().offset);
    if (tokens_.peek().kind == TokenKind::StepName) return step();
    if (const auto kind = at_section()) return section(*kind);
    if (const auto combine = update_word()) return store(*combine);
    const std::string word = tokens_.take().text;
    if (word == "for") {
      Iteration loop = reader_.iteration();
      return {KernelLoop{std::move(loop), block()}};
    }
    if (word == "where") return {selection()};
    return {keep(word)};
  }

  KernelBlock block() {
    const TokenStream::Nesting nesting(tokens_);
    tokens_.expect("{");
    KernelBlock body;
    while (at_statement()) body.push_back(statement());
    if (!tokens_.accept("}")) tokens_.expected("a statement of the kernel or '}'");
    return body;
  }

  KernelStatement section(Section kind) {
    tokens_.take();
    if (kind == Section::RowResult) tokens_.expect("result");
    if (kind == Section::InOrder) tokens_.expect("order");
    std::vector<ScalarStep::Condition> conditions = reader_.where();
    return {KernelSection{kind, std::move(conditions), block()}};
  }

  KernelStatement step() {
    const Token token = tokens_.peek();
    const KernelValue name = value();
    tokens_.expect(":");
    const DType dtype = reader_.dtype();
    tokens_.expect("=");
    if (name.kind == KernelValue::Kind::Inverse) {
      if (dtype != DType::F32) tokens_.fail(token, "expected a reciprocal of f32");
      tokens_.expect("reciprocal");
      tokens_.expect("(");
      const KernelValue of = value();
      tokens_.expect(")");
      return {PlacedInverse{name.program, name.number, of}};
    }
    operands_.clear();
    PlacedStep placed{name.program, name.number, reader_.step(dtype), {}, {}};
    placed.step.operands.clear();
    placed.operands = std::move(operands_);
    placed.mask = mask();
    if (const auto* index = std::get_if<step::CheckedIndex>(&placed.step.kind))
      indices_.emplace_back(step_leaf(placed.number, placed.program), index->extent);
    return {std::move(placed)};
  }

  KernelStatement store(std::optional<Op> combine) {
    tokens_.take();
    PlacedStore store;
    store.combine = combine;
    store.output = reader_.number("the number of a result");
    store.index = reader_.index();
    tokens_.expect("=");
    if (!combine && tokens_.at("item")) return {ranking(store.output, std::move(store.index))};
    store.value = value();
    store.mask = mask();
    return {std::move(store)};
  }

  PlacedRanking ranking(std::int32_t output, std::vector<Dim> index) {
    tokens_.expect_all("item", "of", "rank");
    PlacedRanking ranking{output, std::move(index), reader_.iteration(), false};
    tokens_.expect(",");
    ranking.descending = reader_.descending();
    return ranking;
  }

  PlacedSelection selection() {
    PlacedSelection selection{.selected = value()};
    tokens_.expect(":");
    std::tie(selection.positions, selection.count) = reader_.compaction();
    return selection;
  }

  PlacedKeep keep(const std::string& word) {
    using Kind = PlacedKeep::Kind;
    PlacedKeep keep;
    keep.kind = word == "scratch"       ? Kind::Scratch
                : word == "accumulated" ? Kind::Accumulated
                : word == "carry"       ? Kind::Carry
                : word == "key"         ? Kind::Key
                                        : Kind::Element;
    if (keep.kind != Kind::Key && keep.kind != Kind::Element)
      keep.slot = reader_.number("the number of a slot");
    if (keep.kind == Kind::Accumulated || keep.kind == Kind::Carry) {
      tokens_.expect(":");
      keep.dtype = reader_.dtype();
    }
    tokens_.expect("=");
    if (keep.kind == Kind::Accumulated) {
      keep.reduce = reader_.reduce();
      tokens_.expect("of");
    }
    keep.value = value();
    return keep;
  }

  KernelMask mask() {
    KernelMask mask;
    if (!tokens_.accept("if")) return mask;
    do mask.alternatives.push_back(reader_.conditions());
    while (tokens_.accept("or"));
    return mask;
  }

  // #3, #1.3, #1.3.inverse or accumulated 0
  KernelValue value() {
    if (tokens_.accept("accumulated"))
      return {KernelValue::Kind::Accumulated, 0, reader_.number("the number of a slot")};
    const Token token =
        tokens_.expect(TokenKind::StepName, "a step, # and its number, or 'accumulated'");
    constexpr std::string_view inverse = ".inverse";
    const bool inverted = token.text.ends_with(inverse);
    const DimLeaf step = reader_.step_leaf_of(
        token, token.text.substr(0, token.text.size() - (inverted ? inverse.size() : 0)));
    return {inverted ? KernelValue::Kind::Inverse : KernelValue::Kind::Step, step.value,
            step.step()};
  }

  static constexpr const char* words_[] = {"for",     "scratch", "accumulated", "carry",
                                           "element", "key",     "where"};

  TokenStream& tokens_;
  LoopForm header_;  // types, symbols and checks
  LoopTextReader reader_;
  std::vector<KernelValue> operands_;             // of the step that is read
  std::vector<std::pair<DimLeaf, Dim>> indices_;  // checked, and below what
  std::vector<std::size_t> statements_;           // where each begins
};

}  // namespace

PlacedKernel parse_kernel(std::string_view text, const std::string& source_name) {
  return read_alone(text, source_name, line,
                    [](TokenStream& tokens) { return KernelParser(tokens).parse(); });
}

std::string reread_kernels(std::string_view text, const std::string& source_name) {
  return reread_regions(text, source_name, heading, line, [](TokenStream& tokens) {
    return to_string(KernelParser(tokens).parse());
  });
}

}  // namespace anydim::ir
