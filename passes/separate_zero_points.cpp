// Products of 8-bit integers less their zero points, as products of the integers themselves and
// terms of the result:
//
//   sum over k of (a - x)(b - y)  =  sum of a b  -  x (sum of (b - y))  -  y (sum of a)
//
// (Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient
// Integer-Arithmetic-Only Inference", section 2.3.) All three sums are in i32, which wraps, so that
// the results are the same integers. The left operand becomes u8 and the right one i8, by an offset
// of 128 where they are not: the pair that processors multiply. Sums over weights are constants.
// Products of integers that are made real first, (a - x) s by (b - y) t, become (sum of (a - x)(b -
// y)) s t, which rounds less.
// A convolution's weight on the left becomes i8 and its image u8, whose borders are the zero point:
// channels_last exchanges the operands, and zeros around (b - y) are y around b.
//
// Leaves alone what has zero points that vary along the depth, and operands of rank 1. Types must
// be inferred; they are inferred again.
#include <algorithm>
#include <optional>
#include <vector>

#include "ir/expand.h"
#include "passes/binding_writer.h"
#include "passes/pass.h"
#include "passes/quantised_values.h"
#include "passes/rewrite.h"

namespace anydim::passes {

using namespace ir;

namespace {

constexpr std::int64_t offset = 128;  // between u8 and i8
// A sum of more terms may not fit i32.
constexpr std::int64_t most_terms = (std::int64_t{1} << 31) / (255 * 255) - 1;

using Centred = QuantisedValues::Centred;

// What an operand has with more channels: its dims, and how many are added behind those of axis 1
// of its integers.
struct MoreChannels {
  std::vector<Dim> dims;  // empty: there are no more
  std::int64_t added = 0;
};

// A weight [M, C, ...] with channels of zeros behind its own.
Tensor with_more_channels(const Tensor& weight, std::int64_t added) {
  std::vector<std::int64_t> dims = weight.dims();
  const std::int64_t rows = dims[0], width = weight.elements() / rows,
                     wider = width / dims[1] * (dims[1] + added);
  dims[1] += added;
  Tensor result(weight.dtype(), dims);
  const Tensor opened = weight.opened();
  const auto from = opened.bytes();
  const auto to = result.mutable_bytes();
  for (std::int64_t row = 0; row < rows; ++row)
    std::ranges::copy(
        from.subspan(static_cast<std::size_t>(row * width), static_cast<std::size_t>(width)),
        to.begin() + row * wider);
  return result;
}

bool is_pad(Op op) { return op == Op::pad || op == Op::dyn_pad; }
bool is_window(const Binding& binding) {
  return binding.op == Op::windows || binding.op == Op::dyn_windows;
}

class FunctionSeparation {
 public:
  explicit FunctionSeparation(Function& function) : function_(function), values_(function) {}

  bool run() {
    rewrite_bindings(function_.body, [&](Binding& binding, std::vector<Binding>& into) {
      values_.note(binding);
      return separate(binding, into);
    });
    return changed_;
  }

 private:
  // Whether the zero point is one number along the axis, counted from the end.
  bool is_same_along(ValueId zero, std::size_t from_end) const {
    if (zero == no_value) return true;
    const std::vector<Dim>& dims = function_.tensor_type(zero).dims;
    return dims.size() < from_end || dims[dims.size() - from_end].is_constant(1);
  }

  bool is_without_zero(const Centred& operand) const {
    return operand.zero == no_value || values_.number(operand.zero) == 0;
  }

  // The operand as integers of `to`, the other 8-bit dtype, `by` more than they were.
  void shift(BindingWriter& writer, Centred& operand, DType to, std::int64_t by) const {
    if (operand.dtype == to) {
      if (is_without_zero(operand)) operand.zero = no_value;
      return;
    }
    const ValueId number = writer.number(DType::I32, static_cast<double>(by));
    operand.integers = writer.cast(writer.emit(Op::add, {operand.wide, number}), to);
    operand.wide = writer.cast(operand.integers, DType::I32);
    if (operand.zero == no_value) operand.zero = number;
    else if (values_.number(operand.zero) == -by) operand.zero = no_value;
    else operand.zero = writer.emit(Op::add, {operand.zero, number});
  }

