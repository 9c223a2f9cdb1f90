// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/cost/model.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/program/programs.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;

Program Sample() {
  return ProgramOf(
      "program rank=0 world=4\n"
      "group tp 0,1,2,3\n"
      "group one 0\n"
      "lane compute\n"
      "lane comm.tp\n"
      "lane comm.one\n"
      "buffer %0 x f32 8,16 input\n"
      "buffer %1 w f32 32,16 parameter\n"
      "buffer %2 y f32 8,32 activation\n"
      "buffer %3 part f32 2,32 activation\n"
      "0 compute gemm fc fwd mb0 s0 in=%0,%1 out=%2\n"
      "1 comm.tp all_reduce fc fwd mb0 s0 in=%2 out=%2 on=tp\n"
      "2 comm.tp reduce_scatter fc fwd mb0 s0 in=%2 out=%3 on=tp\n"
      "3 comm.tp all_gather fc fwd mb0 s0 in=%3 out=%2 on=tp\n"
      "4 comm.tp all_reduce_max fc fwd mb0 s0 in=%2 out=%2 on=tp\n"
      "5 comm.one all_reduce fc fwd mb0 s0 in=%2 out=%2 on=one\n"
      "6 compute gemm fc bwd mb0 s0 in=%0,%1 out=%2\n");
}

double Alone(const CostModel& model, OpId op) {
  const Program program = Sample();
  return model.Alone(program, program.ops.at(op));
}

TEST(CostModelTest, AComputationTakesItsProductsAndThenItsBytes) {
  const double flops = 2.0 * 8 * 16 * 32, bytes = 4.0 * (8 * 16 + 32 * 16 + 8 * 32);
  EXPECT_DOUBLE_EQ(Alone({.machine = {100, 10}}, 0), flops / 100 + bytes / 10);
}

TEST(CostModelTest, WhatIsLeftOutCostsNothing) {
  for (OpId op : IdRange<OpId>(7)) EXPECT_EQ(Alone({}, op), 0);
}

TEST(CostModelTest, CollectivesFollowTheRing) {
  const CostModel model{.interconnect = {.bytes_per_second = 1000, .latency_seconds = 0.25}};
  const double bytes = 4.0 * 8 * 32;
  EXPECT_DOUBLE_EQ(Alone(model, 1), 6 * 0.25 + 2 * 0.75 * bytes / 1000);
  EXPECT_DOUBLE_EQ(Alone(model, 2), 3 * 0.25 + 0.75 * bytes / 1000);
  EXPECT_DOUBLE_EQ(Alone(model, 3), 3 * 0.25 + 0.75 * bytes / 1000);
  EXPECT_DOUBLE_EQ(Alone(model, 4), Alone(model, 1));
  EXPECT_EQ(Alone(model, 5), 0) << "one rank sends nothing";
}

TEST(CostModelTest, CollectivesWithinANodeAreFaster) {
  CostModel model{.interconnect = {.bytes_per_second = 1000,
                                   .latency_seconds = 0.25,
                                   .node_bytes_per_second = 4000,
                                   .node_latency_seconds = 0.125,
                                   .topology = {{0, 0, 0, 0}}}};
  const double bytes = 4.0 * 8 * 32;
  EXPECT_DOUBLE_EQ(Alone(model, 2), 3 * 0.125 + 0.75 * bytes / 4000);
  model.interconnect.topology.node = {0, 0, 1, 1};
  EXPECT_DOUBLE_EQ(Alone(model, 2), 3 * 0.25 + 0.75 * bytes / 1000);
}

TEST(CostModelTest, TheTableComesFirstAndTheOperationBeforeItsTag) {
  const Program program = Sample();
  CostModel model{.machine = {100, 10}};
  model.table.Set("fwd fc gemm", 3);
  EXPECT_EQ(model.Alone(program, program.ops[0]), 3);
  EXPECT_GT(model.Alone(program, program.ops[6]), 10) << "not of that phase";
  model.table.Set(OperationKey(program, program.ops[0]), 4);
  EXPECT_EQ(model.Alone(program, program.ops[0]), 4);
  EXPECT_EQ(model.Alone(program, program.ops[6]), 4) << "the same operation in another phase";
}

TEST(CostModelTest, PairsThatWereNotMeasuredHaveTheDefault) {
  const CostModel model{
      .contention = {.compute = 0.1},
      .pairs = {{{ComputeClass::kProduct, CollectiveKind::kAllReduce}, {0.2, 0.3}}}};
  EXPECT_EQ(model.Together(OpKind::kGemmWgrad, CollectiveKind::kAllReduce).compute, 0.2);
  EXPECT_EQ(model.Together(OpKind::kGemm, CollectiveKind::kAllReduce).communication, 0.3);
  EXPECT_EQ(model.Together(OpKind::kGemm, CollectiveKind::kAllGather).compute, 0.1);
  EXPECT_EQ(model.Together(OpKind::kGelu, CollectiveKind::kAllReduce).compute, 0.1);
  EXPECT_EQ(model.Together(OpKind::kAttention, CollectiveKind::kAllReduce).communication, 0);
}

