// SPDX-License-Identifier: Apache-2.0

// Jobs that start from weights they are given.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "tests/integration/cluster.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/data/indexed_dataset.h"
#include "worker/data/tokenizer_info.h"
#include "worker/engine/model/parameters.h"
#include "worker/exchange/model_source.h"

namespace stretto::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string kModels = STRETTO_SOURCE_DIR "/tests/golden/models/";

// A model of tests/golden/models in the words of a job file, without its sequence length.
constexpr char kGpt[] = "layers: 2, hidden: 40, heads: 4, vocab_size: 131";
constexpr char kNarrowGpt[] = "layers: 2, hidden: 32, heads: 2, ffn_hidden: 80, vocab_size: 97";
constexpr char kLlama[] =
    "family: llama, layers: 2, hidden: 32, heads: 4, ffn_hidden: 88, vocab_size: 97";

struct Golden {
  const char* folder;
  const char* weights;
  const char* model;
};
constexpr Golden kGoldens[] = {{"gpt2_prefixed", "hf:gpt2_prefixed", kGpt},
                               {"gpt2_bare", "hf:gpt2_bare", kNarrowGpt},
                               {"llama2", "hf:llama2", kLlama},
                               {"llmc_f32", "llmc:llmc_f32/model.bin", kGpt},
                               {"llmc_bf16", "llmc:llmc_bf16/model.bin", kGpt}};

class WeightsTest : public ClusterTest {
 protected:
  void SetUp() override { fs::copy(kModels, Path("data"), fs::copy_options::recursive); }

  static std::string Model(const Golden& golden, int64_t sequence_length,
                           const std::string& more = "") {
    return absl::StrCat("{", golden.model, ", sequence_length: ", sequence_length,
                        ", initial_weights: \"", golden.weights, "\"", more, "}");
  }

  // One of the golden sequences as a data set of one sample. Returns its tokens.
  std::vector<int32_t> WriteSequence(const Golden& golden, size_t sequence,
                                     const std::string& name) {
    const Json json = Json::parse(ContentOf(kModels + golden.folder + "/golden.json"));
    const auto tokens = json["input_ids"][sequence].get<std::vector<int32_t>>();
    auto writer = IndexedDatasetWriter::Create(Path("data/" + name), TokenType::kU16, true);
    EXPECT_TRUE(writer.ok() && writer->AddDocument(tokens).ok() && writer->Finish().ok());
    return tokens;
  }

  // Mean loss of predicting each next token, by the golden logits.
  static double GoldenLoss(const Golden& golden, size_t sequence,
                           const std::vector<int32_t>& tokens) {
    const Json json = Json::parse(ContentOf(kModels + golden.folder + "/golden.json"));
    const size_t positions = json["logits_shape"][1], vocabulary = json["logits_shape"][2];
    const std::string bytes = ContentOf(kModels + golden.folder + "/logits.f32");
    std::vector<float> logits(bytes.size() / sizeof(float));
    std::memcpy(logits.data(), bytes.data(), bytes.size());
    double sum = 0;
    for (size_t t = 0; t + 1 < positions; ++t) {
      const float* row = logits.data() + (sequence * positions + t) * vocabulary;
      double denominator = 0;
      for (size_t i = 0; i < vocabulary; ++i) denominator += std::exp(double{row[i]});
      sum += std::log(denominator) - double{row[tokens[t + 1]]};
    }
    return sum / static_cast<double>(positions - 1);
  }

  // A job of this model fails in prepare with this reason and a message of these parts.
  void ExpectRefused(const std::string& name, const std::string& model,
                     const std::vector<std::string>& parts) {
    const Json job =
        RunJob({.name = name, .steps = 1, .model = model, .data = "sequence"}, "failed");
    const Json ended = ConditionOf(job, "Succeeded");
    EXPECT_EQ(ended["reason"], "WeightsInvalid");
    for (const std::string& part : parts) {
      EXPECT_THAT(ended["message"].get<std::string>(), HasSubstr(part));
    }
    EXPECT_EQ(job["first_failure"]["phase"], "prepare");
  }

