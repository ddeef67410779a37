// usage: leave MODEL: loads a model, calls nothing and releases nothing, while kernels are still
// being compiled.
#include <anydim/anydim.h>
#include <stdio.h>

int main(int argc, char** argv) {
  const anydim_api* api = anydim_get_api(ANYDIM_API_VERSION, NULL);
  anydim_options* options = NULL;
  anydim_model* model = NULL;
  if (api == NULL || argc != 2 || api->options_create(&options) != NULL ||
      api->options_set(options, "cache_folder", "none") != NULL)
    return 1;
  if (api->model_load_file(argv[1], options, NULL, &model) != NULL) return 1;
  anydim_statistics statistics = {.struct_size = sizeof statistics};
  if (api->model_statistics(model, &statistics) != NULL) return 1;
  printf("%lld pending\n", (long long)statistics.kernels_pending);
  return 0;
}
