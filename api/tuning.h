// Tuning databases as compile() and the commands meet them.
#pragma once

#include <filesystem>
#include <string>

#include "api/compile.h"
#include "ir/tuning_table.h"
#include "tuner/database.h"
#include "tuner/environment.h"

namespace anydim {

// What measurements of this target with these options hold for.
tuner::Environment tuning_environment(const CompileTarget& target, const CompileOptions& options);

// The user's own database: tuning.db in the folder of compiled kernels (options.cache_folder, else
// runtime::default_cache_folder()); empty where there is no such folder.
std::filesystem::path default_database(const CompileOptions& options);
// Kernels are chosen by it, for those who name no database; one that is missing or cannot be read
// is no error.
void use_own_database(CompileOptions& options);

// The tables of options.database for the target; empty without one. Throws what tuner::Database
// throws; where options.database_optional, such a fault is a warning, and a file that is not there
// is nothing.
ir::TuningTable load_tuning(const CompileTarget& target, const CompileOptions& options);

}  // namespace anydim
