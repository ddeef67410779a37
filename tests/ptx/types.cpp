#include <array>
#include <utility>

#include "tests/ptx/syntax.h"

namespace anydim::ptx {
namespace {

struct TypeRow {
  std::string_view name;
  Type type;
  int bytes;
};

constexpr std::array<TypeRow, 21> type_rows{{
    {"b8", Type::b8, 1},     {"b16", Type::b16, 2},       {"b32", Type::b32, 4},
    {"b64", Type::b64, 8},   {"b128", Type::b128, 16},    {"u8", Type::u8, 1},
    {"u16", Type::u16, 2},   {"u32", Type::u32, 4},       {"u64", Type::u64, 8},
    {"s8", Type::s8, 1},     {"s16", Type::s16, 2},       {"s32", Type::s32, 4},
    {"s64", Type::s64, 8},   {"f16", Type::f16, 2},       {"f16x2", Type::f16x2, 4},
    {"bf16", Type::bf16, 2}, {"bf16x2", Type::bf16x2, 4}, {"tf32", Type::tf32, 4},
    {"f32", Type::f32, 4},   {"f64", Type::f64, 8},       {"pred", Type::pred, 1},
}};

}  // namespace

std::optional<Type> type_of(std::string_view name) {
  for (const TypeRow& row : type_rows)
    if (row.name == name) return row.type;
  return std::nullopt;
}

int type_bytes(Type type) {
  for (const TypeRow& row : type_rows)
    if (row.type == type) return row.bytes;
  return 0;
}

bool is_signed(Type type) {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}

bool is_float(Type type) {
  switch (type) {
    case Type::f16:
    case Type::f16x2:
    case Type::bf16:
    case Type::bf16x2:
    case Type::tf32:
    case Type::f32:
    case Type::f64: return true;
    default: return false;
  }
}

}  // namespace anydim::ptx
