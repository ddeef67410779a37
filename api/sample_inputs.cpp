#include "api/sample_inputs.h"

#include <algorithm>
#include <map>

#include "ir/error.h"
#include "ir/random_tensor.h"

namespace anydim {

namespace {

// Extents of what each value indexes, through casts and views that keep every number.
std::optional<std::int64_t> indexed_extent(const ir::Function& function, ir::ValueId value,
                                           int depth) {
  constexpr int deepest = 8;
  std::optional<std::int64_t> least;
  const auto take = [&](std::optional<std::int64_t> extent) {
    if (extent && (!least || *extent < *least)) least = extent;
  };
  for (const ir::Binding& binding : function.body.bindings) {
    const auto at = std::ranges::find(binding.operands, value);
    if (at == binding.operands.end()) continue;
    switch (binding.op) {
      case ir::Op::gather: {
        if (at != binding.operands.begin() + 1) break;
        const ir::Type& table = function.values[binding.operands[0]].type;
        if (!table.is_tensor()) break;
        std::int64_t axis = ir::integer_attribute(binding, "axis");
        const auto rank = static_cast<std::int64_t>(table.tensor.rank());
        if (axis < 0) axis += rank;
        if (axis >= 0 && axis < rank)
          take(table.tensor.dims[static_cast<std::size_t>(axis)].constant());
        break;
      }
      case ir::Op::cast:
      case ir::Op::reshape:
      case ir::Op::dyn_reshape:
      case ir::Op::expand_dims:
      case ir::Op::squeeze:
        if (depth < deepest && at == binding.operands.begin())
          take(indexed_extent(function, binding.results.at(0), depth + 1));
        break;
      default: break;  // every other op computes new numbers
    }
  }
  return least;
}

ir::Tensor filled(const InputInfo& input, const std::vector<std::int64_t>& dims,
                  std::optional<std::int64_t> below) {
  const ir::Tensor random = ir::random_tensor(input.dtype, dims, 1, input.name);
  if (ir::is_float(input.dtype)) return random;
  ir::Tensor tensor(input.dtype, dims);
  for (std::int64_t i = 0; i < tensor.elements(); ++i)
    tensor.set_integer(i,
                       below && *below > 0 ? (random.integer_at(i) % *below + *below) % *below : 1);
  return tensor;
}

}  // namespace

tuner::ModelShape shape_of(const Model& model) {
  tuner::ModelShape shape;
  for (const InputInfo& input : model.inputs())
    shape.inputs.push_back({input.name, input.dtype, input.dims});
  shape.symbols = model.symbols();
  shape.packing = model.packing();
  return shape;
}

std::shared_ptr<const runtime::Executable> program_of(const Model& model) {
  return model.packed() != nullptr ? model.packed() : model.padded();
}

SampleInputs::SampleInputs(const ir::Module& module) {
  ir::Module inferred = module;
  const ir::Function& entry = inferred.functions.at(0);
  for (const ir::ValueId id : entry.body.parameters)
    bounds_.push_back(indexed_extent(entry, id, 0));
}

std::vector<ir::Tensor> SampleInputs::make(const Model& model, const tuner::Call& call) const {
  const tuner::ModelShape shape = shape_of(model);
  const std::vector<std::string> names = shape.symbol_names();
  std::map<std::string, std::int64_t, std::less<>> values;
  for (std::size_t i = 0; i < names.size(); ++i) values[names[i]] = call.values.at(i);
  std::vector<ir::Tensor> tensors;
  for (std::size_t i = 0; i < model.inputs().size(); ++i) {
    const InputInfo& input = model.inputs()[i];
    std::vector<std::int64_t> dims;
    for (const ir::Dim& dim : input.dims)
      dims.push_back(dim.evaluate([&](const ir::DimLeaf& leaf) { return values.at(leaf.symbol); }));
    const bool row_mask = model.packing() && model.packing()->mask == i;
    tensors.push_back(filled(input, dims, bounds_.at(i)));
    if (!row_mask) continue;
    ir::Tensor& mask = tensors.back();
    mask = ir::Tensor(input.dtype, dims);
    for (std::int64_t row = 0; row < dims.at(0); ++row) {
      const std::int64_t length =
          call.lengths.empty() ? dims.at(1) : call.lengths.at(static_cast<std::size_t>(row));
      for (std::int64_t column = 0; column < dims.at(1); ++column)
        mask.set_integer(row * dims[1] + column, column < length ? model.packing()->kept_entry
                                                                 : model.packing()->hidden_entry);
    }
  }
  return tensors;
}

std::vector<ir::Tensor> for_program(const Model& model, std::vector<ir::Tensor> inputs) {
  if (model.appending() != nullptr) {
    CachedCall call = cached_call(model, inputs);
    return call.cache.begin(call.inputs);
  }
  if (!model.packing()) return inputs;
  auto packed = runtime::pack_inputs(*model.packing(), inputs);
  if (!packed)
    throw Error(ErrorKind::Inputs,
                "the mask '{}' keeps this call from being packed, so it runs another program than "
                "the one that is tuned",
                model.inputs().at(model.packing()->mask).name);
  return std::move(packed->tensors);
}

}  // namespace anydim
