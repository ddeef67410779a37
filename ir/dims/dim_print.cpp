// Dims as text. The grammar, which the parser of the text form reads back:
//   sum     := ["-"] product (("+" | "-") product)*
//   product := factor ("*" factor)*
//   factor  := integer | symbol (quoted where its name needs it) | call | "(" sum ")"
//   call    := ("floor_div" | "ceil_div" | "mod" | "broadcast") "(" sum "," sum ")"
//            | ("min" | "max") "(" sum ("," sum)+ ")"
//            | "select" "(" sum ("==" | "!=" | "<" | "<=") sum "," sum "," sum ")"
//            | "value" "(" tensor "," integer ")"
#include <fmt/format.h>

#include <algorithm>

#include "ir/dims/dim_node.h"
#include "ir/error.h"
#include "ir/quote.h"

namespace anydim::ir {

using namespace detail;

namespace {

class Printer {
 public:
  explicit Printer(const std::function<std::string(ValueId)>& name_of) : name_of_(name_of) {}

  std::string text(const Dim& dim) {
    print(dim);
    return std::move(out_);
  }

 private:
  void leaf(const DimLeaf& leaf) {
    if (leaf.is_loop()) out_ += fmt::format("${}{}", static_cast<char>(leaf.value), leaf.element);
    else if (leaf.is_step())
      out_ += leaf.value == 0 ? fmt::format("#{}", leaf.element)
                              : fmt::format("#{}.{}", leaf.value, leaf.element);
    else out_ += symbol_text(leaf.symbol);
  }

  void print(const Dim& dim) {
    switch (dim.kind()) {
      case Dim::Kind::Constant: out_ += std::to_string(dim.constant_part()); return;
      case Dim::Kind::Symbol: leaf(dim.leaf()); return;
      case Dim::Kind::Value:
        out_ += fmt::format(
            "value({}, {})",
            name_of_ ? name_of_(dim.leaf().value) : fmt::format("%{}", dim.leaf().value),
            dim.leaf().element);
        return;
      case Dim::Kind::Sum: sum(dim); return;
      case Dim::Kind::FloorDiv: {
        if (rounds_up(dim)) {
          out_ += '-';
          rounded_up(dim);
          return;
        }
        const Dim& a = dim.operands()[0];
        const Dim& b = dim.operands()[1];
        // A numerator rounded up to a constant divisor: floor_div(n + 7, 8) is ceil_div(n, 8).
        if (a.kind() == Dim::Kind::Sum && b.is_constant() && b.constant_part() > 1 &&
            a.constant_part() == b.constant_part() - 1 &&
            reads_back(dim, [&] { return ceil_div(make_sum({a.terms(), 0}), b); })) {
          call("ceil_div", {make_sum({a.terms(), 0}), b});
        } else {
          call("floor_div", dim.operands());
        }
        return;
      }
      case Dim::Kind::Mod: call("mod", dim.operands()); return;
      case Dim::Kind::Min: call("min", dim.operands()); return;
      case Dim::Kind::Max: call("max", dim.operands()); return;
      case Dim::Kind::Broadcast: call("broadcast", dim.operands()); return;
      case Dim::Kind::Select: select(dim); return;
    }
    internal_error("a dim is of one of the kinds");
  }

  void call(std::string_view name, const std::vector<Dim>& operands) {
    out_ += name;
    out_ += '(';
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (i != 0) out_ += ", ";
      print(operands[i]);
    }
    out_ += ')';
  }

  void select(const Dim& dim) {
    out_ += "select(";
    print(dim.operands()[0]);
    out_ += " " + std::string(sign_of(dim.comparison())) + " ";
    print(dim.operands()[1]);
    out_ += ", ";
    print(dim.operands()[2]);
    out_ += ", ";
    print(dim.operands()[3]);
    out_ += ')';
  }

  // Whether the other spelling makes the same dim: canonical form is not always reached from both.
  template <typename Make>
  static bool reads_back(const Dim& dim, Make&& make) {
    try {
      return make() == dim;
    } catch (const Error&) {
      return false;
    }
  }

  // floor_div(-a, b), which is written -ceil_div(a, b).
  static bool rounds_up(const Dim& factor) {
    if (factor.kind() != Dim::Kind::FloorDiv) return false;
    const Dim& a = factor.operands()[0];
    const auto negative = [](const Dim::Term& term) {
      return term.coefficient < 0 && term.coefficient != INT64_MIN;
    };
    const bool all_negative = a.is_constant()
                                  ? a.constant_part() < 0 && a.constant_part() != INT64_MIN
                                  : a.kind() == Dim::Kind::Sum && a.constant_part() <= 0 &&
                                        a.constant_part() != INT64_MIN &&
                                        std::ranges::all_of(a.terms(), negative);
    return all_negative &&
           reads_back(factor, [&] { return Dim(0) - ceil_div(Dim(0) - a, factor.operands()[1]); });
  }

  void rounded_up(const Dim& quotient) {
    call("ceil_div", {Dim(0) - quotient.operands()[0], quotient.operands()[1]});
  }

  void sum(const Dim& dim) {
    bool first = true;
    for (const Dim::Term& term : dim.terms()) {
      // The least coefficient has no positive counterpart to be written with.
      const auto turned = term.coefficient == INT64_MIN
                              ? term.factors.end()
                              : std::ranges::find_if(term.factors, rounds_up);
      const bool minus = (term.coefficient < 0) != (turned != term.factors.end());
      if (!first) out_ += minus ? " - " : " + ";
      else if (minus) out_ += '-';
      first = false;
      const auto coefficient = static_cast<std::uint64_t>(term.coefficient);
      const std::uint64_t magnitude = term.coefficient < 0 ? 0 - coefficient : coefficient;
      if (magnitude != 1) out_ += fmt::format("{}*", magnitude);
      for (auto factor = term.factors.begin(); factor != term.factors.end(); ++factor) {
        if (factor != term.factors.begin()) out_ += '*';
        if (factor == turned) rounded_up(*factor);
        else if (rounds_up(*factor)) call("floor_div", factor->operands());
        else print(*factor);
      }
    }
    const std::int64_t constant = dim.constant_part();
    if (constant > 0) out_ += fmt::format(" + {}", constant);
    if (constant < 0) out_ += fmt::format(" - {}", 0 - static_cast<std::uint64_t>(constant));
  }

  const std::function<std::string(ValueId)>& name_of_;
  std::string out_;
};

}  // namespace

std::string Dim::to_string(const std::function<std::string(ValueId)>& name_of) const {
  return Printer(name_of).text(*this);
}

}  // namespace anydim::ir
