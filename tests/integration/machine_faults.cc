// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/machine_faults.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"

namespace stretto::integration {
namespace {

namespace fs = std::filesystem;

void Ip(const std::string& arguments) {
  EXPECT_EQ(std::system(("ip " + arguments).c_str()), 0) << arguments;
}

}  // namespace

SmallDisk::SmallDisk(const std::string& path, int kib) {
  fs::create_directories(path);
  const uid_t uid = getuid();
  if (unshare(uid == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    why_not_ = absl::StrCat("no small disk: unshare: ", std::strerror(errno));
    return;
  }
  if (uid != 0) {
    const FileDescriptor map(open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC));
    if (!WriteAll(map.get(), absl::StrCat("0 ", uid, " 1"), "uid_map").ok()) {
      why_not_ = "no small disk: uid_map";
      return;
    }
  }
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", path.c_str(), "tmpfs", 0, absl::StrCat("size=", kib, "k").c_str()) != 0) {
    why_not_ = absl::StrCat("no small disk: mount: ", std::strerror(errno));
    return;
  }
  path_ = path;
}

SmallDisk::~SmallDisk() {
  if (!path_.empty()) umount2(path_.c_str(), MNT_DETACH);
}

void SmallDisk::MakeReadOnly() {
  EXPECT_EQ(mount(nullptr, path_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0)
      << std::strerror(errno);
}

void FillDisk(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const std::string block(4096, 'x');
  while (write(file.get(), block.data(), block.size()) > 0) {
  }
  EXPECT_EQ(errno, ENOSPC);
}

Network::Network() {
  if (unshare(CLONE_NEWNET) != 0) {
    why_not_ = absl::StrCat("may not make a network namespace: ", std::strerror(errno));
    return;
  }
  Ip("link set lo up");
  Ip("rule add pref 100 lookup local");  // behind the rules of a cut
  Ip("rule del pref 0");
}

Network::~Network() {
  while (!cuts_.empty()) Heal(*cuts_.begin());
}

void Network::Cut(const std::string& addresses) {
  cuts_.insert(addresses);
  for (const char* direction : {"to", "from"}) {
    Ip(absl::StrCat("rule add pref 50 ", direction, " ", addresses, " blackhole"));
  }
}

void Network::Heal(std::string addresses) {
  for (const char* direction : {"to", "from"}) {
    Ip(absl::StrCat("rule del pref 50 ", direction, " ", addresses, " blackhole"));
  }
  cuts_.erase(addresses);
}

}  // namespace stretto::integration
