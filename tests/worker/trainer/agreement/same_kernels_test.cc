// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/agreement/same_kernels.h"

#include <gmock/gmock.h>

#include <string>
#include <thread>
#include <vector>

#include "worker/comm/local/local.h"

namespace stretto::trainer {
namespace {

using testing::StartsWith;

// By rank.
std::vector<absl::Status> Check(const std::vector<std::string>& kernels) {
  const auto group = LocalGroup::Create(static_cast<int>(kernels.size()));
  std::vector<absl::Status> found(kernels.size());
  std::vector<std::jthread> ranks;
  for (size_t rank = 0; rank < kernels.size(); ++rank) {
    ranks.emplace_back([&, rank] { found[rank] = CheckSameKernels(kernels[rank], *group[rank]); });
  }
  ranks.clear();
  return found;
}

TEST(SameKernelsTest, EqualRanksPass) {
  for (const absl::Status& status : Check({"avx512", "avx512", "avx512"})) {
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_TRUE(Check({"avx2"})[0].ok());
}

TEST(SameKernelsTest, EveryRankNamesRanksAndKernels) {
  for (const absl::Status& status : Check({"avx512", "avx2", "avx512", "avx512"})) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(
        std::string(status.message()),
        StartsWith("kernels: found avx2 on rank 1 and avx512 on ranks 0, 2, 3, expected the "
                   "same on every rank"));
  }
}

}  // namespace
}  // namespace stretto::trainer
