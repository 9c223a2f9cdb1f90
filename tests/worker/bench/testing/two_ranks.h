// SPDX-License-Identifier: Apache-2.0
#pragma once
// Benchmarks as they are run: two processes on loopback, a tiny model.

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/files.h"

namespace stretto::bench {

class TwoRanksTest : public ::testing::Test {
 protected:
  // `command` is of stretto-bench.
  explicit TwoRanksTest(const std::string& command, int layers = 2)
      : program_(absl::StrCat(STRETTO_BINARY_DIR "/stretto-bench ", command,
                              " --model gpt-tiny --layers ", layers,
                              " --hidden 32 --heads 4 --sequence 16"
                              " --micro-batch 2 --micro-batches 6 --repeats 2")),
        folder_(::testing::TempDir() + "/two-ranks-XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~TwoRanksTest() override { std::filesystem::remove_all(folder_); }

  std::string PathOf(const char* name) const { return absl::StrCat(folder_, "/", name); }
  std::string Printed(const char* name) const { return ReadFile(PathOf(name)).value_or(""); }

  // Returns the exit code of rank 0, whose output is Printed("rank0") and Printed("json"); rank 1
  // must end well.
  int RunTwoRanks(const std::string& arguments) const {
    std::filesystem::remove_all(PathOf("meeting"));  // of an earlier run
    std::filesystem::create_directory(PathOf("meeting"));
    const std::string each =
        absl::StrCat(program_, " --rendezvous ", PathOf("meeting"), " ", arguments, " --rank ");
    return Shell(absl::StrCat(each, "1 >", PathOf("rank1"), " 2>&1 & ", each, "0 --json ",
                              PathOf("json"), " >", PathOf("rank0"),
                              " 2>&1; code=$?; wait $! || exit 9; ", "exit $code"));
  }

  // Expects each of these arguments to be refused with its error.
  void ExpectRefused(const std::vector<std::pair<std::string, std::string>>& cases) const {
    for (const auto& [arguments, error] : cases) {
      const bool meets = arguments.find("--rendezvous") == std::string::npos;
      const std::string folder = meets ? " --rendezvous " + folder_ : "";
      EXPECT_EQ(Shell(absl::StrCat(program_, folder, " ", arguments, " 2>", PathOf("error"))), 2)
          << arguments;
      EXPECT_THAT(Printed("error"), ::testing::HasSubstr(error)) << arguments;
    }
  }

 private:
  // Exit code of the shell.
  static int Shell(const std::string& command) {
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  const std::string program_;
  std::string folder_;
};

}  // namespace stretto::bench
