#include "ir/loops/scalar_program.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "ir/error.h"

namespace anydim::ir {

std::vector<std::int32_t> steps_mentioned(const Dim& dim) {
  std::vector<std::int32_t> steps;
  for (const DimLeaf& leaf : dim.leaves())
    if (leaf.is_step()) steps.push_back(leaf.step());
  return steps;
}

std::int32_t check_of(const ScalarStep& step) {
  if (const auto* apply = std::get_if<step::Apply>(&step.kind)) return apply->check;
  const auto* index = std::get_if<step::CheckedIndex>(&step.kind);
  return index ? index->check : -1;
}

std::int32_t last_step(const ScalarProgram& program) {
  return static_cast<std::int32_t>(program.steps.size()) - 1;
}

void prune(ScalarProgram& program, std::vector<std::int32_t*> roots) {
  std::vector<bool> needed(program.steps.size());
  for (std::int32_t* root : roots) needed[static_cast<std::size_t>(*root)] = true;
  for (std::size_t i = program.steps.size(); i-- > 0;) {
    if (!needed[i]) continue;
    const ScalarStep& step = program.steps[i];
    for (std::int32_t operand : step.operands) needed[static_cast<std::size_t>(operand)] = true;
    for_each_dim(step, [&](const Dim& dim) {
      for (const std::int32_t mentioned : steps_mentioned(dim))
        needed[static_cast<std::size_t>(mentioned)] = true;
    });
  }
  if (std::find(needed.begin(), needed.end(), false) == needed.end()) return;
  std::vector<std::int32_t> renumbered(program.steps.size(), -1);
  std::map<DimLeaf, Dim> moved;
  std::vector<ScalarStep> kept;
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    if (!needed[i]) continue;
    ScalarStep step = std::move(program.steps[i]);
    for (std::int32_t& operand : step.operands)
      operand = renumbered[static_cast<std::size_t>(operand)];
    if (!moved.empty()) for_each_dim(step, [&](Dim& dim) { dim = dim.substitute(moved); });
    auto position = static_cast<std::int32_t>(kept.size());
    if (step.is<step::CheckedIndex>() && static_cast<std::size_t>(position) != i)
      moved.emplace(step_leaf(static_cast<std::int32_t>(i)), Dim::of(step_leaf(position)));
    renumbered[i] = position;
    kept.push_back(std::move(step));
  }
  program.steps = std::move(kept);
  for (std::int32_t* root : roots) *root = renumbered[static_cast<std::size_t>(*root)];
}

namespace {

// step::Apply::flags
constexpr std::uint8_t truncates = 1;                           // mod
constexpr std::uint8_t finds_negative = 1, finds_positive = 2;  // is_inf

}  // namespace

ScalarOp scalar_op(const ScalarStep& step) {
  const step::Apply& apply = step.as<step::Apply>();
  ScalarOp op{.op = apply.op};
  if (op.op == Op::mod) op.truncate = (apply.flags & truncates) != 0;
  if (op.op == Op::is_inf) {
    op.negative = (apply.flags & finds_negative) != 0;
    op.positive = (apply.flags & finds_positive) != 0;
  }
  return op;
}

std::uint8_t step_flags(const ScalarOp& op) {
  if (op.op == Op::mod) return op.truncate ? truncates : 0;
  if (op.op != Op::is_inf) return 0;
  return (op.negative ? finds_negative : 0) | (op.positive ? finds_positive : 0);
}

Attributes step_attributes(const ScalarStep& step) {
  const ScalarOp op = scalar_op(step);
  const auto flag = [](bool holds) { return std::int64_t{holds ? 1 : 0}; };
  switch (op.op) {  // NOLINT: the others have none
    case Op::cast:
    case Op::bitcast: return {{"to", step.dtype}};
    case Op::mod: return {{"truncate", flag(op.truncate)}};
    case Op::is_inf: return {{"negative", flag(op.negative)}, {"positive", flag(op.positive)}};
    default: return {};
  }
}

ScalarStep number_step(DType dtype, double value) {
  if (is_float(dtype)) return {dtype, step::Constant{.real = value}};
  return {dtype, step::Constant{.integer = static_cast<std::int64_t>(value)}};
}

ScalarStep element_step(const Tensor& tensor, std::int64_t position) {
  const DType dtype = tensor.dtype();
  if (is_float(dtype)) return {dtype, step::Constant{.real = tensor.real_at(position)}};
  return {dtype, step::Constant{.integer = tensor.integer_at(position)}};
}

