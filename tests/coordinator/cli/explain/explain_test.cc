// SPDX-License-Identifier: Apache-2.0

// `stretto explain`: every field is documented, and its text agrees with the rules.
#include "coordinator/cli/explain/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/explain/api.h"
#include "coordinator/cli/explain/explain_text.h"
#include "coordinator/cli/yaml/message_text.h"
#include "coordinator/cli/yaml/spec_yaml.h"
#include "proto/spec/job/normalize.h"
#include "proto/spec/job/validate.h"
#include "proto/spec/presets.h"
#include "proto/spec/schedules.h"

namespace stretto::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

FieldDoc Of(const std::string& path) {
  const absl::StatusOr<FieldDoc> doc = ExplainField(path);
  EXPECT_TRUE(doc.ok()) << doc.status();
  return doc.ok() ? *doc : FieldDoc{};
}

// ---- comments

TEST(CommentTest, SentencesWithAPlaceOfTheirOwnAreTakenOut) {
  const Comment comment = ParseComment(" Up to 1e9; 0 does not clip. Default 1.0.\n");
  EXPECT_EQ(comment.Line(), "Up to 1e9; 0 does not clip.");
  EXPECT_EQ(comment.default_value, "1.0");
  EXPECT_FALSE(comment.required);
  EXPECT_TRUE(ParseComment(" A path. Required.\n").required);
  EXPECT_EQ(ParseComment(" A path. Required.\n").Line(), "A path.");
  EXPECT_EQ(ParseComment(" Required without a preset.").Line(), "Required without a preset.");
}

TEST(CommentTest, LinesAreJoinedParagraphsAndListsKept) {
  const Comment comment = ParseComment(" One\n two.\n\n Which:\n\n   a  x\n   b  y\n\n End.\n");
  ASSERT_EQ(comment.blocks.size(), 4u);
  EXPECT_EQ(comment.blocks[0].text, "One two.");
  EXPECT_EQ(comment.blocks[2].text, "a  x\nb  y\n");
  EXPECT_TRUE(comment.blocks[2].verbatim);
  EXPECT_EQ(comment.Line(), "One two. Which: End.");
}

TEST(CommentTest, ExamplesStandApart) {
  const Comment comment = ParseComment(" Text.\n\n Example:\n   a: 1\n   b: 2\n\n More.\n");
  EXPECT_THAT(comment.examples, ElementsAre("a: 1\nb: 2\n"));
  EXPECT_EQ(comment.Line(), "Text. More.");
}

// ---- paths

TEST(ExplainTest, APathMayLeaveOutWhatAJobFileLeavesOut) {
  for (const char* path :
       {"job.spec.schedule.parameters.slice_sizes", "spec.schedule.parameters.slice_sizes",
        "schedule.parameters.slice_sizes", "job.spec.schedule.parameters.slice_sizes[1]"}) {
    const FieldDoc doc = Of(path);
    EXPECT_EQ(doc.path, "job.spec.schedule.parameters.slice_sizes") << path;
    EXPECT_EQ(doc.type, "[]integer") << path;
  }
  EXPECT_EQ(Of("name").path, "job.name");
  EXPECT_EQ(Of("profile").type, "ProfileSpec");
  EXPECT_EQ(Of("job.profile").type, "Profile");
  EXPECT_EQ(Of("worker.devices.kind").path, "worker.devices.kind");
  EXPECT_EQ(Of("job.create_time").type, "time");
}

TEST(ExplainTest, AnUnknownPathNamesTheNearestAndAll) {
  EXPECT_EQ(std::string(ExplainField("job.spec.shedule").status().message()),
            "job.spec has no field \"shedule\"; did you mean \"schedule\"? It is one of: model, "
            "data, parallelism, schedule, optimizer, precision, steps, micro_batch_size, "
            "global_batch_size, seed, checkpoint, device, emulated_link, profile, eval, "
            "placement, restart, queue, deterministic, labels, "
            "sample, tokens, epochs");
  EXPECT_THAT(
      std::string(ExplainField("jib").status().message()),
      StartsWith("no field \"jib\"; did you mean \"job\"? It is one of: job, worker, spec"));
  EXPECT_EQ(std::string(ExplainField("steps.x").status().message()),
            "job.spec.steps is of type integer and has no fields");
  EXPECT_FALSE(ExplainField("").ok());
  EXPECT_FALSE(ExplainField("job.create_time.seconds").ok());
}

