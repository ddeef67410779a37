// What a tuning run found, as people read it.
#pragma once

#include <filesystem>
#include <string>

#include "api/tuning_run.h"

namespace anydim {

// `file`: the database. Whole lines.
std::string tune_text(const tuner::TuneResult& result, const std::filesystem::path& file);

}  // namespace anydim
