# Run by AnydimSourceHash.cmake: writes HEADER with one hash over the names (relative to ROOT) and
# contents of the files that follow the script's name on the command line.
math(EXPR last "${CMAKE_ARGC} - 1")
set(names_and_hashes)
set(files FALSE)
foreach(position RANGE ${last})
  set(argument "${CMAKE_ARGV${position}}")
  if(files)
    file(SHA256 "${argument}" hash)
    cmake_path(RELATIVE_PATH argument BASE_DIRECTORY "${ROOT}")
    list(APPEND names_and_hashes "${argument} ${hash}")
  elseif(argument STREQUAL CMAKE_CURRENT_LIST_FILE)
    set(files TRUE)
  endif()
endforeach()
string(SHA256 hash "${names_and_hashes}")
file(CONFIGURE OUTPUT "${HEADER}" @ONLY CONTENT [[
#pragma once

#include <string_view>

namespace anydim {
inline constexpr std::string_view source_hash = "@hash@";
}
]])
