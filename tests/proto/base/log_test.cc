// SPDX-License-Identifier: Apache-2.0
#include "proto/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <string>

namespace stretto {
namespace {

using ::testing::MatchesRegex;

// An id with a new line in it once forged a line of the audit log.
TEST(LogTest, AMessageIsOneLineWhateverIsInIt) {
  unsetenv("STRETTO_LOG");
  testing::internal::CaptureStderr();
  InitLogging("stretto-test");
  const std::string id =
      "j\n2026-01-01T00:00:00.000Z info  stretto-test: audit caller=root\x1b[2J\xe2\x80\xae";
  spdlog::info("job={} state=PENDING", id);
  spdlog::warn("plain, Zürich");
  const std::string written = testing::internal::GetCapturedStderr();
  EXPECT_THAT(
      written,
      MatchesRegex("[0-9TZ:.-]+ info  stretto-test: job=j\\\\n2026-01-01T00:00:00.000Z info  "
                   "stretto-test: audit caller=root\\\\x1b\\[2J\\\\u202e state=PENDING\n"
                   "[0-9TZ:.-]+ warning stretto-test: plain, Zürich\n"));
}

}  // namespace
}  // namespace stretto
