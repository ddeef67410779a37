// Loading, questions about models, options and cancellation.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "api/recording.h"
#include "tests/api/small_encoder.h"
#include "tests/capi/interface.h"
#include "tuner/text_file.h"

namespace anydim::capi {
namespace {

const std::string tiny_bert = "../models/tiny_bert.onnx";

std::vector<std::string> texts_of(const anydim_tensor_info& info) {
  return {info.dims, info.dims + info.rank};
}

anydim_tensor_info input_of(const anydim_model* model, std::size_t index) {
  auto info = answer<anydim_tensor_info>();
  EXPECT_OK(api().model_input(model, index, &info));
  return info;
}

anydim_tensor_info output_of(const anydim_model* model, std::size_t index) {
  auto info = answer<anydim_tensor_info>();
  EXPECT_OK(api().model_output(model, index, &info));
  return info;
}

TEST(CModel, InputsResultsAndSymbolsAreTold) {
  anydim_model* model = load(encoder);
  std::size_t count = 0;
  ASSERT_OK(api().model_input_count(model, &count));
  ASSERT_EQ(count, 2u);
  const anydim_tensor_info tokens = input_of(model, 0), padding = input_of(model, 1);
  EXPECT_STREQ(tokens.name, "tokens");
  EXPECT_EQ(tokens.dtype, static_cast<anydim_dtype>(ANYDIM_I64));
  EXPECT_EQ(texts_of(tokens), (std::vector<std::string>{"b", "s"}));
  EXPECT_EQ(tokens.extents[0], -1);
  EXPECT_EQ(tokens.any_shape, 0u);
  EXPECT_EQ(padding.dtype, static_cast<anydim_dtype>(ANYDIM_BOOL));
  ASSERT_OK(api().model_output_count(model, &count));
  ASSERT_EQ(count, 3u);
  const anydim_tensor_info rows = output_of(model, 0);
  EXPECT_STREQ(rows.name, "rows");
  EXPECT_EQ(texts_of(rows), (std::vector<std::string>{"b", "s", "16"}));
  EXPECT_EQ(rows.extents[2], 16);
  ASSERT_OK(api().model_symbol_count(model, &count));
  ASSERT_EQ(count, 2u);
  auto symbol = answer<anydim_symbol_info>();
  ASSERT_OK(api().model_symbol(model, 1, &symbol));
  EXPECT_STREQ(symbol.name, "s");
  EXPECT_EQ(symbol.low, 0);
  EXPECT_EQ(symbol.high, 6);
  EXPECT_EQ(symbol.multiple, 1);
  auto info = answer<anydim_tensor_info>();
  EXPECT_EQ(said(api().model_input(model, 2, &info)),
            (Said{ANYDIM_BAD_ARGUMENT,
                  "model_input: argument 'index' is 2, and there are 2 inputs: expected less"}));
  EXPECT_EQ(said(api().model_symbol(model, 2, &symbol)),
            (Said{ANYDIM_BAD_ARGUMENT,
                  "model_symbol: argument 'index' is 2, and there are 2 symbols: expected less"}));
  EXPECT_OK(api().model_release(model));
}

TEST(CModel, RaggedInputsHaveRows) {
  anydim_model* model = load(encoder);
  ASSERT_OK(api().model_prepare_ragged(model, nullptr));
  std::size_t count = 0;
  ASSERT_OK(api().model_ragged_input_count(model, &count));
  ASSERT_EQ(count, 1u);
  auto info = answer<anydim_tensor_info>();
  ASSERT_OK(api().model_ragged_input(model, 0, &info));
  EXPECT_STREQ(info.name, "tokens");
  EXPECT_EQ(info.rank, 1u);
  EXPECT_EQ(info.rows, 1u);
  ASSERT_OK(api().model_ragged_output(model, 0, &info));
  EXPECT_STREQ(info.name, "rows");
  EXPECT_EQ(info.rank, 2u);
  EXPECT_EQ(info.rows, 1u);
  EXPECT_EQ(info.extents[1], 16);
  ASSERT_OK(api().model_ragged_output(model, 1, &info));
  EXPECT_EQ(info.rows, 0u);
  EXPECT_OK(api().model_release(model));

  model = load(plus_one);
  EXPECT_EQ(said(api().model_prepare_ragged(model, nullptr)).kind,
            static_cast<anydim_kind>(ANYDIM_UNSUPPORTED));
  EXPECT_EQ(said(api().model_ragged_input_count(model, &count)).kind,
            static_cast<anydim_kind>(ANYDIM_UNSUPPORTED));
  EXPECT_OK(api().model_release(model));
}

TEST(CModel, WhyCallsArePaddedIsTold) {
  anydim_model *packed = load(encoder, {{"masked_rows", "zero"}}), *padded = load(encoder);
  const char* reason = nullptr;
  ASSERT_OK(api().model_padded_because(packed, &reason));
  EXPECT_STREQ(reason, "");
  ASSERT_OK(api().model_padded_because(padded, &reason));
  EXPECT_STRNE(reason, "");
  ASSERT_OK(api().model_hidden_rows_kept_because(packed, &reason));
  EXPECT_STREQ(reason, "");
  EXPECT_OK(api().model_release(packed));
  EXPECT_OK(api().model_release(padded));
}

TEST(CModel, FilesAndMemoryGiveTheSameModel) {
  std::ifstream stream(tiny_bert, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  anydim_options* options = nullptr;
  ASSERT_OK(api().options_create(&options));
  ASSERT_OK(api().options_set(options, "cache_folder", "none"));
  ASSERT_OK(api().options_set(options, "background", "off"));
  ASSERT_OK(api().options_set(options, "threads", "1"));
  anydim_model *file = nullptr, *memory = nullptr;
  ASSERT_OK(api().model_load_file(tiny_bert.c_str(), options, nullptr, &file));
  ASSERT_OK(
      api().model_load_memory(bytes.data(), bytes.size(), nullptr, options, nullptr, &memory));
  EXPECT_STREQ(output_of(file, 0).name, output_of(memory, 0).name);
  EXPECT_EQ(texts_of(output_of(file, 0)), texts_of(output_of(memory, 0)));
  for (anydim_model* model : {file, memory}) EXPECT_OK(api().model_release(model));
  EXPECT_OK(api().options_release(options));
}

TEST(CModel, WhatCannotBeLoadedIsOfItsKind) {
  anydim_model* model = nullptr;
  EXPECT_EQ(said(api().model_load_file("there/is/none.onnx", nullptr, nullptr, &model)),
            (Said{ANYDIM_MALFORMED, "there/is/none.onnx: there is no such file"}));
  EXPECT_EQ(said(api().model_load_memory("garbage\x01", 8, nullptr, nullptr, nullptr, &model)).kind,
            static_cast<anydim_kind>(ANYDIM_MALFORMED));
  EXPECT_EQ(said(api().model_load_memory("", 0, nullptr, nullptr, nullptr, &model)),
            (Said{ANYDIM_MALFORMED, "the model is empty: expected an ONNX model"}));
  EXPECT_EQ(model, nullptr);
  anydim_options* options = nullptr;
  ASSERT_OK(api().options_create(&options));
  ASSERT_OK(api().options_set(options, "dim", "width=1:2"));
  const Said unknown = said(
      api().model_load_memory(plus_one.data(), plus_one.size(), nullptr, options, nullptr, &model));
  EXPECT_EQ(unknown.kind, static_cast<anydim_kind>(ANYDIM_BAD_ARGUMENT));
  EXPECT_NE(unknown.message.find("width"), std::string::npos) << unknown;
  EXPECT_OK(api().options_release(options));
}

TEST(COptions, WhatIsWrongNamesWhatThereIs) {
  anydim_options* options = nullptr;
  ASSERT_OK(api().options_create(&options));
  EXPECT_EQ(said(api().options_set(options, "treads", "2")),
            (Said{ANYDIM_BAD_ARGUMENT,
                  "options_set: there is no option 'treads'; there are append_in_place, "
                  "background, cache_folder, "
                  "cpu_level, database, device, dim, f32_products, masked_rows, memory_limit, "
                  "output, policy, precision, threads"}));
  EXPECT_EQ(said(api().options_set(options, "masked_rows", "drop")),
            (Said{ANYDIM_BAD_ARGUMENT,
                  "options_set: option 'masked_rows' cannot be 'drop': it takes keep or zero"}));
  EXPECT_OK(api().options_release(options));
}

TEST(COptions, TheUsersOwnDatabaseIsReadUnlessAnotherOneOrNoneIsNamed) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "capi_own_database";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "tuning.db") << std::string(3000, 'x');
  const auto warnings_with = [&](const std::vector<std::pair<const char*, std::string>>& more) {
    anydim_options* options = nullptr;
    EXPECT_OK(api().options_create(&options));
    EXPECT_OK(api().options_set(options, "cache_folder", folder.c_str()));
    EXPECT_OK(api().options_set(options, "background", "off"));
    EXPECT_OK(api().options_set(options, "threads", "1"));
    for (const auto& [name, value] : more)
      EXPECT_OK(api().options_set(options, name, value.c_str()));
    std::vector<std::string> warnings;
    EXPECT_OK(api().options_set_warning(
        options,
        [](void* user, const char* message) {
          static_cast<std::vector<std::string>*>(user)->emplace_back(message);
        },
        &warnings));
    anydim_model* model = nullptr;
    EXPECT_OK(api().model_load_memory(plus_one.data(), plus_one.size(), nullptr, options, nullptr,
                                      &model));
    EXPECT_OK(api().model_release(model));
    EXPECT_OK(api().options_release(options));
    return warnings;
  };
  const std::vector<std::string> warnings = warnings_with({});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("is no tuning database"), std::string::npos) << warnings[0];
  EXPECT_TRUE(warnings_with({{"database", "none"}}).empty());
  std::filesystem::remove_all(folder);
}

