# SPDX-License-Identifier: Apache-2.0
# One library per folder. A library sees its own folder and those of its declared dependencies, and
# nothing else: each has an include root of its own in the build tree that links to its folder, so
# an include without a declared dependency does not compile (DESIGN section 2).

add_library(stretto_flags INTERFACE)
target_compile_options(stretto_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Werror;-pthread;-fno-math-errno;-fno-semantic-interposition>"
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety>)
# What Debian's own packages are hardened with; tests/deploy/package/hardening_test.sh looks for it in every file. Compilers of
# other systems may define _FORTIFY_SOURCE themselves. It needs optimisation, and the sanitizers watch the same calls.
# stretto_generated is for what protoc writes, which has no other flag of ours.
add_library(stretto_generated INTERFACE)
foreach(flags stretto_flags stretto_generated)
  target_compile_options(${flags} INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-fstack-protector-strong;-fstack-clash-protection;-fcf-protection>")
  if(STRETTO_SANITIZER)
    # Under the thread sanitizer Protobuf's headers lay out a message with a map differently: all sources must agree.
    target_compile_options(${flags} INTERFACE
      "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${STRETTO_SANITIZER};-fno-sanitize-recover=all;-fno-omit-frame-pointer>")
  else()
    target_compile_options(${flags} INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
  endif()
  # STRETTO_CHECK and checks of vendors' headers name the files that they are in. The last match of a path counts.
  if(STRETTO_REPRODUCIBLE)
    foreach(map ${PROJECT_SOURCE_DIR}=. ${PROJECT_BINARY_DIR}=build)
      target_compile_options(${flags} INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${map}>
        $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-ffile-prefix-map=${map}>)
    endforeach()
  endif()
endforeach()
target_link_options(stretto_flags INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack)
if(STRETTO_SANITIZER)
  target_link_options(stretto_flags INTERFACE -fsanitize=${STRETTO_SANITIZER})
endif()
if(STRETTO_FUZZ)  # which lines the inputs reach; tests/fuzz/run.sh shows it
  target_compile_options(stretto_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-fprofile-instr-generate;-fcoverage-mapping>")
  target_link_options(stretto_flags INTERFACE -fprofile-instr-generate)
endif()

# For folders without a hot path: -Og takes about a quarter less time to compile.
set(stretto_cold $<$<COMPILE_LANGUAGE:CXX>:-Og>)

# stretto_precompiled(NAME HEADERS header... [VENDOR libraries...] [OPTIONS compile options...])
# Headers that most sources include, parsed once. OPTIONS are those of the sources that use them.
# They are headers of libraries only, because ours are visible to declared dependencies alone. Without STRETTO_UNITY each source
# is compiled by what it includes itself. clang-tidy cannot read those of GCC, and the lint preset has none.
# GCC compiles a source at the optimisation level of its precompiled header, whatever its own options say.
function(stretto_precompiled name)
  cmake_parse_arguments(ARG "" "" "HEADERS;VENDOR;OPTIONS" ${ARGN})
  if(STRETTO_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${name}.cc CONTENT "")
    add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/${name}.cc)
    target_link_libraries(${name} PRIVATE stretto_flags ${ARG_VENDOR})
    target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
    target_compile_options(${name} PRIVATE -fpch-preprocess ${ARG_OPTIONS})
  endif()
endfunction()

# stretto_library(NAME [SEPARATE | ALONE source...] [DEPS public...] [VENDOR private...] [OPTIONS compile options...])
# Sources are the folder's *.cc except *_main.cc, and with CUDA its *.cu. They are compiled together, but for those that are
# ALONE; those of a SEPARATE library are all compiled one by one. A second batch would parse all headers again for a few
# sources, and tests/tidy/tidy.sh bounds a folder, so one batch holds them all.
# VENDOR libraries stay out of the folder's headers.
function(stretto_library name)
  cmake_parse_arguments(ARG "SEPARATE" "" "ALONE;DEPS;VENDOR;OPTIONS" ${ARGN})
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(root ${PROJECT_BINARY_DIR}/include/${name})
  get_filename_component(parent ${root}/${folder} DIRECTORY)
  file(MAKE_DIRECTORY ${parent})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${root}/${folder} SYMBOLIC)

  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  list(FILTER sources EXCLUDE REGEX "_main\\.cc$")
  if(STRETTO_HAVE_CUDA)
    file(GLOB device_sources CONFIGURE_DEPENDS *.cu)
    list(APPEND sources ${device_sources})
  endif()
  if(sources)
    add_library(${name} STATIC ${sources})
    target_include_directories(${name} PUBLIC ${root})
    target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE stretto_flags ${ARG_VENDOR})
    target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
    # So that it can be part of the plug-in.
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    if(STRETTO_UNITY AND NOT ARG_SEPARATE)
      set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)  # no bound
      set_source_files_properties(${ARG_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
      get_directory_property(options COMPILE_OPTIONS)
      set(precompiled precompiled)
      if("${stretto_cold}" IN_LIST options)
        set(precompiled precompiled_cold)
      endif()
      if(TARGET ${precompiled})
        target_precompile_headers(${name} REUSE_FROM ${precompiled})
        target_compile_options(${name} PRIVATE -fpch-preprocess -Winvalid-pch)
      endif()
      # In a unity file an anonymous namespace is no longer that of the main file.
      target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
    endif()
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE ${root})
    target_link_libraries(${name} INTERFACE ${ARG_DEPS} ${ARG_VENDOR})
  endif()
endfunction()

# What makes sources and headers. tests/run.sh --lint builds it alone, because clang-tidy reads them.
add_custom_target(generated)

# stretto_binary(NAME MAIN file_main.cc DEPS...)
function(stretto_binary name)
  cmake_parse_arguments(ARG "" "MAIN" "DEPS" ${ARGN})
  add_executable(${name} ${ARG_MAIN})
  # The linker keeps the first copy that it finds of an inline function that was not inlined, for the whole program. The main's come
  # first: at -O0 they made each std::string of the coordinator slow.
  set_source_files_properties(${ARG_MAIN} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O2>)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} stretto_flags)
