// What is left of a bias between rows that take part, as bindings over packed rows: [tokens,
// tokens], which attention's kernel computes point by point.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>

#include "ir/error.h"
#include "ir/loops/scalar_program.h"
#include "ir/overloaded.h"
#include "passes/bias_program.h"
#include "passes/row_packer.h"
#include "passes/score_bound.h"

namespace anydim::passes {

using namespace ir;

namespace {

// Bounds of inputs' elements, tried in this order. Those that a run must keep to are above what
// models are fed with.
constexpr double input_limits[] = {std::numeric_limits<double>::infinity(), 1e8, 1e4, 100};

Op comparing(Comparison comparison) {
  switch (comparison) {
    case Comparison::Equal:
    case Comparison::NotEqual: return Op::equal;
    case Comparison::Less: return Op::less;
    case Comparison::LessEqual: return Op::less_equal;
  }
  internal_error("a comparison is one of four");
}

}  // namespace

// Indices are positions in a sequence: a row's as a column vector, a key's as a row vector.
class RowPacker::BetweenRows {
 public:
  BetweenRows(RowPacker& packer, const MaskFinding& finding, const Binding& attention)
      : packer_(packer), finding_(finding), attention_(attention) {}

  ValueId value(const ScalarProgram& program) {
    std::vector<ValueId> values;
    for (const ScalarStep& step : program.steps) {
      values.push_back(step_value(step, values));
      // What differs between heads has dims of its own, which an index has no room for.
      if (step.is<step::CheckedIndex>() && !by_head_)
        indices_.emplace(step_leaf(static_cast<std::int32_t>(values.size()) - 1), values.back());
    }
    return values.back();
  }

 private:
  ValueId add(Op op, std::vector<ValueId> operands, Attributes attributes = {},
              const Dims& dims = {}) {
    return packer_.add(op, std::move(operands), std::move(attributes), attention_, dims);
  }

  ValueId literal(const ScalarStep& step) {
    return add(Op::constant, {}, {{"value", constant_tensor(step)}});
  }

  ValueId index(const Dim& dim) {
    switch (dim.kind()) {
      case Dim::Kind::Constant:
        return literal({DType::I64, step::Constant{.integer = *dim.constant()}});
      case Dim::Kind::Symbol: return symbol(dim);
      case Dim::Kind::Sum: {
        ValueId sum = index(dim.constant_part());
        for (const Dim::Term& term : dim.terms()) {
          ValueId product = index(term.coefficient);
          for (const Dim& factor : term.factors) product = add(Op::mul, {product, index(factor)});
          sum = add(Op::add, {sum, product});
        }
        return sum;
      }
      case Dim::Kind::Min:
      case Dim::Kind::Max: {
        ValueId result = index(dim.operands()[0]);
        for (std::size_t i = 1; i < dim.operands().size(); ++i)
          result = add(dim.kind() == Dim::Kind::Min ? Op::min : Op::max,
                       {result, index(dim.operands()[i])});
        return result;
      }
      case Dim::Kind::Select: {
        const auto& parts = dim.operands();
        return add(Op::where, {holds({dim.comparison(), parts[0], parts[1]}), index(parts[2]),
                               index(parts[3])});
      }
      case Dim::Kind::Value:
      case Dim::Kind::FloorDiv:
      case Dim::Kind::Mod:
      case Dim::Kind::Broadcast: break;
    }
    packer_.refuse(attention_,
                   fmt::format("adds something to its scores that depends on {}", dim.to_string()));
  }

  ValueId symbol(const Dim& dim) {
    const bool row = dim == row_index();
    if (row || dim == key_index()) {
      const ValueId positions =
          packer_.parameter(&PackingPlan::positions, "positions", {packer_.tokens_});
      return add(Op::expand_dims, {positions}, {{"axes", std::vector<std::int64_t>{row ? 1 : 0}}});
    }
    if (!dim.leaf().is_symbol())
      packer_.refuse(attention_,
                     "adds something to its scores that differs between sequences or heads");
    return add(Op::dim, {}, {}, {dim});
  }

