// SPDX-License-Identifier: Apache-2.0

// Exports against what they were made of, and everything that must leave nothing behind.
#include <unistd.h>

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/exchange/golden_models.h"
#include "tests/worker/made_model.h"
#include "worker/exchange/export_folder.h"
#include "worker/exchange/export_layout.h"
#include "worker/exchange/export_model.h"
#include "worker/exchange/export_numbers.h"
#include "worker/exchange/stored_layout.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool SameModel(const ModelSpec& a, const ModelSpec& b) {
  return ModelNoteText({a, "F32", ""}) == ModelNoteText({b, "F32", ""});
}

class HfRoundTripTest : public testing::TestWithParam<const char*> {};

TEST_P(HfRoundTripTest, EveryTensorHasTheBytesItHad) {
  const auto source = OpenGolden(absl::StrCat("hf:", GetParam()));
  ASSERT_TRUE(source.ok()) << source.status();
  const TestFolder folder;
  const auto summary = ExportHf(**source, {.output = folder / "out", .max_shard_bytes = 40'000});
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->dtype, (*source)->dtype());

  const auto before = TensorsOf(GoldenModels() + "/" + GetParam()),
             after = TensorsOf(folder / "out");
  EXPECT_EQ(static_cast<int64_t>(after.size()), summary->tensors);
  for (const auto& [name, tensor] : after) {
    auto found = before.find(name);
    if (found == before.end()) found = before.find(name.substr(name.find('.') + 1));
    ASSERT_NE(found, before.end()) << name;
    EXPECT_EQ(tensor.dtype, found->second.dtype) << name;
    EXPECT_EQ(tensor.shape, found->second.shape) << name;
    EXPECT_TRUE(tensor.bytes == found->second.bytes) << name;
  }
  // All that there was, but for the masks of attention that old files have.
  for (const auto& [name, tensor] : before) {
    if (absl::EndsWith(name, "attn.bias") || absl::EndsWith(name, "masked_bias")) continue;
    EXPECT_EQ(after.count(name) + after.count("transformer." + name), 1u) << name;
  }
  const auto again = OpenModel("hf:" + (folder / "out"));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(SameModel((*again)->model(), (*source)->model()));
}

INSTANTIATE_TEST_SUITE_P(Golden, HfRoundTripTest,
                         testing::Values("gpt2_bare", "gpt2_prefixed", "gpt2_sharded", "llama2",
                                         "llama3", "llama_tied"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ExportTest, LlmcFilesComeOutAsTheyWentIn) {
  for (const std::string name : {"llmc_f32", "llmc_bf16"}) {
    const TestFolder folder;
    const auto source = OpenGolden("llmc:" + name + "/model.bin");
    ASSERT_TRUE(source.ok()) << source.status();
    ASSERT_TRUE(ExportLlmc(**source, {.output = folder / "out"}).ok());
    EXPECT_TRUE(Slurp(folder / "out/model.bin") ==
                Slurp(GoldenModels() + "/" + name + "/model.bin"))
        << name;
  }
}

TEST(ExportTest, HuggingFaceAndLlmcHoldTheSameModel) {
  const TestFolder folder;
  const auto source = OpenGolden("hf:gpt2_prefixed");
  ASSERT_TRUE(ExportLlmc(**source, {.output = folder / "llmc"}).ok());
  EXPECT_TRUE(Slurp(folder / "llmc/model.bin") == Slurp(GoldenModels() + "/llmc_f32/model.bin"));
  const auto llmc = OpenModel("llmc:" + (folder / "llmc/model.bin"));
  ASSERT_TRUE(llmc.ok()) << llmc.status();
  ASSERT_TRUE(ExportHf(**llmc, {.output = folder / "hf"}).ok());
  const auto before = TensorsOf(GoldenModels() + "/gpt2_prefixed"),
             after = TensorsOf(folder / "hf");
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, tensor] : before)
    EXPECT_TRUE(tensor.bytes == after.at(name).bytes) << name;
}

