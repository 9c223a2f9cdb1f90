// SPDX-License-Identifier: Apache-2.0
#include "worker/exchange/hf_source.h"

#include <cmath>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/exchange/golden_models.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Where element `at` of a parameter lies in the tensors of the folder, spelt out for each: an
// independent reading of what transformers does with them.
class Golden {
 public:
  Golden(const std::string& folder, const ModelSpec& model) : model_(model) {
    for (const auto& [name, tensor] : TensorsOf(folder)) values_[name] = tensor.Floats();
    bare_ = values_.count("wte.weight") == 1;
  }

  float operator()(const std::string& name, const std::vector<int64_t>& at) const {
    const int64_t h = model_.hidden;
    if (name == "embedding.token.weight") return Padded(gpt() ? "wte" : "embed_tokens", at);
    if (name == "embedding.position.weight") return Of("wpe.weight", at[0] * h + at[1]);
    if (name == "head.weight") return Padded("lm_head", at);
    if (name == "final_norm.weight") return Of(gpt() ? "ln_f.weight" : "norm.weight", at[0]);
    if (name == "final_norm.bias") return Of("ln_f.bias", at[0]);
    const size_t dot = name.find('.', 7);
    const std::string layer = name.substr(7, dot - 7), rest = name.substr(dot + 1);
    return gpt() ? OfGptLayer("h." + layer + ".", rest, at)
                 : OfLlamaLayer("layers." + layer + ".", rest, at);
  }

 private:
  bool gpt() const { return model_.architecture.family == Family::kGpt; }

  float Of(const std::string& name, int64_t index) const {
    const std::string prefix = bare_ || name == "lm_head.weight" ? ""
                               : gpt()                           ? "transformer."
                                                                 : "model.";
    return values_.at(prefix + name).at(static_cast<size_t>(index));
  }

  float Padded(const std::string& name, const std::vector<int64_t>& at) const {
    return at[0] < model_.vocab_size ? Of(name + ".weight", at[0] * model_.hidden + at[1]) : 0.0f;
  }

  // c_attn is [h, 3h]: queries of all heads, keys of all heads, values of all heads.
  float OfGptLayer(const std::string& layer, const std::string& rest,
                   const std::vector<int64_t>& at) const {
    const int64_t h = model_.hidden, f = model_.ffn_hidden, d = model_.head_dim();
    if (rest == "ln1.weight") return Of(layer + "ln_1.weight", at[0]);
    if (rest == "ln1.bias") return Of(layer + "ln_1.bias", at[0]);
    if (rest == "ln2.weight") return Of(layer + "ln_2.weight", at[0]);
    if (rest == "ln2.bias") return Of(layer + "ln_2.bias", at[0]);
    if (rest == "attention.qkv.weight" || rest == "attention.qkv.bias") {
      const int64_t column = at[1] / d * h + at[0] * d + at[1] % d;
      return rest == "attention.qkv.bias"
                 ? Of(layer + "attn.c_attn.bias", column)
                 : Of(layer + "attn.c_attn.weight", at[2] * 3 * h + column);
    }
    if (rest == "attention.proj.weight") return Of(layer + "attn.c_proj.weight", at[1] * h + at[0]);
    if (rest == "attention.proj.bias") return Of(layer + "attn.c_proj.bias", at[0]);
    if (rest == "mlp.fc1.weight") return Of(layer + "mlp.c_fc.weight", at[1] * f + at[0]);
    if (rest == "mlp.fc1.bias") return Of(layer + "mlp.c_fc.bias", at[0]);
    if (rest == "mlp.fc2.weight") return Of(layer + "mlp.c_proj.weight", at[1] * h + at[0]);
    if (rest == "mlp.fc2.bias") return Of(layer + "mlp.c_proj.bias", at[0]);
    ADD_FAILURE() << rest;
    return NAN;
  }

