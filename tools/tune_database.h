// anydim tune --show, --export, --import, --merge: what a tuning database holds.
#pragma once

#include <string>

#include "tools/command.h"

namespace anydim::tools {

struct DatabaseCommand {
  bool show = false;
  std::string export_file, import_file, merged_file;
  bool wanted() const {
    return show || !export_file.empty() || !import_file.empty() || !merged_file.empty();
  }
};
void add_database_options(CLI::App& command, DatabaseCommand& options);

// On --db, else the user's own database (api/tuning.h). Throws Error{CommandLine} for more than one
// wish at once, and what tuner::Database throws.
void run_database_command(const DatabaseCommand& command, const CommonOptions& common);

}  // namespace anydim::tools
