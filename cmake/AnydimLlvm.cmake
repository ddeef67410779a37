# anydim_llvm: headers and libraries of LLVM 19.
#
# The static components are the default because a program that starts warm never calls LLVM, yet
# relocates the shared libLLVM before main: 13 ms from start to exit against 5 ms with static
# components (Zen 4, empty main).

set(CMAKE_MESSAGE_LOG_LEVEL NOTICE)  # its configuration looks for libraries that nothing here needs
find_package(LLVM 19.1 REQUIRED CONFIG)
unset(CMAKE_MESSAGE_LOG_LEVEL)

if(ANYDIM_SELF_CONTAINED)
  find_library(ZLIB_STATIC_LIBRARY libz.a REQUIRED)
  find_library(ZSTD_STATIC_LIBRARY libzstd.a REQUIRED)
  set_target_properties(LLVMSupport PROPERTIES INTERFACE_LINK_LIBRARIES "m;dl;${ZLIB_STATIC_LIBRARY};${ZSTD_STATIC_LIBRARY};LLVMDemangle")
endif()

add_library(anydim_llvm INTERFACE)
target_include_directories(anydim_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
separate_arguments(llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_definitions(anydim_llvm INTERFACE ${llvm_definitions})
if(ANYDIM_LLVM_SHARED)
  target_link_libraries(anydim_llvm INTERFACE LLVM)
else()
  llvm_map_components_to_libnames(llvm_libraries core native object orcjit passes support)
  target_link_libraries(anydim_llvm INTERFACE ${llvm_libraries})
endif()
