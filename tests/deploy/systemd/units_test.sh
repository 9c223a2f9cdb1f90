#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The units are valid, confined, and start what the package installs with what /etc/stretto has.
#
#   units_test.sh SOURCE BIN
set -euo pipefail
units=$1/deploy/systemd bin=$2
command -v systemd-analyze >/dev/null || { echo "skipped: no systemd-analyze here"; exit 77; }
[[ -d /usr/lib/systemd/system || -d /lib/systemd/system ]] || { echo "skipped: no units of systemd's own here"; exit 77; }
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
fail() { echo "$*" >&2; exit 1; }

# A root with what the package installs beside systemd's own units: every section, setting and program is checked.
mkdir -p "$root"/usr/{lib/systemd,bin} "$root"/etc/{systemd/system,stretto} "$root"/usr/share/doc/stretto/docs
ln -s usr/lib usr/bin "$root"
cp -r "$(readlink -f /lib/systemd/system)" "$root/usr/lib/systemd/"
cp "$units"/*.service "$root/usr/lib/systemd/system/"
cp "$units"/*.env "$root/etc/stretto/"
for program in stretto-coordinator stretto-worker; do
  printf '#!/bin/sh\n' >"$root/usr/bin/$program"
  chmod +x "$root/usr/bin/$program"
  SYSTEMD_LOG_LEVEL=notice systemd-analyze verify --root="$root" --man=no "$program.service" >"$root/said" 2>&1 || fail "$(cat "$root/said")"
  ! grep "$program.service" "$root/said" || fail "$program.service: systemd-analyze verify has something to say"
done

# The exposure that `systemd-analyze security` finds, times ten: 0 is none, 100 everything.
for limit in stretto-coordinator:15 stretto-worker:20; do
  systemd-analyze security --no-pager --offline=true --threshold="${limit#*:}" "$units/${limit%:*}.service" >"$root/said" ||
    fail "$(grep -E '✗|exposure' "$root/said")"
done

# Flags that the units and settings give exist.
for program in coordinator worker; do
  "$bin/stretto-$program" --help >"$root/help"
  { sed -n 's/^ExecStart=//p' "$units/stretto-$program.service"; grep '_FLAGS=' "$units/$program.env"; } |
    grep -oE -e '--[a-z-]+' | sort -u | while read -r flag; do
    grep -qE -e "(^|[ ,])$flag\b" "$root/help" || fail "stretto-$program has no flag $flag"
  done
done
