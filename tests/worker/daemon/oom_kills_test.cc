// SPDX-License-Identifier: Apache-2.0

// The kernel's count, with a process that it ends.

#include "worker/daemon/oom_kills.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace stretto::daemon {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLimit = size_t{16} << 20;

// A control group of version 1 or 2 with this limit, removed with this object; "" if this machine
// gives us none.
class SmallGroup {
 public:
  SmallGroup() {
    const bool first = fs::exists("/sys/fs/cgroup/memory");
    path_ = absl::StrCat("/sys/fs/cgroup/", first ? "memory/" : "", "stretto-test-", ::getpid());
    std::error_code error;
    if (!fs::create_directory(path_, error)) return;
    // Without a bound for both together, pages would go to swap.
    made_ = first ? Write("memory.limit_in_bytes", kLimit) : Write("memory.max", kLimit);
    if (made_) Write(first ? "memory.memsw.limit_in_bytes" : "memory.swap.max", first ? kLimit : 0);
  }
  ~SmallGroup() { ::rmdir(path_.c_str()); }

  bool made() const { return made_; }
  bool Enter() const { return Write("cgroup.procs", 0); }

 private:
  bool Write(const std::string& file, size_t value) const {
    std::ofstream out(path_ + "/" + file);
    out << value << std::flush;
    return out.good();
  }

  std::string path_;
  bool made_ = false;
};

TEST(OomKillsTest, AProcessThatTheKernelEndsCounts) {
  const SmallGroup group;
  if (!group.made()) GTEST_SKIP() << "no control group for memory can be made here";
  OomKills kills;
  EXPECT_FALSE(kills.Grew());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!group.Enter()) ::_exit(2);
    auto* bytes = static_cast<volatile char*>(
        ::mmap(nullptr, 4 * kLimit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (size_t at = 0; at < 4 * kLimit; at += 4096) bytes[at] = 1;
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "exit code " << WEXITSTATUS(status);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_TRUE(kills.Grew());
  kills.Note();
  EXPECT_FALSE(kills.Grew());
}

TEST(OomKillsTest, AKernelWithoutACountHasNone) {
  OomKills kills("/nowhere");
  EXPECT_FALSE(kills.Grew());
}

}  // namespace
}  // namespace stretto::daemon
