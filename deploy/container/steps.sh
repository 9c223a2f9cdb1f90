#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The steps of the container images, apart from any container engine: Containerfile runs them, and so does a test in a chroot.
# On a Debian of the release that packages are for, as root.
#
#   steps.sh plugin SOURCE BUILD         installs what a build needs, configures BUILD and, with CUDA, links the plug-in there
#   steps.sh build BUILD PACKAGES        builds the rest and puts the Debian packages into PACKAGES
#   steps.sh install PACKAGES            installs stretto from there, for a user of fixed number
#
# With CUDA_KEYRING, the address of NVIDIA's package cuda-keyring for this Debian, `plugin` brings the compiler and cuDNN's headers
# (those of its frontend from PyPI), and `install` installs the plug-in too, with the libraries that it opens. Environment:
#   CUDA_VERSION        of the toolkit, as its packages write it (default: 13-0)
#   CUDA_ARCHITECTURES  (default: 80;90a;100)
#   SOURCE_DATE_EPOCH, STRETTO_COMMIT   date and commit that packages name (deploy/package/provenance.sh)
set -euo pipefail
usage() { sed -n '3,14s/^# \{0,1\}//p' "$0" >&2; exit 2; }

export DEBIAN_FRONTEND=noninteractive
cuda_version=${CUDA_VERSION:-13-0}
# The number that Kubernetes and volumes know the user by.
uid=10001

get() { apt-get install -y -qq --no-install-recommends "$@"; }
forget() { apt-get clean; rm -rf /var/lib/apt/lists/*; }

cuda_repository() {
  get ca-certificates curl
  curl -fsSL -o /tmp/cuda-keyring.deb "$CUDA_KEYRING"
  dpkg -i /tmp/cuda-keyring.deb
  rm /tmp/cuda-keyring.deb
  apt-get update -qq
}

plugin() {  # SOURCE BUILD
  local source=$1 build=$2
  local options=(-D STRETTO_CUDA=OFF)
  apt-get update -qq
  "$source/deploy/install_packages.sh"
  get dpkg-dev file
  if [[ -n "${CUDA_KEYRING:-}" ]]; then
    cuda_repository
    get "cuda-nvcc-$cuda_version" "cuda-cudart-dev-$cuda_version" "cuda-nvrtc-dev-$cuda_version" \
      "libcublas-dev-$cuda_version" libnccl-dev "libcudnn9-dev-cuda-${cuda_version%%-*}"
    "$source/deploy/install_packages.sh" --with-cuda
    options=(-D STRETTO_CUDA=ON "-DSTRETTO_CUDA_ARCHITECTURES=${CUDA_ARCHITECTURES:-80;90a;100}"
      -D "CUDAToolkit_ROOT=/usr/local/cuda-${cuda_version/-/.}")
  fi
  cmake -S "$source" -B "$build" -G Ninja -D CMAKE_BUILD_TYPE=Release -D STRETTO_TESTS=OFF -D STRETTO_REPRODUCIBLE=ON "${options[@]}"
  [[ -z "${CUDA_KEYRING:-}" ]] || cmake --build "$build" --target stretto_cuda
}

build() {  # BUILD PACKAGES
  local build=$1 packages=$2
  cmake --build "$build" --target packages
  mkdir -p "$packages"
  cp "$build"/packages/*.deb "$packages/"
}

install() {  # PACKAGES
  local packages=$1
  apt-get update -qq
  groupadd --system --gid "$uid" stretto
  useradd --system --uid "$uid" --gid "$uid" --home-dir /var/lib/stretto --no-create-home --shell /usr/sbin/nologin stretto
  get "$packages"/stretto_*.deb
  if [[ -n "${CUDA_KEYRING:-}" ]]; then
    cuda_repository
    get "$packages"/stretto-cuda_*.deb "libcublas-$cuda_version" libnccl2 \
      "libcudnn9-cuda-${cuda_version%%-*}" "cuda-nvrtc-$cuda_version"  # with which cuDNN compiles
  fi
  command install -d -o stretto -g stretto -m 0750 /var/lib/stretto
  forget
}

case "${1:-}:$#" in
  plugin:3 | build:3 | install:2) "$@" ;;
  *) usage ;;
esac
