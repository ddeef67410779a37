#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/function_verifier.h"
#include "ir/quote.h"
#include "ir/region.h"
#include "ir/text/print.h"

namespace anydim::ir {
namespace {

std::string count_text(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace

void FunctionVerifier::blocks(const Binding& binding) {
  const std::size_t wanted = binding.op == Op::branch ? 2 : binding.op == Op::loop ? 1 : 0;
  if (binding.blocks.size() != wanted)
    fail("has {}, expected {}", count_text(binding.blocks.size(), "block"), wanted);
  if (binding.op == Op::branch) {
    for (const Block& block : binding.blocks) {
      if (!block.parameters.empty()) fail("the blocks of if take no parameters");
      if (block.results.size() != binding.results.size()) {
        fail("a block yields {}, expected {}", count_text(block.results.size(), "value"),
             binding.results.size());
      }
    }
  } else if (binding.op == Op::loop) {
    const Block& body = binding.blocks[0];
    const std::size_t carried = binding.operands.size() < 2 ? 0 : binding.operands.size() - 2;
    if (binding.operands.size() < 2)
      fail("takes a trip count and a condition (or none) before the carried values");
    if (body.parameters.size() != carried + 2) {
      fail("its body takes {}, expected {}: iteration, condition, carried values",
           count_text(body.parameters.size(), "parameter"), carried + 2);
    }
    if (body.results.size() < carried + 1 || body.results.size() != binding.results.size() + 1) {
      fail("its body yields {}, expected {}: condition, carried and scanned values",
           count_text(body.results.size(), "value"), std::max(carried, binding.results.size()) + 1);
    }
  }
  for (const Block& block : binding.blocks) inner_block(binding, block);
  if (binding.op == Op::branch) branch_types(binding);
  if (binding.op == Op::loop) loop_types(binding);
}

void FunctionVerifier::inner_block(const Binding& binding, const Block& block) {
  const std::vector<State> before = states_;
  for (const ValueId id : block.parameters) define(id, "a parameter of a block");
  bindings(block);
  binding_ = &binding;
  for (const ValueId id : block.results)
    use(id, [] { return std::string("a value that a block yields"); });
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (before[i] == State::Undefined && states_[i] == State::InScope)
      states_[i] = State::OutOfScope;
  }
}

// Dims may differ, because what leaves a block closes to an unbacked symbol; dtype and rank may
// not.
void FunctionVerifier::same_form(ValueId inner, ValueId outer, const std::string& role,
                                 std::size_t added_dims) {
  const TensorType* from = type_of(inner);
  const TensorType* to = type_of(outer);
  if (from == nullptr || to == nullptr) return;
  if (from->dtype == to->dtype && from->rank() + added_dims == to->rank()) return;
  fail("{} {} is {}, but {} is {}", role, name(inner),
       print(function_, function_.values[inner].type), name(outer),
       print(function_, function_.values[outer].type));
}

void FunctionVerifier::branch_types(const Binding& binding) {
  for (const Block& block : binding.blocks) {
    for (std::size_t i = 0; i < block.results.size(); ++i)
      same_form(block.results[i], binding.results[i], "the yielded", 0);
  }
}

void FunctionVerifier::loop_types(const Binding& binding) {
  const Block& body = binding.blocks[0];
  const std::size_t carried = binding.operands.size() - 2;
  for (std::size_t i = 0; i < carried; ++i) {
    same_form(binding.operands[i + 2], body.parameters[i + 2], "the carried", 0);
    same_form(body.results[i + 1], body.parameters[i + 2], "the yielded", 0);
  }
  for (std::size_t i = 0; i < binding.results.size(); ++i) {
    same_form(body.results[i + 1], binding.results[i], "the yielded", i < carried ? 0 : 1);
  }
}

void FunctionVerifier::callee(const Binding& binding) {
  if ((binding.op == Op::call || binding.op == Op::closure) && binding.callee == 0 &&
      std::ranges::find(module_.functions[0].body.bindings, Op::drop_ones, &Binding::op) !=
          module_.functions[0].body.bindings.end())
    fail("calls the entry, which gives results of a rank that only a call tells (drop_ones)");
  if (binding.op == Op::call) {
    if (binding.callee >= module_.functions.size()) {
      fail("calls function {}, but there are {}", binding.callee, module_.functions.size());
    }
    const Function& target = module_.functions[binding.callee];
    callee_counts(binding, target, "function " + global_text(target.name));
    call_types(binding, target);
  } else if (binding.op == Op::region) {
    if (binding.callee >= module_.regions.size()) {
      fail("runs region {}, but there are {}", binding.callee, module_.regions.size());
    }
    const Region& target = module_.regions[binding.callee];
    callee_counts(binding, target.body, "region " + global_text(target.name));
    region_types(binding, target);
  }
}

void FunctionVerifier::callee_counts(const Binding& binding, const Function& target,
                                     const std::string& target_text) {
  if (binding.operands.size() != target.body.parameters.size()) {
    fail("{} takes {}, is given {}", target_text,
         count_text(target.body.parameters.size(), "parameter"), binding.operands.size());
  }
  if (binding.results.size() != target.body.results.size()) {
    fail("{} has {}, the binding names {}", target_text,
         count_text(target.body.results.size(), "result"), binding.results.size());
  }
}

// Calls instantiate the function's symbols, so only dtype and rank can be compared here.
void FunctionVerifier::call_types(const Binding& binding, const Function& target) {
  const auto compare = [&](ValueId outer, ValueId inner, std::string_view role) {
    if (inner >= target.values.size() || outer >= function_.values.size()) return;
    const Type& theirs = target.values[inner].type;
    const TensorType* ours = type_of(outer);
    if (ours == nullptr || !theirs.is_tensor()) return;
    if (ours->dtype == theirs.tensor.dtype && ours->rank() == theirs.tensor.rank()) return;
    fail("{} is {}, but {} {} of function {} is {}", name(outer),
         print(function_, function_.values[outer].type), role,
         value_text(target.values[inner].name), global_text(target.name), print(target, theirs));
  };
  for (std::size_t i = 0; i < binding.operands.size(); ++i)
    compare(binding.operands[i], target.body.parameters[i], "parameter");
  for (std::size_t i = 0; i < binding.results.size(); ++i)
    compare(binding.results[i], target.body.results[i], "result");
}

void FunctionVerifier::region_types(const Binding& binding, const Region& target) {
  const Function& body = target.body;
  std::map<std::string, Dim> dims;
  for (std::size_t i = 0; i < binding.dims.size(); ++i)
    dims.emplace(body.symbols.names()[i], binding.dims[i]);
  const auto compare = [&](ValueId outer, ValueId inner, std::string_view role) {
    if (inner >= body.values.size()) return;
    const std::string text = fmt::format(
        "{} {} of region {}", role, value_text(body.values[inner].name), global_text(target.name));
    region_type(outer, body.values[inner].type, body, dims, text);
  };
  for (std::size_t i = 0; i < binding.operands.size(); ++i)
    compare(binding.operands[i], body.body.parameters[i], "parameter");
  for (std::size_t i = 0; i < binding.results.size(); ++i)
    compare(binding.results[i], body.body.results[i], "result");
}

namespace {

// Proofs of equality are sound, not complete; values are complete enough to find what is wrong.
bool differ_somewhere(const Dim& a, const Dim& b) {
  std::set<DimLeaf> leaves = a.leaves();
  b.collect_leaves(leaves);
  for (std::int64_t round = 0; round < 16; ++round) {
    std::map<DimLeaf, std::int64_t> values;
    for (const DimLeaf& leaf : leaves)
      values[leaf] = (round * 5 + static_cast<std::int64_t>(values.size()) * 3) % 13 -
                     (leaf.is_symbol() ? 0 : 1);
    auto lookup = [&](const DimLeaf& leaf) { return values.at(leaf); };
    try {
      if (a.evaluate(lookup) != b.evaluate(lookup)) return true;
    } catch (const Error&) {
      // A division by zero says nothing.
    }
  }
  return false;
}

}  // namespace

void FunctionVerifier::region_type(ValueId outer, const Type& inner, const Function& target,
                                   const std::map<std::string, Dim>& dims,
                                   const std::string& role) {
  const TensorType* ours = type_of(outer);
  if (ours == nullptr || !inner.is_tensor()) return;
  const auto differ = [&](const std::string& detail) {
    fail("{} is {}, but {} is {}{}", name(outer), print(function_, function_.values[outer].type),
         role, print(target, inner), detail);
  };
  if (ours->dtype != inner.tensor.dtype || ours->rank() != inner.tensor.rank()) differ("");
  for (std::size_t i = 0; i < ours->rank(); ++i) {
    const auto leaves = inner.tensor.dims[i].leaves();
    // value(%t, i) of the region's own tensors has no counterpart here.
    if (std::any_of(leaves.begin(), leaves.end(),
                    [](const DimLeaf& leaf) { return !leaf.is_symbol(); }))
      continue;
    const Dim theirs = inner.tensor.dims[i].substitute(dims);
    if (ours->dims[i] == theirs ||
        prove_equal(ours->dims[i], theirs, function_.symbols) == Proof::Yes)
      continue;
    if (!differ_somewhere(ours->dims[i], theirs)) continue;
    differ(fmt::format(", where dimension {} becomes {}", i, print(function_, theirs)));
  }
}

void FunctionVerifier::region(const Region& region) {
  for (const std::uint32_t position : region.weights) {
    if (position >= region.body.body.parameters.size()) {
      fail("weight {} is out of range: it has {}", position,
           count_text(region.body.body.parameters.size(), "parameter"));
    }
  }
  for (const std::uint32_t position : region.weights_of_4_bits) {
    if (!region.is_weight(position)) fail("parameter {} is i4, but no weight", position);
    const Type& type = region.body.values[region.body.body.parameters[position]].type;
    if (!type.is_tensor() || type.tensor.dtype != DType::I8)
      fail("weight {} is i4; expected a tensor of i8, got {}", position, print(region.body, type));
  }
  if (!region.identity.empty() && region.identity != identity_of(region)) {
    fail("its identity is not that of its body: seal() the region after every change");
  }
}

}  // namespace anydim::ir
