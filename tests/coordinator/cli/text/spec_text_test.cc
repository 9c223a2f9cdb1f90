// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/text/spec_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace stretto::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(SpecTextTest, DataSaysItsPartsAndWhatIsHeldOut) {
  v1alpha1::JobSpec spec;
  spec.mutable_data()->set_prefix("books");
  EXPECT_EQ(DataText(spec), "books");
  spec.mutable_data()->set_held_out(0.015);
  EXPECT_EQ(DataText(spec), "books, 1.5 % held out");
  spec.clear_data();
  v1alpha1::BlendPart* part = spec.mutable_data()->add_blend();
  part->set_prefix("books");
  part->set_weight(2);
  part = spec.mutable_data()->add_blend();
  part->set_prefix("llmc:web/*.bin");
  part->set_weight(1);
  EXPECT_EQ(DataText(spec), "blend of books (66.7 %), llmc:web/*.bin (33.3 %)");
}

TEST(SpecTextTest, ModelSaysWhatIsUnusualOnly) {
  v1alpha1::JobSpec spec;
  v1alpha1::ModelSpec& model = *spec.mutable_model();
  model.set_layers(2);
  model.set_hidden(64);
  model.set_heads(4);
  model.set_kv_heads(4);
  model.set_sequence_length(128);
  model.set_family(v1alpha1::FAMILY_GPT);
  EXPECT_EQ(ModelText(spec), "gpt, 2 layers, hidden 64, 4 heads, sequence 128");
  model.set_preset("llama-tiny");
  model.set_family(v1alpha1::FAMILY_LLAMA);
  model.set_kv_heads(2);
  model.set_dropout(0.1);
  EXPECT_EQ(ModelText(spec),
            "llama-tiny: llama, 2 layers, hidden 64, 4 heads on 2 of keys and "
            "values, sequence 128, dropout 0.1");
  model.set_dropout(0);
  model.set_norm_epsilon(1e-5);
  model.set_tied_head(false);
  const std::string usual =
      "llama-tiny: llama, 2 layers, hidden 64, 4 heads on 2 of keys and values, sequence 128";
  EXPECT_EQ(ModelText(spec), usual);
  model.set_norm_epsilon(1e-6);
  model.set_tied_head(true);
  model.mutable_rotary_scaling()->set_kind(v1alpha1::RotaryScaling::LLAMA3);
  model.mutable_rotary_scaling()->set_factor(8);
  EXPECT_EQ(ModelText(spec), usual +
                                 ", norm epsilon 1e-06, tied head, positions stretched by 8 "
                                 "(llama3)");
  model.clear_rotary_scaling();
  model.clear_preset();
  model.set_family(v1alpha1::FAMILY_GPT);
  model.set_kv_heads(4);
  model.set_norm_epsilon(1e-5);
  EXPECT_EQ(ModelText(spec), "gpt, 2 layers, hidden 64, 4 heads, sequence 128");
  model.set_tied_head(false);
  EXPECT_EQ(ModelText(spec), "gpt, 2 layers, hidden 64, 4 heads, sequence 128, a head of its own");
}

TEST(SpecTextTest, LabelsAreInOrder) {
  v1alpha1::JobSpec spec;
  EXPECT_EQ(LabelsText(spec), "");
  (*spec.mutable_labels())["team"] = "speech";
  (*spec.mutable_labels())["sweep"] = "";
  EXPECT_EQ(LabelsText(spec), "sweep, team=speech");
}

TEST(SpecTextTest, ScheduleNamesEveryParameter) {
  v1alpha1::JobSpec spec;
  spec.mutable_schedule()->set_name("domino_hybrid");
  spec.mutable_parallelism()->set_tp_size(2);
  spec.mutable_parallelism()->set_wire(v1alpha1::PRECISION_F32);
  spec.set_precision(v1alpha1::PRECISION_F32);
  v1alpha1::ScheduleParameters& parameters = *spec.mutable_schedule()->mutable_parameters();
  parameters.set_recompute(v1alpha1::RECOMPUTE_NONE);
  EXPECT_EQ(OptionsText(spec), "");
  EXPECT_EQ(ScheduleText(spec), "domino_hybrid, tp 2");
  parameters.add_slice_sizes(3);
  parameters.add_slice_sizes(1);
  parameters.set_splits(4);
  parameters.set_sequence_parallel(true);
  parameters.set_recompute(v1alpha1::RECOMPUTE_SELECTIVE);
  parameters.set_defer_wgrads(2);
  parameters.set_merge_wgrads(1);
  spec.mutable_parallelism()->set_wire(v1alpha1::PRECISION_BF16);
  EXPECT_EQ(ScheduleText(spec),
            "domino_hybrid, slices of 3 + 1, 4 splits, tp 2, sequence parallel, recompute "
            "selective, wgrads deferred by 2, wgrads merged, wire bf16");
  parameters.set_merge_wgrads(4);
  EXPECT_THAT(OptionsText(spec), HasSubstr(", wgrads of 4 micro-batches merged, "));
  parameters.set_merge_wgrads(0);
  parameters.set_auto_merge_wgrads(true);
  EXPECT_THAT(OptionsText(spec), HasSubstr(", wgrads merged as memory allows, "));
  parameters.set_recompute(static_cast<v1alpha1::Recompute>(9));  // of a newer coordinator
  EXPECT_THAT(OptionsText(spec), HasSubstr("recompute 9,"));
}

