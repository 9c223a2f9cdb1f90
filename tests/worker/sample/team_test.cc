// SPDX-License-Identifier: Apache-2.0
#include "worker/sample/team.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <vector>

namespace stretto {
namespace {

TEST(TeamTest, EveryElementIsDoneOnceWhateverTheSizes) {
  for (const int threads : {1, 2, 5}) {
    Team team(threads);
    EXPECT_EQ(team.size(), threads);
    for (const int64_t count : {0, 1, 7, 8, 64, 1001}) {
      for (const int64_t grain : {1, 8}) {
        std::vector<std::atomic<int>> done(static_cast<size_t>(count));
        std::atomic<int> calls = 0;
        team.Run(count, grain, [&](int64_t begin, int64_t end) {
          ++calls;
          EXPECT_TRUE(end - begin >= grain || end - begin == count);
          for (int64_t i = begin; i < end; ++i) ++done[static_cast<size_t>(i)];
        });
        for (const auto& times : done) EXPECT_EQ(times, 1);
        EXPECT_EQ(calls, count == 0 ? 0 : std::clamp<int64_t>(count / grain, 1, threads));
      }
    }
  }
}

// Room for the stacks of two threads more.
TEST(TeamTest, ThreadsThatTheSystemDoesNotGiveAreDoneWithout) {
  constexpr size_t kStack = size_t{1} << 30;
  rlimit before{};
  pthread_attr_t attributes;
  size_t stack = 0;
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  ASSERT_EQ(::pthread_getattr_default_np(&attributes), 0);
  ASSERT_EQ(::pthread_attr_getstacksize(&attributes, &stack), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&attributes, kStack), 0);
  ASSERT_EQ(::pthread_setattr_default_np(&attributes), 0);
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t used = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
  const rlimit limit = {used + kStack * 5 / 2, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
  {
    Team team(5);
    EXPECT_LE(team.size(), 3);
    EXPECT_GE(team.size(), 2);  // a sanitizer takes memory for each thread too
    std::atomic<int64_t> done = 0;
    for (int i = 0; i < 10; ++i) {
      team.Run(100, 1, [&](int64_t begin, int64_t end) { done += end - begin; });
    }
    EXPECT_EQ(done, 1000);
  }
  EXPECT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(::pthread_attr_setstacksize(&attributes, stack), 0);
  EXPECT_EQ(::pthread_setattr_default_np(&attributes), 0);
  ::pthread_attr_destroy(&attributes);
}

}  // namespace
}  // namespace stretto
