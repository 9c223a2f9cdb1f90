// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/overlap/single_rank.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "proto/base/status_macros.h"
#include "worker/bench/overlap/phases.h"
#include "worker/engine/cost/contention.h"
#include "worker/engine/cost/median.h"
#include "worker/engine/exec/bind.h"

namespace stretto::bench {
namespace {

using Calls = std::vector<std::function<void()>>;

// Uses the executor's memory, which on a CPU is host memory.
absl::StatusOr<Calls> GemmsOf(trainer::RankEngine& engine, Ops* ops) {
  Calls calls;
  for (const Op& op : engine.program().ops) {
    if (IsCollective(op.kind) || ClassOf(op.kind) != ComputeClass::kProduct) continue;
    std::vector<TensorView> in, out;
    for (auto [ids, views] : {std::pair(&op.in, &in), std::pair(&op.out, &out)}) {
      for (BufferId id : *ids) {
        ASSIGN_OR_RETURN(const TensorView view, engine.executor().Read(id));
        views->push_back(view);
      }
    }
    calls.push_back(BindCompute(op, std::move(in), std::move(out), ops));
  }
  return calls;
}

}  // namespace

absl::StatusOr<SingleRank> MeasureSingleRank(const OverlapOptions& options, Rig& rig) {
  ASSIGN_OR_RETURN(auto engine, rig.Make(options.Unsliced(), Variant::kSchedule));
  ASSIGN_OR_RETURN(const Calls gemms, GemmsOf(*engine, &rig.ops()));
  SingleRank result;
  std::vector<double> forward, backward, optimizer, gemm;
  for (int i = 0; i <= options.repeats; ++i) {
    const int64_t begin = NowNanoseconds();
    RETURN_IF_ERROR(engine->executor().Run());
    const StepTimes times = TimesOf(engine->program(), engine->executor().intervals(), begin);
    const int64_t gemm_begin = NowNanoseconds();
    rig.ops().WeightsChanged();  // a step also packs each weight once
    for (const auto& call : gemms) call();
    const double gemm_seconds = static_cast<double>(NowNanoseconds() - gemm_begin) * 1e-9;
    if (i == 0) {  // warms caches and compiled products
      result.loss = engine->MeanLoss();
      continue;
    }
    forward.push_back(times.forward.seconds);
    backward.push_back(times.backward.seconds);
    result.samples.push_back(times.step.seconds);
    optimizer.push_back(times.optimizer);
    gemm.push_back(gemm_seconds);
  }
  result.t_forward = MedianOf(forward);
  result.t_backward = MedianOf(backward);
  result.t_step = MedianOf(result.samples);
  result.t_optimizer = MedianOf(optimizer);
  result.t_gemm = MedianOf(gemm);
  return result;
}

}  // namespace stretto::bench
