#include "api/tuning.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "runtime/kernel_cache.h"

namespace anydim {

tuner::Environment tuning_environment(const CompileTarget& target, const CompileOptions& options) {
  // The host's threads take no part in a GPU's launches.
  const int threads = options.device == DeviceKind::Cuda ? 1 : thread_count(options);
  return {.device = target.part,
          .target = target.backend->target(),
          .driver = "",
          .generator = target.backend->generator(),
          .precision = std::string(precision_name(options.precision)),
          .threads = threads};
}

std::filesystem::path default_database(const CompileOptions& options) {
  const std::filesystem::path folder =
      options.cache_folder.value_or(runtime::default_cache_folder());
  return folder.empty() ? folder : folder / "tuning.db";
}

void use_own_database(CompileOptions& options) {
  const std::filesystem::path database = default_database(options);
  if (database.empty()) return;
  options.database = database;
  options.database_optional = true;
}

namespace {

// Where the environment differs from another one: "threads 4, here 2".
std::vector<std::string> differences(const tuner::Environment& other,
                                     const tuner::Environment& here) {
  std::vector<std::string> list;
  const auto compare = [&](std::string_view what, const std::string& theirs,
                           const std::string& ours) {
    if (theirs != ours)
      list.push_back(fmt::format("{} {}, here {}", what, theirs.empty() ? "none" : theirs,
                                 ours.empty() ? "none" : ours));
  };
  compare("device", other.device, here.device);
  compare("target", other.target, here.target);
  compare("driver", other.driver, here.driver);
  compare("precision", other.precision, here.precision);
  compare("threads", std::to_string(other.threads), std::to_string(here.threads));
  if (other.generator != here.generator) list.emplace_back("another version of Anydim");
  return list;
}

// A file of the user's that says nothing is worth a word, and so is the default one where it was
// made for something else.
void warn_of_no_table(const std::filesystem::path& file, const tuner::Database& database,
                      const tuner::Environment& here, const CompileOptions& options) {
  std::vector<std::string> nearest;
  for (const tuner::StoredTable& table : database.tables())
    if (std::vector<std::string> apart = differences(table.environment, here);
        nearest.empty() || apart.size() < nearest.size())
      nearest = std::move(apart);
  if (options.database_optional && nearest.empty()) return;
  const std::string why = nearest.empty() ? ""
                                          : fmt::format("; the nearest that it has is for {}",
                                                        fmt::join(nearest, "; "));
  options.warn(
      fmt::format("the tuning database {} has nothing for {} ({}) with {} threads and this "
                  "version{}; kernels are chosen by the cost model",
                  file.string(), here.device, here.precision, here.threads, why));
}

}  // namespace

ir::TuningTable load_tuning(const CompileTarget& target, const CompileOptions& options) {
  if (!options.database) return {};
  std::error_code ignored;
  if (options.database_optional && !std::filesystem::exists(*options.database, ignored)) return {};
  try {
    const tuner::Database database(*options.database, tuner::Database::Access::Read);
    const tuner::Environment environment = tuning_environment(target, options);
    ir::TuningTable table = database.tuning_table(environment);
    if (table.regions.empty() && options.warn)
      warn_of_no_table(*options.database, database, environment, options);
    return table;
  } catch (const Error& error) {
    if (!options.database_optional || error.kind() == ErrorKind::Internal) throw;
    if (options.warn)
      options.warn(fmt::format("{}; kernels are chosen by the cost model", error.what()));
    return {};
  }
}

}  // namespace anydim
