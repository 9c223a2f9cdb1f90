// SPDX-License-Identifier: Apache-2.0

// One function per format lists its tensors. LayoutBuilder adds a tensor as ranges of rows of our
// parameters. Our QKV weight has, group by group, the queries that share a key, the key and the
// value, so tensors of queries, keys and values are collected head by head.

#include "worker/exchange/stored_layout.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"

namespace stretto {
namespace {

class LayoutBuilder {
 public:
  explicit LayoutBuilder(const ModelSpec& model)
      : head_dim_(model.head_dim()),
        kv_heads_(model.key_heads()),
        group_(model.heads / model.key_heads()) {}

  // Adds a tensor that is rows [row, row + rows) of a parameter.
  void Add(std::string name, std::vector<int64_t> shape, std::string parameter, int64_t rows,
           int64_t row = 0) {
    layouts_.push_back({std::move(name), std::move(shape), false, {{parameter, row, rows}}});
  }
  void AddTransposed(std::string name, int64_t in, int64_t out, std::string parameter) {
    Add(std::move(name), {in, out}, std::move(parameter), out);
    layouts_.back().transposed = true;
  }
  // Adds a tensor of queries (0), keys (1) or values (2), or several of them, head by head.
  void AddHeads(std::string name, std::vector<int64_t> shape, const std::string& parameter,
                const std::vector<int>& parts, bool transposed = false) {
    StoredLayout layout{std::move(name), std::move(shape), transposed, {}};
    for (int part : parts) {
      for (int64_t kv = 0; kv < kv_heads_; ++kv) {
        const int64_t first = part == 0 ? 0 : group_ + part - 1;
        layout.pieces.push_back({parameter, (kv * (group_ + 2) + first) * head_dim_,
                                 (part == 0 ? group_ : 1) * head_dim_});
      }
    }
    layouts_.push_back(std::move(layout));
  }

  std::vector<StoredLayout> Take() { return std::move(layouts_); }

