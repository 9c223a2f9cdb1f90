#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What people install runs where nothing else is: in a clean Debian root a job trains, and a purge leaves nothing behind.
#
#   package_test.sh deb|tgz SOURCE PACKAGES FOLDER    PACKAGES: where they lie; FOLDER: for clean roots
set -euo pipefail
kind=$1 source=$2 packages=$3 folder=$4
here=$source/tests/deploy/package
. "$here/clean_root.sh"
fail() { echo "$*" >&2; exit 1; }
one() { local found=("$@"); [[ ${#found[@]} -eq 1 && -f "${found[0]}" ]] || fail "expected one file, found ${found[*]}"; echo "$1"; }

deb() {
  local deb root left
  deb=$(one "$packages"/stretto_*.deb)
  root=$(clean_root deb)
  cp "$deb" "$here/train_a_job.sh" "$root/srv/"
  in_root "$root" apt-get update -qq
  in_root "$root" apt-get install -y -qq --no-install-recommends "/srv/$(basename "$deb")" >"$root/srv/apt.log" 2>&1 || fail "$(tail -30 "$root/srv/apt.log")"
  [[ -z "$(readelf -d "$root"/usr/bin/stretto* | grep -E 'R(UN)?PATH')" ]] || fail "a program has a search path of its own"
  in_root "$root" runuser -u stretto -- bash /srv/train_a_job.sh /usr/share/stretto/examples
  # Settings survive a removal, and both daemons' own state goes with a purge; what was trained never does.
  echo "# changed" >>"$root/etc/stretto/worker.env"
  in_root "$root" install -d -o stretto -g stretto /var/lib/stretto/{coordinator,worker,data,checkpoints/run}
  in_root "$root" apt-get remove -y -qq stretto >"$root/srv/apt.log" 2>&1 || fail "$(tail -30 "$root/srv/apt.log")"
  grep -q '# changed' "$root/etc/stretto/worker.env" || fail "a removal took the settings"
  in_root "$root" dpkg --purge stretto >"$root/srv/apt.log" 2>&1 || fail "$(cat "$root/srv/apt.log")"
  [[ "$(cd "$root/var/lib/stretto" && find . | sort | xargs)" == ". ./checkpoints ./checkpoints/run" ]] || fail "a purge left $(find "$root/var/lib/stretto")"
  in_root "$root" getent passwd stretto >/dev/null || fail "a purge took the user that checkpoints belong to"
  # Without anything trained, no file stays.
  rmdir "$root"/var/lib/stretto/checkpoints/run
  in_root "$root" apt-get install -y -qq --no-install-recommends "/srv/$(basename "$deb")" >"$root/srv/apt.log" 2>&1 || fail "$(tail -30 "$root/srv/apt.log")"
  in_root "$root" apt-get purge -y -qq stretto >"$root/srv/apt.log" 2>&1 || fail "$(cat "$root/srv/apt.log")"
  rm -rf "$root/srv"
  left=$(cd "$root" && find . -xdev -iname '*stretto*')
  [[ -z "$left" ]] || fail "a purge left $left"
}

# Nothing is installed there, so every library must come from the archive. It runs from wherever it lies.
tgz() {
  local archive root foreign top
  archive=$(one "$packages"/stretto-*.tar.gz)
  root=$(clean_root tgz)
  tar -C "$root/opt" -xf "$archive"
  [[ "$(ls "$root/opt" | wc -l)" -eq 1 ]] || fail "expected one folder at the top of the archive, found $(ls "$root/opt")"
  top=$(ls "$root/opt")
  cp "$here/train_a_job.sh" "$root/opt/"
  chmod 755 "$root/opt/$top"
  train() { in_root "$root" env "PATH=$1/bin:$PATH" runuser -u nobody -- bash /opt/train_a_job.sh "$1/share/stretto/examples"; }
  train "/opt/$top"
  mv "$root/opt/$top" "$root/home/elsewhere"
  foreign=$(in_root "$root" ldd /home/elsewhere/bin/stretto{,-bench,-data,-model,-planner,-coordinator,-worker,-trainer} | awk '$2 == "=>" {print $1, $3}' | grep -v ' /home/elsewhere/bin/../lib/' |
    grep -vE '^(lib(c|m|pthread|dl|rt|resolv)\.so)' || true)
  [[ -z "$foreign" ]] || fail "not from the archive: $foreign"
  train /home/elsewhere
}

clean_root_begin "$folder"
"$kind"
