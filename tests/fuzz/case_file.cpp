#include "tests/fuzz/case_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "tests/ir/op_file.h"

namespace anydim::tests {

using namespace ir;

std::string case_text(const RandomGraph& graph, const std::string& title) {
  const Function& main = graph.module.functions[0];
  std::string text = fmt::format("// {}\n", title);
  for (const auto& inputs : graph.calls)
    for (std::size_t i = 0; i < inputs.size(); ++i)
      text += fmt::format("// INPUT {} = {}\n", main.values[main.body.parameters[i]].name,
                          print(inputs[i]));
  return text + print(graph.module);
}

std::vector<GraphCase> read_cases(const std::filesystem::path& file) {
  std::vector<GraphCase> cases;
  for (const ir::test::OpCase& one : ir::test::read_op_file(file).cases) {
    GraphCase read;
    read.title = fmt::format("{}: {}", file.filename().string(),
                             one.source.substr(0, one.source.find('\n')));
    read.graph.module = parse(one.source);
    const Function& main = read.graph.module.functions[0];
    const std::size_t parameters = main.body.parameters.size();
    if (parameters == 0) read.graph.calls.emplace_back();
    if (parameters > 0 && one.inputs.size() % parameters != 0)
      throw Error(ErrorKind::Malformed, fmt::format("{}: {} INPUT lines for {} parameters",
                                                    read.title, one.inputs.size(), parameters));
    for (std::size_t first = 0; first < one.inputs.size(); first += parameters) {
      std::map<std::string, Tensor> call;
      for (std::size_t i = first; i < first + parameters; ++i)
        call.insert_or_assign(one.inputs[i].first, one.inputs[i].second);
      read.graph.calls.emplace_back();
      for (ValueId parameter : main.body.parameters) {
        const auto found = call.find(main.values[parameter].name);
        if (found == call.end())
          throw Error(ErrorKind::Malformed, fmt::format("{}: a call lacks INPUT {}", read.title,
                                                        main.values[parameter].name));
        read.graph.calls.back().push_back(found->second);
      }
    }
    cases.push_back(std::move(read));
  }
  return cases;
}

}  // namespace anydim::tests
