// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/trace/chrome_trace.h"

#include <cmath>
#include <map>
#include <random>
#include <sstream>

#include "absl/strings/match.h"
#include "coordinator/cli/trace/anatomy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/coordinator/cli/trace/check.h"
#include "tests/coordinator/cli/trace/records.h"

namespace stretto::cli {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using v1alpha1::TraceProgram;
using v1alpha1::TraceStep;

// Two steps of two ranks.
json TwoRanks() {
  std::ostringstream out;
  ChromeTraceWriter writer(out);
  const TraceProgram program = MakeProgram();
  for (int rank : {0, 1}) {
    writer.StartRank(rank, program);
    for (int64_t step : {1, 2}) {
      writer.AddStep(program, MakeStep(step), 1'000'000'000 * step + 1'001 * rank);
    }
  }
  writer.Finish(MakeTracedJob(), 1);
  return json::parse(out.str());
}

std::vector<json> EventsOf(const json& trace, const std::string& kind, int pid, int tid) {
  std::vector<json> events;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == kind && event.at("pid") == pid && event.value("tid", 0) == tid) {
      events.push_back(event);
    }
  }
  return events;
}

std::vector<std::string> Names(const std::vector<json>& events) {
  std::vector<std::string> names;
  for (const json& event : events) names.push_back(event.at("name"));
  return names;
}

TEST(ChromeTraceTest, HasAProcessPerRankAndATrackPerLane) {
  const json trace = TwoRanks();
  std::vector<std::string> names;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("name") != "process_name" && event.at("name") != "thread_name") continue;
    names.push_back(std::to_string(event.at("pid").get<int>()) + " " +
                    std::to_string(event.at("tid").get<int>()) + " " +
                    event.at("args").at("name").get<std::string>());
  }
  EXPECT_THAT(names, UnorderedElementsAre("0 0 rank 0", "0 1 step", "0 2 ledger", "0 100 compute",
                                          "0 200 comm.tp", "1 0 rank 1", "1 1 step", "1 2 ledger",
                                          "1 100 compute", "1 200 comm.tp"));
  EXPECT_EQ(trace.at("otherData").at("job"), "jobs/gpt");
  EXPECT_EQ(trace.at("otherData").at("clocks"), "all ranks share one monotonic clock");
}

