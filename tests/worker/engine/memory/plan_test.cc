// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/memory/plan.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/spec/pipelines.h"
#include "tests/worker/engine/program/programs.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/memory/lives.h"
#include "worker/engine/program/happens_before.h"
#include "worker/engine/program/memory_map.h"

namespace stretto {
namespace {

constexpr size_t kActivations = static_cast<size_t>(ArenaClass::kActivation);

std::vector<Layout> Layouts() {
  std::vector<Layout> layouts = ManyLayouts();
  layouts.push_back(Domino({1, 2, 1}, 2, 3));
  return layouts;
}

TEST(MemoryPlanTest, LiesBetweenWhatIsAliveAndTheSumOfBuffers) {
  for (const Layout& layout : Layouts()) {
    const RankPlan plan = PlanOf(layout);
    int64_t sum = 0;
    for (const Buffer& buffer : plan.program.buffers) {
      if (buffer.alias < 0 && buffer.arena == ArenaClass::kActivation) {
        sum += (buffer.bytes() + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
      }
    }
    EXPECT_GE(plan.arenas[kActivations], *PeakLiveActivations(plan.program)) << Describe(layout);
    EXPECT_LT(plan.arenas[kActivations], sum) << Describe(layout);
  }
}

TEST(MemoryPlanTest, StaysCloseToTheFloor) {
  for (const Layout& layout : Layouts()) {
    const RankPlan plan = PlanOf(layout);
    EXPECT_LE(static_cast<double>(plan.arenas[kActivations]),
              1.1 * static_cast<double>(*PeakLiveActivations(plan.program)))
        << Describe(layout);
  }
}

// The definition of the plan, without what makes it fast: by decreasing size, then time in use,
// each buffer has the lowest offset at which it overlaps none placed before with which it
// conflicts.
TEST(MemoryPlanTest, EveryBufferHasTheLowestGap) {
  std::vector<EngineSpec> specs;
  for (const Layout& layout :
       {Domino({1, 1}, 2, 3), LayoutOf("megatron_sync", 3), LayoutOf("helix", 3)})
    specs.push_back(SpecOf(layout));
  for (const std::string& order : PipelineNames()) {
    Layout layout = Domino({1, 1}, 9, 6);
    layout.pp_size = 2;
    specs.push_back(SpecOf(InOrder(layout, order)));
  }
  for (const EngineSpec& spec : specs) {
    const Program program = PlanOf(spec).program;
    const LiveBuffers live = LivesOf(program, *HappensBefore::Build(program));
    std::vector<BufferId> order;
    for (BufferId id : live.of.ids()) {
      if (!live.of[id].empty()) order.push_back(id);
    }
    std::stable_sort(order.begin(), order.end(), [&](BufferId a, BufferId b) {
      const auto key = [&](BufferId id) {
        int in_use = 0;
        for (const Life& life : live.of[id]) in_use += life.end - life.start;
        return std::tuple(-program.buffers[id].bytes(), -in_use, live.of[id].front().start);
      };
      return key(a) < key(b);
    });
    const auto begin = [&](BufferId id) { return program.buffers[id].offset; };
    const auto end = [&](BufferId id) {
      return begin(id) + (program.buffers[id].bytes() + kArenaAlignment - 1) / kArenaAlignment *
                             kArenaAlignment;
    };
    for (size_t i = 0; i < order.size(); ++i) {
      const BufferId id = order[i];
      // The lowest offset is 0 or the end of a buffer that conflicts.
      std::set<int64_t> candidates = {0};
      std::vector<BufferId> others;
      for (size_t j = 0; j < i; ++j) {
        if (!Conflict(live.of[order[j]], live.of[id])) continue;
        others.push_back(order[j]);
        candidates.insert(end(order[j]));
      }
      const auto fits = [&](int64_t offset) {
        return std::none_of(others.begin(), others.end(), [&](BufferId other) {
          return begin(other) < offset + end(id) - begin(id) && end(other) > offset;
        });
      };
      EXPECT_EQ(begin(id), *std::find_if(candidates.begin(), candidates.end(), fits))
          << program.buffers[id].name << " of " << spec.schedule.pipeline;
    }
  }
}

TEST(MemoryPlanTest, EveryRootIsAligned) {
  for (const Buffer& buffer : PlanOf(Domino({2, 1}, 2)).program.buffers) {
    EXPECT_TRUE(buffer.alias >= 0 || buffer.offset % kArenaAlignment == 0) << buffer.name;
  }
}

TEST(MemoryPlanTest, IsDeterministic) {
  Program first = PlanOf(Domino({2, 1}, 2)).program, second = first;
  for (Buffer& buffer : second.buffers) buffer.offset = -1;
  ASSERT_TRUE(PlanMemory(&second).ok());
  EXPECT_EQ(Print(first), Print(second));
}

// Any two operations that touch overlapping addresses of different buffers are ordered, all one
// way: the one buffer is done with before the other begins. Compared pair by pair, without the
// planner's ideas.
TEST(MemoryPlanTest, NoTwoBuffersAliveTogetherShareAnAddress) {
  for (const Layout& layout : {Layout{.schedule = "megatron_sync", .slices = {2}, .layers = 2},
                               Domino({1, 1}, 1, 2), Domino({1, 2, 1}, 1, 1)}) {
    const Program program = PlanOf(layout).program;
    const HappensBefore order = *HappensBefore::Build(program);
    IdVector<BufferId, std::vector<OpId>> accesses(program.buffers.size());
    for (OpId i : program.ops.ids()) {
      for (const BufferList* ids : {&program.ops[i].in, &program.ops[i].out}) {
        for (BufferId id : *ids) accesses[RootOf(program.buffers, id).buffer].push_back(i);
      }
    }
    auto before = [&](BufferId a, BufferId b) {
      for (OpId x : accesses[a]) {
        for (OpId y : accesses[b]) {
          if (!order.Before(x, y)) return false;
        }
      }
      return true;
    };
    const IdVector<BufferId, Region> regions = RegionsOf(program.buffers);
    int shared = 0;
    for (BufferId a : regions.ids()) {
      for (BufferId b = a + 1; b < regions.next(); ++b) {
        if (program.buffers[a].alias >= 0 || program.buffers[b].alias >= 0 ||
            !regions[a].Overlaps(regions[b]))
          continue;
        ++shared;
        EXPECT_TRUE(before(a, b) || before(b, a))
            << program.buffers[a].name << " and " << program.buffers[b].name;
      }
    }
    EXPECT_GT(shared, 0);
  }
}

TEST(MemoryPlanTest, AnOutputNeverLiesOnAnInputOfItsOperation) {
  Program program = ProgramOf(
      "program rank=0 world=1\nlane compute\n"
      "buffer %0 a f32 16 activation\nbuffer %1 b f32 16 activation\nbuffer %2 c f32 16 "
      "activation\n"
      "0 compute zero x fwd out=%0\n"
      "1 compute gelu x fwd in=%0 out=%1\n"
      "2 compute gelu x fwd in=%1 out=%2\n");
  const absl::StatusOr<ArenaBytes> arenas = PlanMemory(&program);
  ASSERT_TRUE(arenas.ok());
  EXPECT_NE(program.buffers[0].offset, program.buffers[1].offset);
  EXPECT_EQ(program.buffers[0].offset, program.buffers[2].offset);
  EXPECT_EQ((*arenas)[kActivations], 128);
}

TEST(MemoryPlanTest, AnotherLaneThatMayStartAtAnyTimeSharesNothing) {
  Program program = ProgramOf(
      "program rank=0 world=1\nlane compute\nlane copy\n"
      "buffer %0 a f32 16 activation\nbuffer %1 b f32 16 activation\n"
      "0 compute zero x fwd out=%0\n"
      "1 copy zero y fwd out=%1\n");
  ASSERT_TRUE(PlanMemory(&program).ok());
  EXPECT_NE(program.buffers[0].offset, program.buffers[1].offset);
}

TEST(MemoryPlanTest, ACycleIsAnError) {
  Program program = ProgramOf(With(kLinear, "in=%0,%1 out=%2", "in=%0,%1 out=%2 wait=1"));
  EXPECT_EQ(PlanMemory(&program).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stretto
