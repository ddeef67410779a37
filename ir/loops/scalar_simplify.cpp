#include "ir/loops/scalar_simplify.h"

#include <algorithm>
#include <cstdlib>

#include "ir/error.h"

namespace anydim::ir {

namespace {

Simplified compared(Comparison comparison, const Dim& left, const Dim& right,
                    const SymbolTable& symbols) {
  switch (prove(comparison, left, right, symbols)) {
    case Proof::Yes: return true;
    case Proof::No: return false;
    case Proof::Unknown: return {};
  }
  return {};
}

bool not_negative(const Dim& dim, const SymbolTable& symbols) {
  return prove_less_equal(0, dim, symbols) == Proof::Yes;
}

// Whether a coefficient is larger than what strides and steps have. Sizes and their products are
// sizes of tensors, and far from the limits of i64.
bool is_scaled(const Dim& dim) {
  constexpr std::int64_t large = 1 << 20;
  if (std::abs(dim.constant_part()) >= large) return true;
  if (dim.kind() == Dim::Kind::Sum)
    return std::ranges::any_of(
        dim.terms(), [](const Dim::Term& term) { return std::abs(term.coefficient) >= large; });
  return false;
}

// A dim is exact where i64 wraps: numbers that may leave the limits are left to the run.
template <typename Arithmetic>
Simplified exact(const SymbolTable& symbols, Arithmetic arithmetic) {
  try {
    const Dim dim = arithmetic();
    const Interval range = bounds(dim, symbols);
    if ((range.low == Interval{}.low || range.high == Interval{}.high) && is_scaled(dim)) return {};
    return simplify(dim, symbols);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Inputs) throw;
    return {};  // constants whose sum or product has no 64-bit value
  }
}

Simplified on_integers(Op op, const Dim& a, const Dim& b, const SymbolTable& symbols) {
  switch (op) {
    case Op::add: return exact(symbols, [&] { return a + b; });
    case Op::sub: return exact(symbols, [&] { return a - b; });
    case Op::mul: return exact(symbols, [&] { return a * b; });
    case Op::min: return simplify(min(a, b), symbols);
    case Op::max: return simplify(max(a, b), symbols);
    case Op::div:
    case Op::mod:
      // Truncation and floor agree where neither side is negative.
      if (!not_negative(a, symbols) || prove_less(0, b, symbols) != Proof::Yes) return {};
      return simplify(op == Op::div ? floor_div(a, b) : mod(a, b), symbols);
    case Op::equal: return compared(Comparison::Equal, a, b, symbols);
    case Op::less: return compared(Comparison::Less, a, b, symbols);
    case Op::less_equal: return compared(Comparison::LessEqual, a, b, symbols);
    case Op::greater: return compared(Comparison::Less, b, a, symbols);
    case Op::greater_equal: return compared(Comparison::LessEqual, b, a, symbols);
    default: return {};
  }
}

Simplified on_bools(Op op, std::span<const ScalarStep* const> operands) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    std::optional<bool> known = known_bool(*operands[i]);
    if (!known) continue;
    if (op == Op::logical_not) return !*known;
    std::size_t other = 1 - i;
    if (op == Op::logical_and) return *known ? Simplified(Forwarded{other}) : Simplified(false);
    if (op == Op::logical_or) return *known ? Simplified(true) : Simplified(Forwarded{other});
  }
  return {};
}

}  // namespace

std::optional<Dim> known_integer(const ScalarStep& step) {
  if (step.dtype != DType::I64) return std::nullopt;
  if (step.is<step::Extent>()) return step.as<step::Extent>().value;
  if (step.is<step::Constant>()) return Dim(step.as<step::Constant>().integer);
  return std::nullopt;
}

bool is_never_zero(const ScalarStep& step, const SymbolTable& symbols) {
  if (const auto* constant = std::get_if<step::Constant>(&step.kind)) return constant->integer != 0;
  const auto* extent = std::get_if<step::Extent>(&step.kind);
  return extent && prove_less(0, extent->value, symbols) == Proof::Yes;
}

std::optional<bool> known_bool(const ScalarStep& step) {
  if (step.dtype != DType::Bool || !step.is<step::Constant>()) return std::nullopt;
  return step.as<step::Constant>().integer != 0;
}

Simplified simplify_step(Op op, DType to, std::span<const ScalarStep* const> operands,
                         const SymbolTable& symbols) {
  if (op == Op::cast) {
    if (operands[0]->dtype == to) return Forwarded{0};
    auto known = known_integer(*operands[0]);
    // Exact in f64, and in f32 up to 2^24.
    if (known && known->is_constant() && (to == DType::F32 || to == DType::F64) &&
        std::abs(*known->constant()) <= (1 << 24))
      return static_cast<double>(*known->constant());
    return known && to == DType::Bool ? compared(Comparison::NotEqual, *known, 0, symbols)
                                      : Simplified();
  }
  if (op == Op::bitcast) return operands[0]->dtype == to ? Forwarded{0} : Simplified();
  if (op == Op::where) {
    std::optional<bool> condition = known_bool(*operands[0]);
    return condition ? Simplified(Forwarded{*condition ? 1u : 2u}) : Simplified();
  }
  if (info(op).has(traits::logical)) return on_bools(op, operands);
  if (operands.size() == 1) {
    auto known = known_integer(*operands[0]);
    return known && op == Op::neg ? exact(symbols, [&] { return Dim(0) - *known; }) : Simplified();
  }
  if (operands.size() != 2) return {};
  auto a = known_integer(*operands[0]), b = known_integer(*operands[1]);
  return a && b ? on_integers(op, *a, *b, symbols) : Simplified();
}

}  // namespace anydim::ir
