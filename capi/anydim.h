// Anydim's C interface: load a model whose shapes are unknown, compile it once, run it at any
// shape. docs/c-interface.md has examples.
//
// The library exports one function, anydim_get_api, which gives a table of functions. The table
// only ever grows at its end: a program built with this header works with every later library of
// the same SONAME.
//
// Errors. A function that can fail returns a status: NULL where it succeeded, else an object that
// tells what happened, to be released by status_release. No call that fails changes anything but
// where it says so; what it would have made is NULL then.
//
// Handles are opaque. Each is released by its own function; releasing NULL does nothing. A handle
// that was released, is NULL or is of another kind is an error of the call (ANYDIM_BAD_ARGUMENT),
// never undefined behaviour. What a handle was made of may be released before it: a context keeps
// its model. Pointers, by contrast, are trusted: strings end with 0, arrays have as many elements
// as the call says, and what a function gives is valid as long as its comment says.
//
// Threads. Every function may be called on any thread at any time, also with handles that other
// threads use; a handle released during a call stays whole until the call returns. A context serves
// one call at a time: a second one beside it is an error, so each thread has a context of its own.
// Models, options, cancellations and traces are shared freely. Buffers of a call belong to the call
// until it returns. Compilation and calls use worker threads of the library, so a child of fork()
// may not use what its parent made. At exit() the library lets go of all handles, waiting for
// kernels at work.
#ifndef ANYDIM_ANYDIM_H
#define ANYDIM_ANYDIM_H

#include <stddef.h>
#include <stdint.h>

// The version of the table that this header declares.
#define ANYDIM_API_VERSION 4u

#if defined(__GNUC__)
#define ANYDIM_EXPORT __attribute__((visibility("default")))
#else
#define ANYDIM_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct anydim_status anydim_status;
typedef struct anydim_options anydim_options;
typedef struct anydim_cancellation anydim_cancellation;
typedef struct anydim_model anydim_model;
typedef struct anydim_context anydim_context;
typedef struct anydim_results anydim_results;
typedef struct anydim_trace anydim_trace;
typedef struct anydim_cache anydim_cache;

// What kind of error a status is. Its number is the exit code with which the command `anydim` ends
// for the same reason.
typedef uint32_t anydim_kind;
enum {
  ANYDIM_OK = 0,
  ANYDIM_BAD_ARGUMENT = 2,  // a handle, pointer, index or option that the function does not take
  ANYDIM_UNSUPPORTED =
      3,                 // the model uses an op, opset, dtype or form that Anydim does not compile
  ANYDIM_MALFORMED = 4,  // a model or file is missing, truncated or contradicts itself
  ANYDIM_BAD_INPUTS =
      5,  // inputs or buffers of a call don't fit: name, dtype, shape, size, or a check at run time
  ANYDIM_NO_RESOURCE = 6,  // memory, device, driver or compiler library is missing
  ANYDIM_NOT_WRITTEN = 7,  // a file cannot be written
  ANYDIM_CANCELLED = 8,    // the caller asked for the work to end
  ANYDIM_INTERNAL = 70     // a bug in Anydim
};

typedef uint32_t anydim_dtype;
enum {
  ANYDIM_F64 = 1,
  ANYDIM_F32 = 2,
  ANYDIM_F16 = 3,
  ANYDIM_BF16 = 4,
  ANYDIM_I64 = 5,
  ANYDIM_I32 = 6,
  ANYDIM_I16 = 7,
  ANYDIM_I8 = 8,
  ANYDIM_U64 = 9,
  ANYDIM_U32 = 10,
  ANYDIM_U16 = 11,
  ANYDIM_U8 = 12,
  ANYDIM_BOOL = 13  // a byte, 0 or 1
};

// ---- Arguments of a call. These structs never change. Elements are row-major and contiguous, at
// an address that is a multiple of an element's size. ----

