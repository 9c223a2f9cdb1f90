// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/reshard/program/emit.h"

#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_ops.h"
#include "tests/worker/engine/local_groups.h"
#include "tests/worker/engine/reshard/cases.h"
#include "worker/comm/delayed.h"
#include "worker/engine/exec/backend_cpu/cpu_executor.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;

using Programs = IdVector<Rank, ReshardProgram>;

constexpr LinkCost kLink = {.bytes_per_second = 25e6, .latency_seconds = 1e-5};
constexpr ReshardMode kModes[] = {ReshardMode::kSend, ReshardMode::kChain, ReshardMode::kGather,
                                  ReshardMode::kAuto};

Resharding PlanOf(const ReshardCase& at, const ReshardRules& rules = {}) {
  return *PlanResharding(at.source, at.target, at.topology, kLink, 4, rules);
}

absl::StatusOr<Programs> ProgramsOf(const ReshardCase& at, const Resharding& plan) {
  return BuildReshardPrograms(plan, at.source, at.target, DType::kI32,
                              static_cast<int>(at.topology.node.size()));
}

// Calls `visit` with each element of a tile, in the order of its memory, and the element of the
// tensor that it is, counted from 1.
void ForEachElement(const Tiling& tiling, const Tile& tile,
                    const std::function<void(int64_t at, int32_t value)>& visit) {
  for (int64_t at = 0; at < VolumeOf(tile.box); ++at) {
    int64_t rest = at, element = 0, stride = 1;
    for (int d = std::ssize(tiling.shape) - 1; d >= 0; --d) {
      element += (tile.box.starts[d] + rest % tile.box.extents[d]) * stride;
      rest /= tile.box.extents[d];
      stride *= tiling.shape[d];
    }
    visit(at, static_cast<int32_t>(element + 1));
  }
}

// Runs the programs of all ranks in threads, with collectives that take random times. Describes
// the first element of a receiver that is not the tensor's; empty if there is none.
std::string FirstWrong(const ReshardCase& at, const Programs& programs, uint64_t seed) {
  const std::unique_ptr<Ops> ops = MakeCpuOps();
  LocalGroups groups;
  std::vector<std::unique_ptr<Communicator>> communicators;
  IdVector<Rank, std::unique_ptr<Executor>> executors;
  for (Rank rank : programs.ids()) {
    CpuExecutorOptions options;
    for (const Group& group : programs[rank].program.groups) {
      communicators.push_back(std::make_unique<DelayedCommunicator>(groups.Join(group, rank), seed,
                                                                    absl::Microseconds(30)));
      options.communicators.push_back(communicators.back().get());
    }
    executors.push_back(*MakeCpuExecutor(programs[rank].program, programs[rank].arenas, ops.get(),
                                         std::move(options)));
  }
  for (const Tile& tile : at.source.tiles) {
    for (Rank rank : tile.ranks) {
      auto* in = executors[rank]->HostView(programs[rank].in).as<int32_t>();
      ForEachElement(at.source, tile, [&](int64_t i, int32_t value) { in[i] = value; });
    }
  }
  std::vector<absl::Status> statuses(executors.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < executors.size(); ++i) {
    threads.emplace_back([&, i] { statuses[i] = executors[Rank::Of(i)]->Run(); });
  }
  for (std::thread& thread : threads) thread.join();
  std::string wrong;
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status.ToString();
  }
  for (const Tile& tile : at.target.tiles) {
    for (Rank rank : tile.ranks) {
      const auto* out = executors[rank]->HostView(programs[rank].out).as<int32_t>();
      ForEachElement(at.target, tile, [&](int64_t i, int32_t value) {
        if (out[i] == value || !wrong.empty()) return;
        wrong = absl::StrCat("rank ", rank.value(), " element ", i, ": found ", out[i],
                             ", expected ", value);
      });
    }
  }
  return wrong;
}