TEST(CCancellation, EndsACompilation) {
  anydim_cancellation* cancellation = nullptr;
  ASSERT_OK(api().cancellation_create(&cancellation));
  ASSERT_OK(api().cancellation_cancel(cancellation));
  anydim_model* model = nullptr;
  EXPECT_EQ(said(api().model_load_memory(encoder, std::string_view(encoder).size(), nullptr,
                                         nullptr, cancellation, &model))
                .kind,
            static_cast<anydim_kind>(ANYDIM_CANCELLED));
  EXPECT_EQ(model, nullptr);
  EXPECT_OK(api().cancellation_release(cancellation));
}

TEST(CCancellation, EndsCallsUntilItIsReset) {
  anydim_model* model = load(plus_one);
  anydim_context* context = context_of(model);
  anydim_cancellation* cancellation = nullptr;
  ASSERT_OK(api().cancellation_create(&cancellation));
  ASSERT_OK(api().context_set_cancellation(context, cancellation));
  const Buffer<float> x{{1, 3}, {1, 2, 3}};
  const anydim_input input = x.input("x", ANYDIM_F32);
  anydim_results* results = nullptr;
  ASSERT_OK(api().cancellation_cancel(cancellation));
  EXPECT_EQ(said(api().context_run_owned(context, &input, 1, &results)).kind,
            static_cast<anydim_kind>(ANYDIM_CANCELLED));
  ASSERT_OK(api().cancellation_reset(cancellation));
  EXPECT_OK(api().context_run_owned(context, &input, 1, &results));
  EXPECT_OK(api().results_release(results));
  ASSERT_OK(api().cancellation_cancel(cancellation));
  EXPECT_OK(api().cancellation_release(cancellation));  // the context keeps it
  EXPECT_EQ(said(api().context_run_owned(context, &input, 1, &results)).kind,
            static_cast<anydim_kind>(ANYDIM_CANCELLED));
  ASSERT_OK(api().context_set_cancellation(context, nullptr));
  EXPECT_OK(api().context_run_owned(context, &input, 1, &results));
  EXPECT_OK(api().results_release(results));
  EXPECT_OK(api().context_release(context));
  EXPECT_OK(api().model_release(model));
}

