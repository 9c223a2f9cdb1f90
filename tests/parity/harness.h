// SPDX-License-Identifier: Apache-2.0
#pragma once
// Trains tiny models: R ranks as threads of this process, by default with local communicators and
// CPU kernels. Everything is a function of the spec and the options; batches and weights do not
// depend on schedule, slicing or TP size.

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_ops.h"
#include "tests/parity/rank.h"
#include "tests/parity/specs.h"
#include "tests/parity/tensors.h"
#include "tests/worker/engine/local_groups.h"
#include "worker/comm/delayed.h"
#include "worker/engine/exec/backend_cpu/cpu_executor.h"

namespace stretto::parity {

struct Result {
  std::vector<StepResult> steps;
  Tensors gradients, weights, moment1, moment2;  // weights: f32 masters
};

// An executor for every rank, and what they stand on.
struct Machine {
  std::vector<std::shared_ptr<void>> ground;  // outlives the executors; of several types
  std::vector<std::unique_ptr<Executor>> executors;
};
using MakeMachine = std::function<Machine(const std::vector<RankPlan>&, const Options&)>;

// Takes the communicators of its groups from `groups`.
inline Machine CpuMachineOn(LocalGroups groups, const std::vector<RankPlan>& plans,
                            const Options& options) {
  Machine machine;
  for (size_t rank = 0; rank < plans.size(); ++rank) {
    const std::shared_ptr<Ops> ops = MakeCpuOps();
    CpuExecutorOptions executor_options;
    for (const Group& group : plans[rank].program.groups) {
      std::unique_ptr<Communicator> communicator = groups.Join(group, stretto::Rank::Of(rank));
      if (options.max_delay > absl::ZeroDuration()) {
        communicator = std::make_unique<DelayedCommunicator>(std::move(communicator), options.seed,
                                                             options.max_delay);
      }
      executor_options.communicators.push_back(communicator.get());
      machine.ground.push_back(std::shared_ptr<Communicator>(std::move(communicator)));
    }
    auto executor = MakeCpuExecutor(plans[rank].program, plans[rank].arenas, ops.get(),
                                    std::move(executor_options));
    EXPECT_TRUE(executor.ok()) << executor.status();
    machine.executors.push_back(*std::move(executor));
    machine.ground.push_back(ops);
  }
  return machine;
}

inline Machine CpuMachine(const std::vector<RankPlan>& plans, const Options& options) {
  return CpuMachineOn(LocalGroups(), plans, options);
}

// All ranks of a job.
class Job {
 public:
  Job(const EngineSpec& spec, const Options& options, const MakeMachine& make = CpuMachine)
      : options_(options), micro_batches_(static_cast<size_t>(spec.micro_batches)) {
    absl::StatusOr<std::vector<RankPlan>> plans = BuildPlans(spec, options.variant);
    EXPECT_TRUE(plans.ok()) << plans.status();
    Machine machine = make(*plans, options);
    ground_ = std::move(machine.ground);
    for (size_t rank = 0; rank < plans->size(); ++rank) {
      ranks_.push_back(std::make_unique<Rank>(spec, options, (*plans)[rank],
                                              std::move(machine.executors[rank]),
                                              stretto::Rank::Of(rank)));
    }
  }

