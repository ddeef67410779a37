// The tables of the tuning database, as the steps that made them from version to version.
#pragma once

#include <span>
#include <string_view>

#include "tuner/sqlite.h"

namespace anydim::tuner {

// What PRAGMA application_id holds in our files: "AnyD".
inline constexpr int application_id = 0x416E7944;

// Statements that bring a database from version i to i + 1; version 0 is an empty file. A step
// never changes once it has been released.
std::span<const std::string_view> schema_steps();

// Brings the database to the newest version, in one transaction. Throws Error{Malformed} for
// another program's file or a newer version.
void bring_up_to_date(sqlite::Connection& connection, std::string_view file);

// The version, 0: empty. Throws Error{Malformed} as above, and where the tables are not those of
// that version.
int check_version(const sqlite::Connection& connection, std::string_view file);

}  // namespace anydim::tuner