TEST(ExportTest, EveryTypeAndHeadReadsBackAsItWas) {
  for (const Architecture& architecture : kArchitectures) {
    ModelSpec base = SmallLlama();
    base.architecture = architecture;
    if (!HfFamilyOf(architecture.family).shares_keys) base.kv_heads = base.heads;
    for (const bool tied : {false, true}) {
      for (const char* dtype : {"F32", "BF16", "F16"}) {
        SCOPED_TRACE(absl::StrCat(base.architecture.name, tied ? " tied " : " ", dtype));
        ModelSpec model = base;
        model.tied_head = tied;
        const MadeSource source(model);
        const TestFolder folder;
        const auto summary = ExportHf(source, {.output = folder / "out", .dtype = dtype});
        ASSERT_TRUE(summary.ok()) << summary.status();
        const auto read = OpenModel("hf:" + (folder / "out"));
        ASSERT_TRUE(read.ok()) << read.status();
        EXPECT_EQ((*read)->dtype(), dtype);
        EXPECT_EQ(ParametersIn(**read), ParametersIn(source));
        EXPECT_EQ(TensorsOf(folder / "out").count("lm_head.weight"), tied ? 0u : 1u);
      }
    }
  }
}

TEST(ExportTest, AModelOfSeveralTypesComesOutAsItWentIn) {
  MadeSource source(SmallGpt());
  source.made_dtypes = {{"layers.0.mlp.fc1.weight", "BF16"}, {"layers.1.mlp.fc1.weight", "F16"}};
  const TestFolder folder;
  ASSERT_TRUE(ExportHf(source, {.output = folder / "first"}).ok());
  const auto tensors = TensorsOf(folder / "first");
  EXPECT_EQ(tensors.at("transformer.h.0.mlp.c_fc.weight").dtype, "BF16");
  EXPECT_EQ(tensors.at("transformer.h.1.mlp.c_fc.weight").dtype, "F16");
  EXPECT_EQ(tensors.at("transformer.h.1.mlp.c_proj.weight").dtype, "F32");
  const auto read = OpenModel("hf:" + (folder / "first"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ParametersIn(**read), ParametersIn(source));
  const auto summary = ExportHf(**read, {.output = folder / "again"});
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->dtype, "F32");
  EXPECT_TRUE(Slurp(folder / "again/model.safetensors") ==
              Slurp(folder / "first/model.safetensors"));
}

