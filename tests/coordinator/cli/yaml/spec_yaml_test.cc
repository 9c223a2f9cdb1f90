// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/yaml/spec_yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/yaml/message_text.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/message_differencer.h"
#include "google/rpc/error_details.pb.h"
#include "proto/base/printable.h"
#include "proto/spec/job/normalize.h"
#include "stretto/v1alpha1/plan.pb.h"
#include "tests/golden_messages.h"

namespace stretto::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kJob[] =
    "# a comment\n"
    "name: first-light\n"
    "model:\n"
    "  preset: gpt-10m\n"
    "  sequence_length: 256\n"
    "  family: llama\n"
    "  dropout: 0.1\n"
    "data:\n"
    "  prefix: text/corpus\n"
    "parallelism: {tp_size: 2, wire: bf16}\n"
    "schedule:\n"
    "  name: domino_row\n"
    "  parameters:\n"
    "    slice_sizes: [3, 5]\n"
    "    sequence_parallel: true\n"
    "    recompute: selective\n"
    "optimizer:\n"
    "  learning_rate: 3e-4\n"
    "  weight_decay: 0\n"
    "precision: bf16\n"
    "steps: 200\n"
    "seed: 18446744073709551615\n"
    "checkpoint:\n"
    "  disabled: true\n"
    "  resume_from: \"12\"\n";

TEST(ParseJobFileTest, ReadsEveryKindOfField) {
  const auto job = ParseJobFile(kJob, "job.yaml");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name, "first-light");
  EXPECT_EQ(job->spec.model().preset(), "gpt-10m");
  EXPECT_EQ(job->spec.model().sequence_length(), 256);
  EXPECT_EQ(job->spec.parallelism().tp_size(), 2);
  EXPECT_EQ(job->spec.model().family(), v1alpha1::FAMILY_LLAMA);
  EXPECT_DOUBLE_EQ(job->spec.model().dropout(), 0.1);
  EXPECT_EQ(job->spec.parallelism().wire(), v1alpha1::PRECISION_BF16);
  EXPECT_THAT(job->spec.schedule().parameters().slice_sizes(), testing::ElementsAre(3, 5));
  EXPECT_TRUE(job->spec.schedule().parameters().sequence_parallel());
  EXPECT_EQ(job->spec.schedule().parameters().recompute(), v1alpha1::RECOMPUTE_SELECTIVE);
  EXPECT_DOUBLE_EQ(job->spec.optimizer().learning_rate(), 3e-4);
  EXPECT_TRUE(job->spec.optimizer().has_weight_decay());
  EXPECT_FALSE(job->spec.optimizer().has_beta1());
  EXPECT_EQ(job->spec.precision(), v1alpha1::PRECISION_BF16);
  EXPECT_EQ(job->spec.seed(), 18446744073709551615u);
  EXPECT_TRUE(job->spec.checkpoint().disabled());
  EXPECT_EQ(job->spec.checkpoint().resume_from(), "12");
}

TEST(ParseJobFileTest, PrintedSpecReadsBackEqual) {
  const auto job = ParseJobFile(kJob, "job.yaml");
  ASSERT_TRUE(job.ok()) << job.status();
  const std::string text = ToYaml(job->spec);
  const auto again = ParseJobFile(text, "again.yaml");
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(job->spec, again->spec)) << text;
}

constexpr char kPlanJob[] =
    "schedule:\n"
    "  name: helix\n"
    "  plan: |\n"
    "    weave f0|b0 pace=1\n"
    "      f ln1 L0\n"
    "\n"
    "      b d.fc2 L1\n"
    "steps: 1\n"
    "deterministic: false\n";

TEST(ParseJobFileTest, TextOfSeveralLinesIsABlock) {
  const auto job = ParseJobFile(kPlanJob, "job.yaml");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.schedule().plan(), "weave f0|b0 pace=1\n  f ln1 L0\n\n  b d.fc2 L1\n");
  EXPECT_EQ(ToYaml(job->spec), kPlanJob);
}