TEST(ExplainTest, ValuesAreThoseOfJobFiles) {
  const FieldDoc precision = Of("precision");
  ASSERT_EQ(precision.values.size(), 2u);
  EXPECT_EQ(precision.values[0].name, "f32");
  EXPECT_EQ(precision.values[1].name, "bf16");
  EXPECT_EQ(precision.comment.default_value, "f32");
  EXPECT_THAT(ExplainText(Of("model.preset"), false, 100),
              HasSubstr("\n  llama3-8b   llama, 32 layers, hidden 4096, 32 heads on 8 of keys and "
                        "values, sequence 8192\n"));
}

// ---- text

TEST(ExplainTextTest, ReadsAsKubectlsDoes) {
  EXPECT_EQ(ExplainText(Of("data"), false, 60),
            "FIELD:  job.spec.data  <DataSpec>  required\n"
            "\n"
            "DESCRIPTION:\n"
            "  The tokens to train on.\n"
            "\n"
            "  One data set, or a blend of several. A data set is in\n"
            "  Megatron's format, which `stretto data prepare` writes, or\n"
            "  consists of token files of llm.c.\n"
            "\n"
            "EXAMPLE:\n"
            "  data: {prefix: perl-manual, held_out: 0.01}\n"
            "\n"
            "EXAMPLE:\n"
            "  data:\n"
            "    blend:\n"
            "      - {prefix: books, weight: 0.7}\n"
            "      - {prefix: \"llmc:fineweb/train_*.bin\", weight: 0.3}\n"
            "\n"
            "FIELDS:\n"
            "  prefix  <string>\n"
            "    PREFIX of a data set's files, PREFIX.bin and PREFIX.idx,\n"
            "    or llmc:FILES, where a `*` in the last part of the path\n"
            "    stands for any text. The path is relative to the\n"
            "    workers' data root, has no \"..\" and at most 1024\n"
            "    characters. Required without blend.\n"
            "\n"
            "  blend  <[]BlendPart>\n"
            "    Several data sets instead of one: 1 to 1024, each once.\n"
            "    The number of a sample alone decides which data set it\n"
            "    comes from. Each data set has epochs of its own.\n"
            "    Default: none\n"
            "\n"
            "  held_out  <number>\n"
            "    Share of each data set, at its end, that is never\n"
            "    trained on; at least one sequence. It begins with a\n"
            "    document if one begins in its first half. `eval`\n"
            "    measures on it.\n"
            "    Range: 0 to 0.5\n"
            "    Default: 0\n"
            "\n"
            "  allow_other_tokenizer  <boolean>\n"
            "    Trains although the tokenizer of the data is not the one\n"
            "    of the initial weights or of the checkpoint. Without it\n"
            "    such a job is refused: the same number would mean\n"
            "    different text. Checkpoints then carry the tokenizer of\n"
            "    the data.\n"
            "    Default: false\n"
            "\n"
            "  document_mask  <boolean>\n"
            "    Lets a token attend to its own document alone where a\n"
            "    sequence has several. Positions count on over the\n"
            "    sequence. On GPUs our own kernels then compute\n"
            "    attention, not cuDNN's.\n"
            "    Default: false\n");
}

TEST(ExplainTextTest, RecursiveIsTheTree) {
  const std::string text = ExplainText(Of("schedule"), true, 80);
  EXPECT_THAT(text, HasSubstr("\nFIELDS:\n  name  <string>  megatron_sync, megatron_async, "));
  EXPECT_THAT(text, HasSubstr("\n  parameters  <ScheduleParameters>\n    slices  <integer>\n"));
  EXPECT_THAT(text, HasSubstr("    recompute  <Recompute>  none, selective, full\n"));
}

