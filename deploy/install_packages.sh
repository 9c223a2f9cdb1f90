#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages Stretto is built and tested with. Needs root (or sudo) only when something is missing.
#
#   deploy/install_packages.sh [--with-tests] [--with-full-tests] [--with-lint] [--with-cuda]
#
# --with-full-tests is for tests that are skipped without it: the coordinator's page in a browser,
# container images, and manifests on an API server. 1 GB.
# --with-cuda also fetches the headers of cuDNN's frontend from PyPI (cudnn_frontend.txt) to /usr/local/share/cudnn-frontend,
# where the build looks for them. CUDA itself comes from NVIDIA.
#
# Every package has a line in docs/DEPENDENCIES.md that says why it is here.
set -euo pipefail

packages=(
  build-essential cmake ninja-build ccache pkg-config python3
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler libabsl-dev
  prometheus-cpp-dev libspdlog-dev libfmt-dev libsqlite3-dev libssl-dev
  libyaml-cpp-dev libcli11-dev nlohmann-json3-dev
  libdnnl-dev libgloo-dev libsentencepiece-dev libpcre2-dev libre2-dev libseccomp-dev
)
tests=(libgtest-dev libgmock-dev python3-grpcio grpc-proto protobuf-compiler-grpc curl zstd prometheus zsh fish groff-base
  python3-protobuf python3-setuptools python3-wheel python3-pandas
  python3-yaml python3-jsonschema python3-pip python3-venv iproute2 file debootstrap systemd sqlite3 etcd-server etcd-client e2fsprogs)

full_tests=(chromium libnss3-tools buildah podman runc netavark aardvark-dns iptables catatonit golang-go rsync)

cuda=(python3-pip)
headers=/usr/local/share/cudnn-frontend  # kernels/cuda/cudnn/CMakeLists.txt
frontend=false

lint=(clang clang-tidy clang-format libomp-dev libclang-rt-14-dev llvm)

for argument in "$@"; do
  case "$argument" in
    --with-tests) packages+=("${tests[@]}") ;;
    --with-full-tests) packages+=("${full_tests[@]}") ;;
    --with-lint) packages+=("${lint[@]}") ;;
    --with-cuda) packages+=("${cuda[@]}"); frontend=true ;;
    *) echo "usage: $0 [--with-tests] [--with-full-tests] [--with-lint] [--with-cuda]" >&2; exit 2 ;;
  esac
done

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[[ -e $headers/include/cudnn_frontend.h ]] && frontend=false
[[ ${#missing[@]} -eq 0 ]] && ! $frontend && exit 0

sudo=()
if [[ $EUID -ne 0 ]]; then
  command -v sudo >/dev/null || { echo "$0: missing ${missing[*]}; run as root, or install sudo" >&2; exit 1; }
  sudo=(sudo)
fi
if [[ ${#missing[@]} -gt 0 ]]; then
  echo "installing: ${missing[*]}" >&2
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi
if $frontend; then
  echo "installing: headers of cuDNN's frontend in $headers" >&2
  "${sudo[@]}" python3 -m pip install --quiet --retries 1 --timeout 30 --no-deps --only-binary=:all: --implementation cp --python-version 3.11 \
    --platform manylinux_2_28_x86_64 --require-hashes --target "$headers" \
    -r "$(dirname "${BASH_SOURCE[0]}")/cudnn_frontend.txt"
fi
