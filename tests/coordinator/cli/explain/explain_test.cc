// `stretto explain`: every field is documented, and what is said of it is so.
#include "coordinator/cli/explain/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "coordinator/cli/explain/api.h"
#include "coordinator/cli/explain/explain_text.h"
#include "coordinator/cli/yaml/message_text.h"
#include "coordinator/cli/yaml/spec_yaml.h"
#include "coordinator/service/schedules.h"
#include "coordinator/service/validate_spec.h"

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
            "global_batch_size, seed, checkpoint, device, emulated_link, profile, eval");
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
            "  One data set, or a blend of several. A data set is in the\n"
            "  format of Megatron, as `stretto data prepare` writes it,\n"
            "  or consists of token files of llm.c.\n"
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
            "    PREFIX.bin and PREFIX.idx, or llmc:FILES (a `*` in the\n"
            "    last part of the path stands for any text), beneath the\n"
            "    workers' data root: a relative path without \"..\", at\n"
            "    most 1024 characters. Required without blend.\n"
            "\n"
            "  blend  <[]BlendPart>\n"
            "    Several data sets instead of one: 1 to 1024, each once.\n"
            "    Which of them a sample comes from depends on its number\n"
            "    alone; each goes through epochs of its own.\n"
            "    Default: none\n"
            "\n"
            "  held_out  <number>\n"
            "    Share of each data set, at its end, that is never\n"
            "    trained on: 0 to 0.5, at least one sequence. It begins\n"
            "    with a document where one begins in its first half.\n"
            "    `eval` measures on it.\n"
            "    Default: 0\n");
}

TEST(ExplainTextTest, RecursiveIsTheTree) {
  const std::string text = ExplainText(Of("schedule"), true, 80);
  EXPECT_THAT(text, HasSubstr("\nFIELDS:\n  name  <string>\n  parameters  <ScheduleParameters>\n"
                              "    slices  <integer>\n"));
  EXPECT_THAT(text, HasSubstr("    recompute  <Recompute>  none, selective, full\n"));
}

TEST(ExplainTextTest, JsonAndYamlSayTheSame) {
  const FieldDoc doc = Of("checkpoint.keep");
  EXPECT_EQ(ExplainJson(doc, false),
            "{\n  \"path\": \"job.spec.checkpoint.keep\",\n  \"type\": \"integer\",\n"
            "  \"default\": \"2\",\n"
            "  \"description\": \"The newest so many are kept; 0 keeps all.\"\n}\n");
  EXPECT_EQ(ExplainYaml(doc, false),
            "path: \"job.spec.checkpoint.keep\"\ntype: \"integer\"\ndefault: \"2\"\n"
            "description: \"The newest so many are kept; 0 keeps all.\"\n");
  EXPECT_THAT(ExplainJson(Of("spec"), false), Not(HasSubstr("slice_sizes")));
  EXPECT_THAT(ExplainJson(Of("spec"), true), HasSubstr("slice_sizes"));
}

// ---- what the comments say

