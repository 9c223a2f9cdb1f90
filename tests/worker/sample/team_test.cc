#include "worker/sample/team.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
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

}  // namespace
}  // namespace stretto
