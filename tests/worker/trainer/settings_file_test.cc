// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/settings_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "proto/spec/job/normalize.h"

namespace stretto::trainer {
namespace {

using testing::HasSubstr;

TEST(SettingsFileTest, ReadsWhatItWrites) {
  const spec::Settings settings = {{"seed", "7"}, {"optimizer.decay_steps", "150"}};
  const auto parsed = ParseSettings(SettingsText(settings), "/s.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, settings);
}

TEST(SettingsFileTest, AnythingElseIsRefusedByName) {
  for (const char* text : {"", "[]", "7", "{\"seed\": 7}", "{\"seed\": \"1\", \"seed\": \"2\"}"}) {
    const absl::Status status = ParseSettings(text, "/s.json").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("/s.json")) << text;
  }
}

TEST(SettingsFileTest, OnlyADecayThatIsOpenIsTaken) {
  JobConfig config;
  config.spec.mutable_model()->set_preset("gpt-tiny");
  config.spec.set_micro_batch_size(1);
  config.spec = spec::Normalize(config.spec);
  SetDecaySteps(30, &config);
  const std::string hash = config.math_hash;
  EXPECT_TRUE(TakeDecaySteps({{"optimizer.decay_steps", "20"}}, &config).ok());
  EXPECT_EQ(config.optimizer.decay_steps, 30);
  EXPECT_EQ(config.kept_decay_steps, 0);
  config.decay_steps_open = true;
  EXPECT_TRUE(TakeDecaySteps({}, &config).ok());  // of an older release
  EXPECT_EQ(config.optimizer.decay_steps, 30);
  EXPECT_EQ(config.kept_decay_steps, 0);
  for (const char* wrong : {"", "0", "-5", "many", "1e3", "99999999999999999999"}) {
    const absl::Status status = TakeDecaySteps({{"optimizer.decay_steps", wrong}}, &config);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("found \"", wrong, "\", expected a number of steps")));
  }
  EXPECT_EQ(config.optimizer.decay_steps, 30);
  EXPECT_TRUE(TakeDecaySteps({{"optimizer.decay_steps", "20"}}, &config).ok());
  EXPECT_EQ(config.optimizer.decay_steps, 20);
  EXPECT_EQ(config.kept_decay_steps, 20);
  EXPECT_NE(config.math_hash, hash);
  EXPECT_EQ(config.spec.optimizer().decay_steps(), 20);
}

}  // namespace
}  // namespace stretto::trainer
