#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Renders the chart: manifests for `kubectl apply`, as they are committed.
#
#   deploy/kubernetes/render.sh [--with helm|go] [FOLDER]         gpu.yaml of the defaults, NAME.yaml of values/NAME.yaml
#   deploy/kubernetes/render.sh [--with helm|go] --values FILE    to standard output
#
# FOLDER is manifests/ by default. helm is used where it is installed; else Go renders (tests/deploy/kubernetes/render.go) with
# the Debian packages golang-go, golang-github-masterminds-sprig-dev and golang-k8s-sigs-yaml-dev.
# Exit: 0; 1 it does not render; 2 arguments; 77 neither is here.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

with='' folder=$HERE/manifests values=''
while (($# > 0)); do
  case $1 in
    --with) with=${2:?} && shift 2 ;;
    --values) values=${2:?} && shift 2 ;;
    -*) sed -n '3,10s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
    *) folder=$1 && shift ;;
  esac
done
if [[ -z $with ]]; then
  if command -v helm >/dev/null; then with=helm; else with=go; fi
fi
command -v "$with" >/dev/null || { echo "render.sh: found no $with on PATH" >&2; exit 77; }

if [[ $with == go ]]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  export GO111MODULE=off GOPATH=/usr/share/gocode GOFLAGS='' GOCACHE=${GOCACHE:-$work/cache}
  for package in github.com/Masterminds/sprig sigs.k8s.io/yaml; do
    [[ -d $GOPATH/src/$package ]] || { echo "render.sh: found no Go package $package in $GOPATH" >&2; exit 77; }
  done
  go build -o "$work/render" "$HERE/../../tests/deploy/kubernetes/render.go"
fi

# VALUES...: the chart with them, on standard output.
render() {
  if [[ $with == go ]]; then
    "$work/render" "$HERE/chart" stretto stretto "$@"
  else
    helm template stretto "$HERE/chart" --namespace stretto --kube-version 1.28.0 "${@/#/--values=}"
  fi
}

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
