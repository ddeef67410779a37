# anydim_fmt, anydim_xxhash: libraries that several folders use. Shared ones as Debian installs
# them; in a self-contained build (ANYDIM_SELF_CONTAINED) they become part of what is built, which
# then needs the C and C++ libraries alone (and protobuf's, which Debian has no static one of for
# shared objects), in a slim one (ANYDIM_SLIM) the C library alone: NVRTC, the CUDA driver and
# cuBLASLt are opened at run time.
find_package(fmt REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)

add_library(anydim_fmt INTERFACE)
add_library(anydim_xxhash INTERFACE)
target_include_directories(anydim_xxhash SYSTEM INTERFACE "${XXHASH_INCLUDE_DIR}")
if(ANYDIM_SELF_CONTAINED)
  # Debian has no static fmt, but its headers hold everything. What uses them is compiled as for the
  # shared libraries, so that a compiler cache that has seen another build serves this one.
  set(source "${CMAKE_BINARY_DIR}/generated/fmt_functions.cpp")
  file(CONFIGURE OUTPUT "${source}" @ONLY CONTENT [[
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
template FMT_API auto dragonbox::to_decimal(float x) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double x) noexcept -> dragonbox::decimal_fp<double>;
template FMT_API locale_ref::locale_ref(const std::locale& locale);
template FMT_API auto locale_ref::get<std::locale>() const -> std::locale;
template FMT_API auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
template FMT_API void buffer<char>::append(const char*, const char*);
template FMT_API void vformat_to(buffer<char>&, string_view,
                                 basic_format_args<FMT_BUFFER_CONTEXT(char)>, locale_ref);
}  // namespace detail
FMT_END_NAMESPACE
]])
  add_library(anydim_fmt_functions STATIC "${source}")
  target_compile_options(anydim_fmt_functions PRIVATE -w)
  get_target_property(definitions fmt::fmt INTERFACE_COMPILE_DEFINITIONS)
  if(definitions)
    target_compile_definitions(anydim_fmt_functions PRIVATE ${definitions})
    target_compile_definitions(anydim_fmt INTERFACE ${definitions})
  endif()
  target_link_libraries(anydim_fmt INTERFACE anydim_fmt_functions Threads::Threads)
  find_library(XXHASH_STATIC_LIBRARY libxxhash.a REQUIRED)
  target_link_libraries(anydim_xxhash INTERFACE "${XXHASH_STATIC_LIBRARY}")
else()
  target_link_libraries(anydim_fmt INTERFACE fmt::fmt)
  find_library(XXHASH_LIBRARY xxhash REQUIRED)
  target_link_libraries(anydim_xxhash INTERFACE "${XXHASH_LIBRARY}")
endif()
if(ANYDIM_SLIM)
  add_link_options(-static-libstdc++ -static-libgcc -Wl,-s)
endif()
