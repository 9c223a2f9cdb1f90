// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/options/trace_costs.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/files.h"
#include "tests/worker/engine/specs.h"
#include "worker/bench/options/sim_options.h"
#include "worker/engine/program/text.h"

namespace stretto::bench {
namespace {

// An operation of a rank, in microseconds.
std::string Operation(int rank, const std::string& name, double begin, double duration,
                      const std::string& shape = "") {
  return absl::StrCat(R"({"ph":"X","name":")", name, R"(","args":{"operation":0,"shape":")", shape,
                      R"("},"ts":)", begin, R"(,"dur":)", duration, R"(,"pid":)", rank, "}");
}

std::string Trace(const std::vector<std::string>& events) {
  return absl::StrCat(kTraceTitle, "[", absl::StrJoin(events, ",\n"), "]}");
}

// The cost of the operations with a kind, a name and a phase.
double SecondsOf(const CostTable& table, OpKind kind, const std::string& name, Phase phase) {
  Program program;
  program.groups.push_back({.name = "tp", .ranks = {}});
  Op op;
  op.group = 0;
  op.kind = kind;
  op.attributes.assign(InfoOf(kind).attributes.size(), 0);
  op.tag = {.name = name, .phase = phase};
  const double* seconds = table.Find(program, op);
  return seconds == nullptr ? -1 : *seconds;
}

TEST(TraceCostsTest, MediansAreOfOperationsThatRanAlone) {
  const auto table = CostsOfTrace(Trace({
      Operation(0, "gemm L0.fc2 fwd mb0 s0", 0, 10),
      Operation(0, "gemm L1.fc2 fwd mb0 s0", 20, 14),
      Operation(0, "gemm L2.fc2 fwd mb0 s0", 40, 12),
      Operation(0, "gemm L3.fc2 fwd mb0 s0", 60, 30),  // under the sum of the layer below
      Operation(0, "all_reduce L2.fc2 fwd mb0 s0", 60, 28),
      Operation(0, "gemm L0.fc2 bwd mb0 s0", 100, 5),
      Operation(0, "gelu act fwd mb0 s0", 200, 8),  // never alone
      Operation(0, "all_reduce L3.fc2 fwd mb0 s0", 200, 50),
  }));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_DOUBLE_EQ(SecondsOf(*table, OpKind::kGemm, "fc2", Phase::kForward), 12e-6);
  EXPECT_DOUBLE_EQ(SecondsOf(*table, OpKind::kGemm, "fc2", Phase::kBackward), 5e-6);
  EXPECT_DOUBLE_EQ(SecondsOf(*table, OpKind::kGelu, "act", Phase::kForward), 8e-6);
  EXPECT_EQ(SecondsOf(*table, OpKind::kGemm, "fc1", Phase::kForward), -1);
}

// The computations of a rank for which a table has a time.
int KnownIn(const CostTable& table, const Program& program) {
  int known = 0;
  for (const Op& op : program.ops)
    known += !IsCollective(op.kind) && table.Find(program, op) != nullptr;
  return known;
}

TEST(TraceCostsTest, OperationsOfAnotherShapeHaveNoTime) {
  Layout layout = Domino({1, 1});
  const Program program = PlanOf(layout).program;
  std::vector<std::string> events;
  for (OpId id : program.ops.ids()) {
    const Op& op = program.ops[id];
    if (op.kind != OpKind::kGemm) continue;
    const double begin = 10.0 * id.value();
    const std::string name = absl::StrCat(InfoOf(op.kind).name, " ", PrintTag(op.tag));
    events.push_back(Operation(0, name, begin, 7, OperationKey(program, op)));
  }
  const auto table = CostsOfTrace(Trace(events));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_GT(events.size(), 4u);
  EXPECT_EQ(KnownIn(*table, program), static_cast<int>(events.size()));
  layout.slices = {2};
  EXPECT_EQ(KnownIn(*table, PlanOf(layout).program), 0);
}

TEST(TraceCostsTest, ACollectiveTakesAsLongAsOnTheRankThatCameLast) {
  const auto table = CostsOfTrace(Trace({
      Operation(0, "all_reduce L0.fc2 fwd mb0 s0", 0, 50),
      Operation(1, "all_reduce L0.fc2 fwd mb0 s0", 30, 20),
      Operation(0, "all_reduce L0.fc2 fwd mb0 s0", 100, 24),  // of the next step
      Operation(1, "all_reduce L0.fc2 fwd mb0 s0", 90, 34),
      Operation(0, "all_reduce L1.fc2 fwd mb0 s0", 200, 26),
      Operation(1, "all_reduce L1.fc2 fwd mb0 s0", 200, 26),
      Operation(0, "recv boundary fwd mb0", 300, 70),
  }));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_NEAR(SecondsOf(*table, OpKind::kAllReduce, "fc2", Phase::kForward), 24e-6, 1e-12);
  EXPECT_EQ(SecondsOf(*table, OpKind::kRecv, "boundary", Phase::kForward), -1);
}

TEST(TraceCostsTest, WhatIsNoTraceIsRefused) {
  const auto message = [](const std::string& text) {
    return std::string(CostsOfTrace(text).status().message());
  };
  const std::string expected = ", expected a trace of `stretto job trace`";
  EXPECT_EQ(message("{\"traceEvents\":["), "found no JSON of events" + expected);
  EXPECT_EQ(message("[]"), "found no JSON of events" + expected);
  EXPECT_EQ(message(Trace({})), "found no operation" + expected);
  EXPECT_EQ(message(Trace({R"({"ph":"X","name":"step 1","pid":0,"ts":0,"dur":1})"})),
            "found no operation" + expected);
  for (
      const char* event :
      {R"({"ph":"X","name":3,"args":{"operation":0}})",
       R"({"ph":"X","name":"gemm fc2 fwd","args":{"operation":0,"shape":3},"ts":1,"dur":1,"pid":0})"}) {
    EXPECT_EQ(message(Trace({event})),
              "found an operation whose name, shape, pid, ts or dur is of another type" + expected);
  }
}

TEST(TraceCostsTest, SimTakesItInPlaceOfTheModelsTimes) {
  const std::string file = ::testing::TempDir() + "/trace_costs.json";
  ASSERT_TRUE(WriteFileAtomic(file, Trace({Operation(0, "gemm L0.fc2 fwd mb0 s0", 0, 10)})).ok());
  const auto options = ParseSimOptions({"--costs", file});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_DOUBLE_EQ(SecondsOf(options->cost.table, OpKind::kGemm, "fc2", Phase::kForward), 10e-6);

  ASSERT_TRUE(WriteFileAtomic(file, Trace({})).ok());
  EXPECT_EQ(ParseSimOptions({"--costs", file}).status().message(),
            "--costs " + file + ": found no operation, expected a trace of `stretto job trace`");
}

}  // namespace
}  // namespace stretto::bench
