// SPDX-License-Identifier: Apache-2.0
#include "worker/checkpoint/manifest.h"

#include <cstdlib>
#include <limits>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/mutate.h"
#include "tests/worker/test_files.h"

namespace stretto {
namespace {

using testing::HasSubstr;

Manifest Example() {
  Manifest manifest;
  manifest.state = {.step = 20,
                    .updates = 19,
                    .consumed_samples = 640,
                    .seed = UINT64_MAX,
                    .epoch = 7,
                    .spec_hash = "s",
                    .math_hash = "",
                    .tokenizer_hash = "t",
                    .padded_vocab = 384,
                    .world_size = 2,
                    .tp_size = 2};
  manifest.files = {{"rank-00000.safetensors", 100, 0xffffffff, std::string(64, 'a')},
                    {"rank-00001.safetensors", 100, 1, std::string(64, 'b')}};
  manifest.tensors = {{"w",
                       "F32",
                       {4, 2},
                       {{"rank-00000.safetensors", 64, {0, 0}, {2, 2}, "w"},
                        {"rank-00001.safetensors", 64, {2, 0}, {2, 2}, "w"}}},
                      {"bias", "F32", {}, {{"rank-00000.safetensors", 80, {}, {}, "bias"}}}};
  return manifest;
}

Manifest WithAttachments() {
  Manifest manifest = Example();
  manifest.attachments = {{"model.json", 12, 3, std::string(64, 'c')},
                          {"tokenizer.json", 34, 4, std::string(64, 'd')}};
  return manifest;
}

Manifest WithMathHash() {
  Manifest manifest = Example();
  manifest.state.math_hash = "m";
  return manifest;
}

Manifest WithRuns() {
  Manifest manifest = Example();
  manifest.state.job_uid = "0123abcd";
  manifest.state.parent = ParentState{.job_uid = "", .epoch = 5, .step = 10};
  return manifest;
}

Manifest WithLoss() {
  Manifest manifest = WithRuns();
  manifest.state.held_out = {
      .of = "text", .best_loss = 2.25, .better_loss = 2.5, .without_better = 1, .loss = 2.375};
  return manifest;
}

Manifest WithKeys() {
  Manifest manifest = Example();
  manifest.tensors[0].shards[0].key = "w[0,0]";
  return manifest;
}

// The example with one text replaced must be refused with this message.
void ExpectRefused(const std::string& from, const std::string& to, const std::string& message) {
  const std::string text = ManifestText(WithAttachments());
  const std::string changed = absl::StrReplaceAll(text, {{from, to}});
  ASSERT_NE(changed, text) << from;
  const absl::Status status = ParseManifest(changed, "/m.json").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << changed;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/m.json: " + message));
}

TEST(ManifestTest, RoundTrips) {
  for (const Manifest& manifest :
       {Example(), WithAttachments(), WithMathHash(), WithRuns(), WithLoss(), WithKeys()}) {
    const auto parsed = ParseManifest(ManifestText(manifest), "/m.json");
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, manifest);
  }
}

// Checkpoints on disk outlive the program that wrote them: these texts never change.
// STRETTO_REWRITE=1 writes them.
TEST(ManifestTest, IsWrittenAndReadAsEver) {
  const std::pair<const char*, Manifest> goldens[] = {
      {"plain", Example()},          {"attachments", WithAttachments()},
      {"math_hash", WithMathHash()}, {"runs", WithRuns()},
      {"loss", WithLoss()},          {"keys", WithKeys()}};
  for (const auto& [name, manifest] : goldens) {
    const std::string path =
        absl::StrCat(STRETTO_SOURCE_DIR "/tests/golden/manifest/", name, ".json");
    if (std::getenv("STRETTO_REWRITE") != nullptr) Spill(path, ManifestText(manifest));
    EXPECT_EQ(ManifestText(manifest), Slurp(path)) << "STRETTO_REWRITE=1 rewrites " << path;
    const auto parsed = ParseManifest(Slurp(path), path);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, manifest);
  }
}

