// Products and normalisation.
#include <fmt/format.h>

#include <cmath>

#include "frontends/onnx/importers.h"

namespace anydim::frontends {

using ir::DType;
using ir::Op;
using ir::ValueId;

namespace {

// x times a real attribute; integers take only whole factors.
ValueId scaled(Node& node, ValueId x, std::string_view attribute, double factor) {
  if (factor == 1) return x;
  constexpr double exact_integers = 9007199254740992.0;  // 2^53
  if (!ir::is_float(node.dtype(x)) && (factor != std::floor(factor) || std::fabs(factor) > exact_integers)) {
    node.unsupported(fmt::format("multiplies integers by {} = {}; Anydim supports only whole numbers there", attribute, factor));
  }
  return node.emit(Op::mul, {x, node.scalar(node.dtype(x), factor)});
}

ValueId transposed(Node& node, ValueId x) { return node.emit(Op::transpose, {x}, {{"perm", std::vector<std::int64_t>{1, 0}}}); }

// The dims from `axis` on, as a tensor: the rank is known only to inference.
ValueId axes_from(Node& node, ValueId x, std::int64_t axis) {
  if (axis < 0) {
    std::vector<std::int64_t> axes;
    for (std::int64_t i = axis; i < 0; ++i) axes.push_back(i);
    return node.index_vector(std::move(axes));
  }
  const ValueId rank = node.emit(Op::reduce_sum, {node.emit(Op::shape_of, {node.emit(Op::shape_of, {x})})});
  const ValueId first = node.scalar(DType::I64, static_cast<double>(axis));
  return node.emit(Op::dyn_arange, {first, rank, node.scalar(DType::I64, 1)});
}

// Mean and 1 / sqrt(variance + epsilon) over the dims from `axis` on, which ONNX offers as further outputs, always in f32.
void output_moments(Node& node, std::int64_t axis, double epsilon) {
  const DType dtype = node.dtype() == DType::F64 ? DType::F64 : DType::F32;
  const ValueId x = node.cast(node.operand(0), dtype);
  const ValueId axes = axes_from(node, x, axis);
  const auto mean_of = [&](ValueId value) {
    return node.emit(Op::dyn_reduce_mean, {value, axes}, {{"keepdims", std::int64_t{1}}, {"empty_keeps", std::int64_t{1}}});
  };
  const ValueId mean = mean_of(x);
  const ValueId centred = node.emit(Op::sub, {x, mean});
  const ValueId variance = mean_of(node.emit(Op::mul, {centred, centred}));
  const ValueId deviation = node.emit(Op::sqrt, {node.emit(Op::add, {variance, node.scalar(dtype, epsilon)})});
  node.output(1, node.cast(mean, DType::F32));
  node.output(2, node.cast(node.emit(Op::reciprocal, {deviation}), DType::F32));
}

}  // namespace

void import_matmul(Node& node) {
  node.check_same_dtypes();
  node.output(0, node.emit(Op::matmul, node.operands()));
}

void import_gemm(Node& node) {
  node.check_same_dtypes();
  const double alpha = node.real("alpha", 1);
  const double beta = node.real("beta", 1);
  const ValueId a = node.flag("transA", false) ? transposed(node, node.operand(0)) : node.operand(0);
  const ValueId b = node.flag("transB", false) ? transposed(node, node.operand(1)) : node.operand(1);
  const ValueId product = scaled(node, node.emit(Op::matmul, {a, b}), "alpha", alpha);
  if (!node.has_operand(2) || beta == 0) {
    node.output(0, product);
    return;
  }
  node.output(0, node.emit(Op::add, {product, scaled(node, node.operand(2), "beta", beta)}));
}

void import_softmax(Node& node, Op op) { node.output(0, node.emit(op, {node.operand(0)}, {{"axis", node.integer("axis", -1)}})); }

void import_flattened_softmax(Node& node, Op op) {
  const ValueId x = node.operand(0);
  const std::int64_t axis = node.integer("axis", 1);
  if (axis == -1) {  // one dim: nothing to flatten
    node.output(0, node.emit(op, {x}, {{"axis", axis}}));
    return;
  }
  const ValueId flat = node.emit(Op::flatten, {x}, {{"axis", axis}});
  const ValueId result = node.emit(op, {flat}, {{"axis", std::int64_t{1}}});
  node.output(0, node.emit(Op::dyn_reshape, {result, node.emit(Op::shape_of, {x})}));
}

void import_layer_normalization(Node& node) {
  node.check_same_dtypes();
  const std::int64_t axis = node.integer("axis", -1);
  const double epsilon = node.real("epsilon", 1e-5);
  if (axis < -64 || axis > 64) node.malformed(fmt::format("has axis = {}; no tensor has that many dims", axis));
  const std::int64_t stash_type = node.integer("stash_type", 1);
  if (stash_type != 1) node.unsupported(fmt::format("has stash_type = {}; Anydim supports only 1 (f32)", stash_type));
  node.output(
      0, node.emit(Op::layer_norm, {node.operand(0), node.operand(1), node.optional_operand(2)}, {{"axis", axis}, {"epsilon", epsilon}}));
  if (node.wants_output(1) || node.wants_output(2)) output_moments(node, axis, epsilon);
}

}  // namespace anydim::frontends
