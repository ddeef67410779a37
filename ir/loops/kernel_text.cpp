#include "ir/loops/kernel_text.h"

#include <fmt/format.h>

#include <functional>
#include <set>
#include <span>

#include "ir/loops/loop_form_text.h"
#include "ir/loops/step_placer.h"

namespace anydim::ir {

namespace {

using loop_form_text::describe_step;
using loop_form_text::listed;
using loop_form_text::where;

using Space = std::span<const Iteration>;

// Lines of an inner scope join the outer one's when the inner one ends, so that what is placed
// further out meanwhile stands before them.
class TextScope {
 public:
  explicit TextScope(TextScope* parent = nullptr)
      : parent_(parent), depth_(parent ? parent->depth_ + 1 : 1) {}
  TextScope(const TextScope&) = delete;
  TextScope& operator=(const TextScope&) = delete;

  TextScope* parent() const { return parent_; }
  int depth() const { return depth_; }
  void define(const DimLeaf& leaf) { leaves_.insert(leaf); }
  bool find(const DimLeaf& leaf, TextScope** home) {
    for (TextScope* scope = this; scope != nullptr; scope = scope->parent_) {
      if (!scope->leaves_.contains(leaf)) continue;
      *home = scope;
      return true;
    }
    return false;
  }

  void line(const std::string& text) { text_ += fmt::format("{:{}}{}\n", "", 2 * depth_, text); }
  void inner(const std::string& header, const std::function<void(TextScope&)>& body) {
    TextScope scope(this);
    body(scope);
    line(header);
    text_ += scope.text_;
  }
  // A scope for each loop of the space, the body in the innermost.
  void loops(Space space, const std::function<void(TextScope&)>& body) {
    if (space.empty()) return body(*this);
    inner(fmt::format("for {}", listed(std::vector<Iteration>{space.front()})),
          [&](TextScope& scope) {
            scope.define(space.front().variable);
            scope.loops(space.subspan(1), body);
          });
  }
  const std::string& text() const { return text_; }

  PlacedSteps<std::string> steps;

 private:
  TextScope* parent_;
  int depth_;
  std::string text_;
  std::set<DimLeaf> leaves_;
};

class TextProgram : public StepPlacer<TextScope, std::string> {
 public:
  // Keeps `symbols` by reference.
  TextProgram(SymbolTable& symbols, const ScalarProgram& program, TextScope& floor,
              const std::vector<std::int32_t>& roots)
      : StepPlacer(KernelProgram(program, roots, 0, symbols), floor), symbols_(symbols) {}

  void set_accumulated(std::int32_t slot, TextScope& home) { accumulated_[slot] = &home; }
  // Where elements of scratch are read.
  void set_point(TextScope& point) { point_ = &point; }

  void store(TextScope& scope, const Store& store,
             const std::optional<Op>& combine = std::nullopt) {
    for (const Dim& dim : store.index) place_indices(scope, dim);
    const std::string stored = value(scope, store.step);
    scope.line(fmt::format("{} {}[{}] = {}", combine ? info(*combine).text : "store", store.output,
                           listed(store.index), stored));
  }

 private:
  std::optional<Placed> given(std::int32_t step) override {
    const ScalarStep& wanted = program().step(step);
    if (wanted.kind != ScalarStep::Kind::Accumulated) return std::nullopt;
    return Placed{describe_step(wanted, {}), accumulated_.at(wanted.slot)};
  }
  Interval interval_of(const Dim& dim) override { return bounds(dim, symbols_); }
  TextScope& outermost_of(TextScope&, std::int32_t step, TextScope& floor) override {
    return program().step(step).kind == ScalarStep::Kind::Scratch ? *point_ : floor;
  }
  std::string emit(TextScope& home, std::int32_t step,
                   const std::vector<std::string>& operands) override {
    const ScalarStep& placed = program().step(step);
    std::string text = describe_step(placed, operands);
    std::string mask;
    if (placed.kind == ScalarStep::Kind::Load) mask = load_mask(home, step);
    else if (placed.check >= 0) mask = mask_of(home, step);
    if (!mask.empty()) text += " if " + mask;
    if (placed.kind == ScalarStep::Kind::CheckedIndex) home.define(program().leaf_of(step));
    return named(home, step, placed.dtype, text);
  }
  std::string holds(TextScope&, const ScalarStep::Condition& condition) override {
    return loop_form_text::conditions({condition});
  }
  std::string always(TextScope&) override { return "always"; }
  std::string both(TextScope&, const std::string& a, const std::string& b) override {
    return a + " and " + b;
  }
  std::string either(TextScope&, const std::string& a, const std::string& b) override {
    return fmt::format("({}) or ({})", a, b);
  }
  std::string reciprocal(TextScope& scope, std::int32_t divisor,
                         const std::string& value) override {
    const std::string name = fmt::format("#1/{}", divisor);
    scope.line(fmt::format("{}: f32 = reciprocal({})", name, value));
    return name;
  }
  std::string product(TextScope& scope, std::int32_t step, const std::string& a,
                      const std::string& b) override {
    return named(scope, step, DType::F32, fmt::format("mul({}, {})", a, b));
  }

