// SPDX-License-Identifier: Apache-2.0

// Any slicing of a batch gives the bits of the whole; so do repetitions.
#include "tests/kernels/batch.h"

namespace stretto {
namespace {

using SlicesTest = OpsTest;
STRETTO_ALL_MODES(SlicesTest);

TEST_P(SlicesTest, EverySlicingGivesTheBitsOfTheWhole) {
  Batch whole(GetParam().dtype);
  whole.Run(*ops_, 0, Batch::kSequences);
  EXPECT_TRUE(whole.OutputsAreWritten());
  for (const std::vector<int64_t>& cuts :
       {std::vector<int64_t>{0, 3, 6}, {0, 1, 3, 6}, {0, 1, 2, 3, 4, 5, 6}}) {
    Batch sliced(GetParam().dtype);
    for (size_t i = 0; i + 1 < cuts.size(); ++i) sliced.Run(*ops_, cuts[i], cuts[i + 1] - cuts[i]);
    EXPECT_EQ(whole.RowBits(), sliced.RowBits()) << cuts.size() - 1 << " slices";
    // Rows that are added in ascending order are added in the whole's.
    if (GetParam().rows_ascend) {
      EXPECT_EQ(whole.Bits(), sliced.Bits());
    }
    for (size_t i = 0; i < whole.sums().size(); ++i)
      ExpectNear(sliced.sums()[i], whole.sums()[i].doubles());
  }
}

TEST_P(SlicesTest, FiveRunsGiveTheSameBits) {
  std::vector<unsigned char> first;
  for (int run = 0; run < 5; ++run) {
    Batch batch(GetParam().dtype);
    batch.Run(*ops_, 0, Batch::kSequences);
    batch.RunWeightGradient(*ops_);
    if (run == 0) first = batch.Bits();
    EXPECT_EQ(batch.Bits(), first);
  }
}

}  // namespace
}  // namespace stretto
