// Relations by their names in texts: "equal", "broadcastable", "expands_to", "less_equal",
// "greater_equal", "not_zero", "multiple_of".
#pragma once

#include <optional>
#include <string_view>

#include "ir/dims/relation.h"

namespace anydim::ir {

std::string_view name_of(Relation relation);
std::optional<Relation> relation_named(std::string_view name);

}  // namespace anydim::ir
