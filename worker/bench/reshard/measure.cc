// SPDX-License-Identifier: Apache-2.0

// Every rank plans every case and keeps its own program. The groups of a program are connected in
// the order of the plan, which is the same on all ranks. One run opens the connections' windows and
// touches the memory; the others are timed, each on a link whose token bucket was drained. After
// every run the ranks compare what they received.

#include "worker/bench/reshard/measure.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/cpu/cpu_ops.h"
#include "proto/base/status_macros.h"
#include "worker/bench/options/reshard_cases.h"
#include "worker/bench/overlap/drain_link.h"
#include "worker/bench/overlap/file_store.h"
#include "worker/comm/gloo/gloo_communicator.h"
#include "worker/engine/cost/median.h"
#include "worker/engine/exec/backend_cpu/cpu_executor.h"
#include "worker/engine/reshard/program/emit.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::bench {
namespace {

constexpr int64_t kElementBytes = 4;

double BytesPerSecond(const ReshardOptions& options) {
  return kPayloadShare * options.gbps * 1e9 / 8;
}

// Calls `visit` with each element of a box, in row-major order, and its number in the tensor, from
// 1.
template <class Visit>
void ForEachElement(const std::vector<int64_t>& shape, const Box& box, const Visit& visit) {
  int64_t at = 0;
  for (int64_t i = box.starts[0]; i < box.starts[0] + box.extents[0]; ++i) {
    for (int64_t j = box.starts[1]; j < box.starts[1] + box.extents[1]; ++j) {
      const int64_t row = (i * shape[1] + j) * shape[2] + box.starts[2];
      for (int64_t k = 0; k < box.extents[2]; ++k) visit(at++, static_cast<int32_t>(row + k + 1));
    }
  }
}

const Box* BoxOn(const Tiling& tiling, Rank rank) {
  for (const Tile& tile : tiling.tiles) {
    if (std::find(tile.ranks.begin(), tile.ranks.end(), rank) != tile.ranks.end()) return &tile.box;
  }
  return nullptr;
}

class ReshardMeasurement {
 public:
  ReshardMeasurement(const ReshardOptions& options,
                     const std::function<void(const std::string&)>& say)
      : options_(options),
        say_(say),
        rank_(Rank::Of(options.ranks.rank)),
        shape_(ReshardShape(options.mebibytes)),
        store_(options.ranks.rendezvous) {}

  absl::StatusOr<std::vector<ReshardResult>> Run() {
    ASSIGN_OR_RETURN(network_, OpenGlooNetwork(options_.ranks.address));
    ASSIGN_OR_RETURN(control_, Connect("control", kReshardRanks, options_.ranks.rank));
    std::vector<ReshardResult> results;
    for (const std::string& name : options_.cases) {
      for (const NamedRules& rules : options_.rules) {
        ASSIGN_OR_RETURN(results.emplace_back(), Measure(FindReshardCase(name), rules));
        say_(absl::StrFormat("%s, %s, %s, %s: %.3f s", name, rules.mode, rules.senders, rules.order,
                             results.back().median()));
      }
    }
    return results;
  }

 private:
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(const std::string& name, int size,
                                                        int rank) {
    return GlooCommunicator::Connect(
        {.rank = rank, .size = size, .store = &store_, .prefix = name, .network = network_});
  }

  absl::StatusOr<Resharding> PlanOf(const Tiling& from, const Tiling& to, double latency_us,
                                    const ReshardRules& rules) const {
    return PlanResharding(
        from, to, ReshardTopology(),
        {.bytes_per_second = BytesPerSecond(options_), .latency_seconds = latency_us * 1e-6},
        kElementBytes, rules);
  }

