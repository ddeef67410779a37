#include "ir/loops/loop_form.h"

#include <algorithm>
#include <initializer_list>
#include <set>

#include "ir/error.h"
#include "ir/loops/derive.h"
#include "ir/loops/segment_rows.h"

namespace anydim::ir {

Iteration declare_iteration(const DimLeaf& variable, const Dim& extent, SymbolTable& symbols) {
  const std::int64_t most = bounds(extent, symbols).high;
  SymbolInfo info;
  info.high = most == INT64_MAX ? most : std::max<std::int64_t>(0, most - 1);
  info.below = extent;
  symbols.declare(variable, std::move(info));
  return {variable, extent};
}

namespace {

using Dims = std::vector<Dim>;

// The dims of `output`, and of the values of the subgraph that have as many elements by definition:
// what it is a reshape or an elementwise function of.
std::vector<Dims> dims_of_equal_volume(const Subgraph& subgraph, ValueId output) {
  std::vector<ValueId> values{output};
  std::vector<Dims> result;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Dims& dims = result.emplace_back(subgraph.tensor(values[i]).dims);
    const Binding* binding = subgraph.definition(values[i]);
    if (binding == nullptr) continue;
    const bool reshapes = info(binding->op).has(traits::reshapes);
    if (!reshapes && !info(binding->op).has(traits::elementwise)) continue;
    for (const ValueId operand :
         std::span(binding->operands).first(reshapes ? 1 : binding->operands.size()))
      if ((reshapes || subgraph.tensor(operand).dims == dims) &&
          std::ranges::find(values, operand) == values.end())
        values.push_back(operand);
  }
  return result;
}

// Every point of the space must write an element of its own: an index that leaves a loop out would
// write one element again and again, and none where that loop is empty.
class OwnElements {
 public:
  OwnElements(const LoopForm& form, const Subgraph& subgraph, std::span<const ValueId> outputs)
      : symbols_(form.symbols) {
    for (const ValueId output : outputs) outputs_.push_back(dims_of_equal_volume(subgraph, output));
    if (const auto* rows = std::get_if<RowForm>(&form.kind))
      require(rows->stages, rows->outer, {}, rows->inner);
    if (const auto* matmul = std::get_if<MatmulForm>(&form.kind)) {
      Space m(&matmul->m, 1), n(&matmul->n, 1);
      require(matmul->stores, {matmul->batch, m, n});
      require(matmul->rows, matmul->batch, m, n);
    }
    if (const auto* attention = std::get_if<AttentionForm>(&form.kind))
      require(attention->stores,
              {attention->batch, Space(&attention->row, 1), Space(&attention->width, 1)});
  }

 private:
  using Space = std::span<const Iteration>;

  void require(const std::vector<RowStage>& stages, Space outer, Space more, Space inner) const {
    for (const RowStage& stage : stages)
      require(stage.stores, {outer, more, stage.per_row ? Space() : inner});
  }

  void require(const std::vector<Store>& stores, std::initializer_list<Space> spaces) const {
    for (const Store& store : stores) {
      std::set<DimLeaf> leaves;
      for (const Dim& dim : store.index) dim.collect_leaves(leaves);
      for (Space space : spaces)
        for (const Iteration& iteration : space)
          if (!leaves.contains(iteration.variable) &&
              !needs_no_index(iteration, outputs_.at(static_cast<std::size_t>(store.output))))
            throw NoLoopForm{"points of the kernel share an element of an output"};
    }
  }

  // Runs once; or not at all where the output is empty then too. (Simplification writes 0 for the
  // index of so short a loop.)
  bool needs_no_index(const Iteration& iteration, const std::vector<Dims>& output) const {
    if (prove_equal(iteration.extent, 1, symbols_) == Proof::Yes) return true;
    return bounds(iteration.extent, symbols_).high <= 1 &&
           std::ranges::any_of(output,
                               [&](const Dims& dims) { return is_factor(iteration.extent, dims); });
  }

  // Whether the extent is the product of some of `dims` that stand beside each other.
  bool is_factor(const Dim& extent, const Dims& dims) const {
    for (std::size_t first = 0; first < dims.size(); ++first)
      for (std::size_t count = 1; first + count <= dims.size(); ++count)
        if (prove_equal(product(std::span(dims).subspan(first, count)), extent, symbols_) ==
            Proof::Yes)
          return true;
    return false;
  }

  const SymbolTable& symbols_;
  std::vector<std::vector<Dims>> outputs_;
};

}  // namespace

