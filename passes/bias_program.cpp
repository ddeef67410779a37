#include "passes/bias_program.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "ir/derive.h"
#include "ir/error.h"
#include "ir/scalar.h"
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

ScalarStep element_step(const Tensor& tensor, std::int64_t at) {
  return is_float(tensor.dtype()) ? real_step(tensor.dtype(), tensor.real_at(at)) : integer_step(tensor.dtype(), tensor.integer_at(at));
}

// A matrix with one number where column <= row + diagonal and another elsewhere.
struct Triangle {
  ScalarStep below, above;
  std::int64_t diagonal = 0;
};

bool is_matrix(const Tensor& tensor) {
  if (tensor.rank() < 2) return false;
  const std::int64_t rows = tensor.dims()[tensor.rank() - 2], columns = tensor.dims()[tensor.rank() - 1];
  return rows > 1 && columns > 1 && tensor.elements() == rows * columns;
}

std::optional<Triangle> triangle_of(const Tensor& tensor) {
  const std::int64_t rows = tensor.dims()[tensor.rank() - 2], columns = tensor.dims()[tensor.rank() - 1];
  Triangle triangle{element_step(tensor, (rows - 1) * columns), element_step(tensor, columns - 1)};
  std::int64_t leading = 0, row = 0;
  while (leading < columns && element_step(tensor, leading) == triangle.below) ++leading;
  if (leading == 0)
    while (row < rows && !(element_step(tensor, row * columns) == triangle.below)) ++row;
  triangle.diagonal = leading > 0 ? leading - 1 : -row;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      if (!(element_step(tensor, i * columns + j) == (j <= i + triangle.diagonal ? triangle.below : triangle.above))) return std::nullopt;
  return triangle;
}

class Folding {
 public:
  Folding(const BiasProgram& bias, const std::vector<Assumption>& assumptions, bool diagonal)
      : bias_(bias), assumptions_(assumptions), symbols_(bias.context.symbols) {
    if (diagonal) replaced_.emplace("$j", row_symbol());
    for (Assumption& assumption : assumptions_)
      for (Dim& dim : assumption.place) dim = dim.substitute(replaced_);
  }

  ScalarProgram run() {
    for (const ScalarStep& step : bias_.program.steps) position_.push_back(folded(step));
    std::int32_t root = position_.back();
    ScalarProgram program{std::move(steps_)};
    derive::prune(program, {&root});
    return program;
  }

 private:
  const ScalarStep& at(std::int32_t position) const { return steps_[static_cast<std::size_t>(position)]; }

  std::int32_t push(ScalarStep step) {
    const auto same = std::find(steps_.begin(), steps_.end(), step);
    const auto position = static_cast<std::int32_t>(same - steps_.begin());
    if (same == steps_.end()) steps_.push_back(std::move(step));
    return position;
  }

  std::int32_t folded(ScalarStep step) {
    for (std::int32_t& operand : step.operands) operand = position_[static_cast<std::size_t>(operand)];
    for (Dim& dim : step.index) dim = dim.substitute(replaced_);
    for (auto& condition : step.conditions) {
      condition.left = condition.left.substitute(replaced_);
      condition.right = condition.right.substitute(replaced_);
    }
    switch (step.kind) {
      case Kind::Load: return loaded(std::move(step));
      case Kind::Guarded: return guarded(std::move(step));
      case Kind::Apply: return applied(std::move(step));
      case Kind::CheckedIndex: {
        const std::int32_t position = push(std::move(step));
        replaced_.emplace(step_symbol(static_cast<std::int32_t>(position_.size())), Dim::symbol(step_symbol(position)));
        return position;
      }
      case Kind::Extent:
        if (const auto constant = step.index[0].constant()) return push(integer_step(DType::I64, *constant));
        return push(std::move(step));
      case Kind::Constant:
      case Kind::Accumulated:
      case Kind::Scratch: return push(std::move(step));
    }
    internal_error("every kind of step is folded");
  }

  std::int32_t loaded(ScalarStep step) {
    for (const Assumption& assumption : assumptions_)
      if (step.buffer == assumption.buffer && step.index == assumption.place)
        return push(number_step(step.dtype, static_cast<double>(assumption.entry)));
    const std::size_t parameters = bias_.stretch.function->body.parameters.size();
    const auto buffer = static_cast<std::size_t>(step.buffer);
    if (buffer < parameters) return push(std::move(step));
    const Binding* constant = bias_.stretch.definition(bias_.constants[buffer - parameters]);
    const auto triangle = triangle_of(tensor_attribute(*constant, "value"));
    if (!triangle) return push(std::move(step));
    const Dim row = step.index[step.index.size() - 2], column = step.index.back();
    return guarded({.kind = Kind::Guarded,
                    .dtype = step.dtype,
                    .operands = {push(triangle->below), push(triangle->above)},
                    .conditions = {{Comparison::LessEqual, column, row + triangle->diagonal}}});
  }