  ValueId holds(const ScalarStep::Condition& condition) {
    const ValueId found =
        add(comparing(condition.comparison), {index(condition.left), index(condition.right)});
    return condition.comparison == Comparison::NotEqual ? add(Op::logical_not, {found}) : found;
  }

  ValueId step_value(const ScalarStep& step, const std::vector<ValueId>& before) {
    std::vector<ValueId> operands;
    for (const std::int32_t operand : step.operands)
      operands.push_back(before[static_cast<std::size_t>(operand)]);
    const auto unknown = [&]() -> ValueId {
      packer_.refuse(attention_, "adds more to its scores than a mask and what positions tell");
    };
    const Overloaded value{
        [&](const step::Constant&) { return literal(step); },
        [&](const step::Extent& extent) { return index(extent.value); },
        [&](const step::Guarded& guarded) {
          ValueId all = holds(guarded.conditions[0]);
          for (std::size_t i = 1; i < guarded.conditions.size(); ++i)
            all = add(Op::logical_and, {all, holds(guarded.conditions[i])});
          return add(Op::where, {all, operands[0], operands[1]});
        },
        [&](const step::Apply& apply) {
          if (apply.check >= 0)
            packer_.refuse(attention_, fmt::format("adds something to its scores by way of {}",
                                                   info(apply.op).text));
          return add(apply.op, std::move(operands), step_attributes(step));
        },
        [&](const step::Load& load) {
          const auto buffer = static_cast<std::size_t>(load.buffer);
          const auto& parameters = packer_.padded_.body.parameters;
          if (buffer < parameters.size())
            packer_.refuse(attention_,
                           fmt::format("adds %{} to its scores beside the mask",
                                       packer_.padded_.values[parameters[buffer]].name));
          const auto numbers = looked_up(load);
          return numbers ? *numbers : unknown();
        },
        // A gather counts negative indices from the end, as the model does.
        [&](const step::CheckedIndex&) { return operands[0]; },
        [&](const step::Accumulated&) { return unknown(); },
        [&](const step::Scratch&) { return unknown(); },
    };
    return std::visit(value, step.kind);
  }

  // Which of attention's batch dims, the sequences aside, an index counts, as the place of that dim
  // in packed scores.
  std::optional<std::size_t> head_of(const Dim& index) const {
    const std::size_t batch_rank = packer_.type(attention_.results[0]).rank() - 2;
    for (std::size_t head = 0; head < batch_rank; ++head)
      if (head != finding_.batch_axis && index == batch_index(head))
        return head - (head > finding_.batch_axis ? 1 : 0);
    return std::nullopt;
  }

