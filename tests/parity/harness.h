#pragma once
// Trains tiny models: R ranks as threads of this process, local communicators, CPU kernels. Everything is a function of
// the spec and the options; batches and weights do not depend on schedule, slicing or TP size.

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "kernels/bf16.h"
#include "kernels/cpu/cpu_ops.h"
#include "proto/base/random.h"
#include "worker/comm/delayed.h"
#include "worker/comm/local/local.h"
#include "worker/engine/exec/backend_cpu/cpu_executor.h"
#include "worker/engine/schedule/plan.h"

namespace stretto::parity {

using Floats = std::vector<float>;
using Tensors = std::vector<Floats>;  // full tensors in ParametersOf order

struct Options {
  Variant variant = Variant::kSchedule;
  int steps = 1;
  uint64_t seed = 1;
  double learning_rate = 1e-3, weight_decay = 0.1, clip_norm = 1.0;
  absl::Duration max_delay = absl::ZeroDuration();  // of collectives, random
  int gradients_of_step = -1;                       // -1: the last
  bool same_batch = false;                          // every step sees the tokens of step 0
};

struct StepResult {
  double loss = 0;      // mean over tokens, summed in f64
  Floats token_losses;  // micro-batch by micro-batch
  float gradient_norm = 0;
  bool updated = false;
};

struct Result {
  std::vector<StepResult> steps;
  Tensors gradients, weights, moment1, moment2;  // weights: f32 masters
};

inline bool SameBits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}
inline bool SameBits(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!SameBits(a[i], b[i])) return false;
  }
  return true;
}

inline double Norm(const Floats& values) {
  double sum = 0;
  for (double value : values) sum += value * value;
  return std::sqrt(sum);
}
inline double Norm(const Tensors& tensors) {
  double sum = 0;
  for (const Floats& tensor : tensors) sum += Norm(tensor) * Norm(tensor);
  return std::sqrt(sum);
}
inline double Distance(Floats a, const Floats& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return Norm(a);
}

// What a gradient tensor's error is compared with: its norm, or where that is next to nothing a share of all (DESIGN section 5).
inline double ScaleOf(const Floats& reference, const Tensors& all) {
  return std::max(Norm(reference), 1e-3 * Norm(all) / std::sqrt(static_cast<double>(all.size())));
}

// Token `position` (0..sequence_length, one more than the input) of a sequence of a step.
inline int32_t TokenAt(const ModelSpec& model, int step, int sequence, int position) {
  const auto draw = Philox(99, static_cast<uint64_t>(sequence * 1000 + position), static_cast<uint64_t>(step));
  return static_cast<int32_t>(draw[0] % static_cast<uint32_t>(model.vocab_size));
}

// One rank: plan, executor and access to its buffers by meaning.
class Rank {
 public:
  Rank(const EngineSpec& spec, const Options& options, RankPlan plan, std::unique_ptr<Communicator> communicator, int rank)
      : spec_(spec), options_(options), plan_(std::move(plan)), map_(plan_.step), ops_(MakeCpuOps()),
        communicator_(std::move(communicator)), parameters_(ParametersOf(spec.model, spec.tp_size, rank)) {
    CpuExecutorOptions executor_options;
    executor_options.communicators = {communicator_.get()};
    auto executor = MakeCpuExecutor(plan_.program, plan_.arenas, ops_.get(), std::move(executor_options));
    EXPECT_TRUE(executor.ok()) << executor.status();
    executor_ = *std::move(executor);
    for (size_t i = 0; i < parameters_.size(); ++i) {
      Floats values(static_cast<size_t>(parameters_[i].count()));
      Initialise(parameters_[i], static_cast<int>(i), options.seed, values.data());
      SetWeight(i, values);
    }
  }

  TensorView View(int id, int micro_batch = 0) { return executor_->View(map_.Find(id, micro_batch)); }
  Floats Read(int id, int micro_batch = 0) {
    const TensorView view = View(id, micro_batch);
    const float* data = view.as<float>();
    return Floats(data, data + view.count());
  }
  // Writes the shard's master and, where it is another tensor, the weight of the compute type.
  void SetWeight(size_t parameter, const Floats& values) {
    std::memcpy(View(plan_.buffers.master[parameter]).data, values.data(), values.size() * sizeof(float));
    if (spec_.dtype == DType::kF32) return;
    BF16* weight = View(plan_.buffers.weight[parameter]).as<BF16>();
    for (size_t i = 0; i < values.size(); ++i) weight[i] = ToBF16(values[i]);
  }

