// Graphs with their calls as text.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/random_graph.h"

namespace anydim::tests {

// As tests/ir/ops/README.md has cases, without sections: comments, INPUT lines (those of the first
// call, then of the second, and so on) and the module. Nothing is expected in writing: the
// reference evaluator says what is right.
std::string case_text(const RandomGraph& graph, const std::string& title);

struct GraphCase {
  std::string title;  // the file's name and the first comment
  RandomGraph graph;
};
// All cases of a file, separated by lines `=====`. Throws Error{Malformed}.
std::vector<GraphCase> read_cases(const std::filesystem::path& file);

}  // namespace anydim::tests
