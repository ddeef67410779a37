#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/loops/loop_form_text.h"
#include "ir/loops/scalar_program.h"
#include "ir/overloaded.h"
#include "ir/quote.h"
#include "ir/text/print.h"
#include "ir/text/tensor_text.h"

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

std::string conditions(const std::vector<ScalarStep::Condition>& all) {
  static constexpr const char* signs[] = {"==", "!=", "<", "<="};
  std::string text;
  for (const auto& condition : all)
    text += fmt::format("{}{} {} {}", text.empty() ? "" : " and ", condition.left.to_string(),
                        signs[static_cast<int>(condition.comparison)], condition.right.to_string());
  return text;
}

std::string where(const std::vector<ScalarStep::Condition>& all) {
  return all.empty() ? std::string() : " where " + conditions(all);
}

std::string checks(const std::vector<KernelCheck>& checks) {
  std::string text;
  for (std::size_t i = 0; i < checks.size(); ++i) {
    const KernelCheck& check = checks[i];
    text += fmt::format("  check {}: {} of {}, {}", i, name_of(check.kind),
                        check.extent.to_string(), quote(check.what));
    if (!check.source.empty()) text += " from " + quote(check.source);
    text += '\n';
  }
  return text;
}

std::string header(const KernelHeader& form) {
  std::string text;
  for (std::size_t i = 0; i < form.parameters.size(); ++i)
    text += fmt::format("  parameter {}: {}\n", i, print(form.parameters[i]));
  for (std::size_t i = 0; i < form.results.size(); ++i)
    text += fmt::format("  result {}: {}\n", i, print(form.results[i]));
  if (!form.symbols.names().empty()) text += "  where " + print(form.symbols) + "\n";
  text += checks(form.checks);
  return text;
}

namespace {

std::string checked(std::int32_t check) {
  return check < 0 ? std::string() : fmt::format(", check {}", check);
}

std::string constant(const ScalarStep& step) {
  if (!is_float(step.dtype)) return std::to_string(step.as<step::Constant>().integer);
  std::string text;
  append_real(text, step.as<step::Constant>().real);
  return text;
}

// Those of the op's attributes that scalar steps keep, where they are not the default.
std::string attributes(const ScalarStep& step) {
  const auto& applied = step.as<step::Apply>();
  if (applied.flags == step_flags({.op = applied.op})) return {};
  std::string text;
  for (const auto& [name, value] : step_attributes(step))
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, std::get<std::int64_t>(value));
  return " {" + text + "}";
}

}  // namespace

std::string describe_step(const ScalarStep& step, const std::vector<std::string>& names) {
  const std::string operands = fmt::format("{}", fmt::join(names, ", "));
  const Overloaded describe{
      [&](const step::Constant&) { return constant(step); },
      [&](const step::Extent& extent) { return "extent " + extent.value.to_string(); },
      [&](const step::Load& load) {
        return fmt::format("load {}[{}]", load.buffer, listed(load.index));
      },
      [&](const step::Apply& apply) {
        return fmt::format("{}({}){}{}", info(apply.op).text, operands, attributes(step),
                           checked(apply.check));
      },
      [&](const step::CheckedIndex& index) {
        return fmt::format("index({}) below {}{}", operands, index.extent.to_string(),
                           checked(index.check));
      },
      [&](const step::Guarded& guarded) {
        return fmt::format("guarded({}){}", operands, where(guarded.conditions));
      },
      [&](const step::Accumulated& result) { return fmt::format("accumulated {}", result.slot); },
      [&](const step::Scratch& element) { return fmt::format("scratch {}", element.slot); },
  };
  return std::visit(describe, step.kind);
}

std::string segments(const Segments& segments) {
  std::string text = fmt::format("segments {} by offsets in {}, check {}",
                                 segments.count.to_string(), segments.offsets, segments.check);
  if (segments.work >= 0)
    text += fmt::format(", begun as listed in {}, check {}", segments.work, segments.work_check);
  return text;
}

std::string compaction(std::int32_t positions, std::int32_t count) {
  std::string text;
  if (positions >= 0) text += fmt::format("positions to {}", positions);
  if (count >= 0) text += fmt::format("{}count to {}", text.empty() ? "" : ", ", count);
  return text;
}

std::string_view name_of(KernelCheck::Kind kind) {
  static constexpr std::string_view names[] = {"index", "divisor", "offsets", "work"};
  return names[static_cast<std::size_t>(kind)];
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

void append(std::string& text, const ScalarProgram& program, int indent) {
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const ScalarStep& step = program.steps[i];
    std::vector<std::string> operands;
    for (const std::int32_t operand : step.operands)
      operands.push_back(to_string(step_leaf(operand)));
    text += fmt::format("{:{}}#{}: {} = {}\n", "", indent, i, name_of(step.dtype),
                        describe_step(step, operands));
  }
}

