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

}  // namespace
}  // namespace stretto::coordinator::testing
