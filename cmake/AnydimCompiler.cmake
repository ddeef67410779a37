# Language level, warnings, linker, sanitizers and compiler cache, for every target of the project.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug or Release" FORCE)
endif()

# An op added to a table must reach every switch over it, so these two are errors in every build.
add_compile_options(-Wall -Wextra -Werror=switch -Werror=return-type)
if(ANYDIM_WERROR)
  add_compile_options(-Werror)
endif()

# Messages and debug information name sources relative to the repository root, with or without the
# compiler cache, which makes paths relative to the build folder.
cmake_path(RELATIVE_PATH CMAKE_SOURCE_DIR BASE_DIRECTORY "${CMAKE_BINARY_DIR}" OUTPUT_VARIABLE root_from_build)
add_compile_options("-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=" "-ffile-prefix-map=${root_from_build}/=")

find_program(ANYDIM_LINKER NAMES ld.lld-19 ld.lld REQUIRED)
add_link_options("--ld-path=${ANYDIM_LINKER}" -Wl,--gc-sections -Wl,--as-needed)
add_compile_options(-ffunction-sections -fdata-sections)

if(ANYDIM_SANITIZE)
  add_compile_options("-fsanitize=${ANYDIM_SANITIZE}" -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options("-fsanitize=${ANYDIM_SANITIZE}")
endif()

if(ANYDIM_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Paths below the source folder are hashed relative to it, so that every checkout shares the cache's
# entries.
find_program(ANYDIM_CCACHE ccache)
if(ANYDIM_CCACHE)
  set(launcher "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1
      CCACHE_PCH_EXTSUM=1 CCACHE_SLOPPINESS=pch_defines,time_macros "${ANYDIM_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER "${launcher}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${launcher}")
endif()
