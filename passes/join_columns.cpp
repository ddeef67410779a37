#include "passes/join_columns.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "passes/rewrite.h"

namespace anydim::passes {

using namespace ir;

namespace {

constexpr int most_depth = 8;  // of expressions that are joined

bool is_one_number_a_row(const TensorType& type) {
  return type.rank() == 0 || type.dims.back().is_constant(1);
}

std::vector<Dim> broadcast(const std::vector<Dim>& a, const std::vector<Dim>& b) {
  std::vector<Dim> result = a.size() >= b.size() ? a : b;
  const std::vector<Dim>& shorter = a.size() >= b.size() ? b : a;
  for (std::size_t i = 1; i <= shorter.size(); ++i) {
    Dim& dim = result[result.size() - i];
    if (dim.is_constant(1)) dim = shorter[shorter.size() - i];
  }
  return result;
}

// A number, or a number a column, as a vector of `columns`; nullopt: neither.
std::optional<Tensor> as_vector(const Tensor& tensor, std::int64_t columns) {
  const std::vector<std::int64_t>& dims = tensor.dims();
  const bool each = tensor.elements() == columns && !dims.empty() && dims.back() == columns;
  if (!each && tensor.elements() != 1) return std::nullopt;
  Tensor result(tensor.dtype(), {columns});
  const std::size_t size = tensor.bytes().size();
  for (std::size_t at = 0; at < result.bytes().size(); at += size)
    std::memcpy(result.mutable_bytes().data() + at, tensor.bytes().data(), size);
  return result;
}

// Tensors side by side along an axis. Weights are large: they are joined when they are read, and
// read no sooner than that.
class SideBySide : public TensorSource {
 public:
  SideBySide(std::vector<Tensor> tensors, std::size_t axis)
      : tensors_(std::move(tensors)), axis_(axis) {}

  void read(std::span<std::byte> to) const override {
    std::size_t rows = 1, place = 0;
    for (std::size_t i = 0; i < axis_; ++i) rows *= static_cast<std::size_t>(tensors_[0].dims()[i]);
    std::vector<Tensor> opened;
    for (const Tensor& tensor : tensors_) opened.push_back(tensor.opened());
    for (std::size_t row = 0; row < rows; ++row) {
      for (const Tensor& tensor : opened) {
        const std::size_t run = tensor.byte_size() / rows;
        if (run != 0) std::memcpy(to.data() + place, tensor.bytes().data() + row * run, run);
        place += run;
      }
    }
  }