typedef struct anydim_input {
  const char* name;
  const int64_t* dims;  // `rank` extents; may be NULL where rank is 0
  const void* data;     // may be NULL where size is 0
  size_t size;          // bytes: the product of dims times an element's
  anydim_dtype dtype;
  uint32_t rank;
} anydim_input;

// A result and the caller's memory for it, which may overlap neither inputs nor other outputs.
typedef struct anydim_output {
  const char* name;
  int64_t* dims;       // room for `rank` extents, which the call sets; where it gives the result
                       // fewer, the first ones are 1
  void* data;          // may be NULL where capacity is 0
  size_t capacity;     // bytes
  size_t size;         // set by the call: bytes of the result
  anydim_dtype dtype;  // of the result; another one is an error
  uint32_t rank;       // of the result; another one is an error
} anydim_output;

// A setting by name. Never changes.
typedef struct anydim_setting {
  const char* name;
  const char* value;
} anydim_setting;

// The shape of an input, for questions about calls to come.
typedef struct anydim_shape {
  const char* name;
  const int64_t* dims;  // `rank` extents
  size_t rank;
} anydim_shape;

// What context_run_on_stream is told beside its inputs and outputs. The caller sets struct_size to
// sizeof the struct, and the members that it does not use to 0.
typedef struct anydim_stream_call {
  size_t struct_size;
  void* stream;  // a CUstream or cudaStream_t; NULL is the default stream
  // For each input or output whether its `data` is a device address (1) or one of the host (0);
  // NULL: all are of the host.
  const uint8_t* inputs_on_device;
  const uint8_t* outputs_on_device;
  // Texts laid end to end, as of context_run_ragged, on the host; NULL: the call is padded.
  const int64_t* offsets;
  size_t offset_count;
} anydim_stream_call;

// ---- Answers. The caller sets struct_size to sizeof the struct before the call, since later
// versions add members at the end. ----

// An input or result of a model. Pointers are valid until the model's handle is released.
typedef struct anydim_tensor_info {
  size_t struct_size;
  const char* name;
  // `rank` texts: a number, a symbol, or an expression of symbols such as "2*n + 1"
  const char* const* dims;
  const int64_t* extents;  // `rank` numbers: of constant dims; -1 of others
  uint32_t rank;
  anydim_dtype dtype;
  uint32_t any_shape;  // of an input: 1 where nothing reads it, so that any shape will do; else 0
  uint32_t rows;  // of ragged calls: 1 where the first dim counts the rows of all texts; else 0
} anydim_tensor_info;

// A symbol of dims. Pointers are valid until the model's handle is released.
typedef struct anydim_symbol_info {
  size_t struct_size;
  const char* name;
  const char* reason;  // why the range is narrower than declared; empty: it is as declared
  int64_t low;         // the least value
  int64_t high;        // the largest
  int64_t multiple;    // the value is a multiple of this
} anydim_symbol_info;

// A result that the library owns. Pointers are valid until the results are released.
typedef struct anydim_tensor {
  size_t struct_size;
  const char* name;
  const int64_t* dims;  // `rank` extents
  const void* data;     // aligned to an element's size at least
  size_t size;          // bytes
  uint32_t rank;
  anydim_dtype dtype;
} anydim_tensor;

// What a call may hold at most while it runs, by the programs that the model has compiled so far.
typedef struct anydim_memory_ceiling {
  size_t struct_size;
  int64_t arena_bytes;            // of activations; -1 where they have no bound
  int64_t constant_bytes;         // of weights, which calls share
  const char* unbounded_because;  // the node where they have no bound, else empty; valid until the
                                  // model's handle is released
} anydim_memory_ceiling;

