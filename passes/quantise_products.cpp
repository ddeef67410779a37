#include "passes/quantise_products.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <ranges>
#include <vector>

#include "ir/loops/scalar_access.h"
#include "passes/binding_writer.h"
#include "passes/views.h"

namespace anydim::passes {

using namespace ir;

namespace {

// Smaller matrices are multiplied before their rows' ranges are found.
constexpr std::int64_t fewest_elements = 4096, fewest_terms = 16;
// Sums of more terms might leave i32.
constexpr std::int64_t most_terms = (std::int64_t{1} << 31) / (255 * 127) - 1;
constexpr double largest_weight = 127, largest_row = 255;

struct Matrix {
  Tensor integers;  // i8, as the weight lies
  Tensor scales;    // f32, of each column
  Tensor sums;      // i32, of each column's integers
};

// `weight`: rows x width. `transposed`: columns of the product lie along the first dim.
Matrix quantised(const Tensor& weight, std::int64_t rows, std::int64_t width, bool transposed) {
  const std::int64_t columns = transposed ? rows : width;
  Matrix result{Tensor(DType::I8, {rows, width}), Tensor(DType::F32, {columns}),
                Tensor(DType::I32, {columns})};
  const auto from = weight.as<float>();
  const auto integers = result.integers.mutable_as<std::int8_t>();
  const auto scales = result.scales.mutable_as<float>();
  const auto sums = result.sums.mutable_as<std::int32_t>();
  const auto column_of = [&](std::int64_t row, std::int64_t at) {
    return static_cast<std::size_t>(transposed ? row : at);
  };
  std::vector<float> largest(static_cast<std::size_t>(columns), 0);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t at = 0; at < width; ++at) {
      float& most = largest[column_of(row, at)];
      most = std::max(most, std::abs(from[static_cast<std::size_t>(row * width + at)]));
    }
  for (std::size_t column = 0; column < largest.size(); ++column)
    scales[column] = largest[column] > 0 ? largest[column] / static_cast<float>(largest_weight) : 1;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t at = 0; at < width; ++at) {
      const std::size_t column = column_of(row, at),
                        place = static_cast<std::size_t>(row * width + at);
      const float scaled = std::nearbyint(from[place] / scales[column]);
      integers[place] =
          static_cast<std::int8_t>(std::clamp<float>(scaled, -largest_weight, largest_weight));
      sums[column] += integers[place];
    }
  return result;
}

// What every value is made by, and the queries and keys of attentions.
void collect(const Block& block, std::map<ValueId, const Binding*>& made,
             std::vector<ValueId>& queries_and_keys) {
  for (const Binding& binding : block.bindings) {
    for (const Block& nested : binding.blocks) collect(nested, made, queries_and_keys);
    for (const ValueId result : binding.results) made[result] = &binding;
    if (binding.op == Op::attention)
      queries_and_keys.insert(queries_and_keys.end(), {binding.operands[0], binding.operands[1]});
  }
}

class Quantisation {
 public:
  Quantisation(Function& function, const std::set<ValueId>& kept)
      : function_(function), kept_(kept) {}

  bool run() {
    visit(function_.body);
    return changed_;
  }

 private:
  // A value in u8, and the scale and zero point of each of its parts (rows, or images): f32 and
  // i32.
  struct Bytes {
    ValueId integers = no_value;  // as i32
    ValueId scale = no_value, zero = no_value;
  };
  using Known = std::map<std::pair<ValueId, std::vector<std::int64_t>>, Bytes>;  // by axes

  void visit(Block& block) {
    const Known outside = known_;
    std::vector<Binding> result;
    for (Binding& binding : block.bindings) {
      for (Block& nested : binding.blocks) visit(nested);
      if (binding.op == Op::constant || (is_view(binding.op) && binding.results.size() == 1))
        definitions_.emplace(binding.results[0], binding);
      if (!quantise(binding, result)) result.push_back(std::move(binding));
    }
    block.bindings = std::move(result);
    known_ = outside;
  }

  const Binding* definition(ValueId value) const {
    const auto found = definitions_.find(value);
    return found != definitions_.end() ? &found->second : nullptr;
  }
  const std::vector<Dim>& dims(ValueId value) const { return function_.tensor_type(value).dims; }

  // A constant seen as a matrix.
  struct Weight {
    const Binding* constant = nullptr;
    const Binding* transposed = nullptr;  // the transpose that follows, if any
    std::int64_t rows = 0, width = 0;
  };

  std::optional<Weight> weight_of(ValueId operand) const {
    Weight weight;
    const Binding* made = definition(operand);
    if (made != nullptr && made->op == Op::transpose &&
        permutation(*made, dims(operand).size()) == std::vector<std::size_t>{1, 0}) {
      weight.transposed = made;
      operand = made->operands[0];
    }
    const std::vector<Dim>& matrix = dims(operand);
    made = definition(operand);
    while (made != nullptr && info(made->op).has(traits::reshapes))
      made = definition(made->operands[0]);
    if (made == nullptr || made->op != Op::constant || matrix.size() != 2 ||
        !matrix[0].is_constant() || !matrix[1].is_constant())
      return std::nullopt;
    weight.constant = made;
    weight.rows = matrix[0].constant_part();
    weight.width = matrix[1].constant_part();
    return weight;
  }

