# SPDX-License-Identifier: Apache-2.0
# For scripts that test the Python client in a virtual environment; sourced.

# Installs the packages that the exports and the data frames need, once each. What PyPI does not have is named, and tried again
# by the next run: what needs it is skipped.
#
#   install_extras ENVIRONMENT VERSION PACKAGES...
install_extras() {
  local environment=$1 version=$2 extra
  shift 2
  for extra in "$@"; do
    [[ -e "$environment/has-$extra" ]] && continue
    if "$environment/bin/pip" install -q --retries 1 --timeout 20 --only-binary :all: "$extra"; then
      touch "$environment/has-$extra"
    else
      echo "not tested: found no $extra for Python $version (PyPI)"
    fi
  done
}
