// Choices of policies as text: a line `policy @region exact` each.
#pragma once

#include <string>
#include <vector>

#include "ir/policy.h"
#include "ir/text/lexer.h"

namespace anydim::ir {

std::string print(const std::vector<PolicyChoice>& policies);
PolicyChoice read_policy_choice(TokenStream& tokens);  // behind the word `policy`

}  // namespace anydim::ir