endfunction()

# stretto_test(NAME [SERIAL] [WAITING filter] [LABELS ...] DEPS...): one GoogleTest binary from the folder's *_test.cc, one ctest
# entry per test; SERIAL ones run alone, but for those of the filter, which mostly wait: they run one after another beside tests of
# other binaries. UNLISTED ones are only built. Golden files are read from STRETTO_SOURCE_DIR/tests/golden.
function(stretto_test name)
  cmake_parse_arguments(ARG "SERIAL;UNLISTED" "TIMEOUT;WAITING" "DEPS;SOURCES;LABELS" ${ARGN})
  if(NOT ARG_SOURCES)
    file(GLOB ARG_SOURCES CONFIGURE_DEPENDS *_test.cc)
  endif()
  if(NOT ARG_SOURCES)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(STRETTO_SANITIZER)  # instrumented code is up to 20 times slower
    math(EXPR ARG_TIMEOUT "5 * ${ARG_TIMEOUT}")
  endif()
  add_executable(${name} ${ARG_SOURCES})
  if(STRETTO_UNITY)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)  # both cores have some of a large one
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
  if(TARGET tests_precompiled)
    target_precompile_headers(${name} REUSE_FROM tests_precompiled)
    target_compile_options(${name} PRIVATE -fpch-preprocess -Winvalid-pch)
  endif()
  target_include_directories(${name} PRIVATE ${PROJECT_BINARY_DIR}/include/tests)
  target_compile_definitions(${name} PRIVATE STRETTO_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    STRETTO_BINARY_DIR="${PROJECT_BINARY_DIR}/bin")
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} stretto_flags GTest::gmock test_main)
  set(properties TIMEOUT ${ARG_TIMEOUT})
  if(ARG_LABELS)  # an empty value would vanish on the way
    list(APPEND properties LABELS ${ARG_LABELS})
  endif()
  if(ARG_UNLISTED)
    return()
  endif()
  # A list of tests has the time of a test: the first one after a build may read half a gigabyte of a vendor's library from disk.
  # A value as GoogleTest prints it may have addresses, which differ from one list to the next; its name is part of the test's.
  set(discovery DISCOVERY_MODE PRE_TEST TEST_PREFIX "${name}." NO_PRETTY_VALUES)
  set(others)
  if(ARG_WAITING)
    gtest_discover_tests(${name} ${discovery} TEST_LIST ${name}_waiting
      DISCOVERY_TIMEOUT ${ARG_TIMEOUT} TEST_FILTER "${ARG_WAITING}" PROPERTIES ${properties} RESOURCE_LOCK ${name} COST 100)  # begun first, so that others are left
    set(others TEST_FILTER "-${ARG_WAITING}")
  endif()
  gtest_discover_tests(${name} ${discovery} ${others}
    DISCOVERY_TIMEOUT ${ARG_TIMEOUT} PROPERTIES ${properties} RUN_SERIAL ${ARG_SERIAL})
endfunction()
