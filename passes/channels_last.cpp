// Lays what convolutions compute in memory with the channels innermost, as [N, places..., C] where
// the model says [N, C, places...]: a product with a constant on the left, over windows or over
// what is laid so, becomes one with that constant on the right, whose left operand's rows are read
// where they lie; groups of channels that are laid so are products side by side. The layout goes on
// through elementwise ops, windows, padding, slices, splits, concatenations, resampling, reductions
// and reshapes that keep channels apart, also where some of them become places (phases of
// transposed convolutions); what needs the model's order reads it through a transpose, which never
// exists in memory. A convolution keeps its results in the model's order where something other than
// these and the model's results would read them so, or where what it reads lies in that order and
// only results come of it. A model's own transposes from channels last (ConvNeXt) are layouts too
// where there are windows. Types must be inferred; constants computed.
#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ir/dims/symbols.h"
#include "ir/loops/scalar_access.h"
#include "ir/reduction.h"
#include "ir/shapes/shape_rules.h"
#include "passes/binding_writer.h"
#include "passes/byte_images.h"
#include "passes/dim_order.h"
#include "passes/pass.h"
#include "passes/rewrite.h"
#include "passes/views.h"

namespace anydim::passes {

using namespace ir;

namespace {

// Fewer channels than this fill no vector: their places stay innermost.
constexpr std::int64_t fewest_channels = 16;
// A reduction over more places than these reads them where they are innermost: a channel's lie a
// row of channels apart otherwise, many of which fill a page of their own each. Where none knows
// how many there are, they are taken to be few.
constexpr std::int64_t most_reduced = 4096, most_reduced_of_few = 65536, few_channels = 256,
                       most_known = default_symbol_maximum / 4;

class Layout {
 public:
  // `plain`: what starts layouts and keeps the model's order instead.
  Layout(Function& function, const std::set<ValueId>& plain) : function_(function), plain_(plain) {}

  // Whether anything is laid out anew.
  bool run() {
    std::vector<Binding>& bindings = function_.body.bindings;
    if (std::ranges::none_of(bindings,
                             [](const Binding& binding) { return binding.op == Op::windows; }))
      return false;
    std::vector<Binding> made;
    const std::set<ValueId> images = images_of_bytes(function_);
    for (const ValueId parameter : function_.body.parameters)
      if (images.contains(parameter)) start(parameter, made, {});
    for (Binding& binding : bindings) {
      note_constant(binding);
      if (has_one_tensor(function_, binding)) {
        BindingWriter writer(function_, made, binding.source,
                             function_.values[binding.results[0]].name + "_laid");
        if (auto laid = lay_out(binding, writer)) {
          define(binding.results[0], std::move(*laid), writer);
          continue;
        }
        if (info(binding.op).has(traits::moves)) moves_.emplace(binding.results[0], binding);
      }
      if (binding.op == Op::split && laid(binding.operands[0]) != nullptr) {
        split(binding, made);
        continue;
      }
      const std::vector<ValueId> results = binding.results;
      const std::string source = binding.source;
      made.push_back(std::move(binding));
      for (const ValueId result : results)
        if (images.contains(result)) start(result, made, source);
    }
    bindings = std::move(made);
    replacements_.apply(function_);
    drop_dead(function_);
    return changed_;
  }

  // What started the layouts that something else than a result of the function reads in the model's
  // order, and those that nothing but results comes of, after run().
  std::set<ValueId> started_in_vain() const {
    std::set<ValueId> found;
    std::ranges::set_difference(turned_, used_, std::inserter(found, found.end()));
    const auto read = [&](ValueId value) {
      const Laid* x = value == no_value ? nullptr : laid(value);
      if (x != nullptr && !is_in_place(that_lie(dims(value), x->order)))
        found.insert(x->starts.begin(), x->starts.end());
    };
    const auto look = [&](const auto& self, const Block& block) -> void {
      for (const Binding& binding : block.bindings) {
        for (const ValueId operand : binding.operands) read(operand);
        for (const Block& inner : binding.blocks) {
          self(self, inner);
          for (const ValueId result : inner.results) read(result);
        }
      }
    };
    look(look, function_.body);
    return found;
  }

