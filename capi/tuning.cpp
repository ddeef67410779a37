#include <dlfcn.h>

#include <filesystem>
#include <optional>
#include <span>

#include "api/tune_model.h"
#include "capi/answers.h"
#include "capi/functions.h"
#include "capi/options.h"
#include "ir/error.h"

namespace anydim::capi {

namespace {

// The command that is installed with this library: in bin beside the folder of libraries, or beside
// one above it (lib/x86_64-linux-gnu).
std::vector<std::string> installed_worker() {
  Dl_info here{};
  std::error_code fault;
  if (dladdr(reinterpret_cast<const void*>(&installed_worker), &here) != 0) {
    std::filesystem::path folder = std::filesystem::canonical(here.dli_fname, fault).parent_path();
    for (int levels = 0; levels < 3 && !fault; ++levels, folder = folder.parent_path())
      if (const std::filesystem::path command = folder / "bin/anydim";
          std::filesystem::exists(command, fault))
        return {command, "worker"};
  }
  throw Error(ErrorKind::Resource,
              "the command anydim, whose processes measure, is not installed beside this library: "
              "install it, or name it by the setting worker");
}

template <typename MakeModel>
void tune(const anydim_options* options, const anydim_setting* settings, std::size_t setting_count,
          anydim_tune_watch watch, void* user, anydim_cancellation* cancellation,
          anydim_tune_result* result, MakeModel&& make_model) {
  if (setting_count > 0) require_pointer(settings, "settings");
  if (result != nullptr) require_answer(result, "result");
  CompileOptions compile = compile_options(options, cancellation);
  const std::shared_ptr<const Cancellation> cancelled = compile.cancellation;
  TuneSettings wanted;
  for (const anydim_setting& setting : std::span(settings, setting_count)) {
    require_pointer(setting.name, "settings[..].name");
    require_pointer(setting.value, "settings[..].value");
    set_tune_setting(wanted, setting.name, setting.value);
  }
  require_sizes(wanted);
  const std::filesystem::path file = tuning_file(compile);
  if (wanted.worker.empty()) wanted.worker = installed_worker();
  const auto interrupted = [&] { return cancelled != nullptr && cancelled->cancelled(); };
  const auto progress = [&](const tuner::TuneProgress& told) {
    if (watch == nullptr) return;
    const anydim_tune_progress shown{.struct_size = sizeof shown,
                                     .region = told.region.c_str(),
                                     .candidate = told.candidate.c_str(),
                                     .trials = static_cast<std::int64_t>(told.trials),
                                     .space = static_cast<std::int64_t>(told.space),
                                     .best_seconds = told.best_seconds,
                                     .default_seconds = told.default_seconds,
                                     .roofline_seconds = told.roofline_seconds,
                                     .seconds_left = told.seconds_left};
    watch(user, &shown);
  };
  const auto model = make_model();
  const TuningRun run(model.file(), compile, std::move(wanted), interrupted);
  tuner::Database database(file, tuner::Database::Access::Write);
  const tuner::TuneResult found = run.tune(run.device(), database, progress);
  if (found.interrupted)
    throw Error(ErrorKind::Cancelled,
                "the tuning run was cancelled; what was measured is kept, and the next run goes on "
                "from there");
  if (result == nullptr) return;
  std::int64_t failed = 0;
  for (const auto& [outcome, count] : found.failures) failed += count;
  give_answer({.struct_size = sizeof(anydim_tune_result),
               .nothing_to_do = found.nothing_to_do ? 1 : 0,
               .trials = found.trials,
               .reused = found.reused,
               .space = found.space,
               .failed = failed,
               .kernels = found.run.kernels,
               .default_seconds = found.run.default_seconds,
               .expected_seconds = found.run.expected_seconds,
               .lower_bound_seconds = found.run.lower_bound_seconds},
              result);
}

struct NamedModel {
  tuner::ModelFile named;
  const tuner::ModelFile& file() const { return named; }
};

}  // namespace

anydim_status* tune_file(const char* file, const anydim_options* options,
                         const anydim_setting* settings, std::size_t setting_count,
                         anydim_tune_watch watch, void* user, anydim_cancellation* cancellation,
                         anydim_tune_result* result) noexcept {
  return guarded("tune_file", [&] {
    require_pointer(file, "file");
    tune(options, settings, setting_count, watch, user, cancellation, result,
         [&] { return NamedModel{{.file = file}}; });
  });
}

anydim_status* tune_memory(const void* bytes, std::size_t size, const char* folder,
                           const anydim_options* options, const anydim_setting* settings,
                           std::size_t setting_count, anydim_tune_watch watch, void* user,
                           anydim_cancellation* cancellation, anydim_tune_result* result) noexcept {
  return guarded("tune_memory", [&] {
    require_pointer(bytes, "bytes");
    tune(options, settings, setting_count, watch, user, cancellation, result, [&] {
      return ModelBytes(std::span(static_cast<const std::byte*>(bytes), size),
                        folder == nullptr ? std::nullopt : std::optional<std::string>(folder));
    });
  });
}

}  // namespace anydim::capi
