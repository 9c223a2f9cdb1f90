// Whole programs as text, reviewed as text. Where their buffers lie is the memory planner's affair
// and left out. STRETTO_REWRITE=1 writes the files anew.

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "gtest/gtest.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

void ExpectGolden(const std::string& name, const Layout& layout) {
  const std::string path =
      std::string(STRETTO_SOURCE_DIR) + "/tests/golden/schedule/" + name + ".txt";
  Program program = PlanOf(layout).program;
  for (Buffer& buffer : program.buffers) buffer.offset = -1;
  const std::string text = Print(program);
  if (std::getenv("STRETTO_REWRITE") != nullptr) {
    std::ofstream file(path);
    file << text;
    ASSERT_TRUE(file.good()) << path;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file.good()) << path;
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(text, golden.str()) << "set STRETTO_REWRITE=1 to accept the new " << path;
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
  ExpectGolden("domino_row_llama", layout);
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

}  // namespace
}  // namespace stretto
