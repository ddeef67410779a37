#include "passes/mask_proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ir/scalar.h"

namespace anydim::passes {

using namespace ir;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Fills that exporters write; a number above is no mask but a preference.
constexpr double weakest_fill = -1000;

// exp(x) is exactly 0 from here on: in float32 below -104, in float64 below -746.
double vanishing(DType dtype) { return dtype == DType::F64 ? -750 : -110; }
double rounding(DType dtype) { return dtype == DType::F64 ? 0x1p-50 : 0x1p-21; }

// A weight of exp(hidden - seen) is 0 for every score of at most `bound` either way, sums rounded.
bool outweighs(double fill, double self, double bound, DType dtype) {
  if (std::isinf(fill)) return fill < 0 && self > -infinity;
  return 2 * bound + fill - self <=
         vanishing(dtype) - rounding(dtype) * (std::abs(fill) + std::abs(self) + bound);
}

MaskVerdict refused(std::string reason) { return {.reason = std::move(reason)}; }

// What may be a mask's entry, or the answer to a question of it.
struct Candidate {
  std::int32_t buffer = -1;
  std::size_t batch_axis = 0;
  ScalarProgram question{};
};

std::int32_t buffer_of(const Function& function, ValueId parameter) {
  return static_cast<std::int32_t>(std::ranges::find(function.body.parameters, parameter) -
                                   function.body.parameters.begin());
}

void assume(Assumptions& assumptions, std::int32_t buffer, const ScalarProgram& question,
            const std::vector<Dim>& place, std::int64_t is) {
  if (question.steps.empty()) {
    assumptions.zero_or_one = buffer;
    assumptions.entries.push_back(
        {.buffer = buffer, .place = place, .is = static_cast<double>(is)});
    return;
  }
  // The entry itself, where the answer leaves only one, says all that the answer says and more.
  if (const auto entry = only_entry(question, is != 0))
    assumptions.entries.push_back({.buffer = buffer, .place = place, .is = *entry});
  else
    assumptions.entries.push_back(
        {.buffer = buffer, .place = place, .function = question, .is = static_cast<double>(is)});
}

// The name of an input of real numbers that the bias reads beside the mask.
std::optional<std::string> other_input(const ElementProgram& bias, const Function& function,
                                       std::int32_t mask) {
  for (const ScalarStep& step : bias.program.steps) {
    const auto* load = std::get_if<step::Load>(&step.kind);
    if (!load || load->buffer == mask || !is_float(step.dtype)) continue;
    const auto buffer = static_cast<std::size_t>(load->buffer);
    if (buffer >= function.body.parameters.size()) continue;
    return function.values[function.body.parameters[buffer]].name;
  }
  return std::nullopt;
}

bool reads(const ScalarProgram& program, std::int32_t buffer) {
  return std::ranges::any_of(program.steps, [&](const ScalarStep& step) {
    return step.is<step::Load>() && step.as<step::Load>().buffer == buffer;
  });
}

MaskVerdict judge(const ElementProgram& bias, const Function& function, const Binding& attention,
                  const Candidate& candidate) {
  const ValueId mask = function.body.parameters[static_cast<std::size_t>(candidate.buffer)];
  const std::string& name = function.values[mask].name;
  const std::vector<Dim> key{batch_index(candidate.batch_axis), key_index()},
      row{batch_index(candidate.batch_axis), row_index()};
  const std::string where = describe(function, attention);
  const DType scores = function.tensor_type(attention.results[0]).dtype;
  const ElementProgram added = as_added(bias, scores);
  const auto assumed = [&](std::int64_t is) {
    Assumptions assumptions;
    assume(assumptions, candidate.buffer, candidate.question, key, is);
    return assumptions;
  };
  std::array<double, 2> highest{}, self{};
  for (const std::int64_t is : {0, 1}) {
    const auto at = static_cast<std::size_t>(is);
    const auto most = [](const ValueRange& range) { return range.nan ? infinity : range.high; };
    const ValueRange own = fold(added, assumed(is), Keys::Own).range;
    highest[at] = most(fold(added, assumed(is)).range);
    // What is causal may say of each side of the diagonal what it does not say of both.
    if (highest[at] > weakest_fill)
      highest[at] = std::max({most(own), most(fold(added, assumed(is), Keys::Before).range),
                              most(fold(added, assumed(is), Keys::After).range)});
    self[at] = own.nan ? -infinity : own.low;
  }
  std::optional<std::int64_t> hidden;
  for (const std::int64_t is : {0, 1}) {
    const double fill = highest[static_cast<std::size_t>(is)],
                 seen = self[static_cast<std::size_t>(1 - is)];
    if (fill < 0 && std::isfinite(seen) && fill - seen <= weakest_fill) hidden = is;
  }
  if (!hidden) {
    const double lower = std::min(highest[0], highest[1]), upper = std::max(highest[0], highest[1]);
    if (upper <= weakest_fill && std::max(self[0], self[1]) <= weakest_fill)
      return refused(fmt::format("every key is hidden in {}, whatever %{} holds", where, name));
    if (lower <= weakest_fill)
      return refused(fmt::format("a row that takes part may not see itself in {}", where));
    if (const auto other = other_input(bias, function, candidate.buffer))
      return refused(
          fmt::format("%{} is added to the scores beside %{} in {}, and may be any number", *other,
                      name, where));
    if (lower < 0 && lower < upper)
      return refused(
          fmt::format("%{} adds {} to the scores of masked keys, which does not hide them in {}",
                      name, lower, where));
    return refused(fmt::format("%{} does not decide which keys take part in {}", name, where));
  }
  if (bias.counts_rows && *hidden == 1)
    return refused(fmt::format("the entries of %{} that are counted are those of hidden keys in {}",
                               name, where));
  MaskFinding finding{.mask = mask,
                      .question = candidate.question,
                      .kept = 1 - *hidden,
                      .batch_axis = candidate.batch_axis};
  finding.leading = bias.counts_rows;
  finding.kept_entry = finding.kept;
  finding.hidden_entry = *hidden;
  if (!candidate.question.steps.empty()) {
    const DType entries = function.tensor_type(mask).dtype;
    const auto shown = entry_that_answers(candidate.question, entries, finding.kept != 0);
    const auto hides = entry_that_answers(candidate.question, entries, *hidden != 0);
    if (!shown || !hides)
      return refused(fmt::format("no entry of %{} is known that decides which keys take part in {}",
                                 name, where));
    finding.kept_entry = *shown;
    finding.hidden_entry = *hides;
  }
  finding.dtype = scores;
  finding.fill = highest[static_cast<std::size_t>(*hidden)];
  finding.self = self[static_cast<std::size_t>(finding.kept)];
  Assumptions both = assumed(finding.kept);
  assume(both, candidate.buffer, candidate.question, row, finding.kept);
  finding.between = fold(bias, both).program;
  for (const ScalarStep& step : finding.between.steps)
    if (const Tensor* constant = step.is<step::Load>() ? constant_of(bias, step) : nullptr)
      finding.constants.emplace(step.as<step::Load>().buffer, *constant);
  if (!candidate.question.steps.empty() && reads(finding.between, candidate.buffer))
    return refused(fmt::format("%{} says more than which keys take part in {}", name, where));
  return {.finding = std::move(finding)};
}

// Whether the host and every kernel answer alike: kernels differ in a function's last bits, and
// need not round between ops on narrow floats, or keep which NaN it is whose bits are asked for.
bool is_exact(const ScalarProgram& question) {
  return std::ranges::none_of(question.steps, [](const ScalarStep& step) {
    if (!step.is<step::Apply>() || step.op() == Op::cast || step.op() == Op::where) return false;
    return step.op() == Op::bitcast ||
           (is_float(step.dtype) && (is_half(step.dtype) || is_function_of_reals(step.op())));
  });
}

// Questions first, the widest before those that it is made of: their answer is 0 or 1 whatever the
// entry.
std::vector<Candidate> candidates_of(const ElementProgram& bias, const Function& function) {
  std::vector<Candidate> found, entries;
  const std::vector<ScalarStep>& steps = bias.program.steps;
  for (std::size_t i = steps.size(); i-- > 0;) {
    const bool question = steps[i].is<step::Apply>() && steps[i].dtype == DType::Bool;
    if (!question && !steps[i].is<step::Load>()) continue;
    auto entry = entry_function(bias.program, i);
    if (entry && question && !is_exact(entry->function)) continue;
    if (!entry || static_cast<std::size_t>(entry->buffer) >= function.body.parameters.size())
      continue;
    if (entry->place.size() != 2 || !(entry->place[1] == key_index())) continue;
    for (std::size_t axis = 0; axis < bias.batch_rank; ++axis) {
      if (!(entry->place[0] == batch_index(axis))) continue;
      Candidate candidate{.buffer = entry->buffer, .batch_axis = axis};
      if (question) candidate.question = entry->function;
      (question ? found : entries).push_back(std::move(candidate));
    }
  }
  found.insert(found.end(), entries.begin(), entries.end());
  return found;
}

}  // namespace

