#include "tests/support/loop_form_interpreter.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "ir/error.h"
#include "ir/loops/loop_form_parse.h"
#include "ir/loops/placed_kernel_parse.h"
#include "ir/loops/scalar_program.h"
#include "ir/loops/verify_loop_form.h"
#include "ir/overloaded.h"
#include "ir/shapes/bind.h"

namespace anydim::tests {

using namespace ir;

namespace {

// One scalar of any dtype: reals in `real`, integers and bools in `integer`.
struct Scalar {
  double real = 0;
  std::int64_t integer = 0;
};

Scalar read(const Tensor& tensor, std::int64_t at) {
  if (is_float(tensor.dtype())) return {tensor.real_at(at), 0};
  return {0, tensor.integer_at(at)};
}

// To nearest even, into the dtype's numbers.
double rounded(DType dtype, double value) {
  if (dtype == DType::F64) return value;
  if (dtype == DType::F32) return static_cast<float>(value);
  Tensor one(dtype, {});
  one.set_real(0, value);
  return one.real_at(0);
}

Scalar apply(const ScalarStep& step, DType from, const std::vector<Scalar>& operands) {
  const ScalarOp op = scalar_op(step);
  if (step.op() == Op::where) return operands[0].integer != 0 ? operands[1] : operands[2];
  if (step.op() == Op::cast) {
    double real = is_float(from) ? operands[0].real : static_cast<double>(operands[0].integer);
    if (is_float(step.dtype)) return {rounded(step.dtype, real), 0};
    if (step.dtype == DType::Bool)
      return {0, is_float(from) ? real != 0 : operands[0].integer != 0};
    return {0, is_float(from) ? truncate_to_integer(real, step.dtype) : operands[0].integer};
  }
  if (step.op() == Op::bitcast) {
    Tensor one(from, {}), other(step.dtype, {});
    if (is_float(from)) one.set_real(0, operands[0].real);
    else one.set_integer(0, operands[0].integer);
    std::ranges::copy(one.bytes(), other.mutable_bytes().begin());
    if (step.dtype == DType::Bool) return {0, other.integer_at(0) != 0};
    return read(other, 0);
  }
  Scalar a = operands[0], b = operands.size() > 1 ? operands[1] : Scalar{};
  if (info(step.op()).has(traits::compares))
    return {0, is_float(from) ? apply_comparison<double>(op, a.real, b.real)
                              : apply_comparison<std::int64_t>(op, a.integer, b.integer)};
  if (is_float(step.dtype)) {
    return {rounded(step.dtype, apply_real<double>(op, a.real, b.real)), 0};
  }
  return {0, apply_integer<std::int64_t>(op, a.integer, b.integer)};
}

class Runner {
 public:
  Runner(const Region& region, const LoopForm& form, std::span<const Tensor> inputs,
         std::span<const std::int64_t> symbols)
      : form_(form), inputs_(inputs.begin(), inputs.end()) {
    const auto& names = region.body.symbols.names();
    for (std::size_t i = 0; i < names.size(); ++i) values_[{.symbol = names[i]}] = symbols[i];
    for (ValueId result : region.body.body.results) {
      const TensorType& type = region.body.tensor_type(result);
      std::vector<std::int64_t> dims;
      for (const Dim& dim : type.dims) dims.push_back(value(dim));
      outputs_.emplace_back(type.dtype, dims);
      written_.emplace_back(static_cast<std::size_t>(outputs_.back().elements()), false);
    }
  }

  std::vector<Tensor> run() {
    std::visit([&](const auto& kind) { run(kind); }, form_.kind);
    for (const auto& output : written_)
      for (bool element : output)
        if (!element) throw std::logic_error("an element of an output is never written");
    return std::move(outputs_);
  }

 private:
  using Results = std::vector<Scalar>;

  std::int64_t value(const Dim& dim) const {
    return dim.evaluate([&](const DimLeaf& leaf) {
      auto found = values_.find(leaf);
      if (found == values_.end()) throw std::logic_error("leaf without value: " + to_string(leaf));
      return found->second;
    });
  }

  std::int64_t offset(const std::vector<Dim>& index, const std::vector<std::int64_t>& dims) const {
    std::int64_t result = 0;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      std::int64_t at = value(index[i]);
      if (at < 0 || at >= dims[i])
        throw std::logic_error("an access outside its buffer: " + index[i].to_string());
      result = result * dims[i] + at;
    }
    return result;
  }

