// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/cost/profile.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/program/programs.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;

constexpr char kText[] =
    "stretto costs 2\n"
    "machine cpu, avx2, Example 9000\n"
    "build 0.5.0\n"
    "link latency 2e-05 spread 0.03\n"
    "link bandwidth 125000000 spread 0.004\n"
    "link cpu 0.125\n"
    "link burst 262144\n"
    "pair product all_reduce 0.25 0.5 turn 0.004 spread 0.02\n"
    "pair memory broadcast 0 0 turn 0 spread 0\n"
    "operation 0.5 spread 0.02 gelu f32[8,16] > f32[8,16]\n"
    "operation 3 spread 0 gemm f32[8,16] f32[32,16] > f32[8,32]\n"
    "end 12\n";

std::string With(const std::string& from, const std::string& to) {
  const std::string text = absl::StrReplaceAll(kText, {{from, to}});
  EXPECT_NE(text, kText) << from;
  return text;
}

TEST(CostProfileTest, ParsingIsTheInverseOfPrinting) {
  const absl::StatusOr<CostProfile> profile = ParseCostProfile(kText);
  ASSERT_TRUE(profile.ok()) << profile.status();

  EXPECT_EQ(Print(*profile), kText);
  EXPECT_EQ(profile->machine, "cpu, avx2, Example 9000");
  EXPECT_EQ(profile->operations.at("gelu f32[8,16] > f32[8,16]"), (CostProfile::Number{0.5, 0.02}));
}

TEST(CostProfileTest, ARankWithoutPeersHasNoLink) {
  const CostProfile alone{.machine = "cpu", .build = "1", .operations = {{"gelu", {2, 0}}}};
  const absl::StatusOr<CostProfile> parsed = ParseCostProfile(Print(alone));

  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_FALSE(parsed->has_link());
  EXPECT_EQ(Print(*parsed), Print(alone));
}

TEST(CostProfileTest, ItsModelHasAllOfIt) {
  const CostModel model = ModelOf(*ParseCostProfile(kText));
  const Program program = ProgramOf(
      "program rank=0 world=2\n"
      "group tp 0,1\n"
      "lane compute\n"
      "lane comm.tp\n"
      "buffer %0 x f32 8,16 input\n"
      "buffer %1 w f32 32,16 parameter\n"
      "buffer %2 y f32 8,32 activation\n"
      "0 compute gemm fc fwd mb0 s0 in=%0,%1 out=%2\n"
      "1 comm.tp all_reduce fc fwd mb0 s0 in=%2 out=%2 on=tp\n");

  EXPECT_EQ(Validate(model), absl::OkStatus());
  EXPECT_EQ(model.Alone(program, program.ops[0]), 3);
  EXPECT_DOUBLE_EQ(model.Alone(program, program.ops[1]), 2 * (2e-5 + 4.0 * 8 * 16 / 1.25e8));
  EXPECT_EQ(model.interconnect.burst_bytes, 262144);
  EXPECT_EQ(model.Together(OpKind::kGemm, CollectiveKind::kAllReduce).compute, 0.25);
  EXPECT_EQ(model.Together(OpKind::kGemm, CollectiveKind::kAllReduce).turn_seconds, 0.004);
  EXPECT_EQ(model.Together(OpKind::kGelu, CollectiveKind::kBroadcast).compute, 0);
  // Not measured: the CPU share of communication.
  EXPECT_EQ(model.Together(OpKind::kGelu, CollectiveKind::kAllReduce).compute, 0.125);
  EXPECT_EQ(model.Together(OpKind::kGelu, CollectiveKind::kAllReduce).communication, 0);
}