 private:
  // A value of the model whose dim order[i] is dim i of `value`.
  struct Laid {
    ValueId value = no_value;
    Axes order;
    std::set<ValueId> starts;  // results whose layout this goes on with
  };

  // The value, which stays, is laid out with its channels innermost where that is asked for.
  void start(ValueId value, std::vector<Binding>& made, std::string source) {
    Axes order = as_given(dims(value).size());
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
    BindingWriter writer(function_, made, std::move(source),
                         function_.values[value].name + "_laid");
    const ValueId view = writer.transposed(value, order);
    laid_.emplace(value, Laid{view, std::move(order), {}});
  }

  const Dims& dims(ValueId value) const { return function_.tensor_type(value).dims; }
  const Laid* laid(ValueId value) const {
    const auto found = laid_.find(value);
    return found == laid_.end() ? nullptr : &found->second;
  }
  // The value in memory whose dim order[i] is dim i of what is asked for; no_value: none lies so.
  ValueId in_order_of(ValueId value, const Axes& order, BindingWriter& writer) const {
    const Laid* x = laid(value);
    if (x == nullptr || that_lie(dims(value), x->order) != that_lie(dims(value), order))
      return no_value;
    return x->order == order ? x->value : writer.reshaped(x->value, in_order(dims(value), order));
  }
  const Tensor* constant(ValueId value) const {
    const auto found = constants_.find(value);
    return found == constants_.end() ? nullptr : &found->second;
  }

  // Constants and reshapes of them, whose bytes are the same; and what is only converted of those.
  void note_constant(const Binding& binding) {
    if (!has_one_tensor(function_, binding)) return;
    const ValueId result = binding.results[0];
    if (binding.op == Op::constant) {
      constants_.emplace(result, tensor_attribute(binding, "value"));
    } else if (info(binding.op).has(traits::reshapes)) {
      const auto narrow = narrow_.find(binding.operands[0]);
      if (narrow != narrow_.end()) narrow_.emplace(result, Tensor(narrow->second));
      else if (constant(binding.operands[0]) != nullptr)
        constants_.emplace(result, Tensor(*constant(binding.operands[0])));
    } else if (is_widening(function_, binding) && constant(binding.operands[0]) != nullptr) {
      widened_.emplace(result, binding.operands[0]);
      narrow_.emplace(result, *constant(binding.operands[0]));
    }
  }

  // The value itself is a view from here on, or what is laid out where that is the model's order.
  void define(ValueId value, Laid laid, BindingWriter& writer) {
    if (is_in_place(laid.order)) {
      used_.insert(laid.starts.begin(), laid.starts.end());
      return replacements_.replace(value, laid.value);
    }
    writer.transposed(laid.value, inverse(laid.order), value);
    laid_.emplace(value, std::move(laid));
  }

  std::optional<Laid> lay_out(const Binding& binding, BindingWriter& writer) {
    if (binding.op == Op::matmul) return product(binding, writer);
    if (binding.op == Op::transpose) return transposed(binding);
    if (info(binding.op).has(traits::elementwise) || binding.op == Op::concat)
      return point_by_point(binding, writer);
    if (binding.operands.empty()) return std::nullopt;
    const Laid* x = laid(binding.operands[0]);
    if (x == nullptr) return std::nullopt;
    if (info(binding.op).has(traits::reshapes)) return reshaped(binding, *x, writer);
    if (info(binding.op).has(traits::reduces)) return reduced(binding, *x, writer);
    if (binding.op == Op::windows) return windows(binding, *x, writer);
    if (binding.op == Op::pad || binding.op == Op::strided_slice)
      return Laid{along_axes(binding, *x, writer), x->order, x->starts};
    if (binding.op == Op::resize || binding.op == Op::dyn_resize)
      return resized(binding, *x, writer);
    return std::nullopt;
  }

