#include "passes/quantise_products.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

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

// `transposed`: columns of the product lie along the first dim.
Matrix quantised(const Tensor& weight, bool transposed) {
  const std::int64_t rows = weight.dims()[0], width = weight.dims()[1];
  const std::int64_t columns = transposed ? rows : width;
  Matrix result{Tensor(DType::I8, weight.dims()), Tensor(DType::F32, {columns}),
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
  // A value in u8, and the scale and zero point of each of its rows: [.., 1], f32 and i32.
  struct Rows {
    ValueId integers = no_value;  // as i32
    ValueId scale = no_value, zero = no_value;
  };
  using Known = std::map<ValueId, Rows>;

  void visit(Block& block) {
    const Known outside = known_;
    std::vector<Binding> result;
    for (Binding& binding : block.bindings) {
      for (Block& nested : binding.blocks) visit(nested);
      if (binding.op == Op::constant || binding.op == Op::transpose)
        definitions_.emplace(binding.results[0], binding);
      if (!quantise(binding, result)) result.push_back(std::move(binding));
    }
    block.bindings = std::move(result);
    known_ = outside;
  }

  const Binding* definition(ValueId value, Op op) const {
    const auto found = definitions_.find(value);
    return found != definitions_.end() && found->second.op == op ? &found->second : nullptr;
  }

  bool quantise(const Binding& product, std::vector<Binding>& into) {
    if (product.op != Op::matmul || function_.tensor_type(product.results[0]).dtype != DType::F32 ||
        kept_.contains(product.results[0]))
      return false;
    const Binding* view = definition(product.operands[1], Op::transpose);
    const Binding* weight =
        definition(view != nullptr ? view->operands[0] : product.operands[1], Op::constant);
    if (weight == nullptr || function_.tensor_type(product.operands[0]).rank() < 2) return false;
    if (const Tensor& stored = tensor_attribute(*weight, "value");
        stored.rank() != 2 || stored.elements() < fewest_elements)
      return false;
    const Tensor matrix = tensor_attribute(*weight, "value").opened();
    const bool transposed = view != nullptr;
    const std::int64_t terms = matrix.dims()[transposed ? 1 : 0];
    if (terms < fewest_terms || terms > most_terms ||
        !std::ranges::all_of(matrix.as<float>(), [](float x) { return std::isfinite(x); }))
      return false;

    const Matrix made = quantised(matrix, transposed);
    BindingWriter writer(function_, into, product.source,
                         function_.values[product.results[0]].name);
    const Rows rows = rows_of(product.operands[0], writer);
    ValueId right = writer.constant(made.integers);
    if (transposed) right = writer.emit(Op::transpose, {right}, view->attributes);
    const ValueId sums = writer.emit(Op::matmul, {rows.integers, writer.cast(right, DType::I32)});
    const ValueId shift = writer.emit(Op::mul, {rows.zero, writer.constant(made.sums)});
    const ValueId real = writer.cast(writer.emit(Op::sub, {sums, shift}), DType::F32);
    const ValueId scaled = writer.emit(Op::mul, {real, writer.constant(made.scales)});
    writer.emit(Op::mul, {scaled, rows.scale}, {}, product.results[0]);
    changed_ = true;
    return true;
  }

  Rows rows_of(ValueId x, BindingWriter& writer) {
    if (const auto found = known_.find(x); found != known_.end()) return found->second;
    const Attributes last{{"axes", std::vector<std::int64_t>{-1}}, {"keepdims", std::int64_t{1}}};
    const ValueId none = writer.number(DType::F32, 0);
    const ValueId top = writer.emit(Op::max, {writer.emit(Op::reduce_max, {x}, last), none});
    const ValueId bottom = writer.emit(Op::min, {writer.emit(Op::reduce_min, {x}, last), none});
    const ValueId span = writer.emit(Op::sub, {top, bottom});
    // Rows of zeros have no scale: 0 times infinity is no number, which is 0 as an integer.
    const ValueId inverse = writer.emit(Op::div, {writer.number(DType::F32, largest_row), span});
    const ValueId zero = writer.cast(
        writer.emit(Op::round, {writer.emit(Op::mul, {writer.emit(Op::neg, {bottom}), inverse})}),
        DType::U8);
    const ValueId whole = writer.emit(Op::round, {writer.emit(Op::mul, {x, inverse})});
    const ValueId bytes =
        writer.cast(writer.emit(Op::add, {whole, writer.cast(zero, DType::F32)}), DType::U8);
    const Rows rows{
        .integers = writer.cast(bytes, DType::I32),
        .scale = writer.emit(Op::mul, {span, writer.number(DType::F32, 1 / largest_row)}),
        .zero = writer.cast(zero, DType::I32)};
    known_.emplace(x, rows);
    return rows;
  }

  Function& function_;
  const std::set<ValueId>& kept_;
  std::map<ValueId, Binding> definitions_;  // constants and transposes
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
