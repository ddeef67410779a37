# anydim_source_hash(NAME FOLDERS folders...)
#   Gives library NAME, of the calling folder, a generated header "FOLDER/source_hash.h":
#   anydim::source_hash, the SHA-256 of all C++ and CUDA sources of the FOLDERS (relative to the
#   repository root). It is part of the key of every cached kernel, so that a changed generator
#   never meets old code. Does nothing while the library holds no source file.
function(anydim_source_hash name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FOLDERS")
  get_target_property(type ${name} TYPE)
  if(type STREQUAL INTERFACE_LIBRARY)
    return()
  endif()
  set(patterns)
  foreach(folder ${arg_FOLDERS})
    list(APPEND patterns "${CMAKE_SOURCE_DIR}/${folder}/*.h" "${CMAKE_SOURCE_DIR}/${folder}/*.cpp" "${CMAKE_SOURCE_DIR}/${folder}/*.def"
                "${CMAKE_SOURCE_DIR}/${folder}/*.cuh")
  endforeach()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${patterns})
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${CMAKE_SOURCE_DIR}" OUTPUT_VARIABLE folder)
  set(header "${CMAKE_BINARY_DIR}/generated/${folder}/source_hash.h")
  set(script "${CMAKE_SOURCE_DIR}/cmake/WriteSourceHash.cmake")
  add_custom_command(
    OUTPUT "${header}"
    COMMAND "${CMAKE_COMMAND}" "-DHEADER=${header}" "-DROOT=${CMAKE_SOURCE_DIR}" -P "${script}" ${sources}
    DEPENDS "${script}" ${sources}
    COMMENT "Hashing the sources behind ${name}"
    VERBATIM)
  target_sources(${name} PRIVATE "${header}")
  target_include_directories(${name} PRIVATE "${CMAKE_BINARY_DIR}/generated")
endfunction()