  float OfLlamaLayer(const std::string& layer, const std::string& rest,
                     const std::vector<int64_t>& at) const {
    const int64_t h = model_.hidden, f = model_.ffn_hidden, d = model_.head_dim();
    const int64_t group = model_.heads / model_.key_heads();
    if (rest == "ln1.weight") return Of(layer + "input_layernorm.weight", at[0]);
    if (rest == "ln2.weight") return Of(layer + "post_attention_layernorm.weight", at[0]);
    if (rest == "attention.qkv.weight") {
      const int64_t head = at[1] / d, row = at[1] % d;
      const std::string attention = layer + "self_attn.";
      if (head < group) {
        return Of(attention + "q_proj.weight", ((at[0] * group + head) * d + row) * h + at[2]);
      }
      return Of(attention + (head == group ? "k_proj.weight" : "v_proj.weight"),
                (at[0] * d + row) * h + at[2]);
    }
    if (rest == "attention.proj.weight")
      return Of(layer + "self_attn.o_proj.weight", at[0] * h + at[1]);
    if (rest == "mlp.fc1.weight") {
      return Of(layer + (at[0] == 0 ? "mlp.gate_proj.weight" : "mlp.up_proj.weight"),
                at[1] * h + at[2]);
    }
    if (rest == "mlp.fc2.weight") return Of(layer + "mlp.down_proj.weight", at[0] * f + at[1]);
    ADD_FAILURE() << rest;
    return NAN;
  }

  const ModelSpec model_;
  std::map<std::string, std::vector<float>> values_;
  bool bare_ = false;
};

class HfGoldenTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto opened = OpenGolden(absl::StrCat("hf:", GetParam()));
    ASSERT_TRUE(opened.ok()) << opened.status();
    model_ = *std::move(opened);
    golden_ =
        std::make_unique<Golden>(absl::StrCat(GoldenModels(), "/", GetParam()), model_->model());
  }

  void ExpectBox(const Parameter& box) {
    const std::vector<float> values = ReadBox(*model_, box);
    size_t i = 0, wrong = 0;
    ForEachIn(box.starts, box.extents, [&](const std::vector<int64_t>& at) {
      if (values.at(i++) != (*golden_)(box.name, at)) ++wrong;
    });
    EXPECT_EQ(i, values.size());
    EXPECT_EQ(wrong, 0u) << box.name << " of " << values.size();
  }

  std::unique_ptr<ModelSource> model_;
  std::unique_ptr<Golden> golden_;
};
INSTANTIATE_TEST_SUITE_P(Models, HfGoldenTest,
                         testing::Values("gpt2_prefixed", "gpt2_bare", "gpt2_sharded", "llama2",
                                         "llama3", "llama_tied"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(HfGoldenTest, EveryParameterIsWhatTheFilesSay) {
  for (const Parameter& parameter : ParametersOf(model_->model(), 1, 0)) ExpectBox(parameter);
}

// Two divide the key heads of all but llama_tied.
class HfShardTest : public HfGoldenTest {};
INSTANTIATE_TEST_SUITE_P(Models, HfShardTest,
                         testing::Values("gpt2_prefixed", "gpt2_bare", "gpt2_sharded", "llama2",
                                         "llama3"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(HfShardTest, EveryShardOfTwoRanksIsWhatTheFilesSay) {
  for (GroupRank rank : IdRange<GroupRank>(2)) {
    for (const Parameter& shard : ParametersOf(model_->model(), 2, rank)) ExpectBox(shard);
  }
}

TEST_P(HfGoldenTest, AnyBoxIsASliceOfTheWhole) {
  std::mt19937_64 random(1);
  for (Parameter parameter : ParametersOf(model_->model(), 1, 0)) {
    for (int round = 0; round < 6; ++round) {
      for (size_t i = 0; i < parameter.shape.size(); ++i) {
        const auto below = [&](int64_t n) {
          return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
        };
        parameter.starts[i] = below(parameter.shape[i]);
        parameter.extents[i] = below(parameter.shape[i] - parameter.starts[i] + 1);
      }
      ExpectBox(parameter);
    }
  }
}

TEST(HfSourceTest, TypeIsThatOfTheFiles) {
  EXPECT_EQ((*OpenGolden("hf:gpt2_bare"))->dtype(), "F32");
  EXPECT_EQ((*OpenGolden("hf:gpt2_sharded"))->dtype(), "F16");
  EXPECT_EQ((*OpenGolden("hf:llama3"))->dtype(), "BF16");
}

TEST(HfSourceTest, MixedTypesAreF32) {
  ChangedModel model("gpt2_sharded");
  PlainTensor& norm = model.tensors.at("transformer.ln_f.weight");
  const std::vector<float> wide = norm.Floats();
  norm.dtype = "F32";
  norm.bytes.assign(reinterpret_cast<const char*>(wide.data()), wide.size() * 4);
  const auto opened = model.Open();
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->dtype(), "F32");
  EXPECT_EQ((*opened)->dtype_of("final_norm.weight"), "F32");
  EXPECT_EQ((*opened)->dtype_of("final_norm.bias"), "F16");
  EXPECT_EQ(ParametersIn(**opened), ParametersIn(**OpenGolden("hf:gpt2_sharded")));
}

TEST(HfSourceTest, NameIsAsGiven) {
  EXPECT_EQ((*OpenGolden("hf:llama2"))->name(), "hf:" + GoldenModels() + "/llama2");
}

TEST(HfSourceTest, TokenizerFilesAreThoseThatAreThere) {
  ChangedModel model("llama2");
  Spill(model.folder / "tokenizer.json", "{}");
  Spill(model.folder / "tokenizer_config.json", "{}");
  Spill(model.folder / "README.md", "a model");
  const auto opened = model.Open();
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_THAT((*opened)->tokenizer_files(),
              ElementsAre(model.folder / "tokenizer.json", model.folder / "tokenizer_config.json"));
  EXPECT_THAT((*OpenGolden("hf:llama2"))->tokenizer_files(), IsEmpty());
}

TEST(HfSourceTest, NoSuchParameterOrBoxIsSaid) {
  const auto model = *OpenGolden("hf:llama2");
  std::vector<float> out(32);
  const absl::Status missing = model->Read("layers.2.ln1.weight", {0}, {32}, out.data());
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_THAT(std::string(missing.message()), HasSubstr("layers.2.ln1.weight"));
  for (const auto& [starts, extents] :
       std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>>{
           {{1}, {32}}, {{-1}, {2}}, {{0}, {-1}}, {{0, 0}, {1, 1}}, {{0}, {INT64_MAX}}}) {
    const absl::Status outside = model->Read("layers.0.ln1.weight", starts, extents, out.data());
    EXPECT_TRUE(absl::IsInvalidArgument(outside)) << outside;
    EXPECT_THAT(std::string(outside.message()), HasSubstr("expected one within [32]"));
  }
}

TEST(HfSourceTest, TiedHeadStoredWithTheSameBytesIsTaken) {
  ChangedModel model("llama_tied");
  model.tensors["lm_head.weight"] = model.tensors.at("model.embed_tokens.weight");
  const auto opened = model.Open();
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE((*opened)->model().head_is_tied());
  EXPECT_EQ(ParametersIn(**opened), ParametersIn(**OpenGolden("hf:llama_tied")));
}

TEST(HfSourceTest, HeadOfGptIsItsOwnWhenTheConfigurationSaysSo) {
  ChangedModel model("gpt2_bare");
  model.config["tie_word_embeddings"] = false;
  PlainTensor head = model.tensors.at("wte.weight");
  std::reverse(head.bytes.begin(), head.bytes.end());
  model.tensors["lm_head.weight"] = head;
  const auto opened = model.Open();
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_FALSE((*opened)->model().head_is_tied());
  std::vector<float> values(97 * 32);
  ASSERT_TRUE((*opened)->Read("head.weight", {0, 0}, {97, 32}, values.data()).ok());
  EXPECT_EQ(std::memcmp(values.data(), head.bytes.data(), head.bytes.size()), 0);
}

TEST(HfSourceTest, LlamaWithoutPrefixIsRead) {
  ChangedModel model("llama2");
  std::map<std::string, PlainTensor> bare;
  for (const auto& [name, tensor] : model.tensors) {
    bare[name == "lm_head.weight" ? name : name.substr(6)] = tensor;
  }
  model.tensors = bare;
  const auto opened = model.Open();
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(ParametersIn(**opened), ParametersIn(**OpenGolden("hf:llama2")));
}

TEST(HfSourceTest, TensorsThatAreNoWeightsAreIgnored) {
  ChangedModel model("llama2");
  model.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {
      "F32", {4}, std::string(16, '\1')};
  const auto opened = model.Open();
  ASSERT_TRUE(opened.ok()) << opened.status();
}

struct BadTensors {
  const char* name;
  const char* golden;
  void (*change)(ChangedModel*);
  std::vector<std::string> said;
};
void PrintTo(const BadTensors& bad, std::ostream* out) { *out << bad.name; }

class BadHfTest : public testing::TestWithParam<BadTensors> {};

TEST_P(BadHfTest, IsRefusedByName) {
  ChangedModel model(GetParam().golden);
  GetParam().change(&model);
  const auto opened = model.Open();
  ASSERT_TRUE(absl::IsInvalidArgument(opened.status())) << opened.status();
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr(model.folder.path()));
  for (const std::string& part : GetParam().said) {
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr(part));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tensors, BadHfTest,
    testing::Values(
        BadTensors{
            "Missing",
            "llama2",
            [](ChangedModel* m) { m->tensors.erase("model.layers.1.mlp.up_proj.weight"); },
            {"tensor model.layers.1.mlp.up_proj.weight: found none", "F32, BF16 or F16 [88,32]"}},
        BadTensors{"MissingWithoutPrefix",
                   "gpt2_bare",
                   [](ChangedModel* m) { m->tensors.erase("h.0.ln_1.bias"); },
                   {"tensor h.0.ln_1.bias: found none, expected", "[32]"}},
        BadTensors{"MissingHead",
                   "llama2",
                   [](ChangedModel* m) { m->tensors.erase("lm_head.weight"); },
                   {"tensor lm_head.weight: found none", "[97,32]"}},
        BadTensors{
            "Shape",
            "gpt2_prefixed",
            [](ChangedModel* m) {
              m->tensors.at("transformer.h.1.mlp.c_fc.weight").shape = {160, 40};
            },
            {"model.safetensors: tensor transformer.h.1.mlp.c_fc.weight: found shape [160,40], "
             "expected [40,160]"}},
        BadTensors{"Type",
                   "llama2",
                   [](ChangedModel* m) {
                     m->tensors.at("model.norm.weight") = {"F64", {32}, std::string(256, '\0')};
                   },
                   {"tensor model.norm.weight: found dtype F64, expected F32, BF16 or F16"}},
        BadTensors{"Unexpected",
                   "llama2",
                   [](ChangedModel* m) {
                     m->tensors["model.layers.0.self_attn.q_proj.bias"] = {
                         "F32", {32}, std::string(128, '\0')};
                   },
                   {"tensor model.layers.0.self_attn.q_proj.bias: found it, expected none"}},
        BadTensors{"OneLayerMore",
                   "gpt2_bare",
                   [](ChangedModel* m) { m->config["n_layer"] = 1; },
                   {"tensor h.1.attn.c_attn.bias: found it, expected none"}},
        BadTensors{"TiedHeadOfOtherBytes",
                   "llama_tied",
                   [](ChangedModel* m) {
                     PlainTensor head = m->tensors.at("model.embed_tokens.weight");
                     head.bytes[1000] = static_cast<char>(head.bytes[1000] ^ 1);
                     m->tensors["lm_head.weight"] = head;
                   },
                   {"tensor lm_head.weight: found other bytes from 1000 on, expected those of "
                    "model.embed_tokens.weight",
                    "tie_word_embeddings"}},
        BadTensors{
            "TiedHeadOfOtherType",
            "llama_tied",
            [](ChangedModel* m) {
              m->tensors["lm_head.weight"] = {"BF16", {300, 48}, std::string(300 * 48 * 2, '\0')};
            },
            {"tensor lm_head.weight: found dtype BF16, expected"}},
        BadTensors{
            "TiedHeadOfOtherShape",
            "llama_tied",
            [](ChangedModel* m) {
              m->tensors["lm_head.weight"] = {"F32", {48, 300}, std::string(300 * 48 * 4, '\0')};
            },
            {"tensor lm_head.weight: found shape [48,300], expected [300,48]"}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace stretto