// What a literal block would not keep is quoted.
TEST(ParseJobFileTest, AnyTextOfSeveralLinesReadsBackEqual) {
  for (const char* text : {"a\n", "a\nb", "\n", "\na\n", " a\nb\n", "a\n\n", "a\n b\n\tc\n",
                           "a\r\nb\n", "a: |\n#b\n", "a\n\x01\n", "a \n b \n"}) {
    v1alpha1::JobSpec spec;
    spec.mutable_schedule()->set_plan(text);
    const auto again = ParseJobFile(ToYaml(spec), "again.yaml");
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << ToYaml(spec);
    EXPECT_EQ(again->spec.schedule().plan(), text) << ToYaml(spec);
  }
}

struct Refusal {
  const char* label;
  std::string text;
  std::string place;               // and field
  std::vector<std::string> facts;  // that it carries, whatever its words
};

const Refusal kRefusals[] = {
    {"UnknownField", "steps: 1\nstepz: 2\n", "f.yaml:2:1: ", {"\"stepz\"", "\"steps\""}},
    {"UnknownNestedField",
     "parallelism:\n  tp_sise: 2\n",
     "f.yaml:2:3: parallelism: ",
     {"\"tp_sise\"", "\"tp_size\""}},
    {"UnknownFieldNothingNear",
     "data:\n  zebra: 2\n",
     "f.yaml:2:3: data: ",
     {"\"zebra\"", "prefix"}},
    {"DuplicateField", "steps: 1\nseed: 2\nsteps: 3\n", "f.yaml:3:1: steps: ", {"line 1"}},
    {"DuplicateNestedField",
     "data: {prefix: a, prefix: b}\n",
     "f.yaml:1:19: data.prefix: ",
     {"line 1"}},
    {"DuplicateName", "name: a\nname: b\n", "f.yaml:2:1: name: ", {"line 1"}},
    {"StringForInteger", "steps: many\n", "f.yaml:1:8: steps: ", {"found \"many\""}},
    {"FractionForInteger", "steps: 3.5\n", "f.yaml:1:8: steps: ", {"found 3.5"}},
    {"QuotedInteger", "steps: \"3\"\n", "f.yaml:1:8: steps: ", {"found \"3\""}},
    {"OctalLookingInteger", "steps: 010\n", "f.yaml:1:8: steps: ", {"found 010"}},
    {"Int32OutOfRange",
     "micro_batch_size: 2147483648\n",
     "f.yaml:1:19: micro_batch_size: ",
     {"found 2147483648", "from -2147483648 to 2147483647"}},
    {"Int64OutOfRange",
     "steps: 9223372036854775808\n",
     "f.yaml:1:8: steps: ",
     {"found 9223372036854775808", "from -9223372036854775808 to 9223372036854775807"}},
    {"NegativeUnsigned",
     "seed: -1\n",
     "f.yaml:1:7: seed: ",
     {"found -1", "from 0 to 18446744073709551615"}},
    {"NotANumber",
     "optimizer:\n  learning_rate: .nan\n",
     "f.yaml:2:18: optimizer.learning_rate: ",
     {"found .nan"}},
    {"PlainNan",
     "optimizer:\n  learning_rate: NaN\n",
     "f.yaml:2:18: optimizer.learning_rate: ",
     {"found NaN"}},
    {"Infinity",
     "optimizer:\n  clip_norm: -.inf\n",
     "f.yaml:2:14: optimizer.clip_norm: ",
     {"found -.inf"}},
    {"OverflowingNumber",
     "optimizer:\n  clip_norm: 1e999\n",
     "f.yaml:2:14: optimizer.clip_norm: ",
     {"found 1e999"}},
    {"HexNumber",
     "optimizer: {beta1: 0x1p-1}\n",
     "f.yaml:1:20: optimizer.beta1: ",
     {"found \"0x1p-1\""}},
    {"BadEnum",
     "precision: bf-16\n",
     "f.yaml:1:12: precision: ",
     {"found \"bf-16\"", "\"bf16\"", "f32, bf16"}},
    {"LongEnumName",
     "device: DEVICE_CPU\n",
     "f.yaml:1:9: device: ",
     {"found \"DEVICE_CPU\"", "cpu, cuda"}},
    {"UnspecifiedEnum",
     "device: unspecified\n",
     "f.yaml:1:9: device: ",
     {"found \"unspecified\"", "cpu, cuda"}},
    {"WordForBool",
     "checkpoint:\n  disabled: yes\n",
     "f.yaml:2:13: checkpoint.disabled: ",
     {"found \"yes\""}},
    {"NumberForString",
     "data:\n  prefix: 123\n",
     "f.yaml:2:11: data.prefix: ",
     {"found 123", "\"123\""}},
    {"ListForScalar", "steps: [1]\n", "f.yaml:1:8: steps: ", {"found a list"}},
    {"ScalarForList",
     "schedule:\n  parameters:\n    slice_sizes: 3\n",
     "f.yaml:3:18: schedule.parameters.slice_sizes: ",
     {"found 3"}},
    {"BadItem",
     "schedule: {parameters: {slice_sizes: [1, x]}}\n",
     "f.yaml:1:42: schedule.parameters.slice_sizes[1]: ",
     {"found \"x\""}},
    {"ScalarForMessage",
     "model: gpt-10m\n",
     "f.yaml:1:8: model: ",
     {"found \"gpt-10m\"",
      "preset, layers, hidden, heads, ffn_hidden, sequence_length, vocab_size"}},
    {"NothingForMessage", "model:\nsteps: 1\n", "f.yaml:1:1: model: ", {"found nothing"}},
    {"NullForInteger", "steps: ~\n", "f.yaml:1:1: steps: ", {"found nothing"}},
    {"ListAtTop", "- steps: 1\n", "f.yaml:1:1: ", {"found a list", "model, data"}},
    {"NameIsANumber", "name: 12\n", "f.yaml:1:7: name: ", {"found 12"}},
    {"NameIsNoLabel", "name: My Job\n", "f.yaml:1:7: name: ", {"found \"My Job\""}},
    {"NameIsEmpty", "steps: 1\nname:\n", "f.yaml:2:1: name: ", {"found nothing"}},
    {"UnknownFamily",
     "model: {family: lama}\n",
     "f.yaml:1:17: model.family: ",
     {"found \"lama\"", "\"llama\"", "gpt, llama"}},
    {"UnknownRecompute",
     "schedule: {parameters: {recompute: some}}\n",
     "f.yaml:1:36: schedule.parameters.recompute: ",
     {"found \"some\"", "none, selective, full"}},
    {"Tab", "model:\n\tpreset: x\n", "f.yaml:2:1: ", {"found a tab in the indentation"}},
    {"TabAfterSpaces",
     "model:\n  \tpreset: x\n",
     "f.yaml:2:3: ",
     {"found a tab in the indentation"}},
    {"SyntaxError",
     "steps: 1\nmodel: {preset: x\n",
     "f.yaml:3:1: ",
     {"found no YAML (", "expected fields"}},
    {"BadIndentation",
     "data:\n  prefix: a\n layers: 3\n",
     "f.yaml:3:2: ",
     {"found no YAML (", "indented below it"}},
    {"PlanThatIsNotIndented",
     "schedule:\n  plan: |\nf ln1 qkv\nb d.fc2\n",
     "f.yaml:",
     {"found no YAML (", "the lines of a text, indented below it"}},
    {"Anchor", "data: &d\n  prefix: a\n", "f.yaml:1:7: ", {"found an anchor (&)"}},
    {"Alias", "steps: &s 1\nseed: *s\n", "f.yaml:1:8: ", {"found an anchor (&)"}},
    {"UnknownAlias", "seed: *s\n", "f.yaml:1:7: ", {}},
    {"MergeKey", "data:\n  <<: {prefix: a}\n", "f.yaml:2:3: data: ", {"\"<<\"", "prefix"}},
    {"Tag",
     "data:\n  prefix: !!str 12\n",
     "f.yaml:2:11: ",
     {"found the tag tag:yaml.org,2002:str"}},
    {"ListAsKey", "[a, b]: 1\n", "f.yaml:1:1: ", {"found a key that is not a word"}},
    {"SecondDocument", "steps: 1\n---\nsteps: 2\n", "f.yaml:2:1: ", {"found a second document"}},
    {"Empty", "", "f.yaml:1:1: ", {"found nothing"}},
    {"OnlyComments", "# nothing\n", "f.yaml:1:1: ", {"found nothing"}},
    {"ControlCharacter",
     std::string("steps: 1\nseed: \0", 16),
     "f.yaml:2:7: ",
     {"found control character 00"}},
    {"InvalidUtf8", "data:\n  prefix: a\xC3\x28\n", "f.yaml:2:12: ", {"found byte c3"}},
    {"OverlongUtf8", "data:\n  prefix: \xE0\x80\x80\n", "f.yaml:2:11: ", {"found byte e0"}},
};

