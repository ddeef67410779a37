// Quantised values that stay integers: what only chooses among tensors of 8-bit integers made real
// (max pooling) chooses among the integers, and what is quantised again by the same scale and zero
// point is the integers that it was.
//
// Results are the same numbers. Types must be inferred; they are inferred again.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "passes/binding_writer.h"
#include "passes/pass.h"
#include "passes/quantised_values.h"
#include "passes/rewrite.h"

namespace anydim::passes {

using namespace ir;

namespace {

class FunctionKeeping {
 public:
  explicit FunctionKeeping(Function& function)
      : function_(function), values_(function), replacements_(function),
        reads_(count_reads(function)) {}

  bool run() {
    rewrite_bindings(function_.body, [&](const Binding& binding, std::vector<Binding>& into) {
      if (keep(binding, into)) return true;
      values_.note(binding);
      return false;
    });
    replacements_.apply(function_);
    return changed_;
  }

 private:
  bool keep(const Binding& binding, std::vector<Binding>& into) {
    if (binding.op == Op::reduce_max) return choose_integers(binding, into);
    return binding.op == Op::cast && quantise(binding, into);
  }

  // Integers of one scale and zero point, made real and moved.
  struct Moved {
    std::vector<Binding> moves;  // the last that is done first
    QuantisedValues::Centred made;
    ValueId scale = no_value;
  };

  // `borders`: constant ones are moves too.
  std::optional<Moved> moved(ValueId value, bool borders) const {
    Moved found;
    const auto is_border = [&](const Binding& move) { return borders && move.op == Op::pad; };
    const auto source = values_.before_moves(value, is_border, found.moves);
    const auto real = source ? values_.made_real(*source) : std::nullopt;
    if (!real) return std::nullopt;
    found.made = *values_.centred(real->centred);
    found.scale = real->scale;
    if (!is_one_number(function_, found.scale) ||
        (found.made.zero != no_value && !is_one_number(function_, found.made.zero)))
      return std::nullopt;
    return found;
  }

  bool are_same(ValueId a, ValueId b) const {
    if (a == b) return true;
    const auto number = values_.number(a);
    return number && number == values_.number(b);
  }

  // The moves done to the integers; the last gives `result` where that names a value.
  ValueId done(const Moved& of, ValueId fill, ValueId result, BindingWriter& writer) const {
    ValueId value = of.made.integers;
    for (auto move = of.moves.rbegin(); move != of.moves.rend(); ++move) {
      Binding copy = *move;
      if (copy.op == Op::pad) {
        copy.operands.resize(1);
        copy.operands.push_back(fill);
      }
      const bool last = std::next(move) == of.moves.rend();
      value = writer.again(std::move(copy), value, last ? result : no_value);
    }
    return value;
  }

  // Where the attribute `axes`, all where there is none, names the axis.
  static std::optional<std::size_t> place_of(const Binding& binding, std::size_t axis,
                                             std::size_t rank) {
    if (!has_attribute(binding, "axes")) return axis;
    const auto& axes = integers_attribute(binding, "axes");
    const auto found = std::ranges::find_if(axes, [&](std::int64_t named) {
      return named == static_cast<std::int64_t>(axis) ||
             named + static_cast<std::int64_t>(rank) == static_cast<std::int64_t>(axis);
    });
    if (found == axes.end()) return std::nullopt;
    return static_cast<std::size_t>(found - axes.begin());
  }

  // Whether every window over a border of the least number has an element beside it.
  bool border_is_never_chosen(const std::vector<Binding>& moves) const {
    for (auto move = moves.begin(); move != moves.end(); ++move) {
      if (move->op != Op::pad) continue;
      if (string_attribute(*move, "mode") != "constant" || move->operands.size() < 2 ||
          values_.number(move->operands[1]) != -std::numeric_limits<double>::infinity() ||
          move == moves.begin() || std::prev(move)->op != Op::windows)
        return false;
      const Binding& windows = *std::prev(move);
      const std::vector<Dim>& dims = function_.tensor_type(move->operands[0]).dims;
      const auto& before = integers_attribute(*move, "before");
      const auto& after = integers_attribute(*move, "after");
      const auto& sizes = integers_attribute(windows, "sizes");
      const auto dilations = integers_or_ones(windows, "dilations", sizes.size());
      for (std::size_t axis = 0; axis < dims.size(); ++axis) {
        const auto at = place_of(*move, axis, dims.size());
        if (!at || (before[*at] == 0 && after[*at] == 0)) continue;
        const auto slid = place_of(windows, axis, dims.size());
        if (!slid || dilations[*slid] != 1) return false;
        const std::int64_t size = sizes[*slid];
        const bool some = bounds(dims[axis], function_.symbols).low >= 1;
        if (before[*at] < 0 || after[*at] < 0 || before[*at] >= size || after[*at] >= size ||
            (!some && before[*at] >= size - after[*at]))
          return false;
      }
    }
    return true;
  }

