// What is no handle is an error and never anything else.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "capi/handles.h"
#include "tests/capi/interface.h"

namespace anydim::capi {
namespace {

TEST(Table, AVersionThatThereIsNotIsRefusedInWords) {
  const char* why = nullptr;
  EXPECT_EQ(anydim_get_api(ANYDIM_API_VERSION + 1, &why), nullptr);
  EXPECT_STREQ(why,
               "anydim_get_api: libanydim 0.1.0 has versions 1 to 4 of its interface, not 5: "
               "install a newer one");
  EXPECT_EQ(anydim_get_api(0, &why), nullptr);
  EXPECT_STREQ(why,
               "anydim_get_api: libanydim 0.1.0 has versions 1 to 4 of its interface, not 0: ask "
               "for ANYDIM_API_VERSION");
  EXPECT_EQ(anydim_get_api(UINT32_MAX, nullptr), nullptr);
  EXPECT_NE(anydim_get_api(ANYDIM_API_VERSION, &why), nullptr);
  EXPECT_STREQ(why, "");
}

TEST(Table, IsFilled) {
  EXPECT_EQ(api().version, ANYDIM_API_VERSION);
  ASSERT_EQ(api().size, sizeof(anydim_api));
  EXPECT_STREQ(api().library_version(), "0.1.0");
  const auto* members = reinterpret_cast<void (*const*)()>(&api().library_version);
  for (std::size_t i = 0;
       i < (sizeof(anydim_api) - offsetof(anydim_api, library_version)) / sizeof(void (*)()); ++i)
    EXPECT_NE(members[i], nullptr) << i;
}

// Every function that takes a handle first, called with it.
template <typename Handle>
using Calls = std::map<std::string, std::function<anydim_status*(Handle*)>>;

Calls<anydim_options> calls_of_options() {
  const anydim_api& a = api();
  return {
      {"options_set", [&](auto* h) { return a.options_set(h, "threads", "1"); }},
      {"options_set_warning", [&](auto* h) { return a.options_set_warning(h, nullptr, nullptr); }},
      {"options_release", a.options_release},
      {"model_load_memory", [&](auto* h) {
         anydim_model* model = nullptr;
         return a.model_load_memory(plus_one.data(), plus_one.size(), nullptr, h, nullptr, &model);
       }}};
}

Calls<anydim_cancellation> calls_of_cancellation() {
  return {{"cancellation_cancel", api().cancellation_cancel},
          {"cancellation_reset", api().cancellation_reset},
          {"cancellation_release", api().cancellation_release}};
}

Calls<anydim_model> calls_of_model() {
  static std::size_t count = 0;
  static auto tensor = answer<anydim_tensor_info>();
  static auto symbol = answer<anydim_symbol_info>();
  static auto statistics = answer<anydim_statistics>();
  static auto ceiling = answer<anydim_memory_ceiling>();
  static const char* reason = nullptr;
  const anydim_api& a = api();
  return {
      {"model_release", a.model_release},
      {"model_input_count", [&](auto* h) { return a.model_input_count(h, &count); }},
      {"model_input", [&](auto* h) { return a.model_input(h, 0, &tensor); }},
      {"model_output_count", [&](auto* h) { return a.model_output_count(h, &count); }},
      {"model_output", [&](auto* h) { return a.model_output(h, 0, &tensor); }},
      {"model_symbol_count", [&](auto* h) { return a.model_symbol_count(h, &count); }},
      {"model_symbol", [&](auto* h) { return a.model_symbol(h, 0, &symbol); }},
      {"model_padded_because", [&](auto* h) { return a.model_padded_because(h, &reason); }},
      {"model_hidden_rows_kept_because",
       [&](auto* h) { return a.model_hidden_rows_kept_because(h, &reason); }},
      {"model_complete", [&](auto* h) { return a.model_complete(h, nullptr); }},
      {"model_statistics", [&](auto* h) { return a.model_statistics(h, &statistics); }},
      {"model_memory_ceiling",
       [&](auto* h) { return a.model_memory_ceiling(h, nullptr, 0, &ceiling); }},
      {"model_prepare_ragged", [&](auto* h) { return a.model_prepare_ragged(h, nullptr); }},
      {"model_ragged_input_count", [&](auto* h) { return a.model_ragged_input_count(h, &count); }},
      {"model_ragged_input", [&](auto* h) { return a.model_ragged_input(h, 0, &tensor); }},
      {"model_ragged_output", [&](auto* h) { return a.model_ragged_output(h, 0, &tensor); }},
      {"model_timeline_start", [&](auto* h) { return a.model_timeline_start(h, 0); }},
      {"model_timeline_stop", [&](auto* h) { return a.model_timeline_stop(h); }},
      {"model_timeline_write",
       [&](auto* h) { return a.model_timeline_write(h, "never_written.json"); }},
      {"context_create",
       [&](auto* h) {
         anydim_context* context = nullptr;
         return a.context_create(h, &context);
       }},
      {"trace_create",
       [&](auto* h) {
         anydim_trace* trace = nullptr;
         return a.trace_create(h, &trace);
       }},
      {"cache_create", [&](auto* h) {
         anydim_cache* cache = nullptr;
         return a.cache_create(h, &cache);
       }}};
}

Calls<anydim_context> calls_of_context() {
  static anydim_results* results = nullptr;
  static std::int64_t rows = 0;
  static const std::int64_t offsets[] = {0};
  static const auto call = answer<anydim_stream_call>();
  const anydim_api& a = api();
  return {
      {"context_release", a.context_release},
      {"context_set_cancellation", [&](auto* h) { return a.context_set_cancellation(h, nullptr); }},
      {"context_set_trace", [&](auto* h) { return a.context_set_trace(h, nullptr); }},
      {"context_set_cache", [&](auto* h) { return a.context_set_cache(h, nullptr); }},
      {"context_run", [&](auto* h) { return a.context_run(h, nullptr, 0, nullptr, 0); }},
      {"context_run_owned", [&](auto* h) { return a.context_run_owned(h, nullptr, 0, &results); }},
      {"context_run_ragged",
       [&](auto* h) { return a.context_run_ragged(h, nullptr, 0, offsets, 1, nullptr, 0); }},
      {"context_run_ragged_owned",
       [&](auto* h) { return a.context_run_ragged_owned(h, nullptr, 0, offsets, 1, &results); }},
      {"context_packed_rows", [&](auto* h) { return a.context_packed_rows(h, &rows); }},
      {"context_run_on_stream",
       [&](auto* h) { return a.context_run_on_stream(h, &call, nullptr, 0, nullptr, 0); }},
      {"context_run_on_stream_owned",
       [&](auto* h) { return a.context_run_on_stream_owned(h, &call, nullptr, 0, &results); }},
      {"context_synchronize", a.context_synchronize}};
}

Calls<anydim_results> calls_of_results() {
  static std::size_t count = 0;
  static auto tensor = answer<anydim_tensor>();
  static std::int32_t device = 0;
  return {{"results_count", [](auto* h) { return api().results_count(h, &count); }},
          {"results_tensor", [](auto* h) { return api().results_tensor(h, 0, &tensor); }},
          {"results_device", [](auto* h) { return api().results_device(h, 0, &device); }},
          {"results_release", api().results_release}};
}

Calls<anydim_trace> calls_of_trace() {
  return {{"trace_write", [](auto* h) { return api().trace_write(h, "never_written.json"); }},
          {"trace_release", api().trace_release}};
}

Calls<anydim_cache> calls_of_cache() {
  static std::int64_t length = 0;
  static anydim_results* results = nullptr;
  static const anydim_input tensor{};
  const anydim_api& a = api();
  return {{"cache_length", [&](auto* h) { return a.cache_length(h, &length); }},
          {"cache_reserve", [&](auto* h) { return a.cache_reserve(h, 1); }},
          {"cache_truncate", [&](auto* h) { return a.cache_truncate(h, 0); }},
          {"cache_read", [&](auto* h) { return a.cache_read(h, "x", &results); }},
          {"cache_write", [&](auto* h) { return a.cache_write(h, &tensor); }},
          {"cache_release", a.cache_release}};
}

template <typename Handle>
void expect_refusals(const Calls<Handle>& calls, const std::string& kind, Handle* released,
                     const std::string& optional = "") {
  auto* const foreign = reinterpret_cast<Handle*>(std::uintptr_t{0x7f0012345678});
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    const bool may_be_null = name.ends_with("_release") || name == optional;
    if (!may_be_null) {
      EXPECT_EQ(said(call(nullptr)),
                (Said{ANYDIM_BAD_ARGUMENT, name + ": argument '" + kind +
                                               "' is NULL: expected a handle of the library"}));
    }
    EXPECT_EQ(
        said(call(released)),
        (Said{
            ANYDIM_BAD_ARGUMENT,
            name + ": argument '" + kind +
                "' is no handle that is alive: it was released, or is no handle of this library"}));
    EXPECT_EQ(said(call(foreign)),
              (Said{ANYDIM_BAD_ARGUMENT,
                    name + ": argument '" + kind +
                        "' is no handle of this library: expected a handle of that kind"}));
  }
}

struct Everything {
  anydim_options* options = nullptr;
  anydim_cancellation* cancellation = nullptr;
  anydim_model* model = nullptr;
  anydim_context* context = nullptr;
  anydim_results* results = nullptr;
  anydim_trace* trace = nullptr;
  anydim_cache* cache = nullptr;
  Everything() {
    EXPECT_OK(api().options_create(&options));
    EXPECT_OK(api().cancellation_create(&cancellation));
    model = load(plus_one);
    context = context_of(model);
    EXPECT_OK(api().trace_create(model, &trace));
    anydim_model* appending = load(append, {{"append_in_place", "on"}});
    EXPECT_OK(api().cache_create(appending, &cache));
    EXPECT_OK(api().model_release(appending));
    const Buffer<float> x{{1, 3}, {1, 2, 3}};
    const anydim_input input = x.input("x", ANYDIM_F32);
    EXPECT_OK(api().context_run_owned(context, &input, 1, &results));
  }
  void release() {
    EXPECT_OK(api().results_release(results));
    EXPECT_OK(api().trace_release(trace));
    EXPECT_OK(api().cache_release(cache));
    EXPECT_OK(api().model_release(model));
    EXPECT_OK(api().context_release(context));
    EXPECT_OK(api().cancellation_release(cancellation));
    EXPECT_OK(api().options_release(options));
  }
};

TEST(Handles, NullReleasedAndForeignOnesAreRefusedByEveryFunction) {
  const std::size_t before = api().handles_alive();
  Everything all;
  EXPECT_EQ(api().handles_alive(), before + 7);
  all.release();
  EXPECT_EQ(api().handles_alive(), before);
  expect_refusals(calls_of_options(), "options", all.options, "model_load_memory");
  expect_refusals(calls_of_cancellation(), "cancellation", all.cancellation);
  expect_refusals(calls_of_model(), "model", all.model);
  expect_refusals(calls_of_context(), "context", all.context);
  expect_refusals(calls_of_results(), "results", all.results);
  expect_refusals(calls_of_trace(), "trace", all.trace);
  expect_refusals(calls_of_cache(), "cache", all.cache);
  EXPECT_EQ(api().handles_alive(), before);
}

// What the list above leaves out is status_*, those that make a handle of none, dtype_* and tune_*.
TEST(Handles, TheListNamesEveryFunctionThatTakesAHandleFirst) {
  std::size_t listed = calls_of_options().size() - 1 + calls_of_cancellation().size() +
                       calls_of_model().size() + calls_of_context().size() +
                       calls_of_results().size() + calls_of_trace().size() +
                       calls_of_cache().size();
  constexpr std::size_t others = 2 /* library_version, handles_alive */ + 3 /* status_* */ +
                                 2 /* *_create */ + 2 /* model_load_* */ + 2 /* dtype_* */ +
                                 2 /* tune_*, whose handles may be NULL */;
  EXPECT_EQ(listed + others,
            (sizeof(anydim_api) - offsetof(anydim_api, library_version)) / sizeof(void (*)()));
}

TEST(Handles, AHandleOfAnotherKindIsNamed) {
  Everything all;
  EXPECT_EQ(said(api().context_release(reinterpret_cast<anydim_context*>(all.model))),
            (Said{ANYDIM_BAD_ARGUMENT,
                  "context_release: argument 'context' is a handle of kind model: expected a "
                  "handle of that kind"}));
  EXPECT_EQ(said(api().cancellation_cancel(reinterpret_cast<anydim_cancellation*>(all.options))),
            (Said{ANYDIM_BAD_ARGUMENT,
                  "cancellation_cancel: argument 'cancellation' is a handle of kind options: "
                  "expected a handle of that kind"}));
  all.release();
}

TEST(Handles, AReleasedHandleIsNotTheOneThatTookItsPlace) {
  anydim_options *first = nullptr, *second = nullptr;
  ASSERT_OK(api().options_create(&first));
  ASSERT_OK(api().options_release(first));
  ASSERT_OK(api().options_create(&second));
  EXPECT_NE(first, second);
  EXPECT_EQ(said(api().options_set(first, "threads", "1")).kind,
            static_cast<anydim_kind>(ANYDIM_BAD_ARGUMENT));
  EXPECT_OK(api().options_set(second, "threads", "1"));
  EXPECT_OK(api().options_release(second));
}

TEST(Handles, ReleasingNullDoesNothing) {
  EXPECT_OK(api().model_release(nullptr));
  EXPECT_OK(api().context_release(nullptr));
  EXPECT_OK(api().results_release(nullptr));
  api().status_release(nullptr);
}

TEST(Handles, AStatusThatWasReleasedSaysSo) {
  anydim_status* status = api().options_set(nullptr, "threads", "1");
  EXPECT_EQ(api().status_kind(status), static_cast<anydim_kind>(ANYDIM_BAD_ARGUMENT));
  api().status_release(status);
  EXPECT_EQ(api().status_kind(status), static_cast<anydim_kind>(ANYDIM_BAD_ARGUMENT));
  EXPECT_STREQ(
      api().status_message(status),
      "this status is no handle that is alive: it was released, or is no handle of this library");
  api().status_release(status);
}

TEST(Handles, WhereAnswersGoMustNotBeNull) {
  Everything all;
  const auto null = [](const char* function, const char* argument) {
    return Said{ANYDIM_BAD_ARGUMENT, std::string(function) + ": argument '" + argument +
                                         "' is NULL: expected the address of one"};
  };
  EXPECT_EQ(said(api().options_create(nullptr)), null("options_create", "options"));
  EXPECT_EQ(said(api().cancellation_create(nullptr)), null("cancellation_create", "cancellation"));
  EXPECT_EQ(said(api().options_set(all.options, nullptr, "1")), null("options_set", "name"));
  EXPECT_EQ(said(api().options_set(all.options, "threads", nullptr)), null("options_set", "value"));
  EXPECT_EQ(said(api().model_load_file("x.onnx", nullptr, nullptr, nullptr)),
            null("model_load_file", "model"));
  anydim_model* model = all.model;
  EXPECT_EQ(said(api().model_load_file(nullptr, nullptr, nullptr, &model)),
            null("model_load_file", "file"));
  EXPECT_EQ(model, nullptr);
  EXPECT_EQ(said(api().model_load_memory(nullptr, 3, nullptr, nullptr, nullptr, &model)),
            null("model_load_memory", "bytes"));
  EXPECT_EQ(said(api().model_input_count(all.model, nullptr)), null("model_input_count", "count"));
  EXPECT_EQ(said(api().model_input(all.model, 0, nullptr)), null("model_input", "info"));
  EXPECT_EQ(said(api().model_symbol(all.model, 0, nullptr)), null("model_symbol", "info"));
  EXPECT_EQ(said(api().model_padded_because(all.model, nullptr)),
            null("model_padded_because", "reason"));
  EXPECT_EQ(said(api().model_statistics(all.model, nullptr)),
            null("model_statistics", "statistics"));
  EXPECT_EQ(said(api().model_memory_ceiling(all.model, nullptr, 0, nullptr)),
            null("model_memory_ceiling", "ceiling"));
  auto ceiling = answer<anydim_memory_ceiling>();
  EXPECT_EQ(said(api().model_memory_ceiling(all.model, nullptr, 1, &ceiling)),
            null("model_memory_ceiling", "shapes"));
  EXPECT_EQ(said(api().context_create(all.model, nullptr)), null("context_create", "context"));
  EXPECT_EQ(said(api().trace_create(all.model, nullptr)), null("trace_create", "trace"));
  EXPECT_EQ(said(api().trace_write(all.trace, nullptr)), null("trace_write", "file"));
  EXPECT_EQ(said(api().cache_create(all.model, nullptr)), null("cache_create", "cache"));
  EXPECT_EQ(said(api().cache_length(all.cache, nullptr)), null("cache_length", "length"));
  EXPECT_EQ(said(api().cache_read(all.cache, "x", nullptr)), null("cache_read", "results"));
  EXPECT_EQ(said(api().cache_write(all.cache, nullptr)), null("cache_write", "tensor"));
  EXPECT_EQ(said(api().model_timeline_write(all.model, nullptr)),
            null("model_timeline_write", "file"));
  EXPECT_EQ(said(api().context_run_owned(all.context, nullptr, 0, nullptr)),
            null("context_run_owned", "results"));
  EXPECT_EQ(said(api().context_run(all.context, nullptr, 1, nullptr, 0)),
            null("context_run", "inputs"));
  EXPECT_EQ(said(api().context_run(all.context, nullptr, 0, nullptr, 1)),
            null("context_run", "outputs"));
  EXPECT_EQ(said(api().context_packed_rows(all.context, nullptr)),
            null("context_packed_rows", "rows"));
  EXPECT_EQ(said(api().results_count(all.results, nullptr)), null("results_count", "count"));
  EXPECT_EQ(said(api().results_tensor(all.results, 0, nullptr)), null("results_tensor", "tensor"));
  all.release();
}

TEST(Handles, AnswersTellTheirSize) {
  Everything all;
  anydim_tensor_info info{};
  EXPECT_EQ(
      said(api().model_input(all.model, 0, &info)),
      (Said{ANYDIM_BAD_ARGUMENT,
            "model_input: info->struct_size is 0: expected sizeof(*info), which is at least " +
                std::to_string(sizeof info)}));
  struct Larger {
    anydim_tensor_info info;
    std::int64_t more;
  } larger{{}, 77};
  larger.info.struct_size = sizeof(Larger);
  EXPECT_OK(api().model_input(all.model, 0, &larger.info));
  EXPECT_STREQ(larger.info.name, "x");
  EXPECT_EQ(larger.info.struct_size, sizeof(Larger));
  EXPECT_EQ(larger.more, 0);
  all.release();
}

// Threads that make, use and release beside each other; run under tsan.
TEST(Handles, ThreadsShareTheRegistry) {
  const std::size_t before = api().handles_alive();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 500; ++i) {
        anydim_options* options = nullptr;
        EXPECT_OK(api().options_create(&options));
        EXPECT_OK(api().options_set(options, "output", "y"));
        EXPECT_OK(api().options_release(options));
        EXPECT_EQ(said(api().options_release(options)).kind,
                  static_cast<anydim_kind>(ANYDIM_BAD_ARGUMENT));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(api().handles_alive(), before);
}

TEST(Registry, TokensOfOnePlaceDiffer) {
  Registry registry;
  const auto object = std::make_shared<int>(1);
  std::set<std::uintptr_t> tokens;
  for (int i = 0; i < 1000; ++i) {
    const std::uintptr_t token = registry.add(HandleKind::Model, object);
    EXPECT_TRUE(tokens.insert(token).second);
    EXPECT_EQ(registry.find(token, HandleKind::Context), nullptr);
    EXPECT_NE(registry.remove(token, HandleKind::Model), nullptr);
    EXPECT_EQ(registry.remove(token, HandleKind::Model), nullptr);
  }
  const std::uintptr_t kept = registry.add(HandleKind::Model, object);
  registry.clear();
  EXPECT_EQ(object.use_count(), 1);
  EXPECT_EQ(registry.find(kept, HandleKind::Model), nullptr);
}

}  // namespace
}  // namespace anydim::capi