  void Replace(const std::string& path, const std::string& from, const std::string& to) {
    std::string text = ContentOf(path);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    ASSERT_EQ(from.size(), to.size());
    EXPECT_TRUE(WriteFileAtomic(path, text.replace(at, from.size(), to)).ok());
  }
};

// transformers' logits say what the first loss is, at any tensor parallel size.
TEST_F(WeightsTest, TheFirstLossIsThatOfTheWeights) {
  StartCluster();
  for (const Golden& golden : kGoldens) {
    for (int tp_size : {1, 2}) {
      const auto sequence = static_cast<size_t>(tp_size - 1);  // one each
      std::string name = absl::StrCat(golden.folder, "-", tp_size);
      std::replace(name.begin(), name.end(), '_', '-');
      const std::vector<int32_t> tokens = WriteSequence(golden, sequence, name);
      RunJob({.name = name,
              .steps = 1,
              .model = Model(golden, static_cast<int64_t>(tokens.size()) - 1),
              .data = name,
              .tp_size = tp_size});
      const std::vector<Json> steps = Steps(name);
      ASSERT_EQ(steps.size(), 1u);
      EXPECT_NEAR(steps[0]["loss"].get<double>(), GoldenLoss(golden, sequence, tokens), 1e-4)
          << name;
    }
  }
}

// Data that was prepared for another tokenizer would ruin the model and lose its tokenizer.
TEST_F(WeightsTest, DataOfAnotherTokenizerIsRefusedUnlessAllowed) {
  StartCluster();
  const Golden& golden = kGoldens[0];
  WriteSequence(golden, 0, "sequence");
  const std::string hash(64, 'a'), prefix = Path("data/sequence"),
                                   own = Path("data/gpt2_prefixed/tokenizer.json");
  ASSERT_TRUE(WriteFileAtomic(own, "{}").ok());
  ASSERT_TRUE(WriteTokenizerInfo(
                  prefix, {.kind = "bytes", .vocab_size = 90, .end_of_document = 1, .hash = hash})
                  .ok());
  JobFile job{.name = "other", .steps = 1, .model = Model(golden, 16), .data = "sequence"};
  const Json refused = ConditionOf(RunJob(job, "failed"), "Succeeded");
  EXPECT_EQ(refused["reason"], "DataInvalid");
  for (const std::string& part : {prefix + ".tokenizer.json: found tokenizer bytes with hash aaaa",
                                  "expected that of the weights, " + own + " with hash 44136fa3"}) {
    EXPECT_THAT(refused["message"].get<std::string>(), HasSubstr(part));
  }
  job.name = "allowed";
  job.data = "{prefix: sequence, allow_other_tokenizer: true}";
  RunJob(job);
}

// Weights in, weights out: no bit changes, and the moments are zero.
TEST_F(WeightsTest, NoStepsWriteTheWeightsAsACheckpoint) {
  StartCluster();
  for (const Golden& golden : {kGoldens[0], kGoldens[2], kGoldens[4]}) {
    std::string name = golden.folder;
    std::replace(name.begin(), name.end(), '_', '-');
    WriteSequence(golden, 0, name);
    fs::create_directories(Path("data/" + name + ".tokenizer"));
    ASSERT_TRUE(WriteFileAtomic(Path("data/" + name + ".tokenizer/merges.txt"), "a b").ok());
    ASSERT_TRUE(WriteTokenizerInfo(Path("data/" + name), {.kind = "byte_pair",
                                                          .vocab_size = 90,
                                                          .end_of_document = 1,
                                                          .hash = std::string(64, 'a')})
                    .ok());
    const Json job = RunJob({.name = name, .steps = 0, .model = Model(golden, 16), .data = name});
    EXPECT_EQ(job["progress"]["last_checkpoint"], "step-00000000");
    const std::string folder = CheckpointFolder(name) + "/step-00000000";
    const std::string weights = golden.weights;
    const size_t path = weights.find(':') + 1;
    const auto source = OpenModel(weights.substr(0, path) + kModels + weights.substr(path));
    ASSERT_TRUE(source.ok()) << source.status();
    const auto checkpoint = Checkpoint::Open(folder);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_EQ(checkpoint->manifest().state.tp_size, 2);
    const auto written = OpenModel(folder);
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ((*written)->model().sequence_length, 16);
    EXPECT_EQ((*written)->dtype(), (*source)->dtype());
    EXPECT_EQ((*written)->tokenizer_files().size(), 1u);
    const std::vector<Parameter> parameters = ParametersOf((*written)->model(), 1, 0);
    for (const Parameter& p : parameters) {
      const std::vector<float> zeros(static_cast<size_t>(p.count()));
      std::vector<float> found = zeros, expected = zeros;
      ASSERT_TRUE((*written)->Read(p.name, p.starts, p.extents, found.data()).ok());
      ASSERT_TRUE((*source)->Read(p.name, p.starts, p.extents, expected.data()).ok());
      EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * 4), 0) << p.name;
      EXPECT_NE(found, zeros) << p.name;
      for (const char* moment : {".m", ".v"}) {
        ASSERT_TRUE(
            checkpoint->Read(p.name + moment, "F32", p.starts, p.extents, found.data()).ok());
        EXPECT_EQ(found, zeros) << p.name << moment;
      }
    }
  }
  const Outcome refused = Stretto(Submit({.name = "nothing", .steps = 0}, {"-o", "json"}));
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("spec.steps: found 0, expected at least 1"));
}

