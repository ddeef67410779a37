#include "passes/mask_proof.h"

#include <fmt/format.h>

#include <set>

#include "passes/bias_program.h"

namespace anydim::passes {

using namespace ir;

namespace {

// Fills that exporters write; a number above is no mask but a preference.
constexpr double weakest_fill = -1000;

MaskVerdict refused(std::string reason) { return {.reason = std::move(reason)}; }

// The name of an input of real numbers that the bias reads beside the mask.
std::optional<std::string> other_input(const BiasProgram& bias, const Function& function, std::int32_t mask) {
  for (const ScalarStep& step : bias.program.steps) {
    const auto buffer = static_cast<std::size_t>(step.buffer);
    if (step.kind != ScalarStep::Kind::Load || step.buffer == mask || !is_float(step.dtype) || buffer >= function.body.parameters.size())
      continue;
    return function.values[function.body.parameters[buffer]].name;
  }
  return std::nullopt;
}

MaskVerdict judge(const BiasProgram& bias, const Function& function, const Binding& attention, std::int32_t buffer,
                  std::size_t batch_axis) {
  const ValueId mask = function.body.parameters[static_cast<std::size_t>(buffer)];
  const std::string& name = function.values[mask].name;
  const std::vector<Dim> key{batch_symbol(batch_axis), key_symbol()}, row{batch_symbol(batch_axis), row_symbol()};
  const std::string where = describe(function, attention);
  std::optional<std::int64_t> hidden;
  MaskFinding finding{.mask = mask, .batch_axis = batch_axis};
  for (const std::int64_t entry : {0, 1}) {
    const double highest = range_of(fold(bias, {{buffer, key, entry}}), bias.context.symbols).high;
    if (highest > weakest_fill) {
      if (highest < 0)
        return refused(fmt::format("%{} adds {} to the scores of masked keys, which does not hide them in {}", name, highest, where));
      continue;
    }
    if (hidden) return refused(fmt::format("every key is hidden in {}, whatever %{} holds", where, name));
    hidden = entry;
    finding.fill = highest;
  }
  if (!hidden) {
    if (const auto other = other_input(bias, function, buffer))
      return refused(fmt::format("%{} is added to the scores beside %{} in {}, and may be any number", *other, name, where));
    return refused(fmt::format("%{} does not decide which keys take part in {}", name, where));
  }
  finding.kept = 1 - *hidden;
  finding.self = range_of(fold_on_diagonal(bias, {{buffer, key, finding.kept}}), bias.context.symbols).low;
  if (finding.self <= weakest_fill) return refused(fmt::format("a row that takes part may not see itself in {}", where));
  finding.between = fold(bias, {{buffer, key, finding.kept}, {buffer, row, finding.kept}});
  return {.finding = std::move(finding)};
}

}  // namespace

MaskVerdict find_mask(const Function& function, const Block& block, const Binding& attention) {
  if (attention.operands.size() < 4 || attention.operands[3] == no_value) return refused(describe(function, attention) + " has no mask");
  BiasProgram bias;
  try {
    build_bias(bias, function, block, attention);
  } catch (const NoLoopForm& none) {
    return refused(fmt::format("the bias of {} is not known element by element: {}", describe(function, attention), none.reason));
  }
  std::set<std::pair<std::int32_t, std::size_t>> candidates;
  for (const ScalarStep& step : bias.program.steps) {
    if (step.kind != ScalarStep::Kind::Load || step.index.size() != 2 || !(step.index[1] == key_symbol())) continue;
    if (static_cast<std::size_t>(step.buffer) >= function.body.parameters.size()) continue;
    for (std::size_t axis = 0; axis < bias.batch_rank; ++axis)
      if (step.index[0] == batch_symbol(axis)) candidates.emplace(step.buffer, axis);
  }
  if (candidates.empty()) return refused(fmt::format("the bias of {} reads no mask of (batch, key)", describe(function, attention)));
  MaskVerdict last;
  for (const auto& [buffer, axis] : candidates) {
    last = judge(bias, function, attention, buffer, axis);
    if (last.finding) return last;
  }
  return last;
}

}  // namespace anydim::passes