// A model at work, since it was compiled.
typedef struct anydim_statistics {
  size_t struct_size;
  int64_t calls;   // that gave results
  int64_t failed;  // that did not
  // Those of `calls` that ran over rows that take part alone; over padded rows; over ragged texts.
  int64_t packed;
  int64_t padded;
  int64_t ragged;
  // Rows of calls whose mask the model knows and of ragged ones: those that inputs held, that were
  // computed, that take part.
  int64_t tokens_given;
  int64_t tokens_computed;
  int64_t tokens_useful;
  // Kernels: pieces of code that the model's tables name; of them from the cache, compiled, failed,
  // still to come; calls of the compiler.
  int64_t kernels;
  int64_t kernels_from_cache;
  int64_t kernels_compiled;
  int64_t kernels_failed;
  int64_t kernels_pending;
  int64_t compiler_calls;
  // Bytes: weights as kernels read them; code; what the contexts hold for their largest calls.
  // Results belong to the caller.
  int64_t constant_bytes;
  int64_t code_bytes;
  int64_t held_bytes;
  // Seconds: of all calls together; quantiles of one call's latency, each at most a sixteenth above
  // what was measured.
  double seconds;
  double latency_p50;
  double latency_p90;
  double latency_p99;
  double latency_p999;
  double latency_most;
} anydim_statistics;

// How far a tuning run is. Pointers are valid during the call.
typedef struct anydim_tune_progress {
  size_t struct_size;
  const char* region;       // at work
  const char* candidate;    // its schedule
  int64_t trials;           // candidates tried
  int64_t space;            // of so many
  double best_seconds;      // of a call, with the best kernels so far
  double default_seconds;   // by the cost model alone
  double roofline_seconds;  // that arithmetic and memory allow; 0: not known
  double seconds_left;      // of the budget
} anydim_tune_progress;

// What a tuning run found.
typedef struct anydim_tune_result {
  size_t struct_size;
  int64_t nothing_to_do;   // 1: the database holds a finished run of the same kind, and nothing was
                           // measured; else 0
  int64_t trials;          // candidates tried now
  int64_t reused;          // known from before
  int64_t space;           // all there are
  int64_t failed;          // of those tried
  int64_t kernels;         // that the tables name
  double default_seconds;  // expected of a call, by the cost model alone
  double expected_seconds;     // as tuned
  double lower_bound_seconds;  // at least, with so many kernels
} anydim_tune_result;

// Comes at each candidate, on the thread that tunes; must not throw. `progress->struct_size` says
// which members the library knows.
typedef void (*anydim_tune_watch)(void* user, const anydim_tune_progress* progress);

// One clear sentence, valid during the call. Comes on any thread, several at a time, as long as a
// model compiled with the options is held; must not call the library, and must not throw.
typedef void (*anydim_warning)(void* user, const char* message);

// ---- The table ----

