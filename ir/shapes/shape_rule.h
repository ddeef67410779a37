// The shape rule of every op: from what is known of the operands, the result types over the dim
// algebra and what must hold.
//
// A rule never branches on an unknown number: what is undecided becomes a dim expression (select,
// min, max, broadcast) or a precondition. A dynamic op and its static twin share one rule; a static
// attribute is a constant dim there. Small integer and bool tensors are tracked as vectors of dims
// (their shape data), so shape arithmetic comes out as expressions over the symbols.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/dims/relation.h"
#include "ir/module.h"

namespace anydim::ir {

// Known elements of an integer or bool tensor (bool as 0 and 1) in row-major order, at most
// `contents_limit` of them. Rules see and give those of rank 0 and 1; of higher ranks they are only
// moved (moved_elements in ir/shapes/infer.h).
using ShapeData = std::optional<std::vector<Dim>>;
inline constexpr std::int64_t contents_limit = 1024;

// What is known of one operand. An absent optional operand has no type.
struct OperandFacts {
  const Type* type = nullptr;
  const ShapeData* shape_data = nullptr;  // may be null
  const Tensor* constant = nullptr;       // the tensor where the operand is a constant; may be null
};

struct Precondition {
  Relation relation = Relation::Equal;
  Dim left;               // what is there
  Dim right;              // what it is held against
  std::string what;       // what `left` is, for messages: "dimension 1 of operand 0"
  std::string purpose{};  // "windows of kernel shape (3, 3) to fit"; empty: the op says it
  bool operator==(const Precondition&) const = default;
};

// An extent that only the data tells: `?` at each place (result, axis) of the types, one number
// everywhere, at most `bound`.
struct Count {
  std::vector<std::pair<std::size_t, std::size_t>> places;
  Dim bound;
};

struct RuleResult {
  std::vector<Type> types;            // one a result
  std::vector<ShapeData> shape_data;  // one a result
  std::vector<Precondition> preconditions;
  std::vector<Count> counts;
};

// Writes `extent` at the count's places.
void place_count(RuleResult& result, const Count& count, const Dim& extent);
// What is known of a symbol that stands for the count.
SymbolInfo info_of(const Count& count, const SymbolTable& symbols);

// Applies the op's rule; control flow (call, if, loop, region) is inferred by ir/shapes/infer.h
// instead. `function` gives names for messages; `symbols` gives ranges for proofs and receives
// symbols that the op opens (bind, check_shape). Throws Error{Malformed} where operands or
// attributes break the op's contract, Error{Unsupported} where a rank or a needed constant isn't
// known; both name the node.
RuleResult apply_shape_rule(const Function& function, const Binding& binding,
                            std::span<const OperandFacts> operands, SymbolTable& symbols);

// What a check binding states, and the binding that states it. Relations in text: "equal",
// "broadcastable", "expands_to", "less_equal", "not_zero", "multiple_of". Throws Error{Malformed}
// for another one.
Precondition precondition_of(const Binding& check);
Binding check_of(const Precondition& precondition, const std::string& source);

// Decides a precondition from the symbols' ranges.
Proof prove(const Precondition& precondition, const SymbolTable& symbols);

// Narrows a symbol's range by what the precondition implies, e.g. seq <= 512 from a broadcast of
// seq with min(seq, 512); the range's reason is then `source` and the purpose. True when a range
// became narrower; the precondition may still need its check.
bool narrow_from(const Precondition& precondition, SymbolTable& symbols, const std::string& source);
// The same for a symbol whose lowest values the precondition rules out: of an extent, 0; of a
// sequence that convolutions shorten, all that leave no window.
bool narrow_from_below(const Precondition& precondition,
                       const std::function<bool(const std::string& symbol)>& may_narrow,
                       SymbolTable& symbols, const std::string& source);

// "dimension 1 of operand 0: expected 3 or 1, got 4".
std::string to_string(const Precondition& precondition, const Function& function);

}  // namespace anydim::ir
