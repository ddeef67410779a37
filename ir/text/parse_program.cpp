#include "ir/text/parse_program.h"

#include <memory>
#include <utility>

#include "ir/loops/loop_text_reader.h"
#include "ir/number_text.h"
#include "ir/quote.h"
#include "ir/region.h"
#include "ir/shapes/relation_text.h"
#include "ir/text/policy_text.h"
#include "ir/text/program_reader.h"
#include "ir/text/tensor_text.h"
#include "ir/verify_program.h"

namespace anydim::ir {

namespace {

// The elements of a constant that the text does not hold.
class LeftOut : public TensorSource {
 public:
  void read(std::span<std::byte>) const override {
    throw Error(ErrorKind::Malformed,
                "the text of a program has not the elements of its large constants");
  }
};

class ProgramParser : CodeParser {
 public:
  using CodeParser::CodeParser;

  Program parse() {
    const std::size_t begin = tokens_.peek().offset;
    tokens_.expect("program");
    program_.functions.clear();
    while (tokens_.accept("policy")) program_.policies.push_back(read_policy_choice(tokens_));
    tokens_.expect("ceiling");
    // Elements of the entry's tensors, by their numbers in the module that was lowered.
    scope_.value = [this](const Token& name) {
      const auto id = parsed_number<ValueId>(name.text);
      if (!id) tokens_.fail(name, "expected the number of a tensor, as %7");
      return *id;
    };
    program_.arena_ceiling = dim();
    scope_.value = nullptr;
    if (tokens_.accept("unbounded")) {
      tokens_.expect("because");
      program_.unbounded = string("the cause, quoted");
    }
    while (tokens_.accept("constant")) constant();
    while (tokens_.accept("kernel")) kernel();
    while (tokens_.accept("stage")) stage();
    while (tokens_.accept("function")) function();
    if (tokens_.peek().kind != TokenKind::End)
      tokens_.expected("a constant, a kernel, a stage, a function or the end of the text");
    if (!state_.references.empty())
      tokens_.fail(state_.references.front().name, "a region calls nothing");
    if (const auto flaw = verify_program(program_)) {
      const bool located = flaw->function && flaw->instruction;
      tokens_.fail(located          ? instructions_.at(*flaw->function).at(*flaw->instruction)
                   : flaw->function ? functions_.at(*flaw->function)
                                    : begin,
                   flaw->message);
    }
    return std::move(program_);
  }

 private:
  void constant() {
    next_number(program_.constants.size(), "the constant's number");
    Program::Constant constant;
    constant.name = string("the name of the constant, quoted");
    if (tokens_.accept("elsewhere")) {
      const std::size_t begin = tokens_.peek().offset;
      const DType dtype = read_dtype(tokens_);
      std::vector<std::int64_t> dims = list([this] { return read_integer(tokens_, "an extent"); });
      try {
        constant.tensor = Tensor(dtype, std::move(dims), std::make_shared<const LeftOut>());
      } catch (const Error& error) {
        tokens_.fail(begin, error.what());
      }
    } else {
      constant.tensor = read_tensor(tokens_, constant.name, {});
    }
    if (tokens_.accept("packed")) {
      tokens_.expect("as");
      PackedLayout layout;
      layout.name = string("the name of the layout, quoted");
      layout.fields = list([this] { return read_integer(tokens_, "a field of the layout"); });
      constant.layout = std::move(layout);
      tokens_.expect_all("for", "parameter");
      constant.parameter = number("the number of a parameter");
      tokens_.expect_all("of", "kernel");
      constant.region = number("the number of a kernel");
    }
    program_.constants.push_back(std::move(constant));
  }

  void kernel() {
    next_number(program_.kernels.size(), "the kernel's number");
    Program::Kernel kernel;
    tokens_.expect("keys");
    std::vector<Dim> keys = list([this] { return dim(); });
    LoopForm checks;
    LoopTextReader(tokens_, checks).checks();
    kernel.checks = std::move(checks.checks);
    while (tokens_.at("[") || tokens_.at("any")) kernel.table.entries.push_back(entry());
    tokens_.expect("region");
    const Token name = tokens_.expect(TokenKind::GlobalName, "the name of a region, @name");
    kernel.region.name = name.text;
    kernel.region.body =
        FunctionParser(state_, FunctionParser::Kind::Region).parse(name.text, &kernel.region);
    kernel.region.keys = std::move(keys);
    seal(kernel.region);
    program_.kernels.push_back(std::move(kernel));
  }