  std::int32_t guarded(ScalarStep step) {
    bool all = true;
    for (const auto& condition : step.conditions) {
      const Proof proof = prove(condition.comparison, condition.left, condition.right, symbols_);
      if (proof == Proof::No) return step.operands[1];
      all = all && proof == Proof::Yes;
    }
    return all || step.operands[0] == step.operands[1] ? step.operands[0] : push(std::move(step));
  }

  // A number that is made of indices alone, and so never NaN.
  bool counts(std::int32_t position) const {
    const ScalarStep& step = at(position);
    return step.kind == Kind::Extent || (step.kind == Kind::Apply && step.op == Op::cast && counts(step.operands[0]));
  }

  std::int32_t applied(ScalarStep step) {
    std::vector<const ScalarStep*> operands;
    for (const std::int32_t operand : step.operands) operands.push_back(&at(operand));
    const Simplified simple = simplify_step(step.op, step.dtype, operands, symbols_);
    if (const Dim* dim = std::get_if<Dim>(&simple)) {
      if (const auto constant = dim->constant()) return push(integer_step(DType::I64, *constant));
      return push({.kind = Kind::Extent, .dtype = DType::I64, .index = {*dim}});
    }
    if (const bool* truth = std::get_if<bool>(&simple)) return push(integer_step(DType::Bool, *truth ? 1 : 0));
    if (const double* real = std::get_if<double>(&simple)) return push(real_step(step.dtype, *real));
    if (const Forwarded* forwarded = std::get_if<Forwarded>(&simple)) return step.operands[forwarded->operand];
    const auto known = [](const ScalarStep* operand) { return operand->kind == Kind::Constant; };
    if (std::all_of(operands.begin(), operands.end(), known)) return computed(std::move(step));
    if (step.op == Op::where && step.operands[1] == step.operands[2]) return step.operands[1];
    const bool equal = step.operands.size() == 2 && step.operands[0] == step.operands[1];
    if (equal && info(step.op).has(traits::compares) && counts(step.operands[0])) {
      const bool holds = step.op == Op::equal || step.op == Op::less_equal || step.op == Op::greater_equal;
      return push(integer_step(DType::Bool, holds ? 1 : 0));
    }
    if (equal && step.op == Op::sub && (!is_float(step.dtype) || counts(step.operands[0]))) return push(number_step(step.dtype, 0));
    // Times 0 is 0 for what a model computes of ordinary numbers.
    const auto zero = [&](const ScalarStep* operand) { return known(operand) && real_of(*operand) == 0; };
    if (step.op == Op::mul && std::any_of(operands.begin(), operands.end(), zero)) return push(number_step(step.dtype, 0));
    if (step.op == Op::add && zero(operands[0])) return step.operands[1];
    if ((step.op == Op::add || step.op == Op::sub) && zero(operands[1])) return step.operands[0];
    return push(std::move(step));
  }

  std::int32_t computed(ScalarStep step) {
    const ScalarStep first = at(step.operands[0]);
    if (step.op == Op::cast) {
      const double value = real_of(first);
      if (step.dtype == DType::Bool) return push(integer_step(DType::Bool, value != 0 ? 1 : 0));
      if (is_float(step.dtype)) return push(real_step(step.dtype, step.dtype == DType::F32 ? static_cast<float>(value) : value));
      return push(integer_step(step.dtype, is_float(first.dtype) ? truncate_to_integer(value, step.dtype) : first.integer));
    }
    if (step.op == Op::where) return step.operands[first.integer != 0 ? 1 : 2];
    const ScalarOp op{.op = step.op};
    if (step.op == Op::mod || step.op == Op::is_inf || (step.op == Op::div && !is_float(step.dtype))) return push(std::move(step));
    const ScalarStep second = step.operands.size() > 1 ? at(step.operands[1]) : first;
    if (info(step.op).has(traits::compares)) {
      const bool holds = is_float(first.dtype) ? apply_comparison<double>(op, first.real, second.real)
                                               : apply_comparison<std::int64_t>(op, first.integer, second.integer);
      return push(integer_step(DType::Bool, holds ? 1 : 0));
    }
    if (!is_float(step.dtype)) return push(integer_step(step.dtype, apply_integer<std::int64_t>(op, first.integer, second.integer)));
    const double value = apply_real<double>(op, first.real, second.real);
    return push(real_step(step.dtype, step.dtype == DType::F32 ? static_cast<float>(value) : value));
  }

  const BiasProgram& bias_;
  std::vector<Assumption> assumptions_;
  const SymbolTable& symbols_;
  std::map<std::string, Dim> replaced_;
  std::vector<ScalarStep> steps_;
  std::vector<std::int32_t> position_;  // of each step of the bias, among those made
};

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr RealRange anything{-infinity, infinity};

