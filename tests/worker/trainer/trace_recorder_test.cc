// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/trace_recorder.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/test_files.h"
#include "worker/engine/program/text.h"

namespace stretto::trainer {
namespace {

using testing::ElementsAre;
using v1alpha1::TraceOperation;
using v1alpha1::TraceProgram;
using v1alpha1::TraceStep;

constexpr char kText[] =
    "program rank=1 world=2\n"
    "group tp 0,1\n"
    "lane compute\n"
    "lane comm.tp\n"
    "buffer %0 x f32 4 input\n"
    "0 compute zero L0.a fwd mb0 s1 out=%0\n"
    "1 comm.tp all_reduce L0.a fwd mb0 s1 in=%0 out=%0 on=tp wait=0\n"
    "2 compute zero b opt out=%0 wait=1\n";

class TraceRecorderTest : public testing::Test {
 protected:
  // All that was recorded, parts merged.
  void Read() {
    auto reader = TraceReader::Open(folder_.path(), 0, 0);
    ASSERT_TRUE(reader.ok()) << reader.status();
    program_.Clear();
    steps_.clear();
    parts_ = 0;
    while (true) {
      const auto record = reader->Next();
      ASSERT_TRUE(record.ok()) << record.status();
      if (!record->has_value()) return;
      EXPECT_LE((*record)->ByteSizeLong(), size_t{64} << 10);
      ++parts_;
      if ((*record)->has_program()) program_.MergeFrom((*record)->program());
      if (!(*record)->has_step()) continue;
      const TraceStep& step = (*record)->step();
      if (steps_.empty() || steps_.back().step() != step.step()) steps_.emplace_back();
      steps_.back().MergeFrom(step);
    }
  }

