# SPDX-License-Identifier: Apache-2.0
# To be sourced by bash with `keep` set: a home with nothing of this user's own, which is no cluster, no context and no state.
# $work is its folder, which stays where keep is true. A script sets `cluster` to the process of the cluster that it started.
work=$(mktemp -d)
unset "${!STRETTO_@}" XDG_STATE_HOME XDG_CONFIG_HOME NO_COLOR
export HOME=$work/home LANG=C.UTF-8
mkdir "$HOME"
cluster=""
finish() {
  [[ -z "$cluster" ]] || { kill -INT "$cluster" 2>/dev/null && wait "$cluster"; }
  if $keep; then echo "kept: $work"; else rm -rf "$work"; fi
}
trap finish EXIT
trap 'exit 130' INT TERM

fail() { echo "$*" >&2; return 1; }
