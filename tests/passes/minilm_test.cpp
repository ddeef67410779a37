// What the passes make of a real export: tests/models/minilm.onnx, without its weights' file.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "frontends/onnx.h"
#include "passes/pass.h"
#include "tests/support/pass_fixture.h"

namespace anydim::tests {
namespace {

using namespace ir;

// The model beside a file of zeros in place of its weights: the passes read no element of a large
// weight.
class MiniLm : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("anydim_minilm_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    std::filesystem::copy_file("../models/minilm.onnx", folder_ / "minilm.onnx",
                               std::filesystem::copy_options::overwrite_existing);
    std::ofstream(folder_ / "model.safetensors").close();
    std::filesystem::resize_file(folder_ / "model.safetensors", weight_bytes);
    module_ = frontends::read_onnx(folder_ / "minilm.onnx");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void run(const std::string& last) {
    passes::PipelineOptions options;
    options.verify = true;
    passes::PassContext context{options};
    std::vector<std::string> names;
    for (const passes::Pass& pass : passes::pipeline_passes()) {
      names.emplace_back(pass.name);
      if (pass.name == last) break;
    }
    passes::run_passes(module_, context, names);
    unresolved_ = context.unresolved;
  }

  static constexpr std::uintmax_t weight_bytes = 200 << 20;
  std::filesystem::path folder_;
  Module module_;
  std::vector<std::string> unresolved_;
};

TEST_F(MiniLm, NoShapeArithmeticIsLeft) {
  run("dead_code");
  EXPECT_TRUE(unresolved_.empty()) << unresolved_[0];
  const Function& main = module_.functions[0];
  std::set<ValueId> literals;
  for (const Binding& binding : main.body.bindings) {
    EXPECT_NE(binding.op, Op::shape_of) << describe(main, binding);
    if (info(binding.op).has(traits::literal))
      literals.insert(binding.results.begin(), binding.results.end());
    if (info(binding.op).has(traits::dynamic))
      for (std::size_t i = binding.op == Op::dyn_arange ? 0 : 1; i < binding.operands.size(); ++i)
        EXPECT_TRUE(binding.operands[i] == no_value || literals.contains(binding.operands[i]))
            << describe(main, binding);
    // Vectors of integers that are computed and read nothing but literals could have been folded (a
    // range is as short as it gets).
    for (ValueId result : binding.results) {
      const TensorType& type = main.tensor_type(result);
      if (info(binding.op).has(traits::literal) || binding.op == Op::dyn_arange ||
          type.dtype != DType::I64 || type.rank() > 1)
        continue;
      bool computed = std::any_of(binding.operands.begin(), binding.operands.end(),
                                  [&](ValueId id) { return !literals.contains(id); });
      EXPECT_TRUE(computed) << describe(main, binding);
    }
  }
}

TEST_F(MiniLm, SixLayersAreFiveKernelsEach) {
  run("fuse");
  std::size_t launches = 0;
  for (const Binding& binding : module_.functions[0].body.bindings)
    launches += binding.op == Op::region;
  EXPECT_EQ(module_.regions.size(), 10u);
  EXPECT_EQ(launches, 35u);
}

TEST_F(MiniLm, CompositesHaveTheirNames) {
  run("recognise_composites");
  std::map<Op, int> count;
  for (const Binding& binding : module_.functions[0].body.bindings) ++count[binding.op];
  EXPECT_EQ(count[Op::attention], 6);
  EXPECT_EQ(count[Op::gelu], 6);
  EXPECT_EQ(count[Op::layer_norm], 13);
  EXPECT_EQ(count[Op::softmax], 0);
  EXPECT_EQ(count[Op::erf], 0);
}

TEST_F(MiniLm, QueryKeyAndValueAreOneProduct) {
  run("merge_products");
  int products = 0;
  for (const Binding& binding : module_.functions[0].body.bindings)
    products += binding.op == Op::matmul;
  EXPECT_EQ(products, 6 * 4);
}

}  // namespace
}  // namespace anydim::tests
