// SPDX-License-Identifier: Apache-2.0

// Programs written by hand that compute other values than their canonical program, each refused
// with the operation, the operand and both values. tests/worker/engine/schedule/values_test.cc does
// the same to programs of schedules.

#include "worker/engine/program/same_values.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/program/expect_rejected.h"
#include "tests/worker/engine/program/programs.h"

namespace stretto {
namespace {

// Two slices of a linear layer and the gradient of its weight.
constexpr char kSlices[] =
    "program rank=0 world=2\n"
    "group tp 0,1\n"
    "lane compute\n"
    "lane comm.tp\n"
    "buffer %0 x f32 8,8 input\n"
    "buffer %1 x.s0 f32 4,8 input alias=%0+0\n"
    "buffer %2 x.s1 f32 4,8 input alias=%0+32\n"
    "buffer %3 w f32 8,8 parameter\n"
    "buffer %4 y f32 8,8 activation\n"
    "buffer %5 y.s0 f32 4,8 activation alias=%4+0\n"
    "buffer %6 y.s1 f32 4,8 activation alias=%4+32\n"
    "buffer %7 dw f32 8,8 gradient\n"
    "buffer %8 loss f32 1 output\n"
    "0 compute zero fc opt out=%7\n"
    "1 compute gemm L0.fc fwd mb0 s0 in=%1,%3 out=%5\n"
    "2 comm.tp all_reduce L0.fc fwd mb0 s0 in=%5 out=%5 on=tp wait=1\n"
    "3 compute gemm L0.fc fwd mb0 s1 in=%2,%3 out=%6\n"
    "4 comm.tp all_reduce L0.fc fwd mb0 s1 in=%6 out=%6 on=tp wait=3\n"
    "5 compute gemm_wgrad L0.fc bwd mb0 s0 in=%5,%1,%7 out=%7 wait=2\n"
    "6 compute gemm_wgrad L0.fc bwd mb0 s1 in=%6,%2,%7 out=%7 wait=4\n"
    "7 compute sum loss fwd mb0 in=%4 out=%8\n";

// The step whose expansion the program is.
StepProgram StepOf(Program program) {
  StepProgram step = {.rank = program.rank,
                      .world_size = program.world_size,
                      .groups = program.groups,
                      .lanes = program.lanes,
                      .buffers = program.buffers,
                      .units = {{"all", program.ops}},
                      .instances = {{.unit = 0, .micro_batches = {0, 1}, .waits = {}}}};
  return step;
}

absl::Status Checked(const Program& program, const std::string& canonical = kSlices,
                     Sums sums = Sums::kInOrder) {
  const absl::StatusOr<CanonicalValues> values =
      CanonicalValues::Of(StepOf(ProgramOf(canonical)), sums);
  if (!values.ok()) return values.status();
  return Verify(program, nullptr, {&*values, 1});
}
absl::Status Checked(const std::string& text, const std::string& canonical = kSlices,
                     Sums sums = Sums::kInOrder) {
  return Checked(ProgramOf(text), canonical, sums);
}

// The operations of the program in this order.
Program Reordered(const std::string& text, const std::vector<int>& order) {
  const Program program = ProgramOf(text);
  Program reordered = program;
  for (OpId to : program.ops.ids()) {
    Op& op = reordered.ops[to] = program.ops[OpId::Of(order[to.position()])];
    for (OpId& wait : op.waits)
      wait = OpId::Of(std::find(order.begin(), order.end(), wait.value()) - order.begin());
  }
  return reordered;
}

TEST(SameValuesTest, AProgramHasItsOwnValues) { EXPECT_EQ(Checked(kSlices), absl::OkStatus()); }

TEST(SameValuesTest, IndependentOperationsMove) {
  EXPECT_EQ(Checked(Reordered(kSlices, {3, 1, 2, 4, 0, 5, 6, 7})), absl::OkStatus());
}

TEST(SameValuesTest, ContributionsKeepTheirOrder) {
  ExpectRejected(Checked(Reordered(kSlices, {0, 1, 2, 3, 4, 6, 5, 7})),
                 "values differ: 5 compute gemm_wgrad L0.fc bwd mb0 s1 in=%6,%2,%7 out=%7 wait=4: "
                 "operand dw, %7 (dw): found x of 'zero fc opt', expected dw of 'gemm_wgrad L0.fc "
                 "bwd mb0 s0'");
}

TEST(SameValuesTest, AContributionComesOnce) {
  ExpectRejected(Checked(With(kSlices, "7 compute sum loss fwd mb0 in=%4 out=%8\n",
                              "7 compute gemm_wgrad L0.fc bwd mb0 s1 in=%6,%2,%7 out=%7\n"
                              "8 compute sum loss fwd mb0 in=%4 out=%8\n")),
                 "operand dw, %7 (dw): found dw of 'gemm_wgrad L0.fc bwd mb0 s1', expected dw of "
                 "'gemm_wgrad L0.fc bwd mb0 s0'");
}

TEST(SameValuesTest, AnOperandOfAnotherSliceIsFound) {
  ExpectRejected(Checked(With(kSlices, "s1 in=%6,%2,%7", "s1 in=%6,%1,%7")),
                 "operand x, %1 (x.s0): found what was given in x, expected what was given in x "
                 "from its byte");
}

// The sum reads before the second slice is added over the ranks.
TEST(SameValuesTest, APieceOfAnotherWriterIsFound) {
  Program program = Reordered(kSlices, {0, 1, 2, 3, 7, 4, 5, 6});
  program.ops[4].waits = {2};
  program.ops[5].waits = {4};
  ExpectRejected(Checked(program),
                 "operand parts, %4 (y): found y of 'gemm L0.fc fwd mb0 s1' from its byte 0 on at "
                 "byte 128, expected x of 'all_reduce L0.fc fwd mb0 s1' from its byte 0 on at "
                 "byte 128");
}

TEST(SameValuesTest, ACallOfAnotherTagIsFound) {
  ExpectRejected(
      Checked(With(kSlices, "all_reduce L0.fc fwd mb0 s0", "all_reduce L0.fc fwd mb0 s1")),
      "values differ: 2 comm.tp all_reduce L0.fc fwd mb0 s1");
}

// Two calls of one tag are told apart by their turn, because other ranks meet them by it.
TEST(SameValuesTest, CallsOfOneTagKeepTheirTurn) {
  const std::string pieces =
      With(kSlices, "all_reduce L0.fc fwd mb0 s1", "all_reduce L0.fc fwd mb0 s0");
  EXPECT_EQ(Checked(pieces, pieces), absl::OkStatus());
  const std::vector<int> swapped = {0, 3, 4, 1, 2, 5, 6, 7};
  EXPECT_EQ(Checked(Reordered(kSlices, swapped)), absl::OkStatus());
  ExpectRejected(Checked(Reordered(pieces, swapped), pieces),
                 "values differ: 2 comm.tp all_reduce L0.fc fwd mb0 s0 in=%6 out=%6 on=tp wait=1");
}

TEST(SameValuesTest, AnotherAttributeIsFound) {
  ExpectRejected(Checked(With(kSlices, "all_reduce L0.fc fwd mb0 s0 in=%5 out=%5 on=tp",
                              "all_reduce L0.fc fwd mb0 s0 in=%5 out=%5 on=tp wire=1")),
                 "found other attributes, shapes or calls before it, expected those of "
                 "'all_reduce L0.fc fwd mb0 s0'");
}

TEST(SameValuesTest, AnOperationThatIsMissingIsFound) {
  ExpectRejected(
      Checked(With(kSlices, "7 compute sum loss fwd mb0 in=%4 out=%8\n", "")),
      "values differ: found no operation that computes what 'sum loss fwd mb0' computes");
}

TEST(SameValuesTest, AnOperationThatIsNotTheirsIsFound) {
  ExpectRejected(Checked(absl::StrCat(kSlices, "8 compute zero loss opt out=%8\n")),
                 "values differ: 8 compute zero loss opt out=%8: found this operation, expected "
                 "none of its kind and tag");
}

// A clone has the value of its original.
TEST(SameValuesTest, AnOperationMayRunTwice) {
  const std::string twice = With(kSlices, "7 compute sum",
                                 "7 compute gemm L0.fc rec mb0 s0 in=%1,%3 out=%9\n8 compute sum");
  EXPECT_EQ(Checked(With(twice, "buffer %8 loss f32 1 output\n",
                         "buffer %8 loss f32 1 output\nbuffer %9 again f32 4,8 activation\n")),
            absl::OkStatus());
}

TEST(SameValuesTest, WhatIsLeftBehindIsCompared) {
  const std::string two = With(With(kSlices, "buffer %8 loss f32 1 output\n",
                                    "buffer %8 loss f32 1 output\nbuffer %9 other f32 1 output\n"),
                               "7 compute sum loss fwd mb0 in=%4 out=%8\n",
                               "7 compute sum loss fwd mb0 in=%4 out=%8\n"
                               "8 compute sum other fwd mb0 in=%7 out=%9\n");
  EXPECT_EQ(Checked(two, two), absl::OkStatus());
  Program program = ProgramOf(two);
  std::swap(program.ops[7].out, program.ops[8].out);
  ExpectRejected(Checked(program, two),
                 "values differ: after the step, buffer loss: found out of 'sum other fwd mb0', "
                 "expected out of 'sum loss fwd mb0'");
}

TEST(SameValuesTest, TwoBuffersOfOneNameCannotBeCompared) {
  ExpectRejected(Checked(kSlices, With(kSlices, " w f32", " x f32")),
                 "buffer x: found two of this name that outlive the step, expected one");
}

// ---- sums in any order

constexpr char kMerged[] =
    "5 compute gemm_wgrad L0.fc bwd mb0 in=%4,%0,%7 out=%7 wait=4\n"
    "6 compute sum loss fwd mb0 in=%4 out=%8\n";

std::string Merged() {
  const std::string text = kSlices;
  return text.substr(0, text.find("5 compute")) + kMerged;
}

TEST(SameValuesTest, AMergedProductIsTheListOfItsParts) {
  EXPECT_EQ(Checked(Merged(), kSlices, Sums::kInAnyOrder), absl::OkStatus());
  ExpectRejected(Checked(Merged(), kSlices), "values differ: 5 compute gemm_wgrad L0.fc bwd mb0");
}

TEST(SameValuesTest, InAnyOrderContributionsMaySwap) {
  EXPECT_EQ(Checked(Reordered(kSlices, {0, 1, 2, 3, 4, 6, 5, 7}), kSlices, Sums::kInAnyOrder),
            absl::OkStatus());
}

TEST(SameValuesTest, InAnyOrderAContributionStillComesOnce) {
  const std::string again = With(kSlices, "in=%6,%2,%7", "in=%5,%1,%7");
  ExpectRejected(Checked(again, kSlices, Sums::kInAnyOrder),
                 "found a contribution that is unknown, was added before or is of another sum");
  ExpectRejected(Checked(again, again, Sums::kInAnyOrder),
                 "found a contribution that was added before");
}

TEST(SameValuesTest, InAnyOrderNoContributionIsMissing) {
  ExpectRejected(Checked(With(Merged(), "in=%4,%0,%7 out=%7 wait=4", "in=%5,%1,%7 out=%7 wait=4"),
                         kSlices, Sums::kInAnyOrder),
                 "found no operation that computes what 'gemm_wgrad L0.fc bwd mb0 s1' computes");
}

TEST(SameValuesTest, InAnyOrderRowsOfAProductStayTogether) {
  // The rows of one operand are another slice's.
  ExpectRejected(Checked(With(Merged(), "in=%4,%0,%7", "in=%4,%4,%7"), kSlices, Sums::kInAnyOrder),
                 "found a contribution that is unknown, was added before or is of another sum");
}

}  // namespace
}  // namespace stretto
