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
  # Debian has no static fmt and spdlog, but their headers hold everything: one source makes both. What uses them is compiled as for the shared
  # libraries, so that a compiler cache that has seen another build serves this one.
  set(source "${CMAKE_BINARY_DIR}/generated/slim_libraries.cpp")
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
template FMT_API void vformat_to(buffer<char>&, string_view, basic_format_args<FMT_BUFFER_CONTEXT(char)>, locale_ref);
}  // namespace detail
FMT_END_NAMESPACE

#include <spdlog/common-inl.h>
#include <spdlog/details/backtracer-inl.h>
#include <spdlog/details/log_msg-inl.h>
#include <spdlog/details/log_msg_buffer-inl.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/details/os-inl.h>
#include <spdlog/details/registry-inl.h>
#include <spdlog/logger-inl.h>
#include <spdlog/pattern_formatter-inl.h>
#include <spdlog/sinks/ansicolor_sink-inl.h>
#include <spdlog/sinks/base_sink-inl.h>
#include <spdlog/sinks/sink-inl.h>
#include <spdlog/sinks/stdout_sinks-inl.h>
#include <spdlog/spdlog-inl.h>

template class spdlog::sinks::base_sink<std::mutex>;
template class spdlog::sinks::stdout_sink_base<spdlog::details::console_mutex>;
template class spdlog::sinks::stderr_sink<spdlog::details::console_mutex>;
template class spdlog::sinks::ansicolor_sink<spdlog::details::console_mutex>;
template class spdlog::sinks::ansicolor_stdout_sink<spdlog::details::console_mutex>;
]])
  add_library(anydim_slim_libraries STATIC "${source}")
  target_compile_options(anydim_slim_libraries PRIVATE -w)
  foreach(library fmt spdlog)
    get_target_property(definitions ${library}::${library} INTERFACE_COMPILE_DEFINITIONS)
    if(definitions)
      target_compile_definitions(anydim_slim_libraries PRIVATE ${definitions})
      target_compile_definitions(anydim_${library} INTERFACE ${definitions})
    endif()
    target_link_libraries(anydim_${library} INTERFACE anydim_slim_libraries Threads::Threads)
  endforeach()
  # As spdlog's own target depends on fmt's.
  target_compile_definitions(anydim_spdlog INTERFACE $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
  find_library(XXHASH_STATIC_LIBRARY libxxhash.a REQUIRED)
  target_link_libraries(anydim_xxhash INTERFACE "${XXHASH_STATIC_LIBRARY}")
  add_link_options(-static-libstdc++ -static-libgcc -Wl,-s)
else()
  target_link_libraries(anydim_fmt INTERFACE fmt::fmt)
  target_link_libraries(anydim_spdlog INTERFACE spdlog::spdlog)
  find_library(XXHASH_LIBRARY xxhash REQUIRED)
  target_link_libraries(anydim_xxhash INTERFACE "${XXHASH_LIBRARY}")
endif()