  void loop(std::span<const Iteration> space, const std::function<void()>& body) {
    if (space.empty()) return body();
    loop_over(space[0].variable, 0, value(space[0].extent), [&] { loop(space.subspan(1), body); });
  }

  void loop_over(const DimLeaf& variable, std::int64_t first, std::int64_t last,
                 const std::function<void()>& body) {
    for (std::int64_t i = first; i < last; ++i) {
      values_[variable] = i;
      body();
    }
    values_.erase(variable);
  }

  std::int64_t offset_of(const Segments& segments, std::int64_t segment) const {
    return inputs_[static_cast<std::size_t>(segments.offsets)].integer_at(segment);
  }

  // Steps are evaluated when asked for, so that a guard keeps its operand's loads from happening.
  class Evaluation {
   public:
    Evaluation(Runner& runner, const ScalarProgram& program, const std::vector<Scalar>& accumulated,
               const std::vector<Scalar>& scratch)
        : runner_(runner), program_(program), accumulated_(accumulated), scratch_(scratch),
          known_(program.steps.size()) {}

    ~Evaluation() {
      for (std::size_t i = 0; i < program_.steps.size(); ++i)
        runner_.values_.erase(step_leaf(static_cast<std::int32_t>(i)));
    }

    Scalar operator()(std::int32_t position) {
      auto& known = known_[static_cast<std::size_t>(position)];
      if (!known) known = compute(position);
      return *known;
    }

    // Gives the steps that the dim mentions their values.
    void need(const Dim& dim) {
      for (const DimLeaf& leaf : dim.leaves())
        if (leaf.is_step()) (*this)(leaf.step());
    }

   private:
    Scalar compute(std::int32_t position) {
      const ScalarStep& step = program_.steps[static_cast<std::size_t>(position)];
      for_each_dim(step, [&](const Dim& dim) { need(dim); });
      const Overloaded run{
          [](const step::Constant& constant) { return Scalar{constant.real, constant.integer}; },
          [&](const step::Extent& extent) { return Scalar{0, runner_.value(extent.value)}; },
          [&](const step::Load& load) {
            const Tensor& buffer = runner_.inputs_[static_cast<std::size_t>(load.buffer)];
            return read(buffer, runner_.offset(load.index, buffer.dims()));
          },
          [&](const step::Apply&) {
            std::vector<Scalar> operands;
            for (std::int32_t operand : step.operands) operands.push_back((*this)(operand));
            return apply(step, program_.steps[static_cast<std::size_t>(step.operands[0])].dtype,
                         operands);
          },
          [&](const step::CheckedIndex& checked) {
            const std::int64_t extent = runner_.value(checked.extent),
                               at = (*this)(step.operands[0]).integer;
            if (at < -extent || at >= extent) throw Error(ErrorKind::Inputs, "index out of range");
            const std::int64_t index = at < 0 ? at + extent : at;
            runner_.values_[step_leaf(position)] = index;
            return Scalar{0, index};
          },
          [&](const step::Guarded& guarded) {
            const bool holds = std::ranges::all_of(
                guarded.conditions, [&](const auto& one) { return runner_.holds(one); });
            return (*this)(step.operands[holds ? 0 : 1]);
          },
          [&](const step::Accumulated& result) {
            return accumulated_.at(static_cast<std::size_t>(result.slot));
          },
          [&](const step::Scratch& element) {
            return scratch_.at(static_cast<std::size_t>(element.slot));
          },
      };
      return std::visit(run, step.kind);
    }

    Runner& runner_;
    const ScalarProgram& program_;
    const std::vector<Scalar>& accumulated_;
    const std::vector<Scalar>& scratch_;
    std::vector<std::optional<Scalar>> known_;
  };

  void store(const std::vector<Store>& stores, Evaluation& steps) {
    for (const Store& entry : stores) {
      Tensor& output = outputs_[static_cast<std::size_t>(entry.output)];
      std::int64_t at = offset(entry.index, output.dims());
      auto written = written_[static_cast<std::size_t>(entry.output)].begin() + at;
      if (*written) throw std::logic_error("an element of an output is written twice");
      *written = true;
      Scalar result = steps(entry.step);
      if (is_float(output.dtype())) output.set_real(at, result.real);
      else output.set_integer(at, result.integer);
    }
  }

  void run(const MapForm& form) {
    for (const MapPart& part : form.parts)
      loop(part.space, [&] {
        Evaluation steps(*this, part.program, none_, none_);
        store(part.stores, steps);
      });
  }

