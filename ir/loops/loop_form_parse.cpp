#include "ir/loops/loop_form_parse.h"

#include <cstddef>
#include <tuple>
#include <utility>

#include "ir/loops/loop_text_reader.h"
#include "ir/loops/verify_loop_form.h"

namespace anydim::ir {

namespace {

constexpr const char* heading = "loops";
constexpr const char* line = "another line of the loop form or the end of the text";

class LoopFormParser {
 public:
  explicit LoopFormParser(TokenStream& tokens) : tokens_(tokens), reader_(tokens, form_) {}

  LoopForm parse() {
    const std::size_t begin = tokens_.peek().offset;
    read_kind();
    reader_.expect_end(heading, line);
    reader_.declare_iterations();
    if (const auto flaw = verify_loop_form(form_))
      tokens_.fail(flaw->statement < statements_.size() ? statements_[flaw->statement] : begin,
                   flaw->message);
    return std::move(form_);
  }

 private:
  void read_kind() {
    const std::string kind = reader_.kind();
    reader_.header();
#define ANYDIM_KERNEL_KIND(name, Form) \
  if (kind == #name) form_.kind = name();
#include "ir/loops/kernel_kinds.def"
#undef ANYDIM_KERNEL_KIND
  }

  // Where a line of its own begins, in the order in which the verifier counts them.
  void statement() { statements_.push_back(tokens_.peek().offset); }

  void begin_loops() {
    statement();
    tokens_.expect("for");
  }

  MapForm map() {
    MapForm form;
    while (tokens_.at("for")) {
      begin_loops();
      MapPart& part = form.parts.emplace_back();
      part.space = reader_.space();
      part.program = program();
      part.stores = stores();
    }
    if (form.parts.empty()) tokens_.expect("for");
    return form;
  }

  RowForm rows() {
    RowForm form;
    begin_loops();
    form.outer = reader_.space();
    tokens_.expect("over");
    form.inner = reader_.space();
    form.segments = segments();
    slots(form.scratch, form.accumulators);
    form.stages = row_stages();
    return form;
  }

  MatmulForm matmul() {
    MatmulForm form;
    begin_loops();
    form.batch = points({&form.m, &form.n});
    tokens_.expect("over");
    form.k = reader_.iteration();
    tokens_.expect("in");
    form.accumulate = reader_.dtype();
    if (tokens_.accept("gates")) form.gate = reader_.iteration();
    if (tokens_.accept("left_block")) form.left_block = reader_.number("a number of elements");
    form.left = section("left");
    form.right = section("right");
    form.epilogue = section("epilogue");
    statement();
    tokens_.expect("value");
    form.epilogue_step = reader_.step_name();
    form.stores = stores();
    slots(form.scratch, form.accumulators);
    form.rows = row_stages();
    return form;
  }

  AttentionForm attention() {
    AttentionForm form;
    begin_loops();
    form.batch = points({&form.row, &form.width});
    tokens_.expect("over");
    form.key = reader_.iteration();
    tokens_.expect(",");
    form.depth = reader_.iteration();
    form.zero_nan = tokens_.accept("zero_nan");
    form.segments = segments();
    form.q = section("q");
    form.k = section("k");
    form.v = section("v");
    form.score = section("score");
    form.epilogue = section("epilogue");
    form.stores = stores();
    return form;
  }

  OrderedForm ordered() {
    OrderedForm form;
    begin_loops();
    form.outer = reader_.space();
    while (tokens_.at("in")) {
      statement();
      tokens_.take();
      tokens_.expect("order");
      OrderedStage& stage = form.stages.emplace_back();
      stage.inner = reader_.space();
      stage.conditions = reader_.where();
      stage.program = program();
      while (tokens_.at("carry")) stage.carries.push_back(carry());
      while (const auto combine = update_word()) stage.updates.push_back(update(*combine));
    }
    if (form.stages.empty()) tokens_.expect("in");
    return form;
  }

  CompactForm compact() {
    CompactForm form;
    begin_loops();
    form.space = reader_.space();
    form.program = program();
    statement();
    tokens_.expect("where");
    form.selected = reader_.step_name();
    tokens_.expect(":");
    std::tie(form.positions, form.count) = reader_.compaction();
    return form;
  }

  SortForm sort() {
    SortForm form;
    begin_loops();
    form.outer = reader_.space();
    tokens_.expect("over");
    form.item = reader_.iteration();
    if (tokens_.accept("by")) {
      form.depth = reader_.space();
      if (form.depth.empty()) tokens_.expected("a loop variable, as $d0");
    }
    form.program = program();
    statement();
    tokens_.expect("store");
    form.output = reader_.number("the number of a result");
    form.index = reader_.index();
    tokens_.expect_all("=", "item", "of", "rank");
    form.rank = reader_.iteration();
    tokens_.expect("by");
    form.descending = reader_.descending();
    form.key = reader_.step_name();
    return form;
  }

  // The batch's loops, and the two behind them.
  std::vector<Iteration> points(std::pair<Iteration*, Iteration*> last) {
    std::vector<Iteration> all = reader_.space();
    if (all.size() < 2) tokens_.expected("',' and another loop variable: there are two at least");
    *last.second = std::move(all.back());
    all.pop_back();
    *last.first = std::move(all.back());
    all.pop_back();
    return all;
  }

  std::optional<Segments> segments() {
    if (!tokens_.at("segments")) return std::nullopt;
    statement();
    tokens_.take();
    return reader_.segments();
  }

  void slots(std::vector<DType>& scratch, std::int32_t& accumulators) {
    if (tokens_.accept("scratch")) {
      tokens_.separated([&] { scratch.push_back(reader_.dtype()); });
    }
    if (tokens_.accept("accumulators")) accumulators = reader_.number("how many there are");
  }

  ScalarProgram section(std::string_view name) {
    tokens_.expect(name);
    return program();
  }

  ScalarProgram program() {
    ScalarProgram program;
    while (tokens_.peek().kind == TokenKind::StepName) {
      statement();
      const Token name = tokens_.peek();
      if (reader_.step_name() != static_cast<std::int32_t>(program.steps.size()))
        tokens_.fail(name, "expected the next step, #{}, found '#{}'", program.steps.size(),
                     name.text);
      tokens_.expect(":");
      const DType dtype = reader_.dtype();
      tokens_.expect("=");
      program.steps.push_back(reader_.step(dtype));
    }
    return program;
  }

  std::vector<RowStage> row_stages() {
    std::vector<RowStage> stages;
    while (tokens_.at("stage") || tokens_.at("row")) {
      RowStage& stage = stages.emplace_back();
      stage.per_row = tokens_.take().text == "row";
      if (stage.per_row) tokens_.expect("result");
      stage.program = program();
      while (tokens_.at("scratch")) {
        statement();
        tokens_.take();
        RowStage::Keep keep{.slot = reader_.number("the number of a slot")};
        tokens_.expect("=");
        keep.step = reader_.step_name();
        stage.keeps.push_back(keep);
      }
      while (tokens_.at("accumulated")) stage.reductions.push_back(reduction());
      stage.stores = stores();
    }
    return stages;
  }

  RowStage::Reduction reduction() {
    statement();
    tokens_.take();
    RowStage::Reduction reduction{.slot = reader_.number("the number of a slot")};
    tokens_.expect(":");
    reduction.dtype = reader_.dtype();
    tokens_.expect("=");
    reduction.kind = reader_.reduce();
    tokens_.expect("of");
    reduction.step = reader_.step_name();
    return reduction;
  }

  std::vector<Store> stores() {
    std::vector<Store> stores;
    while (tokens_.at("store")) {
      statement();
      tokens_.take();
      stores.push_back(store());
    }
    return stores;
  }

  // Behind its word.
  Store store() {
    Store store;
    store.output = reader_.number("the number of a result");
    store.index = reader_.index();
    tokens_.expect("=");
    store.step = reader_.step_name();
    return store;
  }

  OrderedStage::Carry carry() {
    statement();
    tokens_.take();
    OrderedStage::Carry carry{.slot = reader_.number("the number of a slot")};
    tokens_.expect(":");
    carry.dtype = reader_.dtype();
    tokens_.expect("=");
    carry.next = reader_.step_name();
    return carry;
  }

  // What the next update combines with; nothing where none follows.
  std::optional<std::optional<Op>> update_word() {
    if (tokens_.at("store")) return std::optional<Op>();
    if (tokens_.peek().kind != TokenKind::Identifier || tokens_.at("in")) return std::nullopt;
    if (const std::optional<Op> op = op_named(tokens_.peek().text)) return op;
    return std::nullopt;
  }

  OrderedStage::Update update(std::optional<Op> combine) {
    statement();
    tokens_.take();
    return {store(), combine};
  }

  TokenStream& tokens_;
  LoopForm form_;
  LoopTextReader reader_;
  std::vector<std::size_t> statements_;
};

}  // namespace

LoopForm parse_loop_form(std::string_view text, const std::string& source_name) {
  return read_alone(text, source_name, line,
                    [](TokenStream& tokens) { return LoopFormParser(tokens).parse(); });
}

std::string reread_loop_forms(std::string_view text, const std::string& source_name) {
  return reread_regions(text, source_name, heading, line, [](TokenStream& tokens) {
    return to_string(LoopFormParser(tokens).parse());
  });
}

}  // namespace anydim::ir