TEST(CModel, StatisticsAndTheCeilingAreThoseOfTheModel) {
  anydim_model* model = load(plus_one);
  anydim_context* context = context_of(model);
  const Buffer<float> x{{2, 3}, {1, 2, 3, 4, 5, 6}}, wrong{{2, 4}, std::vector<float>(8)};
  const anydim_input input = x.input("x", ANYDIM_F32), refused = wrong.input("x", ANYDIM_F32);
  anydim_results* results = nullptr;
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(api().context_run_owned(context, &input, 1, &results));
    ASSERT_OK(api().results_release(results));
  }
  EXPECT_EQ(said(api().context_run_owned(context, &refused, 1, &results)).kind,
            static_cast<anydim_kind>(ANYDIM_BAD_INPUTS));
  ASSERT_OK(api().model_complete(model, nullptr));
  auto statistics = answer<anydim_statistics>();
  ASSERT_OK(api().model_statistics(model, &statistics));
  EXPECT_EQ(statistics.calls, 3);
  EXPECT_EQ(statistics.padded, 3);
  EXPECT_EQ(statistics.failed, 1);
  EXPECT_EQ(statistics.kernels_pending, 0);
  EXPECT_GT(statistics.kernels_compiled, 0);
  EXPECT_GT(statistics.code_bytes, 0);
  EXPECT_GT(statistics.latency_p50, 0);
  EXPECT_LE(statistics.latency_p50, statistics.latency_most);
  EXPECT_GE(statistics.seconds, statistics.latency_most);

  const std::int64_t dims[] = {5, 3}, beyond[] = {101, 3};
  anydim_shape shape{"x", dims, 2};
  auto ceiling = answer<anydim_memory_ceiling>();
  ASSERT_OK(api().model_memory_ceiling(model, &shape, 1, &ceiling));
  EXPECT_EQ(ceiling.arena_bytes, 0);
  EXPECT_STREQ(ceiling.unbounded_because, "");
  shape.dims = beyond;
  EXPECT_EQ(said(api().model_memory_ceiling(model, &shape, 1, &ceiling)).kind,
            static_cast<anydim_kind>(ANYDIM_BAD_INPUTS));
  const anydim_shape twice[] = {{"x", dims, 2}, {"x", dims, 2}};
  EXPECT_EQ(said(api().model_memory_ceiling(model, twice, 2, &ceiling)),
            (Said{ANYDIM_BAD_INPUTS, "the shape of input 'x' is there twice"}));
  EXPECT_OK(api().context_release(context));
  EXPECT_OK(api().model_release(model));
}