  // Scratch vectors of one row: by slot, then by inner point in loop order.
  using Loop = std::function<void(const std::function<void()>&)>;
  void run_stages(const std::vector<RowStage>& stages, const Loop& inner, std::int32_t accumulators,
                  std::vector<std::vector<Scalar>> scratch) {
    Results accumulated(static_cast<std::size_t>(accumulators));
    for (const RowStage& stage : stages) {
      if (stage.per_row) {
        Evaluation steps(*this, stage.program, accumulated, none_);
        store(stage.stores, steps);
        continue;
      }
      Results sums(accumulated);
      for (const auto& reduction : stage.reductions)
        sums[static_cast<std::size_t>(reduction.slot)] = neutral(reduction.kind, reduction.dtype);
      std::size_t point = 0;
      inner([&] {
        Results at(scratch.size());
        for (std::size_t slot = 0; slot < scratch.size(); ++slot)
          if (point < scratch[slot].size()) at[slot] = scratch[slot][point];
        Evaluation steps(*this, stage.program, accumulated, at);
        for (const auto& keep : stage.keeps)
          scratch[static_cast<std::size_t>(keep.slot)].push_back(steps(keep.step));
        for (const auto& reduction : stage.reductions) {
          Scalar& sum = sums[static_cast<std::size_t>(reduction.slot)];
          sum = reduced(reduction.kind, reduction.dtype, sum, steps(reduction.step));
        }
        store(stage.stores, steps);
        ++point;
      });
      accumulated = sums;
    }
  }

  static Scalar neutral(Reduce kind, DType dtype) {
    constexpr double infinite = std::numeric_limits<double>::infinity();
    switch (kind) {
      case Reduce::Sum: return {0, 0};
      case Reduce::Product: return {1, 1};
      case Reduce::Max:
        return {-infinite, is_signed(dtype) ? std::numeric_limits<std::int64_t>::min() : 0};
      case Reduce::Min: return {infinite, std::numeric_limits<std::int64_t>::max()};
    }
    throw std::logic_error("every reduction has a neutral element");
  }

  static Scalar reduced(Reduce kind, DType dtype, Scalar a, Scalar b) {
    static constexpr Op ops[] = {Op::add, Op::mul, Op::max, Op::min};
    ScalarOp op{.op = ops[static_cast<int>(kind)]};
    if (is_float(dtype)) return {apply_real<double>(op, a.real, b.real), 0};
    return {0, apply_integer<std::int64_t>(op, a.integer, b.integer)};
  }

  void run(const RowForm& form) {
    loop(form.outer, [&] {
      const Loop inner = [&](const std::function<void()>& body) {
        if (!form.segments) return loop(form.inner, body);
        const std::int64_t segment = values_.at(form.outer.front().variable);
        loop_over(form.inner.front().variable, offset_of(*form.segments, segment),
                  offset_of(*form.segments, segment + 1), body);
      };
      run_stages(form.stages, inner, form.accumulators,
                 std::vector<std::vector<Scalar>>(form.scratch.size()));
    });
  }

  void run(const OrderedForm& form) {
    loop(form.outer, [&] {
      for (const OrderedStage& stage : form.stages) run(stage);
    });
  }

  void run(const OrderedStage& stage) {
    for (const auto& condition : stage.conditions)
      if (!holds(condition)) return;
    Results carried(stage.carries.size());
    loop(stage.inner, [&] {
      Evaluation steps(*this, stage.program, carried, none_);
      for (const auto& update : stage.updates) {
        Scalar result = steps(update.store.step);
        for (const Dim& dim : update.store.index) steps.need(dim);
        Tensor& output = outputs_[static_cast<std::size_t>(update.store.output)];
        std::int64_t at = offset(update.store.index, output.dims());
        written_[static_cast<std::size_t>(update.store.output)][static_cast<std::size_t>(at)] =
            true;
        if (update.combine) {
          const ScalarOp op{.op = *update.combine};
          const Scalar there = read(output, at);
          if (is_float(output.dtype()))
            result.real = apply_real<double>(op, there.real, result.real);
          else result.integer = apply_integer<std::int64_t>(op, there.integer, result.integer);
        }
        if (is_float(output.dtype())) output.set_real(at, result.real);
        else output.set_integer(at, result.integer);
      }
      Results next;
      for (const auto& carry : stage.carries) next.push_back(steps(carry.next));
      carried = std::move(next);
    });
  }

