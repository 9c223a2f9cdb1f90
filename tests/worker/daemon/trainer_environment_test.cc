// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/trainer_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace stretto::daemon {
namespace {

TEST(InterfaceTest, IsFoundByItsAddress) {
  EXPECT_EQ(InterfaceWith("127.0.0.1"), "lo");
  EXPECT_EQ(InterfaceWith("192.0.2.1"), "");
}

TEST(TrainerEnvironmentTest, ATrainerOnAGpuSeesThatGpuAndWhatItsLibrariesAreTold) {
  ::setenv("STRETTO_CUPTI", "1", 1);
  ::setenv("NCCL_RUNTIME_CONNECT", "1", 1);
  const std::vector<std::string> env = TrainerEnvironment("GPU-7", "127.0.0.1");
  ::unsetenv("STRETTO_CUPTI");
  ::unsetenv("NCCL_RUNTIME_CONNECT");
  EXPECT_THAT(env, testing::Not(testing::Contains("NCCL_RUNTIME_CONNECT=1")));
  EXPECT_THAT(env, testing::IsSupersetOf({"CUDA_VISIBLE_DEVICES=GPU-7", "CUDA_MODULE_LOADING=EAGER",
                                          "NCCL_LAUNCH_ORDER_IMPLICIT=1", "NCCL_GRAPH_REGISTER=0",
                                          "NCCL_RUNTIME_CONNECT=0", "STRETTO_CUPTI=1"}));
}

TEST(TrainerEnvironmentTest, ATrainerOnTheCpuSeesNone) {
  for (const std::string& variable : TrainerEnvironment("", "127.0.0.1"))
    EXPECT_THAT(variable, testing::Not(testing::StartsWith("CUDA_")));
}

}  // namespace
}  // namespace stretto::daemon
