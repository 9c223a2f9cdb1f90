// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/trace/records.h"

#include <cstdint>
#include <functional>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/cli/trace/records.h"

namespace stretto::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using v1alpha1::StreamJobTraceResponse;
using v1alpha1::TraceProgram;
using v1alpha1::TraceStep;

class AssemblerTest : public testing::Test {
 protected:
  absl::Status Add(int rank, const TraceProgram& program) {
    StreamJobTraceResponse response;
    response.set_rank(rank);
    *response.mutable_record()->mutable_program() = program;
    return assembler_.Add(response);
  }
  absl::Status Add(int rank, const TraceStep& step) {
    StreamJobTraceResponse response;
    response.set_rank(rank);
    *response.mutable_record()->mutable_step() = step;
    return assembler_.Add(response);
  }

  std::vector<std::string> seen_;
  TraceAssembler assembler_{
      {.on_program = [this](int rank,
                            const TraceProgram&) { seen_.push_back(absl::StrCat("rank ", rank)); },
       .on_step =
           [this](int rank, const TraceProgram& program, const TraceStep& step) {
             EXPECT_EQ(program.SerializeAsString(), MakeProgram().SerializeAsString());
             EXPECT_EQ(step.SerializeAsString(), MakeStep(step.step()).SerializeAsString());
             seen_.push_back(absl::StrCat(rank, ": step ", step.step()));
           },
       .on_warning = [this](const std::string& text) { seen_.push_back("! " + text); }}};
};

TEST_F(AssemblerTest, PutsPartsTogether) {
  for (int rank : {0, 1}) {
    TraceProgram head = MakeProgram(), tail;
    *tail.mutable_operations() = {head.operations().begin() + 5, head.operations().end()};
    head.mutable_operations()->DeleteSubrange(5, 3);
    EXPECT_TRUE(Add(rank, head).ok());
    EXPECT_TRUE(Add(rank, tail).ok());
    for (int64_t number : {1, 2}) {
      TraceStep first = MakeStep(number), second;
      second.set_step(number);
      auto* begins = first.mutable_operations()->mutable_begin_nanoseconds();
      auto* durations = first.mutable_operations()->mutable_duration_nanoseconds();
      second.mutable_operations()->mutable_begin_nanoseconds()->Add(begins->begin() + 3,
                                                                    begins->end());
      second.mutable_operations()->mutable_duration_nanoseconds()->Add(durations->begin() + 3,
                                                                       durations->end());
      begins->Truncate(3);
      durations->Truncate(3);
      EXPECT_TRUE(Add(rank, first).ok());
      EXPECT_TRUE(Add(rank, second).ok());
    }
  }
  assembler_.Finish();
  EXPECT_THAT(seen_,
              ElementsAre("rank 0", "0: step 1", "0: step 2", "rank 1", "1: step 1", "1: step 2"));
}

TEST_F(AssemblerTest, AStepThatIsNotWholeIsLeftOutAndSaid) {
  TraceStep part = MakeStep(1);
  part.mutable_operations()->Clear();
  EXPECT_TRUE(Add(0, MakeProgram()).ok());
  EXPECT_TRUE(Add(0, part).ok());
  EXPECT_TRUE(Add(0, MakeStep(2)).ok());
  part.set_step(3);
  EXPECT_TRUE(Add(0, part).ok());
  StreamJobTraceResponse warning;
  warning.mutable_record()->set_warning("torn");
  EXPECT_TRUE(assembler_.Add(warning).ok());
  assembler_.Finish();
  EXPECT_THAT(seen_,
              ElementsAre("rank 0", "! rank 0: step 1 is incomplete and was left out", "0: step 2",
                          "! rank 0: step 3 is incomplete and was left out", "! rank 0: torn"));
}

