# What cmake --install puts where: the command, libanydim, its headers, and the files by which CMake
# and pkg-config find it. No file that is installed names a folder of the machine that built it, so
# that the whole may be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(folder "${CMAKE_INSTALL_LIBDIR}/cmake/Anydim")
set(generated "${CMAKE_BINARY_DIR}/generated/install")

install(TARGETS anydim RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT command)
install(TARGETS anydim_shared EXPORT AnydimTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library NAMELINK_COMPONENT development
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
set_target_properties(anydim_shared PROPERTIES EXPORT_NAME anydim)
install(FILES "${CMAKE_SOURCE_DIR}/capi/anydim.h" "${CMAKE_SOURCE_DIR}/capi/anydim.hpp" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/anydim"
  COMPONENT development)

install(EXPORT AnydimTargets NAMESPACE Anydim:: DESTINATION "${folder}" COMPONENT development)
file(CONFIGURE OUTPUT "${generated}/AnydimConfig.cmake" @ONLY CONTENT [[
# Anydim::anydim: the shared library with its C interface (anydim/anydim.h, anydim/anydim.hpp).
include("${CMAKE_CURRENT_LIST_DIR}/AnydimTargets.cmake")
]])
write_basic_package_version_file("${generated}/AnydimConfigVersion.cmake" VERSION "${PROJECT_VERSION}" COMPATIBILITY SameMajorVersion)
install(FILES "${generated}/AnydimConfig.cmake" "${generated}/AnydimConfigVersion.cmake" DESTINATION "${folder}" COMPONENT development)

# From the folder of the .pc file up to the prefix.
cmake_path(SET pkgconfig_folder "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}/${pkgconfig_folder}" OUTPUT_VARIABLE up)
file(CONFIGURE OUTPUT "${generated}/anydim.pc" @ONLY CONTENT [[
prefix=${pcfiledir}/@up@
libdir=${prefix}/@CMAKE_INSTALL_LIBDIR@
includedir=${prefix}/@CMAKE_INSTALL_INCLUDEDIR@

Name: anydim
Description: Compiles tensor programs with unknown shapes once and runs them at any
Version: @PROJECT_VERSION@
Libs: -L${libdir} -lanydim
Cflags: -I${includedir}
]])
install(FILES "${generated}/anydim.pc" DESTINATION "${pkgconfig_folder}" COMPONENT development)