  void WriteInputs(int step) {
    const ModelSpec& model = spec_.model;
    const int batch = options_.same_batch ? 0 : step;
    for (int mb = 0; mb < spec_.micro_batches; ++mb) {
      int32_t* tokens = View(plan_.buffers.tokens, mb).as<int32_t>();
      int32_t* targets = View(plan_.buffers.targets, mb).as<int32_t>();
      for (int b = 0; b < spec_.micro_batch_size; ++b) {
        for (int s = 0; s < model.sequence_length; ++s, ++tokens, ++targets) {
          *tokens = TokenAt(model, batch, mb * spec_.micro_batch_size + b, s);
          *targets = TokenAt(model, batch, mb * spec_.micro_batch_size + b, s + 1);
        }
      }
    }
    float* scalars = View(plan_.buffers.scalars).as<float>();
    scalars[kLearningRate] = static_cast<float>(options_.learning_rate);
    scalars[kBeta1] = 0.9f;
    scalars[kBeta2] = 0.95f;
    scalars[kEpsilon] = 1e-8f;
    scalars[kWeightDecay] = static_cast<float>(options_.weight_decay);
    scalars[kBiasCorrection1] = static_cast<float>(1 - std::pow(0.9, step + 1));
    scalars[kBiasCorrection2] = static_cast<float>(1 - std::pow(0.95, step + 1));
    scalars[kClipNorm] = static_cast<float>(options_.clip_norm);
    scalars[kLossWeight] = 1.0f / static_cast<float>(spec_.micro_batches * spec_.micro_batch_size * model.sequence_length);
  }

  StepResult ReadOutputs() {
    StepResult result;
    for (int mb = 0; mb < spec_.micro_batches; ++mb) {
      const Floats losses = Read(plan_.buffers.losses, mb);
      result.token_losses.insert(result.token_losses.end(), losses.begin(), losses.end());
    }
    for (double loss : result.token_losses) result.loss += loss;
    result.loss /= static_cast<double>(result.token_losses.size());
    const Floats state = Read(plan_.buffers.clip_state);
    result.gradient_norm = state[kGradNorm];
    result.updated = state[kUpdate] == 1;
    return result;
  }

  // Runs `steps` steps from number `first`. On an error leaves the group, so that peers end too.
  absl::Status Run(int first, int steps) {
    for (int step = first; step < first + steps; ++step) {
      WriteInputs(step);
      if (absl::Status status = executor_->Run(); !status.ok()) {
        communicator_->Abort();
        return status;
      }
      results.push_back(ReadOutputs());
      const int wanted = options_.gradients_of_step < 0 ? first + steps - 1 : options_.gradients_of_step;
      if (step == wanted) gradients = ReadAll(plan_.buffers.gradient);
    }
    return absl::OkStatus();
  }

  Tensors ReadAll(const std::vector<int>& ids) {
    Tensors tensors;
    for (int id : ids) tensors.push_back(Read(id));
    return tensors;
  }

