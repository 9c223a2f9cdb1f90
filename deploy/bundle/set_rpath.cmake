# SPDX-License-Identifier: Apache-2.0
# Leaves $ORIGIN/../lib of the RPATH that was FOUND in FILE.
file(RPATH_CHANGE FILE "${FILE}" OLD_RPATH "${FOUND}" NEW_RPATH "\$ORIGIN/../lib")