  // Every rank runs in its own thread; the first error, if any.
  absl::Status Run(int steps) {
    std::vector<absl::Status> statuses(ranks_.size());
    std::vector<std::thread> threads;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      threads.emplace_back([&, r] { statuses[r] = ranks_[r]->Run(next_step_, steps); });
    }
    for (std::thread& thread : threads) thread.join();
    next_step_ += steps;
    for (const absl::Status& status : statuses) {
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Results so far. Expects the ranks of a replica that have losses to have the same ones, all
  // ranks the same norms, and all holders of a tensor the same bits.
  Result Collect() {
    Result result{ranks_[0]->results, {}, {}, {}, {}};
    for (size_t step = 0; step < result.steps.size(); ++step) {
      StepResult& of_job = result.steps[step];
      std::vector<const Floats*> of_replica;
      for (auto& rank : ranks_) {
        const StepResult& found = rank->results[step];
        const auto replica = static_cast<size_t>(rank->replica());
        EXPECT_EQ(found.gradient_norm, of_job.gradient_norm);
        EXPECT_EQ(found.updated, of_job.updated);
        if (found.token_losses.empty()) continue;  // not of the last stage
        if (replica == of_replica.size()) of_replica.push_back(&found.token_losses);
        EXPECT_TRUE(SameBits(found.token_losses, *of_replica[replica]));
      }
      of_job.token_losses = InTurn(of_replica, micro_batches_);
      of_job.loss = 0;
      for (double loss : of_job.token_losses) of_job.loss += loss;
      of_job.loss /= static_cast<double>(of_job.token_losses.size());
    }
    auto all = [&](auto member) {
      return Gather([&](Rank& rank) { return rank.ReadAll(rank.plan().buffers.*member); });
    };
    result.gradients = Gather([](Rank& rank) { return rank.gradients; });
    result.weights = all(&StepBuffers::master);
    result.moment1 = all(&StepBuffers::moment1);
    result.moment2 = all(&StepBuffers::moment2);
    return result;
  }

  // Full tensors from what every rank updates of its shards.
  Tensors Gather(const std::function<Tensors(Rank&)>& updated_of) {
    Tensors full;
    std::vector<std::vector<bool>> known;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const Tensors tensors = updated_of(*ranks_[r]);
      for (size_t i = 0; i < tensors.size(); ++i) {
        const Parameter& parameter = ranks_[r]->parameters()[i];
        const auto index = static_cast<size_t>(parameter.index);
        full.resize(std::max(full.size(), index + 1));
        known.resize(full.size());
        full[index].resize(CountOf(parameter));
        known[index].resize(full[index].size());
        const auto* value = tensors[i].data();
        size_t differ = 0;
        for (const Parameter& box : BoxesOf(parameter, ranks_[r]->plan().buffers.updated[i])) {
          ForEach(box, [&](int64_t element, size_t) {
            float& placed = full[index][static_cast<size_t>(element)];
            if (known[index][static_cast<size_t>(element)])
              differ += std::memcmp(&placed, value, sizeof placed) != 0;
            known[index][static_cast<size_t>(element)] = true;
            placed = *value++;
          });
        }
        EXPECT_EQ(differ, 0u) << parameter.name << " of rank " << r;
      }
    }
    for (const std::vector<bool>& elements : known)
      EXPECT_EQ(std::count(elements.begin(), elements.end(), false), 0);
    return full;
  }

  // Sets one element of the full tensor of a parameter, wherever its shards are. Without ZeRO.
  void SetWeight(size_t parameter, int64_t element, float value) {
    for (auto& rank : ranks_) {
      for (size_t i = 0; i < rank->parameters().size(); ++i) {
        if (rank->parameters()[i].index != static_cast<int>(parameter)) continue;
        Floats shard = rank->Read(rank->plan().buffers.master[i]);
        ForEach(rank->parameters()[i], [&](int64_t full, size_t local) {
          if (full == element) shard[local] = value;
        });
        rank->SetWeight(i, shard);
      }
    }
  }

  Rank& rank(size_t index) { return *ranks_[index]; }
  size_t size() const { return ranks_.size(); }

 private:
  // The losses of replicas, a micro-batch of each in turn.
  static Floats InTurn(const std::vector<const Floats*>& of_replica, size_t micro_batches) {
    Floats all;
    for (size_t mb = 0; mb < micro_batches; ++mb) {
      for (const Floats* losses : of_replica) {
        const auto size = static_cast<std::ptrdiff_t>(losses->size() / micro_batches);
        const auto first = losses->begin() + static_cast<std::ptrdiff_t>(mb) * size;
        all.insert(all.end(), first, first + size);
      }
    }
    return all;
  }

  static size_t CountOf(const Parameter& parameter) {
    int64_t count = 1;
    for (int64_t extent : parameter.shape) count *= extent;
    return static_cast<size_t>(count);
  }

  // visit(element of the full tensor, element of the shard)
  static void ForEach(const Parameter& p, const std::function<void(int64_t, size_t)>& visit) {
    std::vector<int64_t> at(p.shape.size(), 0);
    for (size_t local = 0; local < static_cast<size_t>(p.count()); ++local) {
      int64_t element = 0;
      for (size_t d = 0; d < at.size(); ++d) element = element * p.shape[d] + p.starts[d] + at[d];
      visit(element, local);
      for (size_t d = at.size(); d-- > 0;) {
        if (++at[d] < p.extents[d]) break;
        at[d] = 0;
      }
    }
  }

  const Options options_;
  const size_t micro_batches_;  // of every rank
  int next_step_ = 0;
  std::vector<std::shared_ptr<void>> ground_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

inline Result Train(const EngineSpec& spec, const Options& options,
                    const MakeMachine& make = CpuMachine) {
  Job job(spec, options, make);
  const absl::Status status = job.Run(options.steps);
  EXPECT_TRUE(status.ok()) << status;
  return status.ok() ? job.Collect() : Result{};
}

}  // namespace stretto::parity
