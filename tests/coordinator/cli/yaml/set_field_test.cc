// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/yaml/set_field.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "coordinator/cli/yaml/message_text.h"

namespace stretto::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kJobFile[] =
    "name: gpt\n"
    "data: {blend: [{prefix: a, weight: 1}, {prefix: b, weight: 2}]}\n"
    "parallelism: {tp_size: 2, dp_size: 2}\n"
    "eval: {interval_steps: 5, batches: 2}\n"
    "labels: {team: speech, sweep: ''}\n"
    "steps: 100\n";

JobFile With(const std::vector<std::string>& assignments) {
  absl::StatusOr<JobFile> job = ParseJobFile(kJobFile, "job.yaml");
  EXPECT_TRUE(job.ok()) << job.status();
  const absl::Status set = SetFields(assignments, &*job);
  EXPECT_TRUE(set.ok()) << set;
  return *job;
}

std::string ErrorOf(const std::string& assignment) {
  absl::StatusOr<JobFile> job = ParseJobFile(kJobFile, "job.yaml");
  const absl::Status set = SetFields({assignment}, &*job);
  EXPECT_EQ(set.code(), absl::StatusCode::kInvalidArgument) << assignment;
  return std::string(set.message());
}

TEST(SetFieldTest, AFieldHasTheTypeOfItsProto) {
  const JobFile job = With({"steps=7", "seed=18446744073709551615", "optimizer.learning_rate=3e-4",
                            "checkpoint.disabled=true", "precision=bf16", "schedule.name=1f1b",
                            "schedule.plan=weave: {\n", "data.prefix=123",
                            "schedule.parameters.slice_sizes=[1, 3]"});
  EXPECT_EQ(job.spec.steps(), 7);
  EXPECT_EQ(job.spec.seed(), 18446744073709551615u);
  EXPECT_EQ(job.spec.optimizer().learning_rate(), 3e-4);
  EXPECT_TRUE(job.spec.checkpoint().disabled());
  EXPECT_EQ(job.spec.precision(), v1alpha1::PRECISION_BF16);
  EXPECT_EQ(job.spec.schedule().name(), "1f1b");
  EXPECT_EQ(job.spec.schedule().plan(), "weave: {\n");  // text as it is, and no YAML
  EXPECT_EQ(job.spec.data().prefix(), "123");
  EXPECT_THAT(job.spec.schedule().parameters().slice_sizes(), ElementsAre(1, 3));
}

TEST(SetFieldTest, ItIsOneDocumentWithTheFile) {
  const JobFile job =
      With({"parallelism={tp_size: 4}", "data.blend=[{prefix: c, weight: 3}]", "name=other",
            "steps=1", "steps=2", "labels.team=text", "labels.example.com/ticket=4711"});
  EXPECT_EQ(job.spec.parallelism().tp_size(), 4);
  EXPECT_EQ(job.spec.parallelism().dp_size(), 2);  // sections are joined
  ASSERT_EQ(job.spec.data().blend_size(), 1);      // lists are replaced
  EXPECT_EQ(job.spec.data().blend(0).prefix(), "c");
  EXPECT_EQ(job.name, "other");
  EXPECT_EQ(job.spec.steps(), 2);  // the last counts
  EXPECT_EQ(job.spec.labels().size(), 3u);
  EXPECT_EQ(job.spec.labels().at("team"), "text");
  EXPECT_EQ(job.spec.labels().at("example.com/ticket"), "4711");
}

TEST(SetFieldTest, NullRemovesAFieldASectionOrALabel) {
  const JobFile job = With({"eval=null", "parallelism.dp_size=null", "labels.team=null",
                            "restart.max=null", "data.blend=null"});
  EXPECT_FALSE(job.spec.has_eval());
  EXPECT_EQ(job.spec.parallelism().dp_size(), 0);
  EXPECT_EQ(job.spec.labels().size(), 1u);
  EXPECT_EQ(job.spec.labels().count("sweep"), 1u);
  EXPECT_FALSE(job.spec.has_restart());  // nothing was made to remove from
  EXPECT_EQ(job.spec.data().blend_size(), 0);
}

TEST(SetFieldTest, ErrorsNameTheFieldAndWhatItExpects) {
  EXPECT_EQ(ErrorOf("stepz=3"), "--set: unknown field \"stepz\"; did you mean \"steps\"?");
  EXPECT_EQ(ErrorOf("parallelism.tp_siz=3"),
            "--set: parallelism: unknown field \"tp_siz\"; did you mean \"tp_size\"?");
  EXPECT_EQ(ErrorOf("parallelism.tp_siz=null"),
            "--set: parallelism: unknown field \"tp_siz\"; did you mean \"tp_size\"?");
  EXPECT_EQ(ErrorOf("steps=many"), "--set: steps: found \"many\", expected an integer");
  EXPECT_EQ(ErrorOf("steps="), "--set: steps: found nothing, expected an integer");
  EXPECT_EQ(ErrorOf("steps.more=1"), "--set: steps: found a mapping, expected an integer");
  EXPECT_THAT(ErrorOf("parallelism=2"),
              HasSubstr("--set: parallelism: found 2, expected a mapping"));
  EXPECT_THAT(ErrorOf("data.blend.weight=2"), HasSubstr("expected the whole list"));
  EXPECT_THAT(ErrorOf("data.blend=[{"), HasSubstr("--set blend:1:"));
  EXPECT_THAT(ErrorOf("name=Not A Name"), HasSubstr("--set: name: found \"Not A Name\""));
  for (const char* nonsense : {"steps", "=3", ""}) {
    EXPECT_THAT(ErrorOf(nonsense), HasSubstr("expected PATH=VALUE")) << nonsense;
  }
  EXPECT_THAT(ErrorOf("labels=speech"), HasSubstr("labels: found \"speech\", expected a mapping"));
}

TEST(SetFieldTest, AViolationOfAFieldThatWasSetIsLocatedThere) {
  const JobFile job = With({"parallelism.tp_size=3", "eval={batches: 1}", "name=other"});
  EXPECT_EQ(Locate(job, "spec.parallelism.tp_size"), "--set parallelism.tp_size");
  EXPECT_EQ(Locate(job, "spec.parallelism.dp_size"), "job.yaml:3:36");
  EXPECT_EQ(Locate(job, "spec.eval.prefix"), "--set eval");
  EXPECT_EQ(Locate(job, "job_id"), "--set name");
}

TEST(SetFieldTest, EveryPathThatIsOfferedExists) {
  for (const std::string& path : SettableFields()) {
    absl::StatusOr<JobFile> job = ParseJobFile(kJobFile, "job.yaml");
    const bool map = absl::EndsWith(path, ".");
    const absl::Status removed = SetFields({path + (map ? "x=null" : "=null")}, &*job);
    // A name cannot be removed.
    EXPECT_EQ(removed.ok(), path != "name") << path << ": " << removed;
  }
  EXPECT_THAT(SettableFields(), Contains("optimizer.learning_rate"));
  EXPECT_THAT(SettableFields(), Contains("labels."));
  EXPECT_THAT(SettableFields(), Not(Contains("data.blend.weight")));
}

}  // namespace
}  // namespace stretto::cli
