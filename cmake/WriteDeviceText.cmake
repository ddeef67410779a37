# Run by codegen_cuda/CMakeLists.txt: writes HEADER with an array of the named device pieces, whose
# files follow the script's name on the command line.
math(EXPR last "${CMAKE_ARGC} - 1")
set(rows)
set(files FALSE)
foreach(position RANGE ${last})
  set(argument "${CMAKE_ARGV${position}}")
  if(files)
    cmake_path(GET argument STEM name)
    file(READ "${argument}" text)
    string(APPEND rows "    {\"${name}\", R\"cuda(${text})cuda\"},\n")
  elseif(argument STREQUAL CMAKE_CURRENT_LIST_FILE)
    set(files TRUE)
  endif()
endforeach()
file(WRITE "${HEADER}" "#pragma once

#include <string_view>

namespace anydim::codegen_cuda {

struct DevicePiece {
  std::string_view name, text;
};
inline constexpr DevicePiece device_pieces[] = {
${rows}};

}  // namespace anydim::codegen_cuda
")