  static void scale_sums(BindingWriter& writer, ValueId sums, ValueId left, ValueId right,
                         ValueId result) {
    const ValueId scale = writer.emit(Op::mul, {left, right});
    writer.emit(Op::mul, {sums, scale}, {}, result);
  }

  // A binding of which operands are made, with its type.
  ValueId define(Binding binding, DType dtype, std::vector<Dim> dims, std::vector<Binding>& into) {
    const ValueId value = function_.add_value(
        function_.values[binding.operands[0]].name + "_turned", TensorType{dtype, std::move(dims)});
    binding.results = {value};
    values_.note(binding);
    into.push_back(std::move(binding));
    return value;
  }

  // A real operand behind a transpose as one that is made of turned integers; the value itself
  // where it is none.
  ValueId turned_before_real(ValueId value, std::vector<Binding>& into) {
    const Binding* found = values_.definition(value, Op::transpose);
    if (found == nullptr) return value;
    const Binding turn = *found;
    const auto real = values_.made_real(turn.operands[0]);
    if (!real) return value;
    const Centred made = *values_.centred(real->centred);
    const std::size_t rank = function_.tensor_type(value).rank();
    for (const ValueId parameter : {made.zero, real->scale})
      if (parameter != no_value && function_.tensor_type(parameter).rank() != rank &&
          function_.tensor_type(parameter).rank() != 0)
        return value;
    const auto turned = [&](ValueId of) {
      const TensorType type = function_.tensor_type(of);
      if (type.rank() == 0) return of;
      std::vector<Dim> dims;
      for (const std::int64_t axis : integers_attribute(turn, "perm"))
        dims.push_back(type.dims[static_cast<std::size_t>(axis)]);
      Binding copy = turn;
      copy.operands = {of};
      return define(std::move(copy), type.dtype, std::move(dims), into);
    };
    const std::vector<Dim> dims = function_.tensor_type(value).dims;
    const auto emit = [&](Op op, std::vector<ValueId> operands, Attributes attributes,
                          DType dtype) {
      return define({.op = op,
                     .operands = std::move(operands),
                     .attributes = std::move(attributes),
                     .source = turn.source},
                    dtype, dims, into);
    };
    ValueId integers = emit(Op::cast, {turned(made.integers)}, {{"to", DType::I32}}, DType::I32);
    if (made.zero != no_value)
      integers = emit(Op::sub, {integers, turned(made.zero)}, {}, DType::I32);
    const ValueId exact = emit(Op::cast, {integers}, {{"to", DType::F32}}, DType::F32);
    return emit(Op::mul, {exact, turned(real->scale)}, {}, DType::F32);
  }

  // A product of real operands as one of integers, times both scales; sums must fit i32.
  bool make_integer(Binding product, std::vector<Binding>& into) {
    if (bounds(function_.tensor_type(product.operands[0]).dims.back(), function_.symbols).high >
        most_terms)
      return false;
    const auto left = values_.made_real(product.operands[0]);
    if (!left || !is_same_along(left->scale, 1)) return false;
    product.operands[1] = turned_before_real(product.operands[1], into);
    const auto right = values_.made_real(product.operands[1]);
    if (!right || !is_same_along(right->scale, 2)) return false;
    BindingWriter writer(function_, into, product.source,
                         function_.values[product.results[0]].name);
    Binding integers{
        .op = Op::matmul, .operands = {left->centred, right->centred}, .source = product.source};
    integers.results = {writer.new_value()};
    const ValueId sums = integers.results[0];
    if (!separate(integers, into)) writer.push(std::move(integers));
    scale_sums(writer, writer.cast(sums, DType::F32), left->scale, right->scale,
               product.results[0]);
    changed_ = true;
    return true;
  }

  // An operand that views and borders of zeros make of 8-bit integers less a zero point, times a
  // scale where it is real.
  struct Moved {
    std::vector<Binding> moves;  // the last that is done first
    Centred centred;
    ValueId scale = no_value;
  };
  std::optional<Moved> moved(ValueId value) const {
    Moved found;
    const auto is_zero_border = [&](const Binding& move) {
      return is_pad(move.op) && (move.operands.size() < 2 || move.operands[1] == no_value ||
                                 values_.number(move.operands[1]) == 0);
    };
    const auto source = values_.before_moves(value, is_zero_border, found.moves);
    if (!source) return std::nullopt;
    const auto real = values_.made_real(*source);
    if (real) found.scale = real->scale;
    const auto centre = values_.centred(real ? real->centred : *source);
    if (!centre) return std::nullopt;
    found.centred = *centre;
    return found;
  }

