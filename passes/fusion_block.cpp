#include "passes/fusion_block.h"

#include <algorithm>
#include <utility>

#include "ir/loops/loop_form.h"
#include "passes/fusible.h"
#include "passes/fusion_limits.h"
#include "passes/quantised_values.h"

namespace anydim::passes {

using namespace ir;

FusionBlock::FusionBlock(const Function& function, Block& block, const FunctionFacts& facts)
    : function_(function), block_(block), facts_(facts) {
  graph_.emplace(function_, block_, facts_.in_types);
}

std::vector<Binding> FusionBlock::bindings_of(const Members& members) const {
  std::vector<Binding> list;
  for (std::size_t member : members) list.push_back(block_.bindings[member]);
  return list;
}

SubgraphKey FusionBlock::key_of(const std::vector<Binding>& bindings,
                                const std::vector<ValueId>& outputs) const {
  return subgraph_key(function_, bindings, outputs, facts_.stored);
}

const KernelOf& FusionBlock::kernel_of(const std::vector<Binding>& bindings,
                                       const std::vector<ValueId>& outputs) const {
  const auto [found, fresh] = kernels_.try_emplace(key_of(bindings, outputs));
  KernelOf& result = found->second;
  if (!fresh) return result;
  Outlined outlined = outline(function_, bindings, outputs, facts_.stored);
  const Function& body = outlined.region.body;
  LoopFormResult form =
      derive_loop_form(body, body.body.bindings, body.body.parameters, body.body.results);
  result.reason = std::move(form.reason);
  if (!form.form) return result;
  set_form(outlined.region, std::move(*form.form));
  result.kernel = std::move(outlined);
  return result;
}

bool FusionBlock::has_form(const Members& members, const std::vector<ValueId>& outputs) const {
  const auto& [kernel, reason] = kernel_of(bindings_of(members), outputs);
  return kernel && is_small(*kernel->region.form);
}

bool FusionBlock::has_gates(const Members& members, const std::vector<ValueId>& outputs) const {
  const auto& [kernel, reason] = kernel_of(bindings_of(members), outputs);
  if (!kernel) return false;
  const auto* product = std::get_if<MatmulForm>(&kernel->region.form->kind);
  return product != nullptr && product->gate && is_small(*kernel->region.form) &&
         (facts_.backend == nullptr || facts_.backend->gates_product(kernel->region));
}

void FusionBlock::add_literals(Members& members) const {
  Members found;
  for (std::size_t member : members) {
    const Binding& reader = block_.bindings[member];
    for (std::size_t o = 0; o < reader.operands.size(); ++o) {
      const ValueId operand = reader.operands[o];
      if (operand == no_value || graph_->producer(operand) < 0 ||
          info(reader.op).reads_before_loops(o))
        continue;
      const auto source = static_cast<std::size_t>(graph_->producer(operand));
      if (is_literal(block_.bindings[source]) && !stays_outside(block_.bindings[source]))
        found.insert(source);
    }
  }
  members.merge(found);
}

bool FusionBlock::is_read_often(ValueId value) const {
  return std::ranges::any_of(graph_->users(value), [&](std::size_t user) {
    const Binding& reader = binding(user);
    if (reader.operands[0] == value && (mixes_elements(reader) || repeats_elements(reader)))
      return true;
    return is_free(function_, reader) && std::ranges::any_of(reader.results, [&](ValueId result) {
             return is_read_often(result);
           });
  });
}

std::vector<std::size_t> FusionBlock::made_real_by(ValueId value) const {
  const auto dtype = [&](ValueId id) { return function_.tensor_type(id).dtype; };
  if (!function_.values[value].type.is_tensor() || dtype(value) != DType::F32) return {};
  std::vector<std::size_t> chain;
  const auto step = [&]() -> const Binding* {
    const std::ptrdiff_t source = graph_->producer(value);
    if (source < 0) return nullptr;
    chain.push_back(static_cast<std::size_t>(source));
    return &binding(chain.back());
  };
  const Binding* scaled = step();
  if (scaled == nullptr || scaled->op != Op::mul || !is_one_number(function_, scaled->operands[1]))
    return {};
  value = scaled->operands[0];
  // As f32, less a zero point, as i32; of 8 bits to f32 at once where there is none.
  for (bool centred = false;;) {
    const Binding* found = step();
    if (found == nullptr || found->operands.empty()) return {};
    const ValueId from = found->operands[0];
    if (found->op == Op::sub && !centred && dtype(value) == DType::I32 &&
        is_one_number(function_, found->operands[1])) {
      centred = true;
    } else if (found->op != Op::cast || !is_integer(dtype(from))) {
      return {};
    } else if (size_of(dtype(from)) == 1) {
      return chain;
    } else if (dtype(value) != DType::F32 || dtype(from) != DType::I32) {
      return {};
    }
    value = from;
  }
}

void FusionBlock::put_together(Groups& groups) {
  const std::vector<std::size_t> order = contiguous_order(*graph_, block_, groups);
  std::vector<Binding> bindings;
  Groups ordered;
  for (std::size_t i : order) {
    bindings.push_back(std::move(block_.bindings[i]));
    ordered.push_back(groups[i]);
  }
  block_.bindings = std::move(bindings);
  groups = std::move(ordered);
  graph_.emplace(function_, block_, facts_.in_types);
}

}  // namespace anydim::passes
