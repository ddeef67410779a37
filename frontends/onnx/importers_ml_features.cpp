// Features as models of ai.onnx.ml prepare them: scaled, filled in, encoded and put together.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "frontends/onnx/importers.h"
#include "frontends/sizes.h"

namespace anydim::frontends {

namespace {

// An attribute that has one number for all columns or one for each.
template <typename T>
ValueId column_constant(Node& node, DType dtype, std::string_view name,
                        const std::vector<T>& values) {
  const ValueId x = node.operand(0);
  const std::optional<std::int64_t> columns = node.rank(x) == 0 ? 1 : node.extent(x, -1);
  const auto count = static_cast<std::int64_t>(values.size());
  if (count == 0 || (count != 1 && columns && *columns != count)) {
    node.malformed("takes one number or one for each of {} columns as attribute '{}', got {}",
                   columns ? fmt::format("{}", *columns) : "the", name, count);
  }
  return node.constant(ir::Tensor::of(dtype, {count}, values));
}

ValueId as_row(Node& node, ValueId x) { return node.rank(x) == 1 ? node.with_axes(x, {0}) : x; }

}  // namespace

void import_array_feature_extractor(Node& node) {
  const ValueId at = node.reshaped(node.index_operand(1), {node.index_vector({-1})});
  node.output(
      0, node.emit(Op::gather, {as_row(node, node.operand(0)), at}, {{"axis", std::int64_t{-1}}}));
}

void import_binarizer(Node& node) {
  const ValueId x = node.operand(0);
  const ValueId threshold = node.scalar(node.dtype(), node.real("threshold", 0));
  node.output(0, node.cast(node.emit(Op::greater, {x, threshold}), node.dtype()));
}

void import_feature_vectorizer(Node& node) {
  const auto widths = node.integers("inputdimensions");
  if (widths.size() != node.operand_count() || std::ranges::min(widths) < 0) {
    node.malformed(
        "has {} inputs; expected a number of columns for each as attribute "
        "'inputdimensions', got {}",
        node.operand_count(), widths.size());
  }
  std::vector<ValueId> parts;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const ValueId x = node.cast(as_row(node, node.operand(i)), DType::F32);
    const ValueId flat = node.emit(Op::flatten, {x}, {{"axis", std::int64_t{1}}});
    if (node.extent(flat, 1) == widths[i]) {
      parts.push_back(flat);
      continue;
    }
    // What an input lacks is zero, what it has beyond is left out.
    const ValueId dims =
        node.emit(Op::concat, {node.dim_of(flat, 0), node.index_vector({widths[i]})},
                  {{"axis", std::int64_t{0}}});
    const ValueId zeros = node.emit(Op::dyn_zeros, {dims}, {{"dtype", DType::F32}});
    const ValueId filled = node.emit(Op::concat, {flat, zeros}, {{"axis", std::int64_t{1}}});
    parts.push_back(node.slice(filled, 1, 0, widths[i]));
  }
  node.output(0, node.emit(Op::concat, parts, {{"axis", std::int64_t{1}}}));
}

void import_imputer(Node& node) {
  const ValueId x = node.operand(0);
  const DType dtype = node.dtype();
  const bool real = ir::is_float(dtype);
  const ValueId filled = real ? column_constant(node, dtype, "imputed_value_floats",
                                                node.reals("imputed_value_floats"))
                              : column_constant(node, dtype, "imputed_value_int64s",
                                                node.integers("imputed_value_int64s"));
  ValueId missing = ir::no_value;
  if (const double replaced = real ? node.real("replaced_value_float", 0) : 0;
      std::isnan(replaced)) {
    missing = node.emit(Op::is_nan, {x});
  } else {
    const ir::Tensor value =
        real ? ir::Tensor::of(dtype, {}, std::vector{replaced})
             : ir::Tensor::of(dtype, {}, std::vector{node.integer("replaced_value_int64", 0)});
    missing = node.emit(Op::equal, {x, node.constant(value)});
  }
  for (const auto* other : {"imputed_value_floats", "imputed_value_int64s", "replaced_value_float",
                            "replaced_value_int64"})
    node.ignore_attribute(other);  // those of the other element type say nothing
  node.output(0, node.emit(Op::where, {missing, filled, x}));
}

