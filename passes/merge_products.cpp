#include "passes/merge_products.h"

#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <optional>

#include "ir/error.h"
#include "passes/rewrite.h"

namespace anydim::passes {

using namespace ir;

namespace {

// A matmul whose right operand is a constant matrix, perhaps behind a transpose.
struct Member {
  std::size_t product = 0;              // binding
  ValueId matrix = no_value;            // the constant
  std::optional<std::size_t> addition;  // the one reader, adding a constant vector
  ValueId vector = no_value;
  std::int64_t columns = 0;
};

// Joined along `axis`, in memory that nothing writes before the copy: weights are large, and zeroing them first would cost as much again.
Tensor side_by_side(const std::vector<const Tensor*>& tensors, std::size_t axis, const std::vector<std::int64_t>& dims) {
  const DType dtype = tensors[0]->dtype();
  const auto size = static_cast<std::size_t>(byte_count(dtype, dims));
  constexpr std::align_val_t alignment{64};
  std::shared_ptr<std::byte> memory(static_cast<std::byte*>(::operator new(std::max<std::size_t>(size, 1), alignment)),
                                    [](std::byte* bytes) { ::operator delete(bytes, alignment); });
  std::size_t rows = 1;
  for (std::size_t i = 0; i < axis; ++i) rows *= static_cast<std::size_t>(dims[i]);
  std::byte* to = memory.get();
  for (std::size_t row = 0; row < rows; ++row) {
    for (const Tensor* tensor : tensors) {
      std::size_t run = tensor->bytes().size() / rows;
      if (run != 0) std::memcpy(to, tensor->bytes().data() + row * run, run);
      to += run;
    }
  }
  return Tensor(dtype, dims, {memory.get(), size}, memory);
}

class BlockMerger {
 public:
  BlockMerger(Function& function, Block& block, Replacements& replacements)
      : function_(function), block_(block), replacements_(replacements), definition_(function.values.size(), nullptr),
        readers_(function.values.size()) {
    for (std::size_t i = 0; i < block.bindings.size(); ++i) {
      for (ValueId result : block.bindings[i].results) definition_[result] = &block.bindings[i];
      count_readers(block.bindings[i], i);
    }
    for (ValueId result : block.results) readers_[result].push_back(outside);
  }

  void run() {
    std::map<std::size_t, std::vector<Binding>> inserted;  // before this binding
    for (auto& [key, members] : groups()) {
      if (members.size() < 2) continue;
      std::vector<Binding> made = merge(key.transposed, members);
      auto& place = inserted[members.front().product];
      for (Binding& binding : made) place.push_back(std::move(binding));
    }
    if (inserted.empty()) return;
    std::vector<Binding> result;
    for (std::size_t i = 0; i < block_.bindings.size(); ++i) {
      if (auto found = inserted.find(i); found != inserted.end())
        for (Binding& binding : found->second) result.push_back(std::move(binding));
      result.push_back(std::move(block_.bindings[i]));
    }
    block_.bindings = std::move(result);
  }

 private:
  static constexpr std::size_t outside = ~std::size_t{0};

  struct Key {
    ValueId left;
    bool transposed;
    bool added;
    auto operator<=>(const Key&) const = default;
  };

  void count_readers(const Binding& binding, std::size_t position) {
    for (ValueId operand : binding.operands)
      if (operand != no_value) readers_[operand].push_back(position);
    for (const Block& nested : binding.blocks) {
      for (const Binding& inner : nested.bindings) count_readers(inner, outside);
      for (ValueId result : nested.results) readers_[result].push_back(outside);
    }
  }

  const Binding* constant(ValueId value) const {
    const Binding* found = definition_[value];
    return found != nullptr && found->op == Op::constant ? found : nullptr;
  }

  std::map<Key, std::vector<Member>> groups() const {
    std::map<Key, std::vector<Member>> found;
    for (std::size_t i = 0; i < block_.bindings.size(); ++i) {
      const Binding& product = block_.bindings[i];
      if (product.op != Op::matmul) continue;
      Member member{.product = i, .matrix = product.operands[1], .addition = {}};
      const Binding* view = definition_[member.matrix];
      bool transposed = view != nullptr && view->op == Op::transpose;
      if (transposed) member.matrix = view->operands[0];
      if (constant(member.matrix) == nullptr || function_.tensor_type(member.matrix).rank() != 2) continue;
      member.columns = tensor_attribute(*constant(member.matrix), "value").dims()[transposed ? 0 : 1];
      find_addition(product.results[0], member);
      found[{product.operands[0], transposed, member.addition.has_value()}].push_back(member);
    }
    return found;
  }

