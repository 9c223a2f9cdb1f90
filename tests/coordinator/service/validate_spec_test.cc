#include "coordinator/service/validate_spec.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "coordinator/service/errors.h"
#include "coordinator/service/schedules.h"
#include "coordinator/service/validate_request.h"
#include "proto/spec/presets.h"
#include "tests/coordinator/service/refused_spec.h"

namespace stretto::service {
namespace {

using google::protobuf::util::MessageDifferencer;
using v1alpha1::JobSpec;

std::string PresetNames() {
  std::vector<std::string> names;
  for (const ModelPreset& preset : kModelPresets) names.emplace_back(preset.name);
  return absl::StrJoin(names, ", ");
}

class ValidateSpecTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(ValidateSpecTest, RefusesNamingTheField) { ExpectRefused(GetParam()); }

const Refusal kRefusals[] = {
    {"model { preset: 'gpt-9' }", "spec.model.preset",
     "found \"gpt-9\", expected one of " + PresetNames() + ", or dimensions"},
    {"model { layers: 7 }", "spec.model.layers",
     "found 7, expected nothing, because preset gpt-10m sets 6 (a preset or dimensions, not both)"},
    {"model { family: FAMILY_LLAMA }", "spec.model.family",
     "found FAMILY_LLAMA, expected nothing, because preset gpt-10m sets FAMILY_GPT (a preset or "
     "dimensions, not both)"},
    {"model { kv_heads: 2 }", "spec.model.kv_heads",
     "found 2, expected nothing, because preset gpt-10m sets 6 (a preset or dimensions, not both)"},
    {"model { preset: 'llama-10m' rotary_base: 20000 }", "spec.model.rotary_base",
     "found 20000, expected nothing, because preset llama-10m sets 10000 (a preset or dimensions, "
     "not both)"},
    {"model { dropout: 1 }", "spec.model.dropout", "found 1, expected a number from 0 to below 1"},
    {"model { dropout: -0.1 }", "spec.model.dropout",
     "found -0.1, expected a number from 0 to below 1"},
    {"model { dropout: nan }", "spec.model.dropout", "found nan, expected a finite number"},
    {"model { sequence_length: -1 }", "spec.model.sequence_length",
     "found -1, expected a number from 1 to 1048576"},
    {"parallelism { tp_size: 4 }", "spec.parallelism.tp_size",
     "found 4, expected a divisor of heads 6"},
    {"model { preset: 'llama3-8b' } parallelism { tp_size: 16 }", "spec.parallelism.tp_size",
     "found 16, expected a divisor of kv_heads 8"},
    {"parallelism { tp_size: -2 }", "spec.parallelism.tp_size",
     "found -2, expected a number from 1 to 1024"},
    {"parallelism { pp_size: 2 }", "spec.parallelism.pp_size",
     "found 2, expected 1: pp_size above 1 is not implemented yet"},
    {"parallelism { dp_size: 2 }", "spec.parallelism.dp_size",
     "found 2, expected 1: dp_size above 1 is not implemented yet"},
    {"parallelism { ep_size: 8 }", "spec.parallelism.ep_size",
     "found 8, expected 1: ep_size above 1 is not implemented yet"},
    {"parallelism { cp_size: 2 }", "spec.parallelism.cp_size",
     "found 2, expected 1: cp_size above 1 is not implemented yet"},
    {"parallelism { cp_size: -1 }", "spec.parallelism.cp_size", "found -1, expected 1"},
    {"steps: -5", "spec.steps", "found -5, expected a number from 1 to 1000000000"},
    {"micro_batch_size: -1 global_batch_size: 4", "spec.micro_batch_size",
     "found -1, expected a number from 1 to 65536"},
    {"global_batch_size: 6", "spec.global_batch_size",
     "found 6, expected a multiple of micro_batch_size 4"},
    {"model { sequence_length: 1048576 } global_batch_size: 4096", "spec.global_batch_size",
     "found 4294967296 tokens per step, expected at most 2147483648"},
    {"schedule { name: 'domino' }", "spec.schedule.name",
     "found \"domino\", expected one of megatron_sync, megatron_async, domino_row, domino_col, "
     "domino_hybrid, domino_paper, domino_release1, domino_intra, domino_inter, nanotron"},
    {"schedule { name: 'megatron_sync' parameters { slices: 2 } }",
     "spec.schedule.parameters.slices",
     "megatron_sync: found slices, expected only sequence_parallel, recompute, merge_wgrads, "
     "auto_merge_wgrads"},
    {"schedule { name: 'megatron_async' parameters { slice_sizes: 4 } }",
     "spec.schedule.parameters.slice_sizes",
     "megatron_async: found slice_sizes, expected only sequence_parallel, recompute, "
     "merge_wgrads, auto_merge_wgrads"},
    {"schedule { name: 'megatron_sync' parameters { defer_wgrads: 1 } }",
     "spec.schedule.parameters.defer_wgrads",
     "megatron_sync: found defer_wgrads, expected only sequence_parallel, recompute, "
     "merge_wgrads, auto_merge_wgrads"},
    {"schedule { name: 'domino_col' parameters { slices: 2 } }", "spec.schedule.parameters.slices",
     "domino_col: found slices, expected only splits, sequence_parallel, recompute, "
     "defer_wgrads, merge_wgrads, auto_merge_wgrads"},
    {"global_batch_size: 24 schedule { parameters { merge_wgrads: 4 } }",
     "spec.schedule.parameters.merge_wgrads",
     "found 4, expected 0 or a divisor of the 6 micro-batches of a step"},
    {"schedule { parameters { merge_wgrads: -1 } }", "spec.schedule.parameters.merge_wgrads",
     "found -1, expected 0 or a divisor of the 1 micro-batches of a step"},
    {"schedule { parameters { merge_wgrads: 1 auto_merge_wgrads: true } }",
     "spec.schedule.parameters.merge_wgrads",
     "found 1, expected 0, because auto_merge_wgrads chooses it"},
    {"schedule { parameters { splits: 2 } }", "spec.schedule.parameters.splits",
     "domino_row: found splits, expected only slices, slice_sizes, sequence_parallel, recompute, "
     "defer_wgrads, merge_wgrads, auto_merge_wgrads"},
    {"schedule { name: 'nanotron' parameters { defer_wgrads: 1 } }",
     "spec.schedule.parameters.defer_wgrads",
     "nanotron: found defer_wgrads, expected only slices, slice_sizes, sequence_parallel, "
     "recompute, merge_wgrads, auto_merge_wgrads"},
    {"schedule { name: 'domino_intra' parameters { slices: 3 } }",
     "spec.schedule.parameters.slices", "domino_intra: found slices 3, expected 2, as published"},
    {"schedule { name: 'domino_paper' parameters { slice_sizes: 4 } }",
     "spec.schedule.parameters.slices", "domino_paper: found slices 1, expected 2, as published"},
    {"micro_batch_size: 1 schedule { name: 'domino_inter' }", "spec.micro_batch_size",
     "domino_inter: found micro_batch_size 1, expected at least 2: a batch of one cannot be cut "
     "into slices"},
    {"schedule { name: 'domino_col' parameters { splits: 5 } }", "spec.schedule.parameters.splits",
     "found 5, expected a divisor of hidden 384"},
    {"schedule { name: 'domino_hybrid' parameters { splits: -1 } }",
     "spec.schedule.parameters.splits", "found -1, expected a divisor of hidden 384"},
    {"schedule { parameters { defer_wgrads: -1 } }", "spec.schedule.parameters.defer_wgrads",
     "found -1, expected a number from 0 to 65536"},
    {"schedule { parameters { recompute: 9 } }", "spec.schedule.parameters.recompute",
     "found 9, expected RECOMPUTE_NONE, RECOMPUTE_SELECTIVE or RECOMPUTE_FULL"},
    {"model { sequence_length: 255 } schedule { parameters { sequence_parallel: true } }",
     "spec.schedule.parameters.sequence_parallel",
     "found true, expected false, because tp_size 2 does not divide sequence_length 255"},
    {"parallelism { wire: 9 }", "spec.parallelism.wire",
     "found 9, expected PRECISION_F32 or PRECISION_BF16"},
    {"precision: PRECISION_BF16 parallelism { wire: PRECISION_F32 }", "spec.parallelism.wire",
     "found PRECISION_F32, expected PRECISION_BF16: activations travel no wider than precision"},
    {"micro_batch_size: 2 schedule { parameters { slices: 4 } }", "spec.schedule.parameters.slices",
     "domino_row: found slices 4, expected at most micro_batch_size 2"},
    {"schedule { parameters { slices: -1 } }", "spec.schedule.parameters.slices",
     "domino_row: found slices -1, expected at least 1"},
    {"micro_batch_size: 1", "spec.micro_batch_size",
     "domino_row: found micro_batch_size 1, expected at least 2: a batch of one cannot be cut into "
     "slices"},
    {"schedule { parameters { slice_sizes: 3 slice_sizes: 2 } }",
     "spec.schedule.parameters.slice_sizes",
     "domino_row: found sizes that sum to 5, expected micro_batch_size 4"},
    {"schedule { parameters { slice_sizes: 4 slice_sizes: 0 } }",
     "spec.schedule.parameters.slice_sizes",
     "domino_row: found a slice of 0 sequences, expected at least 1"},
    {"schedule { parameters { slices: 3 slice_sizes: 2 slice_sizes: 2 } }",
     "spec.schedule.parameters.slice_sizes",
     "domino_row: found 2 sizes, expected as many as slices 3"},
    {"optimizer { name: 'sgd' }", "spec.optimizer.name", "found \"sgd\", expected adamw"},
    {"optimizer { learning_rate: nan min_learning_rate: 0 }", "spec.optimizer.learning_rate",
     "found nan, expected a finite number"},
    {"optimizer { learning_rate: inf }", "spec.optimizer.learning_rate",
     "found inf, expected a finite number"},
    {"optimizer { learning_rate: 0 }", "spec.optimizer.learning_rate",
     "found 0, expected a number above 0, at most 1000"},
    {"optimizer { min_learning_rate: 0.5 }", "spec.optimizer.min_learning_rate",
     "found 0.5, expected a number from 0 to learning_rate 0.001"},
    {"optimizer { min_learning_rate: nan }", "spec.optimizer.min_learning_rate",
     "found nan, expected a finite number"},
    {"optimizer { beta1: 1 }", "spec.optimizer.beta1",
     "found 1, expected a number from 0 to below 1"},
    {"optimizer { beta2: -0.1 }", "spec.optimizer.beta2",
     "found -0.1, expected a number from 0 to below 1"},
    {"optimizer { beta1: nan }", "spec.optimizer.beta1", "found nan, expected a finite number"},
    {"optimizer { beta2: nan }", "spec.optimizer.beta2", "found nan, expected a finite number"},
    {"optimizer { epsilon: 0 }", "spec.optimizer.epsilon",
     "found 0, expected a number above 0, at most 1"},
    {"optimizer { epsilon: inf }", "spec.optimizer.epsilon", "found inf, expected a finite number"},
    {"optimizer { weight_decay: -inf }", "spec.optimizer.weight_decay",
     "found -inf, expected a finite number"},
    {"optimizer { clip_norm: -1 }", "spec.optimizer.clip_norm",
     "found -1, expected 0 (no clipping) or a number up to 1e9"},
    {"optimizer { clip_norm: nan }", "spec.optimizer.clip_norm",
     "found nan, expected a finite number"},
    {"optimizer { warmup_steps: 200 }", "spec.optimizer.warmup_steps",
     "found 200, expected a number from 0 to decay_steps 100"},
    {"optimizer { decay_steps: 0 }", "spec.optimizer.decay_steps",
     "found 0, expected a number from 1 to 1000000000"},
    {"optimizer { max_skipped_updates: 0 }", "spec.optimizer.max_skipped_updates",
     "found 0, expected a number from 1 to 1000000"},
    {"checkpoint { interval_steps: -1 }", "spec.checkpoint.interval_steps",
     "found -1, expected a number from 0 to 1000000000"},
    {"checkpoint { keep: -1 }", "spec.checkpoint.keep",
     "found -1, expected a number from 0 to 1000000"},
    {"checkpoint { interval_steps: 5 disabled: true }", "spec.checkpoint.interval_steps",
     "found 5, expected 0, because checkpoints are disabled"},
    {"checkpoint { resume_from: '../other' }", "spec.checkpoint.resume_from",
     "found \"../other\", expected no '..'"},
    {"checkpoint { resume_from: 'hf:/exports/gpt' }", "spec.checkpoint.resume_from",
     "found \"hf:/exports/gpt\", expected a relative path beneath the worker's data root"},
    {"checkpoint { resume_from: 'hf:' }", "spec.checkpoint.resume_from",
     "found \"hf:\", expected a path beneath the worker's data root"},
    {"model { initial_weights: 'gpt2' }", "spec.model.initial_weights",
     "found \"gpt2\", expected hf: or llmc: and a path"},
    {"model { initial_weights: 'torch:gpt2' }", "spec.model.initial_weights",
     "found \"torch:gpt2\", expected hf: or llmc: and a path"},
    {"model { initial_weights: 'hf:' }", "spec.model.initial_weights",
     "found \"hf:\", expected a path beneath the worker's data root"},
    {"model { initial_weights: 'hf:../gpt2' }", "spec.model.initial_weights",
     "found \"hf:../gpt2\", expected no '..' beneath the worker's data root"},
    {"model { initial_weights: 'llmc:/root/gpt2.bin' }", "spec.model.initial_weights",
     "found \"llmc:/root/gpt2.bin\", expected a relative path beneath the worker's data root"},
    {"device: DEVICE_CUDA emulated_link { gigabits_per_second: 1 }", "spec.emulated_link",
     "found one, expected none with DEVICE_CUDA: ranks on GPUs train over the real link "
     "(stretto-bench measures a GPU with an emulated one)"},
    {"device: DEVICE_CUDA micro_batch_size: 32769", "spec.micro_batch_size",
     "found 8388864 tokens, expected at most 8388608 with DEVICE_CUDA"},
    {"precision: 9", "spec.precision", "found 9, expected PRECISION_F32 or PRECISION_BF16"},
    {"device: 9", "spec.device", "found 9, expected DEVICE_CPU or DEVICE_CUDA"},
    {"emulated_link { gigabits_per_second: 0 }", "spec.emulated_link.gigabits_per_second",
     "found 0, expected a number above 0, at most 1e6"},
    {"emulated_link { gigabits_per_second: nan }", "spec.emulated_link.gigabits_per_second",
     "found nan, expected a finite number"},
    {"emulated_link { gigabits_per_second: 1 latency_microseconds: inf }",
     "spec.emulated_link.latency_microseconds", "found inf, expected a finite number"},
    {"emulated_link { gigabits_per_second: 1 latency_microseconds: -1 }",
     "spec.emulated_link.latency_microseconds", "found -1, expected a number from 0 to 1e7"},
    {"profile { steps: 100000 }", "spec.profile.steps",
     "found 100000, expected a number from 0 to 1000"},
};
INSTANTIATE_TEST_SUITE_P(Refusals, ValidateSpecTest, ::testing::ValuesIn(kRefusals));

TEST(ValidateSpec, RefusesWhatIsMissing) {
  const auto message = [](const JobSpec& spec) {
    return std::string(ValidateSpec(NormalizeSpec(spec)).message());
  };
  JobSpec spec = SpecWith("");
  spec.clear_model();
  EXPECT_EQ(message(spec), "spec.model: found neither preset nor dimensions, expected a preset (" +
                               PresetNames() + ") or layers, hidden, heads, ...");
  spec = SpecWith("");
  spec.clear_data();
  EXPECT_EQ(message(spec),
            "spec.data.prefix: found \"\", expected a path beneath the worker's data root");
  spec = SpecWith("");
  spec.clear_steps();
  EXPECT_EQ(message(spec), "spec.steps: found 0, expected a number from 1 to 1000000000");
  spec = SpecWith("");
  spec.clear_micro_batch_size();
  EXPECT_EQ(message(spec), "spec.micro_batch_size: found 0, expected a number from 1 to 65536");
}

TEST(ValidateSpec, StepsAreZeroOnlyToWriteGivenWeights) {
  const auto message = [](const std::string& change) {
    JobSpec spec = SpecWith(change);
    spec.clear_steps();
    return std::string(ValidateSpec(NormalizeSpec(spec)).message());
  };
  const std::string given = "model { initial_weights: 'hf:models/gpt' } ";
  EXPECT_EQ(message(given), "");
  EXPECT_EQ(message(""), "spec.steps: found 0, expected a number from 1 to 1000000000");
  EXPECT_EQ(message(given + "checkpoint { disabled: true }"),
            "spec.steps: found 0, expected at least 1, because checkpoints are disabled");
  EXPECT_EQ(message(given + "checkpoint { resume_from: 'other' }"),
            "spec.steps: found 0, expected at least 1, because checkpoint.resume_from goes on from "
            "other weights");
  EXPECT_EQ(message(given + "eval { interval_steps: 5 prefix: 'held' }"),
            "spec.steps: found 0, expected at least 1, because eval measures after steps");
  EXPECT_EQ(message(given + "steps: 0"), "");
}

TEST(ValidateSpec, TakesWeightsToStartFrom) {
  for (const char* change :
       {"model { initial_weights: 'hf:models/gpt' }",
        "model { initial_weights: 'llmc:gpt2_124M.bin' }", "model { initial_weights: 'hf:a:b' }",
        "checkpoint { resume_from: 'hf:exports/gpt' }",
        "model { initial_weights: 'hf:gpt' } checkpoint { resume_from: 'j' }"}) {
    EXPECT_EQ(ValidateSpec(NormalizeSpec(SpecWith(change))), absl::OkStatus()) << change;
  }
}

// A model by dimensions: layers, hidden, heads, ffn, sequence, vocabulary.
JobSpec Dimensions(int layers, int hidden, int heads, int ffn, int vocab, int tp) {
  JobSpec spec = SpecWith("");
  auto* model = spec.mutable_model();
  model->clear_preset();
  model->set_layers(layers);
  model->set_hidden(hidden);
  model->set_heads(heads);
  model->set_ffn_hidden(ffn);
  model->set_sequence_length(64);
  model->set_vocab_size(vocab);
  spec.mutable_parallelism()->set_tp_size(tp);
  return spec;
}

TEST(ValidateSpec, ChecksDimensions) {
  const auto message = [](const JobSpec& spec) {
    return std::string(ValidateSpec(NormalizeSpec(spec)).message());
  };
  EXPECT_EQ(message(Dimensions(2, 64, 4, 0, 257, 2)), "");
  EXPECT_EQ(message(Dimensions(0, 64, 4, 0, 257, 2)),
            "spec.model.layers: found 0, expected a number from 1 to 256");
  EXPECT_EQ(message(Dimensions(2, 64, 6, 0, 257, 2)),
            "spec.model.heads: found 6, expected a divisor of hidden 64");
  EXPECT_EQ(message(Dimensions(2, 1000000, 4, 64, 257, 2)),
            "spec.model.hidden: found 1000000, expected a number from 1 to 65536");
  EXPECT_EQ(message(Dimensions(256, 65536, 64, 1 << 20, 257, 2)),
            "spec.model: found about 39582447960064 parameters, expected at most 1000000000000");
  EXPECT_EQ(message(Dimensions(2, 64, 4, 66, 257, 4)),
            "spec.parallelism.tp_size: found 4, expected a divisor of ffn_hidden 66");
  EXPECT_EQ(message(Dimensions(2, 63, 9, 9, 257, 9)),
            "spec.parallelism.tp_size: found 9, expected a divisor of the padded vocabulary 384");
}

TEST(ValidateSpec, ChecksWhatOnlyAFamilyHas) {
  const auto message = [](const JobSpec& spec) {
    return std::string(ValidateSpec(NormalizeSpec(spec)).message());
  };
  JobSpec llama = Dimensions(2, 64, 4, 0, 257, 2);
  llama.mutable_model()->set_family(v1alpha1::FAMILY_LLAMA);
  EXPECT_EQ(message(llama), "");
  JobSpec spec = llama;
  spec.mutable_model()->set_kv_heads(2);
  EXPECT_EQ(message(spec), "");
  spec.mutable_model()->set_kv_heads(3);
  EXPECT_EQ(message(spec),
            "spec.model.kv_heads: found 3, expected a divisor of heads 4 (and 1 "
            "more)");
  spec.mutable_model()->set_kv_heads(-1);
  EXPECT_EQ(message(spec), "spec.model.kv_heads: found -1, expected a divisor of heads 4");
  spec = llama;
  spec.mutable_model()->set_rotary_base(-1);
  EXPECT_EQ(message(spec),
            "spec.model.rotary_base: found -1, expected a number from 1 to 1000000000");
  spec = llama;
  spec.mutable_model()->set_heads(64);
  EXPECT_EQ(message(spec),
            "spec.model.heads: found 64, expected heads of an even dimension, which "
            "rotary positions need, not 1");
  spec = llama;
  spec.mutable_model()->set_family(static_cast<v1alpha1::Family>(9));
  EXPECT_EQ(message(spec), "spec.model.family: found 9, expected FAMILY_GPT or FAMILY_LLAMA");
  spec = Dimensions(2, 64, 4, 0, 257, 2);
  spec.mutable_model()->set_rotary_base(10000);
  EXPECT_EQ(message(spec),
            "spec.model.rotary_base: found 10000, expected nothing, because family "
            "gpt learns its positions");
}

TEST(ValidateSpec, EveryPresetAndEveryScheduleIsAccepted) {
  for (const ModelPreset& preset : kModelPresets) {
    JobSpec spec = SpecWith("model { dropout: 0.1 }");
    spec.mutable_model()->set_preset(preset.name);
    const JobSpec once = NormalizeSpec(spec);
    EXPECT_EQ(ValidateSpec(once), absl::OkStatus()) << preset.name;
    EXPECT_TRUE(MessageDifferencer::Equals(once, NormalizeSpec(once))) << preset.name;
  }
  for (const ScheduleRules& rules : kSchedules) {
    JobSpec spec = SpecWith(
        "parallelism { wire: PRECISION_BF16 } "
        "schedule { parameters { sequence_parallel: true recompute: RECOMPUTE_FULL } }");
    spec.mutable_schedule()->set_name(rules.name);
    const JobSpec once = NormalizeSpec(spec);
    EXPECT_EQ(ValidateSpec(once), absl::OkStatus()) << rules.name;
    EXPECT_TRUE(MessageDifferencer::Equals(once, NormalizeSpec(once))) << rules.name;
  }
}

TEST(ValidateSpec, GpusTakeWhatTheirKernelsTake) {
  const auto message = [](JobSpec spec) {
    spec.set_device(v1alpha1::DEVICE_CUDA);
    return std::string(ValidateSpec(NormalizeSpec(spec)).message());
  };
  EXPECT_EQ(message(SpecWith("parallelism { tp_size: 2 }")), "");
  EXPECT_EQ(message(SpecWith("precision: PRECISION_BF16")), "");
  JobSpec wide = Dimensions(1, 16384, 64, 0, 257, 1);
  EXPECT_EQ(message(wide), "");
  wide.mutable_model()->set_hidden(16448);
  EXPECT_EQ(message(wide),
            "spec.model.hidden: found 16448, expected at most 16384 with DEVICE_CUDA and this "
            "precision");
  wide.set_precision(v1alpha1::PRECISION_BF16);
  EXPECT_EQ(message(wide), "");
  JobSpec llama = Dimensions(1, 2064, 8, 0, 257, 1);
  llama.mutable_model()->set_family(v1alpha1::FAMILY_LLAMA);
  EXPECT_EQ(message(llama),
            "spec.model.heads: found heads of dimension 258, expected at most 256 with "
            "DEVICE_CUDA");
}

TEST(ValidateSpec, NamesEveryFieldAtFault) {
  const absl::Status status =
      ValidateSpec(NormalizeSpec(SpecWith("steps: -1 data { prefix: '/x' } device: 9")));
  EXPECT_EQ(BadRequestOf(status).field_violations_size(), 3);
  EXPECT_EQ(status.message(),
            "spec.steps: found -1, expected a number from 1 to 1000000000 (and 2 more)");
}

TEST(NormalizeSpec, FillsEveryDefaultOnceAndForAll) {
  const JobSpec once = NormalizeSpec(SpecWith("micro_batch_size: 5"));
  EXPECT_TRUE(ValidateSpec(once).ok()) << ValidateSpec(once);
  EXPECT_TRUE(MessageDifferencer::Equals(once, NormalizeSpec(once)));
  EXPECT_EQ(once.model().hidden(), 384);
  EXPECT_EQ(once.model().ffn_hidden(), 1536);
  EXPECT_EQ(once.model().sequence_length(), 256);
  EXPECT_EQ(once.model().family(), v1alpha1::FAMILY_GPT);
  EXPECT_EQ(once.model().kv_heads(), 6);
  EXPECT_EQ(once.global_batch_size(), 5);
  EXPECT_EQ(once.seed(), 1234u);
  EXPECT_EQ(once.parallelism().pp_size(), 1);
  EXPECT_THAT(once.schedule().parameters().slice_sizes(), ::testing::ElementsAre(3, 2));
  EXPECT_DOUBLE_EQ(once.optimizer().min_learning_rate(), 1e-4);
  EXPECT_EQ(once.optimizer().decay_steps(), 100);
  EXPECT_EQ(once.checkpoint().keep(), 2);
  EXPECT_EQ(once.precision(), v1alpha1::PRECISION_F32);
  EXPECT_EQ(once.parallelism().wire(), v1alpha1::PRECISION_F32);
  EXPECT_EQ(once.schedule().parameters().recompute(), v1alpha1::RECOMPUTE_NONE);
  EXPECT_EQ(once.device(), v1alpha1::DEVICE_CPU);
  EXPECT_EQ(once.model().norm_epsilon(), 1e-5);
  EXPECT_TRUE(once.model().tied_head());
  EXPECT_FALSE(once.model().has_rotary_scaling());
}

TEST(NormalizeSpec, DefaultsFollowTheFamilyThePrecisionAndTheSchedule) {
  JobSpec spec = Dimensions(2, 4096, 32, 0, 257, 2);
  EXPECT_EQ(NormalizeSpec(spec).model().ffn_hidden(), 16384);
  EXPECT_EQ(NormalizeSpec(spec).model().rotary_base(), 0);
  spec.mutable_model()->set_family(v1alpha1::FAMILY_LLAMA);
  EXPECT_EQ(NormalizeSpec(spec).model().ffn_hidden(), 11008);
  EXPECT_EQ(NormalizeSpec(spec).model().rotary_base(), 10000);
  EXPECT_EQ(NormalizeSpec(spec).model().kv_heads(), 32);
  EXPECT_TRUE(NormalizeSpec(spec).model().has_tied_head());
  EXPECT_FALSE(NormalizeSpec(spec).model().tied_head());
  spec.mutable_model()->mutable_rotary_scaling()->set_kind(v1alpha1::RotaryScaling::LLAMA3);
  EXPECT_EQ(NormalizeSpec(spec).model().rotary_scaling().low_frequency_factor(), 1);
  EXPECT_EQ(NormalizeSpec(spec).model().rotary_scaling().high_frequency_factor(), 4);
  EXPECT_EQ(NormalizeSpec(SpecWith("model { preset: 'llama3-8b' }")).model().rotary_base(), 500000);
  EXPECT_EQ(NormalizeSpec(SpecWith("precision: PRECISION_BF16")).parallelism().wire(),
            v1alpha1::PRECISION_BF16);
  const JobSpec hybrid = NormalizeSpec(SpecWith("schedule { name: 'domino_hybrid' }"));
  EXPECT_EQ(hybrid.schedule().parameters().splits(), 2);
  EXPECT_THAT(hybrid.schedule().parameters().slice_sizes(), ::testing::ElementsAre(2, 2));
  const JobSpec column = NormalizeSpec(SpecWith("schedule { name: 'domino_col' }"));
  EXPECT_EQ(column.schedule().parameters().splits(), 2);
  EXPECT_EQ(column.schedule().parameters().slices(), 0);
}

TEST(NormalizeSpec, PresetLetsTheSequenceLengthBeOverridden) {
  const JobSpec spec = NormalizeSpec(SpecWith("model { sequence_length: 128 }"));
  EXPECT_TRUE(ValidateSpec(spec).ok());
  EXPECT_EQ(spec.model().sequence_length(), 128);
}

TEST(ValidateRequest, RefusesBadNamesAndSizes) {
  v1alpha1::CreateJobRequest request;
  request.set_job_id("Bad_Name");
  request.set_request_id("a b");
  const absl::Status status = ValidateCreateRequest(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "job_id: found \"Bad_Name\", expected 1 to 63 of [a-z0-9-], starting with a letter and "
            "not ending with '-' (and 2 more)");
  EXPECT_EQ(BadRequestOf(status).field_violations(1).field(), "request_id");
  EXPECT_EQ(BadRequestOf(status).field_violations(2).field(), "spec");
  EXPECT_EQ(*ParseName("jobs", "jobs/a-1"), "a-1");
  EXPECT_EQ(ParseName("jobs", "workers/a").status().message(),
            "name: found \"workers/a\", expected \"jobs/ID\" where ID is 1 to 63 of [a-z0-9-], "
            "starting with a letter and not ending with '-'");
  EXPECT_EQ(PageSize(-1).status().message(), "page_size: found -1, expected 0 or more");
  EXPECT_EQ(*PageSize(0), 50);
  EXPECT_EQ(*PageSize(100000), 1000);
}

}  // namespace
}  // namespace stretto::service