// A small shape that both meshes divide.
std::vector<int64_t> ShapeOf(const std::vector<int>& from, const Splits& source,
                             const std::vector<int>& to, const Splits& target) {
  const auto parts = [](const std::vector<int>& mesh, const std::vector<int>& axes) {
    int64_t product = 1;
    for (int axis : axes) product *= mesh[axis];
    return product;
  };
  std::vector<int64_t> shape;
  for (size_t d = 0; d < source.size(); ++d) {
    shape.push_back(2 * std::lcm(parts(from, source[d]), parts(to, target[d])));
  }
  return shape;
}

// Every pair of specs, on meshes up to 3 x 4 and with rules that a seed draws. The target's mesh is
// behind the source's, or shares some of its ranks.
TEST(EmitReshardTest, EveryReceiverGetsTheSliceOfTheGatheredTensor) {
  std::mt19937 random(20221);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const std::vector<std::vector<int>> meshes = AllMeshes();
  int packed = 0, gathered = 0, kept = 0;
  for (const Splits& source : AllSplits()) {
    for (const Splits& target : AllSplits()) {
      const std::vector<int>&from = meshes[below(meshes.size())],
            &to = meshes[below(meshes.size())];
      ReshardCase at = CaseOf(from, source, to, target, ShapeOf(from, source, to, target));
      if (below(4) == 0) {
        at.to.first = Rank::Of(below(at.from.size()));
        at.target = *TilingOf(at.to, at.target.shape, target);
      }
      const ReshardRules rules = {
          .mode = kModes[below(4)], .balances = below(4) > 0, .orders = below(4) > 0};
      const auto programs = ProgramsOf(at, PlanOf(at, rules));
      ASSERT_TRUE(programs.ok()) << programs.status();
      ASSERT_EQ(FirstWrong(at, *programs, random()), "");
      for (const ReshardProgram& rank : *programs) {
        for (const Op& op : rank.program.ops) {
          packed += op.tag.name == "pack" ? 1 : 0;
          kept += op.tag.name == "keep" ? 1 : 0;
          gathered += op.kind == OpKind::kAllGather ? 1 : 0;
        }
      }
    }
  }
  // The draws reach every kind of operation.
  EXPECT_GT(packed, 0);
  EXPECT_GT(kept, 0);
  EXPECT_GT(gathered, 0);
}

// The program of the only rank of the target, which text.h can read.
std::string TextOf(const ReshardCase& at) {
  const std::string text = Print((*ProgramsOf(at, PlanOf(at)))[Rank::Of(at.from.size())].program);
  EXPECT_EQ(Print(*Parse(text)), text);
  return text;
}

TEST(EmitReshardTest, ReceivesIntoTheTileWhereTheBoxIsContiguous) {
  EXPECT_EQ(TextOf(CaseOf({2, 1}, {{0}, {}}, {1, 1}, {{}, {}}, {4, 6})),
            "program rank=2 world=3\n"
            "group reshard.0-2 0,2\n"
            "group reshard.1-2 1,2\n"
            "lane compute\n"
            "lane comm.reshard\n"
            "buffer %0 out i32 4,6 output @0\n"
            "buffer %1 out+0 i32 2,6 output alias=%0+0\n"
            "buffer %2 out+12 i32 2,6 output alias=%0+12\n"
            "0 comm.reshard recv chain fwd s0 out=%1 on=reshard.0-2\n"
            "1 comm.reshard recv chain fwd s1 out=%2 on=reshard.1-2\n");
}

TEST(EmitReshardTest, UnpacksOtherBoxesUnderTheNextTransfer) {
  EXPECT_EQ(TextOf(CaseOf({2, 1}, {{}, {0}}, {1, 1}, {{}, {}}, {4, 6})),
            "program rank=2 world=3\n"
            "group reshard.0-2 0,2\n"
            "group reshard.1-2 1,2\n"
            "lane compute\n"
            "lane comm.reshard\n"
            "buffer %0 out i32 4,6 output @0\n"
            "buffer %1 received.0 i32 4,3 activation @0\n"
            "buffer %2 received.1 i32 4,3 activation @64\n"
            "0 comm.reshard recv chain fwd s0 out=%1 on=reshard.0-2\n"
            "1 compute copy_box unpack fwd s0 in=%1 out=%0 n0=4 n1=3 n2=1 n3=1 wait=0\n"
            "2 comm.reshard recv chain fwd s1 out=%2 on=reshard.1-2\n"
            "3 compute copy_box unpack fwd s1 in=%2 out=%0 y1=3 n0=4 n1=3 n2=1 n3=1 wait=2\n");
}