  static std::string named(TextScope& scope, std::int32_t step, DType dtype,
                           const std::string& text) {
    const std::string name = to_string(step_leaf(step));
    scope.line(fmt::format("{}: {} = {}", name, name_of(dtype), text));
    return name;
  }

  const SymbolTable& symbols_;
  std::map<std::int32_t, TextScope*> accumulated_;
  TextScope* point_ = nullptr;
};

std::vector<std::int32_t> steps_of(const std::vector<Store>& stores) {
  std::vector<std::int32_t> steps;
  for (const Store& store : stores) steps.push_back(store.step);
  return steps;
}

class KernelText {
 public:
  explicit KernelText(const LoopForm& form) : form_(form), symbols_(form.symbols) {
    for (const std::string& symbol : form.symbols.names()) root_.define({.symbol = symbol});
    std::visit([this](const auto& kind) { write(kind); }, form.kind);
  }
  std::string text() const { return kind_name(form_) + "\n" + root_.text(); }

 private:
  void write(const MapForm& form) {
    for (const MapPart& part : form.parts) {
      section(root_, form.parts.size() > 1 ? "part" : "", [&](TextScope& floor) {
        TextProgram program(symbols_, part.program, floor, steps_of(part.stores));
        floor.loops(part.space, [&](TextScope& point) {
          for (const Store& store : part.stores) program.store(point, store);
        });
      });
    }
  }

  void write(const RowForm& form) {
    root_.loops(form.outer,
                [&](TextScope& row) { write(row, form.inner, form.stages, form.accumulators); });
  }

  // The stages of one row. A result is known from the end of its stage on.
  void write(TextScope& row, Space inner, const std::vector<RowStage>& stages,
             std::int32_t accumulators) {
    for (const RowStage& stage : stages) {
      std::vector<std::int32_t> roots = steps_of(stage.stores);
      for (const auto& reduction : stage.reductions) roots.push_back(reduction.step);
      for (const auto& keep : stage.keeps) roots.push_back(keep.step);
      section(row, stage.per_row ? "row result" : "stage", [&](TextScope& floor) {
        TextProgram program(symbols_, stage.program, floor, roots);
        for (std::int32_t slot = 0; slot < accumulators; ++slot) program.set_accumulated(slot, row);
        floor.loops(stage.per_row ? Space() : inner, [&](TextScope& point) {
          program.set_point(point);
          for (const auto& keep : stage.keeps)
            keep_in(point, fmt::format("scratch {}", keep.slot), program.value(point, keep.step));
          for (const auto& reduction : stage.reductions) {
            const std::string value = program.value(point, reduction.step);
            keep_in(point,
                    fmt::format("accumulated {}: {}", reduction.slot, name_of(reduction.dtype)),
                    stage.per_row
                        ? value
                        : fmt::format("{} of {}", loop_form_text::name_of(reduction.kind), value));
          }
          for (const Store& store : stage.stores) program.store(point, store);
        });
      });
    }
  }

  void write(const MatmulForm& form) {
    element("left", form.left, loops(form.batch, {form.m, form.k}));
    element("right", form.right, loops(form.batch, {form.k, form.n}));
    const std::vector<Iteration> rows = loops(form.batch, {form.m});
    section(root_, "epilogue", [&](TextScope& floor) {
      std::vector<std::int32_t> roots = steps_of(form.stores);
      roots.push_back(form.epilogue_step);
      TextProgram program(symbols_, form.epilogue, floor, roots);
      floor.loops(rows, [&](TextScope& row) {
        row.loops({&form.n, 1}, [&](TextScope& point) {
          program.set_accumulated(0, point);
          for (const Store& store : form.stores) program.store(point, store);
          if (!form.rows.empty())
            keep_in(point, "scratch 0", program.value(point, form.epilogue_step));
        });
        write(row, {&form.n, 1}, form.rows, form.accumulators);
      });
    });
  }

