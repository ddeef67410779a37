// What depends on constants alone is computed when the module is compiled, in loops and branches
// too: projected tables, normalised weights, sums of biases, sines of positions, sums over the
// weights that a loop multiplies by. PassContext::compute does it.
//
// A value is computed where it takes a product, a reduction or a function such as exp or sin, or
// where it is no larger than the largest constant behind it; views, what fills and what widens
// stays in its kernel, but for views that a loop or branch reads from before it and those of a
// product's operand whose elements no strides tell; and so does what would make the results
// together larger than the constants that the module has. Integers that are made real are computed
// where that takes little, and operands of products that are made of narrower constants at any
// size, but for bytes that products make real themselves. Does nothing without
// PassContext::compute.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <ranges>
#include <vector>

#include "ir/error.h"
#include "ir/shapes/infer.h"
#include "ir/shapes/shape_rules.h"
#include "passes/pass.h"
#include "passes/quantised_values.h"
#include "passes/rewrite.h"
#include "passes/views.h"

namespace anydim::passes {

using namespace ir;

namespace {

// Beyond what the constants take already, so that modules of few and small ones are not denied
// theirs.
constexpr std::int64_t spare_bytes = 1 << 20;
// Integers made real that take no more are read as fast as the integers.
constexpr std::int64_t small_bytes = 1 << 18;

// nullopt: no tensor of known size, or of one that no memory has, which is the run's to report.
std::optional<std::int64_t> bytes_of(const Function& function, ValueId id) {
  const Type& type = function.values[id].type;
  if (!type.is_tensor() || !all_constant(type.tensor.dims)) return std::nullopt;
  constexpr std::int64_t most = std::int64_t{1} << 40;
  std::int64_t bytes = static_cast<std::int64_t>(size_of(type.tensor.dtype));
  for (const std::int64_t extent : constant_extents(type.tensor.dims)) {
    if (extent < 0 || extent > most || __builtin_mul_overflow(bytes, extent, &bytes) ||
        bytes > most)
      return std::nullopt;
  }
  return bytes;
}

// Whether an element takes a series of operations.
bool is_series(Cost cost) {
  switch (cost) {
    case Cost::simple:
    case Cost::division:
    case Cost::remainder:
    case Cost::root: return false;
    case Cost::exponential:
    case Cost::logistic:
    case Cost::tangent:
    case Cost::error_function:
    case Cost::periodic:
    case Cost::power: return true;
  }
  internal_error("an op has one of the costs");
}

// The values of one function that constants alone decide, those of its loops and branches too.
class ConstantPart {
 public:
  explicit ConstantPart(Function& function)
      : function_(function), facts_(function.values.size()), read_inside_(function.values.size()),
        multiplied_(function.values.size()), left_(function.values.size()),
        right_(function.values.size()), defining_(function.values.size()) {
    list(function.body);
    for (const Binding* binding : bindings_) {
      place(*binding);
      if (binding->op == Op::matmul) need(binding->operands, multiplied_);
      for (const Block& block : binding->blocks) {
        need(block.results, read_inside_);
        for (const Binding& inner : block.bindings) need(inner.operands, read_inside_);
      }
    }
    for (const Binding* binding : bindings_)
      for (const Block& block : binding->blocks)
        for (const Binding& inner : block.bindings)
          for (const ValueId result : inner.results) read_inside_[result] = false;
    apart_ = read_inside_;
    for (const Binding* binding : bindings_ | std::views::reverse) {
      for (const ValueId result : binding->results) defining_[result] = binding;
      if (binding->op == Op::matmul)
        left_[binding->operands[0]] = right_[binding->operands[1]] = true;
      if (!is_view(binding->op) && binding->op != Op::cast) continue;
      for (std::vector<bool>* of : {&left_, &right_, &apart_})
        if ((*of)[binding->results[0]]) (*of)[binding->operands[0]] = true;
    }
  }