  void write(std::int32_t output, std::int64_t at, std::int64_t value) {
    outputs_[static_cast<std::size_t>(output)].set_integer(at, value);
    written_[static_cast<std::size_t>(output)][static_cast<std::size_t>(at)] = true;
  }

  void run(const CompactForm& form) {
    std::int64_t number = 0, found = 0;
    loop(form.space, [&] {
      Evaluation steps(*this, form.program, none_, none_);
      if (steps(form.selected).integer != 0) {
        if (form.positions >= 0) write(form.positions, found, number);
        ++found;
      }
      ++number;
    });
    if (form.count >= 0) write(form.count, 0, found);
    for (std::int64_t i = found; form.positions >= 0 && i < number; ++i)
      write(form.positions, i, 0);
  }

  // Below 0, 0 or above 0.
  static int compared(DType dtype, Scalar a, Scalar b) {
    const auto by = [](auto left, auto right) { return left < right ? -1 : left > right ? 1 : 0; };
    if (is_float(dtype)) {
      if (std::isnan(a.real) || std::isnan(b.real))
        return by(std::isnan(a.real), std::isnan(b.real));
      return by(a.real, b.real);
    }
    if (dtype == DType::U64)
      return by(static_cast<std::uint64_t>(a.integer), static_cast<std::uint64_t>(b.integer));
    return by(a.integer, b.integer);
  }

  void run(const SortForm& form) {
    const DType dtype = form.program.steps[static_cast<std::size_t>(form.key)].dtype;
    loop(form.outer, [&] {
      std::vector<std::vector<Scalar>> keys;
      loop({&form.item, 1}, [&] {
        std::vector<Scalar>& of = keys.emplace_back();
        loop(form.depth, [&] {
          Evaluation steps(*this, form.program, none_, none_);
          of.push_back(steps(form.key));
        });
      });
      std::vector<std::int64_t> order(keys.size());
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        const auto &left = keys[static_cast<std::size_t>(a)],
                   &right = keys[static_cast<std::size_t>(b)];
        for (std::size_t d = 0; d < left.size(); ++d) {
          const int difference = compared(dtype, left[d], right[d]);
          if (difference != 0) return (difference < 0) != form.descending;
        }
        return a < b;
      });
      loop({&form.rank, 1}, [&] {
        write(form.output,
              offset(form.index, outputs_[static_cast<std::size_t>(form.output)].dims()),
              order.at(static_cast<std::size_t>(values_.at(form.rank.variable))));
      });
    });
  }

  bool holds(const ScalarStep::Condition& condition) const {
    const std::int64_t left = value(condition.left), right = value(condition.right);
    switch (condition.comparison) {
      case Comparison::Equal: return left == right;
      case Comparison::NotEqual: return left != right;
      case Comparison::Less: return left < right;
      case Comparison::LessEqual: return left <= right;
    }
    throw std::logic_error("every comparison is decided");
  }

  Scalar element(const ScalarProgram& program) {
    Evaluation steps(*this, program, none_, none_);
    return steps(static_cast<std::int32_t>(program.steps.size() - 1));
  }

  void run(const MatmulForm& form) {
    std::vector<Iteration> rows = form.batch;
    rows.push_back(form.m);
    loop(rows, [&] {
      std::vector<std::vector<Scalar>> scratch(form.scratch.size());
      loop({&form.n, 1}, [&] {
        Results products;
        const auto multiply = [&] {
          Scalar sum;
          loop({&form.k, 1}, [&] {
            Scalar left = element(form.left), right = element(form.right);
            sum.real += left.real * right.real;
            sum.integer += left.integer * right.integer;
          });
          products.push_back(sum);
        };
        if (form.gate) loop({&*form.gate, 1}, multiply);
        else multiply();
        Evaluation steps(*this, form.epilogue, products, none_);
        if (!form.rows.empty()) scratch[0].push_back(steps(form.epilogue_step));
        store(form.stores, steps);
      });
      run_stages(
          form.rows, [&](const std::function<void()>& body) { loop({&form.n, 1}, body); },
          form.accumulators, std::move(scratch));
    });
  }

  void run(const AttentionForm& form) {
    std::vector<Iteration> rows = form.batch;
    rows.push_back(form.row);
    loop(rows, [&] {
      std::int64_t first = 0, last = value(form.key.extent);
      if (form.segments) {
        const std::int64_t row = values_.at(form.row.variable), count = value(form.segments->count);
        std::int64_t segment = 0;
        while (segment + 1 < count && offset_of(*form.segments, segment + 1) <= row) ++segment;
        first = offset_of(*form.segments, segment);
        last = offset_of(*form.segments, segment + 1);
      }
      Results weights;
      double largest = -std::numeric_limits<double>::infinity(), total = 0;
      loop_over(form.key.variable, first, last, [&] {
        Scalar dot;
        loop({&form.depth, 1}, [&] { dot.real += element(form.q).real * element(form.k).real; });
        Results product{dot};
        Evaluation steps(*this, form.score, product, none_);
        weights.push_back(steps(static_cast<std::int32_t>(form.score.steps.size() - 1)));
        largest = std::max(largest, weights.back().real);
      });
      for (Scalar& weight : weights) total += weight.real = std::exp(weight.real - largest);
      loop({&form.width, 1}, [&] {
        Scalar sum;
        std::size_t at = 0;
        loop_over(form.key.variable, first, last, [&] {
          double weight = weights[at++].real / total;
          if (form.zero_nan && std::isnan(weight)) weight = 0;
          sum.real += weight * element(form.v).real;
        });
        Results output{sum};
        Evaluation steps(*this, form.epilogue, output, none_);
        store(form.stores, steps);
      });
    });
  }

  const LoopForm& form_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  std::vector<std::vector<bool>> written_;
  std::map<DimLeaf, std::int64_t> values_;
  const std::vector<Scalar> none_;
};

}  // namespace