TEST(CostProfileTest, DamagedTextsAreRefusedWithTheLine) {
  const std::string text = kText;
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", "line 1: found '', expected 'stretto costs 2'"},
      {"gemm 3\n", "line 1: found 'gemm 3', expected 'stretto costs 2'"},
      {With("costs 2", "costs 1"),
       "line 1: found version 1, expected version 2, which this build reads"},
      {text.substr(0, text.find("end")), "found the end of the text, expected a line 'end 12'"},
      {With("end 12", "end 11"), "line 12: found 'end 11', expected 'end 12'"},
      {text + "build 2\n", "line 13: found build 2, expected nothing behind the line 'end'"},
      {With("machine cpu, avx2, Example 9000\n", "machine\n"),
       "line 2: found '', expected one name"},
      {With("build 0.5.0", "machine cpu"), "line 3: found 'cpu', expected one name, once"},
      {absl::StrReplaceAll(kText, {{"build 0.5.0\n", ""}, {"end 12", "end 11"}}),
       "line 12: found no build, expected a line 'build RELEASE'"},
      {With("pair memory", "pear memory"), "line 9: found 'pear', expected machine, build"},
      {With("link cpu", "link cup"), "line 6: found 'link cup', expected link latency, bandwidth"},
      {With("link burst", "link cpu"), "line 7: found 'link cpu', expected link latency"},
      {With("memory broadcast", "product all_reduce"),
       "line 9: found 'product all_reduce', "
       "expected each pair once"},
      {With("turn 0.004", "torn 0.004"), "line 8: found 'torn', expected 'turn'"},
      {With("pair memory", "pair memories"),
       "line 9: found 'memories broadcast', expected a class"},
      {With("262144", "262144 bytes"), "line 7: found 'bytes', expected the end of the line"},
      {With("gelu f32[8,16] > f32[8,16]", "gemm f32[8,16] f32[32,16] > f32[8,32]"),
       "line 11: found 'gemm f32[8,16] f32[32,16] > f32[8,32]', expected each operation once"},
      {With("0.5 spread 0.02 gelu f32[8,16] > f32[8,16]", "0.5 spread 0.02"),
       "line 10: found no operation, expected its kind and shapes"}};
  for (const auto& [damaged, message] : bad) {
    const absl::Status status = ParseCostProfile(damaged).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << damaged;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST(CostProfileTest, NumbersThatNoMeasurementHasAreRefused) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {With("operation 3", "operation nan"),
       "line 11: found 'nan', expected a finite number above 0"},
      {With("operation 3", "operation inf"),
       "line 11: found 'inf', expected a finite number above 0"},
      {With("operation 3", "operation 0"), "line 11: found '0', expected a finite number above 0"},
      {With("operation 3", "operation -3"),
       "line 11: found '-3', expected a finite number above 0"},
      {With("operation 3", "operation three"), "line 11: found 'three', expected a finite number"},
      {With("latency 2e-05", "latency 0"), "line 4: found '0', expected a finite number above 0"},
      {With("bandwidth 125000000", "bandwidth -1"), "line 5: found '-1'"},
      {With("cpu 0.125", "cpu 1.5"), "line 6: found a share of 1.5, expected one below 1"},
      {With("burst 262144", "burst -1"),
       "line 7: found '-1', expected a finite number of at least 0"},
      {With("turn 0.004", "turn -1"), "line 8: found '-1', expected a finite number of at least 0"},
      {With("0.25 0.5", "0.25 1"), "line 8: found a share of 1, expected one below 1"},
      {With("0.25 0.5", "-0.25 0.5"),
       "line 8: found '-0.25', expected a finite number of at least 0"},
      {With("0.004 spread", "0.004 and"), "line 8: found 'and', expected 'spread'"},
      {With("spread 0.03", "spread 0.125"),
       "line 4: found repeats that spread by 12.5 %, expected at most 10 %: calibrate on an idle "
       "machine"},
      {With("spread 0.03", "spread nan"), "line 4: found 'nan'"}};
  for (const auto& [damaged, message] : bad) {
    const absl::Status status = ParseCostProfile(damaged).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << damaged;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST(CostProfileTest, AnotherMachineAndOtherWorkAreRefused) {
  const CostProfile profile = *ParseCostProfile(kText);

  EXPECT_EQ(ExpectMachine(profile, "cpu, avx2, Example 9000"), absl::OkStatus());
  EXPECT_EQ(ExpectMachine(profile, "cpu, avx2, Example 7000").message(),
            "costs: found those of machine 'cpu, avx2, Example 9000', expected this one, 'cpu, "
            "avx2, Example 7000'");
  const std::string program =
      "program rank=0 world=2\n"
      "lane compute\n"
      "buffer %0 u f32 8,16 input\n"
      "buffer %1 a f32 8,16 activation\n"
      "0 compute gelu act fwd mb0 s0 in=%0 out=%1\n";
  EXPECT_EQ(ExpectOperations(profile, ProgramOf(program)), absl::OkStatus());
  EXPECT_EQ(ExpectOperations(profile, ProgramOf(absl::StrReplaceAll(program, {{"8,16", "4,16"}})))
                .message(),
            "costs: found no seconds of 'gelu f32[4,16] > f32[4,16]', expected those of every "
            "computation: calibrate with this work");
}

}  // namespace
}  // namespace stretto