  // Values worth computing, by position of their bindings.
  std::vector<std::size_t> chosen() {
    std::vector<bool> needed(function_.values.size());
    std::vector<std::size_t> result;
    need(function_.body.results, needed);
    std::int64_t left = constant_bytes_ + spare_bytes;
    for (std::size_t i = bindings_.size(); i-- > 0;) {
      const Binding& binding = *bindings_[i];
      if (belongs(binding)) {
        if (!needed[binding.results[0]]) continue;
        const std::int64_t bytes = facts_[binding.results[0]].bytes;
        const bool at_any_size = is_weight_to_make(binding);
        if (at_any_size || (is_worth_it(binding) && bytes <= left)) {
          if (!at_any_size) left -= bytes;
          result.push_back(i);
          continue;
        }
      }
      need(binding.operands, needed);
      for (const Block& block : binding.blocks) need(block.results, needed);
    }
    std::ranges::reverse(result);
    return result;
  }

  // A module of no parameters whose results are those of the bindings at `positions`.
  Module module_of(const std::vector<std::size_t>& positions) const {
    Module part;
    part.functions.emplace_back();
    Function& main = part.functions.front();
    main.name = "main";
    std::vector<bool> needed(function_.values.size());
    for (const std::size_t position : positions) needed[binding(position).results[0]] = true;
    std::vector<const Binding*> kept;
    for (std::size_t i = positions.back() + 1; i-- > 0;) {
      if (!belongs(*bindings_[i]) || !needed[bindings_[i]->results[0]]) continue;
      kept.push_back(bindings_[i]);
      need(bindings_[i]->operands, needed);
    }
    std::vector<ValueId> ids(function_.values.size(), no_value);
    for (const Binding* binding : kept | std::views::reverse) {
      Binding& copy = main.body.bindings.emplace_back(*binding);
      for (ValueId& operand : copy.operands)
        if (operand != no_value) operand = ids[operand];
      const Value& value = function_.values[binding->results[0]];
      ids[binding->results[0]] = copy.results[0] = main.add_value(value.name, value.type);
    }
    for (const std::size_t position : positions) {
      const ValueId result = binding(position).results[0];
      main.body.results.push_back(ids[result]);
      main.result_names.push_back(main.values[ids[result]].name);
    }
    return part;
  }

  Binding& binding(std::size_t position) const { return *bindings_[position]; }

 private:
  struct Fact {
    bool constant = false;
    std::int64_t bytes = 0;
    bool heavy = false;        // a product, a reduction or a function as exp or sin is behind it
    std::int64_t largest = 0;  // bytes of the largest constant behind it
    bool integral = false;     // a constant of integers is behind it
    bool narrow = false;       // one of less than f32's bytes is
    bool reordered = false;    // views behind it take elements out of their order
    bool merged = false;       // and dims of what they left are one: no strides tell its elements
  };

  // A loop's or branch's own come before it, as what they read does.
  void list(Block& block) {
    for (Binding& binding : block.bindings) {
      for (Block& inner : binding.blocks) list(inner);
      bindings_.push_back(&binding);
    }
  }

  void place(const Binding& binding) {
    const OpInfo& row = info(binding.op);
    const bool fits = binding.blocks.empty() && !row.has(traits::control) &&
                      !row.has(traits::dynamic) && !row.has(traits::opens) &&
                      binding.op != Op::check_shape && binding.op != Op::bind &&
                      binding.results.size() == 1 && all_constant(binding.dims) &&
                      std::ranges::all_of(binding.operands, [&](ValueId operand) {
                        return operand == no_value || facts_[operand].constant;
                      });
    const auto bytes = fits ? bytes_of(function_, binding.results[0]) : std::nullopt;
    if (!bytes) return;
    Fact fact{.constant = true,
              .bytes = *bytes,
              .heavy = row.has(traits::anchors) || row.has(traits::reduces) || is_series(row.cost),
              .largest = 0};
    if (binding.op == Op::constant) {
      fact.largest = *bytes;
      const DType dtype = function_.tensor_type(binding.results[0]).dtype;
      fact.integral = is_integer(dtype);
      fact.narrow = size_of(dtype) < size_of(DType::F32);
      constant_bytes_ += *bytes;
    }
    for (const ValueId operand : binding.operands) {
      if (operand == no_value) continue;
      fact.heavy = fact.heavy || facts_[operand].heavy;
      fact.largest = std::max(fact.largest, facts_[operand].largest);
      fact.integral = fact.integral || facts_[operand].integral;
      fact.narrow = fact.narrow || facts_[operand].narrow;
      fact.reordered = fact.reordered || facts_[operand].reordered;
      fact.merged = fact.merged || facts_[operand].merged;
    }
    const bool reshapes = row.has(traits::reshapes);
    fact.merged = fact.merged || (fact.reordered && reshapes);
    fact.reordered = fact.reordered || (is_view(binding.op) && !reshapes);
    facts_[binding.results[0]] = fact;
  }

