// Features as models of ai.onnx.ml prepare them: scaled, filled in, encoded and put together.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "frontends/onnx/importers.h"

namespace anydim::frontends {

namespace {

// An attribute that has one number for all columns or one for each.
template <typename T>
Value column_constant(Node& node, DType dtype, std::string_view name,
                      const std::vector<T>& values) {
  const Value x = node.operand(0);
  const std::optional<std::int64_t> columns = x.rank() == 0 ? 1 : x.extent(-1);
  const auto count = static_cast<std::int64_t>(values.size());
  if (count == 0 || (count != 1 && columns && *columns != count)) {
    node.malformed("takes one number or one for each of {} columns as attribute '{}', got {}",
                   columns ? fmt::format("{}", *columns) : "the", name, count);
  }
  return node.constant(ir::Tensor::of(dtype, {count}, values));
}

Value as_row(Value x) { return x.rank() == 1 ? with_axes(x, {0}) : x; }

}  // namespace

void import_array_feature_extractor(Node& node) {
  const Value at = reshaped(node.index_operand(1), {node.index_vector({-1})});
  node.output(0, gather(as_row(node.operand(0)), at, -1));
}

void import_binarizer(Node& node) {
  const Value x = node.operand(0);
  const Value threshold = node.scalar(node.dtype(), node.real("threshold", 0));
  node.output(0, cast(x > threshold, node.dtype()));
}

void import_feature_vectorizer(Node& node) {
  const auto widths = node.integers("inputdimensions");
  if (widths.size() != node.operand_count() || std::ranges::min(widths) < 0) {
    node.malformed(
        "has {} inputs; expected a number of columns for each as attribute "
        "'inputdimensions', got {}",
        node.operand_count(), widths.size());
  }
  Values parts;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const Value x = cast(as_row(node.operand(i)), DType::F32);
    const Value flat = node.emit(Op::flatten, {x}, {{"axis", std::int64_t{1}}});
    if (flat.extent(1) == widths[i]) {
      parts.push_back(flat);
      continue;
    }
    // What an input lacks is zero, what it has beyond is left out.
    const Value dims = concat({dim_of(flat, 0), node.index_vector({widths[i]})}, 0);
    const Value zeros = node.emit(Op::dyn_zeros, {dims}, {{"dtype", DType::F32}});
    const Value filled = concat({flat, zeros}, 1);
    parts.push_back(slice(filled, 1, 0, widths[i]));
  }
  node.output(0, concat(parts, 1));
}

void import_imputer(Node& node) {
  const Value x = node.operand(0);
  const DType dtype = node.dtype();
  const bool real = ir::is_float(dtype);
  const Value filled = real ? column_constant(node, dtype, "imputed_value_floats",
                                              node.reals("imputed_value_floats"))
                            : column_constant(node, dtype, "imputed_value_int64s",
                                              node.integers("imputed_value_int64s"));
  Value missing = no_value;
  if (const double replaced = real ? node.real("replaced_value_float", 0) : 0;
      std::isnan(replaced)) {
    missing = node.emit(Op::is_nan, {x});
  } else {
    const ir::Tensor value =
        real ? ir::Tensor::of(dtype, {}, std::vector{replaced})
             : ir::Tensor::of(dtype, {}, std::vector{node.integer("replaced_value_int64", 0)});
    missing = equal(x, node.constant(value));
  }
  for (const auto* other : {"imputed_value_floats", "imputed_value_int64s", "replaced_value_float",
                            "replaced_value_int64"})
    node.ignore_attribute(other);  // those of the other element type say nothing
  node.output(0, where(missing, filled, x));
}

void import_normalizer(Node& node) {
  const std::string norm = node.one_of({"MAX", "L1", "L2"}, "norm", "MAX");
  const Value x = cast(node.operand(0), DType::F32);
  const ir::Attributes rows{{"axes", Ints{-1}}, {"keepdims", std::int64_t{1}}};
  Value size = no_value;
  if (norm == "MAX") {
    size = node.emit(Op::reduce_max, {x}, rows);
  } else if (norm == "L1") {
    size = node.emit(Op::reduce_sum, {abs(x)}, rows);
  } else {
    size = sqrt(node.emit(Op::reduce_sum, {x * x}, rows));
  }
  const Value none = equal(size, 0);
  const Value divisor = where(none, 1, size);
  node.output(0, x / divisor);
}

void import_scaler(Node& node) {
  const Value x = cast(node.operand(0), DType::F32);
  const Value offset = column_constant(node, DType::F32, "offset", node.reals("offset"));
  const Value scale = column_constant(node, DType::F32, "scale", node.reals("scale"));
  node.output(0, (x - offset) * scale);
}

void import_one_hot_encoder(Node& node) {
  if (node.has_attribute("cats_strings"))
    node.unsupported("has categories that are strings; Anydim has numbers only");
  const auto categories = node.integers("cats_int64s");
  const Value x = with_axes(cast(node.operand(0), DType::I64),
                            {static_cast<std::int64_t>(node.operand(0).rank())});
  const Value known = node.constant(
      ir::Tensor::of(DType::I64, {static_cast<std::int64_t>(categories.size())}, categories));
  const Value encoded = cast(equal(x, known), DType::F32);
  if (!node.flag("zeros", true)) {
    const Value found = reduce(Op::reduce_max, encoded, {-1}, true);
    node.emit_many(Op::assertion, {found > 0, x},
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
Ints ordered(const ir::Tensor& keys) {
  const bool real = ir::is_float(keys.dtype());
  Ints places;
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
  const Value x = node.operand(0);
  const auto picked = [&](Value table, Value at) { return gather(table, at, 0); };
  const Value key_table = reshaped(node.constant(keys), {node.index_vector({-1})}),
              value_table = reshaped(node.constant(values), {node.index_vector({-1})});
  Value result = rank_0(node.constant(fallback));
  if (const auto order = ordered(keys); !order.empty()) {
    const Value sorted = picked(key_table, node.index_vector(order));
    const auto last = static_cast<std::int64_t>(order.size()) - 1;
    // The last key that is not above x, by halves.
    Value at = node.scalar(DType::I64, 0);
    for (std::int64_t step = static_cast<std::int64_t>(std::bit_ceil(order.size())) / 2; step > 0;
         step /= 2) {
      const Value further = min(at + step, last);
      const Value reached = picked(sorted, further) <= x;
      at = where(reached, further, at);
    }
    const Value found = equal(picked(sorted, at), x);
    const Value value = picked(picked(value_table, node.index_vector(order)), at);
    result = where(found, value, result);
  }
  if (node.opset() >= 4 && ir::is_float(keys.dtype())) {
    for (std::int64_t i = 0; i < keys.elements(); ++i) {
      if (!std::isnan(keys.real_at(i))) continue;
      const Value value = gather(value_table, i, 0);
      result = where(node.emit(Op::is_nan, {x}), value, result);
      break;
    }
  }
  node.output(0, result);
}

}  // namespace anydim::frontends
