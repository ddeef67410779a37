#include "codegen_cuda/attention/attention_score.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "codegen_cuda/names.h"
#include "ir/dims/affine.h"
#include "ir/loops/kernel_program.h"
#include "ir/loops/scalar_program.h"

namespace anydim::codegen_cuda {

namespace {

using ir::ScalarProgram;

const ScalarStep& at(const ScalarProgram& program, std::int32_t step) {
  return program.steps[static_cast<std::size_t>(step)];
}
bool reads_product(const ScalarProgram& program, std::int32_t step) {
  const ScalarStep& here = at(program, step);
  if (here.is<ir::step::Accumulated>()) return true;
  if (std::any_of(here.operands.begin(), here.operands.end(),
                  [&](std::int32_t operand) { return reads_product(program, operand); }))
    return true;
  return ir::any_dim(here, [&](const Dim& dim) {
    return std::ranges::any_of(ir::steps_mentioned(dim),
                               [&](std::int32_t index) { return reads_product(program, index); });
  });
}

// scale * product + sum of factor * step
struct Sum {
  double scale = 1;
  struct Term {
    std::int32_t step;
    double factor;
  };
  std::vector<Term> added;

  void multiply(double by) {
    scale *= by;
    for (Term& term : added) term.factor *= by;
  }
};

std::optional<Sum> as_sum(const ScalarProgram& program, std::int32_t step) {
  const ScalarStep& here = at(program, step);
  if (here.dtype != DType::F32) return std::nullopt;
  if (here.is<ir::step::Accumulated>()) return Sum{};
  if (!here.is<ir::step::Apply>() || here.operands.size() != 2) return std::nullopt;
  const bool first = reads_product(program, here.operands[0]);
  if (first && reads_product(program, here.operands[1])) return std::nullopt;
  const std::int32_t other = here.operands[first ? 1 : 0];
  const ScalarStep& beside = at(program, other);
  auto sum = as_sum(program, here.operands[first ? 0 : 1]);
  if (!sum) return std::nullopt;
  const auto* factor = std::get_if<ir::step::Constant>(&beside.kind);
  if (here.op() == Op::mul && factor) {
    sum->multiply(factor->real);
  } else if (here.op() == Op::div && first && factor && factor->real != 0) {
    sum->multiply(1 / factor->real);
  } else if (here.op() == Op::add) {
    sum->added.push_back({other, 1});
  } else if (here.op() == Op::sub) {
    if (!first) sum->multiply(-1);
    sum->added.push_back({other, first ? -1.0 : 1.0});
  } else {
    return std::nullopt;
  }
  return sum;
}

std::int32_t push(ScalarProgram& program, ScalarStep step) {
  program.steps.push_back(std::move(step));
  return ir::last_step(program);
}

ScalarProgram added_program(const ScalarProgram& score, const std::vector<Sum::Term>& added) {
  ScalarProgram program = score;
  std::int32_t total = -1;
  const auto apply = [&](Op op, std::int32_t a, std::int32_t b) {
    return push(program, {DType::F32, ir::step::Apply{op}, {a, b}});
  };
  for (const Sum::Term& term : added) {
    std::int32_t value = term.step;
    if (term.factor != 1) {
      const std::int32_t constant = push(program, ir::number_step(DType::F32, term.factor));
      value = apply(Op::mul, value, constant);
    }
    total = total < 0 ? value : apply(Op::add, total, value);
  }
  ir::prune(program, {&total});
  program.steps.resize(static_cast<std::size_t>(total) + 1);
  return program;
}

// ---- Which keys a row can see ----

// A condition left <= right (or left < right) that holds wherever a score isn't masked.
using Condition = ScalarStep::Condition;

struct Visibility {
  std::vector<Condition> conditions;
  bool complete = true;  // nothing else hides a key
  bool bare = true;      // where they hold nothing is added but 0
  void join(Visibility other) {
    conditions.insert(conditions.end(), other.conditions.begin(), other.conditions.end());
    complete = complete && other.complete;
    bare = bare && other.bare;
  }
};

std::optional<Dim> integer_of(const ScalarProgram& program, std::int32_t step) {
  const ScalarStep& here = at(program, step);
  if (const auto* extent = std::get_if<ir::step::Extent>(&here.kind)) return extent->value;
  if (here.is<ir::step::Constant>() && !ir::is_float(here.dtype))
    return Dim(here.as<ir::step::Constant>().integer);
  // Indices are below 2^31: conversions to wider integers keep them.
  if (here.applies(Op::cast) && (here.dtype == DType::I32 || here.dtype == DType::I64))
    return integer_of(program, here.operands[0]);
  return std::nullopt;
}

// What holds where the bool `step` is `wanted`.
Visibility holds(const ScalarProgram& program, std::int32_t step, bool wanted) {
  const Visibility unknown{.conditions = {}, .complete = false, .bare = false};
  const ScalarStep& here = at(program, step);
  if (!here.is<ir::step::Apply>()) return unknown;
  if (here.op() == Op::logical_not) return holds(program, here.operands[0], !wanted);
  if (here.op() == Op::cast && at(program, here.operands[0]).dtype == DType::Bool)
    return holds(program, here.operands[0], wanted);
  if ((here.op() == Op::logical_and && wanted) || (here.op() == Op::logical_or && !wanted)) {
    Visibility both = holds(program, here.operands[0], wanted);
    both.join(holds(program, here.operands[1], wanted));
    return both;
  }
  if (here.operands.size() != 2) return unknown;
  const auto left = integer_of(program, here.operands[0]),
             right = integer_of(program, here.operands[1]);
  if (!left || !right) return unknown;
  using enum ir::Comparison;
  switch (here.op()) {
    case Op::less:
      return {{wanted ? Condition{Less, *left, *right} : Condition{LessEqual, *right, *left}},
              true};
    case Op::less_equal:
      return {{wanted ? Condition{LessEqual, *left, *right} : Condition{Less, *right, *left}},
              true};
    case Op::greater:
      return {{wanted ? Condition{Less, *right, *left} : Condition{LessEqual, *left, *right}},
              true};
    case Op::greater_equal:
      return {{wanted ? Condition{LessEqual, *right, *left} : Condition{Less, *left, *right}},
              true};
    default: return unknown;
  }
}

constexpr double infinity = std::numeric_limits<double>::infinity();
// Adding it to a score leaves itself, and the exponential of its distance from any score that was
// not masked is 0.
constexpr double masks_below = -3e38;

bool masks(const ScalarStep& step, double& weakest) {
  if (!step.is<ir::step::Constant>() || step.as<ir::step::Constant>().real > masks_below)
    return false;
  weakest = std::max(weakest, step.as<ir::step::Constant>().real);
  return true;
}

// where(seen, score, fill) as score + where(seen, 0, fill), of a fill that masks.
ScalarProgram with_choice_added(ScalarProgram program) {
  const ScalarStep last = program.steps.back();
  double weakest = 0;
  if (!last.applies(Op::where) || !masks(at(program, last.operands[2]), weakest)) return program;
  const std::int32_t zero = push(program, ir::number_step(last.dtype, 0));
  const std::int32_t added =
      push(program,
           {last.dtype, ir::step::Apply{Op::where}, {last.operands[0], zero, last.operands[2]}});
  push(program, {last.dtype, ir::step::Apply{Op::add}, {last.operands[1], added}});
  return program;
}

bool is_zero(const ScalarStep& step) {
  return step.is<ir::step::Constant>() && step.as<ir::step::Constant>().real == 0;
}

// What holds where the added value `step` doesn't mask.
Visibility visible(const ScalarProgram& program, std::int32_t step, double& weakest) {
  const ScalarStep& here = at(program, step);
  if (here.applies(Op::where)) {
    const ScalarStep &then = at(program, here.operands[1]),
                     &otherwise = at(program, here.operands[2]);
    if (masks(otherwise, weakest)) {
      Visibility found = holds(program, here.operands[0], true);
      found.complete = found.complete && then.is<ir::step::Constant>();
      found.bare = is_zero(then);
      return found;
    }
    if (masks(then, weakest)) {
      Visibility found = holds(program, here.operands[0], false);
      found.complete = found.complete && otherwise.is<ir::step::Constant>();
      found.bare = is_zero(otherwise);
      return found;
    }
  }
  if (here.is<ir::step::Guarded>() && masks(at(program, here.operands[1]), weakest)) {
    const ScalarStep& seen = at(program, here.operands[0]);
    Visibility found{
        .conditions = {}, .complete = seen.is<ir::step::Constant>(), .bare = is_zero(seen)};
    for (const Condition& condition : here.as<ir::step::Guarded>().conditions) {
      if (condition.comparison == ir::Comparison::Less ||
          condition.comparison == ir::Comparison::LessEqual)
        found.conditions.push_back(condition);
      else found.complete = false;
    }
    return found;
  }
  return {.conditions = {}, .complete = here.is<ir::step::Constant>(), .bare = is_zero(here)};
}

// left - right, less one where equality is excluded too: the condition is that this isn't positive.
Dim excess(const Condition& condition) {
  return condition.left - condition.right +
         (condition.comparison == ir::Comparison::Less ? Dim(1) : Dim(0));
}

bool row_surely_sees(const std::vector<Condition>& conditions, const ir::AttentionForm& form,
                     const ir::SymbolTable& symbols) {
  std::vector<Dim> keys{Dim(0)};
  if (form.row.extent == form.key.extent) keys.push_back(form.row.index());
  return std::any_of(keys.begin(), keys.end(), [&](const Dim& key) {
    return std::all_of(conditions.begin(), conditions.end(), [&](const Condition& condition) {
      const Dim here =
          excess(condition).substitute(std::map<ir::DimLeaf, Dim>{{form.key.variable, key}});
      return ir::prove_less_equal(here, 0, symbols) == ir::Proof::Yes;
    });
  });
}

// nullopt: keys that are masked may have weights. -infinity gives weight 0 beside anything; a
// finite value does only beside a key that isn't masked too.
std::optional<Visibility> visibility(const ScalarProgram& program, const Sum& sum,
                                     const ir::AttentionForm& form,
                                     const ir::SymbolTable& symbols) {
  Visibility all;
  double weakest = -infinity;
  for (const Sum::Term& term : sum.added) {
    if (term.factor == 1) all.join(visible(program, term.step, weakest));
    else all.complete = false;
  }
  if (weakest != -infinity && !(all.complete && row_surely_sees(all.conditions, form, symbols)))
    return std::nullopt;
  return all;
}

// Where a condition puts the bound of the keys that rows first_row_leaf ... last_row_leaf may see.
struct Bound {
  bool end = false;            // keys lie below it, else not below it
  std::int64_t row_slope = 0;  // by which it moves from row to row
  Dim loosest, strictest;      // over the rows
};

std::optional<Bound> bound_of(const Condition& condition, const ir::AttentionForm& form) {
  const auto along_key = ir::affine_in(excess(condition), form.key.variable);
  if (!along_key) return std::nullopt;
  const bool from_above = along_key->stride.is_constant(1);
  if (!from_above && !along_key->stride.is_constant(-1)) return std::nullopt;
  const auto along_row = ir::affine_in(along_key->base, form.row.variable);
  if (!along_row || !along_row->stride.constant()) return std::nullopt;
  // excess = +-key + slope * row + base <= 0
  const std::int64_t slope = *along_row->stride.constant();
  const auto limit = [&](bool last) {
    const Dim at = Dim(slope) * Dim::of(last ? last_row_leaf : first_row_leaf) + along_row->base;
    return from_above ? Dim(1) - at : at;
  };
  Bound bound{.end = from_above,
              .row_slope = from_above ? -slope : slope,
              .loosest = limit(slope < 0),
              .strictest = limit(slope >= 0)};
  const auto leaves = bound.loosest.leaves();
  if (std::any_of(leaves.begin(), leaves.end(),
                  [](const ir::DimLeaf& leaf) { return leaf.is_element() || leaf.is_step(); }))
    return std::nullopt;
  return bound;
}

}  // namespace

AttentionScore attention_score(const ir::AttentionForm& form, const ir::SymbolTable& symbols) {
  const ScalarProgram program = with_choice_added(form.score);
  const auto sum = as_sum(program, ir::last_step(program));
  if (!sum || !(sum->scale > 0))
    return {.form = ScoreForm::Plain, .scale = 1, .program = form.score};
  if (sum->added.empty()) return {.form = ScoreForm::Scaled, .scale = sum->scale, .program = {}};
  AttentionScore score{.form = ScoreForm::Column,
                       .scale = sum->scale,
                       .program = added_program(program, sum->added)};
  const auto seen = visibility(program, *sum, form, symbols);
  if (seen && seen->complete && seen->bare &&
      std::ranges::all_of(seen->conditions, [&](const Condition& condition) {
        return bound_of(condition, form).has_value();
      }))
    score.form = ScoreForm::Masked;
  else if (ir::varies(score.program.steps, ir::last_step(score.program), form.row.variable))
    score.form = ScoreForm::Element;
  return score;
}

KeyRange key_range(const ir::AttentionForm& form, const ir::SymbolTable& symbols) {
  const ScalarProgram program = with_choice_added(form.score);
  const auto sum = as_sum(program, ir::last_step(program));
  if (!sum) return {};
  const auto seen = visibility(program, *sum, form, symbols);
  if (!seen) return {};
  KeyRange range;
  std::set<ir::DimLeaf> batch;
  for (const ir::Iteration& iteration : form.batch) batch.insert(iteration.variable);
  for (const Condition& condition : seen->conditions) {
    const auto bound = bound_of(condition, form);
    if (!bound) continue;
    for (const ir::DimLeaf& leaf : bound->loosest.leaves())
      range.depends_on_batch = range.depends_on_batch || batch.contains(leaf);
    (bound->end ? range.ends : range.begins).push_back(bound->loosest);
    (bound->end ? range.whole_ends : range.whole_begins).push_back(bound->strictest);
    if (bound->end && bound->row_slope == 1 &&
        ir::prove_less_equal(bound->loosest - Dim::of(last_row_leaf), 1, symbols) == ir::Proof::Yes)
      range.none_behind_row = true;
  }
  return range;
}

}  // namespace anydim::codegen_cuda
