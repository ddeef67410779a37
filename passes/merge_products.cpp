// Matmuls of one left operand with constant matrices (Q, K and V of a transformer) become one
// matmul over the matrices side by side, followed by slices, which are views. Matrices are joined
// in the orientation that they are stored in. What every product alone goes through next is joined
// too, as far as the products agree: additions of biases, conversions and scales of quantised
// products (passes/join_columns.h).
#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "passes/join_columns.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace anydim::passes {

using namespace ir;

namespace {

// A matmul whose right operand is a constant matrix, perhaps behind a transpose and conversions.
struct Member {
  std::size_t product = 0;  // binding
  // what lies between the product and the constant, in that order
  std::vector<const Binding*> behind;
  const Tensor* matrix = nullptr;
  bool transposed = false;  // an odd number of times
  std::int64_t columns = 0;
};

class BlockMerger {
 public:
  BlockMerger(Function& function, Block& block, Replacements& replacements)
      : function_(function), block_(block), replacements_(replacements),
        definition_(function.values.size(), nullptr), readers_(function.values.size()) {
    for (std::size_t i = 0; i < block.bindings.size(); ++i) {
      for (ValueId result : block.bindings[i].results) definition_[result] = &block.bindings[i];
      count_readers(block.bindings[i], i);
    }
    for (ValueId result : block.results) readers_[result].push_back(outside);
  }

