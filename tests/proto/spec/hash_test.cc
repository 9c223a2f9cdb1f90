// SPDX-License-Identifier: Apache-2.0

// The spec hash: old checkpoints keep theirs, and it has the fields that the table says.
#include "proto/spec/job/hash.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/spec/fields.h"
#include "proto/spec/job/places.h"
#include "tests/proto/spec/job_specs.h"

namespace stretto::spec {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using v1alpha1::JobSpec;

struct Pinned {
  const char* spec;
  const char* hash;
};

// Written by the release that computed the hash from the engine's own structs.
const Pinned kPinned[] = {
    {"model { preset: 'gpt-tiny' } data { prefix: 'text' } steps: 100 micro_batch_size: "
     "4",
     "0d6f088f4ef6d828"},
    {"model { preset: 'llama3-8b' sequence_length: 512 dropout: 0.1 } parallelism { "
     "tp_size: 8 wire: PRECISION_BF16 } precision: PRECISION_BF16 global_batch_size: 16 "
     "device: DEVICE_CUDA data { prefix: 'text' } steps: 100 micro_batch_size: 4",
     "b8973ed9b77678e5"},
    {"model { preset: 'gpt-10m' } parallelism { tp_size: 2 } schedule { name: "
     "'domino_row' parameters { slices: 3 sequence_parallel: true defer_wgrads: 2 "
     "recompute: RECOMPUTE_FULL } } data { prefix: 'text' } steps: 100 micro_batch_size: "
     "4",
     "8f4913fb5debf454"},
    {"model { preset: 'gpt-10m' } parallelism { tp_size: 2 wire: PRECISION_BF16 } "
     "schedule { name: 'domino_hybrid' parameters { slice_sizes: 3 slice_sizes: 1 "
     "splits: 4 merge_wgrads: 2 } } global_batch_size: 16 data { prefix: 'text' } steps: "
     "100 micro_batch_size: 4",
     "3003f13744e98316"},
    {"model { preset: 'gpt-10m' } schedule { name: 'domino_col' parameters { "
     "auto_merge_wgrads: true } } global_batch_size: 8 data { prefix: 'text' } steps: "
     "100 micro_batch_size: 4",
     "4e6c386e81f43ab4"},
    {"model { family: FAMILY_LLAMA layers: 3 hidden: 32 heads: 4 kv_heads: 2 "
     "sequence_length: 16 vocab_size: 100 norm_epsilon: 1e-6 tied_head: true "
     "rotary_base: 20000 rotary_scaling { kind: LLAMA3 factor: 32 "
     "original_sequence_length: 16 low_frequency_factor: 2 } } seed: 7 data { prefix: "
     "'text' } steps: 100 micro_batch_size: 4",
     "17a7383460a559e2"},
    {"model { preset: 'llama-tiny' rotary_scaling { kind: LINEAR factor: 1.5 } } "
     "optimizer { learning_rate: 3e-4 min_learning_rate: 0 beta1: 0.85 beta2: 0.99 "
     "epsilon: 1e-7 weight_decay: 0 clip_norm: 0 warmup_steps: 10 decay_steps: 500 "
     "max_skipped_updates: 1 } data { prefix: 'text' } steps: 100 micro_batch_size: 4",
     "f26cb59b240cf3ff"},
    {"model { preset: 'gpt-tiny' tied_head: false norm_epsilon: 2e-5 initial_weights: "
     "'hf:gpt' } seed: 18446744073709551615 checkpoint { interval_steps: 5 } eval { "
     "interval_steps: 5 } profile { steps: 2 } emulated_link { gigabits_per_second: 1 } "
     "data { prefix: 'text' held_out: 0.01 } steps: 100 micro_batch_size: 4",
     "d9d9c0ec27b81439"},
    {"model { preset: 'gpt-tiny' } data { held_out: 0.25 blend { prefix: 'a' weight: 0.7 "
     "} blend { prefix: 'llmc:b_*.bin' weight: 0.3 } } steps: 7 micro_batch_size: 2 "
     "schedule { name: 'nanotron' }",
     "846b4f820237a2d4"},
};

TEST(HashTest, SpecsOfOlderReleasesKeepTheirHash) {
  for (const Pinned& pinned : kPinned) {
    const JobSpec spec = Normalize(Parsed(pinned.spec));
    EXPECT_EQ(Validate(spec), absl::OkStatus()) << pinned.spec;
    EXPECT_EQ(HashOf(spec), pinned.hash) << pinned.spec;
  }
}

// What the tests of the first release fixed.
TEST(HashTest, IsThatOfTheFirstRelease) {
  JobSpec spec = Normalize(
      Parsed("model { preset: 'gpt-tiny' } data { prefix: 'text' } parallelism { tp_size: 2 } "
             "schedule { name: 'domino_row' } optimizer { learning_rate: 1e-3 "
             "min_learning_rate: 1e-4 beta1: 0 beta2: 0 epsilon: 0 weight_decay: 0 clip_norm: 0 "
             "warmup_steps: 10 decay_steps: 110 } "
             "micro_batch_size: 5 global_batch_size: 10 steps: 100"));
  spec.set_seed(0);
  EXPECT_EQ(HashOf(spec), "74c609018cd2fc37");
}

// How the work of a step is spread and cut is layout; what a step computes is not.
TEST(MathHashTest, LeavesOutTheLayoutAlone) {
  const auto spec = [](const std::string& more, int micro_batch, int global_batch) {
    JobSpec made = SpecWith(more);
    made.set_micro_batch_size(micro_batch);
    made.set_global_batch_size(global_batch);
    return Normalize(made);
  };
  const std::string math = MathHashOf(spec("", 4, 16)), all = HashOf(spec("", 4, 16));
  for (const char* layout :
       {"parallelism { tp_size: 1 }", "parallelism { tp_size: 3 dp_size: 2 }",
        "parallelism { dp_size: 2 zero: 1 }", "parallelism { pp_size: 2 }",
        "parallelism { pp_size: 2 chunks_per_stage: 3 }",
        "parallelism { stages { layers: 2 tp_size: 2 } stages { layers: 4 tp_size: 1 } }",
        "parallelism { dp_size: 2 stages { layers: 2 } stages { layers: 4 dp_size: 1 } }",
        "schedule { parameters { slice_sizes: [1, 3] } }",
        "schedule { parameters { sequence_parallel: true merge_wgrads: 2 } }"}) {
    EXPECT_EQ(MathHashOf(spec(layout, 4, 16)), math) << layout;
    EXPECT_NE(HashOf(spec(layout, 4, 16)), all) << layout;
  }
  EXPECT_EQ(MathHashOf(spec("", 2, 16)), math);
  EXPECT_NE(MathHashOf(spec("", 4, 24)), math);
  for (const char* other :
       {"model { layers: 3 }", "seed: 9", "optimizer { beta1: 0.5 }", "precision: PRECISION_BF16",
        "parallelism { wire: PRECISION_BF16 }", "device: DEVICE_CUDA", "data { held_out: 0.1 }",
        "data { document_mask: true }"}) {
    EXPECT_NE(MathHashOf(spec(other, 4, 16)), math) << other;
  }
}

// Stages of older releases have no number of replicas of their own.
TEST(HashTest, StagesWithTheReplicasOfTheJobHaveTheHashOfStagesWithoutANumber) {
  const std::string stages = "stages { layers: 2 tp_size: 2 } stages { layers: 4 tp_size: 1 ";
  JobSpec plain = Normalize(SpecWith("parallelism { dp_size: 2 " + stages + "} }"));
  for (v1alpha1::StageSpec& stage : *plain.mutable_parallelism()->mutable_stages())
    stage.clear_dp_size();
  EXPECT_EQ(HashOf(plain),
            HashOf(Normalize(SpecWith("parallelism { dp_size: 2 " + stages + "dp_size: 2 } }"))));
  EXPECT_NE(HashOf(plain),
            HashOf(Normalize(SpecWith("parallelism { dp_size: 2 " + stages + "dp_size: 1 } }"))));
}

TEST(HashTest, AMergeLeftToMemoryHasTheHashOfTheNumberChosen) {
  const std::string batch = "global_batch_size: 16 ";
  JobSpec automatic =
      Normalize(SpecWith(batch + "schedule { parameters { auto_merge_wgrads: true } }"));
  for (int merged : {1, 2, 4}) {
    automatic.mutable_schedule()->mutable_parameters()->set_merge_wgrads(merged);
    EXPECT_EQ(HashOf(automatic),
              HashOf(Normalize(SpecWith(batch + "schedule { parameters { merge_wgrads: " +
                                        std::to_string(merged) + " } }"))));
  }
}

TEST(HashTest, ABlendOfOneIsTheDataSetItself) {
  const std::string rest = "steps: 1 micro_batch_size: 1 model { preset: 'gpt-tiny' } ";
  EXPECT_EQ(HashOf(Normalize(Parsed(rest + "data { blend { prefix: 'a' weight: 3 } }"))),
            HashOf(Normalize(Parsed(rest + "data { prefix: 'a' }"))));
}

// Fields that the table marks although a change of theirs alone shows nothing, and the other way.
bool ShowsOnlyWithOthers(const std::string& path) {
  return path == "schedule.parameters.slices" ||          // slice_sizes says it
         path == "schedule.parameters.auto_merge_wgrads"  // merge_wgrads says it
      ;
}

// Another value than it has.
void Change(Message* parent, const FieldDescriptor& field) {
  const Reflection& set = *parent->GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      if (field.is_repeated()) {
        return set.SetRepeatedInt32(parent, &field, 0,
                                    set.GetRepeatedInt32(*parent, &field, 0) + 1);
      }
      return set.SetInt32(parent, &field, set.GetInt32(*parent, &field) + 4);
    case FieldDescriptor::CPPTYPE_INT64:
      return set.SetInt64(parent, &field, set.GetInt64(*parent, &field) + 1);
    case FieldDescriptor::CPPTYPE_UINT64:
      return set.SetUInt64(parent, &field, set.GetUInt64(*parent, &field) + 1);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return set.SetDouble(parent, &field, set.GetDouble(*parent, &field) + 0.125);
    case FieldDescriptor::CPPTYPE_BOOL:
      return set.SetBool(parent, &field, !set.GetBool(*parent, &field));
    case FieldDescriptor::CPPTYPE_ENUM: {
      if (field.is_repeated()) return set.AddEnumValue(parent, &field, 1);
      const int value = set.GetEnumValue(*parent, &field);
      return set.SetEnumValue(parent, &field, value == 1 ? 2 : 1);
    }
    case FieldDescriptor::CPPTYPE_STRING:
      if (field.is_repeated()) return set.AddString(parent, &field, "x");
      return set.SetString(parent, &field, set.GetString(*parent, &field) + "x");
    default:  // a type of Protobuf that no field of a spec has
      FAIL() << field.full_name();
  }
}

