// SPDX-License-Identifier: Apache-2.0
#include "proto/spec/job/settings.h"

#include <gmock/gmock.h>

#include "proto/spec/job/hash.h"
#include "tests/proto/spec/job_specs.h"

namespace stretto::spec {
namespace {

using testing::HasSubstr;

std::string Between(const v1alpha1::JobSpec& found, const v1alpha1::JobSpec& expected) {
  return TextOf(DifferencesOf(SettingsOf(found), SettingsOf(expected)));
}

struct Change {
  const char* spec;
  const char* text;
};

// Whatever changes the hash of the mathematics is named, with both values.
TEST(SettingsTest, WhatDecidesNumbersIsNamed) {
  const v1alpha1::JobSpec plain = Normalize(SpecWith("", kDimensions));
  for (const Change& change :
       {Change{"model { layers: 3 }", "model.layers: found 3, expected 2"},
        {"model { norm_epsilon: 1e-6 }", "model.norm_epsilon: found 1e-06, expected 1e-05"},
        {"model { family: FAMILY_LLAMA }", "model.family: found "},
        {"seed: 9", "seed: found 9, expected 1234"},
        {"optimizer { beta1: 0.5 }", "optimizer.beta1: found 0.5, expected 0.9"},
        {"optimizer { decay_steps: 7 }", "optimizer.decay_steps: found 7, expected 100"},
        {"precision: PRECISION_BF16", "parallelism.wire: found "},
        {"parallelism { wire: PRECISION_BF16 }", "parallelism.wire: found "},
        {"device: DEVICE_CUDA", "device: found "},
        {"global_batch_size: 8", "global_batch_size: found 8, expected 4"},
        {"data { held_out: 0.1 }", "data.held_out: found 0.1, expected 0"},
        {"data { document_mask: true }", "data.document_mask: found true, expected false"}}) {
    const v1alpha1::JobSpec other = Normalize(SpecWith(change.spec, kDimensions));
    EXPECT_NE(MathHashOf(other), MathHashOf(plain)) << change.spec;
    EXPECT_THAT(Between(other, plain), HasSubstr(change.text)) << change.spec;
  }
  const v1alpha1::JobSpec blend = Normalize(
      SpecWith("data { blend { prefix: 'b' weight: 2 } blend { prefix: 'c' weight: 3 } }", kBlend));
  v1alpha1::JobSpec other = blend;
  other.mutable_data()->mutable_blend(1)->set_weight(5);
  EXPECT_EQ(Between(other, blend), "data.blend[1].weight: found 5, expected 2");
}

TEST(SettingsTest, LayoutAndNamesAreNoSettings) {
  const v1alpha1::JobSpec plain = Normalize(SpecWith("global_batch_size: 16"));
  for (const char* layout :
       {"parallelism { dp_size: 2 zero: 1 }", "parallelism { pp_size: 2 }", "micro_batch_size: 2",
        "schedule { parameters { sequence_parallel: true merge_wgrads: 2 } }",
        "checkpoint { keep: 7 }", "data { prefix: 'moved' }"}) {
    EXPECT_EQ(Between(Normalize(SpecWith(std::string("global_batch_size: 16 ") + layout)), plain),
              "")
        << layout;
  }
  // A weight has no meaning alone.
  v1alpha1::JobSpec one = Normalize(Parsed(kBlend)), heavy = one;
  heavy.mutable_data()->mutable_blend(0)->set_weight(3);
  EXPECT_EQ(Between(heavy, one), "");
}

TEST(SettingsTest, AFieldOfOneSideAloneIsNamedToo) {
  EXPECT_EQ(TextOf(DifferencesOf({{"a", "1"}, {"b", "2"}}, {{"b", "3"}, {"c", "4"}})),
            "a: found 1, expected none; b: found 2, expected 3; c: found none, expected 4");
}

// An older release had no such field, and did what its default says.
TEST(SettingsTest, AFieldThatWasAddedLaterHadItsDefault) {
  EXPECT_EQ(TextOf(DifferencesOf({}, {{"data.document_mask", "false"}})), "");
  EXPECT_EQ(TextOf(DifferencesOf({}, {{"data.document_mask", "true"}})),
            "data.document_mask: found false, expected true");
}

}  // namespace
}  // namespace stretto::spec
