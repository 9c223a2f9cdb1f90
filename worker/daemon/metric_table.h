// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every metric of the worker daemon, in the order of a scrape. docs/METRICS.md shows it.

#include "proto/metrics/definition.h"

namespace stretto::daemon {

inline constexpr metrics::Definition kMetrics[] = {
    // ---- of a rank that trains here, until `metrics_retention` after its exit
    {"stretto_step_seconds", metrics::Type::kHistogram, "seconds", "training_job rank",
     "Wall time of a step. Buckets from 1 ms to 10 min."},
    {"stretto_steps_total", metrics::Type::kCounter, "steps", "training_job rank",
     "Finished steps."},
    {"stretto_last_step_timestamp_seconds", metrics::Type::kGauge, "seconds since 1970",
     "training_job rank", "When the last step ended."},
    {"stretto_tokens_total", metrics::Type::kCounter, "tokens", "training_job rank",
     "Tokens trained on. Every rank counts those of the whole job."},
    {"stretto_model_flops_total", metrics::Type::kCounter, "operations", "training_job rank",
     "Floating-point operations of the model's own mathematics, forward and backward: this rank's "
     "equal share of tokens times `flops_per_token` (BENCHMARKS)."},
    {"stretto_peak_flops_per_second", metrics::Type::kGauge, "operations per second",
     "training_job rank",
     "What the rank's device can do at most, dense bf16. Only of devices whose name is known; not "
     "of CPUs."},
    {"stretto_loss", metrics::Type::kGauge, "nats", "training_job rank", "Loss of the last step."},
    {"stretto_grad_norm", metrics::Type::kGauge, "norm", "training_job rank",
     "Gradient norm of the last step, before clipping."},
    {"stretto_eval_loss", metrics::Type::kGauge, "nats", "training_job rank",
     "Loss on held-out data when it was last measured. Of jobs that evaluate."},
    {"stretto_eval_perplexity", metrics::Type::kGauge, "tokens", "training_job rank",
     "exp of that loss: among how many the model seems to choose."},
    {"stretto_eval_seconds_total", metrics::Type::kCounter, "seconds", "training_job rank",
     "Time that training stood still for measuring on held-out data."},
    {"stretto_updates_skipped_total", metrics::Type::kCounter, "steps", "training_job rank",
     "Steps whose update was left out because the gradient norm was not finite."},
    {"stretto_step_ledger_seconds_total", metrics::Type::kCounter, "seconds",
     "training_job rank part group phase",
     "Seconds of steps by what they were spent on. All parts add up to the wall time of steps."},
    {"stretto_communication_seconds_total", metrics::Type::kCounter, "seconds", "training_job rank",
     "Time in which at least one collective was under way."},
    {"stretto_communication_hidden_seconds_total", metrics::Type::kCounter, "seconds",
     "training_job rank", "The share of it in which the rank computed."},
    {"stretto_arena_bytes", metrics::Type::kGauge, "bytes", "training_job rank arena",
     "Planned memory of the rank's step program, on its device."},
    {"stretto_trainer_resident_bytes", metrics::Type::kGauge, "bytes", "training_job rank",
     "Memory of this node that the rank's process holds, libraries and arenas of a CPU included. "
     "While the process lives."},
    // ---- of rank 0, which speaks for the job
    {"stretto_checkpoint_timestamp_seconds", metrics::Type::kGauge, "seconds since 1970",
     "training_job rank", "When the last complete checkpoint was written. Rank 0."},
    {"stretto_checkpoints_total", metrics::Type::kCounter, "checkpoints", "training_job rank",
     "Complete checkpoints. Rank 0."},
    {"stretto_checkpoints_failed_total", metrics::Type::kCounter, "checkpoints",
     "training_job rank", "Checkpoints that could not be written. Rank 0."},
    {"stretto_checkpoint_seconds_total", metrics::Type::kCounter, "seconds", "training_job rank",
     "Time that training stood still for checkpoints, failed ones included. Rank 0."},
    {"stretto_checkpoint_bytes_total", metrics::Type::kCounter, "bytes", "training_job rank",
     "Bytes of complete checkpoints, all ranks' files. Rank 0."},
    {"stretto_lost_seconds_total", metrics::Type::kCounter, "seconds", "training_job rank",
     "Seconds of steps, evaluations and waits for data and checkpoints left out, that no "
     "checkpoint had when the rank ended before its job was complete. Rank 0."},
    // ---- of the node
    {"stretto_trainers", metrics::Type::kGauge, "processes", "", "Trainers alive on this node."},
    {"stretto_coordinator_connected", metrics::Type::kGauge, "0 or 1", "",
     "1 while the session with the coordinator is open."},
    {"stretto_build_info", metrics::Type::kGauge, "", "version worker",
     "Always 1. Version and name of this daemon."},
    {"stretto_gpu_healthy", metrics::Type::kGauge, "0 or 1", "gpu uuid",
     "1 while trainers may run on it."},
    {"stretto_gpu_memory_bytes", metrics::Type::kGauge, "bytes", "gpu uuid", "Memory of the GPU."},
    {"stretto_gpu_memory_used_bytes", metrics::Type::kGauge, "bytes", "gpu uuid",
     "Memory in use, by all processes."},
    {"stretto_gpu_ecc_uncorrected_total", metrics::Type::kCounter, "errors", "gpu uuid",
     "Uncorrected memory errors since the driver was loaded."},
    {"stretto_gpu_xid_errors_total", metrics::Type::kCounter, "events", "gpu uuid",
     "Critical events of the driver (Xid) since this daemon began."},
};

}  // namespace stretto::daemon
