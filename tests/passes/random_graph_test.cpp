// Random graphs mean the same after every pass, as regions run from their loop forms, and as a
// program with its planned memory. ANYDIM_RANDOM_GRAPHS=FIRST:COUNT runs other seeds than the
// test's own.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "frontends/onnx.h"
#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"
#include "ir/text/parse_program.h"
#include "ir/text/print.h"
#include "passes/lower.h"
#include "tests/support/loop_form_interpreter.h"
#include "tests/support/pass_fixture.h"
#include "tests/support/program_runner.h"
#include "tests/support/random_graph.h"
#include "tests/support/table_backend.h"

namespace anydim::tests {
namespace {

using namespace ir;

constexpr double tolerance = 2e-3;

void check(const RandomGraph& graph, std::string& stage_of_failure) {
  const Module& plain = graph.module;
  std::vector<std::vector<Tensor>> wanted;
  stage_of_failure = "evaluate";
  for (const auto& inputs : graph.calls)
    wanted.push_back(evaluate(plain, plain.functions[0], inputs));

  Module module = plain;
  TableBackend backend;
  passes::PipelineOptions options;
  options.verify = true;
  passes::PassContext context{options, &backend};
  for (const passes::Pass& pass : passes::pipeline_passes()) {
    stage_of_failure = pass.name;
    const std::string before = print(module);
    SCOPED_TRACE("after " + std::string(pass.name) + "\n" + before);
    passes::run_passes(module, context, std::vector<std::string>{std::string(pass.name)});
    if (print(module) == before) continue;
    for (std::size_t call = 0; call < graph.calls.size(); ++call) {
      SCOPED_TRACE("call " + std::to_string(call) + " of\n" + print(module));
      expect_close(evaluate(module, module.functions[0], graph.calls[call]), wanted[call],
                   tolerance);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  SCOPED_TRACE(print(module));
  for (std::size_t call = 0; call < graph.calls.size(); ++call) {
    SCOPED_TRACE("regions, call " + std::to_string(call));
    stage_of_failure = "run_regions";
    expect_close(run_regions(module, graph.calls[call]), wanted[call], tolerance);
    if (testing::Test::HasFatalFailure()) return;
  }
  stage_of_failure = "lower";
  Program program = passes::lower(module, context);
  stage_of_failure = "parse_program";
  EXPECT_EQ(to_string(parse_program(to_string(program))), to_string(program));
  for (std::size_t call = 0; call < graph.calls.size(); ++call) {
    SCOPED_TRACE("program, call " + std::to_string(call));
    stage_of_failure = "run_program";
    expect_close(run_program(program, graph.calls[call]), wanted[call], tolerance);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(RandomGraphs, MeanTheSameAllTheWay) {
  unsigned long long first = 1, count = 150;
  if (const char* setting = std::getenv("ANYDIM_RANDOM_GRAPHS"))
    std::sscanf(setting, "%llu:%llu", &first, &count);
  for (unsigned long long seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::string stage_of_failure;
    try {
      check(random_graph(seed), stage_of_failure);
    } catch (const std::exception& error) {
      ADD_FAILURE() << stage_of_failure << ": " << error.what() << "\n"
                    << print(random_graph(seed).module);
    }
    if (HasFailure()) return;
  }
}

TEST(TinyBert, MeansTheSameAllTheWay) {
  RandomGraph model;
  model.module = frontends::read_onnx(std::filesystem::path("../models/tiny_bert.onnx"));
  const Function& main = model.module.functions[0];
  for (std::int64_t length : {1, 5}) {
    model.calls.emplace_back();
    for (ValueId parameter : main.body.parameters) {
      const bool mask = main.values[parameter].name == "attention_mask";
      Tensor input(DType::I64, {2, length});
      for (std::int64_t i = 0; i < input.elements(); ++i)
        input.set_integer(i, mask ? i == 0 || i + 2 < input.elements() : 3 * i + 1);
      model.calls.back().push_back(input);
    }
  }
  std::string stage_of_failure;
  check(model, stage_of_failure);
}

}  // namespace
}  // namespace anydim::tests
