// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/node_probe.h"

#include <gtest/gtest.h>

#include "proto/base/ids.h"

namespace stretto::daemon {
namespace {

TEST(NodeProbeTest, SlotsShareCoresAndMemory) {
  const absl::StatusOr<Node> node = ProbeNode(5);
  ASSERT_TRUE(node.ok()) << node.status();
  ASSERT_EQ(node->slots.size(), 5u);
  EXPECT_FALSE(node->host.empty());
  EXPECT_EQ(node->slots[4].index, 4);
  EXPECT_GT(node->slots[0].memory_bytes, 0);
  EXPECT_EQ(node->slots[0].description, "cpu core " + std::to_string(node->slots[0].core));
}

TEST(NodeProbeTest, GpusAreSlotsAfterTheCores) {
  const std::vector<Gpu> gpus = {
      {.index = 0, .uuid = "GPU-a", .name = "NVIDIA H200", .memory_bytes = 1000, .fault = ""},
      {.index = 1, .uuid = "", .name = "", .fault = "NVML gives no handle for it"}};

  const absl::StatusOr<Node> node = ProbeNode(2, gpus);

  ASSERT_TRUE(node.ok()) << node.status();
  ASSERT_EQ(node->slots.size(), 4u);
  EXPECT_EQ(node->slots[1].kind, SlotKind::kCpu);
  const Slot& healthy = node->slots[2];
  EXPECT_EQ(healthy.index, 2);
  EXPECT_EQ(healthy.kind, SlotKind::kGpu);
  EXPECT_EQ(healthy.description, "NVIDIA H200 (GPU 0)");
  EXPECT_EQ(healthy.memory_bytes, 1000);
  EXPECT_EQ(healthy.gpu_uuid, "GPU-a");
  EXPECT_EQ(healthy.core, -1) << "a GPU's trainer needs more than one core";
  EXPECT_EQ(node->slots[3].fault, "NVML gives no handle for it");
  EXPECT_EQ(node->slots[3].description, "unknown (GPU 1)");
}

TEST(NodeProbeTest, DefaultIsEveryCore) { EXPECT_GE(ProbeNode(0)->slots.size(), 1u); }

TEST(NodeProbeTest, NegativeAndHugeSlotCountsAreRefused) {
  EXPECT_EQ(std::string(ProbeNode(-1).status().message()),
            "--slots is -1, expected 0 (all cores) to 1024");
  EXPECT_EQ(ProbeNode(1025).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(NodeProbeTest, HostNamesBecomeWorkerNames) {
  EXPECT_EQ(NameFromHost("Gpu-01.example.org"), "gpu-01-example-org");
  EXPECT_EQ(NameFromHost("10.0.0.1"), "w-10-0-0-1");
  EXPECT_EQ(NameFromHost("--.."), "worker");
  EXPECT_TRUE(IsValidName(NameFromHost(std::string(80, 'a'))));
}

}  // namespace
}  // namespace stretto::daemon
