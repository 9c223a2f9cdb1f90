// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/devices_command.h"

#include <gtest/gtest.h>

#include <sstream>

namespace stretto {
namespace {

TEST(DevicesCommandTest, PrintsDevicesOrOneReason) {
  std::ostringstream out, err;
  const int code = DevicesCommand({}, out, err);
  EXPECT_EQ(code == 0, err.str().empty()) << err.str();
  if (code != 0) {
    EXPECT_EQ(code, 1);
    EXPECT_EQ(err.str().rfind("error: ", 0), 0u) << err.str();
  } else {
    EXPECT_NE(out.str().find(" SMs "), std::string::npos) << out.str();
  }
}

TEST(DevicesCommandTest, TakesNoArguments) {
  std::ostringstream out, err;
  EXPECT_EQ(DevicesCommand({"--help"}, out, err), 0);
  EXPECT_EQ(DevicesCommand({"all"}, out, err), 2);
}

}  // namespace
}  // namespace stretto