  TestFolder folder_;
  TraceProgram program_;
  std::vector<TraceStep> steps_;
  int parts_ = 0;
};

TEST_F(TraceRecorderTest, RecordsWhatTheProgramIsAndWhenItRan) {
  TraceRecorder recorder(folder_.path(), Parse(kText).value());
  v1alpha1::StepReport report;
  report.set_step(4);
  report.set_loss(2.5);
  report.set_rank(1);
  recorder.Record(report, {{110, 120}, {125, 140}, {141, 150}},
                  {.data = {{101, 104}}, .checkpoint = {{150, 190}}}, {100, 200},
                  absl::FromUnixNanos(7'000'000'100));
  Read();
  EXPECT_FALSE(program_.machine().empty());
  EXPECT_THAT(program_.groups(), ElementsAre("tp"));
  EXPECT_THAT(program_.lanes(), ElementsAre("compute", "comm.tp"));
  ASSERT_EQ(program_.operations_size(), 3);
  EXPECT_EQ(program_.operation_count(), 3);
  const TraceOperation& reduce = program_.operations(1);
  EXPECT_EQ(reduce.lane(), 1);
  EXPECT_EQ(reduce.kind(), "all_reduce");
  EXPECT_EQ(reduce.label(), "L0.a fwd mb0 s1");
  EXPECT_EQ(reduce.phase(), "forward");
  EXPECT_EQ(reduce.group(), "tp");
  EXPECT_THAT(reduce.waits(), ElementsAre(0));
  EXPECT_EQ(program_.operations(2).phase(), "optimizer");
  EXPECT_EQ(program_.operations(2).group(), "");
  EXPECT_THAT(program_.shapes(),
              ElementsAre("zero > f32[4]", "all_reduce f32[4] > f32[4] wire=0 ranks=2"));
  EXPECT_EQ(program_.operations(1).shape(), 1);
  EXPECT_EQ(program_.operations(2).shape(), 0);

  ASSERT_EQ(steps_.size(), 1u);
  const TraceStep& step = steps_[0];
  EXPECT_EQ(step.report().SerializeAsString(), report.SerializeAsString());
  EXPECT_EQ(step.begin_nanoseconds(), 100);
  EXPECT_EQ(step.end_nanoseconds(), 200);
  EXPECT_EQ(step.begin_time().seconds(), 7);
  EXPECT_EQ(step.begin_time().nanos(), 100);
  EXPECT_THAT(step.data_waits().begin_nanoseconds(), ElementsAre(1));
  EXPECT_THAT(step.data_waits().duration_nanoseconds(), ElementsAre(3));
  EXPECT_THAT(step.checkpoint_waits().begin_nanoseconds(), ElementsAre(50));
  EXPECT_THAT(step.operations().begin_nanoseconds(), ElementsAre(10, 25, 41));
  EXPECT_THAT(step.operations().duration_nanoseconds(), ElementsAre(10, 15, 9));
}

TEST_F(TraceRecorderTest, ALargeProgramComesInPartsThatMerge) {
  Program program = Parse(kText).value();
  const Op reduce = program.ops[1];
  program.ops[1] = program.ops[0];
  std::vector<Interval> intervals;
  while (program.ops.size() < 9'999) program.ops.push_back(program.ops[0]);
  program.ops.push_back(reduce);  // its shape is in the last record
  for (int64_t i = 0; i < 10'000; ++i) intervals.push_back({i * 1'000'000, i * 1'000'000 + 500});
  TraceRecorder recorder(folder_.path(), program);
  v1alpha1::StepReport report;
  for (int64_t step : {1, 2}) {
    report.set_step(step);
    recorder.Record(report, intervals, {}, {0, 10'000'000'000}, absl::UnixEpoch());
  }
  Read();
  EXPECT_GT(parts_, 10);
  EXPECT_EQ(program_.operations_size(), 10'000);
  ASSERT_EQ(program_.shapes_size(), 2);
  EXPECT_THAT(program_.shapes(1), testing::StartsWith("all_reduce "));
  EXPECT_EQ(program_.operations(9'999).shape(), 1);
  EXPECT_EQ(program_.lanes_size(), 2);
  ASSERT_EQ(steps_.size(), 2u);
  for (const TraceStep& step : steps_) {
    ASSERT_EQ(step.operations().begin_nanoseconds_size(), 10'000);
    EXPECT_EQ(step.operations().begin_nanoseconds(9'999), int64_t{9'999} * 1'000'000);
    EXPECT_EQ(step.end_nanoseconds(), 10'000'000'000);
  }
}

TEST_F(TraceRecorderTest, WithoutAPlaceToWriteTrainingGoesOn) {
  v1alpha1::StepReport report;
  report.set_step(1);
  TraceRecorder nowhere(folder_ / "missing", Parse(kText).value());
  nowhere.Record(report, {{1, 2}, {3, 4}, {5, 6}}, {}, {0, 9}, absl::UnixEpoch());

  TraceRecorder recorder(folder_.path(), Parse(kText).value());
  {
    FullDisk full(4);
    recorder.Record(report, {{1, 2}, {3, 4}, {5, 6}}, {}, {0, 9}, absl::UnixEpoch());
  }
  report.set_step(2);
  recorder.Record(report, {{1, 2}, {3, 4}, {5, 6}}, {}, {0, 9}, absl::UnixEpoch());
  Read();
  ASSERT_EQ(steps_.size(), 1u);
  EXPECT_EQ(steps_[0].step(), 2);
}

// Groups of one axis of the layout are one, in the order of the ledger's priority.
TEST_F(TraceRecorderTest, GroupsAreAxesOfTheLayout) {
  const std::string text =
      "program rank=0 world=2\ngroup tp 0\ngroup pp 0,1\ngroup pp.0-1 0,1\ngroup dp 0\n"
      "lane compute\nlane comm.pp.0-1\nbuffer %0 x f32 4 input\n"
      "0 comm.pp.0-1 send L1.x fwd in=%0 on=pp.0-1\n";
  TraceRecorder recorder(folder_.path(), Parse(text).value());
  recorder.Record({}, {{110, 120}}, {}, {100, 200}, absl::FromUnixNanos(1));
  Read();
  EXPECT_THAT(program_.groups(), ElementsAre("tp", "pp", "dp"));
  ASSERT_EQ(program_.operations_size(), 1);
  EXPECT_EQ(program_.operations(0).group(), "pp");
  EXPECT_EQ(program_.operations(0).kind(), "send");
}

}  // namespace
}  // namespace stretto::trainer
