// Concatenations that nothing copies.
//
// What is concatenated along an axis of known extents is written where it lies in the whole: each
// operand that a kernel computes becomes the update of an overwrite in place (ir/ops.def), which
// the kernel ends with; what else reads the operand reads its part of the whole. A concatenation of
// operands that lie beside each other in a later one's whole (a dense block's) is a part of that.
// Operands that nothing computes before are copied as they were. Left alone are results of the
// function and what control flow keeps, narrow parts, whose elements fill no vector, and operands
// that are computed long before the others: memory for the whole would wait for them. Only the
// bodies of functions, and only where the backend's kernels write parts (Backend::writes_parts).
// Types must be inferred.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/loops/scalar_access.h"
#include "passes/binding_writer.h"
#include "passes/fusible.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace anydim::passes {

using namespace ir;

namespace {

// Elements that a part has side by side at least: a vector's.
constexpr std::int64_t fewest_elements = 16;
// Kernels' ends that may lie between one operand and the next.
constexpr int most_between = 6;
// Ops that are looked through for the kernel that an operand ends.
constexpr int most_steps = 24;

class Rewriter {
 public:
  explicit Rewriter(Function& function) : function_(function) {}

  bool run() {
    const std::vector<Binding>& bindings = function_.body.bindings;
    if (std::ranges::none_of(bindings, [](const Binding& one) { return one.op == Op::concat; }))
      return false;
    look();
    for (std::size_t i = bindings.size(); i-- > 0;)
      if (bindings[i].op == Op::concat) plan(i);
    if (wholes_.empty()) return false;
    write();
    return true;
  }

 private:
  // A tensor that is written part by part.
  struct Whole {
    ValueId result = no_value;  // the concatenation's
    std::size_t axis = 0;
    std::size_t missing = 0;     // parts that are not written yet
    ValueId written = no_value;  // with the parts so far
  };
  // Where a value lies in a whole.
  struct Part {
    std::size_t whole = 0;
    std::int64_t first = 0, extent = 0;
  };

  const TensorType& type(ValueId value) const { return function_.tensor_type(value); }

  void look() {
    definition_.assign(function_.values.size(), nullptr);
    position_.assign(function_.values.size(), 0);
    int ends = 0;
    for (std::size_t i = 0; i < function_.body.bindings.size(); ++i) {
      const Binding& binding = function_.body.bindings[i];
      ends += is_anchor(binding.op) ? 1 : 0;
      ends_before_.push_back(ends);
      for (const ValueId result : binding.results) {
        definition_[result] = &binding;
        position_[result] = i;
      }
    }
    reads_ = count_reads(function_);
    find_kept(function_.body);
    for (const ValueId parameter : function_.body.parameters)
      if (function_.values[parameter].type.is_tensor())
        for (const Dim& dim : type(parameter).dims) dim.collect_leaves(given_);
  }

  // Results of blocks, what control flow is given, and what is passed on under another name.
  void find_kept(const Block& block) {
    for (const Binding& binding : block.bindings) {
      if (info(binding.op).has(traits::control) || binding.op == Op::check_shape)
        kept_.insert(binding.operands.begin(), binding.operands.end());
      for (const Block& inner : binding.blocks) find_kept(inner);
    }
    kept_.insert(block.results.begin(), block.results.end());
  }

  // Whether the value ends a kernel of a product or a reduction, so far as that can be told.
  bool ends_kernel(ValueId value, int& steps) const {
    const Binding* binding = definition_[value];
    if (binding == nullptr || ++steps > most_steps || !has_one_tensor(function_, *binding))
      return false;
    if (is_product(binding->op) || info(binding->op).has(traits::reduces)) return true;
    if (info(binding->op).has(traits::reshapes) || binding->op == Op::transpose)
      return ends_kernel(binding->operands[0], steps);
    return info(binding->op).has(traits::elementwise) &&
           std::ranges::any_of(binding->operands, [&](ValueId operand) {
             return operand != no_value && ends_kernel(operand, steps);
           });
  }

