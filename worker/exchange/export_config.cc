// SPDX-License-Identifier: Apache-2.0

// Writes config.json and generation_config.json in the keys of `transformers`. The ids of special
// tokens are found by their text in tokenizer_config.json, and that text's number in the other
// files of the tokenizer.

#include "worker/exchange/export_config.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "proto/base/files.h"
#include "worker/exchange/stored_layout.h"

namespace stretto {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Returns only member `keep` of the outermost object of a JSON file, because a tokenizer's
// vocabulary is large; all members if `keep` is empty. Returns a discarded value if the file is not
// JSON: files that are only copied may have any content.
json ReadMember(const std::string& path, const std::string& keep) {
  const auto text = ReadFile(path);
  if (!text.ok()) return json(json::value_t::discarded);
  const auto filter = [&](int depth, json::parse_event_t event, json& value) {
    return depth != 1 || event != json::parse_event_t::key || keep.empty() || value == keep;
  };
  return json::parse(text->begin(), text->end(), filter, /*allow_exceptions=*/false);
}

// "eos_token": "</s>" or {"content": "</s>", ...}
std::string TokenText(const json& config, const char* key) {
  if (!config.is_object() || !config.contains(key)) return "";
  const json& value = config[key];
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string()) {
    return value["content"].get<std::string>();
  }
  return "";
}

// Returns every token for which one of the files gives a number.
std::map<std::string, int64_t> NumberedTokens(const std::map<std::string, std::string>& paths,
                                              const json& config) {
  std::map<std::string, int64_t> ids;
  const auto file = [&](const char* name, const std::string& keep) {
    const auto path = paths.find(name);
    return path == paths.end() ? json() : ReadMember(path->second, keep);
  };
  for (const json& vocabulary : {file("vocab.json", ""), file("added_tokens.json", "")}) {
    if (!vocabulary.is_object()) continue;
    for (const auto& token : vocabulary.items()) {
      if (token.value().is_number_integer()) ids[token.key()] = token.value().get<int64_t>();
    }
  }
  const json added = file("tokenizer.json", "added_tokens");
  if (added.is_object() && added.contains("added_tokens") && added["added_tokens"].is_array()) {
    for (const json& token : added["added_tokens"]) {
      const std::string text = TokenText(json{{"token", token}}, "token");
      if (token.is_object() && token.contains("id") && token["id"].is_number_integer()) {
        ids[text] = token["id"].get<int64_t>();
      }
    }
  }
  if (config.is_object() && config.contains("added_tokens_decoder") &&
      config["added_tokens_decoder"].is_object()) {
    for (const auto& token : config["added_tokens_decoder"].items()) {
      const std::string& number = token.key();
      if (number.empty() || number.size() > 9 ||
          number.find_first_not_of("0123456789") != std::string::npos) {
        continue;
      }
      ids[TokenText(json{{"token", token.value()}}, "token")] = std::stoll(number);
    }
  }
  return ids;
}

ordered_json OrNull(const std::optional<int64_t>& id) {
  return id ? ordered_json(*id) : ordered_json(nullptr);
}

const char* TorchName(absl::string_view dtype) {
  return dtype == "BF16" ? "bfloat16" : dtype == "F16" ? "float16" : "float32";
}

// Writes fields of a model under the keys that its family has for them.
class ModelKeys {
 public:
  ModelKeys(Family family, ordered_json* object) : family_(family), object_(*object) {}

  template <class T>
  void Set(absl::string_view field, const T& value) {
    object_[HfKey(family_, field)] = value;
  }

 private:
  const Family family_;
  ordered_json& object_;
};

void AddGptKeys(const ModelSpec& model, ordered_json* config) {
  ModelKeys keys(Family::kGpt, config);
  keys.Set("vocab_size", model.vocab_size);
  keys.Set("sequence_length", model.sequence_length);
  (*config)["n_ctx"] = model.sequence_length;
  keys.Set("hidden", model.hidden);
  keys.Set("layers", model.layers);
  keys.Set("heads", model.heads);
  keys.Set("ffn_hidden", model.ffn_hidden);
  (*config)["activation_function"] = "gelu_new";
  keys.Set("norm_epsilon", model.norm_epsilon);
  for (const char* dropout : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) (*config)[dropout] = 0.0;
  (*config)["scale_attn_weights"] = true;
  (*config)["scale_attn_by_inverse_layer_idx"] = false;
  (*config)["reorder_and_upcast_attn"] = false;
  (*config)["add_cross_attention"] = false;
}

