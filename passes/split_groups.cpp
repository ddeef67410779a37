// Groups of channels whose places were joined, as exporters write group normalisation: between a
// reshape from [N, C, places...] to [N, G, P] and one back, elementwise ops and reductions over P
// work on [N, G, C / G, places...], where channels stay a dim of their own that channels_last can
// lay innermost. A reduction is one over places, then one over a group's channels. Only in
// functions that have windows.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ir/loops/scalar_access.h"
#include "passes/binding_writer.h"
#include "passes/dim_order.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace anydim::passes {

using namespace ir;

namespace {

// [N, G, P] as it is taken apart.
struct Groups {
  Dims dims;  // [N, G, C / G, places...]
  // Whether a tensor has the groups' channels as one dim: [N, C, places...]. Its places may be
  // joined otherwise, as products of windows join theirs.
  bool is_whole(const Dims& other) const {
    const auto places = [](const Dims& all, std::size_t first) {
      return product(std::span(all).subspan(first));
    };
    return other.size() > 2 && other[0] == dims[0] && other[1] == dims[1] * dims[2] &&
           places(other, 2) == places(dims, 3);
  }
  bool operator==(const Groups&) const = default;
};
constexpr std::size_t joined_rank = 3, fewest_bytes = 4;

class Splitting {
 public:
  explicit Splitting(Function& function) : function_(function) {}

  bool run() {
    std::vector<Binding>& bindings = function_.body.bindings;
    if (std::ranges::none_of(bindings, [](const Binding& one) { return one.op == Op::windows; }))
      return false;
    for (const Binding& binding : bindings) find(binding);
    if (wanted_.empty()) return false;
    std::vector<Binding> made;
    for (Binding& binding : bindings)
      if (!split(binding, made)) made.push_back(std::move(binding));
    bindings = std::move(made);
    replacements_.apply(function_);
    return true;
  }

 private:
  // A value that has groups, and the reshapes that joined what it is computed from.
  struct Found {
    Groups groups;
    std::set<ValueId> joins;
  };

  const Dims& dims(ValueId value) const { return function_.tensor_type(value).dims; }
  const Found* found(ValueId value) const {
    const auto one = found_.find(value);
    return one == found_.end() ? nullptr : &one->second;
  }
  bool is_wanted(ValueId value) const {
    const Found* one = found(value);
    return one != nullptr &&
           std::ranges::any_of(one->joins, [&](ValueId join) { return wanted_.contains(join); });
  }

  void find(const Binding& binding) {
    if (!has_one_tensor(function_, binding) || binding.operands.empty()) return;
    const ValueId result = binding.results[0];
    if (info(binding.op).has(traits::reshapes)) {
      const ValueId operand = binding.operands[0];
      if (const Found* from = found(operand)) {
        if (from->groups.is_whole(dims(result)))
          wanted_.insert(from->joins.begin(), from->joins.end());
      } else if (auto groups = groups_of_join(dims(operand), dims(result))) {
        found_.emplace(result, Found{std::move(*groups), {result}});
      }
    } else if (info(binding.op).has(traits::elementwise)) {
      if (auto all = found_below(binding)) found_.emplace(result, std::move(*all));
    }
  }

  static std::optional<Groups> groups_of_join(const Dims& from, const Dims& to) {
    if (from.size() < joined_rank || to.size() != joined_rank || from[0] != to[0])
      return std::nullopt;
    const auto channels = from[1].constant(), groups = to[1].constant();
    if (!channels || !groups || *groups < 1 || *channels % *groups != 0 || *channels == *groups)
      return std::nullopt;
    Groups result{{from[0], to[1], *channels / *groups}};
    result.dims.insert(result.dims.end(), from.begin() + 2, from.end());
    if (product(std::span(result.dims).subspan(2)) != to[2]) return std::nullopt;
    return result;
  }

