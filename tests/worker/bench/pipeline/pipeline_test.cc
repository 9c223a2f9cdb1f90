// SPDX-License-Identifier: Apache-2.0

// The benchmark as it is run: two processes on loopback, a tiny model.

#include <stdlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/files.h"

namespace stretto::bench {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

constexpr char kBench[] = STRETTO_BINARY_DIR "/stretto-bench pipeline";
constexpr char kTiny[] =
    " --model gpt-tiny --layers 2 --hidden 32 --heads 4 --sequence 16 --micro-batch 2"
    " --micro-batches 6 --repeats 2";

class PipelineCommandTest : public ::testing::Test {
 protected:
  PipelineCommandTest() : folder_(::testing::TempDir() + "/pipeline-XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~PipelineCommandTest() override { std::filesystem::remove_all(folder_); }

  std::string PathOf(const char* name) const { return absl::StrCat(folder_, "/", name); }
  std::string Printed(const char* name) const { return ReadFile(PathOf(name)).value_or(""); }

  // Exit code of the shell.
  static int Shell(const std::string& command) {
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // Exit code of rank 0; rank 1 must end well.
  int RunTwoRanks(const std::string& arguments) const {
    std::filesystem::create_directory(PathOf("meeting"));
    const std::string each = absl::StrCat(kBench, kTiny, " --rendezvous ", PathOf("meeting"), " ",
                                          arguments, " --rank ");
    return Shell(absl::StrCat(each, "1 >", PathOf("rank1"), " 2>&1 & ", each, "0 --json ",
                              PathOf("json"), " >", PathOf("rank0"),
                              " 2>&1; code=$?; wait $! || exit 9; ", "exit $code"));
  }

  std::string folder_;
};

TEST_F(PipelineCommandTest, EveryOrderPassesParityAndHasAllFigures) {
  ASSERT_EQ(RunTwoRanks(""), 0) << Printed("rank0") << Printed("rank1");
  EXPECT_THAT(Printed("rank0"),
              HasSubstr("1f1b, warm-ups 2 1: 2 steps bitwise equal to the serial oracle"));
  const Json result = Json::parse(Printed("json"));
  EXPECT_EQ(result["work"]["micro_batches"], 6);
  for (const char* key : {"forward_seconds", "backward_seconds", "transfer_seconds",
                          "rested_transfer_seconds", "transfer_cpu_share"})
    EXPECT_GT(result[key], 0) << key;
  ASSERT_EQ(result["orders"].size(), 5u);
  EXPECT_EQ(result["orders"][0]["warm_ups"], Json::parse("[2, 1]"));
  EXPECT_EQ(result["orders"][4]["order"], "slack");
  for (const Json& order : result["orders"]) {
    EXPECT_EQ(order["steps"].size(), 2u);
    for (const char* key :
         {"step_seconds", "simulated_seconds", "ideal_seconds", "activation_bytes"}) {
      EXPECT_GT(order[key], 0) << key;
    }
    EXPECT_GE(order["simulated_seconds"], order["ideal_seconds"]);
  }
}

TEST_F(PipelineCommandTest, OneOrderNeedsNoBaseline) {
  ASSERT_EQ(RunTwoRanks("--orders gpipe"), 0) << Printed("rank0") << Printed("rank1");
  EXPECT_THAT(Printed("rank0"), HasSubstr("gpipe"));
}

TEST_F(PipelineCommandTest, OrdersMayDelayWeightGradients) {
  ASSERT_EQ(RunTwoRanks("--orders 1f1b+send,eager_1f1b+bubble,slack+send"), 0)
      << Printed("rank0") << Printed("rank1");
  const Json result = Json::parse(Printed("json"));
  ASSERT_EQ(result["orders"].size(), 3u);
  EXPECT_EQ(result["orders"][1]["order"], "eager_1f1b+bubble");
  EXPECT_EQ(result["orders"][1]["warm_ups"], Json::parse("[3, 1]"));
  EXPECT_GE(result["orders"][2]["warm_ups"][0], 2);
  EXPECT_EQ(result["orders"][2]["warm_ups"][1], 1);
}

TEST_F(PipelineCommandTest, RefusesWhatCannotRun) {
  for (const auto& [arguments, error] : std::vector<std::pair<std::string, std::string>>{
           {"--pp 3", "--pp: found 3, expected at most the 2 layers of the model"},
           {"--rank 2", "--rank: found 2, expected below 2, the number of ranks"},
           {"--orders zigzag", "--orders: "},
           {"--orders gpipe,gpipe", "--orders: found gpipe twice, expected each order once"},
           {"--orders gpipe+send", "--orders: "},
           {"--tp 2", "--tp: found 2, expected 1"},
           {"--merge-wgrads 2", "--merge-wgrads: found 2, expected at most 1 with pp_size above 1"},
           {"--rendezvous /nowhere", "--rendezvous: "}}) {
    const std::string folder =
        arguments.find("--rendezvous") == 0 ? "" : " --rendezvous " + folder_;
    EXPECT_EQ(Shell(absl::StrCat(kBench, kTiny, folder, " ", arguments, " 2>", PathOf("error"))), 2)
        << arguments;
    EXPECT_THAT(Printed("error"), HasSubstr(error)) << arguments;
  }
}

}  // namespace
}  // namespace stretto::bench