TEST_F(AssemblerTest, NonsenseIsRefusedByName) {
  TraceProgram program = MakeProgram();
  program.mutable_operations(1)->set_lane(2);
  EXPECT_EQ(Add(0, program).message(), "trace of rank 0: found lane 2, expected fewer than 2");
  program = MakeProgram();
  program.mutable_operations(1)->set_group("dp");
  EXPECT_EQ(Add(1, program).message(),
            "trace of rank 1: found group dp, expected one of the program's");
  program = MakeProgram();
  program.mutable_operations(1)->set_phase("lunch");
  EXPECT_EQ(Add(2, program).message(),
            "trace of rank 2: found phase lunch, expected one of a step program");
  program = MakeProgram();
  program.mutable_operations(1)->add_waits(8);
  EXPECT_EQ(Add(3, program).message(), "trace of rank 3: found wait 8, expected fewer than 8");
  program = MakeProgram();
  program.add_shapes("gemm f32[2,4] f32[4,4] > f32[2,4]");
  program.mutable_operations(1)->set_shape(-1);
  EXPECT_EQ(Add(5, program).message(), "trace of rank 5: found shape -1, expected fewer than 1");
  program.mutable_operations(1)->set_shape(1);
  EXPECT_EQ(Add(6, program).message(), "trace of rank 6: found shape 1, expected fewer than 1");
  EXPECT_THAT(seen_, IsEmpty());

  EXPECT_TRUE(Add(4, MakeProgram()).ok());
  TraceStep step = MakeStep(1);
  step.mutable_operations()->set_duration_nanoseconds(2, -1);
  EXPECT_EQ(Add(4, step).message(),
            "trace of rank 4: found duration -1, expected 0 to 9007199254740992");
  step = MakeStep(2);
  step.mutable_operations()->add_begin_nanoseconds(1);
  EXPECT_EQ(Add(4, step).message(), "trace of rank 4: found durations 8, expected 9");
  step = MakeStep(3);
  AddInterval(1, 2, step.mutable_operations());
  EXPECT_EQ(Add(4, step).message(), "trace of rank 4: found step 3 with intervals 9, expected 8");
}

// It has as many intervals as a program of no operations, but whoever draws it has another one.
TEST_F(AssemblerTest, AnEmptyStepWithoutAProgramIsRefused) {
  EXPECT_TRUE(Add(0, MakeProgram()).ok());
  TraceStep step;
  step.set_step(1);
  EXPECT_EQ(Add(1, step).message(),
            "trace of rank 1: found step 1, expected the program of the rank before it");
}

TEST_F(AssemblerTest, TimesWhoseSumsWouldOverflowAreRefused) {
  ASSERT_TRUE(Add(0, MakeProgram()).ok());
  int64_t number = 0;
  const auto refused = [&](const std::function<void(TraceStep*)>& change) {
    TraceStep step = MakeStep(++number);
    change(&step);
    return std::string(Add(0, step).message());
  };
  EXPECT_EQ(refused([](auto* step) {
              step->mutable_operations()->set_duration_nanoseconds(0, INT64_MAX);
            }),
            "trace of rank 0: found duration 9223372036854775807, expected 0 to 9007199254740992");
  EXPECT_EQ(
      refused([](auto* step) { step->mutable_operations()->set_begin_nanoseconds(0, INT64_MIN); }),
      "trace of rank 0: found begin -9223372036854775808, expected at most 9007199254740992 "
      "from that of its step");
  EXPECT_EQ(refused([](auto* step) { step->set_begin_nanoseconds(INT64_MAX); }),
            "trace of rank 0: found begin of a step 9223372036854775807, expected 0 to "
            "1152921504606846976");
  EXPECT_EQ(refused([](auto* step) { step->set_begin_nanoseconds(-1); }),
            "trace of rank 0: found begin of a step -1, expected 0 to 1152921504606846976");
  EXPECT_EQ(refused([](auto* step) {
              step->set_begin_nanoseconds(5);
              step->set_end_nanoseconds(INT64_MAX);
            }),
            "trace of rank 0: found end of a step 9223372036854775807, expected at most "
            "9007199254740992 after 5");
  EXPECT_EQ(refused([](auto* step) { step->mutable_begin_time()->set_seconds(INT64_MAX); }),
            "trace of rank 0: found second 9223372036854775807, expected 0 to 4611686018");
}

TEST(TimeAxisTest, RanksOfOneMachineKeepTheirDistanceWhateverTheirWallClocksSaid) {
  TimeAxis axis(int64_t{1'700'000'000} * 1'000'000'000);
  const TraceProgram box = MakeProgram("box"), other = MakeProgram("other");
  EXPECT_EQ(axis.BeginOf(0, box, MakeStep(1, 1000)), 11'000'000'000);
  // A microsecond later by the monotonic clock, a second by the wall clock.
  EXPECT_EQ(axis.BeginOf(1, box, MakeStep(2, 2000)), 11'000'001'000);
  EXPECT_EQ(axis.BeginOf(2, other, MakeStep(1, 70'000)), 11'000'000'000);
  EXPECT_EQ(axis.BeginOf(2, other, MakeStep(2, 71'000)), 11'000'001'000);
  EXPECT_EQ(axis.machines(), 2);
  axis.BeginOf(3, MakeProgram(""), MakeStep(1, 0));
  axis.BeginOf(4, MakeProgram(""), MakeStep(1, 0));
  EXPECT_EQ(axis.machines(), 4);
}

}  // namespace
}  // namespace stretto::cli
