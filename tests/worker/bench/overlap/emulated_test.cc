// SPDX-License-Identifier: Apache-2.0

// One rank's share on an emulated device, over emulated links.

#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/files.h"
#include "tests/worker/bench/testing/machines.h"
#include "worker/bench/overlap/command.h"
#include "worker/bench/overlap/occupy.h"
#include "worker/engine/cost/work.h"

namespace stretto::bench {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Said {
  int code = 0;
  std::string out, err;
};

Said Bench(const std::vector<std::string>& more, const MachineOpener& open) {
  std::vector<std::string> arguments = {
      "--device",          "cuda", "--ranks",    "2",  "--layers", "2", "--hidden",        "32",
      "--heads",           "4",    "--sequence", "16", "--batch",  "4", "--vocab",         "100",
      "--splits",          "1",    "--repeats",  "1",  "--steps",  "1", "--warm-up-steps", "1",
      "--link-latency-us", "1000"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  std::ostringstream out, err;
  const int code = OverlapCommand(arguments, out, err, open);
  return {code, out.str(), err.str()};
}

TEST(EmulatedOverlapTest, EveryLinkHasEveryTimeOfEverySchedule) {
  const Said said =
      Bench({"--schedules", "megatron_sync,domino_row", "--slices", "1,2", "--link-blocks", "1,2"},
            EmulatedMachine);

  // The emulated device's time is no time: it may contradict the bounds, and nothing else is wrong.
  ASSERT_LE(said.code, 1);
  const Json json = Json::parse(said.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << said.err;
  EXPECT_EQ(json["machine"]["name"], kEmulatedName);
  ASSERT_EQ(json["links"].size(), 2u);
  EXPECT_EQ(json["links"][0]["link"]["blocks"], 1);
  EXPECT_EQ(json["links"][1]["link"]["blocks"], 2);
  EXPECT_DOUBLE_EQ(json["links"][1]["link"]["latency_seconds"], 1e-3);
  EXPECT_THAT(said.err, HasSubstr("emulated link: alpha 1ms, beta 270 GB/s, k 2\n"));
  EXPECT_THAT(said.err, HasSubstr("beta 270 GB/s, k 1\n"));
  for (const Json& link : json["links"]) {
    EXPECT_EQ(link["link"]["kind"], "emulated link");
    EXPECT_EQ(link["finished"], true);
    EXPECT_GT(link["wire_seconds"], 0);
    for (const Json& error : link["errors"]) {
      EXPECT_THAT(error.get<std::string>(), HasSubstr("expected at least 0.99 of"));
    }
    ASSERT_EQ(link["schedules"].size(), 2u);
    for (const Json& schedule : link["schedules"]) {
      EXPECT_THAT(schedule["parity"].get<std::string>(), HasSubstr("bitwise equal"));
      for (const char* time :
           {"t_comp", "t_comm", "t_serial", "t_serial_sliced", "t_overlap", "t_comp_sliced",
            "t_occupy", "t_ideal_step", "t_ideal_phase", "t_ideal_pairs"}) {
        EXPECT_GT(schedule[time], 0) << schedule["schedule"] << ": " << time;
      }
      EXPECT_EQ(schedule["comm_cpu_seconds"], 0);
    }
  }
}

TEST(EmulatedOverlapTest, FlagsChangeAPreset) {
  const Said said = Bench(
      {"--model", "llama-tiny", "--schedules", "megatron_sync", "--slices", "1"}, EmulatedMachine);
  ASSERT_LE(said.code, 1);
  const Json json = Json::parse(said.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << said.err;
  EXPECT_EQ(json["links"][0]["work"]["model"], "llama-tiny");
  EXPECT_EQ(json["links"][0]["work"]["family"], "llama");
  EXPECT_EQ(json["links"][0]["work"]["hidden"], 32);
  EXPECT_EQ(json["links"][0]["work"]["ffn"], 192);
  EXPECT_EQ(json["links"][0]["work"]["sequence"], 16);
}

TEST(EmulatedOverlapTest, AValueThatIsNotFiniteFailsTheRun) {
  const std::vector<std::string> one = {"--schedules", "megatron_sync", "--slices", "1"};
  const Said parity = Bench(one, BrokenMachine());
  EXPECT_EQ(parity.code, 1);
  EXPECT_THAT(parity.err, HasSubstr("parity FAILED"));
  const Said timed = Bench(one, BrokenMachine(4));  // two steps of the schedule, two of its oracle
  EXPECT_EQ(timed.code, 1);
  EXPECT_THAT(timed.err, HasSubstr("megatron_sync: found loss nan and gradient norm inf"));
}

// Two steps of each schedule and of its oracle, and two of each of the five programs that give the
// first schedule its figures; then the second schedule's first program fails.
TEST(EmulatedOverlapTest, WhatHasBeenTimedStaysWhenTheRestFails) {
  const std::string file = ::testing::TempDir() + "/overlap.json";
  std::remove(file.c_str());
  const Said said =
      Bench({"--schedules", "megatron_sync,megatron_async", "--slices", "1", "--json", file},
            BrokenMachine(2 * 4 + 5 * 2));

  EXPECT_EQ(said.code, 1);
  EXPECT_EQ(said.out, "");
  EXPECT_THAT(said.err, HasSubstr("megatron_async: found loss"));
  for (const char* program :
       {"megatron_sync, 1 x 4 sequences, slices 1, splits 1: ", ": computation alone: ",
        ": communication alone: ", ": on one lane: ", ": computation on a busy link: "})
    EXPECT_THAT(said.err, HasSubstr(program));
  const absl::StatusOr<std::string> kept = ReadFile(file);
  ASSERT_TRUE(kept.ok()) << kept.status();
  const Json json = Json::parse(*kept, nullptr, false);
  ASSERT_TRUE(json.is_object()) << said.err;
  const Json& link = json["links"][0];
  EXPECT_EQ(link["finished"], false);
  ASSERT_EQ(link["schedules"].size(), 1u);
  EXPECT_EQ(link["schedules"][0]["schedule"], "megatron_sync");
  EXPECT_GT(link["schedules"][0]["t_overlap"], 0);
  EXPECT_GT(link["schedules"][0]["t_occupy"], 0);
  EXPECT_EQ(link["searched"].size(), 2u);
}

// The first executor holds the initial weights, the next two are the oracle and the schedule.
TEST(EmulatedOverlapTest, OneWrongBitFailsTheRunAndNothingIsTimed) {
  for (const WrongBit& wrong : {WrongBit{2, 0, "losses"}, WrongBit{2, 1, "clip_state", kGradNorm},
                                WrongBit{2, 1, "layers.1.mlp.fc2.bias.grad"}}) {
    SCOPED_TRACE(wrong.buffer);
    const Said said = Bench({"--schedules", "domino_row", "--slices", "2"}, WrongBitMachine(wrong));
    EXPECT_EQ(said.code, 1);
    EXPECT_THAT(said.err, HasSubstr("parity FAILED"));
    EXPECT_THAT(said.err,
                HasSubstr("domino_row, 1 x 4 sequences, slices 2, splits 1: parity failed: 2 steps "
                          "different on a rank from the serial oracle"));
    EXPECT_THAT(said.err, Not(HasSubstr("round")));
    const Json json = Json::parse(said.out, nullptr, false);
    ASSERT_TRUE(json.is_object()) << said.err;
    EXPECT_EQ(json["links"][0]["searched"][0]["parity"], false);
    EXPECT_EQ(json["links"][0]["schedules"], Json::array());
  }
}

// What passes is timed beside what does not.
TEST(EmulatedOverlapTest, AScheduleThatFailsParityIsLeftOut) {
  const Said said = Bench({"--schedules", "megatron_sync,domino_row", "--slices", "1"},
                          WrongBitMachine({2, 0, "losses"}));
  EXPECT_EQ(said.code, 1);
  const Json json = Json::parse(said.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << said.err;
  ASSERT_EQ(json["links"][0]["schedules"].size(), 1u);
  EXPECT_EQ(json["links"][0]["schedules"][0]["schedule"], "domino_row");
}

TEST(EmulatedOverlapTest, WithoutADeviceItSaysWhy) {
  const Said said = Bench({"--device-index", "1000"}, OpenMachine);
  EXPECT_EQ(said.code, 1);
  EXPECT_THAT(said.err, StartsWith("error: "));
}

EngineSpec Spec(bool sequence_parallel) {
  return {
      .model = {.layers = 2,
                .hidden = 32,
                .heads = 4,
                .ffn_hidden = 128,
                .sequence_length = 16,
                .vocab_size = 100},
      .schedule = {.name = "domino_row", .slices = {2, 2}, .sequence_parallel = sequence_parallel},
      .tp_size = 2,
      .wire_dtype = DType::kBF16,
      .micro_batch_size = 4};
}

constexpr EmulatedLinkOptions kLink = {
    .size = 2, .latency = absl::Microseconds(10), .bytes_per_second = 1e8};

TEST(OccupyTest, CallsFillTheTimeWithTheLargestCollective) {
  for (bool sequence_parallel : {false, true}) {
    const Program program = BuildPlan(Spec(sequence_parallel), 0)->program;
    const Occupation occupation = OccupationOf(program, kLink, 1e-3);
    // A slice of 32 tokens, 32 wide, as bf16.
    EXPECT_EQ(occupation.count, 32 * 32);
    EXPECT_EQ(occupation.dtype, DType::kBF16);
    EXPECT_EQ(occupation.calls, 33);  // 1 ms / (10 us + 2048 B / 100 MB/s)
  }
}

TEST(OccupyTest, NobodyWaitsForTheCalls) {
  for (bool sequence_parallel : {false, true}) {
    RankPlan plan = *BuildPlan(Spec(sequence_parallel), 0, Variant::kComputeOnly);
    const size_t before = plan.program.ops.size();
    ASSERT_TRUE(Occupy({.dtype = DType::kBF16, .count = 64, .calls = 5}, &plan).ok());

    EXPECT_EQ(plan.program.ops.size(), before + 5);
    int calls = 0;
    LaneId lane;
    for (const Op& op : plan.program.ops) {
      if (!IsCollective(op.kind)) continue;
      ++calls;
      lane = op.lane;
      EXPECT_TRUE(op.waits.empty());
    }
    EXPECT_EQ(calls, 5);
    for (const Op& op : plan.program.ops) {
      for (OpId wait : op.waits) {
        EXPECT_NE(plan.program.ops[wait].lane, lane);
      }
    }
  }
}

TEST(OccupyTest, ACollectiveTakesLatencyAndItsShareOfTheBytes) {
  const Program program = BuildPlan(Spec(true), 0)->program;
  for (const Op& op : program.ops) {
    if (!IsCollective(op.kind)) continue;
    const double bytes = static_cast<double>(WireBytes(program, op));
    const bool half = op.kind == OpKind::kAllGather || op.kind == OpKind::kReduceScatter;
    EXPECT_DOUBLE_EQ(SecondsOf(kLink, program, op), 10e-6 + (half ? bytes / 2 : bytes) / 1e8);
    if (half) return;
  }
  FAIL() << "no collective of sequence parallelism";
}

}  // namespace
}  // namespace stretto::bench
