// An explanation as a page that a person looks at: where a call's time goes, beside what the
// processor allows.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "api/explain_model.h"

namespace anydim {

// Opens offline: one HTML file that refers to nothing outside of itself and runs no script.
// `explanation` goes in depth (ExplanationDepth::Deep); `facts`: names and values that the page
// begins with. Everything in both is text.
std::string explain_page(const std::string& model, const ModelExplanation& explanation,
                         const std::vector<std::pair<std::string, std::string>>& facts);

}  // namespace anydim
