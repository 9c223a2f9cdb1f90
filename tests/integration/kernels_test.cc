// SPDX-License-Identifier: Apache-2.0

// Ranks whose CPUs round otherwise.

#include <cstdlib>

#include "tests/integration/cluster.h"

namespace stretto::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class KernelsTest : public ClusterTest {
 protected:
  // A worker whose CPU is an older one, as oneDNN names it.
  void StartWorkerOn(const std::string& isa, const std::string& name, int slots) {
    setenv("DNNL_MAX_CPU_ISA", isa.c_str(), 1);
    StartWorker(name, slots);
    unsetenv("DNNL_MAX_CPU_ISA");
  }
};

TEST_F(KernelsTest, UnlikeCpusAreRefusedBeforeARankTrains) {
  StartCoordinator();
  StartWorkerOn("AVX2", "node-a", 1);
  StartWorkerOn("SSE41", "node-b", 1);
  const Json job = RunJob({.name = "mixed", .more = kSplit}, "failed");
  const Json condition = ConditionOf(job, "Prepared");
  EXPECT_EQ(condition["status"], "false");
  EXPECT_EQ(condition["reason"], "PrepareFailed");
  EXPECT_THAT(condition["message"].get<std::string>(),
              AllOf(HasSubstr("kernels: found oneDNN "), HasSubstr(" avx2, bf16 in f32 on rank "),
                    HasSubstr(" sse41, bf16 in f32 on rank "),
                    HasSubstr(", expected the same on every rank")));
  EXPECT_TRUE(Steps("mixed").empty());
}

TEST_F(KernelsTest, CpusThatAreToldToBeAlikeTrain) {
  StartCoordinator();
  StartWorkerOn("AVX2", "node-a", 2);
  RunJob({.name = "alike", .steps = 2});
  EXPECT_THAT(ReadRun("alike", 0, "trainer.log"), HasSubstr(" avx2, bf16 in f32"));
}

}  // namespace
}  // namespace stretto::integration
