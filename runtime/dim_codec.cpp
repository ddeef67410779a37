#include "runtime/dim_codec.h"

#include "ir/error.h"

namespace anydim::runtime {

namespace {

constexpr int maximum_depth = 200;

[[noreturn]] void malformed() {
  throw Error(ErrorKind::Malformed, "the bytes of a dim contradict themselves");
}

}  // namespace

void ByteWriter::text(std::string_view text) {
  number(static_cast<std::uint32_t>(text.size()));
  raw({reinterpret_cast<const std::byte*>(text.data()), text.size()});
}

void ByteWriter::dim(const ir::Dim& dim) {
  using Kind = ir::Dim::Kind;
  number(static_cast<std::uint8_t>(dim.kind()));
  switch (dim.kind()) {
    case Kind::Constant: number(*dim.constant()); return;
    case Kind::Symbol: text(dim.leaf().symbol); return;
    case Kind::Value:
      number(dim.leaf().value);
      number(dim.leaf().element);
      return;
    case Kind::Sum:
      number(dim.constant_part());
      number(static_cast<std::uint32_t>(dim.terms().size()));
      for (const ir::Dim::Term& term : dim.terms()) {
        number(term.coefficient);
        number(static_cast<std::uint32_t>(term.factors.size()));
        for (const ir::Dim& factor : term.factors) this->dim(factor);
      }
      return;
    case Kind::Select: number(static_cast<std::uint8_t>(dim.comparison())); [[fallthrough]];
    case Kind::FloorDiv:
    case Kind::Mod:
    case Kind::Min:
    case Kind::Max:
    case Kind::Broadcast:
      number(static_cast<std::uint32_t>(dim.operands().size()));
      for (const ir::Dim& operand : dim.operands()) this->dim(operand);
      return;
  }
}

std::span<const std::byte> ByteReader::raw(std::size_t bytes) {
  if (bytes > rest_.size()) malformed();
  const auto taken = rest_.first(bytes);
  rest_ = rest_.subspan(bytes);
  return taken;
}

std::string ByteReader::text() {
  const auto bytes = raw(number<std::uint32_t>());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

ir::Dim ByteReader::dim(int depth) {
  using Kind = ir::Dim::Kind;
  if (depth > maximum_depth) malformed();
  const auto kind = number<std::uint8_t>();
  if (kind > static_cast<std::uint8_t>(Kind::Broadcast)) malformed();
  switch (static_cast<Kind>(kind)) {
    case Kind::Constant: return number<std::int64_t>();
    case Kind::Symbol: {
      std::string name = text();
      if (name.empty()) malformed();
      return ir::Dim::symbol(std::move(name));
    }
    case Kind::Value: {
      const auto value = number<ir::ValueId>();
      return ir::Dim::value(value, number<std::int64_t>());
    }
    case Kind::Sum: {
      ir::Dim sum = number<std::int64_t>();
      const auto terms = number<std::uint32_t>();
      for (std::uint32_t i = 0; i < terms; ++i) {
        ir::Dim term = number<std::int64_t>();
        const auto factors = number<std::uint32_t>();
        for (std::uint32_t j = 0; j < factors; ++j) term = term * dim(depth + 1);
        sum = sum + term;
      }
      return sum;
    }
    case Kind::Select:
    case Kind::FloorDiv:
    case Kind::Mod:
    case Kind::Min:
    case Kind::Max:
    case Kind::Broadcast: break;
  }
  const bool select = static_cast<Kind>(kind) == Kind::Select;
  const std::uint8_t comparison = select ? number<std::uint8_t>() : 0;
  const auto count = number<std::uint32_t>();
  const bool folds = static_cast<Kind>(kind) == Kind::Min || static_cast<Kind>(kind) == Kind::Max;
  if (comparison > static_cast<std::uint8_t>(ir::Comparison::LessEqual) || (select  ? count != 4
                                                                            : folds ? count < 2
                                                                                    : count != 2))
    malformed();
  std::vector<ir::Dim> operands;
  for (std::uint32_t i = 0; i < count; ++i) operands.push_back(dim(depth + 1));
  if (select)
    return ir::select(static_cast<ir::Comparison>(comparison), operands[0], operands[1],
                      operands[2], operands[3]);
  ir::Dim result = operands[0];
  for (std::uint32_t i = 1; i < count; ++i) {
    switch (static_cast<Kind>(kind)) {
      case Kind::FloorDiv: result = ir::floor_div(result, operands[i]); break;
      case Kind::Mod: result = ir::mod(result, operands[i]); break;
      case Kind::Min: result = ir::min(result, operands[i]); break;
      case Kind::Max: result = ir::max(result, operands[i]); break;
      case Kind::Broadcast: result = ir::broadcast(result, operands[i]); break;
      case Kind::Constant:
      case Kind::Symbol:
      case Kind::Value:
      case Kind::Sum:
      case Kind::Select: malformed();
    }
  }
  return result;
}

}  // namespace anydim::runtime