LoopFormResult derive_loop_form(const Function& function, std::span<const Binding> bindings,
                                std::span<const ValueId> inputs, std::span<const ValueId> outputs) {
  try {
    Subgraph subgraph = expand_subgraph(function, bindings);
    AccessContext context{.subgraph = &subgraph, .symbols = function.symbols};
    for (std::size_t i = 0; i < inputs.size(); ++i)
      context.buffers.emplace(inputs[i], static_cast<std::int32_t>(i));
    const Binding* product = nullptr;
    bool reduces = false;
    for (const Binding& binding : subgraph.bindings) {
      if (binding.op == Op::matmul || binding.op == Op::attention || binding.op == Op::compact ||
          binding.op == Op::argsort || derive::is_ordered(binding.op)) {
        if (product != nullptr)
          throw NoLoopForm{"two products in one kernel: " + describe(function, binding)};
        product = &binding;
      }
      reduces = reduces || derive::is_reduction(binding.op);
    }
    LoopForm form;
    if (product != nullptr && product->op == Op::matmul)
      form.kind = derive::derive_matmul(context, *product, outputs);
    else if (product != nullptr && product->op == Op::attention)
      form.kind = derive::derive_attention(context, *product, outputs);
    else if (product != nullptr && product->op == Op::compact)
      form.kind = derive::derive_compact(context, *product, outputs);
    else if (product != nullptr && product->op == Op::argsort)
      form.kind = derive::derive_sort(context, *product, outputs);
    else if (product != nullptr) form.kind = derive::derive_ordered(context, *product, outputs);
    else if (reduces) form.kind = derive::derive_rows(context, outputs);
    else form.kind = derive::derive_map(context, outputs);
    form.symbols = std::move(context.symbols);
    form.checks = std::move(context.checks);
    for (const ValueId input : inputs) form.parameters.push_back(function.tensor_type(input));
    for (const ValueId output : outputs) form.results.push_back(function.tensor_type(output));
    OwnElements(form, *context.subgraph, outputs);
    return {std::move(form), {}};
  } catch (const NoLoopForm& none) {
    return {std::nullopt, none.reason};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Unsupported) throw;
    return {std::nullopt, error.what()};  // an index of the kernel outgrows what a dim may be, as
                                          // that of a smaller kernel need not
  }
}

LoopForm derive_loop_form(const Region& region) {
  const Block& body = region.body.body;
  LoopFormResult result =
      derive_loop_form(region.body, body.bindings, body.parameters, body.results);
  if (!result.form)
    throw Error(ErrorKind::Unsupported, "region {} cannot be one kernel: {}", region.name,
                result.reason);
  return std::move(*result.form);
}

std::shared_ptr<const LoopForm> loop_form_of(const Region& region) {
  return region.form ? region.form : std::make_shared<const LoopForm>(derive_loop_form(region));
}

void set_form(Region& region, LoopForm form) {
  internal_check(!region.identity.empty(), "a region is sealed before its form is kept");
  region.keys = bucket_keys(form);
  region.form = std::make_shared<const LoopForm>(std::move(form));
}

Dim points_of(std::span<const Iteration> space) {
  Dim points = 1;
  for (const Iteration& iteration : space) points = points * iteration.extent;
  return points;
}

namespace {

std::vector<Dim> extents_of(const MapForm& form) {
  std::vector<Dim> keys;
  for (const MapPart& part : form.parts) keys.push_back(points_of(part.space));
  return keys;
}
std::vector<Dim> extents_of(const RowForm& form) {
  return {points_of(form.outer), points_of(form.inner)};
}
std::vector<Dim> extents_of(const MatmulForm& form) {
  return {points_of(form.batch), form.m.extent, form.n.extent, form.k.extent};
}
std::vector<Dim> extents_of(const AttentionForm& form) {
  std::vector<Dim> keys{points_of(form.batch), form.row.extent, form.key.extent};
  if (form.segments) keys.push_back(mean_segment_rows(*form.segments, form.row.extent));
  keys.insert(keys.end(), {form.depth.extent, form.width.extent});
  return keys;
}
std::vector<Dim> extents_of(const OrderedForm& form) {
  std::vector<Dim> keys{points_of(form.outer)};
  for (const OrderedStage& stage : form.stages) keys.push_back(points_of(stage.inner));
  return keys;
}
std::vector<Dim> extents_of(const CompactForm& form) { return {points_of(form.space)}; }
std::vector<Dim> extents_of(const SortForm& form) {
  return {points_of(form.outer), form.item.extent, form.rank.extent, points_of(form.depth)};
}

}  // namespace

Dim mean_segment_rows(const Segments& segments, const Dim& rows) {
  // Not ceil_div, which holds for divisors of either sign and is no smaller than the rows then.
  const Dim count = max(segments.count, 1);
  return floor_div(rows + count - 1, count);
}

std::vector<Dim> bucket_keys(const LoopForm& form) {
  std::vector<Dim> keys;
  for (const Dim& extent : std::visit([](const auto& kind) { return extents_of(kind); }, form.kind))
    if (!extent.is_constant() && std::find(keys.begin(), keys.end(), extent) == keys.end())
      keys.push_back(extent);
  return keys;
}

namespace {

#define ANYDIM_KERNEL_KIND(name, Form) \
  const char* name_of(const Form&) { return #name; }
#include "ir/loops/kernel_kinds.def"
#undef ANYDIM_KERNEL_KIND

}  // namespace

std::string kind_name(const LoopForm& form) {
  return std::visit([](const auto& kind) { return name_of(kind); }, form.kind);
}

bool has_segments(const LoopForm& form) {
  if (const auto* rows = std::get_if<RowForm>(&form.kind)) return rows->segments.has_value();
  if (const auto* attention = std::get_if<AttentionForm>(&form.kind))
    return attention->segments.has_value();
  return false;
}

}  // namespace anydim::ir
