#include "passes/mask_proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "ir/scalar.h"
#include "ir/scalar_access.h"
#include "ir/scalar_simplify.h"

namespace anydim::passes {

using namespace ir;

namespace {

using Kind = ScalarStep::Kind;

ScalarStep real_step(DType dtype, double value) { return {.kind = Kind::Constant, .dtype = dtype, .real = value}; }
ScalarStep integer_step(DType dtype, std::int64_t value) { return {.kind = Kind::Constant, .dtype = dtype, .integer = value}; }
double real_of(const ScalarStep& step) { return is_float(step.dtype) ? step.real : static_cast<double>(step.integer); }

ScalarStep number_step(DType dtype, double value) {
  return is_float(dtype) ? real_step(dtype, value) : integer_step(dtype, static_cast<std::int64_t>(value));
}

// Steps of a bias program with what is assumed of mask entries put in place.
class Folding {
 public:
  Folding(const SymbolTable& symbols, std::int32_t buffer, std::vector<Dim> key, std::vector<Dim> row)
      : symbols_(symbols), buffer_(buffer), key_(std::move(key)), row_(std::move(row)) {}

  std::optional<std::int64_t> key_entry, row_entry;

  // The last step, folded; a Constant where the assumptions decide it.
  ScalarStep fold(const ScalarProgram& program) const {
    std::vector<ScalarStep> steps;
    for (const ScalarStep& step : program.steps) steps.push_back(folded(step, steps));
    return steps.back();
  }

 private:
  ScalarStep folded(const ScalarStep& step, const std::vector<ScalarStep>& before) const {
    switch (step.kind) {
      case Kind::Load: {
        if (step.buffer != buffer_) return step;
        const auto entry = step.index == key_ ? key_entry : step.index == row_ ? row_entry : std::nullopt;
        return entry ? number_step(step.dtype, static_cast<double>(*entry)) : step;
      }
      case Kind::Guarded: {
        bool all = true;
        for (const auto& condition : step.conditions) {
          const Proof proof = prove(condition.comparison, condition.left, condition.right, symbols_);
          if (proof == Proof::No) return before[static_cast<std::size_t>(step.operands[1])];
          all = all && proof == Proof::Yes;
        }
        return all ? before[static_cast<std::size_t>(step.operands[0])] : step;
      }
      case Kind::Apply: return applied(step, before);
      default: return step;
    }
  }

  ScalarStep applied(const ScalarStep& step, const std::vector<ScalarStep>& before) const {
    std::vector<const ScalarStep*> operands;
    for (const std::int32_t operand : step.operands) operands.push_back(&before[static_cast<std::size_t>(operand)]);
    const Simplified simple = simplify_step(step.op, step.dtype, operands, symbols_);
    if (const Dim* dim = std::get_if<Dim>(&simple)) {
      if (const auto constant = dim->constant()) return integer_step(DType::I64, *constant);
      return {.kind = Kind::Extent, .dtype = DType::I64, .index = {*dim}};
    }
    if (const bool* truth = std::get_if<bool>(&simple)) return integer_step(DType::Bool, *truth ? 1 : 0);
    if (const double* real = std::get_if<double>(&simple)) return real_step(step.dtype, *real);
    if (const Forwarded* forwarded = std::get_if<Forwarded>(&simple)) return *operands[forwarded->operand];
    const bool known =
        std::all_of(operands.begin(), operands.end(), [](const ScalarStep* operand) { return operand->kind == Kind::Constant; });
    if (known) return computed(step, operands);
    const auto is_zero = [](const ScalarStep* operand) { return operand->kind == Kind::Constant && real_of(*operand) == 0; };
    if (step.op == Op::mul && std::any_of(operands.begin(), operands.end(), is_zero)) return number_step(step.dtype, 0);
    return step;
  }

  ScalarStep computed(const ScalarStep& step, const std::vector<const ScalarStep*>& operands) const {
    const ScalarStep& first = *operands[0];
    if (step.op == Op::cast) {
      const double value = real_of(first);
      if (step.dtype == DType::Bool) return integer_step(DType::Bool, value != 0 ? 1 : 0);
      if (is_float(step.dtype)) return real_step(step.dtype, step.dtype == DType::F32 ? static_cast<float>(value) : value);
      return integer_step(step.dtype, is_float(first.dtype) ? truncate_to_integer(value, step.dtype) : first.integer);
    }
    if (step.op == Op::where) return *operands[first.integer != 0 ? 1 : 2];
    const ScalarOp op{.op = step.op};
    if (step.op == Op::mod || step.op == Op::is_inf || step.op == Op::div) return step;
    const ScalarStep& second = operands.size() > 1 ? *operands[1] : first;
    if (info(step.op).has(traits::compares)) {
      const bool holds = is_float(first.dtype) ? apply_comparison<double>(op, first.real, second.real)
                                               : apply_comparison<std::int64_t>(op, first.integer, second.integer);
      return integer_step(DType::Bool, holds ? 1 : 0);
    }
    if (!is_float(step.dtype)) return integer_step(step.dtype, apply_integer<std::int64_t>(op, first.integer, second.integer));
    const double value = apply_real<double>(op, first.real, second.real);
    return real_step(step.dtype, step.dtype == DType::F32 ? static_cast<float>(value) : value);
  }