Tensor constant_tensor(const ScalarStep& step) {
  Tensor tensor(step.dtype, {});
  if (is_float(step.dtype)) tensor.set_real(0, step.as<step::Constant>().real);
  else tensor.set_integer(0, step.as<step::Constant>().integer);
  return tensor;
}

std::vector<std::vector<std::int32_t>> guards_of(const ScalarProgram& program,
                                                 const std::vector<std::int32_t>& roots) {
  struct Need {
    bool used = false, always = false;
    std::vector<std::int32_t> guards;
  };
  std::vector<Need> needs(program.steps.size());
  for (const std::int32_t root : roots)
    needs[static_cast<std::size_t>(root)] = {.used = true, .always = true, .guards = {}};
  for (std::size_t i = program.steps.size(); i-- > 0;) {
    if (!needs[i].used) needs[i].always = true;  // nobody inside uses it: somebody outside may
    const auto add = [&](std::size_t operand, const Need& need) {
      Need& target = needs[operand];
      target.used = true;
      target.always |= need.always;
      for (const std::int32_t guard : need.guards) {
        if (std::find(target.guards.begin(), target.guards.end(), guard) == target.guards.end())
          target.guards.push_back(guard);
      }
    };
    const ScalarStep& step = program.steps[i];
    for (std::size_t k = 0; k < step.operands.size(); ++k) {
      const bool inside = step.is<step::Guarded>() && k == 0;
      add(static_cast<std::size_t>(step.operands[k]),
          inside ? Need{true, false, {static_cast<std::int32_t>(i)}} : needs[i]);
    }
    for_each_dim(step, [&](const Dim& dim) {
      for (const std::int32_t mentioned : steps_mentioned(dim))
        add(static_cast<std::size_t>(mentioned), needs[i]);
    });
  }
  std::vector<std::vector<std::int32_t>> guards(needs.size());
  for (std::size_t i = 0; i < needs.size(); ++i) {
    const std::vector<std::int32_t>& all = needs[i].guards;
    if (needs[i].always) continue;
    // Where those that a guard stands in let the step run, the guard says nothing more of it; so it
    // does of what its own condition is computed from.
    std::ranges::copy_if(all, std::back_inserter(guards[i]), [&](std::int32_t guard) {
      const Need& around = needs[static_cast<std::size_t>(guard)];
      return around.always || !std::ranges::all_of(around.guards, [&](std::int32_t one) {
               return std::ranges::find(all, one) != all.end();
             });
    });
  }
  return guards;
}

std::vector<bool> computed_from_accumulated(const ScalarProgram& program) {
  std::vector<bool> computed;
  const auto known = [&](std::int32_t position) {
    return computed[static_cast<std::size_t>(position)];
  };
  for (const ScalarStep& step : program.steps) {
    const bool found = step.is<step::Accumulated>() || std::ranges::any_of(step.operands, known) ||
                       any_dim(step, [&](const Dim& dim) {
                         return std::ranges::any_of(steps_mentioned(dim), known);
                       });
    computed.push_back(found);
  }
  return computed;
}

ScalarProgram without_widening(const ScalarProgram& program) {
  const ScalarStep& last = program.steps.back();
  if (!last.applies(Op::cast) || last.dtype != DType::F32) return program;
  const auto operand = static_cast<std::size_t>(last.operands.front());
  const DType narrow = program.steps[operand].dtype;
  if (narrow != DType::F16 && narrow != DType::BF16) return program;
  ScalarProgram result = program;
  result.steps.resize(operand + 1);
  return result;
}

Op joining_op(Reduce reduce) {
  switch (reduce) {
    case Reduce::Sum: return Op::add;
    case Reduce::Product: return Op::mul;
    case Reduce::Max: return Op::max;
    case Reduce::Min: return Op::min;
  }
  internal_error("a reduction is one of four");
}

namespace {

std::size_t size_of_index(const Dim& dim) {
  std::size_t size = 1;
  for (const Dim& operand : dim.operands()) size += size_of_index(operand);
  for (const Dim::Term& term : dim.terms())
    for (const Dim& factor : term.factors) size += size_of_index(factor);
  return size;
}

}  // namespace

std::size_t largest_index(const ScalarProgram& program) {
  std::size_t largest = 0;
  for (const ScalarStep& step : program.steps)
    for_each_dim(step, [&](const Dim& dim) { largest = std::max(largest, size_of_index(dim)); });
  return largest;
}

}  // namespace anydim::ir