  // Whether the value is computed, and by a kernel that can write it anywhere.
  bool may_lie_in_whole(ValueId value) const {
    const Binding* binding = definition_[value];
    return binding != nullptr && has_one_tensor(function_, *binding) && !parts_.contains(value) &&
           !kept_.contains(value) && is_float(type(value).dtype) &&
           (info(binding->op).has(traits::elementwise) || info(binding->op).has(traits::reduces) ||
            info(binding->op).has(traits::reshapes) || is_product(binding->op));
  }

  // Operands with where they lie along the axis; nullopt where the extents are not known, or few
  // elements of a part lie side by side.
  std::optional<std::vector<std::pair<std::int64_t, std::int64_t>>> extents_of(
      const Binding& concat, std::size_t axis) const {
    const std::span<const Dim> dims = type(concat.results[0]).dims;
    const auto within = product(dims.subspan(axis + 1)).constant();
    std::vector<std::pair<std::int64_t, std::int64_t>> extents;
    std::int64_t first = 0;
    for (const ValueId operand : concat.operands) {
      const auto extent = type(operand).dims[axis].constant();
      if (!extent || (within && *extent * *within < fewest_elements)) return std::nullopt;
      extents.emplace_back(first, *extent);
      first += *extent;
    }
    return extents;
  }

  void plan(std::size_t position) {
    const Binding& concat = function_.body.bindings[position];
    const ValueId result = concat.results[0];
    const std::size_t axis = axis_from_front(concat, type(result).rank());
    const auto extents = extents_of(concat, axis);
    if (!extents || concat.operands.size() < 2 || kept_.contains(result) ||
        parts_.contains(result) || !is_float(type(result).dtype) || is_sized_late(result))
      return;
    if (const auto whole = beside_each_other(concat, axis)) {
      views_.emplace(position, *whole);
      return;
    }
    const std::set<ValueId> operands = computed_near(concat, position);
    const bool saves = std::ranges::any_of(operands, [&](ValueId operand) {
      int steps = 0;
      return ends_kernel(operand, steps);
    });
    if (!saves) return;
    const std::size_t whole = wholes_.size();
    for (std::size_t i = 0; i < concat.operands.size(); ++i)
      if (operands.contains(concat.operands[i]))
        parts_.emplace(concat.operands[i], Part{whole, (*extents)[i].first, (*extents)[i].second});
    wholes_.push_back({.result = result, .axis = axis, .missing = concat.operands.size()});
    whole_of_.emplace(position, whole);
  }

  // Whether an extent is known only when part of the call has run.
  bool is_sized_late(ValueId value) const {
    std::set<DimLeaf> used;
    for (const Dim& dim : type(value).dims) dim.collect_leaves(used);
    return !std::ranges::includes(given_, used);
  }

  // The part of a whole that all operands are, in their order.
  std::optional<Part> beside_each_other(const Binding& concat, std::size_t axis) const {
    std::optional<Part> all;
    for (const ValueId operand : concat.operands) {
      const auto found = parts_.find(operand);
      if (found == parts_.end() || wholes_[found->second.whole].axis != axis) return std::nullopt;
      const Part& part = found->second;
      if (!all) all = part;
      else if (part.whole == all->whole && part.first == all->first + all->extent)
        all->extent += part.extent;
      else return std::nullopt;
    }
    return all;
  }

  // Operands that may lie in the whole, the last ones back to the first that is far before the
  // next.
  std::set<ValueId> computed_near(const Binding& concat, std::size_t position) const {
    std::vector<ValueId> computed;
    for (const ValueId operand : concat.operands)
      if (may_lie_in_whole(operand) && std::ranges::count(concat.operands, operand) == 1)
        computed.push_back(operand);
    std::ranges::sort(computed, std::greater<>(), [&](ValueId value) { return position_[value]; });
    std::set<ValueId> near;
    std::size_t next = position;
    for (const ValueId value : computed) {
      if (ends_before_[next] - ends_before_[position_[value]] > most_between) break;
      near.insert(value);
      next = position_[value];
    }
    return near;
  }