  const RankPlan& plan() const { return plan_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  Executor& executor() { return *executor_; }

  std::vector<StepResult> results;
  Tensors gradients;

 private:
  const EngineSpec spec_;
  const Options options_;
  const RankPlan plan_;
  const BufferMap map_;
  const std::unique_ptr<Ops> ops_;
  const std::unique_ptr<Communicator> communicator_;
  const std::vector<Parameter> parameters_;
  std::unique_ptr<Executor> executor_;
};

// All ranks of a job.
class Job {
 public:
  Job(const EngineSpec& spec, const Options& options) : options_(options) {
    absl::StatusOr<std::vector<RankPlan>> plans = BuildPlans(spec, options.variant);
    EXPECT_TRUE(plans.ok()) << plans.status();
    std::vector<std::unique_ptr<Communicator>> communicators = LocalGroup::Create(spec.tp_size);
    for (int rank = 0; rank < spec.tp_size; ++rank) {
      auto& communicator = communicators[static_cast<size_t>(rank)];
      if (options.max_delay > absl::ZeroDuration()) {
        communicator = std::make_unique<DelayedCommunicator>(std::move(communicator), options.seed, options.max_delay);
      }
      ranks_.push_back(std::make_unique<Rank>(spec, options, (*plans)[static_cast<size_t>(rank)], std::move(communicator), rank));
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

  // Results so far. Expects all ranks to have the same losses, and the same bits in replicated tensors.
  Result Collect() {
    Result result{ranks_[0]->results, {}, {}, {}, {}};
    for (auto& rank : ranks_) {
      for (size_t step = 0; step < result.steps.size(); ++step) {
        EXPECT_TRUE(SameBits(rank->results[step].token_losses, result.steps[step].token_losses));
        EXPECT_EQ(rank->results[step].updated, result.steps[step].updated);
      }
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

  // Full tensors from every rank's shards.
  Tensors Gather(const std::function<Tensors(Rank&)>& shards_of) {
    Tensors full;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const Tensors shards = shards_of(*ranks_[r]);
      full.resize(shards.size());
      for (size_t i = 0; i < shards.size(); ++i) {
        const Parameter& parameter = ranks_[r]->parameters()[i];
        EXPECT_TRUE(r == 0 || parameter.sharded() || SameBits(shards[i], full[i])) << parameter.name;
        ForEach(parameter, [&](int64_t element, size_t local) { Place(&full[i], parameter, element) = shards[i][local]; });
      }
    }
    return full;
  }

  // Sets one element of the full tensor of a parameter, wherever its shards are.
  void SetWeight(size_t parameter, int64_t element, float value) {
    for (auto& rank : ranks_) {
      Floats shard = rank->Read(rank->plan().buffers.master[parameter]);
      ForEach(rank->parameters()[parameter], [&](int64_t full, size_t local) {
        if (full == element) shard[local] = value;
      });
      rank->SetWeight(parameter, shard);
    }
  }

  Rank& rank(size_t index) { return *ranks_[index]; }
  size_t size() const { return ranks_.size(); }

 private:
  static float& Place(Floats* full, const Parameter& parameter, int64_t element) {
    int64_t count = 1;
    for (int64_t extent : parameter.shape) count *= extent;
    full->resize(static_cast<size_t>(count));
    return (*full)[static_cast<size_t>(element)];
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
  int next_step_ = 0;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

inline Result Train(const EngineSpec& spec, const Options& options) {
  Job job(spec, options);
  const absl::Status status = job.Run(options.steps);
  EXPECT_TRUE(status.ok()) << status;
  return status.ok() ? job.Collect() : Result{};
}

struct Layout {
  std::string schedule = "megatron_sync";
  int tp_size = 2;
  std::vector<int> slices = {4};
  int micro_batches = 1;
  DType dtype = DType::kF32;
};

// For names of parametrised tests: "domino_row_tp2_2_2_mb1_f32".
inline std::string NameOfLayout(const ::testing::TestParamInfo<Layout>& info) {
  const Layout& layout = info.param;
  std::string name = layout.schedule + "_tp" + std::to_string(layout.tp_size);
  for (int sequences : layout.slices) name += "_" + std::to_string(sequences);
  return name + "_mb" + std::to_string(layout.micro_batches) + "_" + NameOf(layout.dtype);
}
inline void PrintTo(const Layout& layout, std::ostream* out) { *out << NameOfLayout({layout, 0}); }

// A model that trains in milliseconds; its vocabulary has padding, on one rank of four a whole shard of it.
inline EngineSpec SpecOf(const Layout& layout) {
  EngineSpec spec;
  spec.model = {.layers = 2, .hidden = 16, .heads = 4, .ffn_hidden = 48, .sequence_length = 8, .vocab_size = 90};
  spec.schedule = {layout.schedule, layout.slices};
  spec.tp_size = layout.tp_size;
  spec.dtype = layout.dtype;
  spec.micro_batch_size = 0;
  for (int sequences : layout.slices) spec.micro_batch_size += sequences;
  spec.micro_batches = layout.micro_batches;
  return spec;
}

}  // namespace stretto::parity
