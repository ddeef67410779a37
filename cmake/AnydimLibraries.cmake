# anydim_fmt, anydim_spdlog, anydim_xxhash: libraries that several folders use. Shared ones as Debian installs them; in a slim build (ANYDIM_SLIM) all
# of them, and the C++ library, become part of the command, which then needs the C library alone: NVRTC, the CUDA driver and cuBLASLt are
# opened at run time.
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)

add_library(anydim_fmt INTERFACE)
add_library(anydim_spdlog INTERFACE)
add_library(anydim_xxhash INTERFACE)
target_include_directories(anydim_xxhash SYSTEM INTERFACE "${XXHASH_INCLUDE_DIR}")
if(ANYDIM_SLIM)
  # Debian has no static fmt and spdlog; their headers hold everything. spdlog's own header-only target asks for the shared fmt.
  target_link_libraries(anydim_fmt INTERFACE fmt::fmt-header-only)
  target_compile_definitions(anydim_spdlog INTERFACE SPDLOG_HEADER_ONLY SPDLOG_FMT_EXTERNAL)
  target_link_libraries(anydim_spdlog INTERFACE anydim_fmt Threads::Threads)
  find_library(XXHASH_STATIC_LIBRARY libxxhash.a REQUIRED)
  target_link_libraries(anydim_xxhash INTERFACE "${XXHASH_STATIC_LIBRARY}")
  add_link_options(-static-libstdc++ -static-libgcc -Wl,-s)
else()
  target_link_libraries(anydim_fmt INTERFACE fmt::fmt)
  target_link_libraries(anydim_spdlog INTERFACE spdlog::spdlog)
  find_library(XXHASH_LIBRARY xxhash REQUIRED)
  target_link_libraries(anydim_xxhash INTERFACE "${XXHASH_LIBRARY}")
endif()
