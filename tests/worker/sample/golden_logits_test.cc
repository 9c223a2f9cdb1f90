// SPDX-License-Identifier: Apache-2.0

// Our mathematics is that of transformers: its logits of tiny models, kept in tests/golden/models,
// are ours (make_model_golden.py of tests/worker/exchange wrote them).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "proto/base/files.h"
#include "worker/sample/decoder.h"
#include "worker/sample/generate.h"

namespace stretto {
namespace {

constexpr char kModels[] = STRETTO_SOURCE_DIR "/tests/golden/models";

// Both widen the stored weights and compute in f32.
constexpr float kLogitsBound = 1e-4f;

struct Golden {
  std::string opened;  // as OpenModel takes it
  std::vector<std::vector<int32_t>> sequences;
  std::vector<int32_t> greedy;  // after the first four tokens of the first sequence
  std::vector<float> logits;    // [sequences][positions][vocabulary]
};

Golden GoldenOf(const std::string& name) {
  const std::string folder = std::string(kModels) + "/" + name;
  const auto json = nlohmann::json::parse(ReadFile(folder + "/golden.json").value());
  const auto opened = json["open"].get<std::string>();
  const size_t colon = opened.find(':');
  Golden golden{opened.substr(0, colon + 1) + kModels + "/" + opened.substr(colon + 1),
                json["input_ids"].get<std::vector<std::vector<int32_t>>>(),
                json["greedy"].get<std::vector<int32_t>>(),
                {}};
  const std::string bytes = ReadFile(folder + "/logits.f32").value();
  const auto shape = json["logits_shape"].get<std::vector<size_t>>();
  EXPECT_EQ(bytes.size(), shape[0] * shape[1] * shape[2] * sizeof(float));
  golden.logits.resize(bytes.size() / sizeof(float));
  std::memcpy(golden.logits.data(), bytes.data(), bytes.size());
  return golden;
}

std::unique_ptr<Decoder> Loaded(const Golden& golden) {
  const auto source = OpenModel(golden.opened);
  EXPECT_TRUE(source.ok()) << source.status();
  if (!source.ok()) return nullptr;
  auto decoder = Decoder::Load(**source, {.threads = 1});
  EXPECT_TRUE(decoder.ok()) << decoder.status();
  return decoder.ok() ? *std::move(decoder) : nullptr;
}

class GoldenLogitsTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenLogitsTest, AreThoseOfTransformers) {
  const Golden golden = GoldenOf(GetParam());
  const std::unique_ptr<Decoder> decoder = Loaded(golden);
  ASSERT_NE(decoder, nullptr);
  size_t at = 0;
  float distance = 0, largest = 0;
  for (const std::vector<int32_t>& tokens : golden.sequences) {
    std::vector<float> logits(tokens.size() * static_cast<size_t>(decoder->model().vocab_size));
    ASSERT_LE(at + logits.size(), golden.logits.size());
    decoder->Clear();
    ASSERT_TRUE(decoder->Append(tokens, absl::MakeSpan(logits)).ok());
    for (const float logit : logits) {
      ASSERT_TRUE(std::isfinite(logit));
      distance = std::max(distance, std::abs(logit - golden.logits[at]));
      largest = std::max(largest, std::abs(golden.logits[at++]));
    }
  }
  EXPECT_EQ(at, golden.logits.size());
  EXPECT_GT(largest, 1);
  EXPECT_LE(distance, kLogitsBound);
  std::printf("logits of %s: largest difference %.2g, largest logit %.3g\n", GetParam().c_str(),
              distance, largest);
}

TEST_P(GoldenLogitsTest, GreedyTokensAreThoseOfTransformers) {
  const Golden golden = GoldenOf(GetParam());
  const std::unique_ptr<Decoder> decoder = Loaded(golden);
  ASSERT_NE(decoder, nullptr);
  std::vector<int32_t> tokens;
  const auto ending = Generate(*decoder, absl::MakeConstSpan(golden.sequences[0]).first(4),
                               {.tokens = static_cast<int64_t>(golden.greedy.size()),
                                .choice = {.temperature = 0},
                                .choices = decoder->model().vocab_size},
                               [&](int32_t token) {
                                 tokens.push_back(token);
                                 return absl::OkStatus();
                               });
  ASSERT_TRUE(ending.ok()) << ending.status();
  EXPECT_EQ(tokens, golden.greedy);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenLogitsTest,
                         testing::Values("gpt2_bare", "gpt2_prefixed", "gpt2_sharded", "llama2",
                                         "llama3", "llama_tied", "llmc_bf16", "llmc_f32"),
                         [](const auto& info) { return info.param; });

TEST(GoldenModelsTest, EveryOneIsTested) {
  int folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kModels)) {
    folders += std::filesystem::exists(entry.path() / "golden.json");
  }
  EXPECT_EQ(folders, 8);
}

}  // namespace
}  // namespace stretto