  // A largest element of real numbers is that of the largest integer, as its scale is above 0.
  bool choose_integers(const Binding& largest, std::vector<Binding>& into) {
    const auto from = moved(largest.operands[0], true);
    if (!from) return false;
    const auto scale = values_.number(from->scale);
    if (!scale || !(*scale > 0) || !std::isfinite(*scale) || !border_is_never_chosen(from->moves))
      return false;
    BindingWriter writer(function_, into, largest.source,
                         function_.values[largest.results[0]].name);
    const ValueId lowest =
        writer.number(from->made.dtype, from->made.dtype == DType::U8 ? 0 : -128);
    const std::vector<Dim> dims = function_.tensor_type(largest.results[0]).dims;
    // Of a type, as what is made of the result reads how it is made.
    const auto emit = [&](Op op, std::vector<ValueId> operands, const Attributes& attributes,
                          DType dtype, ValueId result = no_value) {
      if (result == no_value) {
        result = writer.new_value();
        function_.values[result].type = TensorType{dtype, dims};
      }
      Binding binding{.op = op,
                      .operands = std::move(operands),
                      .results = {result},
                      .attributes = attributes,
                      .source = largest.source};
      values_.note(binding);
      writer.push(std::move(binding));
      return result;
    };
    ValueId value = emit(Op::reduce_max, {done(*from, lowest, no_value, writer)},
                         largest.attributes, from->made.dtype);
    value = emit(Op::cast, {value}, {{"to", DType::I32}}, DType::I32);
    if (from->made.zero != no_value)
      value = emit(Op::sub, {value, from->made.zero}, {}, DType::I32);
    value = emit(Op::cast, {value}, {{"to", DType::F32}}, DType::F32);
    emit(Op::mul, {value, from->scale}, {}, DType::F32, largest.results[0]);
    changed_ = true;
    return true;
  }

  // x / scale, rounded, and the zero point where there is one, as 8 bits.
  struct Quantisation {
    ValueId x = no_value, scale = no_value;
    ValueId zero = no_value;  // f32
    DType to{};
  };
  std::optional<Quantisation> quantisation(const Binding& rounded) const {
    Quantisation found{.to = function_.tensor_type(rounded.results[0]).dtype};
    if (found.to != DType::U8 && found.to != DType::I8) return std::nullopt;
    ValueId value = rounded.operands[0];
    if (const Binding* shifted = values_.definition(value, Op::add)) {
      value = shifted->operands[0];
      found.zero = shifted->operands[1];
    }
    const Binding* round = values_.definition(value, Op::round);
    const Binding* scaled =
        round == nullptr ? nullptr : values_.definition(round->operands[0], Op::div);
    if (scaled == nullptr) return std::nullopt;
    found.x = scaled->operands[0];
    found.scale = scaled->operands[1];
    if (!is_one_number(function_, found.scale) ||
        (found.zero != no_value && !is_one_number(function_, found.zero)) ||
        function_.tensor_type(rounded.results[0]).dims != function_.tensor_type(found.x).dims)
      return std::nullopt;
    return found;
  }

  // What is quantised as it was, moved, is the integers that it was; parts that are concatenated
  // are quantised before that, each in the kernel that computes it.
  bool quantise(const Binding& rounded, std::vector<Binding>& into) {
    const auto found = quantisation(rounded);
    if (!found) return false;
    BindingWriter writer(function_, into, rounded.source,
                         function_.values[rounded.results[0]].name);
    if (const auto from = quantised_before(*found)) {
      if (from->moves.empty()) replacements_.replace(rounded.results[0], from->made.integers);
      else done(*from, no_value, rounded.results[0], writer);
      return changed_ = true;
    }
    const Binding* parts = values_.definition(found->x, Op::concat);
    if (parts == nullptr || reads_[found->x] != 1) return false;
    Binding joined = *parts;
    for (ValueId& part : joined.operands) part = quantised_part(part, *found, writer);
    joined.results = rounded.results;
    writer.push(std::move(joined));
    return changed_ = true;
  }

  ValueId quantised_part(ValueId part, Quantisation as, BindingWriter& writer) const {
    as.x = part;
    if (const auto from = quantised_before(as); from && from->moves.empty())
      return from->made.integers;
    ValueId value = writer.emit(Op::round, {writer.emit(Op::div, {part, as.scale})});
    if (as.zero != no_value) value = writer.emit(Op::add, {value, as.zero});
    return writer.cast(value, as.to);
  }

  // The integers that x was made real of, moved, where it is quantised as they were.
  std::optional<Moved> quantised_before(const Quantisation& now) const {
    auto from = moved(now.x, false);
    if (!from || from->made.dtype != now.to || !are_same(from->scale, now.scale) ||
        !is_same_zero(from->made.zero, now.zero))
      return std::nullopt;
    // x / scale is the integer but for two roundings, unless one of them has no normal number.
    const auto scale = values_.number(from->scale);
    if (!scale || !std::isnormal(static_cast<float>(*scale)) ||
        !std::isnormal(static_cast<float>(*scale * 255)))
      return std::nullopt;
    return from;
  }

  // A zero point that is subtracted, i32, and one that is added, f32.
  bool is_same_zero(ValueId subtracted, ValueId added) const {
    const auto number = [&](ValueId zero) {
      return zero == no_value ? std::optional<double>(0) : values_.number(zero);
    };
    return number(subtracted) && number(subtracted) == number(added);
  }

  Function& function_;
  QuantisedValues values_;
  Replacements replacements_;
  std::vector<std::size_t> reads_;  // by value, of those that were there
  bool changed_ = false;
};

}  // namespace

void keep_quantised(Module& module, PassContext&) {
  rewrite_functions(module, [](Function& function) { return FunctionKeeping(function).run(); });
}

}  // namespace anydim::passes
