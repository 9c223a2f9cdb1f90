// SPDX-License-Identifier: Apache-2.0

// What runs under each collective, exactly, in the middle layer of three. The published schedules
// have the windows of the code they are named after; those of backward have the slices exchanged,
// as here slice 0 comes first in both directions.

#include <utility>

#include "gtest/gtest.h"
#include "tests/worker/engine/schedule/positions.h"
#include "tests/worker/engine/specs.h"

namespace stretto {
namespace {

struct Window {
  const char* collective;
  std::string under;  // Positions::Under
  size_t piece = 0;
};

void ExpectWindows(const Layout& layout, const std::vector<Window>& windows) {
  const Positions at(PlanOf(layout).program);
  for (const Window& window : windows) {
    EXPECT_EQ(at.Under(at.Collective(window.collective, window.piece)), window.under)
        << layout.schedule << ": " << window.collective << " piece " << window.piece;
  }
}

// The small gradients of norms stand behind each layer in all schedules.
const std::string kNorm = " w.ln2_0 L2.w.ln1_0";
const std::string kNorms = " w.ln2_0 w.ln2_1 L2.w.ln1_0 L2.w.ln1_1";

TEST(OverlapTest, MegatronSyncHidesNothing) {
  for (bool sequence_parallel : {false, true}) {
    Layout layout = LayoutOf("megatron_sync");
    layout.sequence_parallel = sequence_parallel;
    const Positions at(PlanOf(layout).program);
    for (OpId i : at.program().ops.ids()) {
      if (!IsCollective(at.op(i).kind)) continue;
      EXPECT_EQ(at.Under(i), "") << PrintOp(at.program(), i);
    }
  }
}

TEST(OverlapTest, MegatronAsyncHidesBackwardUnderItsOwnWeightGradients) {
  ExpectWindows(LayoutOf("megatron_async", 3), {{"L1.proj fwd s0", ""},
                                                {"L1.fc2 fwd s0", ""},
                                                {"L1.fc1 bwd s0", "w.fc1_0"},
                                                {"L1.qkv bwd s0", "w.qkv_0" + kNorm}});
}

TEST(OverlapTest, DominoPaperGroupsTheNormsOfBothSlices) {
  ExpectWindows(
      LayoutOf("domino_paper", 3),
      {{"L1.proj fwd s0", "L0.res2_1 ln1_1 qkv_1 attention_1 proj_1"},
       {"L1.proj fwd s1", "res1_0 ln2_0"},
       {"L1.fc2 fwd s0", "fc1_1 act_1 fc2_1"},
       {"L1.fc2 fwd s1", "res2_0 L2.ln1_0 L2.qkv_0 L2.attention_0 L2.proj_0"},
       {"L1.fc1 bwd s0", "w.fc1_0 L2.d.ln1_1 d.fc2_1 w.fc2_1 d.act_1 d.fc1_1 w.fc1_1"},
       {"L1.fc1 bwd s1", "w.fc1_1 d.ln2_0"},
       {"L1.qkv bwd s0", "w.qkv_0 d.proj_1 w.proj_1 d.attention_1 d.qkv_1 w.qkv_1" + kNorms},
       {"L1.qkv bwd s1",
        "w.qkv_1" + kNorms + " d.ln1_0 L0.d.fc2_0 L0.w.fc2_0 L0.d.act_0 L0.d.fc1_0 L0.w.fc1_0"}});
}

TEST(OverlapTest, DominoRelease1EndsEachLayerExposed) {
  ExpectWindows(LayoutOf("domino_release1", 3),
                {{"L1.proj fwd s0", "qkv_1 attention_1 proj_1"},
                 {"L1.proj fwd s1", "res1_0 ln2_0"},
                 {"L1.fc2 fwd s0", "fc1_1 act_1 fc2_1"},
                 {"L1.fc2 fwd s1", ""},
                 {"L1.fc1 bwd s0", "d.fc2_1 w.fc2_1 d.act_1 w.fc1_1 d.fc1_1"},
                 {"L1.fc1 bwd s1", "d.ln2_0"},
                 {"L1.qkv bwd s0", "w.qkv_0"},
                 {"L1.qkv bwd s1", "w.qkv_1"}});
}

TEST(OverlapTest, DominoIntraDoesNotReachAcrossLayers) {
  ExpectWindows(LayoutOf("domino_intra", 3), {{"L1.proj fwd s0", "ln1_1 qkv_1 attention_1 proj_1"},
                                              {"L1.proj fwd s1", "res1_0 ln2_0 fc1_0 act_0"},
                                              {"L1.fc2 fwd s0", "fc1_1 act_1 fc2_1"},
                                              {"L1.fc2 fwd s1", "res2_0"},
                                              {"L1.fc1 bwd s0", "w.fc1_0 d.fc2_1 w.fc2_1"},
                                              {"L1.fc1 bwd s1", "w.fc1_1"},
                                              {"L1.qkv bwd s0", "w.qkv_0"},
                                              {"L1.qkv bwd s1", "w.qkv_1"}});
}

TEST(OverlapTest, DominoInterReachesAcrossLayersInBothDirections) {
  ExpectWindows(LayoutOf("domino_inter", 3),
                {{"L1.proj fwd s0", "qkv_1 attention_1"},
                 {"L1.proj fwd s1", "fc1_0 act_0"},
                 {"L1.fc2 fwd s0", "fc1_1 act_1"},
                 {"L1.fc2 fwd s1", "L2.qkv_0 L2.attention_0"},
                 {"L1.fc1 bwd s0", "w.fc1_0 d.fc2_1 w.fc2_1"},
                 {"L1.fc1 bwd s1", "w.fc1_1 d.proj_0 w.proj_0"},
                 {"L1.qkv bwd s0", "w.qkv_0 d.proj_1 w.proj_1"},
                 {"L1.qkv bwd s1", "w.qkv_1" + kNorms + " L0.d.fc2_0 L0.w.fc2_0"}});
}

TEST(OverlapTest, NanotronHidesForwardButBackwardOnlyUnderItsOwnWeightGradients) {
  ExpectWindows(LayoutOf("nanotron", 3),
                {{"L1.proj fwd s0", "L0.res2_1 ln1_1 qkv_1 attention_1 proj_1"},
                 {"L1.proj fwd s1", "res1_0 ln2_0 fc1_0 act_0 fc2_0"},
                 {"L1.fc2 fwd s0", "res1_1 ln2_1 fc1_1 act_1 fc2_1"},
                 {"L1.fc2 fwd s1", "res2_0 L2.ln1_0 L2.qkv_0 L2.attention_0 L2.proj_0"},
                 {"L1.fc1 bwd s0", "w.fc1_0"},
                 {"L1.fc1 bwd s1", "w.fc1_1"},
                 {"L1.qkv bwd s0", "w.qkv_0"},
                 {"L1.qkv bwd s1", "w.qkv_1"}});
}

TEST(OverlapTest, DominoRowHidesEachCollectiveUnderAnotherHalfBlockInBothDirections) {
  ExpectWindows(
      LayoutOf("domino_row", 3),
      {{"L1.proj fwd s0", "L0.res2_1 ln1_1 qkv_1 attention_1 proj_1"},
       {"L1.proj fwd s1", "res1_0 ln2_0 fc1_0 act_0 fc2_0"},
       {"L1.fc2 fwd s0", "res1_1 ln2_1 fc1_1 act_1 fc2_1"},
       {"L1.fc2 fwd s1", "res2_0 L2.ln1_0 L2.qkv_0 L2.attention_0 L2.proj_0"},
       {"L1.fc1 bwd s0", "w.fc2_0 w.fc1_0 L2.d.ln1_1 d.fc2_1 d.act_1 d.fc1_1 w.fc2_1 w.fc1_1"},
       {"L1.fc1 bwd s1", "w.fc2_1 w.fc1_1 d.ln2_0 d.proj_0 d.attention_0 d.qkv_0 w.proj_0 w.qkv_0"},
       {"L1.qkv bwd s0",
        "w.proj_0 w.qkv_0 d.ln2_1 d.proj_1 d.attention_1 d.qkv_1 w.proj_1 w.qkv_1" + kNorms},
       {"L1.qkv bwd s1", "w.proj_1 w.qkv_1" + kNorms +
                             " d.ln1_0 L0.d.fc2_0 L0.d.act_0 L0.d.fc1_0 L0.w.fc2_0 L0.w.fc1_0"}});
}

TEST(OverlapTest, DominoRowHidesTheEndsOfThePassesUnderTheOtherSlice) {
  ExpectWindows(LayoutOf("domino_row", 1),
                {{"embed fwd s0", "embed_1"},
                 {"embed fwd s1", "position_0 L0.ln1_0 L0.qkv_0 L0.attention_0 L0.proj_0"},
                 {"L0.fc2 fwd s1", "res2_0 final_norm_0 head_0 max_0"},
                 {"max fwd s0", "L0.res2_1 final_norm_1 head_1 max_1"},
                 {"sum fwd s1", "d.loss_0 d.head_0 w.head_0"},
                 {"head bwd s0", "w.head_0 d.loss_1 d.head_1 w.head_1 loss_0 loss_1"}});
}

TEST(OverlapTest, DominoRowWithGathersPutsOneSlicesNormBeforeTheOthersLastProduct) {
  Layout layout = LayoutOf("domino_row", 3);
  layout.sequence_parallel = true;
  ExpectWindows(layout,
                {{"L1.ln1 fwd s1", "proj_0"},
                 {"L1.proj fwd s0", "qkv_1 attention_1"},
                 {"L1.ln2 fwd s0", "proj_1"},
                 {"L1.proj fwd s1", "fc1_0 act_0"},
                 {"L1.ln2 fwd s1", "fc2_0"},
                 {"L1.fc2 fwd s0", "fc1_1 act_1"},
                 {"L2.ln1 fwd s0", "L1.fc2_1"},
                 {"L1.fc2 fwd s1", "L2.qkv_0 L2.attention_0"},
                 {"L1.res2 bwd s1", "d.fc1_0 w.fc2_0 w.fc1_0"},
                 {"L1.fc1 bwd s0", "w.fc2_0 w.fc1_0 d.fc2_1 d.act_1"},
                 {"L1.res1 bwd s0", "d.fc1_1 w.fc2_1 w.fc1_1"},
                 {"L1.fc1 bwd s1", "w.fc2_1 w.fc1_1 d.proj_0 d.attention_0"},
                 {"L1.res1 bwd s1", "d.qkv_0 w.proj_0 w.qkv_0"},
                 {"L1.qkv bwd s0", "w.proj_0 w.qkv_0 d.proj_1 d.attention_1"},
                 {"L0.res2 bwd s0",
                  "L1.d.qkv_1 L1.w.proj_1 L1.w.qkv_1 L1.w.ln2_0 "
                  "L1.w.ln2_1 L2.w.ln1_0 L2.w.ln1_1"},
                 {"L1.qkv bwd s1", "w.proj_1 w.qkv_1" + kNorms + " L0.d.fc2_0 L0.d.act_0"}});
}

TEST(OverlapTest, DominoRowRecomputesTheLayerOfOneSliceUnderTheOthersCollective) {
  Layout layout = LayoutOf("domino_row", 3);
  layout.recompute = Recompute::kFull;
  ExpectWindows(layout, {{"L1.proj rec s0", "r.ln1_1 r.qkv_1 r.attention_1 r.proj_1"},
                         {"L1.proj rec s1",
                          "r.res1_0 r.ln2_0 r.fc1_0 r.act_0 L2.d.ln1_0 d.fc2_0 d.act_0 d.fc1_0 "
                          "w.fc2_0 w.fc1_0"}});
}

TEST(OverlapTest, DominoColHidesEachPieceUnderTheProductOfTheNext) {
  ExpectWindows(LayoutOf("domino_col", 3),
                {{"L1.proj fwd s0", "proj_0", 0},
                 {"L1.proj fwd s0", "", 1},
                 {"L1.fc2 fwd s0", "fc2_0", 0},
                 {"L1.fc2 fwd s0", "", 1},
                 {"L1.fc1 bwd s0", "d.fc1_0 w.fc2_0 w.fc1_0", 0},
                 {"L1.fc1 bwd s0", "w.fc2_0 w.fc1_0", 1},
                 {"L1.qkv bwd s0", "d.qkv_0 w.proj_0 w.qkv_0" + kNorm, 0},
                 {"L1.qkv bwd s0", "w.proj_0 w.qkv_0" + kNorm, 1}});
}

TEST(OverlapTest, DominoHybridHasAPieceUnderWayBeforeTheLastIsComputed) {
  const Layout layout = LayoutOf("domino_hybrid", 3);
  ExpectWindows(layout,
                {{"L1.proj fwd s0", "proj_0 L0.res2_1 ln1_1 qkv_1 attention_1 proj_1", 0},
                 {"L1.proj fwd s0", "L0.res2_1 ln1_1 qkv_1 attention_1 proj_1", 1},
                 {"L1.fc2 fwd s1", "fc2_1 res2_0 L2.ln1_0 L2.qkv_0 L2.attention_0 L2.proj_0", 0},
                 {"L1.fc1 bwd s1",
                  "d.fc1_1 w.fc2_1 w.fc1_1 d.ln2_0 d.proj_0 d.attention_0 d.qkv_0 "
                  "w.proj_0 w.qkv_0",
                  0}});
}

void ExpectAProductUnderEveryCollectiveOfTheMiddleLayer(const Layout& layout) {
  const Positions at(PlanOf(layout).program);
  for (OpId i : at.program().ops.ids()) {
    const Op& op = at.op(i);
    if (!IsCollective(op.kind) || op.tag.layer != 1) continue;
    const std::string under = at.Under(i);
    bool product = false;
    for (const char* word : {"qkv", "attention", "proj", "fc1", "fc2"})
      product = product || under.find(word) != std::string::npos;
    EXPECT_TRUE(product) << Describe(layout) << ": " << PrintTag(op.tag) << " under " << under;
  }
}

// However many slices, whatever the family.
TEST(OverlapTest, OurSchedulesKeepAProductUnderEveryCollectiveOfALayer) {
  for (Layout layout : EverySchedule(1)) {
    if (layout.schedule != "domino_row" && layout.schedule != "domino_hybrid") continue;
    layout.layers = 3;
    for (const std::vector<int>& slices : {std::vector<int>{1, 1}, {3, 1}, {1, 2, 1}}) {
      layout.slices = slices;
      ExpectAProductUnderEveryCollectiveOfTheMiddleLayer(layout);
    }
  }
}

}  // namespace
}  // namespace stretto