TEST(ExplainTextTest, JsonAndYamlSayTheSame) {
  const FieldDoc doc = Of("checkpoint.keep");
  EXPECT_EQ(JsonText(ExplainDocument(doc, false), true),
            "{\n  \"path\": \"job.spec.checkpoint.keep\",\n  \"type\": \"integer\",\n"
            "  \"default\": \"2\",\n  \"range\": \"0 to 1000000\",\n"
            "  \"description\": \"Number of checkpoints to keep, the newest ones. 0 keeps all.\"\n"
            "}\n");
  EXPECT_EQ(YamlText(ExplainDocument(doc, false)),
            "path: job.spec.checkpoint.keep\ntype: integer\ndefault: \"2\"\n"
            "range: \"0 to 1000000\"\n"
            "description: \"Number of checkpoints to keep, the newest ones. 0 keeps all.\"\n");
  EXPECT_THAT(ExplainDocument(Of("spec"), false).dump(), Not(HasSubstr("slice_sizes")));
  EXPECT_THAT(ExplainDocument(Of("spec"), true).dump(), HasSubstr("slice_sizes"));
}

// ---- what the comments say

void CollectUndocumented(const FieldDoc& doc, std::vector<std::string>* missing) {
  for (const FieldDoc& field : doc.fields) {
    if (field.comment.Line().empty()) missing->push_back(field.path);
    for (const ValueDoc& value : field.values) {
      if (value.help.empty() && field.path.find("status") == std::string::npos) {
        missing->push_back(absl::StrCat(field.path, "=", value.name));
      }
    }
    CollectUndocumented(field, missing);
  }
}

TEST(CommentsOfTheApiTest, EveryFieldAndValueOfASpecAndAWorkerHasOne) {
  std::vector<std::string> missing;
  CollectUndocumented(Of("job.spec"), &missing);
  CollectUndocumented(Of("worker"), &missing);
  EXPECT_THAT(missing, IsEmpty());
}

void CollectExamples(const FieldDoc& doc, std::vector<std::string>* examples) {
  for (const std::string& example : doc.about.examples) examples->push_back(example);
  for (const FieldDoc& field : doc.fields) CollectExamples(field, examples);
}

TEST(CommentsOfTheApiTest, ExamplesAreLinesOfAJobFile) {
  std::vector<std::string> examples;
  CollectExamples(Of("job.spec"), &examples);
  EXPECT_GE(examples.size(), 10u);
  for (const std::string& example : examples) {
    const auto file = ParseJobFile(example, "example");
    EXPECT_TRUE(file.ok()) << file.status() << "\n" << example;
  }
}

TEST(CommentsOfTheApiTest, TheFirstExampleIsAWholeJob) {
  const auto file = ParseJobFile(Of("job.spec").about.examples.at(0), "example");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(spec::Validate(spec::Normalize(file->spec)), absl::OkStatus());
}

TEST(FieldsOfASpecTest, SchedulesAndPresetsAreListedWithTheirHelp) {
  const FieldDoc schedule = Of("schedule.name");
  ASSERT_EQ(schedule.values.size(), kSchedules.size());
  EXPECT_EQ(schedule.values[0].name, kSchedules[0].name);
  EXPECT_EQ(schedule.values[0].help, kSchedules[0].help);
  EXPECT_EQ(Of("model.preset").values.size(), kModelPresets.size());
}

TEST(FieldsOfASpecTest, SayWhoTakesThem) {
  EXPECT_THAT(Of("schedule.parameters.splits").comment.only_for, StartsWith("schedules "));
  EXPECT_EQ(Of("model.rotary_base").comment.only_for, "family llama");
  EXPECT_EQ(Of("model.layers").comment.only_for, "");
}

}  // namespace
}  // namespace stretto::cli
