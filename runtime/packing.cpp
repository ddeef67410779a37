#include "runtime/packing.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "ir/error.h"
#include "ir/reference/evaluate.h"

namespace anydim::runtime {

namespace {

struct Plan {
  std::vector<std::int64_t> rows, offsets, positions, sequences, places, steps, work;

  const std::vector<std::int64_t>& operator[](RowVector which) const {
    switch (which) {
      case RowVector::Rows: return rows;
      case RowVector::Offsets: return offsets;
      case RowVector::Positions: return positions;
      case RowVector::Sequences: return sequences;
      case RowVector::Places: return places;
      case RowVector::Steps: return steps;
      case RowVector::Work: return work;
    }
    internal_error("a row vector is one of seven");
  }
};

// False: an entry is neither 0 nor 1, or a row is hidden where it counts.
template <typename Entry>
bool fill(Plan& plan, const Packing& packing, std::span<const Entry> entries, std::int64_t batch,
          std::int64_t length) {
  const auto kept = static_cast<Entry>(packing.kept), hidden = static_cast<Entry>(1 - packing.kept);
  plan.offsets.push_back(0);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t s = 0; s < length; ++s) {
      const std::int64_t at = b * length + s;
      const Entry entry = entries[static_cast<std::size_t>(at)];
      if (entry == kept) {
        if (packing.leading_rows && s > 0 && plan.places.back() < 0) return false;
        plan.places.push_back(static_cast<std::int64_t>(plan.rows.size()));
        plan.rows.push_back(at);
        plan.positions.push_back(s);
        plan.sequences.push_back(b);
      } else {
        if (entry != hidden || (packing.first_rows && s == 0)) return false;
        plan.places.push_back(-1);
      }
    }
    plan.offsets.push_back(static_cast<std::int64_t>(plan.rows.size()));
  }
  return true;
}

bool fill(Plan& plan, const Packing& packing, const ir::Tensor& mask) {
  const std::int64_t batch = mask.dims()[0], length = mask.dims()[1];
  switch (mask.dtype()) {
    case ir::DType::I64:
      return fill<std::int64_t>(plan, packing, mask.as<std::int64_t>(), batch, length);
    case ir::DType::I32:
      return fill<std::int32_t>(plan, packing, mask.as<std::int32_t>(), batch, length);
    case ir::DType::F32: return fill<float>(plan, packing, mask.as<float>(), batch, length);
    case ir::DType::Bool:
    case ir::DType::U8:
      return fill<std::uint8_t>(plan, packing, mask.as<std::uint8_t>(), batch, length);
    default: {
      std::vector<double> entries;
      for (std::int64_t i = 0; i < mask.elements(); ++i)
        entries.push_back(ir::is_float(mask.dtype()) ? mask.real_at(i)
                                                     : static_cast<double>(mask.integer_at(i)));
      return fill<double>(plan, packing, entries, batch, length);
    }
  }
}

std::vector<ir::Tensor> tensors_of(Plan& plan, std::span<const RowVector> vectors) {
  std::vector<ir::Tensor> tensors;
  for (const RowVector which : vectors) {
    if (which == RowVector::Work) plan.work = work_list(plan.offsets);
    const std::vector<std::int64_t>& values = plan[which];
    std::vector<std::int64_t> dims{static_cast<std::int64_t>(values.size())};
    if (which == RowVector::Work) dims = {dims[0] / 2, 2};
    tensors.push_back(ir::Tensor::of<std::int64_t>(ir::DType::I64, dims, values));
  }
  return tensors;
}

template <typename Real>
bool within(std::span<const Real> elements, double limit) {
  return std::ranges::all_of(
      elements, [&](Real element) { return std::abs(static_cast<double>(element)) <= limit; });
}

bool within(const ir::Tensor& input, double limit) {
  if (input.dtype() == ir::DType::F32) return within(input.as<float>(), limit);
  if (input.dtype() == ir::DType::F64) return within(input.as<double>(), limit);
  for (std::int64_t i = 0; i < input.elements(); ++i)
    if (!(std::abs(input.real_at(i)) <= limit)) return false;
  return true;
}

}  // namespace

ir::Tensor row_truths(const Packing& packing, const ir::Tensor& mask) {
  return packing.question.steps.empty() ? mask : ir::apply_program(packing.question, mask);
}

bool settles(const Packing& packing, std::vector<ir::Tensor>& results) {
  if (!packing.counts_hidden_picks) return true;
  const std::int64_t hidden = results.back().integer_at(0);
  results.pop_back();
  return hidden == 0;
}

std::optional<PackedInputs> pack_inputs(const Packing& packing,
                                        const std::vector<ir::Tensor>& inputs) {
  if (packing.mask >= inputs.size() || inputs[packing.mask].rank() != 2)
    return std::nullopt;  // for the padded program to refuse
  Plan plan;
  if (!fill(plan, packing, row_truths(packing, inputs[packing.mask])) || plan.rows.empty())
    return std::nullopt;
  for (const std::size_t input : packing.limited_inputs)
    if (!within(inputs[input], packing.input_limit)) return std::nullopt;
  PackedInputs packed{.tensors = inputs, .tokens = static_cast<std::int64_t>(plan.rows.size())};
  for (ir::Tensor& vector : tensors_of(plan, packing.vectors))
    packed.tensors.push_back(std::move(vector));
  return packed;
}

std::vector<ir::Tensor> ragged_vectors(std::span<const RowVector> vectors,
                                       std::span<const std::int64_t> offsets, std::int64_t steps) {
  Plan plan;
  plan.offsets.assign(offsets.begin(), offsets.end());
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    for (std::int64_t row = offsets[s]; row < offsets[s + 1]; ++row) {
      plan.positions.push_back(row - offsets[s]);
      plan.sequences.push_back(static_cast<std::int64_t>(s));
    }
  }
  plan.steps.resize(static_cast<std::size_t>(steps));
  std::iota(plan.steps.begin(), plan.steps.end(), std::int64_t{0});
  return tensors_of(plan, vectors);
}

std::vector<std::int64_t> work_list(std::span<const std::int64_t> offsets) {
  std::vector<std::size_t> order(offsets.empty() ? 0 : offsets.size() - 1);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto length = [&](std::size_t sequence) {
    return offsets[sequence + 1] - offsets[sequence];
  };
  std::ranges::sort(order, std::less{},
                    [&](std::size_t sequence) { return std::pair(-length(sequence), sequence); });
  std::vector<std::int64_t> list;
  list.reserve(2 * order.size());
  std::int64_t rows = 0;
  for (const std::size_t sequence : order) {
    list.push_back(static_cast<std::int64_t>(sequence));
    list.push_back(rows);
    rows += length(sequence);
  }
  return list;
}

}  // namespace anydim::runtime