TEST(ChromeTraceTest, SlicesHaveNamesTimesAndWhatTheyWaitFor) {
  const json trace = TwoRanks();
  const std::vector<json> steps = EventsOf(trace, "X", 1, 1);
  EXPECT_THAT(Names(steps), ElementsAre("step 1", "data wait", "checkpoint wait", "step 2",
                                        "data wait", "checkpoint wait"));
  EXPECT_EQ(steps[0].at("ts"), 1'000'001.001);
  EXPECT_EQ(steps[0].at("dur"), 100'000.0);
  EXPECT_EQ(steps[0].at("args").at("loss"), 2.5);
  const std::vector<json> compute = EventsOf(trace, "X", 0, 100);
  ASSERT_EQ(compute.size(), 10u);
  EXPECT_EQ(compute[2].at("name"), "gemm_dgrad L0.fc2 bwd mb0 s0");
  EXPECT_EQ(compute[2].at("cat"), "backward");
  EXPECT_EQ(compute[2].at("ts"), 1'030'000.0);
  EXPECT_EQ(compute[2].at("dur"), 20'000.0);
  EXPECT_EQ(compute[2].at("args").at("operation"), 4);
  EXPECT_EQ(compute[2].at("args").at("waits"), json({1, 3}));
  EXPECT_FALSE(compute[2].at("args").contains("shape"));  // as in an old recording
  EXPECT_EQ(compute[4].at("name"), "adamw fc2 \"w\" opt");
}

TEST(ChromeTraceTest, SlicesHaveShapes) {
  TraceProgram program = MakeProgram();
  program.add_shapes("gemm f32[2,4] f32[4,4] > f32[2,4]");
  program.add_shapes("gemm_dgrad f32[2,4] f32[4,4] > f32[2,4]");
  program.mutable_operations(4)->set_shape(1);
  std::ostringstream out;
  ChromeTraceWriter writer(out);
  writer.StartRank(0, program);
  writer.AddStep(program, MakeStep(1), 0);
  writer.Finish(MakeTracedJob(), 1);
  const std::vector<json> compute = EventsOf(json::parse(out.str()), "X", 0, 100);
  ASSERT_EQ(compute.size(), 5u);
  EXPECT_EQ(compute[0].at("args").at("shape"), program.shapes(0));
  EXPECT_EQ(compute[2].at("args").at("shape"), program.shapes(1));
}

TEST(ChromeTraceTest, SlicesNestAndFlowsLeadForward) {
  const json trace = TwoRanks();
  EXPECT_THAT(trace_check::Faults(trace), IsEmpty());
  EXPECT_EQ(trace_check::Flows(trace), 2 * 2 * 6);
}

// Kernels of a device may overlap: then a lane has more tracks.
TEST(ChromeTraceTest, SlicesThatOverlapGetATrackOfTheirOwn) {
  const TraceProgram program = MakeProgram();
  std::mt19937_64 random(3);
  for (int round = 0; round < 100; ++round) {
    TraceStep step = MakeStep(1);
    step.mutable_operations()->Clear();
    for (int i = 0; i < program.operations_size(); ++i) {
      const int64_t begin = static_cast<int64_t>(random() % 90'000);
      AddInterval(begin, begin + static_cast<int64_t>(random() % 9'000), step.mutable_operations());
    }
    std::ostringstream out;
    ChromeTraceWriter writer(out);
    writer.StartRank(0, program);
    writer.AddStep(program, step, 0);
    writer.Finish(MakeTracedJob(), 2);
    const json trace = json::parse(out.str());
    EXPECT_THAT(trace_check::Faults(trace), IsEmpty());
    EXPECT_THAT(trace.at("otherData").at("clocks").get<std::string>(),
                testing::HasSubstr("2 machines are aligned by their wall clocks"));
  }
}

TEST(ChromeTraceTest, TheLedgersTrackAndCounterAreTheLedger) {
  const json trace = TwoRanks();
  std::map<std::string, double> seconds;
  for (const json& event : EventsOf(trace, "X", 0, 2)) {
    seconds[event.at("name")] += event.at("dur").get<double>() * 1e-6;
  }
  EXPECT_EQ(seconds.size(), 10u);
  EXPECT_NEAR(seconds["exposed tp forward"], 2 * 0.008, 1e-9);
  EXPECT_NEAR(seconds["compute hiding tp backward"], 2 * 0.015, 1e-9);
  EXPECT_NEAR(seconds["idle"], 2 * 0.007, 1e-9);
  double exposed = 0, in_flight = -1;
  std::map<std::string, int> counters;
  for (const json& event : EventsOf(trace, "C", 0, 0)) {
    const double value = event.at("args").at("value");
    ++counters[event.at("name")];
    if (event.at("name") == "exposed ms") {
      EXPECT_GE(value, exposed);
      exposed = value;
    }
    if (event.at("name") == "collectives in flight") in_flight = value;
  }
  EXPECT_NEAR(exposed, 2 * 13, 1e-9);
  EXPECT_EQ(in_flight, 0);
  EXPECT_EQ(counters["loss"], 2);
  EXPECT_EQ(counters["tokens per second"], 2);
  for (const json& event : EventsOf(trace, "C", 1, 0)) EXPECT_NE(event.at("name"), "loss");
}

// As a GPU has them, whose operations of one graph are timed together.
TEST(ChromeTraceTest, OperationsOfOneIntervalShareATrack) {
  TraceProgram program;
  program.add_lanes("compute");
  program.add_lanes("comm.tp");
  TraceStep step = MakeStep(1);
  step.clear_operations();
  for (int i = 0; i < 300; ++i) {
    v1alpha1::TraceOperation* op = program.add_operations();
    op->set_kind("zero");
    op->set_phase("forward");
    op->set_lane(i == 299 ? 1 : 0);
    step.mutable_operations()->add_begin_nanoseconds(5);
    step.mutable_operations()->add_duration_nanoseconds(7);
  }
  std::ostringstream out;
  ChromeTraceWriter writer(out);
  writer.StartRank(0, program);
  writer.AddStep(program, step, 0);
  writer.Finish(MakeTracedJob(), 1);
  const json trace = json::parse(out.str());
  EXPECT_EQ(EventsOf(trace, "X", 0, 100).size(), 299u);
  EXPECT_EQ(EventsOf(trace, "X", 0, 200).size(), 1u);
}

TEST(ChromeTraceTest, NumbersThatAreNoneAreNull) {
  std::ostringstream out;
  ChromeTraceWriter writer(out);
  TraceStep step = MakeStep(1);
  step.mutable_report()->set_loss(std::nan(""));
  TraceProgram program = MakeProgram();
  program.mutable_operations(0)->set_label("a\n\xff");
  writer.StartRank(0, program);
  writer.AddStep(program, step, 0);
  writer.Finish(MakeTracedJob(), 1);
  const json trace = json::parse(out.str());
  EXPECT_TRUE(EventsOf(trace, "X", 0, 1)[0].at("args").at("loss").is_null());
  EXPECT_EQ(EventsOf(trace, "X", 0, 100)[0].at("name"), "gemm a\n\xef\xbf\xbd");
}

}  // namespace
}  // namespace stretto::cli
