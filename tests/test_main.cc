// SPDX-License-Identifier: Apache-2.0
// Runs the tests of a binary with a temporary folder of their own as testing::TempDir(). ctest runs
// every test as a process and several at a time, so tests of one binary that write files of one
// name below a shared folder would read each other's.

#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  std::string folder = testing::TempDir() + "stretto-test-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr || ::setenv("TEST_TMPDIR", folder.c_str(), 1) != 0) {
    std::perror(folder.c_str());
    return 1;
  }
  const int failed = RUN_ALL_TESTS();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return failed;
}