  void find_addition(ValueId product, Member& member) const {
    const auto& readers = readers_[product];
    if (readers.size() != 1 || readers[0] == outside) return;
    const Binding& reader = block_.bindings[readers[0]];
    if (reader.op != Op::add) return;
    ValueId vector = reader.operands[0] == product ? reader.operands[1] : reader.operands[0];
    const Binding* found = constant(vector);
    if (found == nullptr || tensor_attribute(*found, "value").dims() != std::vector{member.columns}) return;
    member.addition = readers[0];
    member.vector = vector;
  }

  ValueId joined(const std::vector<ValueId>& constants, std::int64_t axis, const std::string& source, std::vector<Binding>& made) {
    std::vector<const Tensor*> tensors;
    std::vector<std::int64_t> dims;
    std::int64_t extent = 0;
    for (ValueId id : constants) {
      tensors.push_back(&tensor_attribute(*constant(id), "value"));
      dims = tensors.back()->dims();
      extent += dims[static_cast<std::size_t>(axis)];
    }
    dims[static_cast<std::size_t>(axis)] = extent;
    Tensor value = side_by_side(tensors, static_cast<std::size_t>(axis), dims);
    ValueId result = function_.add_value(function_.values[constants[0]].name + "_merged",
                                         TensorType{value.dtype(), std::vector<Dim>(dims.begin(), dims.end())});
    made.push_back({.op = Op::constant, .results = {result}, .attributes = {{"value", std::move(value)}}, .source = source});
    return result;
  }

  std::vector<Binding> merge(bool transposed, const std::vector<Member>& members) {
    const Binding& first = block_.bindings[members[0].product];
    const std::string& source = first.source;
    std::vector<Binding> made;
    std::vector<ValueId> matrices, vectors;
    std::int64_t columns = 0;
    for (const Member& member : members) {
      matrices.push_back(member.matrix);
      vectors.push_back(member.vector);
      columns += member.columns;
    }
    ValueId right = joined(matrices, transposed ? 0 : 1, source, made);
    if (transposed) {
      TensorType type = function_.tensor_type(right);
      std::swap(type.dims[0], type.dims[1]);
      ValueId view = function_.add_value(function_.values[right].name + "_transposed", type);
      made.push_back({.op = Op::transpose,
                      .operands = {right},
                      .results = {view},
                      .attributes = {{"perm", std::vector<std::int64_t>{1, 0}}},
                      .source = source});
      right = view;
    }
    TensorType type = function_.tensor_type(first.results[0]);
    type.dims.back() = columns;
    ValueId whole = function_.add_value(function_.values[first.results[0]].name + "_merged", type);
    made.push_back({.op = Op::matmul, .operands = {first.operands[0], right}, .results = {whole}, .source = source});
    if (members[0].addition) {
      ValueId vector = joined(vectors, 0, source, made);
      ValueId sum = function_.add_value(function_.values[whole].name + "_sum", type);
      made.push_back({.op = Op::add, .operands = {whole, vector}, .results = {sum}, .source = source});
      whole = sum;
    }
    std::int64_t start = 0;
    for (const Member& member : members) {
      const Binding& last = block_.bindings[member.addition.value_or(member.product)];
      ValueId part = function_.add_value(function_.values[last.results[0]].name + "_part", function_.values[last.results[0]].type);
      Binding slice{.op = Op::strided_slice, .operands = {whole}, .results = {part}, .source = last.source};
      slice.attributes.emplace("starts", std::vector<std::int64_t>{start});
      slice.attributes.emplace("ends", std::vector<std::int64_t>{start + member.columns});
      slice.attributes.emplace("axes", std::vector<std::int64_t>{-1});
      made.push_back(std::move(slice));
      replacements_.replace(last.results[0], part);
      start += member.columns;
    }
    return made;
  }

  Function& function_;
  Block& block_;
  Replacements& replacements_;
  std::vector<const Binding*> definition_;
  std::vector<std::vector<std::size_t>> readers_;
};

}  // namespace

void merge_products(Module& module, PassContext&) {
  for (Function& function : module.functions) {
    Replacements replacements(function);
    BlockMerger(function, function.body, replacements).run();
    if (replacements.empty()) continue;
    replacements.apply(function);
    drop_dead(function);
  }
}

}  // namespace anydim::passes