class RefusalTest : public testing::TestWithParam<Refusal> {};

TEST_P(RefusalTest, NamesThePlaceAndTheReason) {
  const auto job = ParseJobFile(GetParam().text, "f.yaml");
  ASSERT_FALSE(job.ok());
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(job.status().message());
  EXPECT_THAT(message, testing::StartsWith(GetParam().place));
  // Without facts the words are those of yaml-cpp.
  if (!GetParam().facts.empty()) GoldenMessages("stretto").Add(message, GetParam().facts);
}

INSTANTIATE_TEST_SUITE_P(Yaml, RefusalTest, testing::ValuesIn(kRefusals),
                         [](const auto& info) { return std::string(info.param.label); });

TEST(ParseJobFileTest, RefusesDeepNestingWithoutOverflow) {
  const auto job = ParseJobFile("data: " + std::string(100'000, '['), "deep.yaml");
  ASSERT_FALSE(job.ok());
  EXPECT_THAT(std::string(job.status().message()), HasSubstr("deep.yaml:1:"));
}

TEST(ParseJobFileTest, RefusesHugeFiles) {
  const auto job = ParseJobFile(std::string((1 << 20) + 1, '#'), "huge.yaml");
  GoldenMessages("stretto").Add(std::string(job.status().message()),
                                {"huge.yaml:1:1: ", "1048577", "1048576"});
}

TEST(LocateTest, FindsTheFieldOrTheNearestAroundIt) {
  const auto job = ParseJobFile(kJob, "job.yaml");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(Locate(*job, "spec.parallelism.tp_size"), "job.yaml:10:24");
  EXPECT_EQ(Locate(*job, "job.spec.steps"), "job.yaml:21:8");
  EXPECT_EQ(Locate(*job, "spec.schedule.parameters.slice_sizes[1]"), "job.yaml:14:22");
  EXPECT_EQ(Locate(*job, "spec.model.heads"), "job.yaml:3:1");
  EXPECT_EQ(Locate(*job, "job_id"), "job.yaml:2:7");
  EXPECT_EQ(Locate(*job, "spec.micro_batch_size"), "job.yaml");
}

// Struct is the only message at hand with a map field.
TEST(ParseJobFileTest, AnotherWordForAValueSuggestsIt) {
  const auto error = [](const std::string& line) {
    return std::string(ParseJobFile(line, "f.yaml").status().message());
  };
  EXPECT_EQ(
      error("device: gpu"),
      "f.yaml:1:9: device: found \"gpu\", expected one of: cpu, cuda; did you mean \"cuda\"?");
  EXPECT_THAT(error("precision: fp32"), HasSubstr("did you mean \"f32\"?"));
  EXPECT_THAT(error("optimizer: {lr: 1}"), HasSubstr("did you mean \"learning_rate\"?"));
  EXPECT_THAT(error("precision: float16"), Not(HasSubstr("did you mean")));
}

TEST(FillMessageTest, MapsRoundTrip) {
  const std::string text =
      "fields:\n  job: {string_value: gpt}\n  \"a b\": {string_value: \"x: \\\"y\\\"\\n\"}\n";
  const auto tree = ParseYaml(text, "map.yaml");
  ASSERT_TRUE(tree.ok()) << tree.status();
  google::protobuf::Struct message;
  const absl::Status status = FillMessage(*tree, "map.yaml", "", &message, nullptr);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(message.fields().at("job").string_value(), "gpt");
  EXPECT_EQ(message.fields().at("a b").string_value(), "x: \"y\"\n");
  const auto again = ParseYaml(ToYaml(message), "again.yaml");
  ASSERT_TRUE(again.ok()) << again.status() << ToYaml(message);
  google::protobuf::Struct copy;
  ASSERT_TRUE(FillMessage(*again, "again.yaml", "", &copy, nullptr).ok());
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(message, copy));
}

TEST(FillMessageTest, ListsOfMessagesRoundTrip) {
  google::rpc::BadRequest bad;
  const auto list =
      ParseYaml("field_violations:\n- field: a\n  description: b\n- field: c\n", "list.yaml");
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_TRUE(FillMessage(*list, "list.yaml", "", &bad, nullptr).ok());
  ASSERT_EQ(bad.field_violations_size(), 2);
  EXPECT_EQ(bad.field_violations(1).field(), "c");
  EXPECT_EQ(ToYaml(bad),
            "field_violations:\n- field: a\n  description: b\n- field: c\n  description: \"\"\n");
  EXPECT_EQ(ToYaml(bad, Zeros::kOmitted),
            "field_violations:\n- field: a\n  description: b\n- field: c\n");
}

TEST(FillMessageTest, DuplicateMapKeyIsRefused) {
  const auto tree =
      ParseYaml("fields:\n  a: {bool_value: true}\n  a: {bool_value: true}\n", "map.yaml");
  ASSERT_TRUE(tree.ok());
  google::protobuf::Struct message;
  const absl::Status status = FillMessage(*tree, "map.yaml", "", &message, nullptr);
  GoldenMessages("stretto").Add(std::string(status.message()),
                                {"map.yaml:3:3: fields.a: ", "line 2"});
}

TEST(ToYamlTest, EnumsTimesAndAwkwardStrings) {
  v1alpha1::Job job;
  job.set_name("jobs/a");
  job.set_state(v1alpha1::Job::SUCCEEDED);
  job.add_conditions()->set_message("true");
  job.mutable_create_time()->set_seconds(1'700'000'000);
  job.mutable_submit_to_first_step()->set_nanos(500'000'000);
  EXPECT_EQ(ToYaml(job),
            "name: jobs/a\nuid: \"\"\nstate: succeeded\nconditions:\n- type: \"\"\n  reason: \"\"\n"
            "  message: \"true\"\ncreate_time: \"2023-11-14T22:13:20Z\"\nattempt: 0\nepoch: 0\n"
            "placement: []\nsubmit_to_first_step: \"0.500s\"\nmerged_wgrads: 0\nwarm_ups: []\n"
            "attempts: []\nrestarts: 0\nowner: \"\"\n"
            "samples: []\nepoch_sequences: 0\n");
}

TEST(ToJsonTest, UsesShortNamesAndNumbers) {
  v1alpha1::Condition condition;
  condition.set_type("Scheduled");
  condition.set_status(v1alpha1::Condition::FALSE);
  EXPECT_EQ(ToJson(condition, false),
            "{\"type\":\"Scheduled\",\"status\":\"false\",\"reason\":\"\",\"message\":\"\"}\n");
  v1alpha1::Job job;
  job.set_state(v1alpha1::Job::SUCCEEDED);
  job.set_epoch(int64_t{1} << 60);
  job.mutable_progress()->set_first_loss(1.5);
  EXPECT_THAT(ToJson(job, true), HasSubstr("\"first_loss\": 1.5"));
  EXPECT_THAT(ToJson(job, true), HasSubstr("\"state\": \"succeeded\""));
  EXPECT_THAT(ToJson(job, true), HasSubstr("\"epoch\": 1152921504606846976,"));
}

// ---- one document in two syntaxes

// The values of a tree, whatever their quotes.
std::string ValuesOf(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::kScalar) return "<" + node.text + ">";
  std::string text = node.kind == YamlNode::Kind::kMapping ? "{" : "[";
  for (size_t i = 0; i < node.values.size(); ++i) {
    if (node.kind == YamlNode::Kind::kMapping) absl::StrAppend(&text, node.keys[i].text, ": ");
    absl::StrAppend(&text, ValuesOf(node.values[i]), ", ");
  }
  return text;
}

// As the coordinator returns it: with every default.
v1alpha1::Job WholeJob() {
  v1alpha1::Job job;
  job.set_name("jobs/first");
  job.set_uid("12e5");
  *job.mutable_spec() = spec::Normalize(ParseJobFile(kJob, "job.yaml")->spec);
  job.set_state(v1alpha1::Job::FAILED);
  job.mutable_create_time()->set_seconds(1'700'000'000);
  auto* condition = job.add_conditions();
  condition->set_status(v1alpha1::Condition::TRUE);
  condition->set_message("no\nrank \"1\": 0x1F \\ \t \xc3\xa9");
  auto* attempt = job.add_attempts();
  attempt->set_cause(v1alpha1::RestartSpec::NODE_LOSS);
  attempt->add_workers("on");
  job.mutable_progress()->set_tokens(int64_t{1} << 62);
  job.mutable_progress()->set_last_loss(1e-5);
  job.mutable_progress()->set_tokens_per_second(1e20);
  return job;
}

TEST(DocumentTest, JsonAndYamlAreTheSame) {
  v1alpha1::DryRun run;
  *run.mutable_job() = WholeJob();
  run.set_fits(false);
  run.mutable_plan()->add_ranks()->add_arenas()->set_name("activation");
  for (const std::string& json : {ToJson(run, true), ToJson(run, false)}) {
    const auto yaml_tree = ParseYaml(ToYaml(run), "yaml");
    const auto json_tree = ParseYaml(json, "json");
    ASSERT_TRUE(yaml_tree.ok()) << yaml_tree.status() << ToYaml(run);
    ASSERT_TRUE(json_tree.ok()) << json_tree.status() << json;
    EXPECT_EQ(ValuesOf(*yaml_tree), ValuesOf(*json_tree));
  }
}

TEST(DocumentTest, ASpecShowsZeroWhereItIsTheDefault) {
  const std::string yaml = ToYaml(WholeJob());
  EXPECT_THAT(yaml, HasSubstr("\n    keep_best: false\n"));
  EXPECT_THAT(yaml, HasSubstr("\n    allow_other_tokenizer: false\n"));
  EXPECT_THAT(yaml, Not(HasSubstr("layers: 0")));
  EXPECT_THAT(yaml, Not(HasSubstr("resume_from: \"\"")));
  EXPECT_THAT(yaml, Not(HasSubstr("defer_wgrads: 0")));
}

// What `get` and `submit --dry-run` print can be submitted again.
TEST(DocumentTest, APrintedJobIsAJobFile) {
  const v1alpha1::Job job = WholeJob();
  v1alpha1::DryRun run;
  *run.mutable_job() = job;
  for (const std::string& text :
       {ToYaml(job), ToJson(job, true), ToJson(job, false), ToYaml(run), ToJson(run, true)}) {
    const auto again = ParseJobFile(text, "again");
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
    EXPECT_EQ(again->name, "first");
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(job.spec(), again->spec))
        << text;
  }
}

TEST(DocumentTest, APrintedJobIsReadAsStrictly) {
  GoldenMessages golden("stretto");
  const auto refuses = [&](const std::string& text, const std::vector<std::string>& facts) {
    golden.Add(std::string(ParseJobFile(text, "job.yaml").status().message()), facts);
  };
  refuses("name: jobs/a\nspce: {}\nspec: {steps: 1}\n", {"job.yaml:2:1", "spce", "\"spec\""});
  refuses("job: {name: jobs/a, spec: {steps: 1}}\nplans: {}\n", {"job.yaml:2:1", "plans"});
  refuses("name: workers/a\nspec: {steps: 1}\n", {"job.yaml:1:7", "name: ", "workers/a"});
  refuses("spec: {stepz: 1}\n", {"job.yaml:1:8", "stepz"});
  refuses("spec: {steps: 1}\nspec: {steps: 2}\n", {"job.yaml:2:1", "spec", "line 1"});
  refuses("job: 3\n", {"job.yaml:1:6", "found 3"});
}

// C1 and bidirectional controls, which are no control characters of ASCII.
TEST(MessageTextTest, WhatIsNotPrintableIsEscapedInBothFormats) {
  v1alpha1::FirstFailure failure;
  const std::string evil =
      "a\x1b\xc2\x9b"
      "2J\xe2\x80\xae\xe2\x81\xa6\\n\"\n";
  failure.set_message(evil);
  EXPECT_EQ(ToYaml(failure, Zeros::kOmitted),
            "message: \"a\\x1b\\u009b2J\\u202e\\u2066\\\\n\\\"\\n\"\n");
  const std::string json = ToJson(failure, false);
  EXPECT_TRUE(IsPrintable(json.substr(0, json.size() - 1))) << json;
  v1alpha1::FirstFailure again;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(json, &again).ok()) << json;
  EXPECT_EQ(again.message(), evil);
}

}  // namespace
}  // namespace stretto::cli
