# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Clean Debian roots for tests, sourced. Root, debootstrap and a mirror are needed; what is missing skips the test.
# The mirror is the one that apt is configured with here, and the release is this machine's: packages are for that one.
#
#   clean_root_begin FOLDER  what roots are made from stays in FOLDER between runs; roots go when the script ends
#   root=$(clean_root NAME)  a fresh root
#   in_root ROOT COMMAND...  in namespaces of its own: mounts and processes end with it

clean_root_skip() { echo "skipped: $*"; exit 77; }

# The Debian lines of apt's own configuration: "deb URI SUITE COMPONENT".
clean_root_sources() {
  apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian'
}

clean_root_begin() {
  local proxy mirror
  clean_root_folder=$1
  clean_root_release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  [[ $EUID -eq 0 ]] || clean_root_skip "a clean root needs the rights of root"
  for tool in debootstrap apt-get zstd curl; do
    command -v "$tool" >/dev/null || clean_root_skip "no $tool here; deploy/install_packages.sh --with-tests installs it"
  done
  unshare --mount --pid --fork true 2>/dev/null || clean_root_skip "no namespaces of mounts and processes here"
  mirror=$(clean_root_sources | awk -v release="$clean_root_release" '$3 == release && $4 == "main" {print $2; exit}')
  [[ -n "$mirror" ]] || clean_root_skip "apt knows no Debian mirror of '$clean_root_release' here; apt-get update fetches its lists"
  proxy=$(apt-config dump --format '%v' Acquire::http::Proxy)
  [[ -z "$proxy" ]] || export http_proxy=$proxy
  curl -fsS --max-time 20 -o /dev/null "${mirror%/}/dists/$clean_root_release/Release" || clean_root_skip "the mirror $mirror does not answer"

  mkdir -p "$clean_root_folder/archives"
  rm -rf --one-file-system "$clean_root_folder"/root.*  # of a run that was killed
  clean_root_base=$clean_root_folder/$clean_root_release.tar.zst
  trap 'rm -rf --one-file-system "$clean_root_folder"/root.*' EXIT
  trap 'exit 130' INT TERM
  [[ -f "$clean_root_base" ]] && return
  echo "making a base of $clean_root_release from $mirror"
  debootstrap --variant=minbase "$clean_root_release" "$clean_root_folder/root.base" "$mirror" >"$clean_root_folder/debootstrap.log" ||
    { tail -5 "$clean_root_folder/debootstrap.log"; return 1; }
  rm -f "$clean_root_folder"/root.base/var/cache/apt/archives/*.deb
  tar -C "$clean_root_folder/root.base" -cf - . | zstd -q -1 -T0 -f -o "$clean_root_base.part"
  mv "$clean_root_base.part" "$clean_root_base"
  rm -rf --one-file-system "$clean_root_folder/root.base"
}

# What was fetched once is not fetched again.
clean_root_copy() { find "$1" -maxdepth 1 -name '*.deb' -exec cp -l --no-clobber -t "$2" {} +; }

clean_root() {
  local root=$clean_root_folder/root.$1
  mkdir "$root"
  zstd -dc "$clean_root_base" | tar -C "$root" -xf -
  clean_root_sources >"$root/etc/apt/sources.list"
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"  # it is thrown away anyway
  clean_root_copy "$clean_root_folder/archives" "$root/var/cache/apt/archives"
  echo "$root"
}

in_root() {
  local status=0
  unshare --mount --pid --fork --kill-child bash -c '
    root=$1
    shift
    mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" &&
      exec chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        ${http_proxy:+http_proxy="$http_proxy"} "$@"' in_root "$@" || status=$?
  clean_root_copy "$1/var/cache/apt/archives" "$clean_root_folder/archives"
  return "$status"
}
