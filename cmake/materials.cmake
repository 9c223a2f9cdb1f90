# SPDX-License-Identifier: Apache-2.0
# What bills of materials need to know of a build (deploy/package/bill): tools that write code, and where things are that come
# in no Debian package.
set(materials_options --build ${PROJECT_BINARY_DIR} --source ${PROJECT_SOURCE_DIR} --version ${PROJECT_VERSION})
foreach(tool ${CMAKE_CXX_COMPILER} ${CMAKE_LINKER} ${CMAKE_COMMAND} ${Protobuf_PROTOC_EXECUTABLE}
    $<TARGET_FILE:gRPC::grpc_cpp_plugin>)
  list(APPEND materials_options --tool ${tool})
endforeach()

# version_of(OUT FILE MACRO...): the numbers that a header defines as its version.
function(version_of out file)
  set(version "")
  foreach(macro ${ARGN})
    file(STRINGS ${file} line REGEX "^#define +${macro} +[0-9]+" LIMIT_COUNT 1)
    string(REGEX MATCH "[0-9]+$" number "${line}")
    list(APPEND version ${number})
  endforeach()
  list(JOIN version . version)
  set(${out} ${version} PARENT_SCOPE)
endfunction()

# Paths that begin so are of that component; the first one counts.
function(stretto_component prefix name version supplier)
  list(APPEND materials_options --component "${prefix}|${name}|${version}|${supplier}")
  set(materials_options "${materials_options}" PARENT_SCOPE)
endfunction()
if(STRETTO_HAVE_CUDA)
  list(APPEND materials_options --tool ${CUDAToolkit_NVCC_EXECUTABLE})
  if(NCCL_INCLUDE_DIR)
    version_of(version ${NCCL_INCLUDE_DIR}/nccl.h NCCL_MAJOR NCCL_MINOR NCCL_PATCH)
    stretto_component(${NCCL_INCLUDE_DIR}/nccl NCCL "${version}" "NVIDIA Corporation")
  endif()
  if(TARGET kernels_cudnn)
    version_of(version ${CUDNN_INCLUDE_DIR}/cudnn_version.h CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL)
    stretto_component(${CUDNN_INCLUDE_DIR}/cudnn cuDNN "${version}" "NVIDIA Corporation")
    version_of(version ${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h CUDNN_FRONTEND_MAJOR_VERSION
      CUDNN_FRONTEND_MINOR_VERSION CUDNN_FRONTEND_PATCH_VERSION)
    stretto_component(${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend nvidia-cudnn-frontend "${version}" "NVIDIA Corporation")
  endif()
  cmake_path(GET CUDAToolkit_BIN_DIR PARENT_PATH cuda_root)
  stretto_component(${cuda_root} "CUDA Toolkit" ${CUDAToolkit_VERSION} "NVIDIA Corporation")
endif()

# stretto_materials(NAME TARGETS...): share/NAME.json says what these programs and libraries are made of, once they are built.
function(stretto_materials name)
  set(files "")
  foreach(target ${ARGN})
    list(APPEND files $<TARGET_FILE:${target}>)
  endforeach()
  add_custom_target(${name} COMMAND ${PROJECT_SOURCE_DIR}/deploy/package/bill/materials.py ${materials_options}
    --out ${PROJECT_BINARY_DIR}/share/${name}.json ${files} DEPENDS ${ARGN} VERBATIM)
endfunction()
