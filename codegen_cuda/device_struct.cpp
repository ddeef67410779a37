#include "codegen_cuda/device_struct.h"

#include <fmt/format.h>

#include <cstdint>

namespace anydim::codegen_cuda {

namespace {

// Parts of the text of a wgmma instruction, whose every sum is an operand.
struct Instruction {
  std::string opcode;   // and the sums
  std::string outputs;  // the sums as the compiler's constraints
  std::int64_t sums;    // the number of the operand behind them
};

Instruction instruction(const Multiplication& multiplication) {
  Instruction result{.opcode = {}, .outputs = {}, .sums = multiplication.columns / 2};
  std::string numbers;
  for (std::int64_t i = 0; i < result.sums; ++i) {
    numbers += fmt::format("{}%{}", i == 0 ? "" : ", ", i);
    result.outputs += fmt::format("{}\"+f\"(sums[{}][{}])",
                                  i == 0       ? ""
                                  : i % 8 == 0 ? ",\n          "
                                               : ", ",
                                  i / 4, i % 4);
  }
  result.opcode =
      fmt::format("wgmma.mma_async.sync.aligned.m64n{}k16.f32.{} {{{}}}", multiplication.columns,
                  multiplication.brain ? "bf16.bf16" : "f16.f16", numbers);
  return result;
}

}  // namespace

std::string members(std::initializer_list<NamedConstant> constants) {
  std::string text;
  for (const NamedConstant& constant : constants)
    text += fmt::format("  static constexpr {} {} = {};\n", constant.type, constant.name,
                        constant.value);
  return text;
}

std::string member(const Multiplication& multiplication) {
  const Instruction asked = instruction(multiplication);
  return fmt::format(
      R"(  static __device__ __forceinline__ void {name}(float (&sums)[{fragments}][4], unsigned long long left, unsigned long long right, bool add) {{
    asm volatile(
        "{{ .reg .pred add; setp.ne.b32 add, %{add}, 0; "
        "{opcode}, %{left}, %{right}, add, 1, 1, {left_by_rows:d}, {right_by_rows:d}; }}"
        : {outputs}
        : "l"(left), "l"(right), "r"(static_cast<int>(add)));
  }}
)",
      fmt::arg("name", multiplication.name), fmt::arg("fragments", multiplication.columns / 8),
      fmt::arg("opcode", asked.opcode), fmt::arg("outputs", asked.outputs),
      fmt::arg("left", asked.sums), fmt::arg("right", asked.sums + 1),
      fmt::arg("add", asked.sums + 2), fmt::arg("left_by_rows", multiplication.left_by_rows),
      fmt::arg("right_by_rows", multiplication.right_by_rows));
}

std::string member_of_registers(const Multiplication& multiplication) {
  const Instruction asked = instruction(multiplication);
  const auto operand = [&](std::int64_t behind) { return asked.sums + behind; };
  return fmt::format(
      R"(  static __device__ __forceinline__ void {name}(float (&sums)[{fragments}][4], const unsigned (&left)[4], unsigned long long right) {{
    asm volatile(
        "{opcode}, {{%{left0}, %{left1}, %{left2}, %{left3}}}, %{right}, 1, 1, 1, {right_by_rows:d};"
        : {outputs}
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right));
  }}
)",
      fmt::arg("name", multiplication.name), fmt::arg("fragments", multiplication.columns / 8),
      fmt::arg("opcode", asked.opcode), fmt::arg("outputs", asked.outputs),
      fmt::arg("left0", operand(0)), fmt::arg("left1", operand(1)), fmt::arg("left2", operand(2)),
      fmt::arg("left3", operand(3)), fmt::arg("right", operand(4)),
      fmt::arg("right_by_rows", multiplication.right_by_rows));
}

}  // namespace anydim::codegen_cuda
