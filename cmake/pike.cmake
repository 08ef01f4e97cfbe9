# The interface target that carries our flags, and the helper functions every folder uses.

add_library(pike_options INTERFACE)
target_include_directories(pike_options INTERFACE "${CMAKE_SOURCE_DIR}")
target_compile_options(pike_options INTERFACE
  -Wall -Wextra -Wno-missing-field-initializers -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wold-style-cast -Wextra-semi -Wundef
  -Werror=return-type -Werror=switch -Werror=unused-result)
if(PIKE_SANITIZE)
  target_compile_options(pike_options INTERFACE
    -fsanitize=${PIKE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(pike_options INTERFACE -fsanitize=${PIKE_SANITIZE})
endif()

# Joins the sources of a target, unless its folder has set groups of its own.
function(pike_use_unity target)
  if(PIKE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    # Sources look like headers there, where a member of a type of one's own file would be a mistake.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# pike_library(name SRCS a.cc ... DEPS ... PRIVATE_DEPS ...): one static library per folder.
function(pike_library name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SRCS})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE pike_options ${ARG_PRIVATE_DEPS})
  target_include_directories(${name} PUBLIC "${CMAKE_SOURCE_DIR}")
  pike_use_unity(${name})
endfunction()

# pike_binary(name SRCS ... DEPS ...): an installed program.
function(pike_binary name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE pike_options ${ARG_DEPS})
  pike_use_unity(${name})
  # Where deploy/bundle puts libraries, relative to the program. The old tag: it also holds for the libraries that
  # libraries need.
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/pike")
  target_link_options(${name} PRIVATE "LINKER:--disable-new-dtags")
  install(TARGETS ${name} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endfunction()

# Unit and simulation tests, the ones that the sanitizer presets run.
add_custom_target(pike_sanitized_tests)

# pike_test(name SRCS ... DEPS ... LABELS unit|sim|integration|... [TIMEOUT s]): a Catch2 program.
# Every test case becomes one ctest test; a case that needs a helper program finds it by PIKE_BIN_DIR.
function(pike_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(${name} ${ARG_SRCS})
  if(TARGET Catch2::Catch2WithMain)
    target_link_libraries(${name} PRIVATE Catch2::Catch2WithMain)
  else()
    target_link_libraries(${name} PRIVATE Catch2::Catch2)
  endif()
  target_link_libraries(${name} PRIVATE pike_options ${ARG_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  pike_use_unity(${name})
  if("unit" IN_LIST ARG_LABELS OR "sim" IN_LIST ARG_LABELS)
    add_dependencies(pike_sanitized_tests ${name})
  endif()
  # By env and not by the tests' ENVIRONMENT: Catch2's script takes a list of properties apart, and
  # only the first variable would arrive.
  set_target_properties(${name} PROPERTIES CROSSCOMPILING_EMULATOR
    "/usr/bin/env;PIKE_BIN_DIR=${CMAKE_BINARY_DIR}/bin;PIKE_SOURCE_DIR=${CMAKE_SOURCE_DIR};PIKE_PYTHON=${PIKE_PYTHON}")
  catch_discover_tests(${name} TEST_PREFIX "${name}: " DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()