TEST(ManifestTest, KeepsHowTheHeldOutLossWent) {
  Manifest manifest = Example();
  manifest.state.held_out = {
      .of = "text", .best_loss = 1.0 / 3, .better_loss = 0.1, .without_better = 2};
  auto parsed = ParseManifest(ManifestText(manifest), "/m.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, manifest);
  manifest.state.held_out = {.of = "text", .without_better = 1};  // no loss was finite
  parsed = ParseManifest(ManifestText(manifest), "/m.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, manifest);
}

// Older releases read all but those that have the new field.
TEST(ManifestTest, OnlyTheLossOfItsStepTakesTheNewerVersion) {
  Manifest manifest = Example();
  manifest.state.held_out = {.of = "text", .best_loss = 0.25, .better_loss = 0.25};
  EXPECT_THAT(ManifestText(manifest), HasSubstr("\"version\": 1"));
  for (double loss : {0.25, std::numeric_limits<double>::infinity()}) {
    manifest.state.held_out.loss = loss;
    EXPECT_THAT(ManifestText(manifest), HasSubstr("\"version\": 2"));
    const auto parsed = ParseManifest(ManifestText(manifest), "/m.json");
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, manifest);
  }
}

TEST(ManifestTest, RefusesAHeldOutStateThatCannotBe) {
  const auto refused = [](const std::string& held_out, const std::string& message) {
    const std::string text = absl::StrReplaceAll(
        ManifestText(Example()),
        {{"\"tp_size\": 2,", "\"tp_size\": 2, \"held_out\": " + held_out + ","}});
    EXPECT_THAT(std::string(ParseManifest(text, "/m.json").status().message()),
                HasSubstr("/m.json: " + message));
  };
  refused("3", "held_out: found number, expected an object");
  refused("{\"of\": \"x\"}", "held_out: best_loss: found nothing");
  const std::string rest = "\"better_loss\": \"1\", \"without_better\": 0}";
  refused("{\"of\": \"x\", \"best_loss\": \"low\", " + rest,
          "held_out: best_loss: found low, expected a loss");
  refused("{\"of\": \"x\", \"best_loss\": \"nan\", " + rest,
          "held_out: best_loss: found nan, expected a loss");
  refused("{\"of\": \"x\", \"best_loss\": \"1\", \"loss\": \"nan\", " + rest,
          "held_out: loss: found nan, expected a loss");
  refused(
      "{\"of\": \"x\", \"best_loss\": \"1\", \"better_loss\": \"1\", "
      "\"without_better\": -1}",
      "held_out: without_better: found -1");
}

TEST(ManifestTest, TheHeldOutStateHidesNoEarlierError) {
  const std::string text = absl::StrReplaceAll(
      ManifestText(Example()), {{"\"version\": 1", "\"version\": 0"},
                                {"\"tp_size\": 2,", "\"tp_size\": 2, \"held_out\": {},"}});
  EXPECT_EQ(ParseManifest(text, "/m.json").status().message(),
            "/m.json: version: found 0, expected 1 to 2");
}

// It may have any other fields.
TEST(ManifestTest, ANewerVersionIsNoDamage) {
  const absl::Status status = ParseManifest(R"({"version": 3, "later": []})", "/m.json").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "/m.json: version: found 3, expected at most 2: a newer release of Stretto wrote it, "
            "and can read it");
}

TEST(ManifestTest, RefusesOtherVersionsAndFields) {
  ExpectRefused("\"version\": 1", "\"version\": 0", "version: found 0, expected 1 to 2");
  ExpectRefused("\"step\": 20", "\"step\": -1", "step: found -1, expected a number in [0, 2^63)");
  ExpectRefused("\"step\": 20", "\"step\": \"20\"", "step: found string");
  ExpectRefused("\"step\": 20", "\"step\": 9223372036854775808", "step: found 9223372036854775808");
  ExpectRefused("\"step\": 20,", "", "step: found nothing");
  ExpectRefused("\"step\": 20,", "\"step\": 20, \"stop\": 1,",
                "field: found 'stop', expected no such field");
  ExpectRefused("\"step\": 20,", "\"step\": 20, \"step\": 21,", "found field 'step' twice");
  EXPECT_EQ(ParseManifest("[]", "/m.json").status().message(),
            "/m.json: value: found array, expected an object");
}