TEST(SpecTextTest, APlanIsNamedByItsLength) {
  v1alpha1::JobSpec spec;
  spec.mutable_schedule()->set_name("helix");
  spec.mutable_schedule()->set_plan("weave f0|b0 pace=1\n  f ln1 L0\n");
  spec.mutable_parallelism()->set_tp_size(2);
  EXPECT_EQ(ScheduleText(spec), "helix, a plan of 2 lines, tp 2");
}

TEST(SpecTextTest, SchedulesOfStagesHaveAnOrder) {
  v1alpha1::JobSpec spec;
  spec.mutable_schedule()->set_name("megatron_async");
  spec.mutable_parallelism()->set_tp_size(2);
  spec.mutable_parallelism()->set_pp_size(3);
  v1alpha1::PipelineSpec& pipeline = *spec.mutable_schedule()->mutable_pipeline();
  pipeline.set_order("1f1b");
  EXPECT_EQ(ScheduleText(spec), "megatron_async, tp 2, pp 3 1f1b");
  spec.mutable_parallelism()->set_chunks_per_stage(1);
  EXPECT_EQ(ScheduleText(spec), "megatron_async, tp 2, pp 3 1f1b");
  spec.mutable_parallelism()->set_chunks_per_stage(4);
  EXPECT_EQ(ScheduleText(spec), "megatron_async, tp 2, pp 3 1f1b, 4 chunks per stage");
  spec.mutable_parallelism()->set_chunks_per_stage(1);
  for (int micro_batches : {5, 3, 1}) pipeline.add_warm_up(micro_batches);
  pipeline.set_wgrad_delay(v1alpha1::WGRAD_DELAY_NONE);
  EXPECT_EQ(ScheduleText(spec), "megatron_async, tp 2, pp 3 1f1b, warm-ups 5 3 1");
  pipeline.set_wgrad_delay(v1alpha1::WGRAD_DELAY_SEND);
  EXPECT_THAT(ScheduleText(spec), HasSubstr(", warm-ups 5 3 1, wgrads delayed: send"));
  pipeline.clear_warm_up();
  pipeline.set_auto_warm_up(true);
  EXPECT_THAT(ScheduleText(spec), HasSubstr(", pp 3 1f1b, warm-ups by measured times, "));
  pipeline.set_wgrad_delay(static_cast<v1alpha1::WgradDelay>(9));  // of a newer coordinator
  EXPECT_THAT(ScheduleText(spec), HasSubstr(", wgrads delayed: 9"));
  pipeline.set_transfer(v1alpha1::TRANSFER_AUTO);
  EXPECT_THAT(ScheduleText(spec), EndsWith(", wgrads delayed: 9"));
  pipeline.set_transfer(v1alpha1::TRANSFER_CHAIN);
  EXPECT_THAT(ScheduleText(spec), EndsWith(", transfers: chain"));
}

TEST(SpecTextTest, UnlikeStagesHaveTheirLayersAndRanks) {
  v1alpha1::JobSpec spec;
  spec.mutable_schedule()->set_name("domino_row");
  spec.mutable_schedule()->mutable_pipeline()->set_order("1f1b");
  spec.mutable_parallelism()->set_pp_size(2);
  for (int layers : {5, 3}) {
    v1alpha1::StageSpec& stage = *spec.mutable_parallelism()->add_stages();
    stage.set_layers(layers);
    stage.set_tp_size(layers - 1);
  }
  EXPECT_EQ(ScheduleText(spec), "domino_row, layers 5 x tp 4 + 3 x tp 2, pp 2 1f1b");
  spec.mutable_parallelism()->set_dp_size(2);
  spec.mutable_parallelism()->mutable_stages(0)->set_dp_size(2);
  spec.mutable_parallelism()->mutable_stages(1)->set_dp_size(1);
  EXPECT_EQ(ScheduleText(spec), "domino_row, layers 5 x tp 4 + 3 x tp 2 x dp 1, pp 2 1f1b, dp 2");
}

}  // namespace
}  // namespace stretto::cli
