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