  // Whether the zero point is one of the numbers that the integers may be.
  bool is_among_them(const Centred& operand) const {
    if (operand.zero == no_value) return true;
    const Binding* found = values_.definition(operand.zero);
    if (found == nullptr) return false;
    if (found->op == Op::cast)
      return function_.tensor_type(found->operands[0]).dtype == operand.dtype;
    if (found->op != Op::constant) return false;
    const Tensor& tensor = tensor_attribute(*found, "value");
    const std::int64_t least = operand.dtype == DType::U8 ? 0 : -offset;
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      if (tensor.integer_at(i) < least || tensor.integer_at(i) > least + 255) return false;
    return true;
  }

  // The number that all elements share; nullopt where they may differ.
  std::optional<ValueId> shared(ValueId parameter, BindingWriter& writer) const {
    if (parameter == no_value) return parameter;
    if (!is_one_number(function_, parameter)) return std::nullopt;
    return function_.tensor_type(parameter).rank() == 0 ? parameter
                                                        : writer.reshaped(parameter, {});
  }

  // One number for each row of a weight, [M, 1], or for all; nullopt where others differ.
  std::optional<ValueId> by_rows(ValueId parameter, const Dim& rows, BindingWriter& writer) const {
    if (const auto all = shared(parameter, writer)) return all;
    const std::vector<Dim>& dims = function_.tensor_type(parameter).dims;
    for (std::size_t i = 0; i < dims.size(); ++i)
      if (!(dims[i] == (i == 0 ? rows : Dim(1)))) return std::nullopt;
    return writer.reshaped(parameter, {rows, Dim(1)});
  }

  // The operand with its borders and views around the integers themselves, as `to`; what lies
  // behind a border is the zero point then.
  Centred made_first(const Moved& operand, ValueId zero, DType to, DType computed,
                     BindingWriter& writer, const MoreChannels& more = {}) const {
    Centred first = operand.centred;
    first.zero = zero;
    shift(writer, first, to, to == DType::U8 ? offset : -offset);
    zero = first.zero;
    ValueId value = first.integers;
    if (more.added > 0) {
      std::vector<ValueId> operands{value};
      if (zero != no_value) operands.push_back(writer.cast(zero, to));
      value = writer.emit(Op::pad, std::move(operands),
                          {{"before", std::vector<std::int64_t>{0}},
                           {"after", std::vector<std::int64_t>{more.added}},
                           {"axes", std::vector<std::int64_t>{1}}});
    }
    // Windows are of the widened image, as those of other convolutions are of theirs.
    Centred made{.integers = no_value, .wide = no_value, .zero = zero, .dtype = to};
    if (zero != no_value) made.zero = writer.cast(zero, computed);
    std::vector<Binding> moves(operand.moves.rbegin(), operand.moves.rend());
    const auto behind_borders = std::find_if(moves.rbegin(), moves.rend(), [](const Binding& move) {
                                  return is_pad(move.op);
                                }).base();
    const auto widened = std::find_if(behind_borders, moves.end(), is_window);
    for (auto move = moves.begin(); move != moves.end(); ++move) {
      if (move == widened) made.wide = value = writer.cast(value, computed);
      if (!more.dims.empty() && std::next(move) == moves.end()) {
        value = writer.reshaped(value, more.dims);
        break;
      }
      if (is_pad(move->op) && zero != no_value) {
        move->operands.resize(std::max<std::size_t>(move->operands.size(), 2), no_value);
        move->operands[1] = writer.cast(zero, to);
      }
      value = writer.again(std::move(*move), value);
    }
    made.wide = made.wide == no_value ? writer.cast(value, computed) : value;
    return made;
  }

