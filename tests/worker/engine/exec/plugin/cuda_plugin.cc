// SPDX-License-Identifier: Apache-2.0

// The plug-in as it is built, on whatever machine this is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/comm/device_communicator.h"
#include "worker/comm/emulated_link/emulated_link.h"
#include "worker/engine/exec/backend.h"
#include "worker/engine/exec/backend_cuda/plugin/devices.h"
#include "worker/engine/exec/plugin/loader.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(CudaPluginTest, LoadsAndListsDevicesOrSaysWhyNot) {
  PluginOptions options = CudaPluginOptions();
  options.driver = "";  // to come past the loader's own check on machines without
  const auto plugin = LoadPlugin(options);
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  EXPECT_STREQ((*plugin)->identity, BuildIdentity());
  const auto devices = (*plugin)->devices();
  if (devices.ok()) {
    EXPECT_GT(devices->size(), 0u);
    EXPECT_GT(devices->at(0).memory_bytes, 0);
    EXPECT_EQ((*plugin)->make_backend({.device = 99}).status().code(), absl::StatusCode::kNotFound);
  } else {
    EXPECT_THAT(devices.status().ToString(),
                testing::AnyOf(HasSubstr("NVIDIA driver"), HasSubstr("no GPU")));
    EXPECT_EQ((*plugin)->make_backend({}).status(), devices.status());
    EXPECT_THAT((*plugin)->connect({.rank = 1, .size = 2}).status().ToString(),
                HasSubstr("GPU 0: "));
    EXPECT_THAT((*plugin)->emulate_link(0, {.size = 2, .latency = {}}).status().ToString(),
                HasSubstr("GPU 0: "));
  }
}

// Numbers of cudaError_t: 35 the driver is too old, 100 no device, 802 the system is not ready.
TEST(CudaPluginTest, EveryReasonForNoDeviceHasItsSentence) {
  EXPECT_TRUE(StatusOfDevices(0, 1, 13000, 13000).ok());
  const absl::Status missing = StatusOfDevices(35, 0, 0, 13000);
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(missing.ToString(), HasSubstr("no NVIDIA driver"));
  const absl::Status old = StatusOfDevices(35, 0, 12040, 13000);
  EXPECT_EQ(old.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(old.ToString(), AllOf(HasSubstr("found one for CUDA 12.4"),
                                    HasSubstr("expected one for at least CUDA 13.0")));
  EXPECT_EQ(StatusOfDevices(100, 0, 13000, 13000).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(StatusOfDevices(0, 0, 13000, 13000).code(), absl::StatusCode::kNotFound);
  const absl::Status other = StatusOfDevices(802, 0, 13000, 13000);
  EXPECT_EQ(other.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(other.ToString(), HasSubstr("cudaErrorSystemNotReady"));
}

TEST(CudaPluginTest, HiddenDevicesAreNamed) {
  setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
  EXPECT_THAT(StatusOfDevices(100, 0, 13000, 13000).ToString(),
              HasSubstr("CUDA_VISIBLE_DEVICES is '-1'"));
}

}  // namespace
}  // namespace stretto
