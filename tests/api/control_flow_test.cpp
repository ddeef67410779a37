// Control flow, executors and policies on the compiled path.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "api/anydim.h"
#include "ir/reference/evaluate.h"
#include "ir/shapes/infer.h"

namespace anydim {
namespace {

using ir::DType;
using ir::Tensor;

CompileOptions quiet() {
  CompileOptions options;
  options.threads = 2;
  options.keep_kernels = false;
  return options;
}

Tensor reals(std::vector<std::int64_t> dims, std::vector<double> elements) {
  return Tensor::of(DType::F32, std::move(dims), elements);
}
Tensor integer(std::int64_t value) { return Tensor::of<std::int64_t>(DType::I64, {}, {value}); }

Tensor ramp(std::vector<std::int64_t> dims) {
  Tensor tensor(DType::F32, std::move(dims));
  for (std::int64_t i = 0; i < tensor.elements(); ++i)
    tensor.set_real(i, 0.25 * static_cast<double>(i % 13) - 1);
  return tensor;
}

std::string failure(ErrorKind kind, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

constexpr const char* countdown = R"(
fn @main(%x: Tensor[(n), f32], %m: Tensor[(), i64]) {
  %y = call @down(%x, %m)
  return %y
}
fn @down(%x: Tensor[(n), f32], %m: Tensor[(), i64]) -> Tensor[(n), f32] {
  %zero = constant(i64 () [0])
  %more = greater(%m, %zero)
  %y = if(%more) then {
    %one = constant(i64 () [1])
    %less = sub(%m, %one)
    %next = add(%x, constant(f32 () [1]))
    %r = call @down(%next, %less) from "/again"
    yield %r
  } else {
    yield %x
  }
  return %y
})";

TEST(ControlFlow, ARecursionTenThousandDeepWorksAndOneWithoutEndSaysSo) {
  runtime::Context context(compile(ir::parse(countdown), quiet()));
  EXPECT_EQ(context.run({reals({2}, {1, 2}), integer(10'000)})[0].real_at(1), 10'002);
  EXPECT_EQ(failure(ErrorKind::Resource,
                    [&] { context.run({reals({2}, {1, 2}), integer(1'000'000'000)}); }),
            "call '/again' (%r): calls nest more than 200000 deep");
  EXPECT_EQ(context.run({reals({1}, {5}), integer(3)})[0].real_at(0), 8);
}

TEST(ControlFlow, ValuesWithoutABoundStayWithinTheMemoryLimit) {
  CompileOptions options = quiet();
  options.memory_limit = std::int64_t{1} << 20;
  runtime::Context context(compile(ir::parse(R"(
fn @main(%x: Tensor[(n), f32], %m: Tensor[(), i64]) {
  %y = loop(%m, none, %x) body(%i, %on, %a) {
    %b = concat(%a, %a) {axis = 0}
    yield %on, %b
  }
  return %y
})"),
                                   options));
  EXPECT_EQ(context.executable().program().unbounded, "loop (%y)");
  EXPECT_EQ(context.run({ramp({4}), integer(10)})[0].dims(), std::vector<std::int64_t>{4096});
  const std::string message =
      failure(ErrorKind::Resource, [&] { context.run({ramp({4}), integer(40)}); });
  EXPECT_NE(message.find("over the memory limit of 1048576 bytes"), std::string::npos) << message;
  EXPECT_EQ(context.run({ramp({4}), integer(2)})[0].dims(), std::vector<std::int64_t>{16});
}

// A step's result is written where the scanned result has it, where kernels may write there: rows
// of 16 numbers lie at multiples of 64 bytes, of 5 they do not. The state that an iteration hands
// on lies there too, and stays as it was.
TEST(ControlFlow, ScannedElementsAreTheStatesThatIterationsHandOn) {
  ir::Module module = ir::parse(R"(
fn @main(%x: Tensor[(n, d), f32], %steps: Tensor[(t, n, d), f32], %limit: Tensor[(), i64]) where n in [0, 9], d in [0, 64], t in [0, 9] {
  %trips = dim(t)
  %last, %all, %again, %squares = loop(%trips, none, %x) body(%i, %on, %a) {
    %now = gather(%steps, %i) {axis = 0}
    %s = sub(%now, %a)
    %b = tanh(%s)
    %c = mul(%b, %a)
    yield %on, %b, %b, %b, %c
  }
  %end, %some = loop(%trips, none, %x) body(%j, %go, %p) {
    %q = neg(%p)
    %r = add(%q, %x)
    %more = less(%j, %limit)
    yield %more, %r, %r
  }
  return %last, %all, %again, %squares, %end, %some
})");
  runtime::Context context(compile(module, quiet()));
  ir::infer_types(module);
  for (const std::int64_t d : {16, 5, 64}) {
    for (const std::int64_t t : {0, 1, 7}) {
      const std::vector<Tensor> inputs{ramp({3, d}), ramp({t, 3, d}), integer(2)};
      const std::vector<Tensor> expected = ir::evaluate(module, module.functions[0], inputs),
                                results = context.run(inputs);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(results[i].dims(), expected[i].dims()) << "result " << i;
        for (std::int64_t e = 0; e < expected[i].elements(); ++e)
          ASSERT_NEAR(results[i].real_at(e), expected[i].real_at(e), 1e-5)
              << "element " << e << " of result " << i << " for " << t << " x 3 x " << d;
      }
    }
  }
}

TEST(ControlFlow, AnArgumentOfUnknownDimsIsCheckedOnceAtItsCall) {
  ir::Module module = ir::parse(R"(
fn @main(%x: Tensor[(?, ?), f32]) {
  %a = call @f(%x) from "/first"
  %b = call @f(%x) from "/second"
  %c = add(%a, %b)
  return %c
}
fn @f(%p: Tensor[(10, 10), f32]) {
  %q = softmax(%p)
  return %q
})");
  runtime::Context context(compile(module, quiet()));
  std::size_t checks = 0;
  for (const ir::Program::Stage& stage : context.executable().program().stages)
    checks += stage.checks.size();
  EXPECT_EQ(checks, 2u) << "one a dimension";
  EXPECT_EQ(context.run({ramp({10, 10})})[0].dims(), (std::vector<std::int64_t>{10, 10}));
  EXPECT_EQ(
      failure(ErrorKind::Inputs, [&] { context.run({ramp({10, 9})}); }),
      "check_shape '/first' (%x_checked): dimension 1 of parameter %p of @f: expected 10, got 9");
}

constexpr const char* block = R"(
fn @main(%x: Tensor[(n, 16), f32]) where n in [0, 512] {
  %w = constant(f32 (16, 32) @random(1))
  %h = matmul(%x, %w) from "/up"
  %g = gelu(%h)
  %y = softmax(%g) {axis = 1}
  return %y
})";

TEST(StaticPrograms, GiveWhatTheDynamicOneGives) {
  ir::Module module = ir::parse(block);
  fix_shapes(module, {{"x", {7, std::nullopt}}});
  CompileOptions options = quiet();
  options.static_only = true;
  runtime::Context fixed(compile(module, options)), dynamic(compile(ir::parse(block), quiet()));
  const std::vector<Tensor> inputs{ramp({7, 16})};
  const Tensor wanted = dynamic.run(inputs)[0];
  for (int round = 0; round < 2; ++round) {
    const Tensor got = fixed.run(inputs)[0];
    ASSERT_EQ(got.dims(), wanted.dims());
    for (std::int64_t i = 0; i < got.elements(); ++i)
      ASSERT_NEAR(got.real_at(i), wanted.real_at(i), 1e-5);
  }
  EXPECT_NE(failure(ErrorKind::Inputs, [&] { fixed.run({ramp({8, 16})}); }), "");
}

TEST(StaticPrograms, TheFirstOpThatIsNotStaticIsRefused) {
  CompileOptions options = quiet();
  options.static_only = true;
  const std::string message =
      failure(ErrorKind::Unsupported, [&] { compile(ir::parse(block), options); });
  EXPECT_NE(message.find("'/up' has dims s0 = n"), std::string::npos) << message;
  const std::string control =
      failure(ErrorKind::Unsupported, [&] { compile(ir::parse(countdown), options); });
  EXPECT_NE(control.find("static programs only"), std::string::npos) << control;
}

TEST(Policies, GiveEqualResultsAndExactSpecialises) {
  const std::vector<Tensor> inputs{ramp({33, 16})};
  const Tensor wanted = runtime::Context(compile(ir::parse(block), quiet())).run(inputs)[0];
  for (const Policy policy : {Policy::Symbolic, Policy::Bucketed, Policy::Exact}) {
    CompileOptions options = quiet();
    options.policies = {{"", policy}};
    auto executable = compile(ir::parse(block), options);
    runtime::Context context(executable);
    context.record_launches(true);
    for (int round = 0; round < 2; ++round) {
      const Tensor got = context.run(inputs)[0];
      for (std::int64_t i = 0; i < got.elements(); ++i)
        ASSERT_NEAR(got.real_at(i), wanted.real_at(i), 1e-5) << name_of(policy);
      executable->kernels().complete();
    }
    EXPECT_EQ(context.launches()[0].exact != nullptr, policy == Policy::Exact);
    EXPECT_EQ(!executable->kernels().exact().list().empty(), policy == Policy::Exact);
  }
}

TEST(Policies, ATextBringsItsOwnAndOptionsWinOverIt) {
  std::string two = block;
  two.replace(two.find("return"), 6, "%z = reduce_sum(%y) {axes = (0)}\n  return %z,");
  const std::vector<Tensor> inputs{ramp({33, 16})};
  // Which regions a second call served by a kernel for its sizes alone.
  const auto special = [&](const std::string& text, const CompileOptions& options) {
    auto executable = compile(ir::parse(text), options);
    runtime::Context context(executable);
    context.run(inputs);
    executable->kernels().complete();
    context.record_launches(true);
    context.run(inputs);
    std::set<std::string> names;
    for (const runtime::LaunchRecord& launch : context.launches())
      if (launch.exact != nullptr)
        names.insert(
            executable->program().kernels.at(static_cast<std::size_t>(launch.kernel)).region.name);
    return names;
  };
  const auto kernels = compile(ir::parse(two), quiet())->program().kernels;
  ASSERT_EQ(kernels.size(), 2u);
  const std::string a = kernels[0].region.name, b = kernels[1].region.name;
  using Names = std::set<std::string>;
  EXPECT_EQ(special(two, quiet()), Names{});
  EXPECT_EQ(special("policy exact" + two, quiet()), (Names{a, b}));
  EXPECT_EQ(special("policy @" + b + " exact" + two, quiet()), Names{b});
  CompileOptions options = quiet();
  options.policies = {{a, Policy::Bucketed}};
  EXPECT_EQ(special("policy exact" + two, options), Names{b});
  options.policies = {{"", Policy::Symbolic}};
  EXPECT_EQ(special("policy @" + b + " exact" + two, options), Names{});
  EXPECT_TRUE(failure(ErrorKind::CommandLine, [&] {
                compile(ir::parse("policy @up exact" + two), quiet());
              }).starts_with("policy of the region 'up': the program has no such region; it has "));
}

TEST(Policies, ExactKeepsABoundedNumber) {
  CompileOptions options = quiet();
  options.policies = {{"", Policy::Exact}};
  auto executable =
      compile(ir::parse("fn @main(%x: Tensor[(n), f32]) { %y = relu(%x) return %y }"), options);
  runtime::Context context(executable);
  for (std::int64_t n = 1; n <= static_cast<std::int64_t>(runtime::ExactKernels::most) + 20; ++n)
    context.run({ramp({n})});
  executable->kernels().complete();
  EXPECT_LE(executable->kernels().exact().list().size(), runtime::ExactKernels::most);
}

}  // namespace
}  // namespace anydim