  // The op over the same axes of what is laid. Lists that go with the axes keep their order.
  ValueId along_axes(const Binding& binding, const Laid& x, BindingWriter& writer) {
    const Axes places = inverse(x.order);
    const auto rank = static_cast<std::int64_t>(places.size());
    std::vector<std::int64_t> axes;
    if (has_attribute(binding, "axes")) {
      axes = integers_attribute(binding, "axes");
    } else {
      // A slice may say less than all.
      axes.resize(binding.op == Op::strided_slice ? integers_attribute(binding, "starts").size()
                                                  : x.order.size());
      std::iota(axes.begin(), axes.end(), 0);
    }
    for (std::int64_t& axis : axes)
      axis = static_cast<std::int64_t>(
          places[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)]);
    Binding moved = binding;
    moved.operands[0] = x.value;
    moved.attributes.insert_or_assign("axes", std::move(axes));
    moved.results = {writer.new_value()};
    const ValueId result = moved.results[0];
    writer.push(std::move(moved));
    return result;
  }

  // Scales and sizes go with the dims.
  Laid resized(const Binding& binding, const Laid& x, BindingWriter& writer) {
    Binding moved = binding;
    moved.operands[1] = vector_in(x.order, binding.operands[1], writer);
    if (binding.op == Op::dyn_resize)
      moved.operands[2] = writer.shape(in_order(dims(binding.results[0]), x.order));
    else
      moved.attributes.insert_or_assign("sizes",
                                        in_order(integers_attribute(binding, "sizes"), x.order));
    return {along_axes(moved, x, writer), x.order, x.starts};
  }

  // A vector of f32 with an element for each dim.
  ValueId vector_in(const Axes& order, ValueId vector, BindingWriter& writer) const {
    const std::vector<std::int64_t> extents{static_cast<std::int64_t>(order.size())};
    if (const Tensor* known = constant(vector); known != nullptr) {
      const Tensor opened = known->opened();
      const auto elements = opened.as<float>();
      return writer.constant(Tensor::of<float>(
          DType::F32, extents, in_order(std::vector(elements.begin(), elements.end()), order)));
    }
    return writer.gathered(vector, writer.constant(Tensor::of<std::int64_t>(
                                       DType::I64, extents, {order.begin(), order.end()})));
  }

  void split(const Binding& binding, std::vector<Binding>& made) {
    const Laid x = *laid(binding.operands[0]);
    BindingWriter writer(function_, made, binding.source,
                         function_.values[binding.operands[0]].name + "_laid");
    Binding moved = binding;
    moved.operands[0] = x.value;
    moved.attributes.insert_or_assign("axis", axis_in(binding, x.order));
    for (ValueId& result : moved.results) result = writer.new_value();
    const std::vector<ValueId> parts = moved.results;
    writer.push(std::move(moved));
    for (std::size_t i = 0; i < parts.size(); ++i)
      define(binding.results[i], {parts[i], x.order, x.starts}, writer);
  }

  // The op's axis over dims in `order`.
  static std::int64_t axis_in(const Binding& binding, const Axes& order) {
    return static_cast<std::int64_t>(inverse(order)[axis_from_front(binding, order.size())]);
  }

  // A window's places stand before what was innermost.
  std::optional<Laid> windows(const Binding& binding, const Laid& x, BindingWriter& writer) {
    used_.insert(x.starts.begin(), x.starts.end());
    const ValueId moved = along_axes(binding, x, writer);
    changed_ = true;
    const std::size_t rank = x.order.size(), all = dims(binding.results[0]).size();
    Axes places = as_given(all), order = x.order;
    std::rotate(places.begin() + static_cast<std::ptrdiff_t>(rank) - 1,
                places.begin() + static_cast<std::ptrdiff_t>(rank), places.end());
    for (std::size_t axis = rank; axis < all; ++axis) order.push_back(axis);
    return Laid{writer.transposed(moved, places), in_order(order, places), x.starts};
  }

