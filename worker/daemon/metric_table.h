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
     "Number of finished steps."},
    {"stretto_last_step_timestamp_seconds", metrics::Type::kGauge, "seconds since 1970",
     "training_job rank", "Time at which the last step ended."},
    {"stretto_tokens_total", metrics::Type::kCounter, "tokens", "training_job rank",
     "Number of tokens trained on. Every rank counts those of the whole job."},
    {"stretto_model_flops_total", metrics::Type::kCounter, "operations", "training_job rank",
     "Floating-point operations of the model's own mathematics, forward and backward: this rank's "
     "equal share of tokens times `flops_per_token` (BENCHMARKS)."},
    {"stretto_peak_flops_per_second", metrics::Type::kGauge, "operations per second",
     "training_job rank",
     "Dense bf16 peak of the rank's device. Absent for CPUs and for devices of unknown name."},
    {"stretto_loss", metrics::Type::kGauge, "nats", "training_job rank", "Loss of the last step."},
    {"stretto_grad_norm", metrics::Type::kGauge, "norm", "training_job rank",
     "Gradient norm of the last step, before clipping."},
    {"stretto_eval_loss", metrics::Type::kGauge, "nats", "training_job rank",
     "Loss of the last evaluation on held-out data. Only of jobs that evaluate."},
    {"stretto_eval_perplexity", metrics::Type::kGauge, "tokens", "training_job rank",
     "Perplexity of the last evaluation: exp of its loss."},
    {"stretto_eval_seconds_total", metrics::Type::kCounter, "seconds", "training_job rank",
     "Time for which training stopped to evaluate on held-out data."},
    {"stretto_updates_skipped_total", metrics::Type::kCounter, "steps", "training_job rank",
     "Number of steps whose update was skipped because the gradient norm was not finite."},
    {"stretto_step_ledger_seconds_total", metrics::Type::kCounter, "seconds",
     "training_job rank part group phase",
     "Time of steps by part of the step ledger. The sum of all parts is the wall time of steps."},
    {"stretto_communication_seconds_total", metrics::Type::kCounter, "seconds", "training_job rank",
     "Time during which at least one collective was in progress."},
    {"stretto_communication_hidden_seconds_total", metrics::Type::kCounter, "seconds",
     "training_job rank", "The part of that time during which the rank also computed."},
    {"stretto_preempted_seconds_total", metrics::Type::kCounter, "seconds", "training_job rank",
     "Time of steps in which a thread of the rank was ready to run and had no CPU, of the thread "
     "for which that was longest. Absent where the kernel does not say."},
    {"stretto_involuntary_switches_total", metrics::Type::kCounter, "switches", "training_job rank",
     "How often a thread of the rank lost its CPU to another thread."},
    {"stretto_arena_bytes", metrics::Type::kGauge, "bytes", "training_job rank arena",
     "Planned memory of the rank: of its step program on its device, and of the copy for "
     "checkpoints on its node."},
    {"stretto_trainer_resident_bytes", metrics::Type::kGauge, "bytes", "training_job rank",
     "Resident memory of the rank's process on this node, including libraries and arenas of a CPU. "
     "Absent after its end."},
    // ---- of rank 0, for the whole job
    {"stretto_checkpoint_timestamp_seconds", metrics::Type::kGauge, "seconds since 1970",
     "training_job rank", "Time at which the last complete checkpoint was written. Rank 0."},
    {"stretto_checkpoints_total", metrics::Type::kCounter, "checkpoints", "training_job rank",
     "Number of complete checkpoints. Rank 0."},
    {"stretto_checkpoints_failed_total", metrics::Type::kCounter, "checkpoints",
     "training_job rank", "Number of checkpoints that could not be written. Rank 0."},
    {"stretto_checkpoint_seconds_total", metrics::Type::kCounter, "seconds", "training_job rank",
     "Time for which training waited for checkpoints, including failed ones. Rank 0."},
    {"stretto_checkpoint_bytes_total", metrics::Type::kCounter, "bytes", "training_job rank",
     "Bytes of complete checkpoints in all ranks' files. Rank 0."},
    {"stretto_lost_seconds_total", metrics::Type::kCounter, "seconds", "training_job rank",
     "Time of steps, without evaluations and waits for data and checkpoints, that no checkpoint "
     "contained when the rank ended early. Rank 0."},
    // ---- of the node
    {"stretto_trainers", metrics::Type::kGauge, "processes", "",
     "Number of live trainers on this node."},
    {"stretto_coordinator_connected", metrics::Type::kGauge, "0 or 1", "",
     "1 if the session with the coordinator is open."},
    {"stretto_certificate_begin_timestamp_seconds", metrics::Type::kGauge, "seconds since 1970",
     "certificate", "Since when the certificate in the file of this daemon is valid."},
    {"stretto_certificate_end_timestamp_seconds", metrics::Type::kGauge, "seconds since 1970",
     "certificate", "Until when it is valid. Absent without TLS."},
    {"stretto_build_info", metrics::Type::kGauge, "", "version worker",
     "Always 1. Version and name of this daemon."},
    {"stretto_gpu_healthy", metrics::Type::kGauge, "0 or 1", "gpu uuid",
     "1 if trainers may run on the GPU."},
    {"stretto_gpu_memory_bytes", metrics::Type::kGauge, "bytes", "gpu uuid", "Memory of the GPU."},
    {"stretto_gpu_memory_used_bytes", metrics::Type::kGauge, "bytes", "gpu uuid",
     "Memory in use by all processes."},
    {"stretto_gpu_ecc_uncorrected_total", metrics::Type::kCounter, "errors", "gpu uuid",
     "Number of uncorrected memory errors since the driver was loaded."},
    {"stretto_gpu_xid_errors_total", metrics::Type::kCounter, "events", "gpu uuid",
     "Number of critical events of the driver (Xid) since this daemon started."},
};

}  // namespace stretto::daemon