TEST(ExportTest, ShardsAreAsFullAsTheyMayBeAndTheIndexNamesAll) {
  const MadeSource source(SmallLlama());
  const TestFolder folder;
  const auto summary = ExportHf(source, {.output = folder / "out", .max_shard_bytes = 30'000});
  ASSERT_TRUE(summary.ok()) << summary.status();
  ASSERT_GT(summary->files, 1);
  const auto index = nlohmann::json::parse(Slurp(folder / "out/model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], summary->bytes);
  EXPECT_EQ(static_cast<int64_t>(index["weight_map"].size()), summary->tensors);
  int64_t before = 0;
  for (int i = 1; i <= summary->files; ++i) {
    const std::string name = absl::StrFormat("model-%05d-of-%05d.safetensors", i, summary->files);
    const auto file = SafetensorsReader::Open(folder / ("out/" + name));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->header().metadata.at("format"), "pt");
    int64_t bytes = 0;
    for (const StoredTensor& tensor : file->header().tensors) {
      EXPECT_EQ(index["weight_map"][tensor.name], name);
      bytes += tensor.bytes;
    }
    EXPECT_LE(bytes, 30'000) << name;
    EXPECT_TRUE(i == 1 || before + bytes > 30'000) << "could be one file: " << name;
    before = bytes;
  }
  EXPECT_THAT(NamesIn(folder / "out"), testing::Not(testing::Contains("model.safetensors")));
}

TEST(ExportTest, TokenizerPassesThroughAndSaysItsIds) {
  const TestFolder folder;
  const std::string odd =
      "{\"added_tokens\": [{\"id\": 199, \"content\": \"<end>\"}],\n \"model\": 1}\r\n";
  Spill(folder / "tokenizer.json", odd);
  Spill(folder / "tokenizer_config.json",
        R"({"eos_token": {"content": "<end>"}, "bos_token": "<s>",
            "added_tokens_decoder": {"1": {"content": "<s>"}, "x": 3}})");
  MadeSource source(SmallLlama());
  source.made_tokenizer = {folder / "tokenizer.json", folder / "tokenizer_config.json"};
  ASSERT_TRUE(ExportHf(source, {.output = folder / "out"}).ok());
  EXPECT_EQ(Slurp(folder / "out/tokenizer.json"), odd);
  EXPECT_THAT(NamesIn(folder / "out"),
              ElementsAre("config.json", "generation_config.json", "model.safetensors",
                          "tokenizer.json", "tokenizer_config.json"));
  for (const char* name : {"config.json", "generation_config.json"}) {
    const auto config = nlohmann::json::parse(Slurp(folder / "out/" + name));
    EXPECT_EQ(config["eos_token_id"], 199);
    EXPECT_EQ(config["bos_token_id"], 1);
  }
  // An id that the model has no row for is none; a file that is no JSON is still passed on.
  Spill(folder / "tokenizer.json", "{\"added_tokens\": [{\"id\": 200, \"content\": \"<end>\"}]}");
  Spill(folder / "tokenizer_config.json", R"({"eos_token": "<end>"})");
  ASSERT_TRUE(ExportHf(source, {.output = folder / "beyond"}).ok());
  EXPECT_TRUE(
      nlohmann::json::parse(Slurp(folder / "beyond/config.json"))["eos_token_id"].is_null());
  EXPECT_FALSE(fs::exists(folder / "beyond/generation_config.json"));
  Spill(folder / "tokenizer_config.json", "{");
  ASSERT_TRUE(ExportHf(source, {.output = folder / "damaged"}).ok());
  EXPECT_EQ(Slurp(folder / "damaged/tokenizer_config.json"), "{");
}

TEST(ExportTest, RotaryScalingIsWrittenAsTransformersReadsIt) {
  ModelSpec model = SmallLlama();
  model.rotary_scaling = {.kind = RotaryScaling::Kind::kLlama3,
                          .factor = 8,
                          .low_frequency_factor = 1.5,
                          .high_frequency_factor = 5,
                          .original_sequence_length = 8};
  model.norm_epsilon = 1e-6;
  const TestFolder folder;
  ASSERT_TRUE(ExportHf(MadeSource(model), {.output = folder / "out"}).ok());
  const auto config = nlohmann::json::parse(Slurp(folder / "out/config.json"));
  EXPECT_EQ(config["rope_theta"], 10000.0);
  EXPECT_EQ(config["rope_scaling"],
            nlohmann::json::parse(R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.5,
                "high_freq_factor": 5.0, "original_max_position_embeddings": 8})"));
  const auto read = OpenModel("hf:" + (folder / "out"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(SameModel((*read)->model(), model));
}

TEST(ExportTest, OptimizerGoesAlongWithACheckpoint) {
  const TestFolder job, out;
  const std::string folder =
      WriteMadeCheckpoint(job.path(), MadeSource(SmallLlama()), {.step = 20});
  const auto source = OpenModel(folder);
  ASSERT_TRUE(source.ok()) << source.status();
  const auto checkpoint = Checkpoint::Open(folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto summary = ExportHf(**source, {.output = out / "hf", .optimizer = &*checkpoint});
  ASSERT_TRUE(summary.ok()) << summary.status();
  const auto file = SafetensorsReader::Open(out / "hf/stretto-optimizer.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  const auto state = ParseTrainingState(file->header().metadata.at(kTrainingStateKey), "state");
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(*state, checkpoint->manifest().state);
  EXPECT_EQ(ParametersIn(**OpenModel("hf:" + (out / "hf"))),
            ParametersIn(MadeSource(SmallLlama())));
  auto moments = ParametersIn(MadeSource(SmallLlama()));
  for (const Parameter& p : ParametersOf(SmallLlama(), 1, 0)) {
    for (const auto& [suffix, plus] : {std::pair(".m", 1.0f), std::pair(".v", 2.0f)}) {
      const StoredTensor* tensor = file->Find(p.name + suffix);
      ASSERT_NE(tensor, nullptr) << p.name << suffix;
      EXPECT_EQ(tensor->shape, p.shape);
      std::vector<float> values(static_cast<size_t>(p.count()));
      ASSERT_EQ(tensor->bytes, static_cast<int64_t>(values.size()) * 4);
      ASSERT_TRUE(file->Read(*tensor, 0, tensor->bytes, values.data()).ok());
      for (float& value : values) value -= plus;
      EXPECT_EQ(values, moments[p.name]) << p.name << suffix;
    }
  }
  const auto rounded =
      ExportHf(**source, {.output = out / "bf16", .dtype = "BF16", .optimizer = &*checkpoint});
  EXPECT_THAT(std::string(rounded.status().message()), HasSubstr("expected F32"));
  const auto llmc =
      ExportLlmc(MadeSource(SmallGpt()), {.output = out / "llmc", .optimizer = &*checkpoint});
  EXPECT_THAT(std::string(llmc.status().message()), HasSubstr("expected hf"));
  EXPECT_THAT(NamesIn(out.path()), ElementsAre("hf"));
}

TEST(ExportTest, WhatAFormatCannotHoldIsRefusedByItsField) {
  const TestFolder folder;
  const auto refused = [&](const ModelSpec& model, bool hf, const std::string& dtype = "") {
    const MadeSource source(model);
    const ExportOptions options{.output = folder / "out", .dtype = dtype};
    const auto summary = hf ? ExportHf(source, options) : ExportLlmc(source, options);
    EXPECT_TRUE(absl::IsInvalidArgument(summary.status()));
    return std::string(summary.status().message());
  };
  ModelSpec model = SmallGpt();
  EXPECT_THAT(refused(SmallLlama(), false),
              HasSubstr("llm.c cannot hold this model: family: found llama"));
  EXPECT_THAT(refused(model, false, "F16"), HasSubstr("dtype: found F16, expected F32 or BF16"));
  EXPECT_THAT(refused(model, true, "I8"), HasSubstr("found I8, expected F32, BF16 or F16"));
  model.tied_head = false;
  EXPECT_THAT(refused(model, false), HasSubstr("tied_head: found false"));
  model = SmallGpt();
  model.norm_epsilon = 1e-6;
  EXPECT_THAT(refused(model, false), HasSubstr("norm_epsilon: found 1e-06, expected 1e-05"));
  model.norm_epsilon = 1.000001e-5;
  EXPECT_THAT(refused(model, false), HasSubstr("norm_epsilon: found 1.000001e-05, expected"));
  model.norm_epsilon = 1e-5f;  // as a configuration that was written from a float has it
  EXPECT_TRUE(CheckLlmc(model).ok());
  model = SmallGpt();
  model.ffn_hidden = 72;
  EXPECT_THAT(refused(model, false), HasSubstr("ffn_hidden: found 72, expected 96"));
  model = SmallGpt();
  model.kv_heads = 1;
  EXPECT_THAT(refused(model, false), HasSubstr("kv_heads: found 1"));
  EXPECT_THAT(refused(model, true),
              HasSubstr("GPT2LMHeadModel cannot hold this model: kv_heads: found 1"));
  EXPECT_THAT(NamesIn(folder.path()), IsEmpty());
}

TEST(ExportTest, AValueTooGreatForTheTypeIsAnErrorNamingTheTensor) {
  MadeSource source(SmallGpt());
  source.made_huge = "layers.1.mlp.fc2.weight";
  source.huge = 65520;  // halfway to the next, which F16 does not have
  const TestFolder folder;
  const auto summary = ExportHf(source, {.output = folder / "out", .dtype = "F16"});
  EXPECT_TRUE(absl::IsInvalidArgument(summary.status()));
  EXPECT_THAT(std::string(summary.status().message()),
              AllOf(HasSubstr("transformer.h.1.mlp.c_proj.weight"), HasSubstr("65520"),
                    HasSubstr("within F16")));
  EXPECT_THAT(NamesIn(folder.path()), IsEmpty());
  source.huge = 65519;
  EXPECT_TRUE(ExportHf(source, {.output = folder / "out", .dtype = "F16"}).ok());
}

TEST(ExportTest, AnOutputThatIsThereIsKeptUnlessAskedFor) {
  const TestFolder folder;
  const MadeSource source(SmallGpt());
  ASSERT_TRUE(ExportHf(source, {.output = folder / "out"}).ok());
  const std::string before = Slurp(folder / "out/model.safetensors");
  const auto again = ExportHf(source, {.output = folder / "out", .dtype = "BF16"});
  EXPECT_TRUE(absl::IsAlreadyExists(again.status())) << again.status();
  EXPECT_TRUE(Slurp(folder / "out/model.safetensors") == before);
  ASSERT_TRUE(ExportLlmc(source, {.output = folder / "out", .overwrite = true}).ok());
  EXPECT_THAT(NamesIn(folder / "out"), ElementsAre("model.bin"));
  // What is no export is nobody's to replace.
  Spill(folder / "out/thesis.tex", "");
  const auto mine = ExportHf(source, {.output = folder / "out/", .overwrite = true});
  EXPECT_TRUE(absl::IsFailedPrecondition(mine.status()));
  EXPECT_THAT(std::string(mine.status().message()), HasSubstr("found thesis.tex"));
  EXPECT_THAT(NamesIn(folder.path()), ElementsAre("out"));
  EXPECT_THAT(NamesIn(folder / "out"), ElementsAre("model.bin", "thesis.tex"));
}

TEST(ExportTest, AFolderLeftByAKilledRunIsNotInTheWay) {
  const TestFolder folder;
  const std::string left = absl::StrCat("out.tmp-", ::getpid());
  fs::create_directory(folder / left);
  const auto summary = ExportHf(MadeSource(SmallGpt()), {.output = folder / "out"});
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_THAT(NamesIn(folder.path()), ElementsAre("out", left));
}

TEST(ExportTest, WhereFoldersCannotBeExchangedTwoRenamesDo) {
  const TestFolder folder;
  fs::create_directories(folder / "new/of_new");
  fs::create_directories(folder / "old/of_old");
  ASSERT_TRUE(SwapByRenames(folder / "new", folder / "old").ok());
  EXPECT_THAT(NamesIn(folder / "old"), ElementsAre("of_new"));
  EXPECT_THAT(NamesIn(folder / "new"), ElementsAre("of_old"));
  EXPECT_TRUE(absl::IsNotFound(SwapByRenames(folder / "absent", folder / "old")));
  EXPECT_THAT(NamesIn(folder / "old"), ElementsAre("of_new"));  // back in its place
  EXPECT_THAT(NamesIn(folder.path()), ElementsAre("new", "old"));
}

TEST(ExportTest, BlocksAreNoLargerThanAskedAndCutATransposedTensorByColumns) {
  const ExportBox box{"p", {1, 2, 0}, {3, 4, 10}};
  for (const bool transposed : {false, true}) {
    const StoredLayout layout{"t", {}, transposed, {}};
    for (const int64_t elements : {1, 7, 24, 40, 1000}) {
      int64_t count = 0;
      bool all_rows = true;
      const auto check = [&](const ExportBox& block) {
        EXPECT_LE(block.count(), elements);
        count += block.count();
        all_rows = all_rows && block.extents[0] == 3 && block.extents[1] == 4;
        return absl::OkStatus();
      };
      ASSERT_TRUE(ForEachBlock(layout, box, elements, check).ok());
      EXPECT_EQ(count, 120);
      EXPECT_EQ(all_rows, elements == 1000 || (transposed && elements >= 12)) << elements;
    }
  }
}

TEST(ExportTest, ATensorOfMoreThanABlockComesOutWhole) {
  ModelSpec model = SmallGpt();
  model.layers = 1;
  model.ffn_hidden = 400'000;  // 9.6 M elements of fc1 and fc2: two blocks each
  model.tied_head = true;
  const MadeSource source(model);
  const TestFolder folder;
  ASSERT_TRUE(ExportHf(source, {.output = folder / "out", .dtype = "BF16"}).ok());
  const auto read = OpenModel("hf:" + (folder / "out"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(ParametersIn(**read) == ParametersIn(source));
}

TEST(ExportTest, AnInterruptLeavesNothing) {
  const TestFolder folder;
  const MadeSource source(SmallGpt());
  for (const bool hf : {false, true}) {
    int asked = 0;
    int64_t last = 0;
    const ExportOptions options{.output = folder / "out",
                                .progress =
                                    [&](int64_t bytes, int64_t total) {
                                      EXPECT_GT(bytes, last);
                                      EXPECT_LT(bytes, total);
                                      last = bytes;
                                    },
                                .cancelled = [&] { return ++asked == 5; }};
    const auto summary = hf ? ExportHf(source, options) : ExportLlmc(source, options);
    EXPECT_TRUE(absl::IsCancelled(summary.status())) << summary.status();
    EXPECT_EQ(asked, 5);
    EXPECT_THAT(NamesIn(folder.path()), IsEmpty());
  }
}

TEST(ExportTest, AFullDiskLeavesNothingAndSaysSo) {
  const TestFolder folder;
  for (const bool hf : {false, true}) {
    const FullDisk full(20'000);
    const MadeSource source(SmallGpt());
    const ExportOptions options{.output = folder / "out"};
    const auto summary = hf ? ExportHf(source, options) : ExportLlmc(source, options);
    ASSERT_FALSE(summary.ok());
    EXPECT_THAT(std::string(summary.status().message()),
                AllOf(HasSubstr("out.tmp-"), HasSubstr("File too large")));
    EXPECT_THAT(NamesIn(folder.path()), IsEmpty());
  }
}

TEST(ExportTest, AFolderThatCannotBeMadeIsNamed) {
  const TestFolder folder;
  const auto summary = ExportHf(MadeSource(SmallGpt()), {.output = folder / "no/out"});
  EXPECT_THAT(std::string(summary.status().message()),
              AllOf(HasSubstr("/no: found no such folder"), HasSubstr("no/out")));
}

TEST(ExportNumbersTest, EveryHalfComesBackAndWhatLiesBetweenGoesToTheNearest) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = FloatOfF16(half);
    ASSERT_EQ(ToF16(value), half);
    ASSERT_EQ(ToF16(-value), half | 0x8000);
    // The next may be the one that would follow the largest.
    const float next = bits == 0x7bff ? 65536.0f : FloatOfF16(static_cast<uint16_t>(bits + 1));
    const float middle = (value + next) / 2;  // exact: one bit more
    ASSERT_EQ(ToF16(middle), (bits & 1) == 0 ? half : half + 1) << middle;
    ASSERT_EQ(ToF16(std::nextafter(middle, 0.0f)), half) << middle;
    ASSERT_EQ(ToF16(std::nextafter(middle, 1e9f)), half + 1) << middle;
  }
  EXPECT_EQ(ToF16(INFINITY), 0x7c00);
  EXPECT_EQ(ToF16(-1e30f), 0xfc00);
  EXPECT_TRUE(std::isnan(FloatOfF16(ToF16(NAN))));
  EXPECT_TRUE(std::isnan(FloatOfF16(ToF16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(ExportNumbersTest, TheFirstValueThatOverflowsIsFound) {
  const std::vector<float> values = {1, INFINITY, 65519, -70000, 80000};
  std::vector<uint16_t> out(values.size());
  EXPECT_EQ(NarrowTo("F16", values, out.data()), 3);
  EXPECT_EQ(NarrowTo("BF16", values, out.data()), std::nullopt);
  const std::vector<float> great = {0, 3.4e38f};
  EXPECT_EQ(NarrowTo("BF16", great, out.data()), 1);
  std::vector<float> wide(great.size());
  EXPECT_EQ(NarrowTo("F32", great, wide.data()), std::nullopt);
  EXPECT_EQ(wide, great);
}

}  // namespace
}  // namespace stretto
