# SPDX-License-Identifier: Apache-2.0
# Every library we use from the system; docs/DEPENDENCIES.md says why each is here.
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)  # module mode: Debian's protobuf has no config file
find_package(gRPC CONFIG REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(yaml-cpp CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Gloo CONFIG REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)

# dnnl's own config file insists on OpenCL headers that we do not use.
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(dnnl INTERFACE)
target_include_directories(dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(dnnl INTERFACE ${DNNL_LIBRARY} OpenMP::OpenMP_CXX)

find_library(SENTENCEPIECE_LIBRARY sentencepiece REQUIRED)
add_library(sentencepiece INTERFACE)
target_link_libraries(sentencepiece INTERFACE ${SENTENCEPIECE_LIBRARY})

find_library(RE2_LIBRARY re2 REQUIRED)
add_library(re2 INTERFACE)
target_link_libraries(re2 INTERFACE ${RE2_LIBRARY})

find_path(SECCOMP_INCLUDE_DIR seccomp.h REQUIRED)
find_library(SECCOMP_LIBRARY seccomp REQUIRED)
add_library(seccomp INTERFACE)
target_include_directories(seccomp SYSTEM INTERFACE ${SECCOMP_INCLUDE_DIR})
target_link_libraries(seccomp INTERFACE ${SECCOMP_LIBRARY})

find_library(PCRE2_LIBRARY pcre2-8 REQUIRED)
add_library(pcre2 INTERFACE)
target_link_libraries(pcre2 INTERFACE ${PCRE2_LIBRARY})
