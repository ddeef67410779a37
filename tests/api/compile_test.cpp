#include "api/anydim.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <thread>

#include "ir/random_seed.h"
#include "tests/runtime/temporary_folder.h"

namespace anydim {
namespace {

using ir::DType;
using ir::Tensor;

constexpr const char* encoder = R"(
fn @main(%ids: Tensor[(b, s), i64], %mask: Tensor[(b, s), f32]) -> (Tensor[(b, s, 16), f32], Tensor[(b, 16), f32])
  where b in [0, 64], s in [1, 128] {
  %table = constant(f32 (50, 16) @random(1))
  %w1 = constant(f32 (16, 48) @random(2))
  %b1 = constant(f32 (48) @random(3))
  %w2 = constant(f32 (48, 16) @random(4))
  %x = gather(%table, %ids) {axis = 0} from "/embed"
  %h = matmul(%x, %w1) from "/up"
  %hb = add(%h, %b1)
  %g = gelu(%hb)
  %d = matmul(%g, %w2) from "/down"
  %y = add(%d, %x)
  %to = shape(b, s, 1)
  %sm = dyn.reshape(%mask, %to)
  %masked = mul(%y, %sm)
  %sum = reduce_sum(%masked) {axes = (1)}
  return %y as "states", %sum as "pooled"
}
)";

// A table that every call would project again, too large for the shape arithmetic to fold.
constexpr const char* projected_table = R"(
fn @main(%ids: Tensor[(n), i64]) -> Tensor[(n, 8), f32] {
  %table = constant(f32 (90, 16) @random(1))
  %w = constant(f32 (16, 8) @random(2))
  %p = matmul(%table, %w)
  %m = softmax(%p) {axis = -1}
  %y = gather(%m, %ids) {axis = 0}
  return %y
}
)";

CompileOptions quiet() {
  CompileOptions options;
  options.threads = 2;
  options.keep_kernels = false;
  return options;
}

std::vector<Tensor> encoder_inputs(std::int64_t b, std::int64_t s, unsigned seed) {
  std::mt19937 random(seed);
  Tensor ids(DType::I64, {b, s}), mask(DType::F32, {b, s});
  for (std::int64_t i = 0; i < b * s; ++i) {
    ids.set_integer(i, static_cast<std::int64_t>(random() % 50));
    mask.set_real(i, static_cast<double>(random() % 2));
  }
  return {ids, mask};
}

void expect_close(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t o = 0; o < got.size(); ++o) {
    ASSERT_EQ(got[o].dims(), want[o].dims());
    for (std::int64_t i = 0; i < got[o].elements(); ++i)
      ASSERT_NEAR(got[o].real_at(i), want[o].real_at(i), 1e-4) << "output " << o;
  }
}

std::string failure(ErrorKind kind, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(Compile, AgreesWithTheEvaluatorAtEveryShape) {
  const ir::Module module = ir::parse(encoder);
  for (const bool bucketed : {false, true}) {
    CompileOptions options = quiet();
    options.policies = {{"", bucketed ? Policy::Bucketed : Policy::Symbolic}};
    const auto executable = compile(module, options);
    executable->kernels().complete();
    EXPECT_EQ(executable->kernels().progress().failed, 0);
    runtime::Context context(executable);
    unsigned seed = 0;
    for (const auto& [b, s] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {1, 1}, {1, 7}, {3, 16}, {2, 65}, {64, 2}, {0, 5}, {5, 128}}) {
      const std::vector<Tensor> inputs = encoder_inputs(b, s, ++seed);
      expect_close(context.run(inputs), evaluate_reference(module, inputs));
    }
  }
}

TEST(Compile, WhatConstantsDecideIsComputedOnce) {
  const ir::Module module = ir::parse(projected_table);
  for (const bool skipped : {false, true}) {
    CompileOptions options = quiet();
    options.policies = {
        {"gather_0", Policy::Symbolic}};  // the names of regions are those of the calls'
    if (skipped) options.policies.clear();
    if (skipped) options.skipped_passes = {"compute_constants"};
    const auto executable = compile(module, options);
    EXPECT_EQ(executable->program().kernels.size() > 1, skipped);
    const std::vector<Tensor> inputs{Tensor::of<std::int64_t>(DType::I64, {3}, {0, 49, 7})};
    expect_close(runtime::Context(executable).run(inputs), evaluate_reference(module, inputs));
  }
}

