// What the families of shape rules share: access to operands with errors that name the node, and
// the result under construction. Internal to ir; users include ir/shapes/shape_rule.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/refusing.h"
#include "ir/shapes/shape_rule.h"

namespace anydim::ir {

class RuleContext final : public Refusing {
 public:
  RuleContext(const Function& function, const Binding& binding,
              std::span<const OperandFacts> operands, SymbolTable& symbols)
      : function(function), binding(binding), operands(operands), symbols(symbols) {}

  const Function& function;
  const Binding& binding;
  std::span<const OperandFacts> operands;
  SymbolTable& symbols;
  RuleResult result;

  bool has(std::size_t operand) const {
    return operand < operands.size() && operands[operand].type != nullptr;
  }
  // Error{Malformed} where absent or not a tensor
  const TensorType& tensor(std::size_t operand) const;
  const std::vector<Dim>& dims(std::size_t operand) const { return tensor(operand).dims; }
  DType dtype(std::size_t operand) const { return tensor(operand).dtype; }
  const ShapeData& shape_data(std::size_t operand) const;

  // Elements of a rank-0 or rank-1 integer operand: its shape data, else leaves value(%operand, i).
  // Throws Error{Unsupported} where the length isn't known, because the result's rank would depend
  // on it.
  std::vector<Dim> elements(std::size_t operand) const;
  Dim scalar(std::size_t operand) const;  // the same for one element
  // Elements that must be constants because the result's form depends on them; `purpose` completes
  // "… must be known when compiled".
  std::vector<std::int64_t> constants(std::size_t operand, std::string_view purpose) const;

  std::size_t axis(std::int64_t axis,
                   std::size_t rank) const;  // normalised; Error{Malformed} out of range
  std::vector<std::size_t> axes(std::span<const std::int64_t> axes,
                                std::size_t rank) const;  // normalised, in order, all different

  // `expected` completes "operand 0 (%x) must be …".
  void expect(bool holds, std::size_t operand, std::string_view expected) const;
  void expect_same_dtype(std::size_t first, std::size_t second) const;
  void expect_rank_at_least(std::size_t operand, std::size_t rank) const;

  void require(Relation relation, const Dim& left, const Dim& right, std::string what,
               std::string purpose = {});
  void require_dim(Relation relation, std::size_t operand, std::size_t dimension, const Dim& right);
  // Demands that an extent computed from element `element` of `operand` isn't negative, unless it
  // is proven.
  void require_extent(const Dim& extent, std::size_t operand, std::size_t element);
  // How many segments the offsets in `operand` name: one less than its elements. Demands a vector
  // of i64 that isn't empty.
  Dim segments(std::size_t operand);
  // The broadcast of two dim lists, aligned at the end, with its preconditions.
  std::vector<Dim> broadcast_dims(std::span<const Dim> left, std::size_t left_operand,
                                  std::span<const Dim> right);

  void add_result(DType dtype, std::vector<Dim> dims, ShapeData shape_data = std::nullopt);

  std::string operand_text(std::size_t operand) const;  // "operand 1 (%shape)"
  std::string text(const Dim& dim) const;

 private:
  [[noreturn]] void refuse(ErrorKind kind, std::string_view reason) const override;
};

// "Tensor[(n, 384), f32]".
std::string text_of(const TensorType& type, const Function& function);
bool all_constant(std::span<const Dim> dims);

// Axes of a dynamic op that only the run tells. Their ranges and that they differ become
// preconditions.
class RunTimeAxes {
 public:
  RunTimeAxes(RuleContext& context, std::size_t operand, std::size_t rank);
  // `named` where one of the axes is this dimension.
  Dim choose(std::int64_t dimension, const Dim& named, const Dim& otherwise) const;
  // with a 1 at every axis, which counts in the result
  std::vector<Dim> inserted(const std::vector<Dim>& source) const;
  // without the dims that the axes name
  std::vector<Dim> removed(const std::vector<Dim>& source) const;
  const std::vector<Dim>& from_front() const { return axes_; }

 private:
  Dim before(std::int64_t dimension) const;  // how many axes lie before it
  std::vector<Dim> axes_;
  std::size_t rank_;
};

// The axes that the attribute `axes`, or `operand` of the dynamic twin, names, counted from the
// front and all different; the first `count` where there is neither. Those that only the run tells
// are as RunTimeAxes has them.
std::vector<Dim> named_axes(RuleContext& context, std::size_t operand, std::size_t count,
                            std::size_t rank);
// A negative axis counts from the end.
Dim counted_from_front(const Dim& axis, std::size_t rank);
// Whether a negative constant, counted from the end of `extent`, is `low` or less whatever the
// extent is: their sum may leave 64 bits, as the extent has constants of its own.
bool is_before_all(const Dim& bound, const Dim& extent, std::int64_t low,
                   const SymbolTable& symbols);
// Sizes that go with axes, counted from the front, by dimension; 0 where no axis names it.
std::vector<Dim> sizes_by_dimension(std::span<const Dim> sizes, std::span<const Dim> axes,
                                    std::size_t rank);

std::string dimension_of_operand(std::size_t dimension, std::size_t operand);

std::vector<Dim> dims_of(std::span<const std::int64_t> integers);
bool within_shape_data_limit(const Dim& length);
// True for the types whose small values are tracked.
bool tracks_contents(const TensorType& type);
// Shape data of `dtype` are exact only while no value wraps: gives them back where the ranges prove
// that, else nothing.
ShapeData fitting(DType dtype, std::vector<Dim> shape_data, const SymbolTable& symbols);

// The rules that ir/ops.def names, a function a family or op; each adds its results to the context.
#define ANYDIM_OP(name, text, minimum, maximum, results, rule, ...) \
  void rule##_rule(RuleContext& context);
#include "ir/ops.def"
#undef ANYDIM_OP

// The extent of x[start:end:step] along an extent, with NumPy's meaning of negatives and clamping.
Dim slice_extent(const Dim& extent, const Dim& start, const Dim& end, const Dim& step,
                 const SymbolTable& symbols);
// -step where step is negative; of the least integer, which has no opposite, the greatest one: no
// step of either length takes a second element.
Dim magnitude_of_negative(const Dim& step, const SymbolTable& symbols);
// Integer division towards zero as a dim.
Dim truncating_div(const Dim& a, const Dim& b, const SymbolTable& symbols);

}  // namespace anydim::ir