TEST(ManifestTest, RefusesFilesThatAreNoPlainNames) {
  ExpectRefused("rank-00000.safetensors", "../x", "file: name: found ../x, expected a file name");
  ExpectRefused("rank-00000.safetensors", "/etc/passwd", "file: name: found /etc/passwd");
  ExpectRefused("rank-00000.safetensors", "..", "file: name: found ..");
  ExpectRefused("rank-00000", "rank-00001", "files: found rank-00001.safetensors twice");
  ExpectRefused("4294967295", "4294967296", "file: crc32c: found 4294967296, expected 32 bits");
}

TEST(ManifestTest, RefusesAttachmentsAsFiles) {
  ExpectRefused("\"model.json", "\"../model.json",
                "attachment: name: found ../model.json, expected a file name");
  ExpectRefused("model.json", "tokenizer.json", "files: found tokenizer.json twice");
  ExpectRefused("model.json", "rank-00001.safetensors",
                "files: found rank-00001.safetensors twice");
  ExpectRefused("model.json", "manifest.json", "files: found manifest.json twice");
  ExpectRefused("\"attachments\": [", "\"attachments\": {}, \"more\": [",
                "attachments: found object, expected an array");
}

TEST(ManifestTest, RefusesShardsThatLie) {
  ExpectRefused("\"bias\"", "\"w\"", "tensors: found w twice");
  ExpectRefused("\"offset\": 80", "\"offset\": 97",
                "tensor bias: shard 0: offset: found 97, expected an end within the 100 bytes");
  ExpectRefused("F32", "Q7", "tensor w: dtype: found 'Q7'");
  ManifestText(Example());
  Manifest manifest = Example();
  auto message = [&] {
    return std::string(ParseManifest(ManifestText(manifest), "/m.json").status().message());
  };
  manifest.tensors[0].shards[1].starts = {3, 0};
  EXPECT_THAT(message(), HasSubstr("tensor w: shard 1: starts and extents: found [3,0] and [2,2], "
                                   "expected a box within shape [4,2]"));
  manifest.tensors[0].shards[1].starts = {1, 0};
  EXPECT_THAT(message(), HasSubstr("tensor w: shards: found 0 and 1 overlapping"));
  manifest.tensors[0].shards[1].starts = {0};
  EXPECT_THAT(message(), HasSubstr("expected 2 numbers each"));
  manifest.tensors[0].shards.pop_back();
  EXPECT_THAT(message(), HasSubstr("tensor w: shards: found 16 bytes, expected the whole shape "
                                   "[4,2] of 32 bytes"));
  manifest.tensors[0].shards[0].file = "other";
  EXPECT_THAT(message(), HasSubstr("file: found other, expected one of the files"));
}

TEST(ManifestTest, MutatedManifestsGiveAStatusAndNeverCrash) {
  const std::string text = ManifestText(WithAttachments());
  std::mt19937_64 random(4);
  int parsed = 0;
  for (int i = 0; i < 5000; ++i) parsed += ParseManifest(Mutate(text, &random), "/m.json").ok();
  EXPECT_GT(parsed, 20);
  EXPECT_LT(parsed, 3000);
}

TEST(TrainingStateTest, TravelsAsTextOfItsOwn) {
  const TrainingState state = Example().state;
  const auto parsed = ParseTrainingState(TrainingStateText(state), "there");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, state);
  for (const auto& [text, message] : std::map<std::string, std::string>{
           {"{}", "there: step: found nothing, expected a number in [0, 2^63)"},
           {"7", "there: value: found number, expected an object"},
           {absl::StrReplaceAll(TrainingStateText(state), {{"\"epoch\"", "\"stop\""}}),
            "there: epoch: found nothing, expected a number in [0, 2^63)"}}) {
    const absl::Status status = ParseTrainingState(text, "there").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), message);
  }
}

TEST(ShardInfoTest, RoundTrips) {
  const Manifest manifest = Example();
  const ShardInfo info{
      manifest.files[0],
      {{"w", "F32", {4, 2}, {manifest.tensors[0].shards[0]}}, manifest.tensors[1]}};
  const auto parsed = ParseShardInfo(ShardInfoText(info));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, info);
  const absl::Status status = ParseShardInfo("{}").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "shard info: file: found nothing, expected an object");
}

}  // namespace
}  // namespace stretto
