# SPDX-License-Identifier: Apache-2.0
# cmake --build BUILD --target bundle: what runs on a GPU machine, as one archive that needs nothing
# but glibc, a driver and CUDA's libraries there. Configure with STRETTO_CUDA_ARCHITECTURES=90a (or
# what the machine has) to keep it small.
set(bundled stretto-bench)
if(TARGET stretto_cuda)
  list(APPEND bundled stretto_cuda)
endif()
get_property(tests GLOBAL PROPERTY STRETTO_BUNDLED)  # by stretto_cuda_test
list(APPEND bundled ${tests})
stretto_materials(bundle_materials ${bundled})
foreach(target ${bundled})
  list(APPEND bundled_files $<TARGET_FILE:${target}>)
endforeach()
option(STRETTO_BUNDLE_CUDA_LIBRARIES "Put CUDA's libraries into the bundle too" OFF)
set(bundle_options --materials ${PROJECT_BINARY_DIR}/share/bundle_materials.json)
if(STRETTO_BUNDLE_CUDA_LIBRARIES)
  list(APPEND bundle_options --with-cuda-libraries)
endif()
if(STRETTO_HAVE_CUDA)
  list(APPEND bundle_options --driver ${STRETTO_CUDA_DRIVER})
endif()
foreach(script gpu.sh gpu_table.py torch_gpu_peer.py torch_gpu_kernels.py torch_gpu_step.py)
  list(APPEND bundle_options --script ${PROJECT_SOURCE_DIR}/tests/bench/${script})
endforeach()
file(GLOB golden CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/golden/torch_*)
foreach(file ${golden})
  list(APPEND bundle_options --golden ${file})
endforeach()
set(bundle ${PROJECT_BINARY_DIR}/stretto-bundle.tar.gz)
add_custom_target(bundle
  COMMAND ${PROJECT_SOURCE_DIR}/deploy/bundle/make.sh ${bundle_options} ${bundle} ${bundled_files}
  DEPENDS ${bundled} bundle_materials VERBATIM COMMAND_EXPAND_LISTS)