void import_normalizer(Node& node) {
  const std::string norm = node.string("norm", "MAX");
  if (norm != "MAX" && norm != "L1" && norm != "L2") {
    node.malformed("takes 'MAX', 'L1' or 'L2' as attribute 'norm', got {}", quoted_name(norm));
  }
  const ValueId x = node.cast(node.operand(0), DType::F32);
  const ir::Attributes rows{{"axes", std::vector<std::int64_t>{-1}}, {"keepdims", std::int64_t{1}}};
  ValueId size = ir::no_value;
  if (norm == "MAX") {
    size = node.emit(Op::reduce_max, {x}, rows);
  } else if (norm == "L1") {
    size = node.emit(Op::reduce_sum, {node.emit(Op::abs, {x})}, rows);
  } else {
    size = node.emit(Op::sqrt, {node.emit(Op::reduce_sum, {node.emit(Op::mul, {x, x})}, rows)});
  }
  const ValueId none = node.emit(Op::equal, {size, node.scalar(DType::F32, 0)});
  const ValueId divisor = node.emit(Op::where, {none, node.scalar(DType::F32, 1), size});
  node.output(0, node.emit(Op::div, {x, divisor}));
}

void import_scaler(Node& node) {
  const ValueId x = node.cast(node.operand(0), DType::F32);
  const ValueId offset = column_constant(node, DType::F32, "offset", node.reals("offset"));
  const ValueId scale = column_constant(node, DType::F32, "scale", node.reals("scale"));
  node.output(0, node.emit(Op::mul, {node.emit(Op::sub, {x, offset}), scale}));
}

void import_one_hot_encoder(Node& node) {
  if (node.has_attribute("cats_strings"))
    node.unsupported("has categories that are strings; Anydim has numbers only");
  const auto categories = node.integers("cats_int64s");
  const ValueId x = node.with_axes(node.cast(node.operand(0), DType::I64),
                                   {static_cast<std::int64_t>(node.rank(node.operand(0)))});
  const ValueId known = node.constant(
      ir::Tensor::of(DType::I64, {static_cast<std::int64_t>(categories.size())}, categories));
  const ValueId encoded = node.cast(node.emit(Op::equal, {x, known}), DType::F32);
  if (!node.flag("zeros", true)) {
    const ValueId found =
        node.emit(Op::reduce_max, {encoded},
                  {{"axes", std::vector<std::int64_t>{-1}}, {"keepdims", std::int64_t{1}}});
    node.emit_many(Op::assertion, {node.emit(Op::greater, {found, node.scalar(DType::F32, 0)}), x},
                   {{"message", node.description() + " is given a category that it does not know; "
                                                     "expected one of cats_int64s, got"}},
                   0);
  }
  node.output(0, encoded);
}

