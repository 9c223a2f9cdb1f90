// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "tests/worker/bench/testing/made_up_costs.h"
#include "tests/worker/bench/testing/two_ranks.h"
#include "worker/engine/schedule/plan.h"

namespace stretto::bench {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

std::string CostsFile() { return ::testing::TempDir() + "/calibrated-costs.txt"; }

class CalibrateCommandTest : public TwoRanksTest {
 protected:
  CalibrateCommandTest() : TwoRanksTest(absl::StrCat("calibrate ", CostsFile(), " pipeline")) {
    std::filesystem::remove(CostsFile());
  }
};

// On a machine that does other work, repeats need not settle. Then there is no file.
TEST_F(CalibrateCommandTest, CostsHaveEveryOperationAndTheLinkOrAreRefused) {
  const int code = RunTwoRanks("");
  const absl::StatusOr<std::string> text = ReadFile(CostsFile());
  if (code != 0) {
    EXPECT_EQ(code, 9) << Printed("rank0");  // both ranks refuse
    EXPECT_THAT(Printed("rank0") + Printed("rank1"), HasSubstr("calibrate on an idle machine"));
    EXPECT_FALSE(text.ok());
    return;
  }
  ASSERT_TRUE(text.ok()) << text.status();
  const absl::StatusOr<CostProfile> costs = ParseCostProfile(*text);
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_TRUE(costs->has_link());
  EXPECT_GT(costs->cpu_share, 0);
  EngineSpec spec = TwoStages();
  for (Rank rank : IdRange<Rank>(2)) {
    const Program program = DraftPlan(spec, rank)->program;
    EXPECT_EQ(ExpectOperations(*costs, program), absl::OkStatus());
    for (const Op& op : program.ops)
      EXPECT_TRUE(costs->operations.contains(OperationKey(program, op)));
  }
}

TEST_F(CalibrateCommandTest, RefusesWhatItCannotMeasure) {
  ExpectRefused({{"--pp 3", "--pp: found 3, expected at most the 2 layers of the model"},
                 {"--tempo", "--tempo"},
                 {"--rendezvous /nowhere", "--rendezvous: "}});
}

class CalibrateArgumentsTest : public TwoRanksTest {
 protected:
  CalibrateArgumentsTest() : TwoRanksTest(absl::StrCat("calibrate ", CostsFile(), " kernels")) {}
};

TEST_F(CalibrateArgumentsTest, OtherCommandsAreRefused) {
  ExpectRefused({{"", "found command 'kernels', expected overlap or pipeline"}});
}

class CalibrateNowhereTest : public TwoRanksTest {
 protected:
  CalibrateNowhereTest() : TwoRanksTest("calibrate /nowhere/costs pipeline") {}
};

TEST_F(CalibrateNowhereTest, AMissingFolderIsRefusedBeforeAnythingIsMeasured) {
  ExpectRefused({{"", "FILE: found /nowhere/costs in /nowhere, which is no folder"}});
}

class CalibrateFolderTest : public TwoRanksTest {
 protected:
  CalibrateFolderTest() : TwoRanksTest("calibrate / pipeline") {}
};

TEST_F(CalibrateFolderTest, AFolderIsRefusedBeforeAnythingIsMeasured) {
  ExpectRefused({{"", "FILE: found the folder /, expected the name of a file to write"}});
}

class PredictionTest : public TwoRanksTest {
 protected:
  PredictionTest() : TwoRanksTest("pipeline") {}

  std::string FileOf(const CostProfile& costs) const {
    EXPECT_EQ(WriteFileAtomic(PathOf("costs"), Print(costs)), absl::OkStatus());
    return PathOf("costs");
  }
};

TEST_F(PredictionTest, StepsArePredictedFromCostsThatWereGiven) {
  const std::string file = FileOf(MadeUpCosts({TwoStages()}));
  ASSERT_EQ(RunTwoRanks(absl::StrCat("--orders 1f1b,gpipe --costs ", file)), 0)
      << Printed("rank0") << Printed("rank1");

  const Json result = Json::parse(Printed("json"));
  const double first = result["orders"][0]["simulated_seconds"],
               second = result["orders"][1]["simulated_seconds"];
  // The same costs give the same steps, whatever this run measured.
  ASSERT_EQ(RunTwoRanks(absl::StrCat("--orders gpipe,1f1b --costs ", file)), 0)
      << Printed("rank0") << Printed("rank1");
  const Json again = Json::parse(Printed("json"));
  EXPECT_GT(first, 0.1);
  EXPECT_EQ(again["orders"][1]["simulated_seconds"], first);
  EXPECT_EQ(again["orders"][0]["simulated_seconds"], second);
}

TEST_F(PredictionTest, CostsThatDoNotFitAreRefused) {
  CostProfile costs = MadeUpCosts({TwoStages()});
  costs.operations.erase(costs.operations.begin());
  ExpectRefused({{"--costs /nowhere", "--costs /nowhere: "},
                 {"--costs " + FileOf(costs), "expected those of every computation"}});
  costs = MadeUpCosts({TwoStages()});
  costs.machine = "cpu, avx9, Example";
  ExpectRefused({{"--costs " + FileOf(costs), "found those of machine 'cpu, avx9, Example'"}});
  costs.bytes_per_second = {};
  ExpectRefused({{"--costs " + FileOf(costs), "found no link"}});
}

}  // namespace
}  // namespace stretto::bench