  std::optional<Laid> reduced(const Binding& binding, const Laid& x, BindingWriter& writer) {
    used_.insert(x.starts.begin(), x.starts.end());
    if (binding.operands.size() != 1) return std::nullopt;
    if (!has_attribute(binding, "axes")) {
      // Of all elements, in whatever order they lie.
      if (!reduction_op(binding.op)) return std::nullopt;
      return Laid{writer.emit(binding.op, {x.value}, binding.attributes),
                  as_given(dims(binding.results[0]).size()), x.starts};
    }
    const auto rank = static_cast<std::int64_t>(x.order.size());
    std::vector<bool> gone(x.order.size());
    Dim reduced(1);
    for (const std::int64_t given : integers_attribute(binding, "axes")) {
      const auto axis = static_cast<std::size_t>(given < 0 ? given + rank : given);
      gone[axis] = true;
      reduced = reduced * dims(binding.operands[0])[axis];
    }
    const Dim& innermost = dims(binding.operands[0])[x.order.back()];
    const bool few = bounds(innermost, function_.symbols).high <= few_channels;
    const std::int64_t most = bounds(reduced, function_.symbols).high;
    if (!gone[x.order.back()] && most > (few ? most_reduced_of_few : most_reduced) &&
        most < most_known)
      return std::nullopt;
    const ValueId value = along_axes(binding, x, writer);
    if (integer_attribute(binding, "keepdims") != 0) return Laid{value, x.order, x.starts};
    Axes order;
    for (const std::size_t axis : x.order)
      if (!gone[axis])
        order.push_back(axis -
                        static_cast<std::size_t>(std::count(
                            gone.begin(), gone.begin() + static_cast<std::ptrdiff_t>(axis), true)));
    return Laid{value, std::move(order), x.starts};
  }

  std::optional<Laid> transposed(const Binding& binding) const {
    const Axes perm = permutation(binding, dims(binding.results[0]).size());
    if (const Laid* x = laid(binding.operands[0]); x != nullptr) {
      Laid result{x->value, {}, x->starts};
      const Axes places = inverse(perm);
      for (const std::size_t axis : x->order) result.order.push_back(places[axis]);
      return result;
    }
    // From channels last to channels first.
    if (perm.size() < 3 || plain_.contains(binding.results[0]) ||
        constant(binding.operands[0]) != nullptr)
      return std::nullopt;
    Axes first = as_given(perm.size());
    std::rotate(first.begin() + 1, first.end() - 1, first.end());
    if (perm != first) return std::nullopt;
    return Laid{binding.operands[0], inverse(perm), {binding.results[0]}};
  }

  std::optional<Laid> reshaped(const Binding& binding, const Laid& x, BindingWriter& writer) const {
    const Dims &from = dims(binding.operands[0]), &to = dims(binding.results[0]);
    const std::vector<DimGroup> groups = groups_of(from, to);
    std::vector<std::pair<std::size_t, std::size_t>> begins;  // of groups, as they lie
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const auto axes = lie_together(from, x.order, groups[i].from_begin, groups[i].from_end);
      if (!axes || !is_in_place(*axes)) {
        const auto together = put_together(from, x, groups, writer);
        return together ? reshaped(binding, *together, writer) : std::nullopt;
      }
      const auto place = axes->empty() ? x.order.end() : std::ranges::find(x.order, axes->front());
      begins.emplace_back(place - x.order.begin(), i);
    }
    std::ranges::sort(begins);
    Axes order;
    for (const auto& [place, i] : begins)
      for (std::size_t axis = groups[i].to_begin; axis < groups[i].to_end; ++axis)
        order.push_back(axis);
    order = with_ones_placed(to, order);
    return Laid{writer.reshaped(x.value, in_order(to, order)), order, x.starts};
  }