 private:
  const int64_t head_dim_, kv_heads_, group_;
  std::vector<StoredLayout> layouts_;
};

void AddHfGptLayer(const ModelSpec& model, int layer, LayoutBuilder* builder) {
  const int64_t h = model.hidden, f = model.ffn_hidden;
  const std::string theirs = absl::StrCat("transformer.h.", layer, ".");
  const std::string ours = absl::StrCat("layers.", layer, ".");
  const auto add = [&](const char* name, const char* parameter, int64_t rows) {
    builder->Add(theirs + name, {rows}, ours + parameter, rows);
  };
  add("ln_1.weight", "ln1.weight", h);
  add("ln_1.bias", "ln1.bias", h);
  builder->AddHeads(theirs + "attn.c_attn.weight", {h, 3 * h}, ours + "attention.qkv.weight",
                    {0, 1, 2}, true);
  builder->AddHeads(theirs + "attn.c_attn.bias", {3 * h}, ours + "attention.qkv.bias", {0, 1, 2});
  builder->AddTransposed(theirs + "attn.c_proj.weight", h, h, ours + "attention.proj.weight");
  add("attn.c_proj.bias", "attention.proj.bias", h);
  add("ln_2.weight", "ln2.weight", h);
  add("ln_2.bias", "ln2.bias", h);
  builder->AddTransposed(theirs + "mlp.c_fc.weight", h, f, ours + "mlp.fc1.weight");
  add("mlp.c_fc.bias", "mlp.fc1.bias", f);
  builder->AddTransposed(theirs + "mlp.c_proj.weight", f, h, ours + "mlp.fc2.weight");
  add("mlp.c_proj.bias", "mlp.fc2.bias", h);
}

void AddHfLlamaLayer(const ModelSpec& model, int layer, LayoutBuilder* builder) {
  const int64_t h = model.hidden, f = model.ffn_hidden;
  const int64_t keys = int64_t{model.key_heads()} * model.head_dim();
  const std::string theirs = absl::StrCat("model.layers.", layer, ".");
  const std::string ours = absl::StrCat("layers.", layer, ".");
  const std::string qkv = ours + "attention.qkv.weight", fc1 = ours + "mlp.fc1.weight";
  builder->Add(theirs + "input_layernorm.weight", {h}, ours + "ln1.weight", h);
  builder->AddHeads(theirs + "self_attn.q_proj.weight", {h, h}, qkv, {0});
  builder->AddHeads(theirs + "self_attn.k_proj.weight", {keys, h}, qkv, {1});
  builder->AddHeads(theirs + "self_attn.v_proj.weight", {keys, h}, qkv, {2});
  builder->Add(theirs + "self_attn.o_proj.weight", {h, h}, ours + "attention.proj.weight", h);
  builder->Add(theirs + "post_attention_layernorm.weight", {h}, ours + "ln2.weight", h);
  builder->Add(theirs + "mlp.gate_proj.weight", {f, h}, fc1, f);
  builder->Add(theirs + "mlp.up_proj.weight", {f, h}, fc1, f, f);
  builder->Add(theirs + "mlp.down_proj.weight", {h, f}, ours + "mlp.fc2.weight", h);
}

}  // namespace

const HfFamily& HfFamilyOf(Family family) {
  static constexpr HfFamily kGpt = {Family::kGpt,   "gpt2", "GPT2LMHeadModel",
                                    "transformer.", false,  &HuggingFaceKeys::gpt2};
  static constexpr HfFamily kLlama = {Family::kLlama, "llama", "LlamaForCausalLM",
                                      "model.",       true,    &HuggingFaceKeys::llama};
  switch (family) {
    case Family::kGpt:
      return kGpt;
    case Family::kLlama:
      return kLlama;
  }
  STRETTO_CHECK(false);
}

const char* HfKey(Family family, absl::string_view field) {
  const char* const key =
      FindField(absl::StrCat("model.", field))->hugging_face.*HfFamilyOf(family).keys;
  STRETTO_CHECK(key != nullptr);
  return key;
}

std::vector<StoredLayout> HfLayout(const ModelSpec& model) {
  const int64_t h = model.hidden, v = model.vocab_size;
  LayoutBuilder builder(model);
  switch (model.architecture.family) {
    case Family::kGpt:
      builder.Add("transformer.wte.weight", {v, h}, "embedding.token.weight", v);
      builder.Add("transformer.wpe.weight", {model.sequence_length, h}, "embedding.position.weight",
                  model.sequence_length);
      for (int layer = 0; layer < model.layers; ++layer) AddHfGptLayer(model, layer, &builder);
      builder.Add("transformer.ln_f.weight", {h}, "final_norm.weight", h);
      builder.Add("transformer.ln_f.bias", {h}, "final_norm.bias", h);
      break;
    case Family::kLlama:
      builder.Add("model.embed_tokens.weight", {v, h}, "embedding.token.weight", v);
      for (int layer = 0; layer < model.layers; ++layer) AddHfLlamaLayer(model, layer, &builder);
      builder.Add("model.norm.weight", {h}, "final_norm.weight", h);
      break;
  }
  if (!model.head_is_tied()) builder.Add("lm_head.weight", {v, h}, "head.weight", v);
  return builder.Take();
}

std::vector<StoredLayout> LlmcLayout(const ModelSpec& model) {
  const int64_t h = model.hidden, f = model.ffn_hidden;
  LayoutBuilder builder(model);
  builder.Add("wte", {model.padded_vocab(), h}, "embedding.token.weight", model.vocab_size);
  builder.Add("wpe", {model.sequence_length, h}, "embedding.position.weight",
              model.sequence_length);
  const auto each = [&](const char* name, const std::vector<int64_t>& shape,
                        const char* parameter) {
    for (int layer = 0; layer < model.layers; ++layer) {
      std::string ours = absl::StrCat("layers.", layer, ".", parameter);
      builder.Add(absl::StrCat(name, ".", layer), shape, std::move(ours), shape[0]);
    }
  };
  const auto each_heads = [&](const char* name, const std::vector<int64_t>& shape,
                              const char* parameter) {
    for (int layer = 0; layer < model.layers; ++layer) {
      builder.AddHeads(absl::StrCat(name, ".", layer), shape,
                       absl::StrCat("layers.", layer, ".", parameter), {0, 1, 2});
    }
  };
  each("ln1w", {h}, "ln1.weight");
  each("ln1b", {h}, "ln1.bias");
  each_heads("qkvw", {3 * h, h}, "attention.qkv.weight");
  each_heads("qkvb", {3 * h}, "attention.qkv.bias");
  each("attprojw", {h, h}, "attention.proj.weight");
  each("attprojb", {h}, "attention.proj.bias");
  each("ln2w", {h}, "ln2.weight");
  each("ln2b", {h}, "ln2.bias");
  each("fcw", {f, h}, "mlp.fc1.weight");
  each("fcb", {f}, "mlp.fc1.bias");
  each("fcprojw", {h, f}, "mlp.fc2.weight");
  each("fcprojb", {h}, "mlp.fc2.bias");
  builder.Add("lnfw", {h}, "final_norm.weight", h);
  builder.Add("lnfb", {h}, "final_norm.bias", h);
  return builder.Take();
}

}  // namespace stretto