  DispatchTable::Entry entry() {
    DispatchTable::Entry entry;
    entry.bucket = bucket();
    tokens_.expect(":");
    entry.schedule = schedule();
    while (tokens_.accept(",")) {
      if (tokens_.accept("code")) {
        tokens_.expect("for");
        entry.kernel = bucket();
        continue;
      }
      tokens_.expect_all("tuned", ",");
      const bool measured = tokens_.accept("measured");
      if (!measured) tokens_.expect("predicted");
      entry.origin = measured ? EntryOrigin::TunedMeasured : EntryOrigin::TunedPredicted;
    }
    return entry;
  }

  Bucket bucket() {
    Bucket bucket;
    if (tokens_.accept("any")) return bucket;
    do {
      BucketInterval& interval = bucket.intervals.emplace_back();
      tokens_.expect("[");
      interval.low = read_integer(tokens_, "the least value of the key");
      tokens_.expect(",");
      interval.high = read_integer(tokens_, "the greatest value of the key");
      tokens_.expect("]");
      if (tokens_.accept("multiple")) interval.multiple = number("the number that divides the key");
      if (interval.multiple < 1) tokens_.expected("a multiple of 1 at least");
    } while (tokens_.accept("x"));
    return bucket;
  }

  Schedule schedule() {
    Schedule schedule;
    schedule.name = tokens_.expect(TokenKind::Identifier, "the name of a schedule").text;
    while (tokens_.peek().kind == TokenKind::Identifier && !tokens_.at("region") &&
           !tokens_.at("any")) {
      std::string field = tokens_.take().text;
      tokens_.expect("=");
      schedule.fields.emplace_back(std::move(field), read_integer(tokens_, "a number"));
    }
    return schedule;
  }

  void stage() {
    next_number(program_.stages.size(), "the stage's number");
    Program::Stage stage;
    tokens_.expect("arena");
    stage.arena_bytes = slot();
    tokens_.expect("from");
    stage.first = slot();
    std::map<std::string, ValueId> ids;
    if (tokens_.accept("tensors")) {
      list([&] {
        const Token name = tokens_.expect(TokenKind::ValueName, "the name of a tensor, %name");
        const auto id = static_cast<ValueId>(ids.size());
        if (!ids.emplace(name.text, id).second) tokens_.fail(name, "the tensor is named twice");
        stage.tensors.emplace(id, name.text);
        return id;
      });
    }
    scope_.value = [&](const Token& name) {
      const auto found = ids.find(name.text);
      if (found == ids.end())
        tokens_.fail(name, "{} is none of the stage's tensors", value_text(name.text));
      return found->second;
    };
    while (tokens_.accept("leaf")) {
      const Token begin = tokens_.peek();
      const Dim leaf = dim();
      if (leaf.kind() != Dim::Kind::Symbol && leaf.kind() != Dim::Kind::Value)
        tokens_.fail(begin, "expected a symbol or an element of a tensor");
      stage.shapes.leaves.push_back(leaf.leaf());
      tokens_.expect("is");
      stage.leaves.push_back(slot());
    }
    while (tokens_.peek().kind == TokenKind::Identifier && !at_part()) {
      const Token begin = tokens_.peek();
      const auto wanted = static_cast<std::int64_t>(stage.first) +
                          static_cast<std::int64_t>(stage.shapes.expressions.size());
      if (slot() != wanted)
        tokens_.fail(begin, "expected the next slot, s{}, found '{}'", wanted, begin.text);
      tokens_.expect("=");
      stage.shapes.expressions.push_back(dim());
    }
    scope_.value = nullptr;
    while (tokens_.accept("check")) stage.checks.push_back(check());
    program_.stages.push_back(std::move(stage));
  }

  bool at_part() const {
    return tokens_.at("check") || tokens_.at("stage") || tokens_.at("function");
  }

  Program::Check check() {
    Program::Check check{};
    check.left = slot();
    const std::optional<Relation> relation = relation_named(tokens_.peek().text);
    if (!relation)
      tokens_.expected(
          "equal, broadcastable, expands_to, less_equal, greater_equal, not_zero or "
          "multiple_of");
    tokens_.take();
    check.relation = *relation;
    check.right = slot();
    tokens_.expect(":");
    check.what = string("what is checked, quoted");
    return check;
  }

  void function() {
    functions_.push_back(tokens_.peek().offset);
    next_number(program_.functions.size(), "the function's number");
    program_.functions.push_back(code(instructions_.emplace_back()));
  }

  Program program_;
  std::vector<std::size_t> functions_;                  // where each begins
  std::vector<std::vector<std::size_t>> instructions_;  // of each function
};

}  // namespace

Program parse_program(std::string_view text, const std::string& source_name) {
  return ProgramParser(text, source_name).parse();
}

}  // namespace anydim::ir
