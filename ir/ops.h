// The table of ops: one row an op in ir/ops.def gives the enum, names, arity, attributes and
// traits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace anydim::ir {

enum class Op : std::uint16_t {
#define ANYDIM_OP(name, ...) name,
#include "ir/ops.def"
#undef ANYDIM_OP
};

// Bits of OpInfo::traits.
namespace traits {
enum Trait : unsigned {
  none = 0,
  // each result element depends on the operands' elements at the (broadcast) same index
  elementwise = 1u << 0,
  commutative = 1u << 1,
  compares = 1u << 2,  // elementwise with bool results
  logical = 1u << 3,   // elementwise on bool
  moves = 1u << 4,     // result elements are operand elements (or a fill value) at computed indices
  reduces = 1u << 5,   // reduces over axes
  composite = 1u << 6,  // has an expansion into primitive ops (ir/expand.h)
  dynamic = 1u << 7,    // "dyn." twin: shape-deciding operands are tensors
  control = 1u << 8,    // holds blocks or calls
  literal = 1u << 9,    // no tensor operands; result known from attributes or dims
  reshapes = 1u << 10,  // moves, keeping every element in its row-major place: only the dims change
  // the count of result elements is a symbol of its own, which only the data tells
  opens = 1u << 11,
  // the main step of a kernel that others are fused into; so is whatever reduces
  anchors = 1u << 12,
  notable = 1u << 13,  // a kernel is named after it; so it is after composites and reductions
  // moves by renaming elements of operand 0, an index expression where it is read; so does whatever
  // reshapes
  views = 1u << 14,
  // moves, and costs nothing where it is read, though it is no view: fills, borders
  costless = 1u << 15,
  // takes less time to compute again than to read; so does whatever moves, compares or is logical
  cheap = 1u << 16,
};
// An operand below 6 that a kernel reads before its loops, so that it lies in memory.
constexpr unsigned before_loops(std::size_t operand) { return 1u << (20 + operand); }
// An operand below 6 that the host reads as one integer.
constexpr unsigned on_host(std::size_t operand) { return 1u << (26 + operand); }
}  // namespace traits

// Which scalar ops cost about the same; each device says how much.
enum class Cost : std::uint8_t {
  simple,  // an instruction or a few, and all that computes no element of its own
  division,
  remainder,
  root,
  exponential,
  logistic,
  tangent,
  error_function,
  periodic,  // and other functions that take about as long
  power,
};

struct OpInfo {
  Op op;
  std::string_view text;  // name in the text form; dynamic twins start with "dyn."
  int minimum_operands;
  int maximum_operands;  // -1: any number
  int results;           // -1: given by the binding
  Cost cost;
  unsigned traits;
  std::string_view attributes;  // "axis:int=-1 epsilon:real" : name, kind (int real string ints
                                // reals dtype tensor), default if optional
  // Any of these traits.
  bool has(unsigned trait) const { return (traits & trait) != 0; }
  bool reads_before_loops(std::size_t operand) const {
    return operand < 6 && has(traits::before_loops(operand));
  }
  bool reads_on_host(std::size_t operand) const {
    return operand < 6 && has(traits::on_host(operand));
  }
};

// One attribute of a row, parsed from OpInfo::attributes.
struct AttributeInfo {
  enum class Kind : std::uint8_t { Integer, Real, String, Integers, Reals, DType, Tensor };
  std::string_view name;
  Kind kind = Kind::Integer;
  bool optional = false;                         // may be absent (`?`, or has a default)
  std::optional<std::string_view> default_text;  // as written after `=`
};

const OpInfo& info(Op op);
std::span<const AttributeInfo> attributes_of(Op op);
// The op's attribute of that name; null where it has none.
const AttributeInfo* find_attribute(Op op, std::string_view name);
std::span<const OpInfo> all_ops();
std::optional<Op> op_named(std::string_view text);
// The static op of a dynamic one and the other way round, by name; nullopt where there is none.
std::optional<Op> static_twin(Op op);
std::optional<Op> dynamic_twin(Op op);
// The attributes that a dynamic op takes as operands: those that only its static twin has, in the
// table's order.
std::vector<AttributeInfo> literal_attributes(Op dynamic);
// First operand of a dynamic op that decides its shape: those before it are its static twin's.
std::size_t first_shape_operand(Op op);

}  // namespace anydim::ir
