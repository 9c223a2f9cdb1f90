// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/daemon/fake_nvml/fake_nvml.h"

namespace stretto::daemon {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class NvmlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_nvml::state() = {};
    fake_nvml::state().gpus = {{.uuid = "GPU-a", .name = "H200", .total = 1000, .free = 900},
                               {.uuid = "GPU-b", .name = "H200", .total = 2000, .free = 2000}};
  }
  void TearDown() override { EXPECT_EQ(fake_nvml::state().started, 0) << "was not shut down"; }

  static std::unique_ptr<Nvml> Open() {
    auto nvml = Nvml::Open(FAKE_NVML);
    EXPECT_TRUE(nvml.ok()) << nvml.status();
    return nvml.ok() ? *std::move(nvml) : nullptr;
  }
  static fake_nvml::Gpu& gpu(size_t i) { return fake_nvml::state().gpus[i]; }
};

TEST_F(NvmlTest, GpusAreListedWithTheirFacts) {
  const auto nvml = Open();
  const std::vector<Gpu> gpus = nvml->Read();

  EXPECT_EQ(nvml->driver_version(), "580.1");
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[1].index, 1);
  EXPECT_EQ(gpus[1].uuid, "GPU-b");
  EXPECT_EQ(gpus[0].name, "H200");
  EXPECT_EQ(gpus[0].memory_bytes, 1000);
  EXPECT_EQ(gpus[0].memory_used_bytes, 100);
  EXPECT_EQ(gpus[0].fault, "");
}

TEST_F(NvmlTest, NodeWithoutADriverSaysSo) {
  const absl::Status status = Nvml::Open("libnvidia-ml-of-no-driver.so.1").status();

  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              StartsWith("no NVIDIA driver: libnvidia-ml-of-no-driver.so.1: cannot open shared"));
}

TEST_F(NvmlTest, DriverThatIsTooOldIsNamedByWhatItLacks) {
  const absl::Status status = Nvml::Open(NVML_STUMP).status();

  EXPECT_EQ(status, absl::FailedPreconditionError(
                        "NVML has no function nvmlShutdown: the driver is too old"));
}

TEST_F(NvmlTest, DriverThatDoesNotStartIsUnavailable) {
  fake_nvml::state().init = 9;

  EXPECT_EQ(Nvml::Open(FAKE_NVML).status(),
            absl::UnavailableError("NVML: cannot start: Driver Not Loaded"));
}

TEST_F(NvmlTest, GpuThatDisappearsKeepsItsPlaceWithAFault) {
  const auto nvml = Open();
  nvml->Read();
  gpu(1).result = 15;

  const std::vector<Gpu> gpus = nvml->Read();

  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].fault, "");
  EXPECT_EQ(gpus[1].fault, "lost: it does not answer on the bus any more");
  EXPECT_EQ(gpus[1].uuid, "GPU-b");
  EXPECT_EQ(gpus[1].memory_bytes, 2000);
}

TEST_F(NvmlTest, GpuThatComesBackIsHealthyAgain) {
  const auto nvml = Open();
  nvml->Read();
  gpu(1).result = 15;
  nvml->Read();
  gpu(1).handle_result = 15;
  EXPECT_EQ(nvml->Read()[1].fault, "lost: it does not answer on the bus any more");
  gpu(1).result = gpu(1).handle_result = 0;
  gpu(1).returns = 1;

  const std::vector<Gpu> gpus = nvml->Read();

  EXPECT_EQ(gpus[1].fault, "");
  EXPECT_EQ(gpus[1].uuid, "GPU-b");
}

TEST_F(NvmlTest, AnotherGpuInThePlaceOfALostOneIsAFault) {
  const auto nvml = Open();
  nvml->Read();
  gpu(1).result = 15;
  nvml->Read();
  gpu(1).result = 0;
  gpu(1).uuid = "GPU-c";

  const std::vector<Gpu> gpus = nvml->Read();

  EXPECT_EQ(gpus[1].fault, "found GPU-c in its place");
  EXPECT_EQ(gpus[1].uuid, "GPU-b");
}

TEST_F(NvmlTest, XidsOfALostGpuStillArrive) {
  const auto nvml = Open();
  gpu(1).result = gpu(1).handle_result = 15;
  nvml->Read();
  fake_nvml::state().xids.push_back({1, 79});
  nvml->Read();
  gpu(1).result = gpu(1).handle_result = 0;

  const std::vector<Gpu> gpus = nvml->Read();

  EXPECT_EQ(gpus[1].fault, "Xid 79");
  EXPECT_EQ(gpus[1].xid_errors, 1);
}

TEST_F(NvmlTest, GpuWithoutAHandleKeepsItsPlaceWithAFault) {
  gpu(0).handle_result = 15;

  const std::vector<Gpu> gpus = Open()->Read();

  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].fault, "NVML gives no handle for it");
  EXPECT_EQ(gpus[1].fault, "");
}

TEST_F(NvmlTest, UncorrectedMemoryErrorsAreAFault) {
  gpu(0).ecc = 1;
  gpu(1).ecc = 7;

  const std::vector<Gpu> gpus = Open()->Read();

  EXPECT_EQ(gpus[0].fault, "1 uncorrected memory error");
  EXPECT_EQ(gpus[1].fault, "7 uncorrected memory errors");
  EXPECT_EQ(gpus[1].ecc_uncorrected, 7);
}

TEST_F(NvmlTest, GpuThatCannotCountItsErrorsIsHealthy) {
  gpu(0).ecc_result = 3;

  EXPECT_EQ(Open()->Read()[0].fault, "");
}

TEST_F(NvmlTest, RowsThatWaitOrFailToBeRemappedAreAFault) {
  gpu(0).rows_pending = 1;
  gpu(1).rows_pending = 1;
  gpu(1).rows_failed = 1;

  const std::vector<Gpu> gpus = Open()->Read();

  EXPECT_THAT(gpus[0].fault, HasSubstr("needs a reset"));
  EXPECT_EQ(gpus[1].fault, "remapping of a memory row failed");
}

TEST_F(NvmlTest, GpuThatNeedsAResetIsAFault) {
  gpu(0).result = 16;

  EXPECT_EQ(Open()->Read()[0].fault, "needs a reset");
}

TEST_F(NvmlTest, CriticalXidsAreCountedAndStayAFault) {
  const auto nvml = Open();
  fake_nvml::state().xids = {{1, 79}, {1, 79}};
  nvml->Read();

  const std::vector<Gpu> gpus = nvml->Read();

  EXPECT_EQ(gpus[1].fault, "Xid 79");
  EXPECT_EQ(gpus[1].xid_errors, 2);
  EXPECT_EQ(gpus[0].xid_errors, 0);
  EXPECT_EQ(gpus[0].fault, "");
}

TEST_F(NvmlTest, XidsThatProgramsBringOnThemselvesAreCountedOnly) {
  const auto nvml = Open();
  fake_nvml::state().xids = {{0, 31}};

  const std::vector<Gpu> gpus = nvml->Read();

  EXPECT_EQ(gpus[0].xid_errors, 1);
  EXPECT_EQ(gpus[0].fault, "");
}

TEST_F(NvmlTest, WithoutEventsTheOtherSignsRemain) {
  fake_nvml::state().events = 4;
  fake_nvml::state().xids = {{0, 79}};
  gpu(1).ecc = 1;

  const std::vector<Gpu> gpus = Open()->Read();

  EXPECT_EQ(gpus[0].xid_errors, 0);
  EXPECT_EQ(gpus[1].fault, "1 uncorrected memory error");
}

}  // namespace
}  // namespace stretto::daemon
