// SPDX-License-Identifier: Apache-2.0

// Specs that are refused: which field is at fault, and, in a golden file, in which words.
// STRETTO_REWRITE=1 writes the words anew, to be read as a difference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "proto/spec/fields.h"
#include "proto/spec/presets.h"
#include "proto/spec/schedules.h"
#include "tests/proto/spec/job_specs.h"

namespace stretto::spec {
namespace {

using v1alpha1::JobSpec;

constexpr char kWarmUp[] = "schedule.pipeline.warm_up";
constexpr char kDelay[] = "schedule.pipeline.wgrad_delay";
constexpr char kPlan[] = "schedule.plan";
constexpr char kChunks[] = "parallelism.chunks_per_stage";

struct Refusal {
  std::string change;
  const char* field;  // the only one at fault
  const char* base = kPreset;
};

const Refusal kRefusals[] = {
    {"model { preset: 'gpt-9' }", "model.preset"},
    {"model { layers: 7 }", "model.layers"},
    {"model { family: FAMILY_LLAMA }", "model.family"},
    {"model { kv_heads: 2 }", "model.kv_heads"},
    {"model { preset: 'llama-10m' rotary_base: 20000 }", "model.rotary_base"},
    {"model { dropout: 1 }", "model.dropout"},
    {"model { dropout: -0.1 }", "model.dropout"},
    {"model { dropout: nan }", "model.dropout"},
    {"model { sequence_length: -1 }", "model.sequence_length"},
    {"parallelism { tp_size: 4 }", "parallelism.tp_size"},
    {"model { preset: 'llama3-8b' } parallelism { tp_size: 16 }", "parallelism.tp_size"},
    {"parallelism { tp_size: -2 }", "parallelism.tp_size"},
    {"parallelism { pp_size: -1 }", "parallelism.pp_size"},
    {"parallelism { pp_size: 7 }", "parallelism.pp_size"},
    {"parallelism { pp_size: 2 } profile { steps: 1 }", "profile.steps"},
    {"parallelism { pp_size: 2 } global_batch_size: 8 micro_batch_size: 2 "
     "schedule { parameters { merge_wgrads: 2 } }",
     "schedule.parameters.merge_wgrads"},
    {"parallelism { pp_size: 2 } schedule { parameters { auto_merge_wgrads: true } }",
     "schedule.parameters.auto_merge_wgrads"},
    {"parallelism { pp_size: 2 } schedule { pipeline { order: 'zigzag' } }",
     "schedule.pipeline.order"},
    {"schedule { pipeline { order: '1f1b' } }", "schedule.pipeline.order"},
    {"schedule { pipeline { warm_up: 1 } }", kWarmUp},
    {"parallelism { pp_size: 2 } schedule { pipeline { order: 'gpipe' warm_up: 2 } }", kWarmUp},
    {"parallelism { pp_size: 2 } schedule { pipeline { warm_up: 1 } }", kWarmUp},
    {"parallelism { pp_size: 2 } global_batch_size: 16 "
     "schedule { pipeline { warm_up: [ 3, 0 ] } }",
     kWarmUp},
    {"parallelism { pp_size: 2 } global_batch_size: 16 "
     "schedule { pipeline { warm_up: [ 3, 2 ] } }",
     kWarmUp},
    {"parallelism { pp_size: 3 } global_batch_size: 16 "
     "schedule { pipeline { warm_up: [ 2, 2, 1 ] } }",
     kWarmUp},
    {"parallelism { pp_size: 3 } global_batch_size: 16 "
     "schedule { pipeline { warm_up: [ 5, 2, 1 ] } }",
     kWarmUp},
    {"parallelism { pp_size: 3 } global_batch_size: 8 "
     "schedule { pipeline { warm_up: [ 1, 2, 1 ] } }",
     kWarmUp},
    {"parallelism { pp_size: 2 } global_batch_size: 64 "
     "schedule { pipeline { warm_up: [ 9, 1 ] } }",
     kWarmUp},
    {"schedule { pipeline { auto_warm_up: true } }", "schedule.pipeline.auto_warm_up"},
    {"parallelism { pp_size: 2 } schedule { pipeline { order: 'gpipe' auto_warm_up: true } }",
     "schedule.pipeline.auto_warm_up"},
    {"parallelism { pp_size: 2 } schedule { pipeline { warm_up: [ 1, 1 ] auto_warm_up: true } }",
     kWarmUp},
    {"schedule { pipeline { wgrad_delay: WGRAD_DELAY_SEND } }", kDelay},
    {"parallelism { pp_size: 2 } "
     "schedule { pipeline { order: 'gpipe' wgrad_delay: WGRAD_DELAY_SEND } }",
     kDelay},
    {"parallelism { pp_size: 2 } schedule { pipeline { wgrad_delay: 9 } }", kDelay},
    {"parallelism { chunks_per_stage: 2 }", kChunks},
    {"parallelism { pp_size: 2 chunks_per_stage: -1 }", kChunks},
    {"parallelism { pp_size: 2 chunks_per_stage: 2 }", kChunks},
    {"parallelism { pp_size: 2 } schedule { pipeline { order: 'interleaved_1f1b' } } "
     "global_batch_size: 8",
     kChunks},
    {"parallelism { pp_size: 2 chunks_per_stage: 4 } global_batch_size: 8 "
     "schedule { pipeline { order: 'interleaved_1f1b' } }",
     kChunks},
    {"parallelism { pp_size: 2 chunks_per_stage: 3 } global_batch_size: 12 "
     "schedule { pipeline { order: 'interleaved_1f1b' } }",
     "global_batch_size"},
    {"parallelism { pp_size: 2 chunks_per_stage: 3 } global_batch_size: 8 "
     "schedule { pipeline { order: 'interleaved_1f1b' warm_up: 4 } }",
     kWarmUp},
    {"parallelism { pp_size: 2 chunks_per_stage: 3 } global_batch_size: 8 "
     "schedule { pipeline { order: 'interleaved_1f1b' wgrad_delay: WGRAD_DELAY_BUBBLE } }",
     kDelay},
    {"parallelism { stages { layers: 5 } stages { layers: 3 } }", "parallelism.stages"},
    {"parallelism { stages { layers: 6 } stages { tp_size: 2 } }", "parallelism.stages[1].layers"},
    {"parallelism { stages { layers: 7 } stages { layers: -1 } }", "parallelism.stages[1].layers"},
    {"parallelism { stages { layers: 3 tp_size: -1 } stages { layers: 3 } }",
     "parallelism.stages[0].tp_size"},
    {"parallelism { stages { layers: 3 tp_size: 4 } stages { layers: 3 } }",
     "parallelism.stages[0].tp_size"},
    {"parallelism { stages { layers: 2 } stages { layers: 2 tp_size: 4 } stages { layers: 2 } }",
     "parallelism.stages[1].tp_size"},
    // 3 divides heads and ffn_hidden, but not the vocabulary.
    {"model { layers: 2 hidden: 48 heads: 3 ffn_hidden: 192 sequence_length: 64 vocab_size: 256 } "
     "parallelism { stages { layers: 1 tp_size: 1 } stages { layers: 1 tp_size: 3 } }",
     "parallelism.stages[1].tp_size", kNoModel},
    {"parallelism { dp_size: 4 stages { layers: 3 dp_size: 2 } stages { layers: 3 dp_size: 3 } } "
     "global_batch_size: 16",
     "parallelism.stages[1].dp_size"},
    {"parallelism { stages { layers: 3 dp_size: 2 } stages { layers: 3 } }",
     "parallelism.stages[0].dp_size"},
    {"parallelism { dp_size: 2 stages { layers: 3 } stages { layers: 3 dp_size: -1 } } "
     "global_batch_size: 16",
     "parallelism.stages[1].dp_size"},
    {"parallelism { dp_size: 2 chunks_per_stage: 2 stages { layers: 3 } "
     "stages { layers: 3 dp_size: 1 } } schedule { pipeline { order: 'interleaved_1f1b' } } "
     "global_batch_size: 16",
     "parallelism.stages"},
    {"device: DEVICE_CUDA parallelism { dp_size: 2 stages { layers: 3 } "
     "stages { layers: 3 dp_size: 1 } } global_batch_size: 16",
     "parallelism.stages"},
    {"parallelism { stages { layers: 3 } stages { layers: 3 } pp_size: 3 }", "parallelism.pp_size"},
    {"model { sequence_length: 63 } parallelism { stages { layers: 3 } stages { layers: 3 tp_size: "
     "2 } } schedule { parameters { sequence_parallel: true } }",
     "schedule.parameters.sequence_parallel"},
    {"device: DEVICE_CUDA parallelism { stages { layers: 3 tp_size: 1 } stages { layers: 3 "
     "tp_size: 2 } dp_size: 2 } global_batch_size: 8",
     "parallelism.dp_size"},
    {"parallelism { stages { layers: 3 } stages { layers: 3 } chunks_per_stage: 2 } "
     "schedule { pipeline { order: 'interleaved_1f1b' } } global_batch_size: 8",
     "parallelism.stages"},
    {"parallelism { stages { layers: 3 } stages { layers: 3 } } profile { steps: 1 }",
     "profile.steps"},
    {"schedule { pipeline { transfer: TRANSFER_GATHER } }", "schedule.pipeline.transfer"},
    {"parallelism { pp_size: 2 } schedule { pipeline { transfer: 9 } }",
     "schedule.pipeline.transfer"},
    {"parallelism { dp_size: -1 }", "parallelism.dp_size"},
    {"parallelism { dp_size: 1025 }", "parallelism.dp_size"},
    {"parallelism { dp_size: 2 zero: 2 }", "parallelism.zero"},
    {"parallelism { dp_size: 2 zero: -1 }", "parallelism.zero"},
    {"parallelism { zero: 1 }", "parallelism.zero"},
    {"parallelism { dp_size: 3 } micro_batch_size: 2 global_batch_size: 8", "global_batch_size"},
    {"parallelism { dp_size: 1024 } micro_batch_size: 65", "global_batch_size"},
    {"parallelism { ep_size: 8 }", "parallelism.ep_size"},
    {"parallelism { cp_size: 2 }", "parallelism.cp_size"},
    {"parallelism { cp_size: -1 }", "parallelism.cp_size"},
    {"steps: -5", "steps"},
    {"micro_batch_size: -1 global_batch_size: 4", "micro_batch_size"},
    {"global_batch_size: 6", "global_batch_size"},
    {"model { sequence_length: 1048576 } global_batch_size: 4096", "global_batch_size"},
    {"schedule { name: 'domino' }", "schedule.name"},
    {"schedule { name: 'megatron_sync' parameters { slices: 2 } }", "schedule.parameters.slices"},
    {"schedule { name: 'megatron_async' parameters { slice_sizes: 4 } }",
     "schedule.parameters.slice_sizes"},
    {"schedule { name: 'megatron_sync' parameters { defer_wgrads: 1 } }",
     "schedule.parameters.defer_wgrads"},
    {"schedule { name: 'domino_col' parameters { slices: 2 } }", "schedule.parameters.slices"},
    {"schedule { name: 'helix' }", "global_batch_size"},
    {"global_batch_size: 16 parallelism { dp_size: 4 } schedule { name: 'helix' }",
     "global_batch_size"},
    {"global_batch_size: 16 parallelism { pp_size: 2 } schedule { name: 'helix' }",
     "schedule.pipeline.order"},
    {"global_batch_size: 16 parallelism { pp_size: 3 } "
     "schedule { name: 'domino_row' pipeline { order: 'folded' } }",
     "schedule.name"},
    {"global_batch_size: 12 parallelism { pp_size: 3 } "
     "schedule { name: 'helix' pipeline { order: 'folded' } }",
     "global_batch_size"},
    {"global_batch_size: 16 parallelism { pp_size: 2 } "
     "schedule { name: 'helix' pipeline { order: 'folded' } }",
     "model.layers"},
    {"global_batch_size: 16 parallelism { pp_size: 3 chunks_per_stage: 1 } "
     "schedule { name: 'helix' pipeline { order: 'folded' } }",
     kChunks},
    {"global_batch_size: 16 parallelism { stages { layers: 2 } stages { layers: 2 } "
     "stages { layers: 2 } } schedule { name: 'helix' pipeline { order: 'folded' } }",
     "parallelism.stages"},
    {"global_batch_size: 16 parallelism { chunks_per_stage: 1 stages { layers: 2 } "
     "stages { layers: 2 } stages { layers: 2 } } "
     "schedule { name: 'helix' pipeline { order: 'folded' } }",
     "parallelism.stages"},
    {"global_batch_size: 16 parallelism { pp_size: 3 } "
     "schedule { name: 'helix' pipeline { order: 'folded' wgrad_delay: WGRAD_DELAY_SEND } }",
     kDelay},
    {"global_batch_size: 16 parallelism { pp_size: 3 } "
     "schedule { name: 'helix' pipeline { order: 'folded' warm_up: 4 } }",
     kWarmUp},
    {"global_batch_size: 16 parallelism { pp_size: 3 } "
     "schedule { name: 'helix' parameters { merge_wgrads: 2 } pipeline { order: 'folded' } }",
     "schedule.parameters.merge_wgrads"},
    {"global_batch_size: 16 schedule { name: 'helix' parameters { merge_wgrads: 2 } }",
     "schedule.parameters.merge_wgrads"},
    {"global_batch_size: 16 schedule { name: 'helix' parameters { auto_merge_wgrads: true } }",
     "schedule.parameters.auto_merge_wgrads"},
    {"global_batch_size: 16 schedule { name: 'helix' parameters { slices: 5 } }",
     "schedule.parameters.slices"},
    {"schedule { name: 'domino_row' plan: 'weave f0|b0 pace=1' }", kPlan},
    {"global_batch_size: 8 schedule { name: 'helix' plan: 'weave f0|b0 pace=-1' }", kPlan},
    {"global_batch_size: 8 schedule { name: 'helix' "
     "plan: 'weave f0|b0 pace=1\\n  f ln1 fc3 L0\\n' }",
     kPlan},
    {"global_batch_size: 8 schedule { name: 'helix' "
     "plan: 'weave f0|b0 pace=1\\n  f ln1 L0\\n  b d.fc2 L6\\n' }",
     kPlan},
    {"global_batch_size: 8 schedule { name: 'helix' "
     "plan: 'weave f0|b0 pace=1\\n  f ln1 L4\\n  b d.fc2 L3\\n' }",
     kPlan},
    {"global_batch_size: 8 schedule { name: 'helix' "
     "plan: 'weave f0|b0 pace=1\\n  f sum s1\\n' }",
     kPlan},
    {"global_batch_size: 24 schedule { parameters { merge_wgrads: 4 } }",
     "schedule.parameters.merge_wgrads"},
    {"schedule { parameters { merge_wgrads: -1 } }", "schedule.parameters.merge_wgrads"},
    {"schedule { parameters { merge_wgrads: 1 auto_merge_wgrads: true } }",
     "schedule.parameters.merge_wgrads"},
    {"schedule { parameters { splits: 2 } }", "schedule.parameters.splits"},
    {"schedule { name: 'nanotron' parameters { defer_wgrads: 1 } }",
     "schedule.parameters.defer_wgrads"},
    {"schedule { name: 'domino_intra' parameters { slices: 3 } }", "schedule.parameters.slices"},
    {"schedule { name: 'domino_paper' parameters { slice_sizes: 4 } }",
     "schedule.parameters.slices"},
    {"micro_batch_size: 1 schedule { name: 'domino_inter' }", "micro_batch_size"},
    {"schedule { name: 'domino_col' parameters { splits: 5 } }", "schedule.parameters.splits"},
    {"schedule { name: 'domino_hybrid' parameters { splits: -1 } }", "schedule.parameters.splits"},
    {"schedule { parameters { defer_wgrads: -1 } }", "schedule.parameters.defer_wgrads"},
    {"schedule { parameters { recompute: 9 } }", "schedule.parameters.recompute"},
    {"model { sequence_length: 255 } schedule { parameters { sequence_parallel: true } }",
     "schedule.parameters.sequence_parallel"},
    {"parallelism { wire: 9 }", "parallelism.wire"},
    {"precision: PRECISION_BF16 parallelism { wire: PRECISION_F32 }", "parallelism.wire"},
    {"micro_batch_size: 2 schedule { parameters { slices: 4 } }", "schedule.parameters.slices"},
    {"schedule { parameters { slices: -1 } }", "schedule.parameters.slices"},
    {"micro_batch_size: 1", "micro_batch_size"},
    {"schedule { parameters { slice_sizes: 3 slice_sizes: 2 } }",
     "schedule.parameters.slice_sizes"},
    {"schedule { parameters { slice_sizes: 4 slice_sizes: 0 } }",
     "schedule.parameters.slice_sizes"},
    {"schedule { parameters { slices: 3 slice_sizes: 2 slice_sizes: 2 } }",
     "schedule.parameters.slice_sizes"},
    {"optimizer { name: 'sgd' }", "optimizer.name"},
    {"optimizer { learning_rate: nan min_learning_rate: 0 }", "optimizer.learning_rate"},
    {"optimizer { learning_rate: inf }", "optimizer.learning_rate"},
    {"optimizer { learning_rate: 0 }", "optimizer.learning_rate"},
    {"optimizer { min_learning_rate: 0.5 }", "optimizer.min_learning_rate"},
    {"optimizer { min_learning_rate: nan }", "optimizer.min_learning_rate"},
    {"optimizer { beta1: 1 }", "optimizer.beta1"},
    {"optimizer { beta2: -0.1 }", "optimizer.beta2"},
    {"optimizer { beta1: nan }", "optimizer.beta1"},
    {"optimizer { beta2: nan }", "optimizer.beta2"},
    {"optimizer { epsilon: 0 }", "optimizer.epsilon"},
    {"optimizer { epsilon: inf }", "optimizer.epsilon"},
    {"optimizer { weight_decay: -inf }", "optimizer.weight_decay"},
    {"optimizer { clip_norm: -1 }", "optimizer.clip_norm"},
    {"optimizer { clip_norm: nan }", "optimizer.clip_norm"},
    {"optimizer { warmup_steps: 200 }", "optimizer.warmup_steps"},
    {"optimizer { decay_steps: 0 }", "optimizer.decay_steps"},
    {"optimizer { max_skipped_updates: 0 }", "optimizer.max_skipped_updates"},
    {"checkpoint { interval_steps: -1 }", "checkpoint.interval_steps"},
    {"checkpoint { keep: -1 }", "checkpoint.keep"},
    {"checkpoint { interval_steps: 5 disabled: true }", "checkpoint.interval_steps"},
    {"checkpoint { asynchronous: true disabled: true }", "checkpoint.asynchronous"},
    {"checkpoint { keep_best: true }", "checkpoint.keep_best"},
    {"checkpoint { keep_best: true disabled: true } eval { interval_steps: 5 prefix: 'held' }",
     "checkpoint.keep_best"},
    {"checkpoint { keep_best: true interval_steps: 12 } eval { interval_steps: 5 prefix: 'held' }",
     "checkpoint.interval_steps"},
    {"tokens: -1", "tokens"},
    {"tokens: 1", "steps"},
    {"tokens: 102400 epochs: 2", "epochs"},
    {"epochs: nan", "epochs"},
    {"sample { prompts: 'a' } checkpoint { interval_steps: 5 }", "sample.interval_steps"},
    {"sample { interval_steps: 5 prompts: 'a' }", "sample.interval_steps"},
    {"sample { interval_steps: 12 prompts: 'a' } checkpoint { interval_steps: 5 }",
     "sample.interval_steps"},
    {"sample { interval_steps: 5 prompts: 'a' } checkpoint { disabled: true }",
     "sample.interval_steps"},
    {"sample { interval_steps: 5 } checkpoint { interval_steps: 5 }", "sample.prompts"},
    {"sample { interval_steps: 5 prompts: 'a' prompts: '' } checkpoint { interval_steps: 5 }",
     "sample.prompts"},
    {"sample { interval_steps: 5 prompts: 'a\\000b' } checkpoint { interval_steps: 5 }",
     "sample.prompts"},
    {"sample { interval_steps: 5 prompts: 'a' tokens: 513 } checkpoint { interval_steps: 5 }",
     "sample.tokens"},
    {"sample { interval_steps: 5 prompts: 'a' temperature: -1 } checkpoint { interval_steps: 5 }",
     "sample.temperature"},
    {"checkpoint { resume_from: '../other' }", "checkpoint.resume_from"},
    {"checkpoint { resume_from: 'other/' }", "checkpoint.resume_from"},
    {"checkpoint { resume_from: 'other@' }", "checkpoint.resume_from"},
    {"checkpoint { resume_from: 'other@Speech' }", "checkpoint.resume_from"},
    {"checkpoint { resume_from: '@speech' }", "checkpoint.resume_from"},
    {"checkpoint { resume_from: '../other@speech' }", "checkpoint.resume_from"},
    {"checkpoint { resume_from: 'hf:/exports/gpt' }", "checkpoint.resume_from"},
    {"checkpoint { resume_from: 'hf:' }", "checkpoint.resume_from"},
    {"restart { max: 1000000 }", "restart.max"},
    {"restart { max: -1 }", "restart.max"},
    {"restart { backoff: 3601 }", "restart.backoff"},
    {"restart { backoff: nan }", "restart.backoff"},
    {"restart { on: [ CRASH, 77 ] }", "restart.on"},
    {"restart { layouts: { tp_size: -1 } }", "restart.layouts[0].tp_size"},
    {"restart { layouts: { tp_size: 1 } layouts: { tp_size: 4 } }", "restart.layouts[1].tp_size"},
    {"restart { layouts: { tp_size: 1 pp_size: 200 } }", "restart.layouts[0].pp_size"},
    {"restart { layouts: { tp_size: 1 dp_size: 64 } }", "restart.layouts[0]"},
    {"model { initial_weights: 'gpt2' }", "model.initial_weights"},
    {"model { initial_weights: 'torch:gpt2' }", "model.initial_weights"},
    {"model { initial_weights: 'hf:' }", "model.initial_weights"},
    {"model { initial_weights: 'hf:../gpt2' }", "model.initial_weights"},
    {"model { initial_weights: 'llmc:/root/gpt2.bin' }", "model.initial_weights"},
    {"device: DEVICE_CUDA emulated_link { gigabits_per_second: 1 }", "emulated_link"},
    {"device: DEVICE_CUDA micro_batch_size: 32769", "micro_batch_size"},
    {"device: DEVICE_CUDA parallelism { tp_size: 2 dp_size: 3 }", "parallelism.dp_size"},
    {"device: DEVICE_CUDA parallelism { tp_size: 3 dp_size: 2 }", "parallelism.dp_size"},
    {"device: DEVICE_CUDA parallelism { tp_size: 1 pp_size: 2 dp_size: 4 } global_batch_size: 16",
     "parallelism.dp_size"},
    {"precision: 9", "precision"},
    {"device: 9", "device"},
    {"emulated_link { gigabits_per_second: 0 }", "emulated_link.gigabits_per_second"},
    {"emulated_link { gigabits_per_second: nan }", "emulated_link.gigabits_per_second"},
    {"emulated_link { gigabits_per_second: 1 latency_microseconds: inf }",
     "emulated_link.latency_microseconds"},
    {"emulated_link { gigabits_per_second: 1 latency_microseconds: -1 }",
     "emulated_link.latency_microseconds"},
    {"profile { steps: 100000 }", "profile.steps"},
    {"data { prefix: '/etc/passwd' }", "data.prefix"},
    {"data { prefix: 'a/../../b' }", "data.prefix"},
    {"data { prefix: 'a\\nb' }", "data.prefix"},
    {"data { prefix: 'llmc:' }", "data.prefix"},
    {"data { prefix: 'llmc:/a.bin' }", "data.prefix"},
    {"data { prefix: 'llmc:web*/a.bin' }", "data.prefix"},
    {"data { held_out: -0.1 }", "data.held_out"},
    {"data { held_out: 0.6 }", "data.held_out"},
    {"data { held_out: nan }", "data.held_out"},
    {"data { blend { prefix: 'a' weight: 1 } }", "data.prefix"},
    {"eval { prefix: 'held' }", "eval.interval_steps"},
    {"eval { interval_steps: -5 prefix: 'held' }", "eval.interval_steps"},
    {"eval { interval_steps: 5 batches: -1 prefix: 'held' }", "eval.batches"},
    {"eval { interval_steps: 5 batches: 1000001 prefix: 'held' }", "eval.batches"},
    {"eval { interval_steps: 5 prefix: '/etc/passwd' }", "eval.prefix"},
    {"eval { interval_steps: 5 prefix: 'a/../../b' }", "eval.prefix"},
    {"eval { interval_steps: 5 }", "eval.prefix"},
    {"eval { interval_steps: 5 prefix: 'text/corpus' }", "eval.prefix"},
    {"eval { interval_steps: 5 prefix: 'held' early_stop {} }", "eval.early_stop.patience"},
    {"eval { interval_steps: 5 prefix: 'held' early_stop { patience: 1 min_improvement: -0.5 } }",
     "eval.early_stop.min_improvement"},
    {"eval { interval_steps: 5 prefix: 'held' early_stop { patience: 1 min_improvement: nan } }",
     "eval.early_stop.min_improvement"},
    // Missing parts.
    {"", "model", kNoModel},
    {"model { layers: 0 hidden: 64 heads: 4 sequence_length: 64 vocab_size: 257 }", "model.layers",
     kNoModel},
    // Dimensions.
    {"model { heads: 6 }", "model.heads", kDimensions},
    {"model { hidden: 1000000 ffn_hidden: 64 }", "model.hidden", kDimensions},
    {"model { layers: 256 hidden: 65536 heads: 64 ffn_hidden: 1048576 }", "model", kDimensions},
    {"model { ffn_hidden: 66 } parallelism { tp_size: 4 }", "parallelism.tp_size", kDimensions},
    {"model { hidden: 63 heads: 9 ffn_hidden: 9 } parallelism { tp_size: 9 }",
     "parallelism.tp_size", kDimensions},
    {"model { kv_heads: -1 }", "model.kv_heads", kDimensions},
    {"model { kv_heads: 3 } parallelism { tp_size: 1 }", "model.kv_heads", kDimensions},
    {"model { rotary_base: 10000 }", "model.rotary_base", kDimensions},
    {"model { family: FAMILY_LLAMA rotary_base: -1 }", "model.rotary_base", kDimensions},
    {"model { family: FAMILY_LLAMA heads: 64 }", "model.heads", kDimensions},
    {"model { family: 9 ffn_hidden: 64 kv_heads: 4 }", "model.family", kDimensions},
    // Options of a model.
    {"model { norm_epsilon: 1.1e-38 }", "model.norm_epsilon"},
    {"model { norm_epsilon: 0 }", "model.norm_epsilon"},
    {"model { norm_epsilon: 1.5 }", "model.norm_epsilon"},
    {"model { norm_epsilon: inf }", "model.norm_epsilon"},
    {"model { rotary_scaling { kind: LINEAR factor: 8 } }", "model.rotary_scaling"},
    {"model { rotary_scaling { factor: 8 } }", "model.rotary_scaling.kind", kLlama},
    {"model { rotary_scaling { kind: 7 factor: 8 } }", "model.rotary_scaling.kind", kLlama},
    {"model { rotary_scaling { kind: LINEAR } }", "model.rotary_scaling.factor", kLlama},
    {"model { rotary_scaling { kind: LINEAR factor: 1025 } }", "model.rotary_scaling.factor",
     kLlama},
    {"model { rotary_scaling { kind: LINEAR factor: nan } }", "model.rotary_scaling.factor",
     kLlama},
    {"model { rotary_scaling { kind: LINEAR factor: 8 low_frequency_factor: 1 } }",
     "model.rotary_scaling.low_frequency_factor", kLlama},
    {"model { rotary_scaling { kind: LINEAR factor: 8 high_frequency_factor: 4 } }",
     "model.rotary_scaling.high_frequency_factor", kLlama},
    {"model { rotary_scaling { kind: LINEAR factor: 8 original_sequence_length: 64 } }",
     "model.rotary_scaling.original_sequence_length", kLlama},
    {"model { rotary_scaling { kind: LLAMA3 factor: 8 } }",
     "model.rotary_scaling.original_sequence_length", kLlama},
    {"model { rotary_scaling { low_frequency_factor: 0 } }",
     "model.rotary_scaling.low_frequency_factor", kLlama3},
    {"model { rotary_scaling { low_frequency_factor: 1e-7 } }",
     "model.rotary_scaling.low_frequency_factor", kLlama3},
    {"model { rotary_scaling { low_frequency_factor: 4 } }",
     "model.rotary_scaling.high_frequency_factor", kLlama3},
    {"model { rotary_scaling { high_frequency_factor: 2000 } }",
     "model.rotary_scaling.high_frequency_factor", kLlama3},
    {"model { tied_head: false layers: 18 hidden: 65536 heads: 64 vocab_size: 1048576 }", "model",
     kDimensions},
    // GPUs.
    {"device: DEVICE_CUDA model { hidden: 16448 heads: 64 }", "model.hidden", kDimensions},
    {"device: DEVICE_CUDA model { family: FAMILY_LLAMA hidden: 2064 heads: 8 }", "model.heads",
     kDimensions},
    // No steps, which only write given weights.
    {"", "steps", kNoSteps},
    {"epochs: 3", "epochs", kNoSteps},
    {"model { initial_weights: 'hf:gpt' } checkpoint { disabled: true }", "steps", kNoSteps},
    {"model { initial_weights: 'hf:gpt' } checkpoint { resume_from: 'other' }", "steps", kNoSteps},
    {"model { initial_weights: 'hf:gpt' } eval { interval_steps: 5 prefix: 'held' }", "steps",
     kNoSteps},
    // Blends.
    {"data { blend { weight: 1 } }", "data.blend[1].prefix", kBlend},
    {"data { blend { prefix: '../b' weight: 1 } }", "data.blend[1].prefix", kBlend},
    {"data { blend { prefix: 'a' weight: 1 } }", "data.blend[1].prefix", kBlend},
    {"data { blend { prefix: 'b' } }", "data.blend[1].weight", kBlend},
    {"data { blend { prefix: 'b' weight: -1 } }", "data.blend[1].weight", kBlend},
    {"data { blend { prefix: 'b' weight: 1e10 } }", "data.blend[1].weight", kBlend},
    {"data { blend { prefix: 'b' weight: nan } }", "data.blend[1].weight", kBlend},
    {"eval { interval_steps: 5 prefix: 'a' }", "eval.prefix", kBlend},
};

TEST(RefusalsTest, NameTheFieldAndSayWhatWasFoundAndExpected) {
  std::string text;
  for (const Refusal& refusal : kRefusals) {
    SCOPED_TRACE(refusal.change);
    const std::vector<FieldViolation> violations =
        ViolationsOf(Normalize(SpecWith(refusal.change, refusal.base)));
    ASSERT_EQ(violations.size(), 1u);
    EXPECT_EQ(violations[0].field, absl::StrCat("spec.", refusal.field));
    EXPECT_THAT(violations[0].description, ::testing::StartsWith("found "));
    EXPECT_THAT(violations[0].description, ::testing::HasSubstr(", expected "));
    absl::StrAppend(&text, refusal.change, "\n  ", MessageOf(violations), "\n");
  }
  // What the tables list is no wording.
  for (const auto& [values, name] :
       {std::pair(PresetValues(), "PRESETS"), std::pair(ScheduleValues(), "SCHEDULES")}) {
    const std::string list = absl::StrJoin(
        values, ", ", [](std::string* out, const ValueText& value) { out->append(value.name); });
    text = absl::StrReplaceAll(text, {{list, name}});
  }
  const std::string path = STRETTO_SOURCE_DIR "/tests/golden/spec/refusals.txt";
  if (std::getenv("STRETTO_REWRITE") != nullptr) std::ofstream(path) << text;
  std::stringstream golden;
  golden << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, golden.str()) << "set STRETTO_REWRITE=1 to accept the new " << path;
}

TEST(RefusalsTest, EveryFieldAtFaultIsNamed) {
  const JobSpec spec = Normalize(SpecWith("steps: -1 data { prefix: '/x' } device: 9"));
  EXPECT_EQ(ViolationsOf(spec).size(), 3u);
  const absl::Status status = Validate(spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "spec.steps: found -1, expected a number from 0 to 1000000000 (and 2 more)");
}

TEST(RefusalsTest, ABlendHasAtMost1024Parts) {
  JobSpec spec = Parsed(kBlend);
  for (int i = 0; i < 1024; ++i) {
    v1alpha1::BlendPart* part = spec.mutable_data()->add_blend();
    part->set_prefix("p" + std::to_string(i));
    part->set_weight(1);
  }
  EXPECT_EQ(Validate(Normalize(spec)).message(),
            "spec.data.blend: found 1025 parts, expected at most 1024");
}

}  // namespace
}  // namespace stretto::spec
