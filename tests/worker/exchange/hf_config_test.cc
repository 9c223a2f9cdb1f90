// SPDX-License-Identifier: Apache-2.0
#include "worker/exchange/hf_config.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/exchange/golden_models.h"

namespace stretto {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json GoldenConfig(const std::string& name) {
  return json::parse(Slurp(GoldenModels() + "/" + name + "/config.json"));
}

absl::StatusOr<ModelSpec> Parse(const json& config) {
  return ParseHfConfig(config.dump(), "x/config.json");
}

TEST(HfConfigTest, Gpt2AsTransformers5WritesIt) {
  const auto model = Parse(GoldenConfig("gpt2_sharded"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->architecture.family, Family::kGpt);
  EXPECT_EQ(model->layers, 2);
  EXPECT_EQ(model->hidden, 32);
  EXPECT_EQ(model->heads, 4);
  EXPECT_EQ(model->key_heads(), 4);
  EXPECT_EQ(model->ffn_hidden, 128) << "n_inner is null: four times the hidden size";
  EXPECT_EQ(model->sequence_length, 24);
  EXPECT_EQ(model->vocab_size, 300);
  EXPECT_EQ(model->norm_epsilon, 0.01);
  EXPECT_TRUE(model->head_is_tied());
  EXPECT_EQ(model->dropout, 0) << "pdrop is of the first training";
}

TEST(HfConfigTest, Gpt2OfTheHub) {
  const auto model = Parse(GoldenConfig("gpt2_bare"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->ffn_hidden, 80);
  EXPECT_EQ(model->norm_epsilon, 1e-5);
  EXPECT_TRUE(model->head_is_tied()) << "the default of the family";
}

TEST(HfConfigTest, Llama2OfTheHub) {
  const auto model = Parse(GoldenConfig("llama2"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->architecture.family, Family::kLlama);
  EXPECT_EQ(model->hidden, 32);
  EXPECT_EQ(model->ffn_hidden, 88);
  EXPECT_EQ(model->kv_heads, 4);
  EXPECT_EQ(model->sequence_length, 64);
  EXPECT_EQ(model->rotary_base, 10000);
  EXPECT_EQ(model->rotary_scaling, RotaryScaling{});
  EXPECT_FALSE(model->head_is_tied());
}

TEST(HfConfigTest, Llama3AsTransformers5WritesIt) {
  const auto model = Parse(GoldenConfig("llama3"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->kv_heads, 2);
  EXPECT_EQ(model->rotary_base, 500000);
  EXPECT_EQ(model->norm_epsilon, 1e-5);
  EXPECT_EQ(model->rotary_scaling, (RotaryScaling{.kind = RotaryScaling::Kind::kLlama3,
                                                  .factor = 8,
                                                  .low_frequency_factor = 1,
                                                  .high_frequency_factor = 4,
                                                  .original_sequence_length = 64}));
}

TEST(HfConfigTest, OldFormOfRotaryScalingIsTheSame) {
  json config = GoldenConfig("llama3");
  json rope = config["rope_parameters"];
  config.erase("rope_parameters");
  config["rope_theta"] = rope["rope_theta"];
  rope.erase("rope_theta");
  config["rope_scaling"] = rope;
  const auto older = Parse(config), newer = Parse(GoldenConfig("llama3"));
  ASSERT_TRUE(older.ok()) << older.status();
  EXPECT_EQ(older->rotary_scaling, newer->rotary_scaling);
  EXPECT_EQ(older->rotary_base, 500000);
}

TEST(HfConfigTest, OldestFormNamesTheKindType) {
  const auto model = Parse(GoldenConfig("llama_tied"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->rotary_scaling,
            (RotaryScaling{.kind = RotaryScaling::Kind::kLinear, .factor = 2}));
  EXPECT_TRUE(model->head_is_tied());
  EXPECT_EQ(model->norm_epsilon, 1e-6);
}

TEST(HfConfigTest, OriginalLengthOutsideTheScalingWins) {
  json config = GoldenConfig("llama3");
  config["original_max_position_embeddings"] = 32;
  const auto model = Parse(config);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->rotary_scaling.original_sequence_length, 32);
}

TEST(HfConfigTest, AbsentKeysHaveTheDefaultsOfTransformers) {
  json config = GoldenConfig("llama2");
  for (const char* key : {"num_key_value_heads", "rms_norm_eps", "hidden_act", "rope_scaling",
                          "tie_word_embeddings"}) {
    config.erase(key);
  }
  const auto model = Parse(config);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->kv_heads, 4);
  EXPECT_EQ(model->norm_epsilon, 1e-6);
  EXPECT_FALSE(model->head_is_tied());
}

TEST(HfConfigTest, KeysThatChangeNothingAreIgnored) {
  json config = GoldenConfig("llama2");
  config["initializer_range"] = 3;
  config["pretraining_tp"] = 2;
  config["use_cache"] = false;
  config["attention_dropout"] = 0.1;
  config["_name_or_path"] = "somewhere";
  config["quantization_config"] = nullptr;
  config["sliding_window"] = nullptr;
  config["head_dim"] = 8;
  config["auto_map"] = {{"AutoTokenizer", "tokens.Tokens"}};
  EXPECT_TRUE(Parse(config).ok()) << Parse(config).status();
  config = GoldenConfig("gpt2_bare");
  config["reorder_and_upcast_attn"] = true;
  config["activation_function"] = "gelu_pytorch_tanh";
  EXPECT_TRUE(Parse(config).ok()) << Parse(config).status();
}

struct BadConfig {
  const char* golden;
  const char* key;    // set to `value`; a path: "rope_scaling/factor"
  const char* value;  // JSON; empty: the key is taken out
  std::vector<std::string> said;
};

std::vector<BadConfig> BadConfigs() {
  return {
      {"gpt2_bare",
       "model_type",
       R"("gpt_neox")",
       {R"(found "gpt_neox", expected "gpt2" or "llama")"}},
      {"gpt2_bare", "model_type", "", {R"(found "", expected "gpt2" or "llama")"}},
      {"gpt2_bare", "model_type", "7", {"found 7, expected text"}},
      {"gpt2_bare", "activation_function", R"("gelu")", {R"(found "gelu", expected "gelu_new")"}},
      {"gpt2_bare", "activation_function", R"("relu")", {R"(found "relu")"}},
      {"gpt2_bare", "scale_attn_weights", "false", {"found false, expected true"}},
      {"gpt2_bare", "scale_attn_by_inverse_layer_idx", "true", {"found true, expected false"}},
      {"gpt2_bare", "add_cross_attention", "true", {"found true, expected false"}},
      {"gpt2_bare", "is_encoder_decoder", "true", {"found true, expected false"}},
      {"gpt2_bare", "pruned_heads", R"({"1": [0]})", {R"(found {"1":[0]})"}},
      {"gpt2_bare", "n_embd", "", {"found nothing, expected a whole number, 1 to 65536"}},
      {"gpt2_bare", "n_embd", "33", {"n_head: found 2, expected a divisor of the hidden size 33"}},
      {"gpt2_bare", "n_head", "65536", {"found 65536, expected a whole number, 1 to 1024"}},
      {"llama2", "num_attention_heads", "1025", {"found 1025, expected a whole number, 1 to 1024"}},
      {"llama2", "num_key_value_heads", "65536", {"expected a whole number, 1 to 1024"}},
      {"gpt2_bare", "n_layer", "0", {"found 0, expected a whole number, 1 to 256"}},
      {"gpt2_bare", "n_layer", "1e300", {"expected a whole number, 1 to 256"}},
      {"gpt2_bare", "n_positions", "-1", {"found -1"}},
      {"gpt2_bare", "vocab_size", "97.5", {"found 97.5"}},
      {"gpt2_bare", "vocab_size", "1", {"model.vocab_size: found 1, expected 2 to 4194304"}},
      {"gpt2_bare", "vocab_size", "4194305", {"found 4194305"}},
      {"gpt2_bare", "n_inner", R"("80")", {R"(found "80")"}},
      {"gpt2_bare", "layer_norm_epsilon", "0", {"found 0, expected a number above 0, at most 1"}},
      {"gpt2_bare", "tie_word_embeddings", "1", {"found 1, expected true or false"}},
      {"gpt2_bare",
       "auto_map",
       R"({"AutoModelForCausalLM": "own.Model"})",
       {"AutoModelForCausalLM", R"(found "own.Model")"}},
      {"llama2",
       "quantization_config",
       R"({"quant_method": "gptq"})",
       {R"(found {"quant_method":"gptq"}, expected none)"}},
      {"llama2", "hidden_act", R"("gelu")", {R"(found "gelu", expected "silu")"}},
      {"llama2", "attention_bias", "true", {"found true, expected false"}},
      {"llama2", "mlp_bias", "true", {"found true, expected false"}},
      {"llama2", "head_dim", "16", {"found 16, expected 8"}},
      {"llama2", "sliding_window", "4096", {"found 4096, expected none"}},
      {"llama2",
       "num_key_value_heads",
       "3",
       {"found 3, expected a divisor of num_attention_heads 4"}},
      {"llama2",
       "num_attention_heads",
       "32",
       {"found 32, expected heads of an even dimension, not 1"}},
      {"llama2", "rms_norm_eps", "2", {"found 2"}},
      {"llama2", "rope_theta", "10000.5", {"found 10000.5, expected a whole number"}},
      {"llama2", "rope_theta", "1e12", {"expected a whole number, 1 to 1000000000"}},
      {"llama2", "partial_rotary_factor", "0.5", {"found 0.5, expected 1.0"}},
      {"llama2", "rope_scaling", "[1]", {"found [1], expected an object or null"}},
      {"llama_tied",
       "rope_scaling/type",
       R"("dynamic")",
       {R"(rope_scaling.type: found "dynamic", expected "default", "linear" or "llama3")"}},
      {"llama_tied", "rope_scaling/factor", "", {"rope_scaling.factor: found nothing"}},
      {"llama_tied",
       "rope_scaling/factor",
       "0.5",
       {"rope_scaling.factor: found 0.5, expected at least 1"}},
      {"llama_tied", "rope_scaling/factor", "4096", {"rope_scaling.factor: found 4096"}},
      {"llama3",
       "rope_parameters/rope_type",
       R"("yarn")",
       {R"(rope_parameters.rope_type: found "yarn")"}},
      {"llama3", "rope_parameters/rope_type", R"("longrope")", {R"(found "longrope")"}},
      {"llama3",
       "rope_parameters/low_freq_factor",
       "4",
       {"rope_parameters.high_freq_factor: found 4, expected more than low_freq_factor 4"}},
      {"llama3",
       "rope_parameters/low_freq_factor",
       "",
       {"rope_parameters.low_freq_factor: found nothing"}},
      {"llama3",
       "rope_parameters/partial_rotary_factor",
       "0.25",
       {"partial_rotary_factor: found 0.25"}},
      {"llama3", "rope_parameters/rope_theta", R"("big")", {"rope_parameters.rope_theta"}},
      {"llama3",
       "rope_parameters/full_attention",
       R"({"rope_theta": 1})",
       {"expected the same for all layers"}},
      {"llama3",
       "rope_parameters/original_max_position_embeddings",
       "0",
       {"rope_parameters.original_max_position_embeddings: found 0"}},
  };
}

TEST(HfConfigTest, WhatWeDoNotComputeIsRefusedByItsKey) {
  for (const BadConfig& bad : BadConfigs()) {
    json config = GoldenConfig(bad.golden);
    std::string key = bad.key;
    json* object = &config;
    if (const size_t slash = key.find('/'); slash != std::string::npos) {
      object = &config[key.substr(0, slash)];
      key = key.substr(slash + 1);
    }
    object->erase(key);
    if (bad.value[0] != '\0') (*object)[key] = json::parse(bad.value);
    const auto model = Parse(config);
    ASSERT_TRUE(absl::IsInvalidArgument(model.status())) << bad.key << " " << bad.value;
    const std::string message(model.status().message());
    EXPECT_THAT(message, HasSubstr("x/config.json: "));
    // Some name the key beside the one that was changed.
    if (bad.said.front().find(": found") == std::string::npos) {
      EXPECT_THAT(message, HasSubstr(key));
    }
    for (const std::string& part : bad.said) EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST(HfConfigTest, TextThatIsNoConfigurationIsRefused) {
  for (const char* text : {"", "[]", "3", "{", "{\"model_type\": NaN}", "null",
                           R"({"model_type": "gpt2", "model_type": "llama"})"}) {
    const auto model = ParseHfConfig(text, "x/config.json");
    ASSERT_TRUE(absl::IsInvalidArgument(model.status())) << text;
    EXPECT_THAT(std::string(model.status().message()), HasSubstr("x/config.json"));
  }
}

}  // namespace
}  // namespace stretto
