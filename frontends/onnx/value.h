// The values that importers compute with. Their operators and functions write bindings of the node
// at work, so that a formula stands in its importer as a formula.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "ir/module.h"

namespace anydim::frontends {

class Node;

class Value {
 public:
  constexpr Value() = default;  // none
  Value(Node& node, ir::ValueId id) : node_(&node), id_(id) {}
  ir::ValueId id() const { return id_; }
  // Of a value that is there.
  Node& node() const { return *node_; }
  ir::DType dtype() const;
  std::size_t rank() const;  // Unsupported where it isn't known yet
  // Where it is a known constant; -1: the last.
  std::optional<std::int64_t> extent(std::int64_t axis) const;
  std::optional<std::int64_t> length() const;  // of a vector, where it is a known constant
  friend bool operator==(const Value& a, const Value& b) { return a.id_ == b.id_; }

 private:
  Node* node_ = nullptr;
  ir::ValueId id_ = ir::no_value;
};
inline constexpr Value no_value;
using Values = std::vector<Value>;
using Ints = std::vector<std::int64_t>;
std::vector<ir::ValueId> ids_of(const Values& values);

// A part of a formula: a value, or a number beside one, which is a constant of its element type.
class Operand {
 public:
  Operand(Value value) : value_(value) {}
  template <typename Number>
    requires std::is_arithmetic_v<Number>
  Operand(Number number) : number_(static_cast<double>(number)) {}
  bool is_number() const { return value_ == no_value; }
  Value of(const Operand& other) const;  // the value; a number as one of the other's element type

 private:
  Value value_;
  double number_ = 0;
};

Value operator+(const Operand& a, const Operand& b);
Value operator-(const Operand& a, const Operand& b);
Value operator*(const Operand& a, const Operand& b);
Value operator/(const Operand& a, const Operand& b);
Value operator%(const Operand& a, const Operand& b);
Value operator-(Value x);
Value operator<(const Operand& a, const Operand& b);
Value operator<=(const Operand& a, const Operand& b);
Value operator>(const Operand& a, const Operand& b);
Value operator>=(const Operand& a, const Operand& b);
Value equal(const Operand& a, const Operand& b);
Value min(const Operand& a, const Operand& b);
Value max(const Operand& a, const Operand& b);
Value pow(const Operand& base, const Operand& exponent);
Value matmul(Value a, Value b);
Value where(Value condition, const Operand& then, const Operand& otherwise);
// Of bools.
Value operator&(Value a, Value b);
Value operator|(Value a, Value b);
Value operator!(Value x);

Value abs(Value x);
Value ceil(Value x);
Value exp(Value x);
Value floor(Value x);
Value log(Value x);
Value round(Value x);  // halves to even
Value sigmoid(Value x);
Value sqrt(Value x);
Value tanh(Value x);

Value shape_of(Value x);  // i64
Value gather(Value x, Value indices, std::int64_t axis);
Value gather(Value x, std::int64_t index, std::int64_t axis);  // without that axis
Value concat(Values parts, std::int64_t axis);
Value transpose(Value x, Ints perm);
Value reduce(ir::Op op, Value x, Ints axes, bool keepdims);
Value cast(Value x, ir::DType dtype);  // the value itself where it has the type
// Dim `axis` (counted from the end where negative) of a value, as an i64 vector of one element.
Value dim_of(Value x, std::int64_t axis);
// The value under the dims that i64 vectors give, joined; -1 is inferred.
Value reshaped(Value x, Values dims);
Value rank_0(Value x);                   // a tensor of one element, as one of rank 0
Value with_axes(Value x, Ints axes);     // dims of 1 inserted: axes of the result
Value without_axes(Value x, Ints axes);  // dims of 1 removed
// The elements [first, last) of an axis, counted from the end where negative, or every `step`-th
// of them.
Value slice(Value x, std::int64_t axis, std::int64_t first, std::int64_t last,
            std::int64_t step = 1);
Value positions(Value extent);  // 0, 1, 2, ... below a vector of one element

}  // namespace anydim::frontends
