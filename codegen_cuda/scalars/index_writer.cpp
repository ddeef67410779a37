#include "codegen_cuda/scalars/index_writer.h"

#include <fmt/format.h>

#include <limits>

#include "ir/dims/affine.h"
#include "ir/error.h"

namespace anydim::codegen_cuda {

namespace {

constexpr std::int64_t int_low = std::numeric_limits<std::int32_t>::min(),
                       int_high = std::numeric_limits<std::int32_t>::max();

std::string number(std::int64_t value, bool wide) {
  if (value == std::numeric_limits<std::int64_t>::min()) return "(-9223372036854775807ll - 1)";
  const std::string text = std::to_string(value) + (wide ? "ll" : "");
  return value < 0 ? "(" + text + ")" : text;
}

std::string widened_index(const IndexVariable& part, bool wide) {
  return wide && !part.wide ? "(long long)" + part.name : part.name;
}

class Emission {
 public:
  Emission(KernelWriter& kernel, CodeScope& scope) : kernel_(kernel), scope_(scope) {}

  // `within_int`: the dim and its partial sums are known to fit 32 bits. The result's name is an
  // expression in parentheses where compound.
  IndexVariable value(const Dim& dim, bool within_int = false) {
    if (const auto constant = dim.constant()) {
      const bool wide = *constant < int_low || *constant > int_high;
      return {number(*constant, wide), wide};
    }
    if (dim.kind() == Dim::Kind::Symbol || dim.kind() == Dim::Kind::Value) return leaf(dim);
    if (dim.kind() == Dim::Kind::Sum) return sum(dim, within_int);
    CodeScope& home = home_of(scope_, dim);
    // Only there: further out the same symbols may be other variables.
    if (const auto found = home.dims.find(dim); found != home.dims.end()) return found->second;
    auto [expression, stem] = compute(dim);
    const IndexVariable variable{kernel_.fresh_numbered(stem),
                                 expression.wide && !kernel_.fits_int(dim)};
    const std::string cast = expression.wide && !variable.wide ? "(int)" : "";
    home.line("const {} {} = {}{};", index_type(variable.wide), variable.name, cast,
              expression.name);
    home.dims.emplace(dim, variable);
    return variable;
  }

  std::string compare(const ir::ScalarStep::Condition& condition) {
    const IndexVariable left = value(condition.left), right = value(condition.right);
    return "(" + left.name + " " + std::string(sign_of(condition.comparison)) + " " + right.name +
           ")";
  }

 private:
  IndexVariable leaf(const Dim& dim) {
    const IndexVariable* found = scope_.find(dim.leaf());
    internal_check(found != nullptr,
                   "the leaf " + to_string(dim.leaf()) + " of an index expression is defined");
    return *found;
  }

  // Largest magnitude of a term; saturated.
  std::int64_t magnitude(const Dim& dim) const {
    const ir::Interval interval = kernel_.interval_of(dim);
    if (interval.low == std::numeric_limits<std::int64_t>::min())
      return std::numeric_limits<std::int64_t>::max();
    return std::max(interval.high, -interval.low);
  }

  bool sum_fits(const Dim& dim) const {
    std::int64_t total = std::abs(dim.constant_part());
    for (const Dim::Term& term : dim.terms()) {
      const std::int64_t part = magnitude(as_dim(term));
      if (part > int_high || total > int_high) return false;
      total += part;
    }
    return total <= int_high;
  }

  static bool never_negative(const Dim& dim, const KernelWriter& kernel) {
    if (dim.constant_part() < 0) return false;
    for (const Dim::Term& term : dim.terms()) {
      if (term.coefficient < 0 || kernel.interval_of(as_dim(term)).low < 0) return false;
    }
    return true;
  }

  IndexVariable product(const Dim::Term& term, bool wide, bool within_int) {
    std::string text;
    for (const Dim& factor : term.factors) {
      const IndexVariable part = value(factor, within_int);
      text += (text.empty() ? widened_index(part, wide) : " * " + part.name);
    }
    const std::int64_t coefficient = term.coefficient < 0 ? -term.coefficient : term.coefficient;
    if (coefficient != 1) text += " * " + number(coefficient, coefficient > int_high);
    return {text, wide};
  }

  IndexVariable sum(const Dim& dim, bool within_int) {
    const bool fits = sum_fits(dim) || (within_int && never_negative(dim, kernel_));
    std::string text;
    for (const Dim::Term& term : dim.terms()) {
      const std::string part = product(term, !fits, within_int && fits).name;
      if (text.empty()) text = term.coefficient < 0 ? "-" + part : part;
      else text += (term.coefficient < 0 ? " - " : " + ") + part;
    }
    const std::int64_t constant = dim.constant_part();
    if (constant > 0) text += " + " + number(constant, constant > int_high);
    if (constant < 0)
      text += " - " + (constant == std::numeric_limits<std::int64_t>::min()
                           ? number(constant, true)
                           : number(-constant, -constant > int_high));
    return {"(" + text + ")", !fits};
  }

  struct Named {
    IndexVariable expression;
    std::string stem;
  };

