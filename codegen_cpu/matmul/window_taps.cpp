#include "codegen_cpu/matmul/window_taps.h"

#include <cstddef>

#include "codegen_cpu/names.h"
#include "ir/loops/digits.h"
#include "ir/loops/scalar_program.h"

namespace anydim::codegen_cpu {

namespace {

// Shorter taps are multiplied sooner than it is known that they need not be.
constexpr std::int64_t least_depth = 32;

// The conditions without which the program's element is 0.
const std::vector<ir::step::Condition>* conditions_of(const ir::ScalarProgram& program) {
  const ir::ScalarStep* step = &program.steps.back();
  const auto operand = [&](std::size_t i) {
    return &program.steps[static_cast<std::size_t>(step->operands[i])];
  };
  while (step->applies(ir::Op::cast)) step = operand(0);
  if (!step->is<ir::step::Guarded>()) return nullptr;
  const auto* otherwise = std::get_if<ir::step::Constant>(&operand(1)->kind);
  if (otherwise == nullptr || otherwise->real != 0 || otherwise->integer != 0) return nullptr;
  return &step->as<ir::step::Guarded>().conditions;
}

}  // namespace

std::optional<WindowTaps> window_taps(const ir::ScalarProgram& program, const ir::Iteration& depth,
                                      const std::function<ir::DimLeaf()>& fresh,
                                      ir::SymbolTable& symbols) {
  if (program.steps.empty() || conditions_of(program) == nullptr) return std::nullopt;
  const std::vector<Dim> extents = ir::digit_extents(program, depth.variable, symbols);
  const auto all = depth.extent.constant(),
             of_tap = extents.empty() ? std::nullopt : extents.front().constant();
  if (!all || !of_tap || *of_tap < least_depth || *all % *of_tap != 0 || *all / *of_tap > most_taps)
    return std::nullopt;
  const ir::Digits digits = ir::split(depth, {Dim(*of_tap)}, fresh, symbols);
  const ir::ScalarProgram apart = ir::over_digits(program, digits, symbols);
  WindowTaps found{.tap = digits.digits[0], .count = *all / *of_tap, .depth = *of_tap};
  bool asks_tap = false;
  for (const ir::step::Condition& condition : *conditions_of(apart)) {
    const auto told = [&](const Dim& dim) {
      return !dim.mentions(digits.digits[1].variable) && ir::steps_mentioned(dim).empty();
    };
    if (!told(condition.left) || !told(condition.right)) continue;
    asks_tap = asks_tap || condition.left.mentions(found.tap.variable) ||
               condition.right.mentions(found.tap.variable);
    found.conditions.push_back(condition);
  }
  return asks_tap ? std::optional(std::move(found)) : std::nullopt;
}

}  // namespace anydim::codegen_cpu