  const SymbolTable& symbols_;
  std::int32_t buffer_;
  std::vector<Dim> key_, row_;
};

struct BiasProgram {
  AccessContext context;
  ScalarProgram program;
  std::size_t batch_rank = 0;
};

Dim batch_symbol(std::size_t axis) { return Dim::symbol("$b" + std::to_string(axis)); }
const Dim row_symbol = Dim::symbol("$i"), key_symbol = Dim::symbol("$j");

// The bias's element at (batch, $i, $j); throws NoLoopForm where it isn't a program of indices.
void build(BiasProgram& bias, const Stretch& stretch, const Function& function, const Binding& attention) {
  bias.context.stretch = &stretch;
  bias.context.symbols = function.symbols;
  for (std::size_t i = 0; i < function.body.parameters.size(); ++i)
    bias.context.buffers.emplace(function.body.parameters[i], static_cast<std::int32_t>(i));
  const std::vector<Dim>& dims = function.tensor_type(attention.results[0]).dims;
  const std::vector<Dim>& keys = function.tensor_type(attention.operands[1]).dims;
  bias.batch_rank = dims.size() - 2;
  std::vector<Dim> scores(dims.begin(), dims.end() - 2), index;
  for (std::size_t axis = 0; axis < bias.batch_rank; ++axis) {
    bias.context.iterate("$b" + std::to_string(axis), dims[axis]);
    index.push_back(batch_symbol(axis));
  }
  scores.push_back(dims[dims.size() - 2]);
  scores.push_back(keys[keys.size() - 2]);
  bias.context.iterate("$i", scores[bias.batch_rank]);
  bias.context.iterate("$j", scores.back());
  index.push_back(row_symbol);
  index.push_back(key_symbol);
  const ValueId operand = attention.operands[3];
  ProgramBuilder builder(bias.context);
  builder.element(operand, broadcast_index(index, scores, stretch.tensor(operand).dims, bias.context.symbols));
  bias.program = builder.take();
}

MaskVerdict refused(std::string reason) { return {.reason = std::move(reason)}; }

bool hides(const ScalarStep& step) { return step.kind == Kind::Constant && is_float(step.dtype) && step.real <= absorbing; }

// The program at j = i: what a row sees of itself.
ScalarProgram on_diagonal(const ScalarProgram& program) {
  ScalarProgram result = program;
  const std::map<std::string, Dim> same{{"$j", row_symbol}};
  for (ScalarStep& step : result.steps) {
    for (Dim& dim : step.index) dim = dim.substitute(same);
    for (auto& condition : step.conditions) {
      condition.left = condition.left.substitute(same);
      condition.right = condition.right.substitute(same);
    }
  }
  return result;
}

MaskVerdict judge(const BiasProgram& bias, const Function& function, const Binding& attention, std::int32_t buffer,
                  std::size_t batch_axis) {
  const ValueId mask = function.body.parameters[static_cast<std::size_t>(buffer)];
  const std::string& name = function.values[mask].name;
  Folding folding(bias.context.symbols, buffer, {batch_symbol(batch_axis), key_symbol}, {batch_symbol(batch_axis), row_symbol});
  std::optional<std::int64_t> hidden;
  double fill = 0;
  for (const std::int64_t entry : {0, 1}) {
    folding.key_entry = entry;
    const ScalarStep value = folding.fold(bias.program);
    if (!hides(value)) {
      if (value.kind == Kind::Constant && value.real < 0)
        return refused(fmt::format("%{} adds {} to the scores of masked keys, which does not provably hide them in {}", name, value.real,
                                   describe(function, attention)));
      continue;
    }
    if (hidden) return refused(fmt::format("every key is hidden in {}, whatever %{} holds", describe(function, attention), name));
    hidden = entry;
    fill = value.real;
  }
  if (!hidden) return refused(fmt::format("%{} does not decide which keys take part in {}", name, describe(function, attention)));
  folding.key_entry = 1 - *hidden;
  folding.row_entry = 1 - *hidden;
  const ScalarStep between = folding.fold(bias.program);
  Folding self(bias.context.symbols, buffer, {batch_symbol(batch_axis), row_symbol}, {batch_symbol(batch_axis), row_symbol});
  self.key_entry = 1 - *hidden;
  const ScalarStep itself = self.fold(on_diagonal(bias.program));
  const bool may_hide_itself = itself.kind != Kind::Constant && std::any_of(bias.program.steps.begin(), bias.program.steps.end(), hides);
  if (hides(itself) || may_hide_itself)
    return refused(fmt::format("a row that takes part may not see itself in {}", describe(function, attention)));
  const bool nothing = between.kind == Kind::Constant && between.real == 0;
  return {.finding = MaskFinding{mask, 1 - *hidden, batch_axis, fill, nothing}};
}

}  // namespace

MaskVerdict find_mask(const Function& function, const Block& block, const Binding& attention) {
  if (attention.operands.size() < 4 || attention.operands[3] == no_value) return refused(describe(function, attention) + " has no mask");
  const Stretch stretch = expand_stretch(function, block.bindings);
  BiasProgram bias;
  try {
    build(bias, stretch, function, attention);
  } catch (const NoLoopForm& none) {
    return refused(fmt::format("the bias of {} is not known element by element: {}", describe(function, attention), none.reason));
  }
  std::set<std::pair<std::int32_t, std::size_t>> candidates;
  for (const ScalarStep& step : bias.program.steps) {
    if (step.kind != Kind::Load || step.index.size() != 2 || !(step.index[1] == key_symbol)) continue;
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
