// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/agreement/same_kernels.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/worker/trainer/agreement/ranks.h"

namespace stretto::trainer {
namespace {

using testing::StartsWith;

// By rank.
std::vector<absl::Status> Check(const std::vector<std::string>& kernels) {
  return OnRanks(kernels.size(), [&](size_t rank, Communicator& control) {
    return CheckSameKernels(kernels[rank], control);
  });
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