TEST(Compile, EveryProcessorLevelAgrees) {
  const ir::Module module = ir::parse(encoder);
  const std::vector<Tensor> inputs = encoder_inputs(2, 9, 1);
  for (const char* level : {"x86-64", "avx2", "avx512"}) {
    CompileOptions options = quiet();
    options.cpu_level = level;
    std::shared_ptr<const runtime::Executable> executable;
    try {
      executable = compile(module, options);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::Resource) << error.what();
      continue;  // this processor lacks it
    }
    expect_close(runtime::Context(executable).run(inputs), evaluate_reference(module, inputs));
  }
}

TEST(Compile, ThreadsShareAnExecutable) {
  const ir::Module module = ir::parse(encoder);
  const auto executable = compile(module, quiet());
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      runtime::Context context(executable);
      for (unsigned i = 0; i < 10; ++i) {
        const std::vector<Tensor> inputs = encoder_inputs(1 + t, 1 + 5 * i, t * 100 + i);
        expect_close(context.run(inputs), evaluate_reference(module, inputs));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Compile, WarmStartCompilesNothing) {
  const test::TemporaryFolder folder;
  CompileOptions options = quiet();
  options.keep_kernels = true;
  options.cache_folder = folder.path() / "cache";
  std::vector<std::string> warnings;
  options.warn = [&](const std::string& message) { warnings.push_back(message); };
  compile(ir::parse(encoder), options)->kernels().complete();
  const auto executable = compile(ir::parse(encoder), options);
  const runtime::KernelProgress progress = executable->kernels().progress();
  EXPECT_EQ(progress.compiler_calls, 0);
  EXPECT_EQ(progress.from_cache, progress.entries);
  EXPECT_EQ(progress.pending, 0);
  EXPECT_EQ(warnings, std::vector<std::string>());
  const std::vector<Tensor> inputs = encoder_inputs(2, 9, 1);
  expect_close(runtime::Context(executable).run(inputs),
               evaluate_reference(ir::parse(encoder), inputs));
}

TEST(Compile, NarrowedDimsAreKept) {
  CompileOptions options = quiet();
  options.dims = {{"s", 1, 32, 8}};
  runtime::Context context(compile(ir::parse(encoder), options));
  context.run(encoder_inputs(1, 16, 1));
  EXPECT_NE(failure(ErrorKind::Inputs, [&] { context.run(encoder_inputs(1, 33, 1)); })
                .find("--dim s=1:32"),
            std::string::npos);
  failure(ErrorKind::Inputs, [&] { context.run(encoder_inputs(1, 15, 1)); });
}

TEST(Compile, OutputsAreChosenByName) {
  CompileOptions options = quiet();
  options.outputs = {"pooled"};
  const auto executable = compile(ir::parse(encoder), options);
  ASSERT_EQ(executable->program().entry().outputs.size(), 1u);
  EXPECT_EQ(runtime::Context(executable).run(encoder_inputs(2, 3, 1))[0].dims(),
            (std::vector<std::int64_t>{2, 16}));
}

TEST(Compile, PolicyOfAnUnknownRegionIsRefused) {
  CompileOptions options = quiet();
  options.policies = {{"no_such_region", Policy::Symbolic}};
  EXPECT_TRUE(
      failure(ErrorKind::CommandLine, [&] { compile(ir::parse(encoder), options); })
          .starts_with(
              "policy of the region 'no_such_region': the program has no such region; it has "));
}

TEST(Compile, CallsAreExplained) {
  const auto executable = compile(ir::parse(encoder), quiet());
  executable->kernels().complete();
  runtime::Context context(executable);
  const CallExplanation call = explain_call(context, encoder_inputs(2, 3, 1), 2);
  EXPECT_EQ(call.symbols, (std::vector<std::pair<std::string, std::int64_t>>{{"b", 2}, {"s", 3}}));
  ASSERT_FALSE(call.launches.empty());
  for (const LaunchExplanation& launch : call.launches) {
    EXPECT_FALSE(launch.region.empty());
    EXPECT_FALSE(launch.schedule.empty());
    EXPECT_GT(launch.measured_seconds, 0);
    EXPECT_EQ(launch.kernel, "compiled now: the cache lacked it");
  }
  EXPECT_EQ(call.memory.outputs, 4 * (2 * 3 * 16 + 2 * 16));
}

TEST(ArrangeInputs, DrawARandomSeedThatIsLeftOut) {
  const std::vector<InputInfo> inputs{
      {.name = std::string(ir::random_seed_parameter), .dtype = DType::I64, .dims = {}}};
  const std::int64_t one = arrange_inputs(inputs, {})[0].integer_at(0),
                     other = arrange_inputs(inputs, {})[0].integer_at(0);
  EXPECT_NE(one, other);
  const Tensor given = Tensor::of(DType::I64, {}, std::vector<std::int64_t>{4});
  EXPECT_EQ(arrange_inputs(inputs, {{inputs[0].name, given}})[0].integer_at(0), 4);
}

TEST(ArrangeInputs, NamesWhatDoesNotFit) {
  const std::vector<InputInfo> inputs = inputs_of(ir::parse(encoder).functions[0]);
  const std::string listed = "ids: i64 (b, s); mask: f32 (b, s)";
  const Tensor ids(DType::I64, {1, 2}), mask(DType::F32, {1, 2});
  EXPECT_EQ(arrange_inputs(inputs, {{"mask", mask}, {"ids", ids}})[0].dtype(), DType::I64);
  EXPECT_EQ(failure(ErrorKind::Inputs, [&] { arrange_inputs(inputs, {{"ids", ids}}); }),
            "input 'mask' is missing; the model's inputs are " + listed);
  EXPECT_EQ(failure(ErrorKind::Inputs,
                    [&] { arrange_inputs(inputs, {{"ids", ids}, {"mask", mask}, {"x", ids}}); }),
            "the model has no input 'x'; its inputs are " + listed);
  EXPECT_EQ(
      failure(ErrorKind::Inputs, [&] { arrange_inputs(inputs, {{"ids", mask}, {"mask", mask}}); }),
      "input 'ids' does not fit: expected i64 (b, s), got f32 (1, 2)");
  EXPECT_EQ(
      failure(ErrorKind::Inputs,
              [&] { arrange_inputs(inputs, {{"ids", Tensor(DType::I64, {2})}, {"mask", mask}}); }),
      "input 'ids' does not fit: expected i64 (b, s), got i64 (2)");
}

TEST(Specialize, ShapesAreFixedEverywhere) {
  ir::Module module = ir::parse(encoder);
  fix_shapes(module, {parse_input_shape("ids=2x?")});
  EXPECT_EQ(to_string(inputs_of(module.functions[0])[1]), "mask: f32 (2, s)");
  EXPECT_EQ(
      failure(ErrorKind::Inputs, [&] { fix_shapes(module, {parse_input_shape("mask=3x?")}); }),
      "--shape: dimension 0 of input 'mask' cannot be 3: the model demands 2");
  EXPECT_EQ(
      failure(ErrorKind::Inputs, [&] { fix_shapes(module, {parse_input_shape("mask=2x129")}); }),
      "--shape: dimension 1 of input 'mask' cannot be 129: 's' is in [1, 128]");
  EXPECT_EQ(failure(ErrorKind::Inputs,
                    [&] {
                      fix_shapes(module,
                                 {parse_input_shape("mask=2x4"), parse_input_shape("ids=2x5")});
                    }),
            "--shape: dimension 1 of input 'ids' cannot be 5: 's' is 4 in another place");
  EXPECT_EQ(
      failure(ErrorKind::CommandLine, [&] { fix_shapes(module, {parse_input_shape("ids=2")}); }),
      "--shape: input 'ids' has rank 2, but 1 extents are given");
  EXPECT_EQ(
      failure(ErrorKind::CommandLine, [&] { fix_shapes(module, {parse_input_shape("x=2")}); }),
      "--shape: the model has no input 'x'; its inputs are ids, mask");
}

TEST(Specialize, MalformedShapesAreRefused) {
  for (const char* text : {"", "x", "=2", "x=2x", "x=x2", "x=a", "x=-1", "x=2y3"}) {
    EXPECT_EQ(failure(ErrorKind::CommandLine, [&] { parse_input_shape(text); }),
              "--shape " + std::string(text) +
                  " is not NAME=EXTENTxEXTENT..., e.g. input_ids=2x?x7 ('?': as the model has it)");
  }
  EXPECT_TRUE(parse_input_shape("scalar=").dims.empty());
}

TEST(Specialize, UnknownAndEmptyDimsAreRefused) {
  ir::Module module = ir::parse(encoder);
  EXPECT_EQ(failure(ErrorKind::CommandLine, [&] { narrow_dims(module, {{"t", 1, 2, 1}}); }),
            "--dim: the model's inputs have no dimension 't'; they have b, s");
  EXPECT_EQ(failure(ErrorKind::CommandLine, [&] { narrow_dims(module, {{"s", 200, 300, 1}}); }),
            "--dim: 's' cannot be in [200, 300]: the model has it in [1, 128]");
}

TEST(System, NothingIsMissingHere) {
  for (const Finding& finding : examine_system(quiet()))
    EXPECT_FALSE(finding.missing) << finding.name << ": " << finding.value;
}

}  // namespace
}  // namespace anydim
