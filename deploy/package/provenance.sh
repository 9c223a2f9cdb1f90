#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the date and the commit that packages name, for `export`:
#
#   provenance.sh       SOURCE_DATE_EPOCH=SECONDS STRETTO_COMMIT=ID
#
# Both come from the environment, else from the checkout that this file is part of: the date of its commit, and its id with
# "+changes" where files differ from it. Outside of a checkout the date is 1980-01-01, the oldest one that every kind of
# package can hold, and the commit is "unknown".
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
in_checkout() { # GIT ARGUMENTS...
  git -C "$here" "$@" 2>/dev/null
}
# A checkout of something else that this tree was unpacked into says nothing about it.
if ! in_checkout ls-files --error-unmatch provenance.sh >/dev/null; then in_checkout() { return 1; }; fi

epoch=${SOURCE_DATE_EPOCH:-$(in_checkout log -1 --format=%ct || echo 315532800)}
[[ "$epoch" =~ ^[0-9]{1,11}$ ]] ||
  { echo "$0: SOURCE_DATE_EPOCH is '$epoch', expected seconds since 1970" >&2; exit 1; }
commit=${STRETTO_COMMIT:-}
if [[ -z "$commit" ]]; then
  commit=$(in_checkout rev-parse HEAD || echo unknown)
  [[ "$commit" == unknown || -z "$(in_checkout status --porcelain --untracked-files=no)" ]] || commit+=+changes
fi
[[ "$commit" =~ ^[0-9A-Za-z.+_-]+$ ]] ||
  { echo "$0: STRETTO_COMMIT is '$commit', expected the id of a commit" >&2; exit 1; }
echo "SOURCE_DATE_EPOCH=$epoch STRETTO_COMMIT=$commit"
