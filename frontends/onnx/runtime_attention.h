// What importers of ONNX Runtime's attention operators share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "frontends/onnx/attention.h"
#include "frontends/onnx/node.h"

namespace anydim::frontends {

// An input or flag that Anydim does not compute. Throw Error{Unsupported} where it is there, or 1.
void refuse_operand(const Node& node, std::size_t index, std::string_view name);
void refuse_flag(Node& node, std::string_view name);

// An attribute that counts heads. Throws Error{Malformed} unless it is from 1 to 2^20.
std::int64_t head_count(Node& node, std::string_view name);
// The attribute `scale`, or one over the square root of a head's size in q, [batch, heads, rows,
// size].
double scale_of(Node& node, Value q);

// Both are given or neither. Throws Error{Malformed}.
void check_both_or_neither(const Node& node, std::string_view first_name, Value first,
                           std::string_view second_name, Value second);
// A cache [batch, heads, past, size] of the same heads as what is appended to it. Throws
// Error{Malformed}.
void check_cache(const Node& node, std::string_view name, Value cache, Value fresh);

// Adds `bias` to what is added to scores, where it is there.
void add_bias(AttentionParts& parts, Value bias);

}  // namespace anydim::frontends
