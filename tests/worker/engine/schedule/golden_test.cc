// SPDX-License-Identifier: Apache-2.0

// Programs as text, reviewed as text: lanes, groups and operations of every schedule. Buffers are
// the emitter's, whatever the schedule: two files declare them, one for each family, and the others
// leave them out. Where buffers are in memory is the planner's decision and never part of a file.
// STRETTO_REWRITE=1 writes the files anew.

#include "tests/worker/engine/golden.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

enum class Declarations : uint8_t { kWithoutBuffers, kAll };

std::string WithoutBuffers(const std::string& text) {
  std::string kept;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    if (!absl::StartsWith(line, "buffer ")) absl::StrAppend(&kept, line, "\n");
  }
  return kept;
}

void ExpectGolden(const std::string& name, const Layout& layout,
                  Declarations declarations = Declarations::kWithoutBuffers, Rank rank = 0) {
  Program program = PlanOf(layout, rank).program;
  for (Buffer& buffer : program.buffers) buffer.offset = -1;
  const bool all = declarations == Declarations::kAll;
  const std::string text = all ? Print(program) : WithoutBuffers(Print(program));
  ExpectGoldenText("schedule/" + name, text);
}

class ScheduleGoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(ScheduleGoldenTest, OneLayerOnTwoRanks) {
  ExpectGolden(GetParam(), LayoutOf(GetParam(), 1));
}

INSTANTIATE_TEST_SUITE_P(Every, ScheduleGoldenTest, testing::ValuesIn(ScheduleNames()),
                         [](const auto& info) { return info.param; });

TEST(GoldenTest, DominoRowAcrossLayersAndMicroBatches) {
  ExpectGolden("domino_row_two_layers", Domino({1, 1}, 2, 2));
}

TEST(GoldenTest, BuffersOfAGpt) {
  ExpectGolden("gpt_with_buffers", LayoutOf("megatron_sync", 1), Declarations::kAll);
}

Layout OneLayer() { return LayoutOf("domino_row", 1); }

TEST(GoldenTest, DominoRowWithSequenceParallelism) {
  Layout layout = OneLayer();
  layout.sequence_parallel = true;
  ExpectGolden("domino_row_sequence_parallel", layout);
}

TEST(GoldenTest, DominoRowThatMergesOverTwoMicroBatches) {
  Layout layout = OneLayer();
  layout.micro_batches = 4;
  layout.merge_wgrads = 2;
  ExpectGolden("domino_row_merged", layout);
}

TEST(GoldenTest, DominoRowOfALlama) {
  Layout layout = OneLayer();
  layout.family = Family::kLlama;
  ExpectGolden("llama_with_buffers", layout, Declarations::kAll);
}

TEST(GoldenTest, DominoRowThatComputesAllAgain) {
  Layout layout = OneLayer();
  layout.recompute = Recompute::kFull;
  layout.dropout = 0.5;
  ExpectGolden("domino_row_recompute", layout);
}

TEST(GoldenTest, DominoRowThatUpdatesAtOnce) {
  Layout layout = OneLayer();
  layout.update_at_once = true;
  ExpectGolden("domino_row_update_at_once", layout);
}

TEST(GoldenTest, DominoRowOnTwoReplicas) {
  Layout layout = OneLayer();
  layout.layers = 2;
  layout.tp_size = 1;
  layout.dp_size = 2;
  ExpectGolden("domino_row_two_replicas", layout);
}

// The second of two replicas that share the updates.
TEST(GoldenTest, DominoRowOnTwoReplicasWithZero) {
  Layout layout = OneLayer();
  layout.tp_size = 1;
  layout.dp_size = 2;
  layout.zero = 1;
  ExpectGolden("domino_row_zero", layout, Declarations::kAll, 1);
}

// The middle one of three stages, which receives and sends in both directions.
TEST(GoldenTest, DominoRowInAStage) {
  Layout layout = OneLayer();
  layout.layers = 3;
  layout.pp_size = 3;
  layout.micro_batches = 4;
  ExpectGolden("domino_row_stage", layout, Declarations::kWithoutBuffers, 2);
}

// The first of two stages of two chunks each.
TEST(GoldenTest, DominoRowInAStageOfTwoChunks) {
  Layout layout = OneLayer();
  layout.layers = 4;
  layout.pp_size = 2;
  layout.chunks = 2;
  layout.pipeline = "interleaved_1f1b";
  layout.micro_batches = 2;
  layout.tp_size = 1;
  ExpectGolden("domino_row_chunks", layout, Declarations::kWithoutBuffers, 0);
}

// The last one of two stages, of which the first runs ahead: backward ends under the next forward.
TEST(GoldenTest, DominoRowInAStageWithSlack) {
  Layout layout = OneLayer();
  layout.layers = 2;
  layout.pp_size = 2;
  layout.pipeline = "eager_1f1b";
  layout.micro_batches = 3;
  ExpectGolden("domino_row_stage_slack", layout, Declarations::kWithoutBuffers, 2);
}

}  // namespace
}  // namespace stretto
