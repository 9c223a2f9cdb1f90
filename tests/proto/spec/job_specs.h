// SPDX-License-Identifier: Apache-2.0
#pragma once
// Job specs as text, for the tests of their rules.

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "proto/spec/job/normalize.h"
#include "proto/spec/job/validate.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::spec {

inline v1alpha1::JobSpec Parsed(const std::string& text) {
  v1alpha1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

inline constexpr char kPreset[] =
    "model { preset: 'gpt-10m' } data { prefix: 'text/corpus' } parallelism { tp_size: 2 } "
    "schedule { name: 'domino_row' } steps: 100 micro_batch_size: 4";

// The same without a model.
inline constexpr char kNoModel[] =
    "data { prefix: 'text/corpus' } parallelism { tp_size: 2 } "
    "schedule { name: 'domino_row' } steps: 100 micro_batch_size: 4";

inline constexpr char kDimensions[] =
    "model { layers: 2 hidden: 64 heads: 4 sequence_length: 64 vocab_size: 257 } "
    "data { prefix: 'text/corpus' } parallelism { tp_size: 2 } "
    "schedule { name: 'domino_row' } steps: 100 micro_batch_size: 4";

inline constexpr char kLlama[] =
    "model { preset: 'llama-10m' } data { prefix: 'text' } steps: 1 micro_batch_size: 1";
inline constexpr char kLlama3[] =
    "model { preset: 'llama-10m' "
    "  rotary_scaling { kind: LLAMA3 factor: 8 original_sequence_length: 8192 } } "
    "data { prefix: 'text' } steps: 1 micro_batch_size: 1";
inline constexpr char kNoSteps[] =
    "model { preset: 'gpt-10m' } data { prefix: 'text' } micro_batch_size: 1";
inline constexpr char kBlend[] =
    "model { preset: 'gpt-10m' } data { blend { prefix: 'a' weight: 1 } } steps: 1 "
    "micro_batch_size: 1";

// `base` with `change` merged over it, not normalized.
inline v1alpha1::JobSpec SpecWith(const std::string& change, const std::string& base = kPreset) {
  v1alpha1::JobSpec spec = Parsed(base);
  spec.MergeFrom(Parsed(change));
  return spec;
}

}  // namespace stretto::spec