  void run() {
    std::map<std::size_t, std::vector<Binding>> inserted;  // before this binding
    for (const std::vector<Member>& members : groups()) {
      if (members.size() >= 2) inserted[members.front().product] = merge(members);
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

  void count_readers(const Binding& binding, std::size_t position) {
    for (ValueId operand : binding.operands)
      if (operand != no_value) readers_[operand].push_back(position);
    for (const Block& nested : binding.blocks) {
      for (const Binding& inner : nested.bindings) count_readers(inner, outside);
      for (ValueId result : nested.results) readers_[result].push_back(outside);
    }
  }

  // The binding that alone reads the value, once.
  std::optional<std::size_t> reader_of(ValueId value) const {
    const auto& readers = readers_[value];
    return readers.size() == 1 && readers[0] != outside ? std::optional(readers[0]) : std::nullopt;
  }

  std::optional<Member> member_at(std::size_t position) const {
    const Binding& product = block_.bindings[position];
    if (product.op != Op::matmul) return std::nullopt;
    Member member{.product = position, .behind = {}};
    const Binding* right = definition_[product.operands[1]];
    for (; right != nullptr && (right->op == Op::transpose || right->op == Op::cast);
         right = definition_[right->operands[0]]) {
      member.transposed ^= right->op == Op::transpose;
      member.behind.push_back(right);
    }
    if (right == nullptr || right->op != Op::constant) return std::nullopt;
    member.matrix = &tensor_attribute(*right, "value");
    if (member.matrix->dims().size() != 2) return std::nullopt;
    member.columns = member.matrix->dims()[member.transposed ? 0 : 1];
    return member;
  }

  // Whether what alone reads the product adds a constant vector to it.
  bool is_added_to(const Member& member) const {
    const ValueId product = block_.bindings[member.product].results[0];
    const auto reader = reader_of(product);
    if (!reader || block_.bindings[*reader].op != Op::add) return false;
    const std::vector<ValueId>& operands = block_.bindings[*reader].operands;
    const Binding* vector = definition_[operands[0] == product ? operands[1] : operands[0]];
    return vector != nullptr && vector->op == Op::constant &&
           tensor_attribute(*vector, "value").dims() == std::vector{member.columns};
  }

  bool fits(const Member& a, const Member& b) const {
    if (block_.bindings[a.product].operands[0] != block_.bindings[b.product].operands[0] ||
        a.matrix->dtype() != b.matrix->dtype() || is_added_to(a) != is_added_to(b))
      return false;
    return std::equal(a.behind.begin(), a.behind.end(), b.behind.begin(), b.behind.end(),
                      [](const Binding* x, const Binding* y) {
                        return x->op == y->op && same_attributes(x->attributes, y->attributes);
                      });
  }

  // In the order of their first products.
  std::vector<std::vector<Member>> groups() const {
    std::map<ValueId, std::vector<std::vector<Member>>> by_left;
    for (std::size_t i = 0; i < block_.bindings.size(); ++i) {
      const auto member = member_at(i);
      if (!member) continue;
      auto& candidates = by_left[block_.bindings[i].operands[0]];
      const auto group = std::ranges::find_if(
          candidates, [&](const auto& members) { return fits(members.front(), *member); });
      if (group != candidates.end()) group->push_back(*member);
      else candidates.push_back({*member});
    }
    std::vector<std::vector<Member>> found;
    for (auto& [left, candidates] : by_left)
      for (auto& group : candidates) found.push_back(std::move(group));
    return found;
  }

  ValueId joined_matrix(ColumnJoiner& joiner, const std::vector<Member>& members) {
    std::vector<const Tensor*> matrices;
    for (const Member& member : members) matrices.push_back(member.matrix);
    const Member& first = members[0];
    ValueId right = joiner.constant(matrices, first.transposed ? 0 : 1);
    for (std::size_t i = first.behind.size(); i-- > 0;) {
      const Binding& step = *first.behind[i];
      TensorType type = function_.tensor_type(right);
      if (step.op == Op::transpose) std::swap(type.dims[0], type.dims[1]);
      type.dtype = function_.tensor_type(step.results[0]).dtype;
      right = joiner.write(step.op, {right}, std::move(type), step.attributes);
    }
    return right;
  }

  // What each member's value goes through alone goes on once for all of them, as far as they agree.
  // `last`: the members' values so far.
  ValueId joined_readers(ColumnJoiner& joiner, ValueId whole, std::vector<ValueId>& last) const {
    for (;;) {
      std::vector<const Binding*> readers;
      std::optional<std::size_t> position;
      for (const ValueId value : last) {
        const auto reader = reader_of(value);
        if (!reader) return whole;
        const Binding& binding = block_.bindings[*reader];
        const auto at = static_cast<std::size_t>(std::ranges::find(binding.operands, value) -
                                                 binding.operands.begin());
        // A unary op other than a conversion is as well done where it is read.
        if (position.value_or(at) != at || (binding.operands.size() == 1 && binding.op != Op::cast))
          return whole;
        position = at;
        readers.push_back(&binding);
      }
      const auto next = joiner.joined(readers, *position, whole);
      if (!next) return whole;
      whole = *next;
      for (std::size_t i = 0; i < last.size(); ++i) last[i] = readers[i]->results[0];
    }
  }

  std::vector<Binding> merge(const std::vector<Member>& members) {
    const Binding& first = block_.bindings[members[0].product];
    std::vector<std::int64_t> columns;
    std::vector<ValueId> last;
    std::int64_t all = 0;
    for (const Member& member : members) {
      columns.push_back(member.columns);
      last.push_back(block_.bindings[member.product].results[0]);
      all += member.columns;
    }
    ColumnJoiner joiner(function_, block_, members[0].product, columns);
    TensorType type = function_.tensor_type(first.results[0]);
    type.dims.back() = all;
    ValueId whole = joiner.write(Op::matmul, {first.operands[0], joined_matrix(joiner, members)},
                                 std::move(type));
    whole = joined_readers(joiner, whole, last);
    std::int64_t start = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      Binding slice{
          .op = Op::strided_slice, .operands = {whole}, .source = definition_[last[i]]->source};
      slice.results = {function_.add_value(function_.values[last[i]].name + "_part",
                                           function_.values[last[i]].type)};
      slice.attributes.emplace("starts", std::vector<std::int64_t>{start});
      slice.attributes.emplace("ends", std::vector<std::int64_t>{start + columns[i]});
      slice.attributes.emplace("axes", std::vector<std::int64_t>{-1});
      replacements_.replace(last[i], slice.results[0]);
      joiner.made().push_back(std::move(slice));
      start += columns[i];
    }
    return std::move(joiner.made());
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
