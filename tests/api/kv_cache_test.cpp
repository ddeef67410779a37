// Results that are appended to inputs in place, held against calls that are given and give them.
#include "api/kv_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "api/model.h"
#include "ir/error.h"
#include "ir/text/parse.h"

namespace anydim {
namespace {

// One layer of a decoder: two heads of width 4, keys and values of earlier rows given.
constexpr const char* decoder = R"(
fn @main(%x: Tensor[(b, s, 8), f32], %past_key: Tensor[(b, 2, p, 4), f32],
         %past_value: Tensor[(b, 2, p, 4), f32]) where b in [0, 4], s in [0, 64], p in [0, 200] {
  %wq = constant(f32 (8, 8) @random(1))
  %wk = constant(f32 (8, 8) @random(2))
  %wv = constant(f32 (8, 8) @random(3))
  %q4 = dyn.reshape(matmul(%x, %wq), shape(b, s, 2, 4))
  %k4 = dyn.reshape(matmul(%x, %wk), shape(b, s, 2, 4))
  %v4 = dyn.reshape(matmul(%x, %wv), shape(b, s, 2, 4))
  %q = transpose(%q4) {perm = (0, 2, 1, 3)}
  %k = transpose(%k4) {perm = (0, 2, 1, 3)}
  %v = transpose(%v4) {perm = (0, 2, 1, 3)}
  %key = concat(%past_key, %k) {axis = 2}
  %value = concat(%past_value, %v) {axis = 2}
  %turned = transpose(%key) {perm = (0, 1, 3, 2)}
  %scores = matmul(%q, %turned)
  %weights = softmax(%scores) {axis = -1}
  %y = matmul(%weights, %value)
  return %y, %key, %value
}
)";

std::shared_ptr<const Model> compiled(const std::string& text, bool in_place, int threads = 2) {
  CompileOptions options;
  options.keep_kernels = false;
  options.background = false;
  options.threads = threads;
  options.append_in_place = in_place;
  return Model::compile(ir::parse(text), options);
}

// Compiled once: tests call it through contexts of their own.
const std::shared_ptr<const Model>& decoding() {
  static const std::shared_ptr<const Model> model = compiled(decoder, true);
  return model;
}

ir::Tensor numbers(std::vector<std::int64_t> dims, unsigned seed) {
  std::mt19937 random(seed);
  ir::Tensor tensor(ir::DType::F32, std::move(dims));
  for (float& element : tensor.mutable_as<float>())
    element = std::uniform_real_distribution<float>(-2, 2)(random);
  return tensor;
}

ir::Tensor rows(std::int64_t batch, std::int64_t count, unsigned seed) {
  return numbers({batch, count, 8}, seed);
}

void expect_near(const ir::Tensor& got, const ir::Tensor& expected) {
  ASSERT_EQ(got.dtype(), expected.dtype());
  ASSERT_EQ(got.dims(), expected.dims());
  for (std::int64_t i = 0; i < got.elements(); ++i)
    ASSERT_NEAR(got.real_at(i), expected.real_at(i), 1e-6) << "element " << i;
}

std::string message_of(const std::function<void()>& work, ErrorKind kind) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  ADD_FAILURE() << "expected an error";
  return {};
}

// The calls of a sequence with a cache, and without one.
class Sequences {
 public:
  Sequences(const std::string& text, std::int64_t batch)
      : cached_(compiled(text, true)), plain_(compiled(text, false)), cache_(*cached_),
        cached_context_(cached_), plain_context_(plain_) {
    for (const ir::Dim& dim : plain_->inputs()[1].dims)
      empty_.push_back(dim.is_constant()             ? *dim.constant()
                       : dim == ir::Dim::symbol("b") ? batch
                                                     : 0);
    key_ = ir::Tensor(ir::DType::F32, empty_);
    value_ = ir::Tensor(ir::DType::F32, empty_);
  }

  void step(const ir::Tensor& x) {
    const auto expected = plain_context_.run({x, key_, value_});
    const auto got = cached_context_.run(cache_, {x});
    ASSERT_EQ(got.size(), 1u);
    expect_near(got[0], expected[0]);
    key_ = expected[1];
    value_ = expected[2];
    expect_near(cache_.tensor("past_key"), key_);
    expect_near(cache_.tensor("value"), value_);
  }

  KvCache& cache() { return cache_; }

 private:
  std::shared_ptr<const Model> cached_, plain_;
  KvCache cache_;
  ModelContext cached_context_, plain_context_;
  std::vector<std::int64_t> empty_;
  ir::Tensor key_, value_;
};

