// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/agreement/snapshots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/worker/trainer/agreement/ranks.h"

namespace stretto::trainer {
namespace {

constexpr int64_t kMoreThanThereIs = int64_t{1} << 60;

// By rank: the bytes of its snapshot, 0 for none, or the error.
std::vector<absl::StatusOr<int64_t>> Made(const std::vector<bool>& wanted, bool required,
                                          const std::vector<int64_t>& bytes) {
  std::vector<absl::StatusOr<int64_t>> sizes(wanted.size());
  OnRanks(wanted.size(), [&](size_t rank, Communicator& control) {
    const auto made = MakeSnapshot(wanted[rank], required, bytes[rank], control);
    if (made.ok()) {
      sizes[rank] = made->has_value() ? (*made)->bytes() : 0;
    } else {
      sizes[rank] = made.status();
    }
    return absl::OkStatus();
  });
  return sizes;
}

TEST(MakeSnapshotTest, EveryRankHasRoomForItsOwn) {
  const auto made = Made({true, true}, false, {100, 200});
  EXPECT_EQ(made[0].value(), 100);
  EXPECT_EQ(made[1].value(), 200);
}

TEST(MakeSnapshotTest, WhereOneRankHasNoneNoRankHas) {
  for (const auto& made :
       {Made({true, false}, false, {100, 200}), Made({true, true}, false, {100, kMoreThanThereIs}),
        Made({false, false}, false, {100, 200})}) {
    EXPECT_EQ(made[0].value(), 0);
    EXPECT_EQ(made[1].value(), 0);
  }
}

TEST(MakeSnapshotTest, OneThatIsRequiredMustBe) {
  const auto made = Made({true, true}, true, {100, kMoreThanThereIs});
  EXPECT_EQ(made[1].status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(made[0].status(), absl::UnavailableError("another rank has no room for its copy"));
}

}  // namespace
}  // namespace stretto::trainer