std::vector<Tensor> run_loop_form(const Region& region, const LoopForm& form,
                                  std::span<const Tensor> inputs,
                                  std::span<const std::int64_t> symbols) {
  // What is not proven is refused as a text; nothing else is wrong with a derived form.
  const auto flaw = verify_loop_form(form);
  if (flaw && !flaw->unproven) throw std::logic_error(flaw->message + "\n" + to_string(form));
  if (!flaw) parse_kernel(to_string(place_kernel(form)));
  const LoopForm read = flaw ? form : parse_loop_form(to_string(form));
  return Runner(region, read, inputs, symbols).run();
}

std::vector<Tensor> run_regions(const Module& module, std::vector<Tensor> inputs) {
  const Function& main = module.functions.at(0);
  SymbolValues symbols = bind_symbols(main, inputs);
  std::map<ValueId, Tensor> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[main.body.parameters[i]] = inputs[i];
  const auto value_of = [&](const Dim& dim) {
    return dim.evaluate([&](const DimLeaf& leaf) {
      return leaf.is_symbol() ? symbols.at(leaf.symbol)
                              : values.at(leaf.value).integer_at(leaf.element);
    });
  };
  for (const Binding& binding : main.body.bindings) {
    if (binding.op == Op::constant) {
      values[binding.results[0]] = tensor_attribute(binding, "value");
      continue;
    }
    if (binding.op == Op::dim) {
      values[binding.results[0]] =
          Tensor::of(DType::I64, {}, std::vector{value_of(binding.dims[0])});
      continue;
    }
    if (binding.op == Op::bind) {
      symbols[binding.dims[0].leaf().symbol] = values.at(binding.operands[0]).integer_at(0);
      continue;
    }
    if (binding.op == Op::check) continue;  // holds for the inputs that callers give
    if (binding.op == Op::drop_ones && binding.operands.size() == 1) {
      const Tensor& given = values.at(binding.operands[0]);
      values[binding.results[0]] = {given.dtype(), without_ones("", given.dims(), given.dims()),
                                    given.bytes(), given.owner()};
      continue;
    }
    if (binding.op != Op::region) throw std::logic_error("fusion left " + describe(main, binding));
    const Region& region = module.regions.at(binding.callee);
    std::vector<Tensor> operands;
    std::vector<std::int64_t> arguments;
    for (ValueId operand : binding.operands) operands.push_back(values.at(operand));
    for (const Dim& dim : binding.dims) arguments.push_back(value_of(dim));
    const auto form = loop_form_of(region);
    if (to_string(*form) != to_string(derive_loop_form(region)))
      throw std::logic_error("the form that a region carries is not its body's:\n" +
                             to_string(*form));
    std::vector<Tensor> results = run_loop_form(region, *form, operands, arguments);
    for (std::size_t i = 0; i < results.size(); ++i) values[binding.results[i]] = results[i];
  }
  std::vector<Tensor> outputs;
  for (ValueId result : main.body.results) outputs.push_back(values.at(result));
  return outputs;
}

}  // namespace anydim::tests
