// What a job trains on and what it is measured on.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "tests/coordinator/service/refused_spec.h"

namespace stretto::service {
namespace {

using v1alpha1::JobSpec;

TEST(ValidateDataTest, RefusesDataNamingTheField) {
  const Refusal refusals[] = {
      {"data { prefix: '/etc/passwd' }", "spec.data.prefix",
       "found \"/etc/passwd\", expected a relative path in a path beneath the worker's data root"},
      {"data { prefix: 'a/../../b' }", "spec.data.prefix",
       "found \"a/../../b\", expected no '..' in a path beneath the worker's data root"},
      {"data { prefix: 'a\\nb' }", "spec.data.prefix",
       "found \"a\\nb\", expected no control characters in a path beneath the worker's data root"},
      {"data { prefix: 'llmc:' }", "spec.data.prefix",
       "found \"llmc:\", expected a path beneath the worker's data root"},
      {"data { prefix: 'llmc:/a.bin' }", "spec.data.prefix",
       "found \"llmc:/a.bin\", expected a relative path in a path beneath the worker's data root"},
      {"data { prefix: 'llmc:web*/a.bin' }", "spec.data.prefix",
       "found \"llmc:web*/a.bin\", expected '*' in the last part alone in a path beneath the "
       "worker's data root"},
      {"data { held_out: -0.1 }", "spec.data.held_out",
       "found -0.1, expected a number from 0 to 0.5"},
      {"data { held_out: 0.6 }", "spec.data.held_out",
       "found 0.6, expected a number from 0 to 0.5"},
      {"data { held_out: nan }", "spec.data.held_out", "found nan, expected a finite number"},
      {"data { blend { prefix: 'a' weight: 1 } }", "spec.data.prefix",
       "found \"text/corpus\", expected nothing, because blend names the data"},
  };
  for (const Refusal& refusal : refusals) ExpectRefused(refusal);
}

TEST(ValidateDataTest, ABlendNamesItsPartsAndTheirWeights) {
  const auto message = [](const std::string& data) {
    JobSpec spec = SpecWith("");
    spec.clear_data();
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(data, spec.mutable_data()));
    return std::string(ValidateSpec(NormalizeSpec(spec)).message());
  };
  EXPECT_EQ(message("prefix: 'llmc:web/train_*.bin'"), "");
  EXPECT_EQ(message("held_out: 0.01 blend { prefix: 'a' weight: 0.7 } "
                    "blend { prefix: 'llmc:b_*' weight: 0.3 }"),
            "");
  const std::string first = "blend { prefix: 'a' weight: 1 } ";
  EXPECT_EQ(
      message(first + "blend { weight: 1 }"),
      "spec.data.blend[1].prefix: found \"\", expected a path beneath the worker's data root");
  EXPECT_EQ(message(first + "blend { prefix: '../b' weight: 1 }"),
            "spec.data.blend[1].prefix: found \"../b\", expected no '..' in a path beneath the "
            "worker's data root");
  EXPECT_EQ(message(first + first),
            "spec.data.blend[1].prefix: found \"a\", expected other data than blend[0], whose "
            "weight can be the sum");
  const std::string above = ", expected a number above 0, at most 1e9";
  EXPECT_EQ(message("blend { prefix: 'a' }"), "spec.data.blend[0].weight: found 0" + above);
  EXPECT_EQ(message(first + "blend { prefix: 'b' weight: -1 }"),
            "spec.data.blend[1].weight: found -1" + above);
  EXPECT_EQ(message(first + "blend { prefix: 'b' weight: 1e10 }"),
            "spec.data.blend[1].weight: found 1e+10" + above);
  EXPECT_EQ(message(first + "blend { prefix: 'b' weight: nan }"),
            "spec.data.blend[1].weight: found nan, expected a finite number");
  std::string many;
  for (int i = 0; i < 1025; ++i) {
    many += "blend { prefix: 'p" + std::to_string(i) + "' weight: 1 } ";
  }
  EXPECT_EQ(message(many), "spec.data.blend: found 1025 parts, expected at most 1024");
}

TEST(ValidateEvalTest, RefusesAnEvaluationNamingTheField) {
  const Refusal refusals[] = {
      {"eval { prefix: 'held' }", "spec.eval.interval_steps",
       "found 0, expected a number from 1 to 1000000000"},
      {"eval { interval_steps: -5 prefix: 'held' }", "spec.eval.interval_steps",
       "found -5, expected a number from 1 to 1000000000"},
      {"eval { interval_steps: 5 batches: -1 prefix: 'held' }", "spec.eval.batches",
       "found -1, expected a number from 1 to 1000000"},
      {"eval { interval_steps: 5 batches: 1000001 prefix: 'held' }", "spec.eval.batches",
       "found 1000001, expected a number from 1 to 1000000"},
      {"eval { interval_steps: 5 prefix: '/etc/passwd' }", "spec.eval.prefix",
       "found \"/etc/passwd\", expected a relative path in a path beneath the worker's data root"},
      {"eval { interval_steps: 5 prefix: 'a/../../b' }", "spec.eval.prefix",
       "found \"a/../../b\", expected no '..' in a path beneath the worker's data root"},
      {"eval { interval_steps: 5 }", "spec.eval.prefix",
       "found \"\", expected a data set, because data.held_out is 0"},
      {"eval { interval_steps: 5 prefix: 'text/corpus' }", "spec.eval.prefix",
       "found \"text/corpus\", expected other data than data.prefix, which is trained on"},
      {"eval { interval_steps: 5 prefix: 'held' early_stop {} }", "spec.eval.early_stop.patience",
       "found 0, expected a number from 1 to 1000000"},
      {"eval { interval_steps: 5 prefix: 'held' early_stop { patience: 1 min_improvement: -0.5 } }",
       "spec.eval.early_stop.min_improvement", "found -0.5, expected 0 or more"},
      {"eval { interval_steps: 5 prefix: 'held' early_stop { patience: 1 min_improvement: nan } }",
       "spec.eval.early_stop.min_improvement", "found nan, expected a finite number"},
  };
  for (const Refusal& refusal : refusals) ExpectRefused(refusal);
}

TEST(ValidateEvalTest, NoPartOfABlendIsMeasuredOn) {
  JobSpec spec = SpecWith(
      "eval { interval_steps: 5 prefix: 'b' } "
      "data { blend { prefix: 'a' weight: 1 } blend { prefix: 'b' weight: 1 } }");
  spec.mutable_data()->clear_prefix();
  EXPECT_EQ(std::string(ValidateSpec(NormalizeSpec(spec)).message()),
            "spec.eval.prefix: found \"b\", expected other data than data.blend[1].prefix, which "
            "is trained on");
  spec.mutable_eval()->set_prefix("c");
  EXPECT_EQ(ValidateSpec(NormalizeSpec(spec)), absl::OkStatus());
}

TEST(ValidateEvalTest, AnEvaluationMeasuresTenBatchesUnlessToldOtherwise) {
  JobSpec spec = NormalizeSpec(SpecWith("eval { interval_steps: 5 prefix: 'held' }"));
  EXPECT_EQ(ValidateSpec(spec), absl::OkStatus());
  EXPECT_EQ(spec.eval().batches(), 10);
  EXPECT_FALSE(spec.eval().has_early_stop());
  EXPECT_FALSE(NormalizeSpec(SpecWith("")).has_eval());
  spec =
      NormalizeSpec(SpecWith("eval { interval_steps: 5 } data { prefix: 'text' held_out: 0.25 }"));
  EXPECT_EQ(ValidateSpec(spec), absl::OkStatus());
}

}  // namespace
}  // namespace stretto::service