  // The same with what is put together lying together, where channels stay innermost: places that
  // were channels (the phases of a transposed convolution, pixels of a shuffle) move outwards, and
  // channels are still read and written whole.
  std::optional<Laid> put_together(const Dims& dims, const Laid& x,
                                   const std::vector<DimGroup>& groups,
                                   BindingWriter& writer) const {
    const std::size_t channels = x.order.back();
    if (dims[channels].constant().value_or(0) < fewest_channels) return std::nullopt;
    const Axes places = inverse(x.order);
    std::vector<std::pair<std::size_t, const DimGroup*>> begins;
    for (const DimGroup& group : groups) {
      if (group.from_begin == group.from_end) continue;
      Axes longer;
      for (std::size_t axis = group.from_begin; axis < group.from_end; ++axis)
        if (!dims[axis].is_constant(1)) longer.push_back(axis);
      if (longer.size() > 1 && std::ranges::find(longer, channels) != longer.end())
        return std::nullopt;
      std::size_t first = places[group.from_begin];
      for (const std::size_t axis : longer) first = std::min(first, places[axis]);
      begins.emplace_back(longer.empty() ? 0 : first, &group);
    }
    std::ranges::sort(begins);
    Axes order;
    for (const auto& [place, group] : begins)
      for (std::size_t axis = group->from_begin; axis < group->from_end; ++axis)
        order.push_back(axis);
    return Laid{writer.transposed(x.value, in_order(places, order)), order, x.starts};
  }

  // An operand of an op over dims in `order`.
  ValueId in_layout(ValueId operand, const Axes& order, BindingWriter& writer) const {
    if (operand == no_value || dims(operand).empty()) return operand;
    if (const ValueId same = in_order_of(operand, order, writer); same != no_value) return same;
    Dims whole(order.size() - dims(operand).size(), Dim(1));
    whole.insert(whole.end(), dims(operand).begin(), dims(operand).end());
    const Dims ordered = in_order(whole, order);
    const auto longer =
        std::ranges::count_if(whole, [](const Dim& dim) { return !dim.is_constant(1); });
    if (longer <= 1) return writer.reshaped(operand, ordered);
    const auto in_memory = [&](const Tensor& tensor) {
      return writer.constant(
          reordered(tensor, constant_extents(whole), order, constant_extents(ordered)));
    };
    const Tensor* tensor = all_constant(whole) ? constant(operand) : nullptr;
    if (tensor != nullptr) return in_memory(*tensor);
    if (const auto narrow = narrow_.find(operand); narrow != narrow_.end() && all_constant(whole))
      return writer.cast(in_memory(narrow->second), function_.tensor_type(operand).dtype);
    const ValueId same_rank =
        whole.size() == dims(operand).size() ? operand : writer.reshaped(operand, whole);
    return writer.transposed(same_rank, order);
  }

  // The op over operands in the layout of the first that has one and the result's rank.
  std::optional<Laid> point_by_point(const Binding& binding, BindingWriter& writer) {
    const std::size_t rank = dims(binding.results[0]).size();
    Laid result;
    for (const ValueId operand : binding.operands) {
      const Laid* x = operand == no_value ? nullptr : laid(operand);
      if (x == nullptr || x->order.size() != rank) continue;
      if (result.order.empty()) result.order = x->order;
      result.starts.insert(x->starts.begin(), x->starts.end());
    }
    if (result.order.empty()) return std::nullopt;
    Binding moved = binding;
    for (ValueId& operand : moved.operands) operand = in_layout(operand, result.order, writer);
    if (binding.op == Op::concat)
      moved.attributes.insert_or_assign("axis", axis_in(binding, result.order));
    result.value = writer.new_value();
    moved.results = {result.value};
    writer.push(std::move(moved));
    return result;
  }

  // The columns of a product as rows, [..., P, K], and the weight, [M, K] or of groups [G, M, K],
  // with its columns in the order of theirs.
  struct Rows {
    ValueId value = no_value, weight = no_value;
    const Laid* of = nullptr;  // whose layout they go on with; null: what lies in the model's order
    std::int64_t places = 1;   // of a window over that
  };

