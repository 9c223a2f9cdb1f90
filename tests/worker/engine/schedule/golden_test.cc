// Whole programs as text, reviewed as text. STRETTO_REWRITE=1 writes the files anew.

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "gtest/gtest.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

void ExpectGolden(const std::string& name, const Shape& shape) {
  const std::string path =
      std::string(STRETTO_SOURCE_DIR) + "/tests/golden/schedule/" + name + ".txt";
  const std::string text = Print(PlanOf(shape).program);
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

TEST(ScheduleGoldenTest, MegatronSync) {
  ExpectGolden("megatron_sync", {.schedule = "megatron_sync", .slices = {2}, .layers = 1});
}

TEST(ScheduleGoldenTest, DominoRow) { ExpectGolden("domino_row", Domino({1, 1}, 1, 1)); }

TEST(ScheduleGoldenTest, DominoRowAcrossLayersAndMicroBatches) {
  ExpectGolden("domino_row_two_layers", Domino({1, 1}, 2, 2));
}

}  // namespace
}  // namespace stretto