void CollectUndocumented(const FieldDoc& doc, std::vector<std::string>* missing) {
  for (const FieldDoc& field : doc.fields) {
    if (field.comment.Line().empty()) missing->push_back(field.path);
    for (const ValueDoc& value : field.values) {
      if (value.description.empty() && field.path.find("status") == std::string::npos) {
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
  EXPECT_EQ(service::ValidateSpec(service::NormalizeSpec(file->spec)), absl::OkStatus());
}

// The value of a field of a normalized spec, as a job file has it; empty when it is not set.
std::string ValueAt(const google::protobuf::Message& message, const std::string& path) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(path, absl::MaxSplits('.', 1));
  const auto* field = message.GetDescriptor()->FindFieldByName(parts.first);
  if (!parts.second.empty()) {
    return ValueAt(message.GetReflection()->GetMessage(message, field), parts.second);
  }
  for (absl::string_view line : absl::StrSplit(ToYaml(message), '\n')) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(line, absl::MaxSplits(": ", 1));
    if (pair.first == parts.first) return std::string(pair.second);
  }
  return "";
}

// One number or word against what NormalizeSpec makes of a file that leaves all of it out.
TEST(CommentsOfTheApiTest, DefaultsAreThoseOfTheCoordinator) {
  const auto file = ParseJobFile(
      "model: {family: llama, layers: 2, hidden: 64, heads: 4, sequence_length: 8, vocab_size: 9}\n"
      "schedule: {name: domino_hybrid}\nsteps: 70\nmicro_batch_size: 6\n",
      "file");
  ASSERT_TRUE(file.ok()) << file.status();
  const v1alpha1::JobSpec spec = service::NormalizeSpec(file->spec);
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"model.kv_heads", "4"},
      {"model.rotary_base", ""},
      {"model.norm_epsilon", ""},
      {"model.tied_head", "false"},
      {"parallelism.tp_size", ""},
      {"parallelism.pp_size", ""},
      {"parallelism.dp_size", ""},
      {"parallelism.ep_size", ""},
      {"parallelism.cp_size", ""},
      {"parallelism.wire", "f32"},
      {"schedule.parameters.slices", ""},
      {"schedule.parameters.splits", ""},
      {"schedule.parameters.recompute", ""},
      {"optimizer.name", ""},
      {"optimizer.learning_rate", ""},
      {"optimizer.beta1", ""},
      {"optimizer.beta2", ""},
      {"optimizer.epsilon", ""},
      {"optimizer.weight_decay", ""},
      {"optimizer.warmup_steps", ""},
      {"optimizer.decay_steps", "70"},
      {"optimizer.min_learning_rate", "0.0001"},
      {"optimizer.clip_norm", ""},
      {"optimizer.max_skipped_updates", ""},
      {"precision", ""},
      {"global_batch_size", "6"},
      {"seed", ""},
      {"checkpoint.keep", ""},
      {"device", ""}};
  for (const auto& [path, derived] : expected) {
    // A default that names another field is derived from it; others stand as they are.
    const std::string said = derived.empty() ? Of(path).comment.default_value : derived;
    const std::string found = ValueAt(spec, path);
    double a = 0, b = 0;
    if (absl::SimpleAtod(said, &a) && absl::SimpleAtod(found, &b)) {
      EXPECT_DOUBLE_EQ(a, b) << path;
    } else {
      EXPECT_EQ(said, found) << path;
    }
  }
}

TEST(CommentsOfTheApiTest, SchedulesAreThoseOfTheCoordinator) {
  std::vector<std::string> said, known;
  for (const Comment::Block& block : Of("schedule.name").comment.blocks) {
    if (!block.verbatim) continue;
    for (absl::string_view line : absl::StrSplit(block.text, '\n', absl::SkipEmpty())) {
      said.emplace_back(line.substr(0, line.find(' ')));
    }
  }
  for (const service::ScheduleRules& rules : service::kSchedules) known.emplace_back(rules.name);
  EXPECT_EQ(said, known);
}

// The words before the colon: "All", or names of the schedules that take the parameter.
TEST(CommentsOfTheApiTest, ParametersNameTheSchedulesThatTakeThem) {
  for (const FieldDoc& field : Of("schedule.parameters").fields) {
    const std::string line = field.comment.Line();
    const std::string who = line.substr(0, line.find(':'));
    const bool all = who.rfind("All", 0) == 0;
    const bool sliced = field.name() == "slices" || field.name() == "slice_sizes";
    for (const service::ScheduleRules& rules : service::kSchedules) {
      const std::vector<std::string> taken = service::ParametersOf(rules);
      const bool takes = std::find(taken.begin(), taken.end(), field.name()) != taken.end();
      if (all || sliced) {
        EXPECT_EQ(takes, all || rules.sliced()) << field.name() << " " << rules.name;
      } else {
        const std::vector<std::string> names = absl::StrSplit(who, ", ");
        const bool named = std::find(names.begin(), names.end(), rules.name) != names.end();
        EXPECT_EQ(named, takes) << field.name() << " " << rules.name;
      }
    }
  }
}

}  // namespace
}  // namespace stretto::cli
