// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/quota.h"

#include <gtest/gtest.h>

#include "tests/coordinator/core/scene.h"

namespace stretto::coordinator::testing {
namespace {

TEST(QuotaTest, IsReadFromTheCommandLine) {
  const auto quotas =
      ParseQuotas({"speech:devices=8,queued=100", "vision:queued=5", "a:devices=1"});
  ASSERT_TRUE(quotas.ok()) << quotas.status();
  EXPECT_EQ(*quotas, (Quotas{{"speech", {.devices = 8, .queued = 100}},
                             {"vision", {.queued = 5}},
                             {"a", {.devices = 1}}}));
  EXPECT_TRUE(ParseQuotas({})->empty());
}

TEST(QuotaTest, ForeignTextIsRefusedWithTheForm) {
  const auto message = [](const std::vector<std::string>& texts) {
    const absl::Status status = ParseQuotas(texts).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(message({"speech"}),
            "quota \"speech\": found \"\", expected PROJECT:devices=N,queued=N");
  EXPECT_EQ(message({"Speech:devices=1"}),
            "quota \"Speech:devices=1\": found project \"Speech\", expected 1 to 63 of [a-z0-9-], "
            "starting with a letter and not ending with '-'");
  EXPECT_EQ(message({"a:gpus=1"}),
            "quota \"a:gpus=1\": found \"gpus=1\", expected PROJECT:devices=N,queued=N");
  EXPECT_EQ(message({"a:devices=0"}),
            "quota \"a:devices=0\": found devices \"0\", expected a number of at least 1");
  EXPECT_EQ(message({"a:\x1b[2J"}),
            "quota \"a:\\x1b[2J\": found \"\\x1b[2J\", expected PROJECT:devices=N,queued=N");
  EXPECT_EQ(message({"a:devices=1", "a:queued=1"}),
            "quota \"a:queued=1\": found the project a second time, expected one quota for each "
            "project");
}

// The quota was larger when the job was created.
TEST(QuotaTest, AJobAboveTheQuotaHoldsUpNobody) {
  Scene scene;
  scene.project = "speech";
  scene.Submit("large", 3);
  scene.Submit("small", 1);
  scene.SetQuotas({{"speech", {.devices = 2}}});
  scene.Restart();
  scene.Register("a", 4);
  EXPECT_EQ(scene.job("small").state, JobState::kPreparing);
  EXPECT_EQ(scene.job("large").state, JobState::kPending);
  EXPECT_EQ(scene.Why("large"),
            "OverQuota: project speech uses 1 of its 2 devices; this job needs 3");
}

TEST(QuotaTest, FreedDevicesGoToTheFirstJobOfTheProject) {
  CoreOptions options;
  options.quotas = {{"speech", {.devices = 2}}, {"default", {}}};
  Scene scene(options);
  scene.Register("a", 4);
  scene.project = "speech";
  scene.Submit("one", 1);
  scene.Submit("two", 2);
  scene.Submit("small", 1);  // would fit, but two would then wait for longer
  scene.project = "default";
  scene.Submit("other", 3);
  EXPECT_EQ(scene.job("small").state, JobState::kPending);
  EXPECT_EQ(scene.job("other").state, JobState::kPreparing);
  scene.Restart();  // what projects hold follows from the records
  EXPECT_EQ(scene.Why("small"),
            "OverQuota: project speech uses 1 of its 2 devices; waits behind job two, which needs "
            "2");
}

// No slot is free, but that is not what these jobs wait for in the end.
TEST(QuotaTest, DevicesThatEarlierJobsWaitForAreNamed) {
  CoreOptions options;
  options.quotas = {{"speech", {.devices = 4}}, {"default", {}}};
  Scene scene(options);
  scene.Register("a", 4);
  scene.Submit("runs", 4);
  scene.project = "speech";
  scene.Submit("one", 3);
  scene.Submit("two", 2);
  scene.Submit("three", 1);
  EXPECT_EQ(scene.Why("one"), "NotEnoughSlots: needs 3 slots; 0 free of 4 on 1 worker");
  EXPECT_EQ(scene.Why("two"),
            "OverQuota: project speech uses 0 of its 4 devices, and its jobs ahead wait for 3 of "
            "them; this job needs 2");
  EXPECT_EQ(scene.Why("three"),
            "OverQuota: project speech uses 0 of its 4 devices, and its jobs ahead wait for 3 of "
            "them; waits behind job two, which needs 2");
}

// While a worker is lost, a job needs two devices, and four when the worker comes back. A later job
// of its project must not take one of them, although it fits on a worker that is of no use to the
// first.
TEST(QuotaTest, JobClaimsTheDevicesOfItsLargestLayout) {
  CoreOptions options;
  options.quotas = {{"speech", {.devices = 4}}, {"default", {}}};
  Scene scene(options);
  scene.Register("w1", 2);
  scene.Register("w2", 2);
  scene.Register("w3", 1);
  scene.project = "speech";
  scene.saves = false;
  scene.policy =
      RestartPolicy{.max = 3, .backoff = {}, .on = {RestartCause::kCrash, RestartCause::kNodeLoss}};
  scene.fallbacks = {{.stages = {{.blocks = 1, .size = 2}}}};
  scene.Submit("big", Gang{.stages = {{.blocks = 2, .size = 2}}});
  scene.Prepare("big");
  scene.project = "default";
  scene.policy.reset();
  scene.fallbacks.clear();
  scene.priority = 5;
  scene.Submit("other", Gang{.stages = {{.blocks = 1, .size = 2}}});
  scene.Disconnect("w2");
  scene.Exit("big", 0, Killed(9));
  scene.Exit("big", 1, Stopped());
  scene.Advance(absl::Minutes(1), {"w1", "w3"});
  ASSERT_EQ(scene.job("other").state, JobState::kPreparing);
  ASSERT_EQ(scene.job("big").state, JobState::kPending);
  scene.project = "speech";
  scene.priority = 0;
  scene.Submit("small", 1);
  EXPECT_EQ(scene.job("small").state, JobState::kPending);
  EXPECT_EQ(scene.Why("small"),
            "OverQuota: project speech uses 0 of its 4 devices, and its jobs ahead wait for 4 of "
            "them; this job needs 1");
  scene.Register("w2", 2);
  scene.Prepare("other");
  scene.Complete("other");
  EXPECT_EQ(scene.job("big").state, JobState::kPreparing);
  EXPECT_EQ(scene.job("big").layout, 0);
}

}  // namespace
}  // namespace stretto::coordinator::testing
