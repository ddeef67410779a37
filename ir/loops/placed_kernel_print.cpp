#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/loops/loop_form_text.h"
#include "ir/loops/placed_kernel.h"
#include "ir/loops/placed_kernel_text.h"

namespace anydim::ir {

std::string_view name_of(KernelSection::Kind kind) {
  static constexpr std::string_view names[] = {"part",  "left",       "right",   "q",
                                               "k",     "v",          "score",   "epilogue",
                                               "stage", "row result", "in order"};
  return names[static_cast<std::size_t>(kind)];
}

namespace {

using loop_form_text::listed;
using loop_form_text::where;

std::string text(const KernelValue& value) {
  if (value.kind == KernelValue::Kind::Accumulated)
    return fmt::format("accumulated {}", value.number);
  const std::string step = to_string(step_leaf(value.number, value.program));
  return value.kind == KernelValue::Kind::Inverse ? step + ".inverse" : step;
}

std::string mask_text(const KernelMask& mask) {
  std::vector<std::string> alternatives;
  for (const auto& conditions : mask.alternatives)
    alternatives.push_back(loop_form_text::conditions(conditions));
  return alternatives.empty() ? std::string()
                              : fmt::format(" if {}", fmt::join(alternatives, " or "));
}

std::string text(const PlacedStep& placed) {
  std::vector<std::string> operands;
  for (const KernelValue& operand : placed.operands) operands.push_back(text(operand));
  return fmt::format("{}: {} = {}{}", to_string(step_leaf(placed.number, placed.program)),
                     name_of(placed.step.dtype),
                     loop_form_text::describe_step(placed.step, operands), mask_text(placed.mask));
}
std::string text(const PlacedInverse& inverse) {
  return fmt::format("{}: f32 = reciprocal({})",
                     text(KernelValue{KernelValue::Kind::Inverse, inverse.program, inverse.number}),
                     text(inverse.of));
}
std::string text(const PlacedStore& store) {
  return fmt::format("{} {}[{}] = {}{}", store.combine ? info(*store.combine).text : "store",
                     store.output, listed(store.index), text(store.value), mask_text(store.mask));
}
std::string text(const PlacedKeep& keep) {
  const std::string value = text(keep.value);
  switch (keep.kind) {
    case PlacedKeep::Kind::Scratch: return fmt::format("scratch {} = {}", keep.slot, value);
    case PlacedKeep::Kind::Accumulated:
      return fmt::format("accumulated {}: {} = {} of {}", keep.slot, name_of(*keep.dtype),
                         loop_form_text::name_of(*keep.reduce), value);
    case PlacedKeep::Kind::Carry:
      return fmt::format("carry {}: {} = {}", keep.slot, name_of(*keep.dtype), value);
    case PlacedKeep::Kind::Element: return "element = " + value;
    case PlacedKeep::Kind::Key: return "key = " + value;
  }
  return {};
}
std::string text(const PlacedSelection& selection) {
  return fmt::format("where {}: {}", text(selection.selected),
                     loop_form_text::compaction(selection.positions, selection.count));
}
std::string text(const PlacedRanking& ranking) {
  return fmt::format("store {}[{}] = item of rank {}, {}", ranking.output, listed(ranking.index),
                     listed(std::vector<Iteration>{ranking.rank}),
                     ranking.descending ? "falling" : "rising");
}

void append(std::string& out, const KernelBlock& block, int indent);

void append(std::string& out, const std::string& header, const KernelBlock& body, int indent) {
  out += fmt::format("{:{}}{} {{\n", "", indent, header);
  append(out, body, indent + 2);
  out += fmt::format("{:{}}}}\n", "", indent);
}

void append(std::string& out, const KernelBlock& block, int indent) {
  for (const KernelStatement& statement : block) {
    if (const auto* loop = std::get_if<KernelLoop>(&statement.kind)) {
      append(out, "for " + listed(std::vector<Iteration>{loop->loop}), loop->body, indent);
    } else if (const auto* section = std::get_if<KernelSection>(&statement.kind)) {
      append(out, std::string(name_of(section->kind)) + where(section->conditions), section->body,
             indent);
    } else {
      const std::string line = std::visit(
          [](const auto& one) {
            if constexpr (requires { one.body; }) return std::string();
            else return text(one);
          },
          statement.kind);
      out += fmt::format("{:{}}{}\n", "", indent, line);
    }
  }
}

}  // namespace

std::string to_string(const PlacedKernel& kernel) {
  std::string out = kernel.kind;
  if (kernel.product) out += fmt::format(" in {}", name_of(*kernel.product));
  if (kernel.gates != 1) out += fmt::format(" gates {}", kernel.gates);
  out += "\n" + loop_form_text::header(KernelHeader(kernel));
  if (kernel.segments) out += "  " + loop_form_text::segments(*kernel.segments) + "\n";
  append(out, kernel.body, 2);
  return out;
}

bool operator==(const KernelStatement& a, const KernelStatement& b) {
  if (a.kind.index() != b.kind.index()) return false;
  return std::visit(
      [&]<typename Kind>(const Kind& one) {
        const Kind& other = std::get<Kind>(b.kind);
        if constexpr (requires { one.loop; })
          return one.loop == other.loop && one.body == other.body;
        else if constexpr (requires { one.body; })
          return one.kind == other.kind && one.conditions == other.conditions &&
                 one.body == other.body;
        else return one == other;
      },
      a.kind);
}

}  // namespace anydim::ir
