// The values that importers compute with. Their operators and functions write bindings of the node
// at work, so that a formula stands in its importer as a formula.
#pragma once

#include <cstdint>
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
  Node& node() const { return *node_; }  // of a value that is there
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

}  // namespace anydim::frontends
