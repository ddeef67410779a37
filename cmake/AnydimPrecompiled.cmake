# Headers that most sources include, parsed once. CMake's own precompiled headers are one a target;
# the project has a target for each folder, and all of them include the same.

# anydim_precompiled_header(NAME [OPTIONS options...] [LIBRARIES targets...])
#   Compiles cmake/precompiled/NAME.h, with the include folders, definitions and options of
#   LIBRARIES, for anydim_precompiled.
function(anydim_precompiled_header name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "OPTIONS;LIBRARIES")
  set(header "${CMAKE_SOURCE_DIR}/cmake/precompiled/${name}.h")
  set(output "generated/precompiled/${name}.pch")
  file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/generated/precompiled")
  string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
  separate_arguments(options NATIVE_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}}")
  get_property(directory_options DIRECTORY "${CMAKE_SOURCE_DIR}" PROPERTY COMPILE_OPTIONS)
  # Without times: an update of the system gives headers other ones, older than this build, which
  # Ninja does not take for changes and the compiler would refuse.
  list(APPEND options "-std=c++${CMAKE_CXX_STANDARD}" ${directory_options} -fPIC
    -fpch-instantiate-templates -Xclang -fno-pch-timestamp ${arg_OPTIONS})
  foreach(library IN LISTS arg_LIBRARIES)
    # CMake leaves out the folders that compilers search by themselves; after those, they change
    # nothing.
    foreach(pair
        INTERFACE_INCLUDE_DIRECTORIES=-idirafter
        INTERFACE_COMPILE_DEFINITIONS=-D
        INTERFACE_COMPILE_OPTIONS=)
      string(REPLACE "=" ";" pair "${pair}")
      list(POP_FRONT pair property flag)
      set(values "$<TARGET_PROPERTY:${library},${property}>")
      list(APPEND options "$<$<BOOL:${values}>:${flag}$<JOIN:${values},$<SEMICOLON>${flag}>>")
    endforeach()
  endforeach()
  set(compile "${CMAKE_CXX_COMPILER}" ${options} -x c++-header "${header}")
  add_custom_command(
    OUTPUT "${CMAKE_BINARY_DIR}/${output}"
    BYPRODUCTS "${CMAKE_BINARY_DIR}/${output}.sum"
    COMMAND ${compile} -o "${output}" -MD -MT "${CMAKE_BINARY_DIR}/${output}" -MF "${output}.d"
    # The compiler cache takes this for the precompiled header's contents: it is the same in every
    # checkout.
    COMMAND ${compile} -E -P -o "${output}.sum"
    DEPENDS "${header}"
    DEPFILE "${CMAKE_BINARY_DIR}/${output}.d"
    WORKING_DIRECTORY "${CMAKE_BINARY_DIR}"
    COMMENT "Precompiling ${name}.h"
    COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(anydim_precompiled_${name} DEPENDS "${CMAKE_BINARY_DIR}/${output}")
endfunction()

# anydim_precompiled(TARGET NAME [SOURCES...])
#   Compiles those C++ sources (by default all) of a target of the calling folder with that header
#   read before their first line.
function(anydim_precompiled target name)
  set(sources ${ARGN})
  if(NOT sources)
    get_target_property(sources ${target} SOURCES)
  endif()
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  # The path is relative to the build folder, in which compilers run, so that the compiler cache
  # sees the same one in every checkout.
  set(output "generated/precompiled/${name}.pch")
  foreach(source IN LISTS sources)
    # A source that several tests share is compiled alike for each.
    get_source_file_property(options "${source}" COMPILE_OPTIONS)
    if(NOT options MATCHES "-include-pch")
      # Code for executables is compiled position-independent in another way, which the header was
      # not.
      set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS -fPIC -include-pch "${output}")
      set_property(SOURCE "${source}" APPEND PROPERTY OBJECT_DEPENDS "${CMAKE_BINARY_DIR}/${output}")
    endif()
  endforeach()
  add_dependencies(${target} anydim_precompiled_${name})
endfunction()
