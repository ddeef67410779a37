// The inputs of a call as a command line gives them: numbers from files, and made-up numbers of a
// shape.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/anydim.h"
#include "api/sample_inputs.h"

namespace CLI {
class App;
}

namespace anydim::tools {

// "NAME=FILE.npy" or "NAME=FILE.pb" each. Throws Error{CommandLine} for other words and names that
// come twice, Error{Malformed} for files.
NamedTensors read_inputs(const std::vector<std::string>& arguments);

struct CallOptions {
  std::vector<std::string> shapes, inputs;
  bool empty() const { return shapes.empty() && inputs.empty(); }
};
void add_shape_option(CLI::App& command, std::vector<std::string>& shapes);
void add_call_options(CLI::App& command, CallOptions& options);

// Made before the module is compiled.
class GivenCall {
 public:
  // `command` for messages. Throws what read_inputs throws, and Error{CommandLine} and
  // Error{Inputs} for shapes that the module does not have or that contradict each other.
  GivenCall(const CallOptions& options, const ir::Module& module, std::string_view command);

  // Every dim of every input, in the order of `inputs`. Throws Error{CommandLine} naming what no
  // shape tells.
  std::vector<std::vector<std::int64_t>> extents(const std::vector<InputInfo>& inputs) const;
  // The same for the inputs of what serves the call: the model, or its general().
  std::vector<std::vector<std::int64_t>> extents(const Model& model) const;
  // In the order of Model::inputs(): the files' numbers, else made up, the same on every machine
  // (api/sample_inputs.h). Throws as extents() and arrange_inputs do.
  std::vector<ir::Tensor> tensors(const Model& served) const;

 private:
  std::map<std::string, std::int64_t> symbols(const std::vector<InputInfo>& inputs) const;
  // `model` itself, or its general(), which lives as long.
  const Model& serving(const Model& model) const;

  std::string command_;
  NamedTensors given_;
  std::vector<InputShape> shapes_;
  SampleInputs samples_;
};

}  // namespace anydim::tools
