// SPDX-License-Identifier: Apache-2.0

// Held-out losses and the best checkpoint on the command line.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/golden_messages.h"
#include "tests/worker/made_model.h"
#include "tests/worker/test_files.h"
#include "tests/worker/tool/run_program.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/training_state.h"
#include "worker/tool/list_checkpoints.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class BestCommandTest : public testing::Test {
 protected:
  BestCommandTest() { golden_.Hide(folder_.path(), "FOLDER"); }

  void Step(int64_t step, std::optional<double> loss) {
    WriteMadeCheckpoint(folder_ / "job", MadeSource(SmallLlama()),
                        {.step = step, .held_out_loss = loss});
  }

  TestFolder folder_;
  GoldenMessages golden_{"stretto-model"};
};

TEST_F(BestCommandTest, ListShowsHeldOutLossesAndTheBest) {
  Step(10, 3.5);
  Step(20, 2.25);
  Step(30, 2.75);
  Step(35, std::nullopt);  // between two evaluations
  const std::string job = folder_ / "job";
  const auto states = [&] {
    std::vector<std::string> ends;
    for (absl::string_view line :
         absl::StrSplit(*ListCheckpoints(job, OutputFormat::kTable, absl::Now()), '\n')) {
      if (absl::StartsWith(line, "step-")) ends.emplace_back(line.substr(line.find("  2  ") + 3));
    }
    return ends;
  };
  EXPECT_THAT(states(), testing::ElementsAre("    3.5000  whole", "    2.2500  whole, best",
                                             "    2.7500  whole", "         -  whole"));
  const auto list = nlohmann::json::parse(*ListCheckpoints(job, OutputFormat::kJson, absl::Now()));
  EXPECT_EQ(list[1]["held_out_loss"], 2.25);
  EXPECT_EQ(list[1]["best"], true);
  EXPECT_EQ(list[2]["best"], false);
  EXPECT_FALSE(list[3].contains("held_out_loss"));
  // Which is the best cannot be told without all of them.
  Spill(job + "/step-00000010/manifest.json", "{");
  EXPECT_THAT(states(), testing::Not(testing::Contains(HasSubstr("best"))));
}

TEST_F(BestCommandTest, ExportTakesTheBestOfAJob) {
  Step(10, 2.25);
  Step(20, 2.5);
  const std::string job = folder_ / "job";
  const auto best = [&](const std::string& model) {
    return RunCheckpoint(absl::StrCat("export ", model, " --best --format hf --optimizer --output ",
                                      folder_ / "out", " --overwrite"));
  };
  for (const std::string& name : {job, job + "/"}) {
    const Ran ran = best(name);
    EXPECT_EQ(ran.code, 0) << ran.output;
    const auto state = SafetensorsReader::Open(folder_ / "out/stretto-optimizer.safetensors");
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_EQ(ParseTrainingState(state->header().metadata.at(kTrainingStateKey), "")->step, 10);
  }
  for (const std::string& name :
       {job + "/step-00000010", job + "/best", "hf:" + (folder_ / "model")}) {
    const Ran ran = best(name);
    EXPECT_EQ(ran.code, 1);
    golden_.Add(ran.output, {"error: --best: found ", name.substr(name.rfind('/')), "job"});
  }
  fs::remove_all(job);
  Step(10, std::nullopt);
  const Ran none = best(job);
  EXPECT_EQ(none.code, 1);
  golden_.Add(none.output, {"error: ", "/job/best", "held-out loss"});
}

}  // namespace
}  // namespace stretto
