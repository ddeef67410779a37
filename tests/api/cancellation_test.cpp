// Work that its caller ends: compiling, calls that loop, and what stays usable afterwards.
#include "ir/cancellation.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "api/model.h"
#include "ir/error.h"
#include "ir/text/parse.h"

namespace anydim {
namespace {

CompileOptions options_with(std::shared_ptr<const Cancellation> cancellation) {
  CompileOptions options;
  options.keep_kernels = false;
  options.background = false;
  options.threads = 1;
  options.cancellation = std::move(cancellation);
  return options;
}

ErrorKind kind_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.kind();
  }
  return ErrorKind::Internal;
}

constexpr const char* adds =
    "fn @main(%x: Tensor[(n), f32]) {\n  %y = add(%x, %x)\n  return %y\n}\n";

// Counts to %limit, one launch a turn.
constexpr const char* counts = R"(
fn @main(%limit: Tensor[(), i64], %x: Tensor[(n), f32]) {
  %r = loop(%limit, none, %x) body(%i, %on, %a) {
    %next = add(%a, %a)
    yield %on, %next
  }
  return %r
}
)";

TEST(Cancellation, ACancelledCompilationThrowsItsOwnKind) {
  const auto cancellation = std::make_shared<Cancellation>();
  cancellation->cancel();
  EXPECT_EQ(kind_of([&] { Model::compile(ir::parse(adds), options_with(cancellation)); }),
            ErrorKind::Cancelled);
  cancellation->reset();
  EXPECT_NE(Model::compile(ir::parse(adds), options_with(cancellation)), nullptr);
}

TEST(Cancellation, WhatIsAskedForAtSafePointsEndsTheWork) {
  std::atomic<int> asked = 0;
  const Cancellation cancellation([&] { return ++asked == 3; });
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t points = 0;
  while (!cancellation.cancelled()) ++points;
  EXPECT_EQ(asked, 3);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 2 * Cancellation::poll_pause);
  EXPECT_GT(points, 100);  // most of them ask nothing
  EXPECT_TRUE(cancellation.cancelled());
  EXPECT_EQ(asked, 3);
}

TEST(Cancellation, ALoopingCallEndsAndItsContextServesAgain) {
  const auto model = Model::compile(ir::parse(counts), options_with(nullptr));
  std::atomic<bool> looping = false;
  const auto cancellation = std::make_shared<Cancellation>([&] {
    looping = true;
    looping.notify_one();
    return false;
  });
  ModelContext context(model);
  context.cancel_by(cancellation);
  const ir::Tensor x = ir::Tensor::of<float>(ir::DType::F32, {2}, {1, 3});
  const auto limit = [](std::int64_t turns) {
    return ir::Tensor::of<std::int64_t>(ir::DType::I64, {}, {turns});
  };
  std::thread canceller([&] {
    looping.wait(false);
    cancellation->cancel();
  });
  EXPECT_EQ(kind_of([&] { context.run({limit(std::int64_t{1} << 60), x}); }), ErrorKind::Cancelled);
  canceller.join();
  cancellation->reset();
  const std::vector<ir::Tensor> outputs = context.run({limit(2), x});
  EXPECT_EQ(outputs.at(0).real_at(1), 12);
  EXPECT_EQ(model->statistics().calls.failed, 1);
}

TEST(Cancellation, KernelsThatFollowAreLeftForLater) {
  const auto model =
      Model::compile(ir::parse("fn @main(%x: Tensor[(n, 64), f32], %w: Tensor[(64, 64), f32]) {\n"
                               "  %y = matmul(%x, %w)\n  return %y\n}\n"),
                     options_with(nullptr));
  Cancellation cancellation;
  cancellation.cancel();
  const std::int64_t pending = model->statistics().kernels.pending;
  ASSERT_GT(pending, 0);
  EXPECT_EQ(kind_of([&] { model->complete(&cancellation); }), ErrorKind::Cancelled);
  EXPECT_EQ(model->statistics().kernels.pending, pending);
  model->complete();
  EXPECT_EQ(model->statistics().kernels.pending, 0);
}

}  // namespace
}  // namespace anydim
