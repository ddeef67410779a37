# The functions by which folders declare what they build.

# anydim_library(NAME SOURCES files... DEPENDS targets... [DEFINES names...] [PRECOMPILED header])
#   One static library a folder; an INTERFACE library while the folder holds no source file. DEPENDS
#   are passed on to users; DEFINES are macros that only the library's own sources see; PRECOMPILED
#   is a header of AnydimPrecompiled, by default the one of the C++ library.
function(anydim_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PRECOMPILED" "SOURCES;DEPENDS;DEFINES")
  set(visibility PUBLIC)
  if(arg_SOURCES)
    add_library(${name} STATIC ${arg_SOURCES})
    target_compile_definitions(${name} PRIVATE ${arg_DEFINES})
    if(NOT arg_PRECOMPILED)
      set(arg_PRECOMPILED standard_library)
    endif()
    anydim_precompiled(${name} ${arg_PRECOMPILED} ${arg_SOURCES})
  else()
    add_library(${name} INTERFACE)
    set(visibility INTERFACE)
  endif()
  target_include_directories(${name} ${visibility} "${CMAKE_SOURCE_DIR}")
  target_link_libraries(${name} ${visibility} ${arg_DEPENDS})
endfunction()

# anydim_test(NAME SOURCES files... DEPENDS targets...)
#   One GoogleTest program and one CTest entry of the same name; nothing while SOURCES is empty.
#   Tests run in the folder that declares them, so that they can name their data files relative to
#   it; RapidCheck is at hand.
function(anydim_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS")
  if(NOT arg_SOURCES)
    return()
  endif()
  # What tests call is compiled as users run it; of the tests' own files nothing but the time to
  # build them counts.
  set(own ${arg_SOURCES})
  set(called ${arg_SOURCES})
  list(FILTER own INCLUDE REGEX "_(test|cases)\\.cpp$")
  list(FILTER called EXCLUDE REGEX "_(test|cases)\\.cpp$")
  add_executable(${name} ${arg_SOURCES})
  if(own)
    set_property(SOURCE ${own} APPEND PROPERTY COMPILE_OPTIONS ${ANYDIM_TEST_OPTIONS})
    anydim_precompiled(${name} tests ${own})
  endif()
  if(called)
    anydim_precompiled(${name} standard_library ${called})
  endif()
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} GTest::gtest_main rapidcheck)
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1 WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
  set_tests_properties(${name} PROPERTIES TIMEOUT 600)
endfunction()

# anydim_slow_tests(NAMES...)
#   Tests of the calling folder that take long; those that are there get the label slow, which
#   scripts/test.sh --quick leaves out, and start before all others, which fill the time that these
#   leave.
function(anydim_slow_tests)
  foreach(name IN LISTS ARGN)
    if(TEST ${name})
      set_property(TEST ${name} APPEND PROPERTY LABELS slow)
      set_property(TEST ${name} PROPERTY COST 100)
    endif()
  endforeach()
endfunction()

# anydim_script_test(NAME [PROCESSORS count] PYTHON FILE [arguments...])
#   One CTest entry that runs a Python file of the calling folder with the interpreter PYTHON, on
#   one processor or as many as are named (tests/processors.py). The environment variable ANYDIM
#   names the anydim command.
function(anydim_script_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PROCESSORS" "")
  if(NOT arg_PROCESSORS)
    set(arg_PROCESSORS 1)
  endif()
  list(POP_FRONT arg_UNPARSED_ARGUMENTS python)
  add_test(NAME ${name}
    COMMAND "${python}" "${CMAKE_SOURCE_DIR}/tests/processors.py" ${arg_PROCESSORS}
      ${arg_UNPARSED_ARGUMENTS}
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 PROCESSORS ${arg_PROCESSORS}
    ENVIRONMENT "ANYDIM=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/anydim;PYTHONDONTWRITEBYTECODE=1")
endfunction()

# anydim_python_test(NAME [PROCESSORS count] FILE [arguments...])
#   The same with the packages of tests/requirements.txt; the modules of bench can be imported. Left
#   out, with a message, where scripts/python_env.sh has not made .venv.
function(anydim_python_test name)
  set(python "${CMAKE_SOURCE_DIR}/.venv/bin/python")
  if(NOT EXISTS "${python}")
    message(STATUS "Test ${name} is left out: it needs .venv (scripts/python_env.sh)")
    return()
  endif()
  anydim_script_test(${name} "${python}" ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT 900)
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "PYTHONPATH=${CMAKE_SOURCE_DIR}/bench")
endfunction()