TEST(CTrace, SizesOfCallsAreWrittenOnce) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "capi_trace.json";
  std::filesystem::remove(file);
  anydim_model *model = load(plus_one), *other = load(plus_one);
  anydim_context *context = context_of(model), *foreign = context_of(other);
  anydim_trace* trace = nullptr;
  ASSERT_OK(api().trace_create(model, &trace));
  ASSERT_OK(api().context_set_trace(context, trace));
  EXPECT_EQ(said(api().context_set_trace(foreign, trace)).kind,
            static_cast<anydim_kind>(ANYDIM_BAD_ARGUMENT));
  const Buffer<float> x{{2, 3}, {1, 2, 3, 4, 5, 6}};
  const anydim_input input = x.input("x", ANYDIM_F32);
  anydim_results* results = nullptr;
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(api().context_run_owned(context, &input, 1, &results));
    ASSERT_OK(api().results_release(results));
  }
  EXPECT_EQ(said(api().trace_write(trace, "there/is/no/folder.json")).kind,
            static_cast<anydim_kind>(ANYDIM_NOT_WRITTEN));
  EXPECT_OK(api().trace_write(trace, file.c_str()));
  EXPECT_OK(api().trace_write(trace, file.c_str()));  // nothing has come since
  EXPECT_EQ(tuner::read_trace(file).calls(), 3);
  for (anydim_context* one : {context, foreign}) EXPECT_OK(api().context_release(one));
  for (anydim_model* one : {model, other}) EXPECT_OK(api().model_release(one));
  EXPECT_OK(api().trace_release(trace));
  std::filesystem::remove(file);
}

TEST(CTimeline, IsWrittenWholeOrNotAtAll) {
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / "capi_timeline.json";
  std::filesystem::remove(file);
  anydim_model* model = load(plus_one);
  EXPECT_EQ(
      said(api().model_timeline_write(model, file.c_str())),
      (Said{ANYDIM_BAD_ARGUMENT,
            "model_timeline_write: no timeline was started, so that there is none to write"}));
  EXPECT_EQ(said(api().model_timeline_start(model, std::size_t{1} << 60)).kind,
            static_cast<anydim_kind>(ANYDIM_BAD_ARGUMENT));
  anydim_context* context = context_of(model);
  const Buffer<float> x{{2, 3}, {1, 2, 3, 4, 5, 6}};
  const anydim_input input = x.input("x", ANYDIM_F32);
  anydim_results* results = nullptr;
  const auto run = [&] {
    ASSERT_OK(api().context_run_owned(context, &input, 1, &results));
    ASSERT_OK(api().results_release(results));
  };
  ASSERT_OK(api().model_timeline_start(model, 4));
  for (int i = 0; i < 3; ++i) run();  // two events each
  ASSERT_OK(api().model_timeline_stop(model));
  run();
  EXPECT_EQ(said(api().model_timeline_write(model, "there/is/no/folder.json")).kind,
            static_cast<anydim_kind>(ANYDIM_NOT_WRITTEN));
  ASSERT_OK(api().model_timeline_write(model, file.c_str()));
  EXPECT_NE(tuner::read_text_file(file).find(R"("events":4,"lost_events":2)"), std::string::npos);
  ASSERT_OK(api().model_timeline_start(model, 0));
  ASSERT_OK(api().model_timeline_write(model, file.c_str()));
  EXPECT_NE(tuner::read_text_file(file).find(R"("events":0,"lost_events":0)"), std::string::npos);
  EXPECT_OK(api().context_release(context));
  EXPECT_OK(api().model_release(model));
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace anydim::capi
