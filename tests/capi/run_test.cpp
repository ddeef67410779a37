// Calls: what they compute, into whose memory, and what they refuse.
#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/api/small_encoder.h"
#include "tests/capi/interface.h"

namespace anydim::capi {
namespace {

class CRun : public testing::Test {
 protected:
  void SetUp() override {
    model_ = load(plus_one);
    context_ = context_of(model_);
  }
  void TearDown() override {
    EXPECT_OK(api().context_release(context_));
    EXPECT_OK(api().model_release(model_));
  }
  Said run(const std::vector<anydim_input>& inputs, std::vector<anydim_output> outputs = {}) {
    return said(
        api().context_run(context_, inputs.data(), inputs.size(), outputs.data(), outputs.size()));
  }
  Said run(anydim_output output) { return run({x_.input("x", ANYDIM_F32)}, {output}); }

  anydim_model* model_ = nullptr;
  anydim_context* context_ = nullptr;
  Buffer<float> x_{{2, 3}, {1, 2, 3, 4, 5, 6}};
};

TEST_F(CRun, IntoTheCallersMemory) {
  const anydim_input input = x_.input("x", ANYDIM_F32);
  Buffer<float> y{{0, 0}, std::vector<float>(10, -1)};
  anydim_output output = y.output("y", ANYDIM_F32);
  ASSERT_OK(api().context_run(context_, &input, 1, &output, 1));
  EXPECT_EQ(y.elements, (std::vector<float>{2, 3, 4, 5, 6, 7, -1, -1, -1, -1}));
  EXPECT_EQ(y.dims, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(output.size, 24u);
}

TEST(CCache, CallsAppendToIt) {
  anydim_model* model = load(append, {{"append_in_place", "on"}});
  anydim_context* context = context_of(model);
  anydim_cache* cache = nullptr;
  ASSERT_OK(api().cache_create(model, &cache));
  ASSERT_OK(api().cache_reserve(cache, 20));
  ASSERT_OK(api().context_set_cache(context, cache));
  const Buffer<float> two{{2, 3}, {1, 2, 3, 4, 5, 6}}, one{{1, 3}, {7, 8, 9}};
  const anydim_input first = two.input("x", ANYDIM_F32), second = one.input("x", ANYDIM_F32);
  Buffer<float> sums{{0}, std::vector<float>(3)};
  anydim_output output = sums.output("sums", ANYDIM_F32);
  ASSERT_OK(api().context_run(context, &first, 1, &output, 1));
  EXPECT_EQ(sums.elements, (std::vector<float>{6, 15, 0}));

  anydim_results* results = nullptr;
  std::size_t count = 0;
  auto tensor = answer<anydim_tensor>();
  ASSERT_OK(api().context_run_owned(context, &second, 1, &results));
  ASSERT_OK(api().results_count(results, &count));
  EXPECT_EQ(count, 1u);
  ASSERT_OK(api().results_tensor(results, 0, &tensor));
  EXPECT_STREQ(tensor.name, "sums");
  EXPECT_EQ(static_cast<const float*>(tensor.data)[2], 24);
  EXPECT_OK(api().results_release(results));

  std::int64_t length = 0;
  ASSERT_OK(api().cache_length(cache, &length));
  EXPECT_EQ(length, 3);
  ASSERT_OK(api().cache_truncate(cache, 1));
  ASSERT_OK(api().cache_read(cache, "past", &results));
  ASSERT_OK(api().results_tensor(results, 0, &tensor));
  EXPECT_STREQ(tensor.name, "past");
  EXPECT_EQ(tensor.dims[0], 1);
  EXPECT_EQ(static_cast<const float*>(tensor.data)[1], 2);
  EXPECT_OK(api().results_release(results));

  const anydim_input start = two.input("all", ANYDIM_F32);
  ASSERT_OK(api().cache_write(cache, &start));
  ASSERT_OK(api().context_run(context, &second, 1, &output, 1));
  EXPECT_EQ(sums.elements, (std::vector<float>{6, 15, 24}));

  // Without it a call is given and gives all.
  EXPECT_EQ(
      said(api().context_run(context, &start, 1, nullptr, 0)),
      (Said{ANYDIM_BAD_INPUTS, "the model has no input 'all'; its inputs are x: f32 (n, 3)"}));
  ASSERT_OK(api().context_set_cache(context, nullptr));
  const anydim_input inputs[] = {first, one.input("past", ANYDIM_F32)};
  ASSERT_OK(api().context_run_owned(context, inputs, 2, &results));
  ASSERT_OK(api().results_count(results, &count));
  EXPECT_EQ(count, 2u);
  EXPECT_OK(api().results_release(results));
  EXPECT_OK(api().cache_release(cache));
  EXPECT_OK(api().context_release(context));
  EXPECT_OK(api().model_release(model));
}

TEST_F(CRun, ACacheIsForModelsThatAppend) {
  anydim_cache* cache = nullptr;
  EXPECT_EQ(said(api().cache_create(model_, &cache)),
            (Said{ANYDIM_UNSUPPORTED,
                  "the model was compiled without append_in_place, so that nothing is appended to "
                  "a cache"}));
  EXPECT_EQ(cache, nullptr);
  anydim_model* other = load(append, {{"append_in_place", "on"}});
  ASSERT_OK(api().cache_create(other, &cache));
  EXPECT_EQ(said(api().context_set_cache(context_, cache)),
            (Said{ANYDIM_BAD_ARGUMENT,
                  "context_set_cache: the cache was made of another model than the context: make "
                  "one of the context's model"}));
  EXPECT_EQ(said(api().cache_truncate(cache, -1)),
            (Said{ANYDIM_BAD_INPUTS, "the length of a cache is at least 0, got -1"}));
  const anydim_input x = x_.input("x", ANYDIM_F32);
  EXPECT_EQ(said(api().cache_write(cache, &x)),
            (Said{ANYDIM_BAD_INPUTS, "nothing is appended to 'x'; what is appended to is past"}));
  EXPECT_OK(api().cache_release(cache));
  EXPECT_OK(api().model_release(other));
}

TEST_F(CRun, AStreamIsForModelsOnAGpu) {
  const anydim_input input = x_.input("x", ANYDIM_F32);
  auto call = answer<anydim_stream_call>();
  anydim_results* results = nullptr;
  EXPECT_EQ(said(api().context_run_on_stream_owned(context_, &call, &input, 1, &results)),
            (Said{ANYDIM_BAD_INPUTS,
                  "a call of a model that runs on the CPU was given a stream or a place on a "
                  "device: expected neither"}));
  EXPECT_EQ(results, nullptr);
  const std::uint8_t yes = 1;
  call.inputs_on_device = &yes;
  EXPECT_EQ(said(api().context_run_on_stream(context_, &call, &input, 1, nullptr, 0)),
            (Said{ANYDIM_BAD_INPUTS,
                  "a tensor f32 (2, 3) in device memory was given to a model that runs on the CPU: "
                  "expected a tensor in host memory"}));
  EXPECT_OK(api().context_synchronize(context_));
  ASSERT_OK(api().context_run_owned(context_, &input, 1, &results));
  std::int32_t device = 0;
  ASSERT_OK(api().results_device(results, 0, &device));
  EXPECT_EQ(device, -1);
  EXPECT_OK(api().results_release(results));
}

TEST_F(CRun, IntoMemoryOfTheLibrary) {
  const anydim_input input = x_.input("x", ANYDIM_F32);
  anydim_results* results = nullptr;
  ASSERT_OK(api().context_run_owned(context_, &input, 1, &results));
  std::size_t count = 0;
  ASSERT_OK(api().results_count(results, &count));
  ASSERT_EQ(count, 1u);
  auto tensor = answer<anydim_tensor>();
  ASSERT_OK(api().results_tensor(results, 0, &tensor));
  EXPECT_STREQ(tensor.name, "y");
  EXPECT_EQ(tensor.dtype, static_cast<anydim_dtype>(ANYDIM_F32));
  EXPECT_EQ(std::vector(tensor.dims, tensor.dims + tensor.rank), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(tensor.size, 24u);
  // They stay when context and model go.
  EXPECT_OK(api().context_release(context_));
  EXPECT_OK(api().model_release(model_));
  SetUp();
  const auto* elements = static_cast<const float*>(tensor.data);
  EXPECT_EQ(std::vector(elements, elements + 6), (std::vector<float>{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(
      said(api().results_tensor(results, 1, &tensor)),
      (Said{ANYDIM_BAD_ARGUMENT,
            "results_tensor: argument 'index' is 1, and there are 1 results: expected less"}));
  EXPECT_OK(api().results_release(results));
}

TEST_F(CRun, NoRowsTakeNoMemory) {
  const Buffer<float> x{{0, 3}, {}};
  Buffer<float> y{{9, 9}, {}};
  const anydim_input input = x.input("x", ANYDIM_F32);
  anydim_output output = y.output("y", ANYDIM_F32);
  ASSERT_OK(api().context_run(context_, &input, 1, &output, 1));
  EXPECT_EQ(y.dims, (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(output.size, 0u);
}

TEST_F(CRun, TooLittleRoomTellsHowMuchIsNeeded) {
  const anydim_input input = x_.input("x", ANYDIM_F32);
  Buffer<float> y{{0, 0}, std::vector<float>(5)};
  anydim_output output = y.output("y", ANYDIM_F32);
  EXPECT_EQ(said(api().context_run(context_, &input, 1, &output, 1)),
            (Said{ANYDIM_BAD_INPUTS,
                  "output 'y' has room for 20 bytes, and the result is f32 (2, 3), which takes 24: "
                  "give it as many and call again"}));
  EXPECT_EQ(y.dims, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(output.size, 24u);
  output.data = nullptr;
  output.capacity = output.size = 0;
  EXPECT_EQ(said(api().context_run(context_, &input, 1, &output, 1)).kind,
            static_cast<anydim_kind>(ANYDIM_BAD_INPUTS));
  EXPECT_EQ(output.size, 24u);
}

TEST_F(CRun, MemoryThatIsSharedIsRefused) {
  const anydim_input input = x_.input("x", ANYDIM_F32);
  anydim_output output = x_.output("y", ANYDIM_F32);
  EXPECT_EQ(
      said(api().context_run(context_, &input, 1, &output, 1)),
      (Said{ANYDIM_BAD_INPUTS,
            "the place of result 'y' shares memory with an input: expected memory of its own"}));
  EXPECT_EQ(x_.elements[0], 1);
}

TEST_F(CRun, OutputsThatDoNotFitAreRefused) {
  Buffer<float> y{{0, 0}, std::vector<float>(6)}, flat{{0}, std::vector<float>(6)};
  const anydim_output right = y.output("y", ANYDIM_F32);
  EXPECT_EQ(run(y.output("z", ANYDIM_F32)),
            (Said{ANYDIM_BAD_INPUTS, "the model has no result 'z'; its results are y"}));
  EXPECT_EQ(
      run(y.output("y", ANYDIM_F64)),
      (Said{ANYDIM_BAD_INPUTS,
            "output 'y' does not fit: the result is f32 (n, 3), the buffer is for f64 of rank 2"}));
  EXPECT_EQ(
      run(flat.output("y", ANYDIM_F32)),
      (Said{ANYDIM_BAD_INPUTS,
            "output 'y' does not fit: the result is f32 (n, 3), the buffer is for f32 of rank 1"}));
  EXPECT_EQ(run({x_.input("x", ANYDIM_F32)}, {right, right}),
            (Said{ANYDIM_BAD_INPUTS, "output 'y' is there twice"}));
  EXPECT_EQ(run(y.output(nullptr, ANYDIM_F32)),
            (Said{ANYDIM_BAD_ARGUMENT,
                  "context_run: outputs[0].name is NULL: expected the name of a result"}));
  EXPECT_EQ(run(y.output("y", 99)), (Said{ANYDIM_BAD_ARGUMENT,
                                          "context_run: output 'y' has dtype 99: expected one of "
                                          "ANYDIM_F64 (1) to ANYDIM_BOOL (13)"}));
  anydim_output wrong = right;
  wrong.dims = nullptr;
  EXPECT_EQ(run(wrong), (Said{ANYDIM_BAD_ARGUMENT,
                              "context_run: output 'y' has rank 2, and its dims are NULL"}));
  wrong = right;
  wrong.data = nullptr;
  EXPECT_EQ(run(wrong),
            (Said{ANYDIM_BAD_ARGUMENT,
                  "context_run: output 'y' has room for 24 bytes, and its data is NULL"}));
  wrong = right;
  wrong.data = reinterpret_cast<char*>(y.elements.data()) + 1;
  wrong.capacity = 20;
  EXPECT_EQ(run(wrong), (Said{ANYDIM_BAD_INPUTS,
                              "output 'y' lies at an address that is no multiple of 4, the bytes "
                              "of an element of f32: align it"}));
}

TEST_F(CRun, InputsThatDoNotFitAreRefused) {
  const anydim_input right = x_.input("x", ANYDIM_F32);
  EXPECT_EQ(
      run(std::vector<anydim_input>()),
      (Said{ANYDIM_BAD_INPUTS, "input 'x' is missing; the model's inputs are x: f32 (n, 3)"}));
  EXPECT_EQ(run({x_.input("w", ANYDIM_F32)}),
            (Said{ANYDIM_BAD_INPUTS, "the model has no input 'w'; its inputs are x: f32 (n, 3)"}));
  EXPECT_EQ(run({right, right}), (Said{ANYDIM_BAD_INPUTS, "input 'x' is there twice"}));
  EXPECT_EQ(
      run({x_.input("x", ANYDIM_I32)}),
      (Said{ANYDIM_BAD_INPUTS, "input 'x' does not fit: expected f32 (n, 3), got i32 (2, 3)"}));
  const Buffer<float> flat{{6}, x_.elements};
  EXPECT_EQ(run({flat.input("x", ANYDIM_F32)}),
            (Said{ANYDIM_BAD_INPUTS, "input 'x' does not fit: expected f32 (n, 3), got f32 (6)"}));
  EXPECT_EQ(run({x_.input(nullptr, ANYDIM_F32)}),
            (Said{ANYDIM_BAD_ARGUMENT,
                  "context_run: inputs[0].name is NULL: expected the name of an input"}));
  EXPECT_EQ(run({x_.input("x", 0)}), (Said{ANYDIM_BAD_ARGUMENT,
                                           "context_run: input 'x' has dtype 0: expected one of "
                                           "ANYDIM_F64 (1) to ANYDIM_BOOL (13)"}));
  anydim_input wrong = right;
  wrong.size = 20;
  EXPECT_EQ(run({wrong}), (Said{ANYDIM_BAD_INPUTS, "input 'x' has 20 bytes: f32 (2, 3) takes 24"}));
  wrong = right;
  wrong.rank = 4'000'000'000;
  EXPECT_EQ(run({wrong}),
            (Said{ANYDIM_BAD_INPUTS, "input 'x' has rank 4000000000: expected at most 64"}));
  wrong = right;
  wrong.dims = nullptr;
  EXPECT_EQ(run({wrong}), (Said{ANYDIM_BAD_ARGUMENT,
                                "context_run: input 'x' has rank 2, and its dims are NULL"}));
  wrong = right;
  wrong.data = nullptr;
  EXPECT_EQ(run({wrong}), (Said{ANYDIM_BAD_ARGUMENT,
                                "context_run: input 'x' has 24 bytes, and its data is NULL"}));
  const std::int64_t negative[] = {-2, 3}, huge[] = {INT64_MAX, 3};
  wrong = right;
  wrong.dims = negative;
  EXPECT_EQ(run({wrong}),
            (Said{ANYDIM_BAD_INPUTS, "dims[0] of input 'x' is -2: expected 0 or more"}));
  wrong.dims = huge;
  EXPECT_EQ(run({wrong}).kind, static_cast<anydim_kind>(ANYDIM_BAD_INPUTS));
  const std::vector<float> more(7);
  wrong = right;
  wrong.data = reinterpret_cast<const char*>(more.data()) + 2;
  EXPECT_EQ(run({wrong}), (Said{ANYDIM_BAD_INPUTS,
                                "input 'x' lies at an address that is no multiple of 4, the bytes "
                                "of an element of f32: align it"}));
  const Buffer<float> many{{101, 3}, std::vector<float>(303)};
  EXPECT_EQ(run({many.input("x", ANYDIM_F32)}).kind, static_cast<anydim_kind>(ANYDIM_BAD_INPUTS));
}

TEST_F(CRun, ThreadsCallThroughContextsOfTheirOwn) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([this, t] {
      anydim_context* context = context_of(model_);
      Buffer<float> x{
          {t + 1, 3},
          std::vector<float>(static_cast<std::size_t>(3 * (t + 1)), static_cast<float>(t))},
          y{{0, 0}, x.elements};
      for (int i = 0; i < 50; ++i) {
        const anydim_input input = x.input("x", ANYDIM_F32);
        anydim_output output = y.output("y", ANYDIM_F32);
        EXPECT_OK(api().context_run(context, &input, 1, &output, 1));
        EXPECT_EQ(y.elements.back(), static_cast<float>(t + 1));
      }
      EXPECT_OK(api().context_release(context));
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CRun, AContextAtWorkOnAnotherThreadIsRefused) {
  std::atomic<bool> met = false;
  std::thread caller([&] {
    const Buffer<float> x{{100, 3}, std::vector<float>(300)};
    const anydim_input input = x.input("x", ANYDIM_F32);
    while (!met) {
      anydim_results* results = nullptr;
      if (const Said it = said(api().context_run_owned(context_, &input, 1, &results));
          it.kind != ANYDIM_OK) {
        EXPECT_EQ(it, (Said{ANYDIM_BAD_ARGUMENT,
                            "context_run_owned: the context is at work on another thread: give "
                            "each thread a context of its own"}));
      }
      EXPECT_OK(api().results_release(results));
    }
  });
  Said last{};
  while (last.kind == ANYDIM_OK) {
    std::int64_t rows = 0;
    last = said(api().context_packed_rows(context_, &rows));
  }
  met = true;
  caller.join();
  EXPECT_EQ(last, (Said{ANYDIM_BAD_ARGUMENT,
                        "context_packed_rows: the context is at work on another thread: give each "
                        "thread a context of its own"}));
}

TEST(CPassThrough, AnInputThatIsAResultIsTheCallersNoMore) {
  anydim_model* model =
      load("fn @main(%x: Tensor[(n), f32]) {\n  %y = add(%x, %x)\n  return %x, %y\n}\n");
  anydim_context* context = context_of(model);
  Buffer<float> x{{2}, {1, 2}}, kept{{0}, {0, 0}};
  const anydim_input input = x.input("x", ANYDIM_F32);
  anydim_results* results = nullptr;
  ASSERT_OK(api().context_run_owned(context, &input, 1, &results));
  auto tensor = answer<anydim_tensor>();
  ASSERT_OK(api().results_tensor(results, 0, &tensor));
  EXPECT_NE(tensor.data, x.elements.data());
  anydim_output output = kept.output(tensor.name, ANYDIM_F32);
  ASSERT_OK(api().context_run(context, &input, 1, &output, 1));
  x.elements = {7, 7};
  EXPECT_EQ(static_cast<const float*>(tensor.data)[1], 2);
  EXPECT_EQ(kept.elements, (std::vector<float>{1, 2}));
  EXPECT_OK(api().results_release(results));
  EXPECT_OK(api().context_release(context));
  EXPECT_OK(api().model_release(model));
}

TEST(CRanks, ACallMayGiveAResultFewerDims) {
  anydim_model* model = load(
      "fn @main(%x: Tensor[(n, m), f32]) {\n  %a = neg(%x)\n  %y = drop_ones(%a)\n  return "
      "%y\n}\n");
  anydim_context* context = context_of(model);
  Buffer<float> x{{3, 1}, {1, 2, 3}}, y{{0, 0}, {0, 0, 0}};
  const anydim_input input = x.input("x", ANYDIM_F32);
  anydim_output output = y.output("y", ANYDIM_F32);
  ASSERT_OK(api().context_run(context, &input, 1, &output, 1));
  EXPECT_EQ(y.dims, (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(y.elements, (std::vector<float>{-1, -2, -3}));
  anydim_results* results = nullptr;
  ASSERT_OK(api().context_run_owned(context, &input, 1, &results));
  auto tensor = answer<anydim_tensor>();
  ASSERT_OK(api().results_tensor(results, 0, &tensor));
  ASSERT_EQ(tensor.rank, 1u);
  EXPECT_EQ(tensor.dims[0], 3);
  EXPECT_OK(api().results_release(results));
  EXPECT_OK(api().context_release(context));
  EXPECT_OK(api().model_release(model));
}

class CEncoder : public testing::Test {
 protected:
  void SetUp() override {
    model_ = load(encoder, {{"masked_rows", "zero"}});
    context_ = context_of(model_);
  }
  void TearDown() override {
    EXPECT_OK(api().context_release(context_));
    EXPECT_OK(api().model_release(model_));
  }
  // Texts of 4, 1 and 3 tokens.
  const Buffer<std::int64_t> tokens_{{3, 4}, {7, 8, 9, 10, 3, 0, 0, 0, 44, 2, 9, 0}},
      ids_{{8}, {7, 8, 9, 10, 3, 44, 2, 9}};
  const Buffer<std::uint8_t> padding_{{3, 4}, {0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1}};
  const std::vector<std::int64_t> offsets_{0, 4, 5, 8};
  anydim_model* model_ = nullptr;
  anydim_context* context_ = nullptr;
};

TEST_F(CEncoder, InputsAndResultsComeInAnyOrder) {
  const anydim_input inputs[] = {padding_.input("padding", ANYDIM_BOOL),
                                 tokens_.input("tokens", ANYDIM_I64)};
  Buffer<float> mean{{0, 0}, std::vector<float>(48)}, rows{{0, 0, 0}, std::vector<float>(192)};
  anydim_output outputs[] = {mean.output("mean", ANYDIM_F32), rows.output("rows", ANYDIM_F32)};
  ASSERT_OK(api().context_run(context_, inputs, 2, outputs, 2));
  std::int64_t packed = 0;
  ASSERT_OK(api().context_packed_rows(context_, &packed));
  EXPECT_EQ(packed, 8);
  EXPECT_EQ(mean.dims, (std::vector<std::int64_t>{3, 16}));
  EXPECT_EQ(rows.dims, (std::vector<std::int64_t>{3, 4, 16}));
  for (std::size_t e = 0; e < 16; ++e) {
    EXPECT_NEAR(mean.elements[16 + e], rows.elements[64 + e], 1e-6);  // of the text of one token
    EXPECT_EQ(rows.elements[80 + e], 0);                              // that the mask hides
  }
}

TEST_F(CEncoder, RaggedCallsGiveWhatPaddedOnesDo) {
  const anydim_input inputs[] = {tokens_.input("tokens", ANYDIM_I64),
                                 padding_.input("padding", ANYDIM_BOOL)},
                     ragged = ids_.input("tokens", ANYDIM_I64);
  Buffer<float> mean{{0, 0}, std::vector<float>(48)}, got{{0, 0}, std::vector<float>(48)},
      rows{{0, 0}, std::vector<float>(128)};
  anydim_output expected = mean.output("mean", ANYDIM_F32);
  ASSERT_OK(api().context_run(context_, inputs, 2, &expected, 1));
  anydim_output outputs[] = {rows.output("rows", ANYDIM_F32), got.output("mean", ANYDIM_F32)};
  ASSERT_OK(
      api().context_run_ragged(context_, &ragged, 1, offsets_.data(), offsets_.size(), outputs, 2));
  EXPECT_EQ(rows.dims, (std::vector<std::int64_t>{8, 16}));
  anydim_results* results = nullptr;
  ASSERT_OK(api().context_run_ragged_owned(context_, &ragged, 1, offsets_.data(), offsets_.size(),
                                           &results));
  auto tensor = answer<anydim_tensor>();
  ASSERT_OK(api().results_tensor(results, 1, &tensor));
  for (std::size_t e = 0; e < 48; ++e) {
    EXPECT_NEAR(got.elements[e], mean.elements[e], 1e-5);
    EXPECT_EQ(static_cast<const float*>(tensor.data)[e], got.elements[e]);
  }
  EXPECT_OK(api().results_release(results));
  EXPECT_EQ(said(api().context_run_ragged(context_, &ragged, 1, offsets_.data(), 3, outputs, 2)),
            (Said{ANYDIM_BAD_INPUTS,
                  "offsets end with 5, but input 'tokens' has 8 rows: expected as many"}));
  EXPECT_EQ(said(api().context_run_ragged(context_, &ragged, 1, nullptr, 0, outputs, 2)),
            (Said{ANYDIM_BAD_ARGUMENT,
                  "context_run_ragged: argument 'offsets' is NULL: expected the address of one"}));
  EXPECT_EQ(
      said(api().context_run_ragged(context_, &ragged, 1, offsets_.data(), 0, outputs, 2)).kind,
      static_cast<anydim_kind>(ANYDIM_BAD_INPUTS));
}

TEST_F(CEncoder, MemoryAlignedToElementsAloneServes) {
  const anydim_input aligned[] = {tokens_.input("tokens", ANYDIM_I64),
                                  padding_.input("padding", ANYDIM_BOOL)};
  Buffer<float> expected{{0, 0, 0}, std::vector<float>(192)};
  anydim_output wanted = expected.output("rows", ANYDIM_F32);
  ASSERT_OK(api().context_run(context_, aligned, 2, &wanted, 1));
  for (std::size_t shift = 1; shift < 16; shift += 2) {
    std::vector<std::int64_t> ids(shift, 0);
    ids.insert(ids.end(), tokens_.elements.begin(), tokens_.elements.end());
    std::vector<std::uint8_t> hidden(shift, 0);
    hidden.insert(hidden.end(), padding_.elements.begin(), padding_.elements.end());
    std::vector<float> rows(192 + shift);
    std::int64_t dims[3];
    anydim_input inputs[] = {aligned[0], aligned[1]};
    inputs[0].data = ids.data() + shift;
    inputs[1].data = hidden.data() + shift;
    anydim_output output{"rows", dims, rows.data() + shift, 192 * 4, 0, ANYDIM_F32, 3};
    ASSERT_OK(api().context_run(context_, inputs, 2, &output, 1));
    EXPECT_TRUE(std::equal(expected.elements.begin(), expected.elements.end(),
                           rows.begin() + static_cast<std::ptrdiff_t>(shift)));
  }
}

TEST_F(CEncoder, ABoolIsZeroOrOne) {
  Buffer<std::uint8_t> wrong = padding_;
  wrong.elements[5] = 255;
  const anydim_input inputs[] = {tokens_.input("tokens", ANYDIM_I64),
                                 wrong.input("padding", ANYDIM_BOOL)};
  EXPECT_EQ(said(api().context_run(context_, inputs, 2, nullptr, 0)),
            (Said{ANYDIM_BAD_INPUTS, "element 5 of input 'padding' is 255: a bool is 0 or 1"}));
}

TEST(CDtypes, HaveNamesAndSizes) {
  EXPECT_STREQ(api().dtype_name(ANYDIM_BF16), "bf16");
  EXPECT_STREQ(api().dtype_name(ANYDIM_BOOL), "bool");
  EXPECT_EQ(api().dtype_size(ANYDIM_F64), 8u);
  EXPECT_EQ(api().dtype_size(ANYDIM_BOOL), 1u);
  for (const anydim_dtype none : {0U, 14U, UINT32_MAX}) {
    EXPECT_STREQ(api().dtype_name(none), "");
    EXPECT_EQ(api().dtype_size(none), 0u);
  }
}

}  // namespace
}  // namespace anydim::capi