  // `only_laid`: of what lies in the model's order, nothing.
  std::optional<Rows> rows_of(ValueId columns, ValueId weight, bool only_laid,
                              BindingWriter& writer) const {
    const std::size_t rank = dims(columns).size();
    const Axes rows = last_two_turned(rank);
    if (const ValueId value = in_order_of(columns, rows, writer); value != no_value)
      return Rows{value, weight, laid(columns)};
    if (const Laid* x = laid(columns); x != nullptr && dims(weight).size() > 2)
      return Rows{writer.transposed(x->value, in_order(inverse(x->order), rows)), weight, x};
    const auto reshape = moves_.find(columns);
    if (reshape != moves_.end() && info(reshape->second.op).has(traits::reshapes))
      if (auto found = rows_of_windows(reshape->second, weight, writer)) return found;
    if (only_laid) return std::nullopt;
    // Windows over what lies in the model's order.
    ValueId source = columns;
    std::int64_t places = 1;
    while (laid(source) == nullptr) {
      const auto move = moves_.find(source);
      if (move == moves_.end()) return std::nullopt;
      if (move->second.op == Op::windows) {
        for (const std::int64_t size : integers_attribute(move->second, "sizes")) places *= size;
        break;
      }
      source = move->second.operands[0];
    }
    return Rows{writer.transposed(columns, rows), weight, laid(source), places};
  }

  // What is laid, with dim `axis`, of which it is a multiple, as `groups` of channels, which stand
  // before all dims that follow it in the model.
  static Laid in_groups(Dims& dims, const Laid& x, std::size_t axis, const Dim& groups,
                        BindingWriter& writer) {
    const auto place = dims.begin() + static_cast<std::ptrdiff_t>(axis);
    *place = Dim(*place->constant() / *groups.constant());
    dims.insert(place, groups);
    Axes order;
    for (const std::size_t other : x.order) {
      if (other == axis) order.push_back(axis);
      order.push_back(other < axis ? other : other + 1);
    }
    const ValueId split = writer.reshaped(x.value, in_order(dims, order));
    Axes wanted = order;
    std::erase(wanted, axis);
    wanted.insert(wanted.begin() + static_cast<std::ptrdiff_t>(axis), axis);
    return {writer.transposed(split, in_order(inverse(order), wanted)), wanted, x.starts};
  }

  // The depth is several dims put together, which lie in another order; of a weight [G, M, K], the
  // first of them lies with the groups.
  std::optional<Rows> rows_of_windows(const Binding& reshape, ValueId weight,
                                      BindingWriter& writer) const {
    const ValueId source = reshape.operands[0];
    const Laid* of = laid(source);
    if (of == nullptr) return std::nullopt;
    Dims from = dims(source);
    const Dims& to = dims(reshape.results[0]);
    Laid x = *of;
    std::vector<DimGroup> groups = groups_of(from, to);
    if (const std::size_t leading = dims(weight).size() - 2; leading > 0) {
      if (groups.size() < 2) return std::nullopt;
      const DimGroup& channels = groups[groups.size() - 2];
      const Dim& count = dims(weight)[0];
      if (channels.to_begin != to.size() - 3 || channels.from_begin == channels.from_end ||
          from[channels.from_begin].constant().value_or(1) % *count.constant() != 0)
        return std::nullopt;
      x = in_groups(from, x, channels.from_begin, count, writer);
      groups = groups_of(from, to);
    }
    if (groups.size() < 2 || groups.back().to_begin != to.size() - 1 ||
        groups[groups.size() - 2].to_begin != to.size() - 2)
      return std::nullopt;
    const DimGroup& depth = groups[groups.size() - 2];
    Axes lying;  // of all dims but those of 1, as the rows are to have them
    const auto add = [&](const DimGroup& group) {
      const auto axes = lie_together(from, x.order, group.from_begin, group.from_end);
      if (axes) lying.insert(lying.end(), axes->begin(), axes->end());
      return axes;
    };
    for (const DimGroup& group : groups)
      if (&group != &depth)
        if (const auto axes = add(group); !axes || !is_in_place(*axes)) return std::nullopt;
    const auto inner = add(depth);
    if (!inner || that_lie(from, x.order) != lying) return std::nullopt;
    Rows rows{writer.reshaped(x.value, in_order(to, last_two_turned(to.size()))), weight, of};
    if (is_in_place(*inner)) return rows;
    Dims weight_dims = dims(weight);
    weight_dims.pop_back();
    Axes sorted = *inner, order = as_given(weight_dims.size());
    const std::size_t leading = order.size();
    std::ranges::sort(sorted);
    for (const std::size_t axis : sorted) weight_dims.push_back(from[axis]);
    for (const std::size_t axis : *inner)
      order.push_back(static_cast<std::size_t>(std::ranges::find(sorted, axis) - sorted.begin()) +
                      leading);
    if (!all_constant(weight_dims)) return std::nullopt;
    rows.weight = writer.constant(reordered(*constant(weight), constant_extents(weight_dims), order,
                                            constant_extents(dims(weight))));
    return rows;
  }

