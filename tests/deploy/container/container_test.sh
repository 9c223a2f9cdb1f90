#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The recipe's steps in a clean Debian root, where no container engine is needed, and what the recipe must say.
#
#   container_test.sh [--build] SOURCE PACKAGES FOLDER
#
# PACKAGES: Debian packages to install; FOLDER: for clean roots. --build: they come from the recipe's own build stages, in a
# root of their own, which compile everything (a quarter of an hour on two cores).
set -euo pipefail
build=false
if [[ "$1" == --build ]]; then build=true; shift; fi
source=$1 packages=$2 folder=$3
recipe=$source/deploy/container/Containerfile
. "$source/tests/deploy/package/clean_root.sh"
fail() { echo "$*" >&2; exit 1; }

# From the last FROM on: what runs.
image=$(tac "$recipe" | sed '/^FROM/q' | tac)
grep -qE '^USER [1-9][0-9]*:[1-9][0-9]*$' <<<"$image" || fail "the image does not run as a user by number other than root"
! grep -q '^HEALTHCHECK' "$recipe" || fail "a HEALTHCHECK beside Kubernetes's probes"
! grep -E '^FROM' "$recipe" | grep -vE '^FROM (\$\{BASE\}|pinned|plugin) AS ' || fail "a stage from another base than BASE"
# The check of the digest, as the recipe has it.
pinned() { BASE=$1 sh -c "$(sed -n 's/^RUN \(case "\$BASE".*\)$/\1/p' "$recipe")" 2>/dev/null; }
pinned debian:bookworm-slim@sha256:0 || fail "a base with its digest is refused"
! pinned debian:bookworm-slim || fail "a base without its digest is taken"
uid=$(sed -n 's/^USER \([0-9]*\):.*/\1/p' <<<"$image")
[[ "$(sed -n 's/^uid=//p' "$source/deploy/container/steps.sh")" == "$uid" ]] || fail "recipe and steps disagree about the user"

clean_root_begin "$folder"
if $build; then
  root=$(clean_root build)
  mkdir "$root/source"
  git -C "$source" ls-files -z --cached --others --exclude-standard | tar -C "$source" --null -T - -cf - | tar -C "$root/source" -xf -
  in_root "$root" /source/deploy/container/steps.sh plugin /source /build
  in_root "$root" /source/deploy/container/steps.sh build /build /packages
  packages=$root/packages
fi
root=$(clean_root runtime)
mkdir "$root/packages" "$root/steps"
cp "$packages"/stretto_*.deb "$root/packages/"
cp "$source/deploy/container/steps.sh" "$source/tests/deploy/package/train_a_job.sh" "$root/steps/"
in_root "$root" /steps/steps.sh install /packages >"$root/steps/log" 2>&1 || fail "$(tail -30 "$root/steps/log")"
[[ "$(in_root "$root" stat -c %u:%g /var/lib/stretto)" == "$uid:$uid" ]] || fail "/var/lib/stretto does not belong to user $uid"
[[ -z "$(ls "$root/var/lib/apt/lists")" ]] || fail "apt's lists are left in the image"
# As the engine runs it: the number, no login, the folder of WORKDIR.
in_root "$root" setpriv --reuid "$uid" --regid "$uid" --clear-groups --no-new-privs sh -c \
  'cd /var/lib/stretto && touch writable && exec bash /steps/train_a_job.sh /usr/share/stretto/examples'