 private:
  std::vector<Tensor> tensors_;
  std::size_t axis_;
};

Tensor side_by_side(const std::vector<const Tensor*>& tensors, std::size_t axis) {
  std::vector<std::int64_t> dims = tensors[0]->dims();
  dims[axis] = 0;
  std::vector<Tensor> parts;
  for (const Tensor* tensor : tensors) {
    dims[axis] += tensor->dims()[axis];
    parts.push_back(*tensor);
  }
  return Tensor(tensors[0]->dtype(), std::move(dims),
                std::make_shared<SideBySide>(std::move(parts), axis));
}

}  // namespace

ColumnJoiner::ColumnJoiner(Function& function, const Block& block, std::size_t place,
                           std::vector<std::int64_t> columns)
    : function_(function), block_(block), place_(place), columns_(std::move(columns)),
      defined_at_(function.values.size(), -1) {
  for (std::size_t i = 0; i < block.bindings.size(); ++i)
    for (const ValueId result : block.bindings[i].results)
      defined_at_[result] = static_cast<std::ptrdiff_t>(i);
}

const Binding* ColumnJoiner::definition(ValueId value) const {
  const std::ptrdiff_t at = value < defined_at_.size() ? defined_at_[value] : -1;
  return at < 0 ? nullptr : &block_.bindings[static_cast<std::size_t>(at)];
}

ValueId ColumnJoiner::write(Op op, std::vector<ValueId> operands, TensorType type,
                            Attributes attributes) {
  const Binding& near = block_.bindings[place_];
  const ValueId result =
      function_.add_value(function_.values[near.results[0]].name + "_merged", std::move(type));
  made_.push_back({.op = op,
                   .operands = std::move(operands),
                   .results = {result},
                   .attributes = std::move(attributes),
                   .source = near.source});
  return result;
}

ValueId ColumnJoiner::constant(const std::vector<const Tensor*>& tensors, std::size_t axis) {
  Tensor value = side_by_side(tensors, axis);
  TensorType type{value.dtype(), std::vector<Dim>(value.dims().begin(), value.dims().end())};
  return write(Op::constant, {}, std::move(type), {{"value", std::move(value)}});
}

std::optional<ValueId> ColumnJoiner::constants(const std::vector<ValueId>& values) {
  std::vector<Tensor> vectors;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Binding* binding = definition(values[i]);
    if (binding == nullptr || binding->op != Op::constant) return std::nullopt;
    auto vector = as_vector(tensor_attribute(*binding, "value"), columns_[i]);
    if (!vector || vector->dtype() != function_.tensor_type(values[0]).dtype) return std::nullopt;
    vectors.push_back(std::move(*vector));
  }
  std::vector<const Tensor*> tensors;
  for (const Tensor& vector : vectors) tensors.push_back(&vector);
  return constant(tensors, 0);
}

std::optional<ValueId> ColumnJoiner::elementwise(const std::vector<const Binding*>& bindings,
                                                 std::optional<std::size_t> position, ValueId whole,
                                                 int depth) {
  const Binding& first = *bindings[0];
  if (!info(first.op).has(traits::elementwise) || first.results.size() != 1) return std::nullopt;
  const DType dtype = function_.tensor_type(first.results[0]).dtype;
  for (const Binding* binding : bindings) {
    if (binding->op != first.op || binding->operands.size() != first.operands.size() ||
        !same_attributes(binding->attributes, first.attributes) ||
        function_.tensor_type(binding->results[0]).dtype != dtype)
      return std::nullopt;
  }
  std::vector<ValueId> operands;
  std::vector<Dim> dims;
  for (std::size_t o = 0; o < first.operands.size(); ++o) {
    std::optional<ValueId> operand = whole;
    if (o != position) {
      std::vector<ValueId> each;
      for (const Binding* binding : bindings) each.push_back(binding->operands[o]);
      operand = attempt(each, depth + 1);
      if (!operand) return std::nullopt;
    }
    operands.push_back(*operand);
    dims = broadcast(dims, function_.tensor_type(*operand).dims);
  }
  return write(first.op, std::move(operands), TensorType{dtype, std::move(dims)}, first.attributes);
}

std::optional<ValueId> ColumnJoiner::attempt(const std::vector<ValueId>& values, int depth) {
  const bool same = std::ranges::all_of(values, [&](ValueId value) { return value == values[0]; });
  const bool early = values[0] < defined_at_.size() &&
                     defined_at_[values[0]] < static_cast<std::ptrdiff_t>(place_);
  if (same && early && is_one_number_a_row(function_.tensor_type(values[0]))) return values[0];
  if (auto found = constants(values)) return found;
  if (depth == most_depth) return std::nullopt;
  std::vector<const Binding*> bindings;
  for (const ValueId value : values) {
    bindings.push_back(definition(value));
    if (bindings.back() == nullptr) return std::nullopt;
  }
  return elementwise(bindings, std::nullopt, no_value, depth);
}

std::optional<ValueId> ColumnJoiner::joined(const std::vector<const Binding*>& bindings,
                                            std::size_t position, ValueId whole) {
  const std::size_t before = made_.size();
  auto result = elementwise(bindings, position, whole, 0);
  if (!result) made_.resize(before);
  return result;
}

}  // namespace anydim::passes
