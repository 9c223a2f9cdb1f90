// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/options/overlap_options.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/golden_messages.h"
#include "worker/trainer/plan/engine_spec.h"

namespace stretto::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(OverlapOptionsTest, ListsAreByComma) {
  const absl::StatusOr<OverlapOptions> options = ParseOverlapOptions(
      {"--tp1", "--schedules", "megatron_sync,domino_row", "--slices", "2,4", "--wire", "bf16"});

  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->schedules, ElementsAre("megatron_sync", "domino_row"));
  EXPECT_THAT(options->slices, ElementsAre(2, 4));
  EXPECT_EQ(options->Unsliced().wire_dtype, DType::kBF16);
  EXPECT_EQ(options->Unsliced().dtype, DType::kF32);
}

TEST(OverlapOptionsTest, UnslicedIsOneSliceOfTheWholeBatch) {
  const EngineSpec spec =
      ParseOverlapOptions({"--tp1", "--hidden", "96", "--batch", "3"})->Unsliced();

  EXPECT_EQ(spec.schedule.name, "megatron_sync");
  EXPECT_THAT(spec.schedule.slices, ElementsAre(3));
  EXPECT_EQ(spec.tp_size, 1);
  EXPECT_EQ(spec.model.ffn_hidden, 384);
  EXPECT_EQ(spec.micro_batches, 1);
  EXPECT_EQ(ParseOverlapOptions({"--tp1", "--micro-batches", "5"})->Unsliced().micro_batches, 5);
  const OverlapOptions divided =
      *ParseOverlapOptions({"--tp1", "--batch", "2", "--micro-batches", "6", "--divide", "1,4"});
  EXPECT_EQ(divided.Divisions(), (std::vector<int>{1, 4}));
  EXPECT_EQ(divided.Divided(4).micro_batch_size, 3);
  EXPECT_EQ(ParseOverlapOptions({"--tp1"})->Divisions(), std::vector<int>{1});
  EXPECT_EQ(trainer::Validate(spec), absl::OkStatus());
}

TEST(OverlapOptionsTest, EmulatedLinksAreEveryCombination) {
  const absl::StatusOr<OverlapOptions> options =
      ParseOverlapOptions({"--device", "cuda", "--ranks", "8", "--heads", "16", "--link-gbytes",
                           "135,270", "--link-blocks", "2,4"});

  ASSERT_TRUE(options.ok()) << options.status();
  const std::vector<EmulatedLinkOptions> links = options->Links();
  ASSERT_EQ(links.size(), 4u);
  EXPECT_EQ(links[3].blocks, 4);
  EXPECT_EQ(links[3].bytes_per_second, 270e9);
  EXPECT_EQ(links[3].latency, absl::Microseconds(12));
  EXPECT_EQ(links[3].size, 8);
  EXPECT_EQ(options->warm_up_steps, 3);
  EXPECT_EQ(ParseOverlapOptions({"--tp1"})->warm_up_steps, 0);
}

TEST(OverlapOptionsTest, TheModelIsOfAnyFamily) {
  const ModelSpec model = ParseOverlapOptions({"--tp1", "--family", "llama", "--hidden", "96",
                                               "--heads", "12", "--kv-heads", "4", "--ffn", "256"})
                              ->model;
  EXPECT_EQ(model.architecture.family, Family::kLlama);
  EXPECT_EQ(model.hidden, 96);
  EXPECT_EQ(model.kv_heads, 4);
  EXPECT_EQ(model.ffn_hidden, 256);
  EXPECT_EQ(ParseOverlapOptions({"--tp1"})->model.architecture.family, Family::kGpt);
  EXPECT_EQ(ParseOverlapOptions({"--tp1"})->model.key_heads(), 12);
}

TEST(OverlapOptionsTest, FlagsChangeAPreset) {
  const ModelSpec preset = ParseOverlapOptions({"--tp1", "--model", "llama-tiny"})->model;
  EXPECT_EQ(preset.architecture.family, Family::kLlama);
  const ModelSpec changed =
      ParseOverlapOptions({"--tp1", "--model", "llama-tiny", "--ffn", "96", "--layers", "1"})
          ->model;
  EXPECT_EQ(changed.ffn_hidden, 96);
  EXPECT_EQ(changed.layers, 1);
  EXPECT_EQ(changed.hidden, preset.hidden);
  EXPECT_EQ(changed.key_heads(), preset.key_heads());
  const ModelSpec gpt =
      ParseOverlapOptions({"--tp1", "--model", "llama-tiny", "--family", "gpt"})->model;
  EXPECT_EQ(gpt.architecture.family, Family::kGpt);
  EXPECT_EQ(gpt.ffn_hidden, preset.ffn_hidden);
}

TEST(OverlapOptionsTest, HelpIsNotAnError) {
  GoldenMessages("stretto-bench")
      .Add(ParseOverlapOptions({"--help"})->help, {"--rendezvous", "--link-gbytes", "Example"});
}

TEST(OverlapOptionsTest, WrongFlagsAreRefusedInOneLine) {
  using Words = std::vector<std::string>;
  GoldenMessages golden("stretto-bench");
  for (const auto& [arguments, facts] : std::vector<std::pair<Words, Words>>{
           {{}, {"--rendezvous"}},
           {{"--tp1", "--schedules", "fugue"}, {"--schedules", "fugue"}},
           {{"--tp1", "--slices", "0"}, {"--slices", "0"}},
           {{"--tp1", "--micro-batches", "0"}, {"--micro-batches", "0"}},
           {{"--tp1", "--dtype", "f16"}, {"--dtype", "f16"}},
           {{"--tp1", "--rank", "1"}, {"--rank", "1"}},
           {{"--device", "cuda", "--tp1"}, {"--ranks", "1", "--device cuda", "2"}},
           {{"--device", "cuda", "--link-gbytes", "270,0"},
            {"--link-gbytes", "0", "from 1e-9 to 1e9"}},
           {{"--device", "cuda", "--link-blocks", "2,0"}, {"--link-blocks", "0", "1 to 1024"}},
           {{"--device", "cuda", "--plans", "default,found"}, {"--plans", "'found'", "--costs"}},
           {{"--tp1", "--model", "gpt-0"}, {"--model", "'gpt-0'"}},
           {{"--tp1", "--family", "bert"}, {"--family", "'bert'"}},
           {{"--tp1", "--kv-heads", "5"}, {"--kv-heads", "5"}},
           {{"--rendezvous", "/tmp", "--ranks", "5"}, {"--ranks", "5"}},
           {{"--tp1", "--batch", "2", "--micro-batches", "6", "--divide", "4,8"},
            {"--divide", "8", "divisor of 12"}},
           {{"--tp1", "--tempo"}, {"--tempo"}}}) {
    const absl::Status status = ParseOverlapOptions(arguments).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), ::testing::Not(HasSubstr("\n")));
    golden.Add(std::string(status.message()), facts);
  }
}

}  // namespace
}  // namespace stretto::bench