RealRange united(const RealRange& a, const RealRange& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

RealRange range_of(const ScalarStep& step, const std::vector<RealRange>& before, const SymbolTable& symbols) {
  const auto operand = [&](std::size_t i) { return before[static_cast<std::size_t>(step.operands[i])]; };
  switch (step.kind) {
    case Kind::Constant: return std::isnan(real_of(step)) ? anything : RealRange{real_of(step), real_of(step)};
    case Kind::Extent: {
      const Interval range = bounds(step.index[0], symbols);
      return {static_cast<double>(range.low), static_cast<double>(range.high)};
    }
    case Kind::Guarded: return united(operand(0), operand(1));
    case Kind::Apply: break;
    default: return step.dtype == DType::Bool ? RealRange{0, 1} : anything;
  }
  if (step.dtype == DType::Bool) return {0, 1};
  switch (step.op) {
    case Op::where: return united(operand(1), operand(2));
    case Op::min: return {std::min(operand(0).low, operand(1).low), std::min(operand(0).high, operand(1).high)};
    case Op::max: return {std::max(operand(0).low, operand(1).low), std::max(operand(0).high, operand(1).high)};
    case Op::cast: return is_float(step.dtype) ? operand(0) : anything;
    case Op::neg: return {-operand(0).high, -operand(0).low};
    case Op::add:
    case Op::sub: {
      const RealRange a = operand(0), b = step.op == Op::add ? operand(1) : RealRange{-operand(1).high, -operand(1).low};
      // Infinities of both signs would make NaN.
      if ((a.low == -infinity && b.high == infinity) || (a.high == infinity && b.low == -infinity)) return anything;
      return {a.low + b.low, a.high + b.high};
    }
    case Op::mul: {
      const RealRange a = operand(0), b = operand(1);
      RealRange result{infinity, -infinity};
      for (const double x : {a.low, a.high})
        for (const double y : {b.low, b.high}) {
          if (std::isnan(x * y)) return anything;
          result = united(result, {x * y, x * y});
        }
      return result;
    }
    default: return anything;
  }
}

}  // namespace

Dim batch_symbol(std::size_t axis) { return Dim::symbol("$b" + std::to_string(axis)); }
Dim row_symbol() { return Dim::symbol("$i"); }
Dim key_symbol() { return Dim::symbol("$j"); }

void build_bias(BiasProgram& bias, const Function& function, const Block& block, const Binding& attention) {
  bias.stretch = expand_stretch(function, block.bindings);
  bias.context.stretch = &bias.stretch;
  bias.context.symbols = function.symbols;
  for (const ValueId parameter : function.body.parameters)
    bias.context.buffers.emplace(parameter, static_cast<std::int32_t>(bias.context.buffers.size()));
  for (const Binding& binding : bias.stretch.bindings) {
    if (binding.op != Op::constant || !is_matrix(tensor_attribute(binding, "value"))) continue;
    bias.constants.push_back(binding.results[0]);
    bias.context.buffers.emplace(binding.results[0], static_cast<std::int32_t>(bias.context.buffers.size()));
  }
  const std::vector<Dim>& dims = function.tensor_type(attention.results[0]).dims;
  const std::vector<Dim>& keys = function.tensor_type(attention.operands[1]).dims;
  bias.batch_rank = dims.size() - 2;
  std::vector<Dim> scores(dims.begin(), dims.end() - 2), index;
  for (std::size_t axis = 0; axis < bias.batch_rank; ++axis) {
    bias.context.iterate(batch_symbol(axis).leaf().symbol, dims[axis]);
    index.push_back(batch_symbol(axis));
  }
  scores.push_back(dims[dims.size() - 2]);
  scores.push_back(keys[keys.size() - 2]);
  bias.context.iterate("$i", scores[bias.batch_rank]);
  bias.context.iterate("$j", scores.back());
  index.push_back(row_symbol());
  index.push_back(key_symbol());
  const ValueId operand = attention.operands[3];
  ProgramBuilder builder(bias.context);
  const std::int32_t element =
      builder.element(operand, broadcast_index(index, scores, bias.stretch.tensor(operand).dims, bias.context.symbols));
  bias.program = builder.take();
  std::int32_t root = element;
  derive::prune(bias.program, {&root});
}

ScalarProgram fold(const BiasProgram& bias, const std::vector<Assumption>& assumptions) { return Folding(bias, assumptions, false).run(); }

ScalarProgram fold_on_diagonal(const BiasProgram& bias, const std::vector<Assumption>& assumptions) {
  return Folding(bias, assumptions, true).run();
}

RealRange range_of(const ScalarProgram& program, const SymbolTable& symbols) {
  std::vector<RealRange> ranges;
  for (const ScalarStep& step : program.steps) ranges.push_back(range_of(step, ranges, symbols));
  return ranges.back();
}

}  // namespace anydim::passes
