// SPDX-License-Identifier: Apache-2.0

// Which operations backward computes again, and from what.

#include <algorithm>
#include <map>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/schedule/positions.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Layout Recomputing(Recompute recompute, Family family = Family::kGpt,
                   bool sequence_parallel = false) {
  Layout layout = Domino({1, 2});
  layout.family = family;
  layout.sequence_parallel = sequence_parallel;
  layout.recompute = recompute;
  return layout;
}

// The micro-batch in canonical order.
struct Canonical {
  explicit Canonical(const Layout& layout)
      : step(PlanOf(layout, 0, Variant::kSerialOracle).step),
        ops(step.units[FindUnit(step, kMicroBatchUnit)].ops) {}

  const Buffer& RootBuffer(BufferId id) const {
    return step.buffers[RootOf(step.buffers, id).buffer];
  }
  // Words of one phase, layer and slice, "[all_reduce]" behind that of a collective.
  std::vector<std::string> Words(Phase phase, int layer, int slice) const {
    std::vector<std::string> words;
    for (const Op& op : ops) {
      if (op.tag.phase != phase || op.tag.layer != layer || op.tag.slice != slice) continue;
      const std::string kind = InfoOf(op.kind).name;
      words.push_back(op.tag.name + (IsCollective(op.kind) ? "[" + kind + "]" : ""));
    }
    return words;
  }

  StepProgram step;
  std::vector<Op> ops;
};

TEST(RecomputeTest, NoneComputesNothingAgain) {
  for (const Op& op : Canonical(Recomputing(Recompute::kNone)).ops)
    EXPECT_NE(op.tag.phase, Phase::kRecompute) << PrintTag(op.tag);
}

TEST(RecomputeTest, SelectiveTakesNormsAndActivationFunctionsOnly) {
  for (Family family : EveryFamily()) {
    const Canonical plain(Recomputing(Recompute::kSelective, family));
    EXPECT_THAT(plain.Words(Phase::kRecompute, 1, 0), ElementsAre("act", "ln2", "ln1"));
    EXPECT_THAT(plain.Words(Phase::kRecompute, 0, 1), ElementsAre("act", "ln2", "ln1"));
    EXPECT_THAT(plain.Words(Phase::kRecompute, -1, 0), IsEmpty());
    // What a norm leaves has been through a collective, which is not repeated.
    const Canonical gathered(Recomputing(Recompute::kSelective, family, true));
    EXPECT_THAT(gathered.Words(Phase::kRecompute, 1, 0), ElementsAre("act"));
  }
}

TEST(RecomputeTest, FullTakesALayerButItsLastProduct) {
  const Canonical gpt(Recomputing(Recompute::kFull));
  EXPECT_THAT(gpt.Words(Phase::kRecompute, 1, 1),
              ElementsAre("ln1", "qkv", "attention", "proj", "proj[all_reduce]", "res1", "ln2",
                          "fc1", "act"));
  const Canonical llama(Recomputing(Recompute::kFull, Family::kLlama, true));
  EXPECT_THAT(llama.Words(Phase::kRecompute, 0, 0),
              ElementsAre("ln1", "ln1[all_gather]", "qkv", "qkv", "attention", "proj",
                          "proj[reduce_scatter]", "res1", "ln2", "ln2[all_gather]", "fc1", "act"));
  for (const Canonical& canonical : {gpt, llama})
    EXPECT_THAT(canonical.Words(Phase::kRecompute, -1, 0), IsEmpty());
}