  // Whether the image [N, C, ...] becomes [N, K, P] by windows, with C outermost in K.
  bool keeps_channels_outermost(const Moved& image, const Dim& channels) const {
    const std::vector<Dim>& dims = function_.tensor_type(image.centred.integers).dims;
    if (image.moves.size() < 2 || dims.size() < 3 || !(dims[1] == channels)) return false;
    const Binding& last = image.moves.front();
    return info(last.op).has(traits::reshapes) &&
           function_.tensor_type(last.results[0]).rank() == 3 &&
           function_.tensor_type(last.results[0]).dims[0] == dims[0] &&
           std::all_of(image.moves.begin() + 1, image.moves.end(), [&](const Binding& move) {
             if (move.op == Op::transpose)
               return integers_attribute(move, "perm")[0] == 0 &&
                      integers_attribute(move, "perm")[1] == 1;
             const std::size_t from = function_.tensor_type(move.operands[0]).rank();
             return (move.op == Op::pad || move.op == Op::windows) &&
                    std::ranges::all_of(normalised_axes(move, from),
                                        [](std::size_t axis) { return axis >= 2; });
           });
  }

  // [N, 1, P], the sums of the columns of an image [N, K, P] less its zero point, as `computed`:
  // of its channels first, which all windows over a place share. no_value where K is none of
  // channels and windows.
  ValueId sums_of_windows(const Moved& image, ValueId zero, std::vector<Dim> dims, DType computed,
                          BindingWriter& writer) const {
    const Dim& channels = function_.tensor_type(image.centred.integers).dims[1];
    const std::int64_t count = channels.constant().value_or(0),
                       depth = dims[1].constant().value_or(0);
    if (count == 0 || depth % count != 0 || !std::ranges::any_of(image.moves, is_window) ||
        !keeps_channels_outermost(image, channels))
      return no_value;
    ValueId value = image.centred.wide;
    if (zero != no_value) value = writer.emit(Op::sub, {value, zero});
    value = writer.emit(Op::reduce_sum, {value},
                        {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", std::int64_t{1}}});
    for (std::size_t i = image.moves.size(); i-- > 1;) {
      Binding move = image.moves[i];
      // Borders are of zeros.
      move.operands.resize(1);
      value = writer.again(std::move(move), value);
    }
    dims[1] = Dim(depth / count);
    value = writer.emit(Op::reduce_sum, {writer.reshaped(value, std::move(dims))},
                        {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", std::int64_t{1}}});
    return computed == DType::I32 ? value : writer.cast(value, computed);
  }

  // A product of a weight [M, K] and an image [..., K, P], in i32 or of real numbers: a
  // convolution. The weight becomes i8 and the image u8, as processors multiply them once the
  // image's rows stand on the left (channels_last).
  bool make_integer_convolution(const Binding& product, std::vector<Binding>& into) {
    auto weight = moved(product.operands[0]);
    const auto image = moved(product.operands[1]);
    if (!weight || !image || (weight->scale == no_value) != (image->scale == no_value))
      return false;
    const std::vector<Dim> rows = function_.tensor_type(product.operands[0]).dims;
    const std::size_t rank = function_.tensor_type(product.operands[1]).rank();
    if (rows.size() != 2 || rank < 3 || !is_among_them(weight->centred) ||
        !is_among_them(image->centred) ||
        std::ranges::any_of(
            weight->moves,
            [](const Binding& move) { return !info(move.op).has(traits::reshapes); }) ||
        !(function_.tensor_type(weight->centred.integers).dims[0] == rows[0]) ||
        bounds(rows[1], function_.symbols).high > most_terms)
      return false;
    std::vector<Binding> made;
    BindingWriter writer(function_, made, product.source,
                         function_.values[product.results[0]].name);
    // Four neighbours in the depth are multiplied at once, which of windows have to be channels:
    // there are more of them, or sums are f32's, exact where the model's are integers.
    constexpr std::int64_t exact_terms = (std::int64_t{1} << 24) / (255 * 255);
    const bool real = image->scale != no_value;
    const Dim channels = function_.tensor_type(weight->centred.integers).dims[1];
    const std::int64_t count = channels.constant().value_or(0), missing = (4 - count % 4) % 4;
    MoreChannels of_weight, of_image;
    DType computed = DType::I32;
    if (std::ranges::any_of(image->moves, is_window) &&
        divisor(channels, function_.symbols) % 4 != 0) {
      const Binding* stored = values_.definition(weight->centred.integers, Op::constant);
      if (count > 1 && stored != nullptr && tensor_attribute(*stored, "value").elements() > 0 &&
          weight->moves.size() == 1 && keeps_channels_outermost(*image, channels)) {
        // The image's are its zero point, so that nothing comes of the weight's.
        const Tensor wider = with_more_channels(tensor_attribute(*stored, "value"), missing);
        const Dim depth(wider.elements() / wider.dims()[0]);
        weight->centred.integers = writer.constant(wider);
        weight->centred.wide = writer.cast(weight->centred.integers, DType::I32);
        of_weight.dims = {rows[0], depth};
        of_image = {function_.tensor_type(product.operands[1]).dims, missing};
        of_image.dims[1] = depth;
      } else if (real || bounds(rows[1], function_.symbols).high <= exact_terms) {
        computed = DType::F32;
      }
    }
    const auto weight_zero = by_rows(weight->centred.zero, rows[0], writer),
               weight_scale = by_rows(weight->scale, rows[0], writer),
               image_zero = shared(image->centred.zero, writer),
               image_scale = shared(image->scale, writer);
    if (!weight_zero || !weight_scale || !image_zero || !image_scale) return false;
    const Centred left = made_first(*weight, *weight_zero, DType::I8, computed, writer, of_weight),
                  right = made_first(*image, *image_zero, DType::U8, computed, writer, of_image);
    const ValueId result = product.results[0];
    const bool sums_are_result = !real && computed == DType::I32;
    const ValueId columns =
        left.zero == no_value
            ? no_value
            : sums_of_windows(*image, *image_zero, function_.tensor_type(product.operands[1]).dims,
                              computed, writer);
    const ValueId sums =
        multiply(writer, left, right, rank, sums_are_result ? result : no_value, columns);
    if (real)
      scale_sums(writer, computed == DType::F32 ? sums : writer.cast(sums, DType::F32),
                 *weight_scale, *image_scale, result);
    else if (!sums_are_result) writer.emit(Op::cast, {sums}, {{"to", DType::I32}}, result);
    for (Binding& binding : made) into.push_back(std::move(binding));
    changed_ = true;
    return true;
  }

  // The moves of the weight, done to a parameter of its channels; nullopt where that is no matter
  // of dims of 1.
  std::optional<ValueId> moved_with(const Moved& weight, ValueId parameter,
                                    BindingWriter& writer) const {
    if (const auto all = shared(parameter, writer)) return all;
    if (function_.tensor_type(parameter).rank() !=
        function_.tensor_type(weight.centred.integers).rank())
      return std::nullopt;
    for (auto move = weight.moves.rbegin(); move != weight.moves.rend(); ++move) {
      if (move->op != Op::expand_dims) return std::nullopt;
      parameter = writer.emit(Op::expand_dims, {parameter}, move->attributes);
    }
    return parameter;
  }

  // A sum over windows of real numbers, each times a weight: a convolution of channels each by
  // itself (depthwise). Sums must fit i32.
  bool make_integer_windows(const Binding& sum, std::vector<Binding>& into) {
    const Binding* products = values_.definition(sum.operands[0], Op::mul);
    if (products == nullptr) return false;
    for (const std::size_t side : {0U, 1U}) {
      const auto image = moved(products->operands[side]),
                 weight = moved(products->operands[1 - side]);
      if (!image || !weight || image->scale == no_value || weight->scale == no_value ||
          !is_without_zero(weight->centred) || !is_among_them(image->centred) ||
          !std::ranges::any_of(image->moves, is_window))
        continue;
      const std::vector<Dim> all = function_.tensor_type(products->results[0]).dims;
      const std::vector<Dim> of_weight = function_.tensor_type(products->operands[1 - side]).dims;
      const std::vector<std::size_t> axes = normalised_axes(sum, all.size());
      Dim terms(1);
      for (const std::size_t axis : axes) terms = terms * all[axis];
      if (bounds(terms, function_.symbols).high > most_terms) continue;
      // What is summed of the weight is all that its windows multiply.
      const std::size_t missing = all.size() - of_weight.size();
      if (!std::ranges::all_of(axes, [&](std::size_t axis) {
            return axis >= missing && of_weight[axis - missing] == all[axis];
          }))
        continue;
      std::vector<Binding> made;
      BindingWriter writer(function_, made, sum.source, function_.values[sum.results[0]].name);
      const auto image_zero = shared(image->centred.zero, writer),
                 image_scale = shared(image->scale, writer),
                 weight_scale = moved_with(*weight, weight->scale, writer);
      if (!image_zero || !image_scale || !weight_scale) continue;
      const Centred integers =
                        made_first(*image, *image_zero, image->centred.dtype, DType::I32, writer),
                    factors =
                        made_first(*weight, no_value, weight->centred.dtype, DType::I32, writer);
      const std::int64_t keep = integer_attribute(sum, "keepdims");
      std::vector<std::int64_t> from_end;
      for (const std::size_t axis : axes)
        from_end.push_back(static_cast<std::int64_t>(axis) - static_cast<std::int64_t>(all.size()));
      const Attributes summed{{"axes", from_end}, {"keepdims", keep}};
      ValueId sums = writer.emit(Op::reduce_sum,
                                 {writer.emit(Op::mul, {integers.wide, factors.wide})}, summed);
      if (integers.zero != no_value) {
        const ValueId of_factors = writer.emit(Op::reduce_sum, {factors.wide}, summed);
        sums = writer.emit(Op::sub, {sums, writer.emit(Op::mul, {integers.zero, of_factors})});
      }
      ValueId scale = *weight_scale;
      if (!is_one_number(function_, weight->scale) && keep == 0)
        scale = writer.emit(Op::squeeze, {scale}, {{"axes", from_end}});
      scale_sums(writer, writer.cast(sums, DType::F32), *image_scale, scale, sum.results[0]);
      for (Binding& binding : made) into.push_back(std::move(binding));
      changed_ = true;
      return true;
    }
    return false;
  }

  bool separate(const Binding& product, std::vector<Binding>& into) {
    if (product.op == Op::reduce_sum) return make_integer_windows(product, into);
    if (product.op != Op::matmul) return false;
    if (make_integer_convolution(product, into) || make_integer(product, into)) return true;
    std::optional<Centred> left = values_.centred(product.operands[0]),
                           right = values_.centred(product.operands[1]);
    if (!left || !right || !is_same_along(left->zero, 1) || !is_same_along(right->zero, 2))
      return false;
    const bool plain = left->zero == no_value && right->zero == no_value;
    if (plain && left->dtype == DType::U8 && right->dtype == DType::I8) return false;
    changed_ = true;
    const std::size_t right_rank = function_.tensor_type(product.operands[1]).rank();
    BindingWriter writer(function_, into, product.source,
                         function_.values[product.results[0]].name);
    shift(writer, *left, DType::U8, offset);
    shift(writer, *right, DType::I8, -offset);
    multiply(writer, *left, *right, right_rank, product.results[0]);
    return true;
  }

  // The product of both less their zero points, which is `result` where that names a value.
  // `columns`: the sums of the right operand's columns, less its zero points, where they are known.
  static ValueId multiply(BindingWriter& writer, const Centred& left, const Centred& right,
                          std::size_t right_rank, ValueId result, ValueId columns = no_value) {
    std::vector<ValueId> terms;
    if (left.zero != no_value) {
      if (columns == no_value) {
        const ValueId distances =
            right.zero == no_value ? right.wide : writer.emit(Op::sub, {right.wide, right.zero});
        // a vector of columns says all of one matrix
        const std::int64_t keep = right_rank > 2 ? 1 : 0;
        columns = writer.emit(Op::reduce_sum, {distances},
                              {{"axes", std::vector<std::int64_t>{-2}}, {"keepdims", keep}});
      }
      terms.push_back(writer.emit(Op::mul, {left.zero, columns}));
    }
    if (right.zero != no_value) {
      const ValueId sums =
          writer.emit(Op::reduce_sum, {left.wide},
                      {{"axes", std::vector<std::int64_t>{-1}}, {"keepdims", std::int64_t{1}}});
      terms.push_back(writer.emit(Op::mul, {sums, right.zero}));
    }
    ValueId value =
        writer.emit(Op::matmul, {left.wide, right.wide}, {}, terms.empty() ? result : no_value);
    for (std::size_t i = 0; i < terms.size(); ++i)
      value =
          writer.emit(Op::sub, {value, terms[i]}, {}, i + 1 == terms.size() ? result : no_value);
    return value;
  }

  Function& function_;
  QuantisedValues values_;
  bool changed_ = false;
};

}  // namespace

void separate_zero_points(Module& module, PassContext&) {
  rewrite_functions(module, [](Function& function) { return FunctionSeparation(function).run(); });
}

}  // namespace anydim::passes