  void write() {
    std::map<ValueId, std::size_t> own_reads;  // by concatenations
    for (std::size_t i = 0; i < function_.body.bindings.size(); ++i)
      if (whole_of_.contains(i) || views_.contains(i))
        for (const ValueId operand : function_.body.bindings[i].operands) ++own_reads[operand];
    std::vector<Binding> given = std::move(function_.body.bindings), made;
    for (std::size_t i = 0; i < given.size(); ++i) {
      Binding& binding = given[i];
      BindingWriter writer(function_, made, binding.source, name_of_parts(binding));
      if (const auto view = views_.find(i); view != views_.end()) {
        read_part(view->second, binding.results[0], writer);
      } else if (const auto whole = whole_of_.find(i); whole != whole_of_.end()) {
        finish(whole->second, binding, writer);
      } else if (const auto part = part_of(binding)) {
        const ValueId value = binding.results[0];
        const TensorType of_part = type(value);
        binding.results[0] = function_.add_value(function_.values[value].name + "_part", of_part);
        const ValueId update = binding.results[0];
        made.push_back(std::move(binding));
        add(wholes_[part->whole], update, part->first, writer);
        if (reads_[value] > own_reads[value]) read_part(*part, value, writer);
      } else {
        made.push_back(std::move(binding));
      }
    }
    function_.body.bindings = std::move(made);
  }

  std::string name_of_parts(const Binding& binding) const {
    return binding.results.empty() ? "parts" : function_.values[binding.results[0]].name + "_whole";
  }

  std::optional<Part> part_of(const Binding& binding) const {
    if (binding.results.size() != 1) return std::nullopt;
    const auto found = parts_.find(binding.results[0]);
    return found == parts_.end() ? std::nullopt : std::optional(found->second);
  }

  // Writes another part, the last of which gives the result.
  void add(Whole& whole, ValueId update, std::int64_t first, BindingWriter& writer) {
    if (whole.written == no_value) {
      const TensorType all = type(whole.result);
      whole.written = writer.emit(Op::dyn_zeros, {writer.shape(all.dims)}, {{"dtype", all.dtype}});
    }
    --whole.missing;
    whole.written = writer.emit(Op::overwrite, {whole.written, update},
                                {{"axis", static_cast<std::int64_t>(whole.axis)},
                                 {"start", first},
                                 {"in_place", std::int64_t{1}}},
                                whole.missing == 0 ? whole.result : no_value);
  }

  // The parts that nothing has written.
  void finish(std::size_t number, const Binding& concat, BindingWriter& writer) {
    Whole& whole = wholes_[number];
    std::int64_t first = 0;
    for (const ValueId operand : concat.operands) {
      const std::int64_t extent = *type(operand).dims[whole.axis].constant();
      const auto part = parts_.find(operand);
      if (part == parts_.end() || part->second.whole != number) add(whole, operand, first, writer);
      first += extent;
    }
  }

  void read_part(const Part& part, ValueId result, BindingWriter& writer) const {
    const Whole& whole = wholes_[part.whole];
    writer.emit(Op::strided_slice, {whole.written},
                {{"axes", std::vector{static_cast<std::int64_t>(whole.axis)}},
                 {"starts", std::vector{part.first}},
                 {"ends", std::vector{part.first + part.extent}}},
                result);
  }

  Function& function_;
  std::vector<const Binding*> definition_;  // by value; null: outside
  std::vector<std::size_t> position_;       // by value
  std::vector<int> ends_before_;            // by binding: kernels' ends up to it
  std::vector<std::size_t> reads_;          // by value
  std::set<ValueId> kept_;                  // beyond their readers: these have memory of their own
  std::set<DimLeaf> given_;                 // that parameters' dims mention
  std::vector<Whole> wholes_;
  std::map<std::size_t, std::size_t> whole_of_;  // by the concatenation's position
  std::map<ValueId, Part> parts_;
  std::map<std::size_t, Part> views_;  // concatenations that lie in another's whole
};

}  // namespace

void concat_in_place(Module& module, PassContext& context) {
  if (context.backend != nullptr && !context.backend->writes_parts()) return;
  rewrite_functions(module, [](Function& function) { return Rewriter(function).run(); });
}

}  // namespace anydim::passes
