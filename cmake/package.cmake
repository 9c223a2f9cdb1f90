# SPDX-License-Identifier: Apache-2.0
# cmake --build BUILD --target packages: Debian packages (stretto; stretto-cuda where the plug-in is built) and one archive that
# runs from any folder and brings its libraries along. cmake --install BUILD installs the same files.
include(GNUInstallDirs)
set(programs stretto stretto-bench stretto-data stretto-model stretto-coordinator stretto-worker stretto-planner
  stretto-trainer)
add_custom_target(programs DEPENDS ${programs})

# Programs find each other beside themselves, the plug-in in ../lib/stretto, the archive's libraries in ../lib. They are linked as
# they are installed: CMake ends a search path that it will replace with an empty folder, which means the current one.
set_target_properties(${programs} PROPERTIES INSTALL_RPATH "\$ORIGIN/../lib" BUILD_WITH_INSTALL_RPATH ON)
install(TARGETS ${programs} RUNTIME_DEPENDENCY_SET shipped COMPONENT stretto)
if(TARGET stretto_cuda)
  set_target_properties(stretto_cuda PROPERTIES INSTALL_RPATH "\$ORIGIN/../lib;\$ORIGIN/.."
    INSTALL_RPATH_USE_LINK_PATH ON BUILD_WITH_INSTALL_RPATH ON)
  install(TARGETS stretto_cuda LIBRARY DESTINATION lib/stretto COMPONENT cuda)
endif()

install(DIRECTORY deploy/prometheus deploy/grafana deploy/examples DESTINATION share/stretto COMPONENT stretto
  FILES_MATCHING PATTERN *.yml PATTERN *.yaml PATTERN *.json)
install(FILES README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE deploy/package/copyright DESTINATION share/doc/stretto COMPONENT stretto)
install(DIRECTORY docs DESTINATION share/doc/stretto COMPONENT stretto FILES_MATCHING PATTERN *.md PATTERN *.svg)
install(FILES deploy/systemd/stretto-coordinator.service deploy/systemd/stretto-worker.service
  DESTINATION lib/systemd/system COMPONENT stretto)
install(FILES deploy/systemd/sysusers.conf DESTINATION lib/sysusers.d RENAME stretto.conf COMPONENT stretto)
# In /etc/stretto where a Debian package is made (deploy/package/debian.cmake).
install(FILES deploy/systemd/coordinator.env deploy/systemd/worker.env DESTINATION share/stretto/systemd COMPONENT stretto)

# Written by the target man_page, where it was built.
set(written ${PROJECT_BINARY_DIR}/share)
install(FILES ${written}/man/man1/stretto.1 DESTINATION share/man/man1 COMPONENT stretto OPTIONAL)
install(FILES ${written}/completions/stretto.bash DESTINATION share/bash-completion/completions RENAME stretto
  COMPONENT stretto OPTIONAL)
install(FILES ${written}/completions/_stretto DESTINATION share/zsh/vendor-completions COMPONENT stretto OPTIONAL)
install(FILES ${written}/completions/stretto.fish DESTINATION share/fish/vendor_completions.d COMPONENT stretto OPTIONAL)

# For the archive alone: everything that is not of the C library.
install(RUNTIME_DEPENDENCY_SET shipped DESTINATION lib COMPONENT libraries EXCLUDE_FROM_ALL
  PRE_EXCLUDE_REGEXES "^(ld-linux-x86-64|libc|libm|libpthread|libdl|librt|libutil|libresolv|libnsl)\\.so")

set(CPACK_PACKAGE_NAME stretto)
set(CPACK_PACKAGE_VENDOR "the Stretto maintainers")
set(CPACK_PACKAGE_CONTACT "the Stretto maintainers <maintainers@stretto.invalid>")
set(CPACK_PACKAGE_FILE_NAME stretto-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/deploy/package/debian.cmake)
set(CPACK_COMPONENTS_ALL stretto)  # the libraries are Debian's, by shlibdeps
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEB_COMPONENT_INSTALL ON)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE none)  # deploy/package/make.sh packs it again
set(CPACK_DEBIAN_STRETTO_PACKAGE_NAME stretto)
set(CPACK_DEBIAN_STRETTO_PACKAGE_SECTION science)
set(CPACK_DEBIAN_STRETTO_DESCRIPTION "trains transformers with tensor parallelism and hides the communication
A coordinator takes jobs over gRPC and places them on worker daemons as gangs; trainers run an overlapped step
program and account for every second of every step. This package has the command-line client, both daemons, the
trainer, Prometheus rules and Grafana dashboards. The trainer needs a CPU with AVX2 (${STRETTO_CPU_ARCH}).")
set(CPACK_DEBIAN_STRETTO_PACKAGE_SHLIBDEPS ON)
# The postinst makes the user that the daemons run as.
set(CPACK_DEBIAN_STRETTO_PACKAGE_DEPENDS "systemd-standalone-sysusers | systemd-sysusers")
set(CPACK_DEBIAN_STRETTO_PACKAGE_SUGGESTS "stretto-cuda, prometheus, sqlite3, etcd-server")
foreach(script conffiles postinst prerm postrm)
  list(APPEND CPACK_DEBIAN_STRETTO_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/deploy/package/${script})
endforeach()
if(TARGET stretto_cuda)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
  set(CPACK_DEBIAN_CUDA_PACKAGE_NAME stretto-cuda)
  set(CPACK_DEBIAN_CUDA_PACKAGE_SECTION science)
  list(JOIN STRETTO_CUDA_ARCHITECTURES ", " architectures)
  set(CPACK_DEBIAN_CUDA_DESCRIPTION "CUDA backend of Stretto
The plug-in that stretto-trainer opens for jobs with device cuda, for GPUs of compute capability ${architectures}. It
needs the NVIDIA driver (${STRETTO_CUDA_DRIVER} or newer), cuBLASLt of CUDA ${CUDAToolkit_VERSION_MAJOR} and, for jobs of several ranks, NCCL; they come from
NVIDIA's repository or a Python installation.")
  # Both come from one build, and its libraries are a subset. CUDA's are in no Debian package that shlibdeps knows.
  set(CPACK_DEBIAN_CUDA_PACKAGE_SHLIBDEPS OFF)
  set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "stretto (= ${PROJECT_VERSION})")
  set(CPACK_DEBIAN_CUDA_PACKAGE_SUGGESTS
    "libcublas-${CUDAToolkit_VERSION_MAJOR}-${CUDAToolkit_VERSION_MINOR}, libnccl2")
endif()
set(archive ${CPACK_PACKAGE_FILE_NAME})  # CPack puts that of an archive of sources in its place
include(CPack)

# For deploy/package/make.sh, which makes the archive from the same components and the libraries.
set(components stretto libraries)
set(packed ${programs})
if(TARGET stretto_cuda)
  list(APPEND components cuda)
  list(APPEND packed stretto_cuda)
endif()
list(JOIN components " " components)
file(WRITE ${PROJECT_BINARY_DIR}/share/packages.env
  "CMAKE='${CMAKE_COMMAND}' CPACK='${CMAKE_CPACK_COMMAND}' ARCHIVE='${archive}' COMPONENTS='${components}'\n")
stretto_materials(materials ${packed})
add_custom_target(packages COMMAND ${PROJECT_SOURCE_DIR}/deploy/package/make.sh ${PROJECT_BINARY_DIR} VERBATIM)
add_dependencies(packages materials)
if(TARGET man_page)
  add_dependencies(packages man_page)
endif()
