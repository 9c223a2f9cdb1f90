// SPDX-License-Identifier: Apache-2.0

// The benchmark as it is run: eight processes, here on loopback.

#include <stdlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/files.h"

namespace stretto::bench {
namespace {

TEST(ReshardCommandTest, EveryCaseIsMovedAndCheckedByEveryRule) {
  std::string folder = ::testing::TempDir() + "/reshard-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::filesystem::create_directory(folder + "/meeting");
  const std::string each =
      absl::StrCat(STRETTO_BINARY_DIR "/stretto-bench reshard --gbps 10 --mebibytes 1 --repeats 1",
                   " --modes send,gather,chain --senders balanced,first --rendezvous ", folder,
                   "/meeting --rank ");
  std::string command = absl::StrCat("cd ", folder, "; ");
  for (int rank = 1; rank < 8; ++rank) absl::StrAppend(&command, each, rank, " >>others 2>&1 & ");
  absl::StrAppend(&command, each, "0 --json json >said 2>&1 || exit 1; wait");
  const int status = std::system(command.c_str());
  ASSERT_EQ(WEXITSTATUS(status), 0)
      << ReadFile(folder + "/said").value_or("") << ReadFile(folder + "/others").value_or("");
  const auto report = nlohmann::json::parse(ReadFile(folder + "/json").value_or(""));
  ASSERT_EQ(report["results"].size(), 9u * 6);
  for (const auto& result : report["results"]) {
    EXPECT_EQ(result["runs"].size(), 1u);
    for (const char* key : {"seconds", "over_wire", "over_bound", "planned_seconds"}) {
      EXPECT_GT(result[key], 0) << key;
    }
    int64_t bytes = 0;
    for (const auto& transfer : result["plain_transfers"]) {
      EXPECT_NE(transfer[0], transfer[1]);
      bytes += transfer[2].get<int64_t>();
    }
    EXPECT_GE(bytes, 1 << 20);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace stretto::bench
