// Matrices of all heads in one batch, as exporters write them for a product of three dims, become
// matrices of a batch of heads: between a reshape that joins the first two dims and one that parts
// them again, ops work on both dims, and the reshapes are left for simplify_views.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ir/loops/scalar_access.h"
#include "passes/binding_writer.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace anydim::passes {

using namespace ir;

namespace {

using Dims = std::vector<Dim>;

// What the first dim of a value is the product of.
struct Parts {
  Dim outer, inner;
  bool operator==(const Parts&) const = default;
};

class Splitting {
 public:
  explicit Splitting(Function& function) : function_(function) {}

  bool run() {
    std::vector<Binding>& bindings = function_.body.bindings;
    for (const Binding& binding : bindings) find_parts(binding);
    for (auto binding = bindings.rbegin(); binding != bindings.rend(); ++binding) want(*binding);
    if (wanted_.empty()) return false;
    std::vector<Binding> made;
    for (Binding& binding : bindings) {
      if (is_wanted(binding)) split(binding, made);
      made.push_back(std::move(binding));
    }
    bindings = std::move(made);
    replacements_.apply(function_);
    return true;
  }

 private:
  const Dims& dims(ValueId value) const { return function_.tensor_type(value).dims; }
  std::optional<Parts> parts_of(ValueId value) const {
    const auto found = parts_.find(value);
    return found == parts_.end() ? std::nullopt : std::optional(found->second);
  }
  static Dims parted(const Dims& dims, const Parts& parts) {
    Dims both{parts.outer, parts.inner};
    both.insert(both.end(), dims.begin() + 1, dims.end());
    return both;
  }

  void find_parts(const Binding& binding) {
    if (!has_one_tensor(function_, binding)) return;
    const ValueId result = binding.results[0];
    const Dims& to = dims(result);
    if (to.empty()) return;
    if (info(binding.op).has(traits::reshapes)) {
      const Dims& from = dims(binding.operands[0]);
      if (from == to) {
        if (const auto parts = parts_of(binding.operands[0])) parts_.emplace(result, *parts);
      } else if (from.size() == to.size() + 1 && !from[0].is_constant(1) &&
                 !from[1].is_constant(1) && from[0] * from[1] == to[0] &&
                 std::equal(to.begin() + 1, to.end(), from.begin() + 2)) {
        parts_.emplace(result, Parts{from[0], from[1]});
        joined_[result] = binding.operands[0];
      }
      return;
    }
    if (const auto parts = parts_below(binding)) parts_.emplace(result, *parts);
  }

  // The parts of an op that may as well work on both dims.
  std::optional<Parts> parts_below(const Binding& binding) const {
    const Dims& to = dims(binding.results[0]);
    const std::size_t rank = to.size();
    if (binding.op == Op::transpose && permutation(binding, rank)[0] == 0)
      return parts_of(binding.operands[0]);
    if ((binding.op == Op::softmax || binding.op == Op::log_softmax) &&
        axis_from_front(binding, rank) != 0)
      return parts_of(binding.operands[0]);
    if (binding.op != Op::matmul && !info(binding.op).has(traits::elementwise)) return std::nullopt;
    std::optional<Parts> found;
    for (const ValueId operand : binding.operands) {
      const Dims& from = dims(operand);
      if (from.size() < rank || from[0].is_constant(1)) continue;
      const auto parts = parts_of(operand);
      if (from[0] != to[0] || (parts && found && *parts != *found)) return std::nullopt;
      if (parts) found = parts;
    }
    return binding.op == Op::matmul && rank < 3 ? std::nullopt : found;
  }

  bool is_wanted(const Binding& binding) const {
    return has_one_tensor(function_, binding) && wanted_.contains(binding.results[0]) &&
           !joined_.contains(binding.results[0]);
  }

  void want(const Binding& binding) {
    if (!has_one_tensor(function_, binding) || joined_.contains(binding.results[0])) return;
    if (info(binding.op).has(traits::reshapes)) {
      const ValueId operand = binding.operands[0];
      if (const auto parts = parts_of(operand);
          parts && (dims(binding.results[0]) == parted(dims(operand), *parts) ||
                    wanted_.contains(binding.results[0])))
        wanted_.insert(operand);
    } else if (wanted_.contains(binding.results[0])) {
      for (const ValueId operand : binding.operands)
        if (parts_of(operand)) wanted_.insert(operand);
    }
  }

  // Writes the binding over both dims; its result is that, joined.
  void split(Binding& binding, std::vector<Binding>& into) {
    const ValueId result = binding.results[0];
    const Parts parts = *parts_of(result);
    BindingWriter writer(function_, into, binding.source,
                         function_.values[result].name + "_parted");
    const std::size_t rank = dims(result).size();
    if (info(binding.op).has(traits::reshapes)) {  // which changes nothing
      split_[result] = over_both(binding.operands[0], parts, rank, writer);
    } else {
      Binding both = binding;
      for (ValueId& operand : both.operands) operand = over_both(operand, parts, rank, writer);
      if (binding.op == Op::transpose) {
        std::vector<std::int64_t> perm{0};
        for (const std::size_t axis : permutation(binding, rank))
          perm.push_back(static_cast<std::int64_t>(axis) + 1);
        both.attributes.insert_or_assign("perm", std::move(perm));
      } else if (has_attribute(binding, "axis")) {
        both.attributes.insert_or_assign(
            "axis", static_cast<std::int64_t>(axis_from_front(binding, rank)) + 1);
      }
      both.results = {writer.new_value()};
      split_[result] = both.results[0];
      writer.push(std::move(both));
    }
    const ValueId joined = writer.reshaped(split_.at(result), dims(result));
    replacements_.replace(result, joined);
  }

  // The operand of an op of this rank over both dims, or as it is where it has none of them.
  ValueId over_both(ValueId operand, const Parts& parts, std::size_t rank, BindingWriter& writer) {
    if (const auto found = split_.find(operand); found != split_.end()) return found->second;
    if (const auto found = joined_.find(operand); found != joined_.end()) return found->second;
    if (operand == no_value || dims(operand).size() < rank) return operand;
    if (dims(operand)[0].is_constant(1)) return writer.with_axis(operand, 0);
    return writer.reshaped(operand, parted(dims(operand), parts));
  }

  Function& function_;
  Replacements replacements_{function_};
  std::map<ValueId, Parts> parts_;
  std::map<ValueId, ValueId> joined_;  // result of a reshape that joins, to its operand
  std::set<ValueId> wanted_;           // that some reshape parts again
  std::map<ValueId, ValueId> split_;   // to the same over both dims
};

}  // namespace

void split_batches(Module& module, PassContext&) {
  rewrite_functions(module, [](Function& function) { return Splitting(function).run(); });
}

}  // namespace anydim::passes
