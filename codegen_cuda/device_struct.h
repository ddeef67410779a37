// The structs from which templates of device/*.cuh take their numbers, and multiplications that
// CUDA C++ has no name for.
#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>

namespace anydim::codegen_cuda {

struct NamedConstant {
  template <std::integral Number>
  NamedConstant(std::string_view constant, Number number)
      : type(std::same_as<Number, bool> ? "bool" : "int"), name(constant),
        value(std::same_as<Number, bool> ? (number ? "true" : "false") : std::to_string(number)) {}
  NamedConstant(std::string_view of_type, std::string_view constant, std::string expression)
      : type(of_type), name(constant), value(std::move(expression)) {}

  std::string_view type, name;
  std::string value;  // an expression over the constants before it
};

// Static constants, a line each.
std::string members(std::initializer_list<NamedConstant> constants);

// A static function of the warpgroup: `name(sums, left, right, add)` for sums = left right, added
// to what they held where `add`, of 64 rows, 16 of depth and `columns` columns. The sums are
// fragments of 8 columns, operands descriptors; "by rows": the depth runs down rows.
struct Multiplication {
  std::string_view name;
  std::int64_t columns = 8;
  bool brain = false;  // bf16, else f16
  bool left_by_rows = false, right_by_rows = false;
};
std::string member(const Multiplication& multiplication);
// The same with a left fragment in registers, always added: `name(sums, left, right)`.
std::string member_of_registers(const Multiplication& multiplication);

}  // namespace anydim::codegen_cuda
