// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/machine_faults.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
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

// The exit code of a command whose output nobody needs.
int Run(const std::string& command) {
  const int status = std::system((command + " >/dev/null 2>&1").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// What this process mounts from now on is seen by nobody but its children. Returns why that cannot
// be; empty on success.
std::string EnterMountNamespace() {
  const uid_t uid = getuid();
  if (unshare(uid == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    return absl::StrCat("no disk of our own: unshare: ", std::strerror(errno));
  }
  if (uid != 0) {
    const FileDescriptor map(open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC));
    if (!WriteAll(map.get(), absl::StrCat("0 ", uid, " 1"), "uid_map").ok()) {
      return "no disk of our own: uid_map";
    }
  }
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return absl::StrCat("no disk of our own: mount: ", std::strerror(errno));
  }
  return "";
}

}  // namespace

SmallDisk::SmallDisk(const std::string& path, int kib) {
  fs::create_directories(path);
  why_not_ = EnterMountNamespace();
  if (!why_not_.empty()) return;
  if (mount("tmpfs", path.c_str(), "tmpfs", 0, absl::StrCat("size=", kib, "k").c_str()) != 0) {
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

FailingDisk::FailingDisk(const std::string& path, const std::string& image)
    : path_(path), image_(image) {
  fs::create_directories(path);
  if (getuid() != 0) {
    why_not_ = "no disk that fails: only root may mount a file";
    return;
  }
  why_not_ = EnterMountNamespace();
  if (!why_not_.empty()) return;
  const bool made = Run(absl::StrCat("truncate -s 16M ", image)) == 0 &&
                    Run(absl::StrCat("mkfs.ext4 -q -F ", image)) == 0;
  if (!made || !Mount()) why_not_ = "no disk that fails: mkfs.ext4 and a loop device do not work";
}

FailingDisk::~FailingDisk() {
  if (why_not_.empty()) umount2(path_.c_str(), MNT_DETACH);
}

bool FailingDisk::Mount() const {
  return Run(absl::StrCat("mount -o loop,errors=remount-ro ", image_, " ", path_)) == 0;
}

void FailingDisk::Fail() {
  EXPECT_EQ(mount(nullptr, path_.c_str(), nullptr, MS_REMOUNT, "abort"), 0) << std::strerror(errno);
}

void FailingDisk::Repair() {
  EXPECT_EQ(umount(path_.c_str()), 0) << std::strerror(errno);
  EXPECT_LE(Run(absl::StrCat("e2fsck -fy ", image_)), 1);  // 1: something was corrected
  EXPECT_TRUE(Mount());
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
  while (!dropped_.empty()) Restore(std::string(*dropped_.begin()));
}

void Network::Cut(const std::string& addresses) {
  for (const char* direction : {"to ", "from "}) Drop(direction + addresses);
}

void Network::Heal(const std::string& addresses) {
  for (const char* direction : {"to ", "from "}) Restore(direction + addresses);
}

void Network::CutOneWay(const std::string& from, const std::string& to) {
  Drop("from " + from);
  Drop("to " + to);
}

void Network::Drop(const std::string& what) {
  dropped_.insert(what);
  Ip(absl::StrCat("rule add pref 50 ", what, " blackhole"));
}

void Network::Restore(const std::string& what) {
  Ip(absl::StrCat("rule del pref 50 ", what, " blackhole"));
  dropped_.erase(what);
}

}  // namespace stretto::integration
