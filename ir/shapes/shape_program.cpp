#include "ir/shapes/shape_program.h"

#include <algorithm>
#include <array>
#include <limits>

#include "ir/error.h"

namespace anydim::ir {

ShapeInterpreter::ShapeInterpreter(const ShapeProgram& program) {
  std::map<Dim, std::int32_t> known;
  for (const Dim& expression : program.expressions) {
    outputs_.push_back(add(program, expression, known));
    ready_.push_back(static_cast<std::int32_t>(instructions_.size()));
  }
}

std::int32_t ShapeInterpreter::add(const ShapeProgram& program, const Dim& dim,
                                   std::map<Dim, std::int32_t>& known) {
  if (const auto found = known.find(dim); found != known.end()) return found->second;
  Instruction instruction{.kind = dim.kind()};
  switch (dim.kind()) {
    case Dim::Kind::Constant: instruction.constant = *dim.constant(); break;
    case Dim::Kind::Symbol:
    case Dim::Kind::Value: {
      const auto leaf = std::find(program.leaves.begin(), program.leaves.end(), dim.leaf());
      if (leaf == program.leaves.end())
        internal_error("a shape program's expressions mention only its leaves: " + dim.to_string());
      instruction.a = static_cast<std::int32_t>(leaf - program.leaves.begin());
      break;
    }
    case Dim::Kind::Sum: {
      instruction.constant = dim.constant_part();
      std::vector<Term> terms;
      for (const Dim::Term& part : dim.terms()) {
        std::vector<std::int32_t> factors;
        for (const Dim& factor : part.factors) factors.push_back(add(program, factor, known));
        terms.push_back({part.coefficient, static_cast<std::int32_t>(factors_.size()),
                         static_cast<std::int32_t>(factors.size())});
        factors_.insert(factors_.end(), factors.begin(), factors.end());
      }
      instruction.a = static_cast<std::int32_t>(terms_.size());
      instruction.b = static_cast<std::int32_t>(terms.size());
      terms_.insert(terms_.end(), terms.begin(), terms.end());
      break;
    }
    case Dim::Kind::Min:
    case Dim::Kind::Max: {
      // Two at a time.
      std::int32_t best = add(program, dim.operands().front(), known);
      for (std::size_t i = 1; i < dim.operands().size(); ++i) {
        instruction.a = best;
        instruction.b = add(program, dim.operands()[i], known);
        if (i + 1 == dim.operands().size()) break;
        best = static_cast<std::int32_t>(instructions_.size());
        instructions_.push_back(instruction);
      }
      break;
    }
    case Dim::Kind::FloorDiv:
    case Dim::Kind::Mod:
    case Dim::Kind::Broadcast:
      instruction.a = add(program, dim.operands()[0], known);
      instruction.b = add(program, dim.operands()[1], known);
      break;
    case Dim::Kind::Select:
      instruction.comparison = dim.comparison();
      instruction.a = add(program, dim.operands()[0], known);
      instruction.b = add(program, dim.operands()[1], known);
      instruction.c = add(program, dim.operands()[2], known);
      instruction.d = add(program, dim.operands()[3], known);
      break;
  }
  const auto position = static_cast<std::int32_t>(instructions_.size());
  instructions_.push_back(instruction);
  known.emplace(dim, position);
  return position;
}

ShapeInterpreter::Register ShapeInterpreter::sum(const Instruction& instruction,
                                                 const Register* registers) const {
  __int128 total = instruction.constant;
  bool failed = false;
  for (std::int32_t i = 0; i < instruction.b; ++i) {
    const Term& term = terms_[static_cast<std::size_t>(instruction.a + i)];
    std::int64_t product = term.coefficient;
    for (std::int32_t k = 0; k + 1 < term.count; ++k) {
      const Register& factor = registers[factors_[static_cast<std::size_t>(term.first + k)]];
      failed |= factor.failed;
      failed |= __builtin_mul_overflow(product, factor.value, &product);
    }
    const Register& last =
        registers[factors_[static_cast<std::size_t>(term.first + term.count - 1)]];
    failed |= last.failed;
    failed |= __builtin_add_overflow(total, static_cast<__int128>(product) * last.value, &total);
  }
  failed |= total > std::numeric_limits<std::int64_t>::max() ||
            total < std::numeric_limits<std::int64_t>::min();
  return {static_cast<std::int64_t>(total), failed};
}

ShapeInterpreter::Register ShapeInterpreter::execute(const Instruction& instruction,
                                                     std::span<const std::int64_t> leaves,
                                                     const Register* registers) const {
  const auto at = [&](std::int32_t position) -> const Register& { return registers[position]; };
  switch (instruction.kind) {
    case Dim::Kind::Constant: return {instruction.constant, false};
    case Dim::Kind::Symbol:
    case Dim::Kind::Value: return {leaves[static_cast<std::size_t>(instruction.a)], false};
    case Dim::Kind::Sum: return sum(instruction, registers);
    case Dim::Kind::FloorDiv:
    case Dim::Kind::Mod: {
      const auto [a, a_failed] = at(instruction.a);
      const auto [b, b_failed] = at(instruction.b);
      const bool modulo = instruction.kind == Dim::Kind::Mod;
      if (b == 0 || a_failed || b_failed) return {0, true};
      if (b == -1) {
        if (modulo) return {0, false};
        return {static_cast<std::int64_t>(-static_cast<std::uint64_t>(a)),
                a == std::numeric_limits<std::int64_t>::min()};
      }
      const std::int64_t rest = a % b;
      const bool off = rest != 0 && (rest < 0) != (b < 0);
      return {modulo ? rest + (off ? b : 0) : a / b - (off ? 1 : 0), false};
    }
    case Dim::Kind::Min:
      return {std::min(at(instruction.a).value, at(instruction.b).value),
              at(instruction.a).failed || at(instruction.b).failed};
    case Dim::Kind::Max:
      return {std::max(at(instruction.a).value, at(instruction.b).value),
              at(instruction.a).failed || at(instruction.b).failed};
    case Dim::Kind::Select: {
      const bool chosen =
          holds(instruction.comparison, at(instruction.a).value, at(instruction.b).value);
      const Register& result = at(chosen ? instruction.c : instruction.d);
      return {result.value, at(instruction.a).failed || at(instruction.b).failed || result.failed};
    }
    case Dim::Kind::Broadcast: {
      const Register& first = at(instruction.a);
      return first.failed || first.value != 1 ? first : at(instruction.b);
    }
  }
  internal_error("a dim is of one of the kinds");
}

std::int32_t ShapeInterpreter::run(std::span<const std::int64_t> leaves,
                                   std::span<std::int64_t> values) const {
  std::array<Register, 128> few;
  std::vector<Register> many(instructions_.size() > few.size() ? instructions_.size() : 0);
  Register* registers = many.empty() ? few.data() : many.data();
  std::int32_t next = 0;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    for (; next < ready_[i]; ++next)
      registers[next] = execute(instructions_[static_cast<std::size_t>(next)], leaves, registers);
    const Register& result = registers[outputs_[i]];
    if (result.failed) return static_cast<std::int32_t>(i);
    values[i] = result.value;
  }
  return -1;
}

}  // namespace anydim::ir
