// What of a model is neither preset nor dimension: fields that real models need.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/service/validate_spec.h"
#include "google/protobuf/text_format.h"

namespace stretto::service {
namespace {

// Why a job with this model is refused; nothing where it is not.
std::string Refusal(const std::string& model) {
  v1alpha1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("model { ", model, " } data { prefix: 'text' } steps: 1 micro_batch_size: 1"),
      &spec));
  return std::string(ValidateSpec(NormalizeSpec(spec)).message());
}

TEST(ValidateModelTest, NormEpsilonIsAFloatAboveZeroAndAtMostOne) {
  const std::string preset = "preset: 'gpt-10m' norm_epsilon: ",
                    field = "spec.model.norm_epsilon: ";
  EXPECT_EQ(Refusal(preset + "1e-6"), "");
  EXPECT_EQ(Refusal(preset + "1"), "");
  EXPECT_EQ(Refusal(preset + "1.2e-38"), "");
  EXPECT_EQ(Refusal(preset + "1.1e-38"),
            field + "found 1.1e-38, expected a number from 1.2e-38 to 1");
  EXPECT_EQ(Refusal(preset + "0"), field + "found 0, expected a number from 1.2e-38 to 1");
  EXPECT_EQ(Refusal(preset + "1.5"), field + "found 1.5, expected a number from 1.2e-38 to 1");
  EXPECT_EQ(Refusal(preset + "inf"), field + "found inf, expected a finite number");
}

TEST(ValidateModelTest, PositionsThatAreLearnedAreNotStretched) {
  EXPECT_EQ(Refusal("preset: 'gpt-10m' rotary_scaling { kind: LINEAR factor: 8 }"),
            "spec.model.rotary_scaling: found LINEAR, expected nothing, because family gpt learns "
            "its positions");
}

TEST(ValidateModelTest, StretchedPositionsNeedTheirKindsFields) {
  const auto message = [](const std::string& scaling) {
    return Refusal("preset: 'llama-10m' rotary_scaling { " + scaling + " }");
  };
  const std::string llama3 = "kind: LLAMA3 factor: 8 original_sequence_length: 8192 ";
  EXPECT_EQ(message(llama3), "");
  EXPECT_EQ(message(llama3 + "low_frequency_factor: 2 high_frequency_factor: 1024"), "");
  EXPECT_EQ(message("kind: LINEAR factor: 1.5"), "");
  const std::pair<std::string, std::string> refusals[] = {
      {"factor: 8", "kind: found 0, expected LINEAR or LLAMA3"},
      {"kind: 7 factor: 8", "kind: found 7, expected LINEAR or LLAMA3"},
      {"kind: LINEAR", "factor: found 0, expected a number from 1 to 1024"},
      {"kind: LINEAR factor: 1025", "factor: found 1025, expected a number from 1 to 1024"},
      {"kind: LINEAR factor: nan", "factor: found nan, expected a finite number"},
      {"kind: LINEAR factor: 8 low_frequency_factor: 1",
       "low_frequency_factor: found 1, expected nothing, because LINEAR stretches all wavelengths "
       "alike"},
      {"kind: LINEAR factor: 8 high_frequency_factor: 4",
       "high_frequency_factor: found 4, expected nothing, because LINEAR stretches all "
       "wavelengths alike"},
      {"kind: LINEAR factor: 8 original_sequence_length: 64",
       "original_sequence_length: found 64, expected nothing, because LINEAR stretches all "
       "wavelengths alike"},
      {llama3 + "low_frequency_factor: 0",
       "low_frequency_factor: found 0, expected a number from 1e-06"},
      {llama3 + "low_frequency_factor: 1e-7",
       "low_frequency_factor: found 1e-07, expected a number from 1e-06"},
      {llama3 + "low_frequency_factor: 4",
       "high_frequency_factor: found 4, expected a number above low_frequency_factor 4, at most "
       "1024"},
      {llama3 + "high_frequency_factor: 2000",
       "high_frequency_factor: found 2000, expected a number above low_frequency_factor 1, at most "
       "1024"},
      {"kind: LLAMA3 factor: 8",
       "original_sequence_length: found 0, expected a number from 1 to 1048576"}};
  for (const auto& [scaling, expected] : refusals)
    EXPECT_EQ(message(scaling), "spec.model.rotary_scaling." + expected) << scaling;
}

TEST(ValidateModelTest, ATiedHeadCountsOnce) {
  // 18 (4 + 8) 65536^2 in layers, 64 * 65536 of positions, and 2^20 * 65536 once or twice.
  const std::string model =
      "layers: 18 hidden: 65536 heads: 64 sequence_length: 64 vocab_size: 1048576 ";
  EXPECT_EQ(Refusal(model), "");
  EXPECT_EQ(Refusal(model + "tied_head: false"),
            "spec.model: found about 1065156083712 parameters, expected at most 1000000000000");
  EXPECT_NE(Refusal(model + "family: FAMILY_LLAMA ffn_hidden: 174763"), "");
  EXPECT_EQ(Refusal(model + "family: FAMILY_LLAMA ffn_hidden: 174763 tied_head: true"), "");
}

}  // namespace
}  // namespace stretto::service