typedef struct anydim_api {
  uint32_t version;  // of the library's table, at least the one that was asked for
  uint32_t size;     // bytes of the library's table

  const char* (*library_version)(void);  // e.g. "0.1.0"
  // handles that were made and not released, of all kinds: what a program leaks
  size_t (*handles_alive)(void);

  // What a status says. NULL is ANYDIM_OK with an empty message; one that was released is
  // ANYDIM_BAD_ARGUMENT with a message that says so.
  anydim_kind (*status_kind)(const anydim_status* status);
  // complete, its first line one clear sentence; valid until the status is released
  const char* (*status_message)(const anydim_status* status);
  void (*status_release)(anydim_status* status);

  // Options of compilation, all at their defaults. docs/c-interface.md lists them; an unknown one,
  // or a value that one does not take, is an error that names those there are. `dim`, `output` and
  // `policy` may be set several times.
  anydim_status* (*options_create)(anydim_options** options);
  anydim_status* (*options_set)(anydim_options* options, const char* name, const char* value);
  anydim_status* (*options_set_warning)(anydim_options* options, anydim_warning warning,
                                        void* user);  // NULL: warnings are dropped, the default
  anydim_status* (*options_release)(anydim_options* options);

  // A request to end work under way. Work that was given it ends at its next safe point (between
  // passes, kernels that are compiled and launches of a call) with ANYDIM_CANCELLED.
  anydim_status* (*cancellation_create)(anydim_cancellation** cancellation);
  // any thread, not a signal handler
  anydim_status* (*cancellation_cancel)(anydim_cancellation* cancellation);
  // for the next piece of work; none may be under way
  anydim_status* (*cancellation_reset)(anydim_cancellation* cancellation);
  anydim_status* (*cancellation_release)(anydim_cancellation* cancellation);

  // Loads and compiles: an ONNX model, or a module in text form. `options` and `cancellation` may
  // be NULL. Only the general kernels are compiled before it returns, the rest beside the calls
  // (option background). Weights in files beside the model are mapped, not copied; only files
  // inside the model's folder are opened. Bytes of model_load_memory are not needed afterwards;
  // `folder` is where files that the model names lie, NULL for none.
  anydim_status* (*model_load_file)(const char* file, const anydim_options* options,
                                    anydim_cancellation* cancellation, anydim_model** model);
  anydim_status* (*model_load_memory)(const void* bytes, size_t size, const char* folder,
                                      const anydim_options* options,
                                      anydim_cancellation* cancellation, anydim_model** model);
  anydim_status* (*model_release)(anydim_model* model);

  anydim_status* (*model_input_count)(const anydim_model* model, size_t* count);
  anydim_status* (*model_input)(const anydim_model* model, size_t index, anydim_tensor_info* info);
  anydim_status* (*model_output_count)(const anydim_model* model, size_t* count);
  anydim_status* (*model_output)(const anydim_model* model, size_t index, anydim_tensor_info* info);
  // Symbols that dims of inputs and results are made of.
  anydim_status* (*model_symbol_count)(const anydim_model* model, size_t* count);
  anydim_status* (*model_symbol)(const anydim_model* model, size_t index, anydim_symbol_info* info);

  // Why calls compute padded rows: the op, mask or result that stands in the way; empty where they
  // do not. Valid until the model's handle is released.
  anydim_status* (*model_padded_because)(const anydim_model* model, const char** reason);
  // Why hidden rows of results are not zeros though the option masked_rows asks for them; empty
  // where they are, or were not asked for.
  anydim_status* (*model_hidden_rows_kept_because)(const anydim_model* model, const char** reason);
  // Returns when every kernel has been compiled. `cancellation` may be NULL.
  anydim_status* (*model_complete)(const anydim_model* model, anydim_cancellation* cancellation);
  anydim_status* (*model_statistics)(const anydim_model* model, anydim_statistics* statistics);
  // Shapes of every input but those of any shape. ANYDIM_BAD_INPUTS as for a call of these shapes.
  anydim_status* (*model_memory_ceiling)(const anydim_model* model, const anydim_shape* shapes,
                                         size_t count, anydim_memory_ceiling* ceiling);

  // The model over texts laid end to end, without padding and without its mask, compiled when it is
  // first asked for, by any of these or by a ragged call. ANYDIM_UNSUPPORTED with the op or result
  // that stands in the way where the model does not take them.
  anydim_status* (*model_prepare_ragged)(const anydim_model* model,
                                         anydim_cancellation* cancellation);
  anydim_status* (*model_ragged_input_count)(const anydim_model* model, size_t* count);
  anydim_status* (*model_ragged_input)(const anydim_model* model, size_t index,
                                       anydim_tensor_info* info);
  anydim_status* (*model_ragged_output)(const anydim_model* model, size_t index,
                                        anydim_tensor_info* info);  // as many as model_output_count

  // A thread's place to call a model. It keeps the memory of its largest call.
  anydim_status* (*context_create)(const anydim_model* model, anydim_context** context);
  anydim_status* (*context_release)(anydim_context* context);
  // It can cancel the calls from here on, and what they compile first; NULL: no longer. The context
  // keeps it.
  anydim_status* (*context_set_cancellation)(anydim_context* context,
                                             anydim_cancellation* cancellation);
  // The sizes of every later call of context_run and context_run_owned that succeeds are added to
  // the trace, of the same model; NULL: no longer.
  anydim_status* (*context_set_trace)(anydim_context* context, anydim_trace* trace);

  // Runs the model into the caller's memory, on the CPU without a copy: every input, in any order;
  // of the results those that are wanted, in any order. Where a buffer is too small
  // (ANYDIM_BAD_INPUTS) `size` and `dims` of all outputs are set, as after success. What buffers
  // hold after an error is not said.
  anydim_status* (*context_run)(anydim_context* context, const anydim_input* inputs,
                                size_t input_count, anydim_output* outputs, size_t output_count);
  // Runs the model into memory of the library's: all results, in the order of model_output, without
  // a copy.
  anydim_status* (*context_run_owned)(anydim_context* context, const anydim_input* inputs,
                                      size_t input_count, anydim_results** results);
  // The same over texts laid end to end: inputs as model_ragged_input has them; text t has rows
  // offsets[t] to offsets[t + 1] - 1 of them, so that the first offset is 0 and the last is the
  // number of rows. Results with rows hold those of all texts, end to end.
  anydim_status* (*context_run_ragged)(anydim_context* context, const anydim_input* inputs,
                                       size_t input_count, const int64_t* offsets,
                                       size_t offset_count, anydim_output* outputs,
                                       size_t output_count);
  anydim_status* (*context_run_ragged_owned)(anydim_context* context, const anydim_input* inputs,
                                             size_t input_count, const int64_t* offsets,
                                             size_t offset_count, anydim_results** results);
  // Rows that the last call computed of each sequence's, where it was packed or ragged; -1 where it
  // was neither.
  anydim_status* (*context_packed_rows)(const anydim_context* context, int64_t* rows);

  anydim_status* (*results_count)(const anydim_results* results, size_t* count);
  anydim_status* (*results_tensor)(const anydim_results* results, size_t index,
                                   anydim_tensor* tensor);
  // any thread; the memory then serves later calls
  anydim_status* (*results_release)(anydim_results* results);

  // Sizes of calls, for `anydim tune --trace FILE`, which then measures kernels at the sizes that a
  // service really meets.
  anydim_status* (*trace_create)(const anydim_model* model, anydim_trace** trace);
  // Adds what was traced up to now to what the file holds, which is made where absent, and starts
  // anew.
  anydim_status* (*trace_write)(anydim_trace* trace, const char* file);
  anydim_status* (*trace_release)(anydim_trace* trace);

  const char* (*dtype_name)(anydim_dtype dtype);  // e.g. "f32"; "" where there is no such dtype
  size_t (*dtype_size)(anydim_dtype dtype);  // bytes of an element; 0 where there is no such dtype

  // ---- Since version 2 ----

  // What the model does over time: calls of all its contexts, their launches and kernels that come
  // to be, in a ring of the newest `events` (128 bytes each, at most 2^24; 0: 65536). Starting anew
  // forgets what was recorded; stopping keeps it.
  anydim_status* (*model_timeline_start)(const anydim_model* model, size_t events);
  anydim_status* (*model_timeline_stop)(const anydim_model* model);
  // Writes what was recorded up to now, as JSON that Perfetto opens; events that were overwritten
  // are counted in it. The file is replaced as a whole. ANYDIM_BAD_ARGUMENT where nothing was
  // started, ANYDIM_NOT_WRITTEN.
  anydim_status* (*model_timeline_write)(const anydim_model* model, const char* file);

  // Measures which kernels serve a model best at the sizes that it will meet, and keeps what it
  // found in the options' database (the user's own where none is named), by which models that are
  // loaded later choose. Returns when the budget is used up or nothing is left to gain.
  // docs/c-interface.md lists the settings; one that there is not, or does not fit, is an error
  // that names those there are. Candidates run in processes of their own: of the command `anydim`
  // that is installed with the library, or of the setting worker. Every measurement is kept as it
  // comes: after ANYDIM_CANCELLED, or the end of this process, the next run goes on from there.
  // `options`, `watch`, `cancellation` and `result` may be NULL. Bytes must stay as they are until
  // it returns; `folder` as of model_load_memory.
  anydim_status* (*tune_file)(const char* file, const anydim_options* options,
                              const anydim_setting* settings, size_t setting_count,
                              anydim_tune_watch watch, void* user,
                              anydim_cancellation* cancellation, anydim_tune_result* result);
  anydim_status* (*tune_memory)(const void* bytes, size_t size, const char* folder,
                                const anydim_options* options, const anydim_setting* settings,
                                size_t setting_count, anydim_tune_watch watch, void* user,
                                anydim_cancellation* cancellation, anydim_tune_result* result);

  // ---- Since version 3 ----

  // As context_run, of a model whose device is a GPU, in the order of a stream of the caller's: the
  // call begins once all that is on it has ended, and what is put there later begins once the call
  // has. Where no output is on the host it returns while the call is under way; sizes and dims of
  // outputs are set. What fails in such a call later is the error of the context's next call, or of
  // context_synchronize. Buffers on the device stay as they are until the call has ended there.
  // ANYDIM_BAD_INPUTS where one is no memory of the model's device and its primary context.
  anydim_status* (*context_run_on_stream)(anydim_context* context, const anydim_stream_call* call,
                                          const anydim_input* inputs, size_t input_count,
                                          anydim_output* outputs, size_t output_count);
  // The same into device memory of the library's: all results. What reads them is put on the stream
  // before results_release, or has ended.
  anydim_status* (*context_run_on_stream_owned)(anydim_context* context,
                                                const anydim_stream_call* call,
                                                const anydim_input* inputs, size_t input_count,
                                                anydim_results** results);
  // Waits for the context's calls under way.
  anydim_status* (*context_synchronize)(anydim_context* context);
  // Where a result's `data` lies: the ordinal of a GPU, or -1 for the host.
  anydim_status* (*results_device)(const anydim_results* results, size_t index, int32_t* device);

  // ---- Since version 4 ----

  // What a model loaded with the option append_in_place appends to: for each result that is an
  // input with something appended (a decoder's keys and values), what has been appended so far, in
  // memory with room for more. Empty at first. It serves one call at a time; several of one model
  // may grow beside each other. ANYDIM_UNSUPPORTED where the model was loaded without the option.
  anydim_status* (*cache_create)(const anydim_model* model, anydim_cache** cache);
  anydim_status* (*cache_release)(anydim_cache* cache);
  // How much has been appended: the most of all.
  anydim_status* (*cache_length)(const anydim_cache* cache, int64_t* length);
  // The next call takes memory for so much. Without it the cache doubles where it is full.
  anydim_status* (*cache_reserve)(anydim_cache* cache, int64_t length);
  // Forgets all beyond `length`: rejected drafts, or 0 for a new sequence.
  anydim_status* (*cache_truncate)(anydim_cache* cache, int64_t length);
  // A copy of what has been appended, by the name of the model's input or result: one result.
  anydim_status* (*cache_read)(const anydim_cache* cache, const char* name,
                               anydim_results** results);
  // Takes a copy of a tensor in place of what is there, by the name of the input or the result.
  anydim_status* (*cache_write)(anydim_cache* cache, const anydim_input* tensor);
  // Calls of context_run and context_run_owned append to the cache, of the same model, from here
  // on; NULL: no longer. Their inputs and results are then all but what is appended to, which stays
  // in the cache. After a call that failed the cache is as it was. The context keeps it.
  anydim_status* (*context_set_cache)(anydim_context* context, anydim_cache* cache);
} anydim_api;

// The library's table, valid until the process ends; NULL where it has no such version. `why`,
// where it is not NULL, is then set to one sentence that says so, valid until the thread's next
// call of this function, and else to an empty one.
ANYDIM_EXPORT const anydim_api* anydim_get_api(uint32_t version, const char** why);

#ifdef __cplusplus
}
#endif

#endif  // ANYDIM_ANYDIM_H
