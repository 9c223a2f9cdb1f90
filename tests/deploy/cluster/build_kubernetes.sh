#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds kube-apiserver, kube-controller-manager, kube-scheduler and kubectl from Debian's source
# package kubernetes, which contains their Go modules. apt checks its signature.
#
#   build_kubernetes.sh FOLDER
#
# Afterwards FOLDER/VERSION has the programs, and the last line that is printed is its path. What is
# there is not built again. Nothing is installed, and apt's configuration and lists stay as they
# are. A build takes ten minutes of CPU and 2 GB of disk meanwhile.
# Exit: 0; 1 it does not build; 77 something that it needs is missing (the reason is printed).
set -euo pipefail
[[ $# -eq 1 ]] || { sed -n '3,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
version=1.20.5+really1.20.2-1.1+deb12u1  # of Debian 12
folder=$1
programs=(kube-apiserver kube-controller-manager kube-scheduler kubectl)
. "$(dirname "${BASH_SOURCE[0]}")/../package/clean_root.sh"  # for clean_root_sources
skip() { echo "skipped: $*"; exit 77; }

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
result=$folder/$version
exec 9>"$folder/lock"
flock 9
if [[ -d $result ]]; then
  echo "$result"
  exit
fi
for tool in go make rsync apt-get dpkg-source; do
  command -v "$tool" >/dev/null ||
    skip "found no $tool on PATH; deploy/install_packages.sh --with-full-tests installs it"
done
work=$folder/work
remove_work() { rm -rf "$work"; }
remove_work  # of a run that was killed
trap remove_work EXIT
trap 'exit 130' INT TERM
mkdir -p "$work"/{lists/partial,cache/archives/partial,go/src/k8s.io,home}
cd "$work"

keys=/usr/share/keyrings/debian-archive-keyring.gpg
# Other suites list sources of which they do not have the files.
clean_root_sources | awk -v keys="$keys" '$3 == "bookworm" && $4 == "main" {
  print "deb-src [signed-by=" keys "]", $2, $3, $4; exit}' >sources.list
[[ -s sources.list ]] || skip "apt knows no mirror of Debian 12 here; apt-get update fetches its lists"
own=(-o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
  -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=)
apt-get "${own[@]}" -qq update >&2 || skip "Debian's mirror does not give its lists of sources"
offered=$(apt-cache "${own[@]}" showsrc --only-source kubernetes | sed -n 's/^Version: //p')
if ! grep -qxF "$version" <<<"$offered"; then
  echo "found kubernetes ${offered:-in no version} in Debian's archive, expected $version" >&2
  exit 1
fi
apt-get "${own[@]}" -qq source --download-only "kubernetes=$version" >&2
dpkg-source --no-check -x kubernetes_*.dsc source >/dev/null
# The reflect2 in vendor/ calls reflect.mapiterinit as it was before Go 1.18, which overwrites memory
# with the Go of Debian 12. Debian has the version that knows both.
apt-get "${own[@]}" -qq source --download-only golang-github-modern-go-reflect2 >&2
dpkg-source --no-check -x golang-github-modern-go-reflect2_*.dsc reflect2 >/dev/null
rm -r source/vendor/github.com/modern-go/reflect2
cp -r reflect2 source/vendor/github.com/modern-go/reflect2

# As Debian builds it: in a GOPATH, with the modules of vendor/ alone.
ln -s "$work/source" go/src/k8s.io/kubernetes
cd go/src/k8s.io/kubernetes
GOPATH=$work/go GOPROXY=off GOCACHE=$work/go-cache HOME=$work/home CGO_ENABLED=0 \
  make WHAT="${programs[*]/#/cmd/}" GOLDFLAGS="-s -w" >&2
mkdir "$work/out"
cp "${programs[@]/#/_output/bin/}" "$work/out/"
mv "$work/out" "$result"
echo "$result"