  absl::StatusOr<ReshardResult> Measure(const ReshardCase& at, const NamedRules& rules) {
    ASSIGN_OR_RETURN(const Tiling from, TilingOf(at.from, shape_, at.source));
    ASSIGN_OR_RETURN(const Tiling to, TilingOf(at.to, shape_, at.target));
    ASSIGN_OR_RETURN(const Resharding plan, PlanOf(from, to, options_.latency_us, rules.rules));
    ASSIGN_OR_RETURN(const Resharding ideal, PlanOf(from, to, 0, {.mode = ReshardMode::kChain}));
    ASSIGN_OR_RETURN(const Resharding plain, PlanOf(from, to, 0, {.mode = ReshardMode::kSend}));
    ReshardResult result{.name = at.name,
                         .rules = rules,
                         .runs = {},
                         .planned_seconds = plan.makespan_seconds,
                         .bound_seconds = ideal.bound_seconds,
                         .plain = {}};
    for (const Step& step : plain.steps) {
      result.plain.push_back(
          {step.ranks[0].value(), step.ranks[1].value(), VolumeOf(step.box) * kElementBytes});
    }
    ASSIGN_OR_RETURN(auto programs,
                     BuildReshardPrograms(plan, from, to, DType::kI32, kReshardRanks));
    ReshardProgram& mine = programs[rank_];
    const std::string number = absl::StrCat(connected_++);
    std::vector<std::unique_ptr<Communicator>> groups;
    CpuExecutorOptions executor_options;
    for (const Group& group : mine.program.groups) {
      const auto place = std::find(group.ranks.begin(), group.ranks.end(), rank_);
      ASSIGN_OR_RETURN(
          groups.emplace_back(),
          Connect(absl::StrCat(number, ".", group.name), static_cast<int>(std::ssize(group.ranks)),
                  static_cast<int>(place - group.ranks.begin())));
      executor_options.communicators.push_back(groups.back().get());
    }
    ASSIGN_OR_RETURN(const auto executor, MakeCpuExecutor(mine.program, mine.arenas, ops_.get(),
                                                          std::move(executor_options)));
    Fill(from, mine.in, *executor);
    for (int run = 0; run <= options_.ranks.repeats; ++run) {
      ASSIGN_OR_RETURN(const double seconds, TimeOf(to, mine.out, *executor, at.name));
      if (run > 0) result.runs.push_back(seconds);
    }
    return result;
  }

  void Fill(const Tiling& from, BufferId in, Executor& executor) const {
    const Box* box = BoxOn(from, rank_);
    if (box == nullptr) return;
    auto* values = executor.HostView(in).as<int32_t>();
    ForEachElement(shape_, *box, [&](int64_t at, int32_t value) { values[at] = value; });
  }

  absl::StatusOr<double> TimeOf(const Tiling& to, BufferId out, Executor& executor,
                                const std::string& name) {
    const Box* box = BoxOn(to, rank_);
    if (box != nullptr) {
      const TensorView view = executor.HostView(out);
      std::memset(view.data, 0, static_cast<size_t>(view.bytes()));
    }
    RETURN_IF_ERROR(DrainLink(*control_));
    const int64_t begin = NowNanoseconds();
    RETURN_IF_ERROR(executor.Run());
    const double mine = static_cast<double>(NowNanoseconds() - begin) * 1e-9;
    int64_t wrong = 0;
    if (box != nullptr) {
      const auto* values = executor.HostView(out).as<int32_t>();
      ForEachElement(shape_, *box,
                     [&](int64_t at, int32_t value) { wrong += values[at] != value ? 1 : 0; });
    }
    ASSIGN_OR_RETURN(const auto all,
                     trainer::ExchangeNumbers(*control_, {mine, static_cast<double>(wrong)}));
    double slowest = 0;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      slowest = std::max(slowest, all[rank][0]);
      if (all[rank][1] == 0) continue;
      return absl::InternalError(absl::StrCat(name, ": found ", all[rank][1],
                                              " wrong elements on rank ", rank, ", expected none"));
    }
    return slowest;
  }

  const ReshardOptions& options_;
  const std::function<void(const std::string&)>& say_;
  const Rank rank_;
  const std::vector<int64_t> shape_;
  const std::unique_ptr<Ops> ops_ = MakeCpuOps();
  FileStore store_;
  GlooNetwork network_;
  std::unique_ptr<Communicator> control_;
  int connected_ = 0;  // names the groups of a measurement
};

}  // namespace

double ReshardResult::median() const { return MedianOf(runs); }

double WireSeconds(const ReshardOptions& options) {
  return options.mebibytes * 1048576.0 / BytesPerSecond(options);
}

absl::StatusOr<std::vector<ReshardResult>> MeasureReshard(
    const ReshardOptions& options, const std::function<void(const std::string&)>& say) {
  return ReshardMeasurement(options, say).Run();
}

}  // namespace stretto::bench