  // [M, K] times [..., K, P], or [G, M, K] times [..., G, K, P].
  std::optional<Laid> product(const Binding& binding, BindingWriter& writer) {
    const ValueId columns = binding.operands[1], result = binding.results[0];
    const auto wide = widened_.find(binding.operands[0]);
    const ValueId weight = wide == widened_.end() ? binding.operands[0] : wide->second;
    const std::size_t rank = dims(result).size(), weight_rank = dims(weight).size();
    const bool bytes = wide != widened_.end() && size_of(function_.tensor_type(weight).dtype) == 1;
    if (constant(weight) == nullptr || !(bytes || is_float(function_.tensor_type(result).dtype)) ||
        weight_rank < 2 || weight_rank > 3 || rank <= weight_rank || dims(columns).size() != rank)
      return std::nullopt;
    const bool grouped = weight_rank == 3;
    const std::int64_t outputs = dims(weight)[weight_rank - 2].constant().value_or(0);
    const bool plain = outputs < fewest_channels || plain_.contains(result);
    // Groups that do not lie side by side are read as well where they lie.
    if (grouped && (plain || dims(weight)[0] != dims(columns)[rank - 3])) return std::nullopt;
    const auto rows = rows_of(columns, weight, plain || grouped, writer);
    if (!rows) return std::nullopt;
    changed_ = true;
    // Columns of many places are dear to gather for few outputs; of rows, what windows share is
    // packed once.
    const bool shares = rows->places / 2 > outputs;
    if (rows->of == nullptr && !shares) turned_.insert(result);
    else if (rows->of != nullptr) used_.insert(rows->of->starts.begin(), rows->of->starts.end());
    ValueId right = writer.transposed(rows->weight, last_two_turned(weight_rank));
    if (wide != widened_.end())
      right = writer.cast(right, function_.tensor_type(binding.operands[0]).dtype);
    const ValueId value = writer.emit(Op::matmul, {rows->value, right});
    const Axes order = last_two_turned(rank);
    if (grouped) {
      Axes places_first = as_given(rank);
      std::rotate(places_first.end() - 3, places_first.end() - 1, places_first.end());
      return Laid{
          writer.transposed(value, in_order(inverse(order), places_first)), places_first, {result}};
    }
    if (!plain) return Laid{value, order, {result}};
    // The model's order, in memory too.
    return Laid{writer.transposed(value, order), as_given(rank), {}};
  }

  Function& function_;
  const std::set<ValueId>& plain_;
  Replacements replacements_{function_};
  bool changed_ = false;
  std::map<ValueId, Tensor> constants_;
  std::map<ValueId, ValueId> widened_;  // conversions of constants, and those
  std::map<ValueId, Tensor> narrow_;    // what is converted, in the shape of the key
  std::map<ValueId, Laid> laid_;        // otherwise than in the model's order
  std::map<ValueId, Binding> moves_;    // that are as they were
  // Starts that turn what lies in the model's order, and those whose layout products, windows,
  // reductions or the model itself go on with.
  std::set<ValueId> turned_, used_;
};

bool lay_out(Function& function) {
  std::set<ValueId> plain;
  for (;;) {
    Function attempt = function;
    Layout layout(attempt, plain);
    if (!layout.run()) return false;
    const std::size_t before = plain.size();
    plain.merge(layout.started_in_vain());
    if (plain.size() != before) continue;
    function = std::move(attempt);
    return true;
  }
}

}  // namespace

void channels_last(Module& module, PassContext&) { rewrite_functions(module, lay_out); }

}  // namespace anydim::passes
