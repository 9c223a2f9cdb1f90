# SPDX-License-Identifier: Apache-2.0
# CUDA is optional. AUTO takes it when nvcc is there, ON insists, OFF never looks. What is built with
# it: the device code (*.cu of a folder), the plug-in library, tests and benchmarks for a GPU.
set(STRETTO_HAVE_CUDA OFF)
if(NOT STRETTO_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "STRETTO_CUDA is '${STRETTO_CUDA}', expected AUTO, ON or OFF")
endif()
if(NOT STRETTO_CUDA STREQUAL "OFF")
  # For projects that require CMake 3.25 or newer, FindCUDAToolkit of 3.25 marks a library as
  # deprecated that CUDA 13 no longer has, without looking whether it is there, and so fails.
  set(required ${CMAKE_MINIMUM_REQUIRED_VERSION})
  set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
  find_package(CUDAToolkit QUIET)
  set(CMAKE_MINIMUM_REQUIRED_VERSION ${required})
  if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE AND TARGET CUDA::cublasLt)
    set(STRETTO_HAVE_CUDA ON)
  elseif(STRETTO_CUDA STREQUAL "ON")
    message(FATAL_ERROR "STRETTO_CUDA is ON, but no CUDA toolkit with nvcc and cuBLASLt was found (is nvcc on PATH?)")
  endif()
endif()
if(NOT STRETTO_HAVE_CUDA)
  message(STATUS "CUDA: none; the plug-in is not built")
  return()
endif()

# Only the architectures named, no PTX: a GPU of another is refused by name instead of being served
# by the driver's compiler for minutes.
foreach(architecture ${STRETTO_CUDA_ARCHITECTURES})
  if(NOT architecture MATCHES "^[0-9]+[af]?$")
    message(FATAL_ERROR "STRETTO_CUDA_ARCHITECTURES has '${architecture}', expected numbers such as 80, 90a or 100")
  endif()
  list(APPEND code "-gencode=arch=compute_${architecture},code=sm_${architecture}")
endforeach()

if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
endif()
set(CMAKE_CUDA_ARCHITECTURES OFF)  # given by stretto_cuda_flags
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_CUDA_HOST_COMPILER)
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
endif()
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know it of nvcc
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CUDA_FLAGS_DEBUG "-O1 -lineinfo")
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()

# How nvcc compiles; stretto_flags is for the C++ compiler.
add_library(stretto_cuda_flags INTERFACE)
target_compile_options(stretto_cuda_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:${code};--expt-relaxed-constexpr;-Werror=all-warnings;-Xcompiler=-Wall,-Wextra,-Werror>")
target_link_libraries(stretto_flags INTERFACE stretto_cuda_flags)

# What the plug-in is linked to, for the program that opens it (worker/engine/exec/plugin).
set(STRETTO_CUDA_SONAMES libcublasLt.so.${CUDAToolkit_VERSION_MAJOR})

# The oldest driver of this toolkit (CUDA release notes, table 3).
set(STRETTO_CUDA_DRIVER 525)
if(CUDAToolkit_VERSION_MAJOR GREATER_EQUAL 13)
  set(STRETTO_CUDA_DRIVER 580)
endif()
message(STATUS "CUDA ${CUDAToolkit_VERSION} for ${STRETTO_CUDA_ARCHITECTURES}")
