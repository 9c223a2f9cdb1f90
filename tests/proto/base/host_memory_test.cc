// SPDX-License-Identifier: Apache-2.0
#include "proto/base/host_memory.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/units.h"

namespace stretto {
namespace {

using testing::HasSubstr;

class HostMemoryTest : public testing::Test {
 protected:
  HostMemoryTest() {
    Write(
        "proc/meminfo",
        "MemTotal:       16777216 kB\nMemFree:          1036000 kB\nMemAvailable:    8388608 kB\n");
  }
  ~HostMemoryTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = std::filesystem::path(root_) / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  HostMemory Read() {
    const absl::StatusOr<HostMemory> memory = ReadHostMemory(root_);
    EXPECT_TRUE(memory.ok()) << memory.status();
    return memory.value_or(HostMemory{});
  }

  const std::string root_ = testing::TempDir() +
                            testing::UnitTest::GetInstance()->current_test_info()->name() +
                            std::to_string(getpid());
};

TEST_F(HostMemoryTest, WithoutAGroupItIsTheMachines) {
  EXPECT_EQ(Read().total, 16 * kGiB);
  EXPECT_EQ(Read().available, 8 * kGiB);
}

TEST_F(HostMemoryTest, ALimitOfVersionTwoBounds) {
  Write("proc/self/cgroup", "0::/pod/container\n");
  Write("sys/fs/cgroup/pod/container/memory.max", std::to_string(4 * kGiB) + "\n");
  Write("sys/fs/cgroup/pod/container/memory.current", std::to_string(3 * kGiB) + "\n");
  Write("sys/fs/cgroup/pod/container/memory.stat",
        "anon 5\nfile 7\ninactive_file " + std::to_string(kGiB) + "\nactive_file 9\n");

  EXPECT_EQ(Read().total, 4 * kGiB);
  EXPECT_EQ(Read().available, 2 * kGiB);
}

// A group that may use more than the machine has, or "max", bounds nothing; the one above it may.
TEST_F(HostMemoryTest, GroupsAboveBoundToo) {
  Write("proc/self/cgroup", "0::/pod/container\n");
  Write("sys/fs/cgroup/pod/container/memory.max", "max\n");
  Write("sys/fs/cgroup/pod/memory.max", std::to_string(6 * kGiB) + "\n");
  Write("sys/fs/cgroup/memory.max", std::to_string(64 * kGiB) + "\n");

  EXPECT_EQ(Read().total, 6 * kGiB);
  EXPECT_EQ(Read().available, 6 * kGiB);
}

// In a container of version 1, /proc has the path outside, and the root is the container's folder.
TEST_F(HostMemoryTest, AContainerOfVersionOneSeesItsGroupAsTheRoot) {
  Write("proc/self/cgroup", "7:cpu,cpuacct:/machine/c1\n3:hugetlb,memory:/machine/c1\n0::/\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(kGiB) + "\n");
  Write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(2 * kGiB) + "\n");
  Write("sys/fs/cgroup/memory/memory.stat",
        "inactive_file 1\ntotal_inactive_file " + std::to_string(kGiB / 2) + "\n");

  EXPECT_EQ(Read().total, kGiB);
  EXPECT_EQ(Read().available, 0);
}

TEST_F(HostMemoryTest, WithoutALimitVersionOneSaysAHugeNumber) {
  Write("proc/self/cgroup", "3:memory:/\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");

  EXPECT_EQ(Read().total, 16 * kGiB);
}

TEST_F(HostMemoryTest, DamagedGroupsBoundNothing) {
  for (const char* text : {"", "x", "0:", "::", "3:memory:", "0::/../..", "3:memory:a\n\n:::\n"}) {
    Write("proc/self/cgroup", text);
    EXPECT_EQ(Read().total, 16 * kGiB) << text;
  }
}

TEST_F(HostMemoryTest, AnotherTableIsAnError) {
  for (const char* text :
       {"", "MemTotal: 1 kB\n", "MemAvailable: 1 kB\n", "MemTotal: 1 MB\nMemAvailable: 1 kB\n",
        "MemTotal: x kB\nMemAvailable: 1 kB\n", "MemTotal: -1 kB\nMemAvailable: 1 kB\n",
        "MemTotal: 9223372036854775807 kB\nMemAvailable: 1 kB\n"}) {
    Write("proc/meminfo", text);
    const absl::Status status = ReadHostMemory(root_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("/proc/meminfo: found no line 'Mem"));
  }
}

TEST(ReadHostMemoryTest, ThisMachineHasSome) {
  const absl::StatusOr<HostMemory> memory = ReadHostMemory();
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_GT(memory->available, 0);
  EXPECT_GE(memory->total, memory->available);
}

}  // namespace
}  // namespace stretto