  bool belongs(const Binding& binding) const {
    return binding.results.size() == 1 && facts_[binding.results[0]].constant;
  }

  bool is_worth_it(const Binding& binding) const {
    const Fact& fact = facts_[binding.results[0]];
    if (binding.operands.empty() || fact.bytes == 0) return false;
    // A view is part of the kernel that reads it, but for kernels inside a loop or branch that it
    // stands before, and for products, which pack a weight once if strides tell where its elements
    // are.
    const ValueId result = binding.results[0];
    if (is_view(binding.op) && !read_inside_[result] && !(multiplied_[result] && fact.merged))
      return false;
    return fact.heavy || fact.bytes <= fact.largest ||
           (fact.integral && is_real(result) && fact.bytes <= small_bytes);
  }

  bool is_real(ValueId value) const { return is_float(function_.tensor_type(value).dtype); }

  // A product's operand that is computed of narrower constants, which it would read no sooner than
  // it was computed again. On the left, as of convolutions, any: what chooses layouts and other
  // ways to convolve only does so for constants. On the right, but for bytes that the product makes
  // real itself, which one inside a loop or branch cannot.
  bool is_weight_to_make(const Binding& binding) const {
    const ValueId value = binding.results[0];
    const bool apart = apart_[value];
    if (binding.operands.empty() || binding.op == Op::cast || (is_view(binding.op) && !apart) ||
        !facts_[value].narrow || !is_real(value))
      return false;
    return left_[value] || (right_[value] && (apart || !is_of_bytes(binding)));
  }

  // Bytes, which may be less their zero points, made real and scaled (centre_weights).
  bool is_of_bytes(const Binding& binding) const {
    const auto is_byte = [&](ValueId value) {
      const Binding* found = defining_[value];
      return found != nullptr && found->op == Op::cast &&
             size_of(function_.tensor_type(found->operands[0]).dtype) == 1;
    };
    if (binding.op != Op::mul || function_.tensor_type(binding.results[0]).dtype != DType::F32)
      return false;
    return std::ranges::any_of(binding.operands, [&](ValueId operand) {
      if (is_byte(operand)) return true;
      const Binding* real = defining_[operand];
      if (real == nullptr || real->op != Op::cast) return false;
      const Binding* difference = defining_[real->operands[0]];
      return difference != nullptr && difference->op == Op::sub &&
             is_byte(difference->operands[0]) &&
             (is_byte(difference->operands[1]) ||
              is_one_number(function_, difference->operands[1]));
    });
  }

  static void need(const std::vector<ValueId>& values, std::vector<bool>& needed) {
    for (const ValueId value : values)
      if (value != no_value) needed[value] = true;
  }

  const Function& function_;
  std::vector<Binding*> bindings_;
  std::vector<Fact> facts_;               // by value
  std::vector<bool> read_inside_;         // by value: in a loop or branch that it stands before
  std::vector<bool> multiplied_;          // by value: an operand of a product
  std::vector<bool> left_, right_;        // by value: the left or the right one, also behind views
  std::vector<bool> apart_;               // by value: read inside, also behind views
  std::vector<const Binding*> defining_;  // by value
  std::int64_t constant_bytes_ = 0;
};

}  // namespace

void compute_constants(Module& module, PassContext& context) {
  if (!context.compute) return;
  for (Function& function : module.functions) {
    ConstantPart part(function);
    const std::vector<std::size_t> positions = part.chosen();
    if (positions.empty()) continue;
    const std::optional<std::vector<Tensor>> values = context.compute(part.module_of(positions));
    if (!values) continue;
    internal_check(values->size() == positions.size(),
                   "a computed module gives each of its results");
    for (std::size_t i = 0; i < positions.size(); ++i) {
      Binding& binding = part.binding(positions[i]);
      binding = {.op = Op::constant,
                 .results = binding.results,
                 .attributes = {{"value", (*values)[i]}},
                 .source = binding.source};
    }
    drop_dead(function);
  }
}

}  // namespace anydim::passes
