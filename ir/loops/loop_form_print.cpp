#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/error.h"
#include "ir/loops/loop_form_text.h"

namespace anydim::ir {

namespace loop_form_text {

std::string listed(const std::vector<Dim>& dims) {
  std::string text;
  for (const Dim& dim : dims) text += (text.empty() ? "" : ", ") + dim.to_string();
  return text;
}

std::string listed(const std::vector<Iteration>& space) {
  std::string text;
  for (const Iteration& iteration : space)
    text += fmt::format("{}{} < {}", text.empty() ? "" : ", ", to_string(iteration.variable),
                        iteration.extent.to_string());
  return text;
}

std::string where(const std::vector<ScalarStep::Condition>& conditions) {
  static constexpr const char* signs[] = {"==", "!=", "<", "<="};
  std::string text;
  for (const auto& condition : conditions)
    text +=
        fmt::format("{}{} {} {}", text.empty() ? " where " : " and ", condition.left.to_string(),
                    signs[static_cast<int>(condition.comparison)], condition.right.to_string());
  return text;
}

std::string describe_step(const ScalarStep& step, const std::vector<std::string>& names) {
  const std::string operands = fmt::format("{}", fmt::join(names, ", "));
  switch (step.kind) {
    case ScalarStep::Kind::Constant:
      return is_float(step.dtype) ? fmt::format("{}", step.real) : fmt::format("{}", step.integer);
    case ScalarStep::Kind::Extent: return listed(step.index);
    case ScalarStep::Kind::Load: return fmt::format("load {}[{}]", step.buffer, listed(step.index));
    case ScalarStep::Kind::Apply: return fmt::format("{}({})", info(step.op).text, operands);
    case ScalarStep::Kind::CheckedIndex:
      return fmt::format("index({}) below {}", operands, listed(step.index));
    case ScalarStep::Kind::Guarded:
      return fmt::format("guarded({}){}", operands, where(step.conditions));
    case ScalarStep::Kind::Accumulated: return fmt::format("accumulated {}", step.slot);
    case ScalarStep::Kind::Scratch: return fmt::format("scratch {}", step.slot);
  }
  internal_error("every kind of step is described");
}

std::string_view name_of(Reduce reduce) {
  static constexpr std::string_view names[] = {"sum", "product", "max", "min"};
  return names[static_cast<std::size_t>(reduce)];
}

}  // namespace loop_form_text

namespace {

using loop_form_text::describe_step;
using loop_form_text::listed;
using loop_form_text::where;

void print(std::string& text, const ScalarProgram& program, int indent) {
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const ScalarStep& step = program.steps[i];
    std::vector<std::string> operands;
    for (const std::int32_t operand : step.operands)
      operands.push_back(to_string(step_leaf(operand)));
    text += fmt::format("{:{}}#{}: {} = {}\n", "", indent, i, name_of(step.dtype),
                        describe_step(step, operands));
  }
}

void print(std::string& text, const std::vector<Store>& stores, int indent) {
  for (const Store& store : stores)
    text += fmt::format("{:{}}store {}[{}] = #{}\n", "", indent, store.output, listed(store.index),
                        store.step);
}

void print(std::string& text, const std::vector<RowStage>& stages) {
  for (const RowStage& stage : stages) {
    text += stage.per_row ? "  row result\n" : "  stage\n";
    print(text, stage.program, 4);
    for (const auto& keep : stage.keeps)
      text += fmt::format("    scratch {} = #{}\n", keep.slot, keep.step);
    for (const auto& reduction : stage.reductions)
      text += fmt::format("    accumulated {}: {} = {} of #{}\n", reduction.slot,
                          name_of(reduction.dtype), loop_form_text::name_of(reduction.kind),
                          reduction.step);
    print(text, stage.stores, 4);
  }
}

struct Printer {
  std::string& text;

  void operator()(const MapForm& form) const {
    text += "map\n";
    for (const MapPart& part : form.parts) {
      text += fmt::format("  for {}\n", listed(part.space));
      print(text, part.program, 4);
      print(text, part.stores, 4);
    }
  }
  void operator()(const RowForm& form) const {
    text += fmt::format("rows for {} over {}\n", listed(form.outer), listed(form.inner));
    print_segments(form.segments);
    print(text, form.stages);
  }
  void operator()(const MatmulForm& form) const {
    text += fmt::format("matmul for {}{}{}, over {}\n", listed(form.batch),
                        form.batch.empty() ? "" : ", ", listed({form.m, form.n}), listed({form.k}));
    section("left", form.left);
    section("right", form.right);
    section("epilogue", form.epilogue);
    text += fmt::format("    value #{}\n", form.epilogue_step);
    print(text, form.stores, 4);
    print(text, form.rows);
  }
  void operator()(const AttentionForm& form) const {
    text += fmt::format("attention for {}{}{}, over {}\n", listed(form.batch),
                        form.batch.empty() ? "" : ", ", listed({form.row, form.width}),
                        listed({form.key, form.depth}));
    print_segments(form.segments);
    section("q", form.q);
    section("k", form.k);
    section("v", form.v);
    section("score", form.score);
    section("epilogue", form.epilogue);
    print(text, form.stores, 4);
  }
  void print_segments(const std::optional<Segments>& segments) const {
    if (!segments) return;
    text += fmt::format("  segments: {} by offsets in {}", segments->count.to_string(),
                        segments->offsets);
    text += segments->work >= 0 ? fmt::format(", begun as listed in {}\n", segments->work) : "\n";
  }
  void operator()(const OrderedForm& form) const {
    text += fmt::format("ordered for {}\n", listed(form.outer));
    for (const OrderedStage& stage : form.stages) {
      text += fmt::format("  in order {}{}\n", listed(stage.inner), where(stage.conditions));
      print(text, stage.program, 4);
      for (const auto& carry : stage.carries)
        text +=
            fmt::format("    carry {}: {} = #{}\n", carry.slot, name_of(carry.dtype), carry.next);
      for (const auto& update : stage.updates) {
        text += fmt::format("    {} {}[{}] = #{}\n",
                            update.combine ? info(*update.combine).text : "store",
                            update.store.output, listed(update.store.index), update.store.step);
      }
    }
  }
  void operator()(const CompactForm& form) const {
    text += fmt::format("compact for {}\n", listed(form.space));
    print(text, form.program, 4);
    text += fmt::format("    where #{}: positions to {}, count to {}\n", form.selected,
                        form.positions, form.count);
  }
  void operator()(const SortForm& form) const {
    text += fmt::format("sort for {} over {}{}{}\n", listed(form.outer), listed({form.item}),
                        form.depth.empty() ? "" : " by ", listed(form.depth));
    print(text, form.program, 4);
    text += fmt::format("    store {}[{}] = item of rank {} by {} #{}\n", form.output,
                        listed(form.index), to_string(form.rank),
                        form.descending ? "falling" : "rising", form.key);
  }
  void section(const char* name, const ScalarProgram& program) const {
    text += fmt::format("  {}\n", name);
    print(text, program, 4);
  }
};

}  // namespace

std::string to_string(const LoopForm& form) {
  std::string text;
  std::visit(Printer{text}, form.kind);
  return text;
}

}  // namespace anydim::ir