  // Elements of a constant: a number for each head (or what else attention's batch dims other than
  // the batch count), before dims of rows and keys, and numbers that positions choose, as tables of
  // relative positions and constant masks have them.
  std::optional<ValueId> looked_up(const step::Load& load) {
    const auto found = finding_.constants.find(load.buffer);
    if (found == finding_.constants.end()) return std::nullopt;
    const Tensor& tensor = found->second;
    // The constant as [heads, chosen]: which elements these are.
    std::int64_t first = 0, head_stride = 0, heads = 1, chosen = 1, below = 1;
    std::optional<std::size_t> head;
    // chosen by positions: stride and extent
    std::vector<std::pair<std::int64_t, std::int64_t>> axes;
    bool checked = false;
    ValueId index = no_value;
    for (std::size_t axis = tensor.rank(); axis-- > 0; below *= tensor.dims()[axis]) {
      const Dim& at = load.index[axis];
      const std::int64_t extent = tensor.dims()[axis];
      if (const auto constant = at.constant()) {
        first += *constant * below;
        continue;
      }
      if (const auto counted = head_of(at)) {
        if (head) return std::nullopt;
        head = counted;
        head_stride = below;
        heads = extent;
        continue;
      }
      // An index that kernels check must be a gather's own, which checks it too.
      const bool alone = at.kind() == Dim::Kind::Symbol || at.kind() == Dim::Kind::Value;
      const auto step = alone ? indices_.find(at.leaf()) : indices_.end();
      if (checked || (step != indices_.end() && index != no_value)) return std::nullopt;
      checked = step != indices_.end();
      const ValueId position =
          checked ? add(Op::cast, {step->second}, {{"to", DType::I64}}) : this->index(at);
      const ValueId scaled = chosen == 1 ? position : add(Op::mul, {position, number(chosen)});
      index = index == no_value ? scaled : add(Op::add, {index, scaled});
      axes.emplace_back(below, extent);
      chosen *= extent;
    }
    // dims before rows and keys
    const std::size_t before = packer_.type(attention_.results[0]).rank() - 3;
    std::vector<std::int64_t> dims(before + 2, 1);
    if (head) dims[*head] = heads;
    Tensor numbers(tensor.dtype(),
                   index == no_value ? dims : std::vector<std::int64_t>{heads, chosen});
    for (std::int64_t at = 0; at < numbers.elements(); ++at) {
      std::int64_t from = first + at / chosen * head_stride, rest = at % chosen;
      for (const auto& [stride, extent] : axes) {
        from += rest % extent * stride;
        rest /= extent;
      }
      if (is_float(tensor.dtype())) numbers.set_real(at, tensor.real_at(from));
      else numbers.set_integer(at, tensor.integer_at(from));
    }
    const ValueId table = add(Op::constant, {}, {{"value", std::move(numbers)}});
    if (head) by_head_ = true;
    if (index == no_value) return table;
    // Also an index that is one number has dims of rows and keys.
    const ValueId matrix =
        add(Op::add, {index, add(Op::constant, {}, {{"value", Tensor(DType::I64, {1, 1})}})});
    // [heads, rows, keys]
    const ValueId read = add(Op::gather, {table, matrix}, {{"axis", std::int64_t{1}}});
    if (!head) return packer_.squeezed(read, {0}, attention_);
    std::vector<std::int64_t> others;
    for (std::size_t axis = 0; axis < before; ++axis)
      if (axis != *head) others.push_back(static_cast<std::int64_t>(axis));
    return others.empty() ? read : add(Op::expand_dims, {read}, {{"axes", std::move(others)}});
  }

  ValueId number(std::int64_t value) {
    return literal({DType::I64, step::Constant{.integer = value}});
  }

  RowPacker& packer_;
  const MaskFinding& finding_;
  const Binding& attention_;
  std::map<DimLeaf, ValueId> indices_;  // of CheckedIndex steps, before they are checked
  bool by_head_ = false;                // some step so far differs between heads
};

ElementRanges& RowPacker::ranges(std::size_t limit) {
  while (ranges_.size() <= limit)
    ranges_.emplace_back(padded_, padded_.body, input_limits[ranges_.size()]);
  return ranges_[limit];
}

void RowPacker::limit_inputs(std::size_t limit) {
  if (limit == 0) return;
  plan_.input_limit = std::min(plan_.input_limit, input_limits[limit]);
  plan_.limited_inputs.insert(ranges_[limit].inputs_read().begin(),
                              ranges_[limit].inputs_read().end());
}

void RowPacker::require_hidden(const MaskFinding& finding, const Binding& attention) {
  double unlimited = 0;
  for (std::size_t i = 0; i < std::size(input_limits); ++i) {
    if (finding.hides(score_bound_of_rows(attention, ranges(i)))) {
      limit_inputs(i);
      return;
    }
    const double bound = score_bound(padded_, padded_.body, attention, ranges(i));
    if (i == 0) unlimited = bound;
    if (!finding.hides(bound)) continue;
    limit_inputs(i);
    return;
  }
  const std::string fill = fmt::format("adds {} to the scores of masked keys", finding.fill);
  if (std::isinf(unlimited))
    refuse(attention, fill +
                          ", which does not hide them from any score, and nothing bounds its "
                          "scores: queries or keys are made of what may be any number");
  refuse(attention,
         fmt::format("{}, which does not hide them from scores of up to {:.6g}", fill, unlimited));
}

ValueId RowPacker::bias_between(const MaskFinding& finding, const Binding& attention) {
  const ScalarStep& last = finding.between.steps.back();
  const bool chooses = last.dtype == DType::Bool;
  if (last.is<step::Constant>() &&
      (chooses ? last.as<step::Constant>().integer != 0 : last.as<step::Constant>().real == 0))
    return no_value;
  return BetweenRows(*this, finding, attention).value(finding.between);
}

}  // namespace anydim::passes
