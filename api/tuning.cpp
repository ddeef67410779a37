#include "api/tuning.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "runtime/kernel_cache.h"
#include "tuner/database.h"

namespace anydim {

tuner::Environment tuning_environment(const CompileTarget& target, const CompileOptions& options) {
  return {.device = target.device_name,
          .target = target.backend->target(),
          .driver = target.driver,
          .generator = target.backend->generator(),
          .precision = std::string(ir::name_of(options.precision)),
          .threads = options.threads > 0 ? options.threads : available_threads()};
}

std::filesystem::path default_database(const CompileOptions& options) {
  const std::filesystem::path folder = options.cache_folder.value_or(runtime::default_cache_folder());
  return folder.empty() ? folder : folder / "tuning.db";
}

ir::TuningTable load_tuning(const CompileTarget& target, const CompileOptions& options) {
  if (!options.database) return {};
  std::error_code ignored;
  if (options.database_optional && !std::filesystem::exists(*options.database, ignored)) return {};
  try {
    const tuner::Database database(*options.database, tuner::Database::Access::Read);
    const tuner::Environment environment = tuning_environment(target, options);
    ir::TuningTable table = database.tuning_table(environment);
    if (table.regions.empty() && !options.database_optional && options.warn) {
      options.warn(fmt::format(
          "the tuning database {} has nothing for {} ({}) with {} threads and this version; kernels are chosen by the cost model",
          options.database->string(), environment.device, environment.precision, environment.threads));
    }
    return table;
  } catch (const Error& error) {
    if (!options.database_optional || error.kind() == ErrorKind::Internal) throw;
    if (options.warn) options.warn(fmt::format("{}; kernels are chosen by the cost model", error.what()));
    return {};
  }
}

}  // namespace anydim
