// The functions of the table, as anydim.h describes them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "capi/anydim.h"

namespace anydim::capi {

const char* library_version() noexcept;
std::size_t handles_alive() noexcept;
anydim_kind status_kind(const anydim_status* status) noexcept;
const char* status_message(const anydim_status* status) noexcept;
void status_release(anydim_status* status) noexcept;
anydim_status* options_create(anydim_options** options) noexcept;
anydim_status* options_set(anydim_options* options, const char* name, const char* value) noexcept;
anydim_status* options_set_warning(anydim_options* options, anydim_warning warning,
                                   void* user) noexcept;
anydim_status* options_release(anydim_options* options) noexcept;
anydim_status* cancellation_create(anydim_cancellation** cancellation) noexcept;
anydim_status* cancellation_cancel(anydim_cancellation* cancellation) noexcept;
anydim_status* cancellation_reset(anydim_cancellation* cancellation) noexcept;
anydim_status* cancellation_release(anydim_cancellation* cancellation) noexcept;
anydim_status* model_load_file(const char* file, const anydim_options* options,
                               anydim_cancellation* cancellation, anydim_model** model) noexcept;
anydim_status* model_load_memory(const void* bytes, std::size_t size, const char* folder,
                                 const anydim_options* options, anydim_cancellation* cancellation,
                                 anydim_model** model) noexcept;
anydim_status* model_release(anydim_model* model) noexcept;
anydim_status* model_input_count(const anydim_model* model, std::size_t* count) noexcept;
anydim_status* model_input(const anydim_model* model, std::size_t index,
                           anydim_tensor_info* info) noexcept;
anydim_status* model_output_count(const anydim_model* model, std::size_t* count) noexcept;
anydim_status* model_output(const anydim_model* model, std::size_t index,
                            anydim_tensor_info* info) noexcept;
anydim_status* model_symbol_count(const anydim_model* model, std::size_t* count) noexcept;
anydim_status* model_symbol(const anydim_model* model, std::size_t index,
                            anydim_symbol_info* info) noexcept;
anydim_status* model_padded_because(const anydim_model* model, const char** reason) noexcept;
anydim_status* model_hidden_rows_kept_because(const anydim_model* model,
                                              const char** reason) noexcept;
anydim_status* model_complete(const anydim_model* model,
                              anydim_cancellation* cancellation) noexcept;
anydim_status* model_statistics(const anydim_model* model, anydim_statistics* statistics) noexcept;
anydim_status* model_memory_ceiling(const anydim_model* model, const anydim_shape* shapes,
                                    std::size_t count, anydim_memory_ceiling* ceiling) noexcept;
anydim_status* model_prepare_ragged(const anydim_model* model,
                                    anydim_cancellation* cancellation) noexcept;
anydim_status* model_ragged_input_count(const anydim_model* model, std::size_t* count) noexcept;
anydim_status* model_ragged_input(const anydim_model* model, std::size_t index,
                                  anydim_tensor_info* info) noexcept;
anydim_status* model_ragged_output(const anydim_model* model, std::size_t index,
                                   anydim_tensor_info* info) noexcept;
anydim_status* context_create(const anydim_model* model, anydim_context** context) noexcept;
anydim_status* context_release(anydim_context* context) noexcept;
anydim_status* context_set_cancellation(anydim_context* context,
                                        anydim_cancellation* cancellation) noexcept;
anydim_status* context_set_trace(anydim_context* context, anydim_trace* trace) noexcept;
anydim_status* context_run(anydim_context* context, const anydim_input* inputs,
                           std::size_t input_count, anydim_output* outputs,
                           std::size_t output_count) noexcept;
anydim_status* context_run_owned(anydim_context* context, const anydim_input* inputs,
                                 std::size_t input_count, anydim_results** results) noexcept;
anydim_status* context_run_ragged(anydim_context* context, const anydim_input* inputs,
                                  std::size_t input_count, const std::int64_t* offsets,
                                  std::size_t offset_count, anydim_output* outputs,
                                  std::size_t output_count) noexcept;
anydim_status* context_run_ragged_owned(anydim_context* context, const anydim_input* inputs,
                                        std::size_t input_count, const std::int64_t* offsets,
                                        std::size_t offset_count,
                                        anydim_results** results) noexcept;
anydim_status* context_run_on_stream(anydim_context* context, const anydim_stream_call* call,
                                     const anydim_input* inputs, std::size_t input_count,
                                     anydim_output* outputs, std::size_t output_count) noexcept;
anydim_status* context_run_on_stream_owned(anydim_context* context, const anydim_stream_call* call,
                                           const anydim_input* inputs, std::size_t input_count,
                                           anydim_results** results) noexcept;
anydim_status* context_synchronize(anydim_context* context) noexcept;
anydim_status* context_packed_rows(const anydim_context* context, std::int64_t* rows) noexcept;
anydim_status* results_count(const anydim_results* results, std::size_t* count) noexcept;
anydim_status* results_tensor(const anydim_results* results, std::size_t index,
                              anydim_tensor* tensor) noexcept;
anydim_status* results_device(const anydim_results* results, std::size_t index,
                              std::int32_t* device) noexcept;
anydim_status* results_release(anydim_results* results) noexcept;
anydim_status* trace_create(const anydim_model* model, anydim_trace** trace) noexcept;
anydim_status* trace_write(anydim_trace* trace, const char* file) noexcept;
anydim_status* trace_release(anydim_trace* trace) noexcept;
const char* dtype_name(anydim_dtype dtype) noexcept;
std::size_t dtype_size(anydim_dtype dtype) noexcept;
anydim_status* model_timeline_start(const anydim_model* model, std::size_t events) noexcept;
anydim_status* model_timeline_stop(const anydim_model* model) noexcept;
anydim_status* model_timeline_write(const anydim_model* model, const char* file) noexcept;
anydim_status* tune_file(const char* file, const anydim_options* options,
                         const anydim_setting* settings, std::size_t setting_count,
                         anydim_tune_watch watch, void* user, anydim_cancellation* cancellation,
                         anydim_tune_result* result) noexcept;
anydim_status* tune_memory(const void* bytes, std::size_t size, const char* folder,
                           const anydim_options* options, const anydim_setting* settings,
                           std::size_t setting_count, anydim_tune_watch watch, void* user,
                           anydim_cancellation* cancellation, anydim_tune_result* result) noexcept;

anydim_status* cache_create(const anydim_model* model, anydim_cache** cache) noexcept;
anydim_status* cache_release(anydim_cache* cache) noexcept;
anydim_status* cache_length(const anydim_cache* cache, std::int64_t* length) noexcept;
anydim_status* cache_reserve(anydim_cache* cache, std::int64_t length) noexcept;
anydim_status* cache_truncate(anydim_cache* cache, std::int64_t length) noexcept;
anydim_status* cache_read(const anydim_cache* cache, const char* name,
                          anydim_results** results) noexcept;
anydim_status* cache_write(anydim_cache* cache, const anydim_input* tensor) noexcept;
anydim_status* context_set_cache(anydim_context* context, anydim_cache* cache) noexcept;

const anydim_api& table();

}  // namespace anydim::capi
