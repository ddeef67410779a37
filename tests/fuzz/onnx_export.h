// Graphs as ONNX models, for other evaluators of the same graph.
#pragma once

#include <filesystem>
#include <string>

#include "tests/support/random_graph.h"

namespace anydim::tests {

struct OnnxExport {
  std::string bytes{};   // a model of opset 18; empty: no export
  std::string reason{};  // the op, attribute or literal that has no ONNX form here
};
OnnxExport to_onnx(const RandomGraph& graph);

// Laid out like ONNX's node tests: model.onnx, and test_data_set_N/input_I.pb and output_I.pb for
// call N, the outputs by the reference evaluator. The reason why there is nothing, or "".
std::string write_onnx_test(const RandomGraph& graph, const std::filesystem::path& folder);

}  // namespace anydim::tests
