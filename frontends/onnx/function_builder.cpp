#include "frontends/onnx/function_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "ir/error.h"
#include "ir/random_seed.h"
#include "ir/shapes/infer.h"

namespace anydim::frontends {

FunctionBuilder::FunctionBuilder(std::string name, std::unordered_set<std::string> reserved)
    : names_(std::move(reserved)) {
  function_.name = std::move(name);
}

ir::ValueId FunctionBuilder::add_named(std::string name, ir::Type type, ir::DType dtype) {
  types_.push_back(type.is_tensor() ? std::optional(type.tensor) : std::nullopt);
  shape_data_.emplace_back();
  function_.values.push_back({std::move(name), std::move(type)});
  dtypes_.push_back(dtype);
  return static_cast<ir::ValueId>(function_.values.size() - 1);
}

ir::ValueId FunctionBuilder::add_intermediate(const std::string& stem, ir::DType dtype) {
  // The number counts through the function, so a second try is needed only where the model itself
  // uses such a name.
  std::string name;
  do {
    name = fmt::format("{}.{}", stem, next_number_++);
  } while (!names_.insert(name).second);
  return add_named(std::move(name), {}, dtype);
}

ir::ValueId FunctionBuilder::random_seed() {
  if (!random_seed_) {
    const ir::TensorType type{ir::DType::I64, {}};
    random_seed_ = add_named(std::string(ir::random_seed_parameter), type, type.dtype);
    function_.body.parameters.push_back(*random_seed_);
  }
  return *random_seed_;
}

void FunctionBuilder::rename(ir::ValueId id, std::string name) {
  function_.values[id].name = std::move(name);
}

void FunctionBuilder::add_binding(ir::Binding binding) {
  if (binding.op == ir::Op::constant)
    constants_.emplace(binding.results[0], ir::tensor_attribute(binding, "value"));
  if (binding.op == ir::Op::dyn_full)
    if (const auto fill = known_element(binding.operands[0]))
      fills_.emplace(binding.results[0], *fill);
  infer(binding);
  (blocks_.empty() ? function_.body : blocks_.back()).bindings.push_back(std::move(binding));
}

void FunctionBuilder::open_block(std::vector<ir::ValueId> parameters) {
  blocks_.push_back({std::move(parameters), {}, {}});
}

ir::Block FunctionBuilder::close_block(std::vector<ir::ValueId> results) {
  ir::Block block = std::move(blocks_.back());
  blocks_.pop_back();
  block.results = std::move(results);
  return block;
}

void FunctionBuilder::add_all(ir::Block block) {
  std::vector<ir::Binding>& bindings = (blocks_.empty() ? function_.body : blocks_.back()).bindings;
  std::ranges::move(block.bindings, std::back_inserter(bindings));
}

void FunctionBuilder::back_to(const Mark& mark) {
  const auto later = [&](const auto& entry) { return entry.first >= mark.values; };
  std::erase_if(lists_, later);
  std::erase_if(element_ranks_, later);
  std::erase_if(element_types_, later);
  std::erase_if(constants_, later);
  std::erase_if(fills_, later);
  if (random_seed_ && *random_seed_ >= mark.values) {
    random_seed_.reset();
    function_.body.parameters.pop_back();
  }
  function_.values.resize(mark.values);
  dtypes_.resize(mark.values);
  types_.resize(mark.values);
  shape_data_.resize(mark.values);
  blocks_.resize(mark.blocks);
}

// An importer needs ranks here and there. What a rule refuses stays unknown: inference says it
// again, with the whole function at hand.
void FunctionBuilder::infer(const ir::Binding& binding) {
  const ir::OpInfo& op = ir::info(binding.op);
  if (op.has(ir::traits::control) || binding.op == ir::Op::bind ||
      binding.op == ir::Op::check_shape)
    return;
  std::vector<ir::Type> types;
  types.reserve(binding.operands.size());
  std::vector<ir::OperandFacts> facts;
  for (const ir::ValueId operand : binding.operands) {
    if (operand == ir::no_value) {
      facts.emplace_back();
      continue;
    }
    if (!types_[operand]) return know_rank_alone(binding);
    types.emplace_back(*types_[operand]);
    facts.push_back({&types.back(), &shape_data_[operand], constant(operand)});
  }
  try {
    ir::RuleResult known = ir::apply_shape_rule(function_, binding, facts, function_.symbols);
    // Inference opens symbols of its own; these stand for them here.
    for (const ir::Count& count : known.counts) ir::place_count(known, count, placeholder("count"));
    for (std::size_t i = 0; i < binding.results.size(); ++i) {
      types_[binding.results[i]] = std::move(known.types[i].tensor);
      shape_data_[binding.results[i]] = std::move(known.shape_data[i]);
      forget_large_sizes(binding.results[i]);
    }
    if (binding.results.size() != 1 || shape_data_[binding.results[0]]) return;
    const ir::ValueId result = binding.results[0];
    ir::MovedElements moved = ir::moved_elements(function_, binding, *types_[result], facts);
    shape_data_[result] = std::move(moved.elements);
    if (moved.numbers) constants_.emplace(result, *std::move(moved.numbers));
  } catch (const Error& error) {
    if (strict_ || error.kind() == ErrorKind::Internal) throw;
  }
}

// Of operands of which some are not known, where the others tell the result's rank.
void FunctionBuilder::know_rank_alone(const ir::Binding& binding) {
  const auto rank_of = [&](std::size_t operand) { return rank(binding.operands[operand]); };
  std::optional<std::size_t> rank;
  switch (binding.op) {
    case ir::Op::dyn_reshape:
      if (rank_of(1) == 1) {
        const std::optional<std::int64_t> length = type(binding.operands[1])->dims[0].constant();
        if (length) rank = static_cast<std::size_t>(*length);
      }
      break;
    case ir::Op::transpose:
      if (const auto perm = binding.attributes.find("perm"); perm != binding.attributes.end())
        rank = std::get<std::vector<std::int64_t>>(perm->second).size();
      break;
    case ir::Op::concat:
      for (std::size_t i = 0; i < binding.operands.size() && !rank; ++i) rank = rank_of(i);
      break;
    case ir::Op::scatter_elements:
    case ir::Op::scatter_nd: rank = rank_of(0); break;
    default: break;
  }
  if (rank) know(binding.results[0], std::vector<std::optional<ir::Dim>>(*rank));
}

// Inference binds symbols to them.
void FunctionBuilder::forget_large_sizes(ir::ValueId id) {
  for (ir::Dim& dim : types_[id]->dims)
    if (dim.size() > ir::largest_carried_size) dim = placeholder("extent");
  if (!shape_data_[id]) return;
  for (std::size_t i = 0; i < shape_data_[id]->size(); ++i)
    if (ir::Dim& element = (*shape_data_[id])[i]; element.size() > ir::largest_carried_size)
      element = ir::Dim::value(id, static_cast<std::int64_t>(i));
}

void FunctionBuilder::know(ir::ValueId id, const std::vector<std::optional<ir::Dim>>& dims) {
  ir::TensorType type{dtypes_[id], {}};
  for (const std::optional<ir::Dim>& dim : dims)
    type.dims.push_back(dim ? *dim : placeholder("extent"));
  types_[id] = std::move(type);
}

ir::Dim FunctionBuilder::placeholder(std::string_view stem) {
  ir::Dim dim = function_.symbols.fresh(stem);
  placeholders_.push_back(dim.leaf().symbol);
  return dim;
}

bool FunctionBuilder::of_inputs(const ir::Dim& dim) const {
  return std::ranges::all_of(dim.leaves(), [&](const ir::DimLeaf& leaf) {
    return leaf.is_symbol() && std::ranges::find(placeholders_, leaf.symbol) == placeholders_.end();
  });
}

// The function's own values have no dims yet that name a placeholder.
ir::Function FunctionBuilder::take() {
  for (const std::string& symbol : placeholders_) function_.symbols.remove(symbol);
  return std::move(function_);
}

std::optional<std::int64_t> FunctionBuilder::known_element(ir::ValueId id) const {
  const ir::ShapeData& shape_data = shape_data_[id];
  return shape_data && shape_data->size() == 1 ? shape_data->front().constant() : std::nullopt;
}

std::optional<std::int64_t> FunctionBuilder::every_element(ir::ValueId id) const {
  if (const auto found = fills_.find(id); found != fills_.end()) return found->second;
  const ir::ShapeData& elements = shape_data_[id];
  if (!elements || elements->empty()) return std::nullopt;
  const ir::Dim& first = elements->front();
  const auto equal = [&](const ir::Dim& element) { return element == first; };
  return std::ranges::all_of(*elements, equal) ? first.constant() : std::nullopt;
}

const ir::Tensor* FunctionBuilder::constant(ir::ValueId id) const {
  const auto found = constants_.find(id);
  return found == constants_.end() ? nullptr : &found->second;
}

ir::DType result_dtype(const ir::Binding& binding, const FunctionBuilder& builder,
                       std::size_t result) {
  const ir::OpInfo& op = ir::info(binding.op);
  if (op.has(ir::traits::compares)) return ir::DType::Bool;
  switch (binding.op) {
    case ir::Op::constant: return ir::tensor_attribute(binding, "value").dtype();
    case ir::Op::shape_of:
    case ir::Op::arg_max:
    case ir::Op::arg_min: return ir::DType::I64;
    case ir::Op::top_k:
    case ir::Op::dyn_top_k:
      return result == 1 ? ir::DType::I64 : builder.dtype(binding.operands[0]);
    case ir::Op::unique: return result == 0 ? builder.dtype(binding.operands[0]) : ir::DType::I64;
    case ir::Op::nonzero:
    case ir::Op::non_max_suppression: return ir::DType::I64;
    case ir::Op::one_hot:
    case ir::Op::dyn_one_hot: return builder.dtype(binding.operands[1]);
    case ir::Op::cast:
    case ir::Op::bitcast: return ir::dtype_attribute(binding, "to");
    case ir::Op::where: return builder.dtype(binding.operands[1]);
    case ir::Op::list_length: return ir::DType::I64;
    case ir::Op::list:
      return binding.operands.empty() ? ir::DType::F32 : builder.dtype(binding.operands[0]);
    case ir::Op::list_insert: return builder.dtype(binding.operands[1]);
    case ir::Op::dim:
    case ir::Op::shape: return ir::DType::I64;
    default: break;  // every other op that the reader emits keeps the type of its first operand
  }
  internal_check(!binding.operands.empty(),
                 "an op that the reader emits has an operand or a known element type");
  return builder.dtype(binding.operands[0]);
}

}  // namespace anydim::frontends
