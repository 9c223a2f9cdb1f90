#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Renders the chart: manifests for `kubectl apply`, as they are committed.
#
#   deploy/kubernetes/render.sh [FOLDER]         gpu.yaml of the defaults, NAME.yaml of values/NAME.yaml
#   deploy/kubernetes/render.sh --values FILE    to standard output
#
# FOLDER is manifests/ by default. render.go renders, and needs the Debian packages golang-go,
# golang-github-masterminds-sprig-dev and golang-k8s-sigs-yaml-dev.
# Exit: 0; 1 it does not render; 2 arguments; 77 a package is missing.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

folder=$HERE/manifests values=''
while (($# > 0)); do
  case $1 in
    --values) values=${2:?} && shift 2 ;;
    -*) sed -n '3,10s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
    *) folder=$1 && shift ;;
  esac
done
command -v go >/dev/null || { echo "render.sh: found no go on PATH" >&2; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GO111MODULE=off GOPATH=/usr/share/gocode GOFLAGS='' GOCACHE=${GOCACHE:-$work/cache}
for package in github.com/Masterminds/sprig sigs.k8s.io/yaml; do
  [[ -d $GOPATH/src/$package ]] || { echo "render.sh: found no Go package $package in $GOPATH" >&2; exit 77; }
done
go build -o "$work/render" "$HERE/render.go"

# VALUES...: the chart with them, on standard output.
render() { "$work/render" "$HERE/chart" stretto stretto "$@"; }

if [[ -n $values ]]; then
  render "$values"
  exit
fi
for variant in gpu "$HERE"/values/*.yaml; do
  name=$(basename "$variant" .yaml) files=()
  if [[ -f $variant ]]; then files=("$variant"); fi
  {
    echo "# Rendered by deploy/kubernetes/render.sh from the chart${files:+ and values/$name.yaml}; do not edit."
    render "${files[@]}"
  } >"$folder/$name.yaml.new"
  mv "$folder/$name.yaml.new" "$folder/$name.yaml"
done
