// SPDX-License-Identifier: Apache-2.0

// Recorded steps of real jobs: the trace says what the ledger says.

#include <algorithm>
#include <filesystem>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/coordinator/cli/trace/check.h"
#include "tests/integration/cluster.h"

namespace stretto::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class TraceTest : public ClusterTest {
 protected:
  Json Trace(const std::string& job, const std::string& steps) {
    const Outcome outcome = Stretto({"job", "trace", job, "--steps", steps, "--output", "-"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.json();
  }

  // Seconds of the ledger's track by name, of a rank, within a step.
  static std::map<std::string, double> Counted(const Json& trace, int rank, int step) {
    int64_t begin = -1, end = -1;
    std::map<std::string, double> seconds;
    const auto tracks = trace_check::Slices(trace);
    for (const auto& slice : tracks.at({rank, 1})) {
      if (slice.name != absl::StrCat("step ", step)) continue;
      begin = slice.begin;
      end = slice.end;
    }
    EXPECT_GE(end, begin);
    for (const auto& slice : tracks.at({rank, 2})) {
      if (slice.begin < begin || slice.end > end) continue;
      seconds[slice.name] += static_cast<double>(slice.end - slice.begin) * 1e-9;
    }
    return seconds;
  }

  // The same as the rank reported it.
  std::map<std::string, double> Reported(const std::string& job, int rank, int step) {
    const Outcome outcome = Stretto({"job", "timeline", job, "--step", absl::StrCat(step), "--rank",
                                     absl::StrCat(rank), "-o", "json"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::map<std::string, double> seconds;
    const Json report = outcome.json();
    for (const Json& entry : report.at("ledger").at("entries")) {
      std::string name = entry.at("part");
      std::transform(name.begin(), name.end(), name.begin(),
                     [](char c) { return c == '_' ? ' ' : static_cast<char>(std::tolower(c)); });
      for (const char* word : {"group", "phase"}) {
        const std::string value = entry.value(word, "");
        if (!value.empty()) absl::StrAppend(&name, " ", value);
      }
      seconds[name] += entry.at("seconds").get<double>();
    }
    return seconds;
  }
};

TEST_F(TraceTest, SlicesNestAndTimesAgreeWithTheLedger) {
  StartCluster();
  RunJob({.name = "traced", .steps = 6});
  const Json trace = Trace("traced", "2:6");
  EXPECT_THAT(trace_check::Faults(trace), IsEmpty());
  EXPECT_GT(trace_check::Flows(trace), 0);
  EXPECT_EQ(trace.at("otherData").at("clocks"), "all ranks share one monotonic clock");
  for (int rank : {0, 1}) {
    for (int step : {2, 6}) {
      const auto counted = Counted(trace, rank, step), reported = Reported("traced", rank, step);
      ASSERT_EQ(counted.size(), reported.size());
      EXPECT_GT(reported.size(), 3u);
      for (const auto& [name, seconds] : reported) {
        ASSERT_EQ(counted.count(name), 1u) << name;
        EXPECT_NEAR(counted.at(name), seconds, 1e-8) << "rank " << rank << " step " << step;
      }
    }
  }
  // The simulator finds the costs of all operations in it: no step of a machine that is so slow
  // would end in a second.
  const std::string file = Path("costs.json");
  ASSERT_EQ(Stretto({"job", "trace", "traced", "--steps", "2:6", "-f", file}).code, 0);
  Process sim({absl::StrCat(STRETTO_BINARY_DIR, "/stretto-bench"), "sim", "--model", "gpt-tiny",
               "--tp", "2", "--schedule", "domino_row", "--slices", "2", "--gflops", "0.000001",
               "--membw", "0.000001", "--costs", file, "--json"},
              Path("sim"));
  EXPECT_EQ(sim.Wait(), 0) << sim.err();
  EXPECT_LT(Json::parse(sim.out()).at("step_seconds"), 1) << sim.out();
  // What WatchJob tells of rank 0 is what was recorded.
  const std::vector<Json> steps = Steps("traced");
  ASSERT_EQ(steps.size(), 6u);
  const double communication = steps[5].at("ledger").at("communication_seconds");
  double counted = 0;
  for (const auto& [name, seconds] : Counted(trace, 0, 6)) {
    if (absl::StrContains(name, " tp ")) counted += seconds;
  }
  EXPECT_NEAR(counted, communication, 1e-8);

  const Outcome none = Stretto({"job", "trace", "traced", "--steps", "9:12"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("found steps 1 to 6 kept, expected some of 9 to 12"));
  const std::string picture = Path("step.svg");
  const Outcome drawn = Stretto({"job", "timeline", "traced", "--svg", picture});
  EXPECT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_THAT(drawn.out, StartsWith("job traced step 5: ")) << "step 6 waits for a checkpoint";
  EXPECT_THAT(Stretto({"job", "timeline", "traced", "--step", "6"}).out,
              StartsWith("job traced step 6: "));
  EXPECT_GT(std::filesystem::file_size(picture), 1000u);
}

// A collective ends on both ranks before what needs it begins on either: so their axis is one.
TEST_F(TraceTest, RanksOfTwoDaemonsOnOneMachineShareTheAxis) {
  StartCoordinator();
  StartWorker("node-a", 1);
  StartWorker("node-b", 1);
  RunJob({.name = "spread", .steps = 3, .more = absl::StrCat(kSlow, kSplit)});
  const Json trace = Trace("spread", "3");
  EXPECT_THAT(trace_check::Faults(trace), IsEmpty());
  const auto tracks = trace_check::Slices(trace);
  std::vector<trace_check::Slice> collectives[2];
  for (const auto& [track, slices] : tracks) {
    for (const auto& slice : slices) {
      if (absl::StartsWith(slice.name, "all_reduce ")) collectives[track.first].push_back(slice);
    }
  }
  ASSERT_GT(collectives[0].size(), 10u);
  ASSERT_EQ(collectives[0].size(), collectives[1].size());
  for (size_t i = 0; i < collectives[0].size(); ++i) {
    const auto &a = collectives[0][i], &b = collectives[1][i];
    EXPECT_EQ(a.name, b.name);
    // Neither can end before the other has begun.
    EXPECT_GE(a.end, b.begin) << a.name;
    EXPECT_GE(b.end, a.begin) << a.name;
  }
}

TEST_F(TraceTest, OfAWorkerThatIsGoneSaysSo) {
  StartCluster();
  RunJob({.name = "orphan", .steps = 2});
  worker("node-a").Kill();
  AwaitJob("orphan", "to lose its worker", [this](const Json&) {
    return absl::StrContains(Stretto({"job", "trace", "orphan", "--output", "-"}).err,
                             "is not connected");
  });
  const Outcome outcome = Stretto({"job", "trace", "orphan", "--output", "-"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("worker node-a, which holds the trace of rank 0 of job "
                                     "orphan, is not connected"));
}

}  // namespace
}  // namespace stretto::integration