  Named compute(const Dim& dim) {
    switch (dim.kind()) {
      case Dim::Kind::FloorDiv:
      case Dim::Kind::Mod: return divide(dim);
      case Dim::Kind::Min:
      case Dim::Kind::Max: {
        const bool least = dim.kind() == Dim::Kind::Min;
        kernel_.use("index");
        IndexVariable best = value(dim.operands()[0]);
        for (std::size_t i = 1; i < dim.operands().size(); ++i) {
          const IndexVariable next = value(dim.operands()[i]);
          const bool wide = best.wide || next.wide;
          best = {fmt::format("{}({}, {})", least ? "lesser_index" : "greater_index",
                              widened_index(best, wide), widened_index(next, wide)),
                  wide};
        }
        return {best, least ? "least" : "most"};
      }
      case Dim::Kind::Select: {
        const std::string holds = compare({dim.comparison(), dim.operands()[0], dim.operands()[1]});
        const IndexVariable then = value(dim.operands()[2]), otherwise = value(dim.operands()[3]);
        return {{fmt::format("{} ? {} : {}", holds, then.name, otherwise.name),
                 then.wide || otherwise.wide},
                "chosen"};
      }
      case Dim::Kind::Broadcast: {
        const IndexVariable a = value(dim.operands()[0]), b = value(dim.operands()[1]);
        return {{fmt::format("{} == 1 ? {} : {}", a.name, b.name, a.name), a.wide || b.wide},
                "extent"};
      }
      case Dim::Kind::Constant:
      case Dim::Kind::Symbol:
      case Dim::Kind::Value:
      case Dim::Kind::Sum: break;
    }
    internal_error("a dim with a name of its own is computed");
  }

  Named divide(const Dim& dim) {
    const bool modulo = dim.kind() == Dim::Kind::Mod;
    const Dim &dividend = dim.operands()[0], &divisor = dim.operands()[1];
    const IndexVariable a = value(dividend), b = value(divisor);
    const bool wide = a.wide || b.wide;
    const ir::Interval top = kernel_.interval_of(dividend), bottom = kernel_.interval_of(divisor);
    kernel_.use("index");
    std::string by = widened_index(b, wide);
    // Hoisted code may run where its loop would not, and the compiler may take a divisor for not 0.
    if (bottom.low <= 0 && bottom.high >= 0) by = "nonzero(" + by + ")";
    if (divisor.constant() && wide) by = "(long long)" + by;
    const bool plain = top.low >= 0 && bottom.low >= 0;
    const std::string function =
        std::string(plain ? "" : "floor_") + (modulo ? "remainder" : "quotient");
    return {{fmt::format("{}({}, {})", function, bare(widened_index(a, wide)), by), wide},
            modulo ? "rest" : "whole"};
  }

  KernelWriter& kernel_;
  CodeScope& scope_;
};

}  // namespace

std::string index_type(bool wide) { return wide ? "long long" : "int"; }

std::string counting_loop(bool wide, const std::string& counter, const std::string& first,
                          const std::string& end, const std::string& step) {
  return fmt::format("for ({type} {counter} = {first}; {counter} < {end}; {counter} += {step})",
                     fmt::arg("type", index_type(wide)), fmt::arg("counter", counter),
                     fmt::arg("first", first), fmt::arg("end", end), fmt::arg("step", step));
}

CodeScope& home_of(CodeScope& scope, const Dim& dim) {
  CodeScope* outermost = &scope;
  while (outermost->parent() != nullptr) outermost = outermost->parent();
  return ir::home_of_leaves(scope, *outermost, dim.leaves());
}

std::string bare(std::string expression) {
  if (!expression.starts_with('(') || !expression.ends_with(')')) return expression;
  int depth = 0;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    depth += expression[i] == '(' ? 1 : expression[i] == ')' ? -1 : 0;
    if (depth == 0 && i + 1 < expression.size()) return expression;
  }
  return expression.substr(1, expression.size() - 2);
}

std::string write_index(KernelWriter& kernel, CodeScope& scope, const Dim& dim) {
  return Emission(kernel, scope).value(dim).name;
}

std::string write_offset(KernelWriter& kernel, CodeScope& scope, const Dim& offset,
                         const std::vector<Dim>& dims) {
  const bool within_int = kernel.interval_of(ir::product(dims)).high <= int_high;
  return Emission(kernel, scope).value(offset, within_int).name;
}

IndexVariable name_index(KernelWriter& kernel, CodeScope& scope, const Dim& dim,
                         std::string_view stem) {
  const IndexVariable expression = Emission(kernel, scope).value(dim);
  const IndexVariable variable{kernel.fresh(stem), expression.wide};
  scope.line("const {} {} = {};", index_type(variable.wide), variable.name, bare(expression.name));
  return variable;
}

std::string write_condition(KernelWriter& kernel, CodeScope& scope,
                            const ir::ScalarStep::Condition& condition) {
  return Emission(kernel, scope).compare(condition);
}

std::string write_all_of(KernelWriter& kernel, CodeScope& scope,
                         std::span<const ir::ScalarStep::Condition> conditions) {
  std::string all;
  for (const ir::ScalarStep::Condition& condition : conditions) {
    const std::string one = write_condition(kernel, scope, condition);
    all = all.empty() ? one : "(" + all + " && " + one + ")";
  }
  return all.empty() ? "true" : all;
}

void write_where(KernelWriter& kernel, CodeScope& scope,
                 std::span<const ir::ScalarStep::Condition> conditions,
                 const std::function<void(CodeScope&)>& body) {
  if (conditions.empty()) return body(scope);
  const std::string holds = write_all_of(kernel, scope, conditions);
  kernel.block(scope, fmt::format("if ({})", bare(holds)), body);
}

}  // namespace anydim::codegen_cuda
