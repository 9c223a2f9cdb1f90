#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs a folder so that the same files give the same archive, whoever packs them, where and when: entries in the order of
# their names, of owner 0, readable by all, with the date SOURCE_DATE_EPOCH (provenance.sh).
#
#   pack.sh ARCHIVE.tar.gz FOLDER
set -euo pipefail
[[ $# -eq 2 && -n "${SOURCE_DATE_EPOCH:-}" ]] || { sed -n '3,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
unset TAR_OPTIONS GZIP
LC_ALL=C tar -C "$(dirname "$2")" --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
  --mtime="@$SOURCE_DATE_EPOCH" --hard-dereference -cf - "$(basename "$2")" | gzip -n >"$1"