bool MaskFinding::hides(double bound) const { return outweighs(fill, self, bound, dtype); }

Assumptions takes_part(const MaskFinding& finding, const Function& function,
                       const std::vector<Dim>& place, bool part) {
  Assumptions assumptions;
  assume(assumptions, buffer_of(function, finding.mask), finding.question, place,
         part ? finding.kept : 1 - finding.kept);
  return assumptions;
}

std::string without_attention(const Function& function) {
  for (const Binding& binding : function.body.bindings)
    if (binding.op == Op::softmax)
      return fmt::format(
          "no attention was recognised: what {} weighs is not known as scores of "
          "queries with keys and a mask",
          describe(function, binding));
  return "no attention was recognised";
}

MaskVerdict find_mask(const Function& function, const Block& block, const Binding& attention,
                      MaskReading reading) {
  if (attention.operands.size() < 4 || attention.operands[3] == no_value)
    return refused(describe(function, attention) + " has no mask");
  ElementProgram bias;
  try {
    build_bias(bias, function, block, attention);
  } catch (const NoLoopForm& none) {
    return refused(fmt::format("the bias of {} is not known element by element: {}",
                               describe(function, attention), none.reason));
  }
  std::vector<Candidate> candidates = candidates_of(bias, function);
  // A sum of entries counts those that are 1 only where all are 0 or 1.
  if (reading == MaskReading::Entries || bias.counts_rows)
    std::erase_if(candidates,
                  [](const Candidate& candidate) { return !candidate.question.steps.empty(); });
  if (candidates.empty())
    return refused(
        fmt::format("the bias of {} reads no mask of (batch, key)", describe(function, attention)));
  MaskVerdict last;
  for (const Candidate& candidate : candidates) {
    last = judge(bias, function, attention, candidate);
    if (last.finding) return last;
  }
  return last;
}

}  // namespace anydim::passes
