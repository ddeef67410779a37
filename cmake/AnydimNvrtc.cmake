# What tests of generated CUDA kernels need; no GPU, no driver.
#   ANYDIM_NVRTC      the run-time compiler: the CUDA toolkit's, else that of the pinned wheel
#                     nvidia-cuda-nvrtc in .venv (scripts/python_env.sh)
#   ANYDIM_NVDISASM   the disassembler of machine code: likewise
# Both are empty where there is none; tests that need them are then left out, with a message, or an
# error with ANYDIM_REQUIRE_CUDA_TOOLS, as in scripts/test.sh.
option(ANYDIM_REQUIRE_CUDA_TOOLS "Stop where NVRTC or the disassembler of CUDA's machine code is missing")

file(GLOB wheel_folders "${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu13")
set(toolkit_folders "$ENV{CUDA_PATH}" "$ENV{CUDA_HOME}" /usr/local/cuda)
list(REMOVE_ITEM toolkit_folders "")

find_library(ANYDIM_NVRTC NAMES libnvrtc.so.13 PATHS ${toolkit_folders}
  PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib NO_DEFAULT_PATH)
find_library(ANYDIM_NVRTC NAMES libnvrtc.so.13)
find_library(ANYDIM_NVRTC NAMES libnvrtc.so.13 PATHS ${wheel_folders}
  PATH_SUFFIXES lib NO_DEFAULT_PATH)
find_program(ANYDIM_NVDISASM NAMES nvdisasm PATHS ${toolkit_folders}
  PATH_SUFFIXES bin NO_DEFAULT_PATH)
find_program(ANYDIM_NVDISASM NAMES nvdisasm)
find_program(ANYDIM_NVDISASM NAMES nvdisasm PATHS ${wheel_folders}
  PATH_SUFFIXES bin NO_DEFAULT_PATH)
mark_as_advanced(ANYDIM_NVRTC ANYDIM_NVDISASM)

foreach(tool NVRTC NVDISASM)
  if(NOT ANYDIM_${tool})
    set(ANYDIM_${tool} "")
    if(ANYDIM_REQUIRE_CUDA_TOOLS)
      message(FATAL_ERROR "CUDA ${tool}: none, and its tests must not be left out: run scripts/python_env.sh")
    endif()
    message(STATUS "CUDA ${tool}: none; its tests are left out (scripts/python_env.sh installs one)")
  elseif(ANYDIM_${tool} MATCHES "site-packages")
    message(STATUS "CUDA ${tool}: the wheel's, ${ANYDIM_${tool}}")
  else()
    message(STATUS "CUDA ${tool}: the toolkit's, ${ANYDIM_${tool}}")
  endif()
endforeach()

# anydim_uses_nvrtc(TEST...)
#   Lets CTest's tests find that NVRTC.
function(anydim_uses_nvrtc)
  cmake_path(GET ANYDIM_NVRTC PARENT_PATH folder)
  foreach(test ${ARGN})
    if(TEST ${test})
      set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT_MODIFICATION "LD_LIBRARY_PATH=path_list_prepend:${folder}")
    endif()
  endforeach()
endfunction()