  bool quantise(const Binding& product, std::vector<Binding>& into) {
    if (product.op != Op::matmul || function_.tensor_type(product.results[0]).dtype != DType::F32 ||
        kept_.contains(product.results[0]))
      return false;
    const std::optional<Weight> weight = weight_of(product.operands[1]);
    if (!weight || dims(product.operands[0]).size() < 2) return false;
    const bool transposed = weight->transposed != nullptr;
    const std::int64_t terms = transposed ? weight->width : weight->rows;
    const Tensor& stored = tensor_attribute(*weight->constant, "value");
    if (stored.elements() < fewest_elements || terms < fewest_terms || terms > most_terms)
      return false;
    const Tensor matrix = stored.opened();
    if (!std::ranges::all_of(matrix.as<float>(), [](float x) { return std::isfinite(x); }))
      return false;

    const Matrix made = quantised(matrix, weight->rows, weight->width, transposed);
    BindingWriter writer(function_, into, product.source,
                         function_.values[product.results[0]].name);
    const Bytes left = left_operand(product.operands[0], writer);
    ValueId right = writer.constant(made.integers);
    if (transposed) right = writer.again(*weight->transposed, right);
    const ValueId sums = writer.emit(Op::matmul, {left.integers, writer.cast(right, DType::I32)});
    const ValueId shift = writer.emit(Op::mul, {left.zero, writer.constant(made.sums)});
    const ValueId real = writer.cast(writer.emit(Op::sub, {sums, shift}), DType::F32);
    const ValueId scaled = writer.emit(Op::mul, {real, writer.constant(made.scales)});
    writer.emit(Op::mul, {scaled, left.scale}, {}, product.results[0]);
    changed_ = true;
    return true;
  }

  // Each row by its own range; windows of an image, which overlap, by the image's.
  Bytes left_operand(ValueId x, BindingWriter& writer) {
    const std::vector<const Binding*> views = views_of_image(x);
    if (views.empty()) return bytes_of(x, {static_cast<std::int64_t>(dims(x).size()) - 1}, writer);
    const ValueId image = views.back()->operands[0];
    std::vector<std::int64_t> axes(dims(image).size() - 1);
    std::iota(axes.begin(), axes.end(), 1);
    Bytes bytes = bytes_of(image, std::move(axes), writer);
    for (const Binding* view : views | std::views::reverse)
      bytes.integers = writer.again(*view, bytes.integers);
    std::vector<Dim> of_image(dims(x).size(), 1);
    of_image[0] = dims(x)[0];
    bytes.scale = writer.reshaped(bytes.scale, of_image);
    bytes.zero = writer.reshaped(bytes.zero, of_image);
    return bytes;
  }

  // The views, last first, that `x` is of an image, some of which are windows: empty where there
  // are none, or where they do not leave images apart along the first axis.
  std::vector<const Binding*> views_of_image(ValueId x) const {
    std::vector<const Binding*> views;
    bool windows = false;
    for (const Binding* view = definition(x); view != nullptr && keeps_images(*view);
         view = definition(view->operands[0])) {
      views.push_back(view);
      windows = windows || view->op == Op::windows;
    }
    return windows ? views : std::vector<const Binding*>{};
  }

  bool keeps_images(const Binding& view) const {
    const std::vector<Dim>&from = dims(view.operands[0]), &to = dims(view.results[0]);
    if (from.empty() || to.empty() || from[0] != to[0]) return false;
    if (view.op == Op::transpose) return permutation(view, to.size())[0] == 0;
    if (view.op == Op::windows) return integers_attribute(view, "axes")[0] != 0;
    return info(view.op).has(traits::reshapes);
  }

  // Each of its parts reaches over `axes`.
  Bytes bytes_of(ValueId x, std::vector<std::int64_t> axes, BindingWriter& writer) {
    const auto [known, fresh] = known_.try_emplace({x, axes});
    if (!fresh) return known->second;
    const Attributes parts{{"axes", std::move(axes)}, {"keepdims", std::int64_t{1}}};
    const ValueId none = writer.number(DType::F32, 0);
    const ValueId top = writer.emit(Op::max, {writer.emit(Op::reduce_max, {x}, parts), none});
    const ValueId bottom = writer.emit(Op::min, {writer.emit(Op::reduce_min, {x}, parts), none});
    const ValueId span = writer.emit(Op::sub, {top, bottom});
    // Parts of zeros have no scale: 0 times infinity is no number, which is 0 as an integer.
    const ValueId inverse = writer.emit(Op::div, {writer.number(DType::F32, largest_row), span});
    const ValueId zero = writer.cast(
        writer.emit(Op::round, {writer.emit(Op::mul, {writer.emit(Op::neg, {bottom}), inverse})}),
        DType::U8);
    const ValueId whole = writer.emit(Op::round, {writer.emit(Op::mul, {x, inverse})});
    const ValueId integers =
        writer.cast(writer.emit(Op::add, {whole, writer.cast(zero, DType::F32)}), DType::U8);
    known->second = {
        .integers = writer.cast(integers, DType::I32),
        .scale = writer.emit(Op::mul, {span, writer.number(DType::F32, 1 / largest_row)}),
        .zero = writer.cast(zero, DType::I32)};
    return known->second;
  }

  Function& function_;
  const std::set<ValueId>& kept_;
  std::map<ValueId, Binding> definitions_;  // constants and views
  Known known_;                             // visible here
  bool changed_ = false;
};

}  // namespace

std::set<ValueId> products_of_scores(const Function& function) {
  std::map<ValueId, const Binding*> made;
  std::vector<ValueId> open;
  collect(function.body, made, open);
  std::set<ValueId> seen, found;
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    const auto at = made.find(value);
    if (!seen.insert(value).second || at == made.end()) continue;
    const Binding& binding = *at->second;
    if (binding.op == Op::matmul) found.insert(value);
    else if (is_view(binding.op)) open.push_back(binding.operands[0]);
    else if (binding.op == Op::concat || info(binding.op).has(traits::elementwise))
      open.insert(open.end(), binding.operands.begin(), binding.operands.end());
  }
  return found;
}

bool quantise_products(Function& function, const std::set<ValueId>& kept) {
  return Quantisation(function, kept).run();
}

}  // namespace anydim::passes
