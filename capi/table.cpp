#include "capi/functions.h"
#include "capi/handles.h"

namespace anydim::capi {

const char* library_version() noexcept { return ANYDIM_VERSION; }

std::size_t handles_alive() noexcept { return Registry::get().alive(); }

const anydim_api& table() {
  static constexpr anydim_api functions = {
      .version = ANYDIM_API_VERSION,
      .size = sizeof(anydim_api),
      .library_version = library_version,
      .handles_alive = handles_alive,
      .status_kind = status_kind,
      .status_message = status_message,
      .status_release = status_release,
      .options_create = options_create,
      .options_set = options_set,
      .options_set_warning = options_set_warning,
      .options_release = options_release,
      .cancellation_create = cancellation_create,
      .cancellation_cancel = cancellation_cancel,
      .cancellation_reset = cancellation_reset,
      .cancellation_release = cancellation_release,
      .model_load_file = model_load_file,
      .model_load_memory = model_load_memory,
      .model_release = model_release,
      .model_input_count = model_input_count,
      .model_input = model_input,
      .model_output_count = model_output_count,
      .model_output = model_output,
      .model_symbol_count = model_symbol_count,
      .model_symbol = model_symbol,
      .model_padded_because = model_padded_because,
      .model_hidden_rows_kept_because = model_hidden_rows_kept_because,
      .model_complete = model_complete,
      .model_statistics = model_statistics,
      .model_memory_ceiling = model_memory_ceiling,
      .model_prepare_ragged = model_prepare_ragged,
      .model_ragged_input_count = model_ragged_input_count,
      .model_ragged_input = model_ragged_input,
      .model_ragged_output = model_ragged_output,
      .context_create = context_create,
      .context_release = context_release,
      .context_set_cancellation = context_set_cancellation,
      .context_set_trace = context_set_trace,
      .context_run = context_run,
      .context_run_owned = context_run_owned,
      .context_run_ragged = context_run_ragged,
      .context_run_ragged_owned = context_run_ragged_owned,
      .context_packed_rows = context_packed_rows,
      .results_count = results_count,
      .results_tensor = results_tensor,
      .results_release = results_release,
      .trace_create = trace_create,
      .trace_write = trace_write,
      .trace_release = trace_release,
      .dtype_name = dtype_name,
      .dtype_size = dtype_size,
      .model_timeline_start = model_timeline_start,
      .model_timeline_stop = model_timeline_stop,
      .model_timeline_write = model_timeline_write,
      .tune_file = tune_file,
      .tune_memory = tune_memory,
      .context_run_on_stream = context_run_on_stream,
      .context_run_on_stream_owned = context_run_on_stream_owned,
      .context_synchronize = context_synchronize,
      .results_device = results_device,
      .cache_create = cache_create,
      .cache_release = cache_release,
      .cache_length = cache_length,
      .cache_reserve = cache_reserve,
      .cache_truncate = cache_truncate,
      .cache_read = cache_read,
      .cache_write = cache_write,
      .context_set_cache = context_set_cache,
  };
  return functions;
}

}  // namespace anydim::capi

// What entry.c gives the world.
extern "C" const anydim_api* anydim_table(void) { return &anydim::capi::table(); }
