// usage: embed MODEL: runs an encoder with the inputs input_ids and attention_mask on two texts of
// different lengths.
#include <anydim/anydim.h>
#include <inttypes.h>
#include <stdio.h>

static const anydim_api* api;

// What a status says goes to standard error; its kind is the exit code, 0 where nothing failed.
static int failed(anydim_status* status) {
  const int code = (int)api->status_kind(status);
  if (code != 0) fprintf(stderr, "embed: %s\n", api->status_message(status));
  api->status_release(status);
  return code;
}

static int print_results(const anydim_results* results) {
  size_t count = 0;
  int code = failed(api->results_count(results, &count));
  for (size_t i = 0; code == 0 && i < count; ++i) {
    anydim_tensor tensor = {.struct_size = sizeof tensor};
    code = failed(api->results_tensor(results, i, &tensor));
    if (code != 0 || tensor.dtype != ANYDIM_F32) continue;
    printf("%s (", tensor.name);
    for (uint32_t d = 0; d < tensor.rank; ++d)
      printf("%s%" PRId64, d == 0 ? "" : ", ", tensor.dims[d]);
    printf(") =");
    for (size_t e = 0; e < 4 && e < tensor.size / sizeof(float); ++e)
      printf(" %.5g", (double)((const float*)tensor.data)[e]);
    printf("\n");
  }
  return code;
}

static int embed(const anydim_model* model) {
  const int64_t dims[] = {2, 5};
  const int64_t ids[] = {2, 7, 11, 5, 3, 2, 9, 3, 0, 0};
  const int64_t mask[] = {1, 1, 1, 1, 1, 1, 1, 1, 0, 0};
  const anydim_input inputs[] = {
      {.name = "input_ids",
       .dims = dims,
       .data = ids,
       .size = sizeof ids,
       .dtype = ANYDIM_I64,
       .rank = 2},
      {.name = "attention_mask",
       .dims = dims,
       .data = mask,
       .size = sizeof mask,
       .dtype = ANYDIM_I64,
       .rank = 2},
  };
  anydim_context* context = NULL;
  anydim_results* results = NULL;
  int code = failed(api->context_create(model, &context));
  if (code == 0) code = failed(api->context_run_owned(context, inputs, 2, &results));
  if (code == 0) code = print_results(results);
  failed(api->results_release(results));
  failed(api->context_release(context));
  return code;
}

int main(int argc, char** argv) {
  const char* why = NULL;
  api = anydim_get_api(ANYDIM_API_VERSION, &why);
  if (api == NULL || argc != 2) {
    fprintf(stderr, "embed: %s\n", api == NULL ? why : "give it one model");
    return ANYDIM_BAD_ARGUMENT;
  }
  anydim_options* options = NULL;
  anydim_model* model = NULL;
  int code = failed(api->options_create(&options));
  if (code == 0) code = failed(api->options_set(options, "threads", "2"));
  if (code == 0) code = failed(api->model_load_file(argv[1], options, NULL, &model));
  if (code == 0) code = embed(model);
  failed(api->model_release(model));
  failed(api->options_release(options));
  return code;
}