// A clone differs from its original in phase and buffers alone: dropout draws the same numbers.
TEST(RecomputeTest, AClonedOperationIsItsOriginalOnCopies) {
  for (Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
    Layout layout = Recomputing(recompute, Family::kLlama, true);
    layout.dropout = 0.25;
    const Canonical canonical(layout);
    std::multiset<std::string> forward;
    const auto text = [&](const Op& op) {
      Tag tag = op.tag;
      tag.phase = Phase::kForward;
      std::string line = std::string(InfoOf(op.kind).name) + " " + PrintTag(tag);
      for (int64_t attribute : op.attributes) line += " " + std::to_string(attribute);
      for (const BufferList* ids : {&op.in, &op.out}) {
        for (BufferId id : *ids) {
          const std::string& name = canonical.step.buffers[id].name;
          line += " " + name.substr(0, name.find(".again"));
        }
      }
      return line;
    };
    for (const Op& op : canonical.ops) {
      if (op.tag.phase == Phase::kForward) forward.insert(text(op));
    }
    int clones = 0;
    for (const Op& op : canonical.ops) {
      if (op.tag.phase != Phase::kRecompute) continue;
      ++clones;
      EXPECT_EQ(forward.count(text(op)), 1u) << text(op);
    }
    EXPECT_GT(clones, 0);
  }
}

// What backward and its recomputation read of a layer's forward is what is kept.
TEST(RecomputeTest, BackwardReadsNoForwardBufferThatIsComputedAgain) {
  for (Family family : EveryFamily()) {
    for (bool sequence_parallel : {false, true}) {
      const Canonical canonical(Recomputing(Recompute::kFull, family, sequence_parallel));
      std::map<std::string, std::string> writer;  // of a root buffer, in a layer's forward
      std::set<std::string> read;
      for (const Op& op : canonical.ops) {
        const bool forward = op.tag.phase == Phase::kForward;
        for (BufferId id : op.out) {
          if (forward && op.tag.layer >= 0) writer[canonical.RootBuffer(id).name] = op.tag.name;
        }
        for (BufferId id : op.in) {
          if (!forward) read.insert(canonical.RootBuffer(id).name);
        }
      }
      int kept = 0;
      for (const std::string& name : read) {
        const auto it = writer.find(name);
        if (it == writer.end()) continue;
        EXPECT_EQ(it->second, "res2") << name;  // the input of the layer above
        EXPECT_FALSE(read.contains(name + ".again")) << name;
        ++kept;
      }
      EXPECT_EQ(kept, 2 * 2);  // of two layers and two slices: x of layer 1, and final_x
    }
  }
}

TEST(RecomputeTest, SelectiveReadsEachKeptOrCopiedNeverBoth) {
  const Canonical canonical(Recomputing(Recompute::kSelective));
  std::set<std::string> read;
  for (const Op& op : canonical.ops) {
    if (op.tag.phase == Phase::kForward) continue;
    for (BufferId id : op.in) read.insert(canonical.RootBuffer(id).name);
  }
  for (const char* name : {"L1.y1.s0", "L1.a.s1", "L0.y2.s0"}) {
    EXPECT_TRUE(read.contains(std::string(name) + ".again")) << name;
    EXPECT_FALSE(read.contains(name)) << name;
  }
  for (const char* name : {"L1.qkv.s0", "L1.u.s1", "L0.x2.s0"}) EXPECT_TRUE(read.contains(name));
}

TEST(RecomputeTest, ClonesStandInFrontOfTheirFirstUse) {
  for (Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
    const Canonical canonical(Recomputing(recompute));
    std::set<BufferId> fresh;  // written since the last operation of backward
    for (const Op& op : canonical.ops) {
      if (op.tag.phase == Phase::kRecompute) {
        fresh.insert(op.out.begin(), op.out.end());
        continue;
      }
      const bool uses =
          std::any_of(op.in.begin(), op.in.end(), [&](BufferId id) { return fresh.contains(id); });
      EXPECT_TRUE(fresh.empty() || uses) << PrintTag(op.tag);
      fresh.clear();
    }
  }
}

TEST(RecomputeTest, EverySliceOfAMergedBufferIsComputedAgain) {
  Layout layout = Recomputing(Recompute::kSelective);
  layout.merge_wgrads = 1;
  const Canonical canonical(layout);
  for (int slice : {0, 1}) {
    std::vector<std::string> words = canonical.Words(Phase::kRecompute, 1, slice);
    std::sort(words.begin(), words.end());
    EXPECT_THAT(words, ElementsAre("act", "ln1", "ln2")) << slice;
  }
}

}  // namespace
}  // namespace stretto