TEST_F(WeightsTest, WeightsThatCannotBeTakenEndTheJobNamingTheFile) {
  StartCluster();
  const Golden gpt = kGoldens[0];
  WriteSequence(gpt, 0, "sequence");
  const auto copy = [&](const std::string& name) {
    fs::copy(kModels + "gpt2_prefixed", Path("data/" + name));
  };
  const auto model = [&](const std::string& folder) {
    const std::string weights = "hf:" + folder;
    return Model({gpt.folder, weights.c_str(), gpt.model}, 16);
  };
  copy("cut");
  fs::resize_file(Path("data/cut/model.safetensors"), 5000);
  ExpectRefused("cut", model("cut"), {"data/cut/model.safetensors: ", "found", "expected"});
  copy("hole");
  Replace(Path("data/hole/model.safetensors"), "h.1.mlp.c_fc.weight", "h.1.mlp.c_fx.weight");
  ExpectRefused("hole", model("hole"), {"data/hole", "h.1.mlp.c_fc.weight"});
  copy("shape");
  Replace(Path("data/shape/model.safetensors"), "[40,120]", "[120,40]");
  ExpectRefused("shape", model("shape"),
                {"data/shape/model.safetensors", "c_attn.weight", "120", "40"});
  ExpectRefused("none", model("none"), {"data/none"});
  copy("deeper");
  ExpectRefused(
      "deeper",
      "{layers: 3, hidden: 40, heads: 4, vocab_size: 130, sequence_length: 16, initial_weights: "
      "\"hf:deeper\"}",
      {"data/deeper/config.json: model.layers: found 2, expected 3; model.vocab_size: found 131, "
       "expected 130"});
}

// The same job file with resume_from continues: it needs its initial weights no more.
TEST_F(WeightsTest, AResumedRunIsPastItsInitialWeights) {
  StartCluster();
  const Golden golden = kGoldens[0];
  WriteSequence(golden, 0, "sequence");
  const auto job = [&](const std::string& name, int steps, const std::string& checkpoint) {
    return JobFile{.name = name,
                   .steps = steps,
                   .model = Model(golden, 19),
                   .data = "sequence",
                   .more = absl::StrCat("optimizer: {decay_steps: 20}\n", checkpoint)};
  };
  RunJob(job("straight", 4, ""));
  RunJob(job("half", 2, ""));
  fs::remove_all(Path("data/gpt2_prefixed"));
  RunJob(job("rest", 4, "checkpoint: {resume_from: half}\n"));
  for (int rank : {0, 1}) {
    const std::string shard = absl::StrCat("/step-00000004/rank-0000", rank, ".safetensors");
    EXPECT_EQ(ContentOf(CheckpointFolder("rest") + shard),
              ContentOf(CheckpointFolder("straight") + shard));
  }
  EXPECT_EQ(ContentOf(CheckpointFolder("rest") + "/step-00000004/model.json"),
            ContentOf(CheckpointFolder("straight") + "/step-00000004/model.json"));
}

}  // namespace
}  // namespace stretto::integration