// Both halves of a box on a node, exchanged there.
TEST(EmitReshardTest, AGatherOfLeadingPartsNeedsNoCopy) {
  const ReshardCase at = CaseOf({1, 1}, {{}, {}}, {1, 2}, {{}, {}}, {4, 6});
  const Programs programs = *ProgramsOf(at, PlanOf(at, {.mode = ReshardMode::kGather}));
  for (const Op& op : programs[Rank(1)].program.ops) EXPECT_NE(op.kind, OpKind::kCopyBox);
  EXPECT_EQ(programs[Rank(1)].program.ops.back().kind, OpKind::kAllGather);
}

TEST(EmitReshardTest, APlanThatLosesAStepIsRefused) {
  const ReshardCase at = CaseOf({2, 2}, {{}, {0}, {}}, {2, 2}, {{0}, {}, {}}, {24, 12, 12});
  const Resharding plan = PlanOf(at);
  for (size_t lost = 0; lost < plan.steps.size(); ++lost) {
    Resharding broken = plan;
    broken.steps.erase(broken.steps.begin() + static_cast<std::ptrdiff_t>(lost));
    EXPECT_THAT(std::string(ProgramsOf(at, broken).status().message()), HasSubstr("elements"));
  }
}

// A transfer that is not its peers' is found together with their programs; a copy from or to a
// wrong place by what arrives.
TEST(EmitReshardTest, MutantsOfProgramsAreFound) {
  const ReshardCase at = CaseOf({2, 2}, {{}, {0}, {}}, {2, 2}, {{0}, {}, {}}, {24, 12, 12});
  const Programs programs = *ProgramsOf(at, PlanOf(at));
  ASSERT_EQ(FirstWrong(at, programs, 1), "");
  int swapped = 0, moved = 0;
  for (Rank rank : programs.ids()) {
    for (OpId id : programs[rank].program.ops.ids()) {
      Programs broken = programs;
      Op& op = broken[rank].program.ops[id];
      if (op.group >= 0) {
        std::vector<Program> all;
        for (const ReshardProgram& of_rank : broken) all.push_back(of_rank.program);
        all[rank.position()].ops[id].tag.slice += 1;
        EXPECT_FALSE(VerifyRanks(all).ok()) << PrintOp(programs[rank].program, id);
        ++swapped;
      } else {
        const bool packs = op.tag.name == "pack";
        int64_t& start = op.attributes[packs ? 1 : 5];  // the second dimension, in the tile
        start = start == 0 ? 6 : 0;
        EXPECT_TRUE(Verify(broken[rank].program, &broken[rank].arenas).ok());
        EXPECT_NE(FirstWrong(at, broken, 1), "") << PrintOp(programs[rank].program, id);
        ++moved;
      }
    }
  }
  EXPECT_GT(swapped, 0);
  EXPECT_GT(moved, 0);
}

TEST(EmitReshardTest, RefusesMoreThanFourDimensionsAndRanksOutsideTheWorld) {
  const ReshardCase deep = CaseOf({1, 1}, Splits(5), {1, 1}, Splits(5), std::vector<int64_t>(5, 2));
  EXPECT_THAT(std::string(ProgramsOf(deep, PlanOf(deep)).status().message()),
              HasSubstr("reshard: found 5 dimensions, expected at most 4"));
  const ReshardCase at = CaseOf({1, 1}, {{}}, {1, 1}, {{}}, {8});
  EXPECT_THAT(std::string(BuildReshardPrograms(PlanOf(at), at.source, at.target, DType::kF32, 1)
                              .status()
                              .message()),
              HasSubstr("reshard: found rank 1, expected below 1"));
}

}  // namespace
}  // namespace stretto