// A spec that gives every field.
JobSpec FullSpec() {
  return Normalize(Parsed(
      "model { family: FAMILY_LLAMA layers: 2 hidden: 64 heads: 4 kv_heads: 4 ffn_hidden: 256 "
      "  sequence_length: 64 vocab_size: 300 dropout: 0.1 "
      "  rotary_scaling { kind: LLAMA3 factor: 8 original_sequence_length: 64 } } "
      "data { held_out: 0.1 blend { prefix: 'a' weight: 1 } blend { prefix: 'b' weight: 1 } } "
      "parallelism { dp_size: 2 zero: 1 stages { layers: 1 } stages { layers: 1 tp_size: 2 } } "
      "schedule { name: 'domino_hybrid' pipeline { warm_up: [ 3, 1 ] } } "
      "steps: 10 micro_batch_size: 2 global_batch_size: 16 "
      "emulated_link { gigabits_per_second: 1 } profile { steps: 1 } "
      "eval { interval_steps: 5 early_stop { patience: 2 } } sample { interval_steps: 5 } "
      "placement {} "
      "restart { layouts {} layouts {} }"));
}

Message* MutableParent(JobSpec* spec, const std::string& path) {
  const std::string blend = "data.blend.";
  if (path.rfind(blend, 0) == 0) return spec->mutable_data()->mutable_blend(1);
  const std::string stages = "parallelism.stages.";
  if (path.rfind(stages, 0) == 0) return spec->mutable_parallelism()->mutable_stages(1);
  const std::string layouts = "restart.layouts.";
  if (path.rfind(layouts, 0) == 0) return spec->mutable_restart()->mutable_layouts(1);
  return ParentOf(spec, path, /*make=*/false);
}

TEST(HashTest, HasTheFieldsThatTheTableSays) {
  const std::string hash = HashOf(FullSpec());
  int fields = 0;
  for (const Field& field : JobFields()) {
    const FieldDescriptor& descriptor = *DescriptorOf(*JobSpec::descriptor(), field.path);
    if (descriptor.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (ShowsOnlyWithOthers(field.path)) continue;
    JobSpec changed = FullSpec();
    Message* parent = MutableParent(&changed, field.path);
    ASSERT_NE(parent, nullptr) << field.path;
    Change(parent, descriptor);
    EXPECT_EQ(HashOf(changed) != hash, field.in_hash != InHash::kNo) << field.path;
    ++fields;
  }
  EXPECT_GT(fields, 60);
}

}  // namespace
}  // namespace stretto::spec