namespace {

// Keys or values of a LabelEncoder: numbers of a list or a tensor.
ir::Tensor label_numbers(Node& node, const std::string& side) {
  if (node.has_attribute(side + "_strings"))
    node.unsupported("has strings as {}; Anydim has numbers only", side);
  if (node.has_attribute(side + "_tensor")) return node.tensor(side + "_tensor");
  if (node.has_attribute(side + "_floats")) {
    const auto values = node.reals(side + "_floats");
    return ir::Tensor::of(DType::F32, {static_cast<std::int64_t>(values.size())}, values);
  }
  const auto values = node.integers(side + "_int64s");
  return ir::Tensor::of(DType::I64, {static_cast<std::int64_t>(values.size())}, values);
}

ir::Tensor label_fallback(Node& node, DType dtype) {
  if (node.has_attribute("default_tensor")) return node.tensor("default_tensor");
  const bool real = ir::is_float(dtype);
  const double value = real ? node.real("default_float", -0.0) : 0;
  const std::int64_t number = real ? 0 : node.integer("default_int64", -1);
  for (const auto* other : {"default_string", "default_float", "default_int64"})
    node.ignore_attribute(other);  // those of other types say nothing
  return real ? ir::Tensor::of(dtype, {}, std::vector{value})
              : ir::Tensor::of(dtype, {}, std::vector{number});
}

// Places of the keys in their order, of equal ones the first; NaN is left out.
std::vector<std::int64_t> ordered(const ir::Tensor& keys) {
  const bool real = ir::is_float(keys.dtype());
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < keys.elements(); ++i)
    if (!real || !std::isnan(keys.real_at(i))) places.push_back(i);
  const auto before = [&](std::int64_t a, std::int64_t b) {
    return real ? keys.real_at(a) < keys.real_at(b) : keys.integer_at(a) < keys.integer_at(b);
  };
  std::ranges::sort(places, [&](std::int64_t a, std::int64_t b) {
    return before(a, b) || (!before(b, a) && a < b);
  });
  const auto same = [&](std::int64_t a, std::int64_t b) { return !before(a, b); };
  places.erase(std::ranges::unique(places, same).begin(), places.end());
  return places;
}

}  // namespace

void import_label_encoder(Node& node) {
  const ir::Tensor keys = label_numbers(node, "keys"), values = label_numbers(node, "values");
  const ir::Tensor fallback = label_fallback(node, values.dtype());
  if (keys.elements() != values.elements() || keys.elements() == 0) {
    node.malformed("has {} keys and {} values; expected a value for each key", keys.elements(),
                   values.elements());
  }
  if (keys.dtype() != node.dtype() || fallback.dtype() != values.dtype() ||
      fallback.elements() != 1) {
    node.malformed(
        "has keys of {} for an input of {}, and a default of {} for values of {}; expected one of "
        "each",
        ir::name_of(keys.dtype()), ir::name_of(node.dtype()), ir::name_of(fallback.dtype()),
        ir::name_of(values.dtype()));
  }
  const ValueId x = node.operand(0);
  const auto picked = [&](ValueId table, ValueId at) {
    return node.emit(Op::gather, {table, at}, {{"axis", std::int64_t{0}}});
  };
  const ValueId key_table = node.reshaped(node.constant(keys), {node.index_vector({-1})}),
                value_table = node.reshaped(node.constant(values), {node.index_vector({-1})});
  ValueId result = node.rank_0(node.constant(fallback));
  if (const auto order = ordered(keys); !order.empty()) {
    const ValueId sorted = picked(key_table, node.index_vector(order));
    const auto last = static_cast<std::int64_t>(order.size()) - 1;
    // The last key that is not above x, by halves.
    ValueId at = node.scalar(DType::I64, 0);
    for (std::int64_t step = static_cast<std::int64_t>(std::bit_ceil(order.size())) / 2; step > 0;
         step /= 2) {
      const ValueId further = node.emit(
          Op::min, {node.emit(Op::add, {at, node.scalar(DType::I64, static_cast<double>(step))}),
                    node.scalar(DType::I64, static_cast<double>(last))});
      const ValueId reached = node.emit(Op::less_equal, {picked(sorted, further), x});
      at = node.emit(Op::where, {reached, further, at});
    }
    const ValueId found = node.emit(Op::equal, {picked(sorted, at), x});
    const ValueId value = picked(picked(value_table, node.index_vector(order)), at);
    result = node.emit(Op::where, {found, value, result});
  }
  if (node.opset() >= 4 && ir::is_float(keys.dtype())) {
    for (std::int64_t i = 0; i < keys.elements(); ++i) {
      if (!std::isnan(keys.real_at(i))) continue;
      const ValueId value = picked(value_table, node.scalar(DType::I64, static_cast<double>(i)));
      result = node.emit(Op::where, {node.emit(Op::is_nan, {x}), value, result});
      break;
    }
  }
  node.output(0, result);
}

}  // namespace anydim::frontends