ordered_json RopeScaling(const RotaryScaling& scaling) {
  ordered_json rope;
  ModelKeys keys(Family::kLlama, &rope);
  switch (scaling.kind) {
    case RotaryScaling::Kind::kNone:
      return nullptr;
    case RotaryScaling::Kind::kLinear:
    case RotaryScaling::Kind::kLlama3:
      keys.Set("rotary_scaling.kind", NameOf(scaling.kind));
      keys.Set("rotary_scaling.factor", scaling.factor);
      break;
  }
  if (scaling.kind == RotaryScaling::Kind::kLlama3) {
    keys.Set("rotary_scaling.low_frequency_factor", scaling.low_frequency_factor);
    keys.Set("rotary_scaling.high_frequency_factor", scaling.high_frequency_factor);
    keys.Set("rotary_scaling.original_sequence_length", scaling.original_sequence_length);
  }
  return rope;
}

void AddLlamaKeys(const ModelSpec& model, ordered_json* config) {
  ModelKeys keys(Family::kLlama, config);
  keys.Set("vocab_size", model.vocab_size);
  keys.Set("sequence_length", model.sequence_length);
  keys.Set("hidden", model.hidden);
  keys.Set("ffn_hidden", model.ffn_hidden);
  keys.Set("layers", model.layers);
  keys.Set("heads", model.heads);
  keys.Set("kv_heads", model.key_heads());
  (*config)["head_dim"] = model.head_dim();
  (*config)["hidden_act"] = "silu";
  keys.Set("norm_epsilon", model.norm_epsilon);
  (*config)["attention_bias"] = false;
  (*config)["attention_dropout"] = 0.0;
  (*config)["mlp_bias"] = false;
  // transformers 5 moves both to its rope_parameters.
  keys.Set("rotary_base", static_cast<double>(model.rotary_base));
  keys.Set("rotary_scaling", RopeScaling(model.rotary_scaling));
}

}  // namespace

SpecialTokens SpecialTokensOf(const std::vector<std::string>& tokenizer_files, int vocab_size) {
  std::map<std::string, std::string> paths;
  for (const std::string& path : tokenizer_files) {
    paths[std::filesystem::path(path).filename().string()] = path;
  }
  const auto path = paths.find("tokenizer_config.json");
  if (path == paths.end()) return {};
  const json config = ReadMember(path->second, "");
  const std::map<std::string, int64_t> ids = NumberedTokens(paths, config);
  const auto find = [&](const char* key) -> std::optional<int64_t> {
    const std::string text = TokenText(config, key);
    const auto id = ids.find(text);
    if (text.empty() || id == ids.end()) return std::nullopt;
    if (id->second < 0 || id->second >= vocab_size) return std::nullopt;
    return id->second;
  };
  return {.bos = find("bos_token"), .eos = find("eos_token")};
}

std::string HfConfigText(const ModelSpec& model, absl::string_view dtype,
                         const SpecialTokens& tokens) {
  const HfFamily& hf = HfFamilyOf(model.architecture.family);
  ordered_json config;
  config["architectures"] = {hf.architecture};
  config["model_type"] = hf.model_type;
  switch (hf.family) {
    case Family::kGpt:
      AddGptKeys(model, &config);
      break;
    case Family::kLlama:
      AddLlamaKeys(model, &config);
      break;
  }
  config["initializer_range"] = 0.02;
  config[HfKey(hf.family, "tied_head")] = model.head_is_tied();
  config["torch_dtype"] = TorchName(dtype);
  config["use_cache"] = true;
  // Also written if unknown, because the defaults of `transformers` belong to other vocabularies.
  config["bos_token_id"] = OrNull(tokens.bos);
  config["eos_token_id"] = OrNull(tokens.eos);
  return config.dump(2) + "\n";
}

std::string GenerationConfigText(const SpecialTokens& tokens) {
  ordered_json config;
  if (tokens.bos) config["bos_token_id"] = *tokens.bos;
  if (tokens.eos) config["eos_token_id"] = *tokens.eos;
  return config.empty() ? "" : config.dump(2) + "\n";
}

}  // namespace stretto