void append(std::string& text, const std::vector<Store>& stores, int indent) {
  for (const Store& store : stores)
    text += fmt::format("{:{}}store {}[{}] = #{}\n", "", indent, store.output, listed(store.index),
                        store.step);
}

void append(std::string& text, const std::vector<RowStage>& stages) {
  for (const RowStage& stage : stages) {
    text += stage.per_row ? "  row result\n" : "  stage\n";
    append(text, stage.program, 4);
    for (const auto& keep : stage.keeps)
      text += fmt::format("    scratch {} = #{}\n", keep.slot, keep.step);
    for (const auto& reduction : stage.reductions)
      text += fmt::format("    accumulated {}: {} = {} of #{}\n", reduction.slot,
                          name_of(reduction.dtype), loop_form_text::name_of(reduction.kind),
                          reduction.step);
    append(text, stage.stores, 4);
  }
}

struct Printer {
  std::string text{};

  void operator()(const MapForm& map) {
    for (const MapPart& part : map.parts) {
      line("  for", listed(part.space));
      append(text, part.program, 4);
      append(text, part.stores, 4);
    }
  }
  void operator()(const RowForm& rows) {
    line("  for", listed(rows.outer) + " over " + listed(rows.inner));
    append_segments(rows.segments);
    append_slots(rows.scratch, rows.accumulators);
    append(text, rows.stages);
  }
  void operator()(const MatmulForm& matmul) {
    std::vector<Iteration> points = matmul.batch;
    points.insert(points.end(), {matmul.m, matmul.n});
    text += fmt::format(
        "  for {} over {} in {}{}{}\n", listed(points), listed({matmul.k}),
        name_of(matmul.accumulate), matmul.gate ? " gates " + listed({*matmul.gate}) : "",
        matmul.left_block == 0 ? std::string() : fmt::format(" left_block {}", matmul.left_block));
    section("left", matmul.left);
    section("right", matmul.right);
    section("epilogue", matmul.epilogue);
    text += fmt::format("    value #{}\n", matmul.epilogue_step);
    append(text, matmul.stores, 4);
    append_slots(matmul.scratch, matmul.accumulators);
    append(text, matmul.rows);
  }
  void operator()(const AttentionForm& attention) {
    std::vector<Iteration> points = attention.batch;
    points.insert(points.end(), {attention.row, attention.width});
    text += fmt::format("  for {} over {}{}\n", listed(points),
                        listed({attention.key, attention.depth}),
                        attention.zero_nan ? " zero_nan" : "");
    append_segments(attention.segments);
    section("q", attention.q);
    section("k", attention.k);
    section("v", attention.v);
    section("score", attention.score);
    section("epilogue", attention.epilogue);
    append(text, attention.stores, 4);
  }
  void operator()(const OrderedForm& ordered) {
    line("  for", listed(ordered.outer));
    for (const OrderedStage& stage : ordered.stages) {
      line("  in order", listed(stage.inner) + where(stage.conditions));
      append(text, stage.program, 4);
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
  void operator()(const CompactForm& compact) {
    line("  for", listed(compact.space));
    append(text, compact.program, 4);
    text += fmt::format("    where #{}: {}\n", compact.selected,
                        loop_form_text::compaction(compact.positions, compact.count));
  }
  void operator()(const SortForm& sort) {
    line("  for", listed(sort.outer) + " over " + listed({sort.item}) +
                      (sort.depth.empty() ? "" : " by ") + listed(sort.depth));
    append(text, sort.program, 4);
    text += fmt::format("    store {}[{}] = item of rank {} by {} #{}\n", sort.output,
                        listed(sort.index), listed({sort.rank}),
                        sort.descending ? "falling" : "rising", sort.key);
  }

 private:
  void line(std::string_view keyword, const std::string& rest) {
    text += keyword;
    if (!rest.empty() && rest.front() != ' ') text += ' ';
    text += rest + "\n";
  }
  void append_segments(const std::optional<Segments>& segments) {
    if (segments) text += "  " + loop_form_text::segments(*segments) + "\n";
  }
  void append_slots(const std::vector<DType>& scratch, std::int32_t accumulators) {
    for (std::size_t i = 0; i < scratch.size(); ++i)
      text += (i == 0 ? "  scratch " : ", ") + std::string(name_of(scratch[i]));
    if (!scratch.empty()) text += '\n';
    if (accumulators != 0) text += fmt::format("  accumulators {}\n", accumulators);
  }
  void section(const char* name, const ScalarProgram& program) {
    text += fmt::format("  {}\n", name);
    append(text, program, 4);
  }
};

}  // namespace

std::string to_string(const LoopForm& form) {
  Printer printer;
  std::visit(printer, form.kind);
  return kind_name(form) + "\n" + loop_form_text::header(KernelHeader(form)) + printer.text;
}

}  // namespace anydim::ir
