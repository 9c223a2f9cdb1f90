#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel of the Python client without a network and installs it into a folder.
#
#   install_wheel.sh SOURCE SITE
set -euo pipefail
source=$1 site=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
/usr/bin/python3 -m pip --isolated wheel -q --no-build-isolation --no-deps --no-index -w "$work" "$source/deploy/python"
rm -rf "$site"
/usr/bin/python3 -m pip --isolated install -q --no-index --no-deps --root-user-action=ignore --target "$site" "$work"/stretto-*.whl
[[ -e "$site/stretto/v1alpha1/job_pb2.py" ]] || { echo "found no generated messages in the wheel, expected stretto/v1alpha1/job_pb2.py" >&2; exit 1; }
! find "$source/deploy/python" -name '*_pb2*' -o -name '*.egg-info' -o -name build | grep . ||
  { echo "found the files above in the source tree, expected the build to leave none" >&2; exit 1; }