  // Of an elementwise op whose other operands have one element for all places of a group.
  std::optional<Found> found_below(const Binding& binding) const {
    std::optional<Found> result;
    for (const ValueId operand : binding.operands) {
      if (operand == no_value) continue;
      const Found* one = found(operand);
      if (one == nullptr) {
        if (!dims(operand).empty() && !dims(operand).back().is_constant(1)) return std::nullopt;
        continue;
      }
      if (result && !(result->groups == one->groups)) return std::nullopt;
      if (!result) result = *one;
      result->joins.insert(one->joins.begin(), one->joins.end());
    }
    return result;
  }

  // Whether the binding's result is written anew as a whole.
  bool split(const Binding& binding, std::vector<Binding>& into) {
    if (!has_one_tensor(function_, binding) || binding.operands.empty()) return false;
    const ValueId result = binding.results[0], operand = binding.operands[0];
    BindingWriter writer(function_, into, binding.source,
                         function_.values[result].name + "_parted");
    if (info(binding.op).has(traits::reshapes) && is_wanted(operand)) {
      replacements_.replace(result, writer.reshaped(split_.at(operand), dims(result)));
      return true;
    }
    if (reduces_groups(binding) && is_wanted(operand)) {
      replacements_.replace(result,
                            writer.reshaped(reduced(binding, operand, writer), dims(result)));
      return true;
    }
    if (!is_wanted(result)) return false;
    const Groups& groups = found(result)->groups;
    if (info(binding.op).has(traits::reshapes)) {
      split_[result] = writer.reshaped(operand, groups.dims);
    } else {
      Binding apart = binding;
      for (ValueId& one : apart.operands) one = in_groups(one, groups, writer);
      apart.results = {writer.new_value()};
      split_[result] = apart.results[0];
      writer.push(std::move(apart));
    }
    replacements_.replace(result, writer.reshaped(split_.at(result), dims(result)));
    return true;
  }

  // Over all places of a group, and such that parts of them can be reduced first. What those give
  // is rounded to the result's dtype.
  bool reduces_groups(const Binding& binding) const {
    const DType dtype = function_.tensor_type(binding.results[0]).dtype;
    const bool exact = binding.op == Op::reduce_max || binding.op == Op::reduce_min;
    const bool rounds = binding.op == Op::reduce_sum || binding.op == Op::reduce_mean;
    if (!exact && !(rounds && is_float(dtype) && size_of(dtype) >= fewest_bytes)) return false;
    return has_attribute(binding, "axes") && found(binding.operands[0]) != nullptr &&
           normalised_axes(binding, joined_rank) == std::vector<std::size_t>{joined_rank - 1};
  }

  ValueId reduced(const Binding& binding, ValueId operand, BindingWriter& writer) {
    constexpr std::int64_t channels = joined_rank - 1;
    std::vector<std::int64_t> places(found(operand)->groups.dims.size() - joined_rank);
    std::iota(places.begin(), places.end(), channels + 1);
    ValueId value = split_.at(operand);
    for (const std::vector<std::int64_t>& axes : {places, std::vector{channels}})
      value = writer.emit(binding.op, {value}, {{"axes", axes}, {"keepdims", std::int64_t{1}}});
    return value;
  }

  ValueId in_groups(ValueId operand, const Groups& groups, BindingWriter& writer) {
    if (const auto apart = split_.find(operand); apart != split_.end()) return apart->second;
    if (operand == no_value || dims(operand).empty()) return operand;
    if (found(operand) != nullptr) return writer.reshaped(operand, groups.dims);
    Dims with_ones = dims(operand);
    with_ones.insert(with_ones.end(), groups.dims.size() - joined_rank, Dim(1));
    return writer.reshaped(operand, std::move(with_ones));
  }

  Function& function_;
  Replacements replacements_{function_};
  std::map<ValueId, Found> found_;
  std::set<ValueId> wanted_;          // joins that some reshape takes back
  std::map<ValueId, ValueId> split_;  // to the same with groups taken apart
};

}  // namespace

void split_groups(Module& module, PassContext&) {
  rewrite_functions(module, [](Function& function) { return Splitting(function).run(); });
}

}  // namespace anydim::passes