TEST(CostModelTest, ValidateNamesTheField) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(Validate(CostModel{}).ok());
  const std::vector<std::pair<CostModel, std::string>> bad = {
      {{.machine = {0, 1}}, "machine.flops_per_second: found 0, expected above 0"},
      {{.machine = {1, nan}}, "machine.bytes_per_second: found nan, expected above 0"},
      {{.interconnect = {-1, 0}}, "interconnect.bytes_per_second: found -1"},
      {{.interconnect = {1, infinity}}, "interconnect.latency_seconds: found inf"},
      {{.interconnect = {1, 0, 0}}, "interconnect.node_bytes_per_second: found 0"},
      {{.interconnect = {1, 0, 1, -1}}, "interconnect.node_latency_seconds: found -1"},
      {{.interconnect = {.burst_bytes = -1}}, "interconnect.burst_bytes: found -1"},
      {{.interconnect = {.topology = {{0, -1}}}},
       "interconnect.topology.node[1]: found -1, expected at least 0"},
      {{.contention = {1, 0}}, "contention.compute: found 1, expected at least 0 and below 1"},
      {{.contention = {0, -0.5}}, "contention.communication: found -0.5"},
      {{.contention = {0, 0, -1}}, "contention.turn_seconds: found -1, expected at least 0"},
      {{.pairs = {{{ComputeClass::kMemory, CollectiveKind::kAllGather}, {0, 2}}}},
       "pairs.memory.all_gather.communication: found 2"}};
  for (const auto& [model, message] : bad) {
    EXPECT_EQ(Validate(model).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(Validate(model).message()), HasSubstr(message));
  }
}

TEST(CostTableTest, KeysSayWhatIsComputed) {
  const Program program = Sample();
  EXPECT_EQ(OperationKey(program, program.ops[0]), "gemm f32[8,16] f32[32,16] > f32[8,32]");
  EXPECT_EQ(OperationKey(program, program.ops[1]),
            "all_reduce f32[8,32] > f32[8,32] wire=0 ranks=4");
  EXPECT_EQ(TagKey(program.ops[6]), "bwd fc gemm");
}

TEST(CostTableTest, ReadsItsText) {
  const absl::StatusOr<CostTable> table = CostTable::Parse(
      "# measured\n"
      "\n"
      "  gemm f32[8,16] f32[32,16] > f32[8,32]  1.5e-3  # on one core\n"
      "bwd fc gemm 2\n");
  ASSERT_TRUE(table.ok()) << table.status();
  const Program program = Sample();
  ASSERT_NE(table->Find(program, program.ops[0]), nullptr);
  EXPECT_EQ(*table->Find(program, program.ops[0]), 1.5e-3);
  EXPECT_EQ(table->Find(program, program.ops[1]), nullptr);
}

TEST(CostTableTest, KnowsWhetherItHasProducts) {
  const auto has_products = [](const char* key) {
    CostTable table;
    table.Set(key, 1);
    return table.HasProducts();
  };
  EXPECT_TRUE(has_products("gemm_wgrad f32[8,16] f32[8,32] > f32[32,16]"));
  EXPECT_TRUE(has_products("bwd fc gemm_dgrad"));
  for (const char* other :
       {"clip f32[1] f32[9] > f32[3]", "all_reduce f32[1] > f32[1] wire=0 ranks=2", "fwd gemm add",
        "send f32[1] > f32[1]", "fwd fc recv", "gemm", "gemm2 f32[1] > f32[1]"}) {
    EXPECT_FALSE(has_products(other)) << other;
  }
  EXPECT_FALSE(CostTable().HasProducts());
}

TEST(CostTableTest, ErrorsNameTheLine) {
  const std::vector<std::pair<const char*, const char*>> bad = {
      {"\ngemm\n", "line 2: found 'gemm', expected 'KEY SECONDS'"},
      {"gemm -1", "line 1: found 'gemm -1', expected"},
      {"gemm inf", "line 1: found 'gemm inf', expected"},
      {"gemm soon", "line 1: found 'gemm soon', expected"},
      {"x\x1b[31m foo", "line 1: found 'x\\x1b[31m foo', expected 'KEY SECONDS'"},
      {"gemm 1\ngemm 2", "line 2: found 'gemm', expected each key once"}};
  for (const auto& [text, message] : bad) {
    EXPECT_THAT(std::string(CostTable::Parse(text).status().message()), HasSubstr(message));
  }
  EXPECT_LT(CostTable::Parse(std::string(1 << 20, 'x')).status().message().size(), 400u);
}

}  // namespace
}  // namespace stretto
