# SPDX-License-Identifier: Apache-2.0
# Run by cpack before files are packed. A Debian package has its settings in /etc and no search path of its own.
file(GLOB programs ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/usr/bin/* ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/usr/lib/stretto/*)
foreach(program ${programs})
  file(RPATH_REMOVE FILE ${program})
endforeach()
set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/stretto)
file(MAKE_DIRECTORY ${root}/etc)
file(RENAME ${root}/usr/share/stretto/systemd ${root}/etc/stretto)