  void write(const AttentionForm& form) {
    element("q", form.q, loops(form.batch, {form.row, form.depth}));
    element("k", form.k, loops(form.batch, {form.key, form.depth}));
    element("v", form.v, loops(form.batch, {form.key, form.width}));
    element("score", form.score, loops(form.batch, {form.row, form.key}));
    section(root_, "epilogue", [&](TextScope& floor) {
      TextProgram program(symbols_, form.epilogue, floor, steps_of(form.stores));
      floor.loops(loops(form.batch, {form.row, form.width}), [&](TextScope& point) {
        program.set_accumulated(0, point);
        for (const Store& store : form.stores) program.store(point, store);
      });
    });
  }

  // Nothing leaves a point: what it reads may differ from what the point before it read.
  void write(const OrderedForm& form) {
    root_.loops(form.outer, [&](TextScope& row) {
      for (const OrderedStage& stage : form.stages) {
        section(row, "in order" + where(stage.conditions), [&](TextScope& floor) {
          floor.loops(stage.inner, [&](TextScope& point) {
            std::vector<std::int32_t> roots;
            for (const auto& update : stage.updates) roots.push_back(update.store.step);
            for (const auto& carry : stage.carries) roots.push_back(carry.next);
            TextProgram program(symbols_, stage.program, point, roots);
            for (const auto& carry : stage.carries) program.set_accumulated(carry.slot, point);
            for (const auto& update : stage.updates)
              program.store(point, update.store, update.combine);
            for (const auto& carry : stage.carries)
              keep_in(point, fmt::format("carry {}: {}", carry.slot, name_of(carry.dtype)),
                      program.value(point, carry.next));
          });
        });
      }
    });
  }

  void write(const CompactForm& form) {
    root_.loops(form.space, [&](TextScope& point) {
      TextProgram program(symbols_, form.program, point, {form.selected});
      const std::string selected = program.value(point, form.selected);
      point.line(fmt::format("where {}: positions to {}, count to {}", selected, form.positions,
                             form.count));
    });
  }

  void write(const SortForm& form) {
    root_.loops(form.outer, [&](TextScope& row) {
      row.loops({&form.item, 1}, [&](TextScope& item) {
        item.loops(form.depth, [&](TextScope& point) {
          TextProgram program(symbols_, form.program, item, {form.key});
          keep_in(point, "key", program.value(point, form.key));
        });
      });
      row.line(fmt::format("store {}[{}] = item of rank {}, {}", form.output, listed(form.index),
                           to_string(form.rank), form.descending ? "falling" : "rising"));
    });
  }

  // A program whose last step is an element that the kernel's own loops read.
  void element(const char* name, const ScalarProgram& steps, const std::vector<Iteration>& space) {
    section(root_, name, [&](TextScope& floor) {
      const auto last = static_cast<std::int32_t>(steps.steps.size()) - 1;
      TextProgram program(symbols_, steps, floor, {last});
      floor.loops(space, [&](TextScope& point) {
        program.set_accumulated(0, point);
        keep_in(point, "element", program.value(point, last));
      });
    });
  }

  static void section(TextScope& scope, const std::string& header,
                      const std::function<void(TextScope&)>& body) {
    if (header.empty()) body(scope);
    else scope.inner(header, body);
  }
  static void keep_in(TextScope& scope, const std::string& what, const std::string& value) {
    scope.line(fmt::format("{} = {}", what, value));
  }
  static std::vector<Iteration> loops(const std::vector<Iteration>& batch,
                                      std::initializer_list<Iteration> more) {
    std::vector<Iteration> all = batch;
    all.insert(all.end(), more);
    return all;
  }

  const LoopForm& form_;
  SymbolTable symbols_;
  TextScope root_;
};

}  // namespace

std::string kernel_text(const LoopForm& form) { return KernelText(form).text(); }

}  // namespace anydim::ir
