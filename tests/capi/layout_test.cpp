// What programs were built with stays where it is: rows are only ever added, at the end of a struct
// that may grow and of the table.
#include <gtest/gtest.h>

#include <cstddef>

#include "capi/anydim.h"

namespace {

// anydim_input
static_assert(offsetof(anydim_input, name) == 0);
static_assert(offsetof(anydim_input, dims) == 8);
static_assert(offsetof(anydim_input, data) == 16);
static_assert(offsetof(anydim_input, size) == 24);
static_assert(offsetof(anydim_input, dtype) == 32);
static_assert(offsetof(anydim_input, rank) == 36);
static_assert(sizeof(anydim_input) == 40);

// anydim_output
static_assert(offsetof(anydim_output, name) == 0);
static_assert(offsetof(anydim_output, dims) == 8);
static_assert(offsetof(anydim_output, data) == 16);
static_assert(offsetof(anydim_output, capacity) == 24);
static_assert(offsetof(anydim_output, size) == 32);
static_assert(offsetof(anydim_output, dtype) == 40);
static_assert(offsetof(anydim_output, rank) == 44);
static_assert(sizeof(anydim_output) == 48);

// anydim_shape
static_assert(offsetof(anydim_shape, name) == 0);
static_assert(offsetof(anydim_shape, dims) == 8);
static_assert(offsetof(anydim_shape, rank) == 16);
static_assert(sizeof(anydim_shape) == 24);

// anydim_setting
static_assert(offsetof(anydim_setting, name) == 0);
static_assert(offsetof(anydim_setting, value) == 8);
static_assert(sizeof(anydim_setting) == 16);

// anydim_stream_call
static_assert(offsetof(anydim_stream_call, struct_size) == 0);
static_assert(offsetof(anydim_stream_call, stream) == 8);
static_assert(offsetof(anydim_stream_call, inputs_on_device) == 16);
static_assert(offsetof(anydim_stream_call, outputs_on_device) == 24);
static_assert(offsetof(anydim_stream_call, offsets) == 32);
static_assert(offsetof(anydim_stream_call, offset_count) == 40);
static_assert(sizeof(anydim_stream_call) == 48);

// anydim_tune_progress
static_assert(offsetof(anydim_tune_progress, struct_size) == 0);
static_assert(offsetof(anydim_tune_progress, region) == 8);
static_assert(offsetof(anydim_tune_progress, candidate) == 16);
static_assert(offsetof(anydim_tune_progress, trials) == 24);
static_assert(offsetof(anydim_tune_progress, space) == 32);
static_assert(offsetof(anydim_tune_progress, best_seconds) == 40);
static_assert(offsetof(anydim_tune_progress, default_seconds) == 48);
static_assert(offsetof(anydim_tune_progress, roofline_seconds) == 56);
static_assert(offsetof(anydim_tune_progress, seconds_left) == 64);
static_assert(sizeof(anydim_tune_progress) == 72);

// anydim_tune_result
static_assert(offsetof(anydim_tune_result, struct_size) == 0);
static_assert(offsetof(anydim_tune_result, nothing_to_do) == 8);
static_assert(offsetof(anydim_tune_result, trials) == 16);
static_assert(offsetof(anydim_tune_result, reused) == 24);
static_assert(offsetof(anydim_tune_result, space) == 32);
static_assert(offsetof(anydim_tune_result, failed) == 40);
static_assert(offsetof(anydim_tune_result, kernels) == 48);
static_assert(offsetof(anydim_tune_result, default_seconds) == 56);
static_assert(offsetof(anydim_tune_result, expected_seconds) == 64);
static_assert(offsetof(anydim_tune_result, lower_bound_seconds) == 72);
static_assert(sizeof(anydim_tune_result) == 80);

// anydim_tensor_info
static_assert(offsetof(anydim_tensor_info, struct_size) == 0);
static_assert(offsetof(anydim_tensor_info, name) == 8);
static_assert(offsetof(anydim_tensor_info, dims) == 16);
static_assert(offsetof(anydim_tensor_info, extents) == 24);
static_assert(offsetof(anydim_tensor_info, rank) == 32);
static_assert(offsetof(anydim_tensor_info, dtype) == 36);
static_assert(offsetof(anydim_tensor_info, any_shape) == 40);
static_assert(offsetof(anydim_tensor_info, rows) == 44);
static_assert(sizeof(anydim_tensor_info) == 48);

// anydim_symbol_info
static_assert(offsetof(anydim_symbol_info, struct_size) == 0);
static_assert(offsetof(anydim_symbol_info, name) == 8);
static_assert(offsetof(anydim_symbol_info, reason) == 16);
static_assert(offsetof(anydim_symbol_info, low) == 24);
static_assert(offsetof(anydim_symbol_info, high) == 32);
static_assert(offsetof(anydim_symbol_info, multiple) == 40);
static_assert(sizeof(anydim_symbol_info) == 48);

// anydim_tensor
static_assert(offsetof(anydim_tensor, struct_size) == 0);
static_assert(offsetof(anydim_tensor, name) == 8);
static_assert(offsetof(anydim_tensor, dims) == 16);
static_assert(offsetof(anydim_tensor, data) == 24);
static_assert(offsetof(anydim_tensor, size) == 32);
static_assert(offsetof(anydim_tensor, rank) == 40);
static_assert(offsetof(anydim_tensor, dtype) == 44);
static_assert(sizeof(anydim_tensor) == 48);

// anydim_memory_ceiling
static_assert(offsetof(anydim_memory_ceiling, struct_size) == 0);
static_assert(offsetof(anydim_memory_ceiling, arena_bytes) == 8);
static_assert(offsetof(anydim_memory_ceiling, constant_bytes) == 16);
static_assert(offsetof(anydim_memory_ceiling, unbounded_because) == 24);
static_assert(sizeof(anydim_memory_ceiling) == 32);

// anydim_statistics
static_assert(offsetof(anydim_statistics, struct_size) == 0);
static_assert(offsetof(anydim_statistics, calls) == 8);
static_assert(offsetof(anydim_statistics, failed) == 16);
static_assert(offsetof(anydim_statistics, packed) == 24);
static_assert(offsetof(anydim_statistics, padded) == 32);
static_assert(offsetof(anydim_statistics, ragged) == 40);
static_assert(offsetof(anydim_statistics, tokens_given) == 48);
static_assert(offsetof(anydim_statistics, tokens_computed) == 56);
static_assert(offsetof(anydim_statistics, tokens_useful) == 64);
static_assert(offsetof(anydim_statistics, kernels) == 72);
static_assert(offsetof(anydim_statistics, kernels_from_cache) == 80);
static_assert(offsetof(anydim_statistics, kernels_compiled) == 88);
static_assert(offsetof(anydim_statistics, kernels_failed) == 96);
static_assert(offsetof(anydim_statistics, kernels_pending) == 104);
static_assert(offsetof(anydim_statistics, compiler_calls) == 112);
static_assert(offsetof(anydim_statistics, constant_bytes) == 120);
static_assert(offsetof(anydim_statistics, code_bytes) == 128);
static_assert(offsetof(anydim_statistics, held_bytes) == 136);
static_assert(offsetof(anydim_statistics, seconds) == 144);
static_assert(offsetof(anydim_statistics, latency_p50) == 152);
static_assert(offsetof(anydim_statistics, latency_p90) == 160);
static_assert(offsetof(anydim_statistics, latency_p99) == 168);
static_assert(offsetof(anydim_statistics, latency_p999) == 176);
static_assert(offsetof(anydim_statistics, latency_most) == 184);
static_assert(sizeof(anydim_statistics) == 192);

// anydim_api
static_assert(offsetof(anydim_api, version) == 0);
static_assert(offsetof(anydim_api, size) == 4);
static_assert(offsetof(anydim_api, library_version) == 8);
static_assert(offsetof(anydim_api, handles_alive) == 16);
static_assert(offsetof(anydim_api, status_kind) == 24);
static_assert(offsetof(anydim_api, status_message) == 32);
static_assert(offsetof(anydim_api, status_release) == 40);
static_assert(offsetof(anydim_api, options_create) == 48);
static_assert(offsetof(anydim_api, options_set) == 56);
static_assert(offsetof(anydim_api, options_set_warning) == 64);
static_assert(offsetof(anydim_api, options_release) == 72);
static_assert(offsetof(anydim_api, cancellation_create) == 80);
static_assert(offsetof(anydim_api, cancellation_cancel) == 88);
static_assert(offsetof(anydim_api, cancellation_reset) == 96);
static_assert(offsetof(anydim_api, cancellation_release) == 104);
static_assert(offsetof(anydim_api, model_load_file) == 112);
static_assert(offsetof(anydim_api, model_load_memory) == 120);
static_assert(offsetof(anydim_api, model_release) == 128);
static_assert(offsetof(anydim_api, model_input_count) == 136);
static_assert(offsetof(anydim_api, model_input) == 144);
static_assert(offsetof(anydim_api, model_output_count) == 152);
static_assert(offsetof(anydim_api, model_output) == 160);
static_assert(offsetof(anydim_api, model_symbol_count) == 168);
static_assert(offsetof(anydim_api, model_symbol) == 176);
static_assert(offsetof(anydim_api, model_padded_because) == 184);
static_assert(offsetof(anydim_api, model_hidden_rows_kept_because) == 192);
static_assert(offsetof(anydim_api, model_complete) == 200);
static_assert(offsetof(anydim_api, model_statistics) == 208);
static_assert(offsetof(anydim_api, model_memory_ceiling) == 216);
static_assert(offsetof(anydim_api, model_prepare_ragged) == 224);
static_assert(offsetof(anydim_api, model_ragged_input_count) == 232);
static_assert(offsetof(anydim_api, model_ragged_input) == 240);
static_assert(offsetof(anydim_api, model_ragged_output) == 248);
static_assert(offsetof(anydim_api, context_create) == 256);
static_assert(offsetof(anydim_api, context_release) == 264);
static_assert(offsetof(anydim_api, context_set_cancellation) == 272);
static_assert(offsetof(anydim_api, context_set_trace) == 280);
static_assert(offsetof(anydim_api, context_run) == 288);
static_assert(offsetof(anydim_api, context_run_owned) == 296);
static_assert(offsetof(anydim_api, context_run_ragged) == 304);
static_assert(offsetof(anydim_api, context_run_ragged_owned) == 312);
static_assert(offsetof(anydim_api, context_packed_rows) == 320);
static_assert(offsetof(anydim_api, results_count) == 328);
static_assert(offsetof(anydim_api, results_tensor) == 336);
static_assert(offsetof(anydim_api, results_release) == 344);
static_assert(offsetof(anydim_api, trace_create) == 352);
static_assert(offsetof(anydim_api, trace_write) == 360);
static_assert(offsetof(anydim_api, trace_release) == 368);
static_assert(offsetof(anydim_api, dtype_name) == 376);
static_assert(offsetof(anydim_api, dtype_size) == 384);
static_assert(offsetof(anydim_api, model_timeline_start) == 392);
static_assert(offsetof(anydim_api, model_timeline_stop) == 400);
static_assert(offsetof(anydim_api, model_timeline_write) == 408);
static_assert(offsetof(anydim_api, tune_file) == 416);
static_assert(offsetof(anydim_api, tune_memory) == 424);
static_assert(offsetof(anydim_api, context_run_on_stream) == 432);
static_assert(offsetof(anydim_api, context_run_on_stream_owned) == 440);
static_assert(offsetof(anydim_api, context_synchronize) == 448);
static_assert(offsetof(anydim_api, results_device) == 456);
static_assert(offsetof(anydim_api, cache_create) == 464);
static_assert(offsetof(anydim_api, cache_release) == 472);
static_assert(offsetof(anydim_api, cache_length) == 480);
static_assert(offsetof(anydim_api, cache_reserve) == 488);
static_assert(offsetof(anydim_api, cache_truncate) == 496);
static_assert(offsetof(anydim_api, cache_read) == 504);
static_assert(offsetof(anydim_api, cache_write) == 512);
static_assert(offsetof(anydim_api, context_set_cache) == 520);
static_assert(sizeof(anydim_api) == 528);

// Kinds and dtypes
static_assert(ANYDIM_OK == 0);
static_assert(ANYDIM_BAD_ARGUMENT == 2);
static_assert(ANYDIM_UNSUPPORTED == 3);
static_assert(ANYDIM_MALFORMED == 4);
static_assert(ANYDIM_BAD_INPUTS == 5);
static_assert(ANYDIM_NO_RESOURCE == 6);
static_assert(ANYDIM_NOT_WRITTEN == 7);
static_assert(ANYDIM_CANCELLED == 8);
static_assert(ANYDIM_INTERNAL == 70);
static_assert(ANYDIM_F64 == 1);
static_assert(ANYDIM_F32 == 2);
static_assert(ANYDIM_F16 == 3);
static_assert(ANYDIM_BF16 == 4);
static_assert(ANYDIM_I64 == 5);
static_assert(ANYDIM_I32 == 6);
static_assert(ANYDIM_I16 == 7);
static_assert(ANYDIM_I8 == 8);
static_assert(ANYDIM_U64 == 9);
static_assert(ANYDIM_U32 == 10);
static_assert(ANYDIM_U16 == 11);
static_assert(ANYDIM_U8 == 12);
static_assert(ANYDIM_BOOL == 13);

// The table's size has changed with its version, or neither has. A new version adds a row; none is
// ever edited.
constexpr std::size_t size_of_version[] = {
    0, offsetof(anydim_api, dtype_size) + sizeof(void (*)()),
    offsetof(anydim_api, tune_memory) + sizeof(void (*)()),
    offsetof(anydim_api, results_device) + sizeof(void (*)()),
    offsetof(anydim_api, context_set_cache) + sizeof(void (*)())};
TEST(Layout, TheTableGrowsWithItsVersion) {
  ASSERT_EQ(std::size(size_of_version), ANYDIM_API_VERSION + 1);
  EXPECT_EQ(size_of_version[ANYDIM_API_VERSION], sizeof(anydim_api));
  EXPECT_LE((sizeof(anydim_api) - offsetof(anydim_api, library_version)) / sizeof(void (*)()), 72u);
}

}  // namespace