TEST(KvCache, GrowsStepByStep) {
  Sequences sequences(decoder, 3);
  unsigned seed = 1;
  // A prompt, single rows, none, a draft of several, beyond the memory of the beginning and again.
  for (const std::int64_t count : {7, 1, 1, 0, 3, 52, 1, 1, 40, 64, 1}) {
    sequences.step(rows(3, count, ++seed));
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(sequences.cache().length(), 171);
  EXPECT_EQ(sequences.cache().length("key"), 171);
}

TEST(KvCache, KeepsItsMemoryUntilThatIsFull) {
  KvCache cache(*decoding());
  ModelContext context(decoding());
  EXPECT_EQ(cache.bytes(), 0);
  cache.reserve(150);
  context.run(cache, {rows(2, 1, 1)});
  const std::int64_t held = cache.bytes();
  EXPECT_EQ(held, 2 * (2 * 2 * 150 * 4) * 4);
  for (int i = 1; i < 150; ++i) context.run(cache, {rows(2, 1, 1)});
  EXPECT_EQ(cache.bytes(), held);
  context.run(cache, {rows(2, 1, 1)});
  EXPECT_EQ(cache.bytes(), 2 * (2 * 2 * 264 * 4) * 4);  // no more than the model can take
  cache.truncate(0);
  context.run(cache, {rows(2, 1, 1)});
  EXPECT_EQ(cache.length(), 1);
  EXPECT_EQ(cache.bytes(), 2 * (2 * 2 * 264 * 4) * 4);
}

TEST(KvCache, WhatIsForgottenIsWrittenAnew) {
  KvCache cache(*decoding()), other(*decoding());
  ModelContext context(decoding());
  context.run(cache, {rows(1, 9, 1)});
  context.run(cache, {rows(1, 4, 2)});
  cache.truncate(9);
  const auto got = context.run(cache, {rows(1, 2, 3)});
  context.run(other, {rows(1, 9, 1)});
  expect_near(got[0], context.run(other, {rows(1, 2, 3)})[0]);
  expect_near(cache.tensor("key"), other.tensor("key"));
  cache.truncate(100);
  EXPECT_EQ(cache.length(), 11);
  EXPECT_EQ(message_of([&] { cache.truncate(-1); }, ErrorKind::Inputs),
            "the length of a cache is at least 0, got -1");
}

TEST(KvCache, BeginsWithTensorsOfTheCallers) {
  KvCache cache(*decoding()), other(*decoding());
  ModelContext context(decoding());
  context.run(cache, {rows(2, 5, 1)});
  other.set("past_key", cache.tensor("key"));
  other.set("value", cache.tensor("past_value"));
  EXPECT_EQ(other.length(), 5);
  expect_near(context.run(other, {rows(2, 1, 2)})[0], context.run(cache, {rows(2, 1, 2)})[0]);
  EXPECT_EQ(message_of([&] { other.set("key", rows(1, 1, 1)); }, ErrorKind::Inputs),
            "'key' does not fit: expected f32 (b, 2, p, 4), got f32 (1, 1, 8)");
  EXPECT_EQ(message_of([&] { other.set("x", rows(1, 1, 1)); }, ErrorKind::Inputs),
            "nothing is appended to 'x'; what is appended to is past_key, past_value");
}

TEST(KvCache, WithoutOneACallGivesAllResults) {
  const std::shared_ptr<const Model> plain = compiled(decoder, false);
  const auto past = [](unsigned seed) { return numbers({2, 2, 6, 4}, seed); };
  const std::vector<ir::Tensor> inputs{rows(2, 3, 1), past(2), past(3)};
  ModelContext context(decoding()), plain_context(plain);
  const auto got = context.run(inputs), expected = plain_context.run(inputs);
  ASSERT_EQ(got.size(), 3u);
  for (std::size_t i = 0; i < got.size(); ++i) expect_near(got[i], expected[i]);
  EXPECT_TRUE(inputs[1].same_bits(past(2))) << "the caller's tensors are read and not written";
  ir::Tensor key(ir::DType::F32, {2, 2, 9, 4});
  const std::vector<ResultPlace> places{
      {}, {.dtype = ir::DType::F32, .dims = key.dims(), .bytes = key.mutable_bytes()}};
  context.run(inputs, places);
  expect_near(key, expected[1]);
}

TEST(KvCache, ResultsBesideItGoWhereTheyAreWanted) {
  KvCache cache(*decoding()), other(*decoding());
  ModelContext context(decoding());
  ir::Tensor y(ir::DType::F32, {1, 2, 3, 4});
  const std::vector<ResultPlace> places{
      {.dtype = ir::DType::F32, .dims = y.dims(), .bytes = y.mutable_bytes()}};
  const auto got = context.run(cache, {rows(1, 3, 1)}, places);
  EXPECT_EQ(got[0].bytes().data(), y.bytes().data());
  expect_near(y, context.run(other, {rows(1, 3, 1)})[0]);
}

TEST(KvCache, StaysAsItIsWhereACallFails) {
  KvCache cache(*decoding());
  ModelContext context(decoding());
  context.run(cache, {rows(2, 5, 1)});
  const ir::Tensor before = cache.tensor("key");
  EXPECT_EQ(message_of([&] { context.run(cache, {rows(3, 1, 1)}); }, ErrorKind::Inputs),
            "input 'past_key', dimension 0 (b): expected 3 as in input 'x', dimension 0, got 2.");
  EXPECT_EQ(message_of([&] { context.run(cache, {rows(2, 65, 1)}); }, ErrorKind::Inputs),
            "input 'x', dimension 1 (s): expected at most 64, got 65.");
  EXPECT_EQ(message_of([&] { context.run(cache, {}); }, ErrorKind::Inputs),
            "expected 1 inputs beside the cache, got 0");
  EXPECT_EQ(cache.length(), 5);
  EXPECT_TRUE(cache.tensor("key").same_bits(before));
  context.run(cache, {rows(2, 1, 1)});
  EXPECT_EQ(cache.length(), 6);
}

TEST(KvCache, BelongsToItsModel) {
  KvCache cache(*compiled(decoder, true));
  ModelContext context(decoding());
  EXPECT_EQ(message_of([&] { context.run(cache, {rows(1, 1, 1)}); }, ErrorKind::Inputs),
            "the cache is another model's");
  EXPECT_EQ(
      message_of([&] { KvCache none(*compiled(decoder, false)); }, ErrorKind::Unsupported),
      "the model was compiled without append_in_place, so that nothing is appended to a cache");
}

// Appended along the first, a middle and the last axis of what has two more.
TEST(KvCache, AnyAxis) {
  for (const std::size_t axis : {0u, 1u, 2u}) {
    std::vector<std::string> past{"3", "b", "5"};
    past.insert(past.begin() + static_cast<std::ptrdiff_t>(axis), "p");
    std::vector<std::string> more = past;
    more[axis] = "s";
    const std::string text = fmt::format(
        "fn @main(%x: Tensor[({0}), f32], %past_key: Tensor[({1}), f32], "
        "%past_value: Tensor[({1}), f32]) where b in [0, 9], s in [0, 100], p in [0, 900] {{\n"
        "  %more = relu(%x)\n"
        "  %key = concat(%past_key, %more) {{axis = {2}}}\n"
        "  %value = concat(%past_value, %x) {{axis = {2}}}\n"
        "  %y = reduce_sum(%key) {{axes = ({2})}}\n"
        "  return %y, %key, %value\n}}\n",
        fmt::join(more, ", "), fmt::join(past, ", "), axis);
    SCOPED_TRACE(text);
    Sequences sequences(text, 4);
    for (const std::int64_t count : {1, 30, 0, 1, 64, 2}) {
      std::vector<std::int64_t> shape{3, 4, 5};
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), count);
      sequences.step(numbers(shape, 7));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(KvCache, ModelsThatAppendNothing) {
  const auto refusal = [](const std::string& body) {
    return message_of(
        [&] {
          compiled("fn @main(%x: Tensor[(n, 4), f32], %y: Tensor[(m, 4), f32]) {\n" + body + "}\n",
                   true);
        },
        ErrorKind::Unsupported);
  };
  const std::string expected =
      "append_in_place was asked for, but no result of the model is one of its inputs with "
      "something appended to it";
  EXPECT_EQ(refusal("  %z = relu(%x)\n  return %z\n"), expected);
  // Read elsewhere too, put behind, given twice, between others.
  EXPECT_EQ(refusal("  %z = concat(%x, %y) {axis = 0}\n  %w = relu(%x)\n  return %z, %w\n"),
            expected);
  EXPECT_EQ(refusal("  %r = relu(%x)\n  %z = concat(%r, %y) {axis = 0}\n  return %z\n"), expected);
  EXPECT_EQ(refusal("  %z = concat(%x, %y) {axis = 0}\n  return %z, %z\n"), expected);
  EXPECT_EQ(refusal("  %z = concat(%x, %y, %x) {axis = 0}\n  return %z\n"), expected);
}

}  // namespace
}  // namespace anydim
