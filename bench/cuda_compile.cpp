// What compiling a model for a GPU costs, without one: every kernel of its default table through
// NVRTC, and once more from the cache.
//
//   cuda_compile MODEL PART CACHE_DIR [PRECISION]
//
// PART as codegen_cuda/target.h names them ("a100", "h200"); CACHE_DIR must not exist; PRECISION is
// f32, bf16 or f16. Prints a line of JSON for each of three compilations: seconds from the model's
// file to the last kernel, and how many kernels came from where. The third is for a machine that
// has run none of them: kernels that wait come with their checked forms (runtime/kernel_trials.h).
#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <filesystem>
#include <string>

#include "api/anydim.h"
#include "bench/no_device.h"
#include "codegen_cuda/backend.h"
#include "ir/error.h"
#include "runtime/kernel_store.h"

namespace {

using namespace anydim;

void measure(const std::string& model, const codegen_cuda::CudaTarget& part,
             const std::string& cache, ir::DType precision, const std::string& machine) {
  using Clock = std::chrono::steady_clock;
  CompileOptions options;
  options.cache_folder = cache;
  options.precision = precision;
  const auto begin = Clock::now();
  const CompileTarget target{codegen_cuda::make_cuda_backend({.target = part, .nvrtc_path = {}}),
                             std::make_shared<bench::NoDevice>(machine)};
  const auto executable = compile_for(target, load_model(model), options);
  executable->kernels().complete();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const runtime::KernelProgress progress = executable->kernels().progress();
  fmt::print(
      "{{\"part\": \"{}\", \"with_checked_forms\": {}, \"seconds\": {:.3f}, \"entries\": {}, "
      "\"compiled\": "
      "{}, \"from_cache\": {}, \"failed\": {}}}\n",
      part.name, !machine.empty(), seconds, progress.entries, progress.compiled,
      progress.from_cache, progress.failed);
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const auto part =
        count == 4 || count == 5 ? codegen_cuda::target_named(arguments[2]) : std::nullopt;
    if (!part || std::filesystem::exists(arguments[3])) {
      fmt::print(
          stderr,
          "usage: cuda_compile MODEL PART CACHE_DIR [PRECISION]   (CACHE_DIR must not exist)\n");
      return 2;
    }
    const ir::DType precision = parse_precision(count == 5 ? arguments[4] : "f32");
    for (const char* machine : {"", "", "one that ran nothing yet"})
      measure(arguments[1], *part, arguments[3], precision, machine);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
