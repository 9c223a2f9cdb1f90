// SPDX-License-Identifier: Apache-2.0

// Reads each key with its default and the range that we support. ConfigObject keeps the first
// error, so that reading needs no checks in between. Keys that would change the computation in a
// way that we lack are refused.

#include "worker/exchange/hf_config.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "proto/spec/fields.h"
#include "worker/checkpoint/strict_json.h"
#include "worker/exchange/model_limits.h"
#include "worker/exchange/stored_layout.h"

namespace stretto {
namespace {

using nlohmann::json;

std::string Shortened(const json& value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

// Reads the relevant keys of an object. As in Python, a key that is null counts as absent. Keeps
// the first error.
class ConfigObject {
 public:
  // Borrows `object`. `prefix` precedes keys in errors: "rope_scaling.".
  ConfigObject(const json& object, std::string path, std::string prefix)
      : object_(object), path_(std::move(path)), prefix_(std::move(prefix)) {}

  // Returns null if the key is absent.
  const json* Find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  int Whole(const char* key, int64_t most, std::optional<int> otherwise = std::nullopt) {
    const std::string expected = absl::StrCat("a whole number, 1 to ", most);
    const json* value = Take(key, otherwise.has_value(), expected);
    if (value == nullptr) return otherwise.value_or(1);
    // Some releases write an integer as 10000.0.
    const double number = value->is_number() ? value->get<double>() : 0;
    if (number >= 1 && number <= static_cast<double>(most) && number == std::floor(number)) {
      return static_cast<int>(number);
    }
    Fail(key, Shortened(*value), expected);
    return 1;
  }

  // Returns a number in (above, most].
  double Number(const char* key, double above, double most,
                std::optional<double> otherwise = std::nullopt) {
    const std::string expected = absl::StrCat("a number above ", above, ", at most ", most);
    const json* value = Take(key, otherwise.has_value(), expected);
    if (value == nullptr) return otherwise.value_or(most);
    const double number = value->is_number() ? value->get<double>() : above;
    if (number > above && number <= most) return number;
    Fail(key, Shortened(*value), expected);
    return most;
  }

  bool Flag(const char* key, bool otherwise) {
    const json* value = Find(key);
    if (value == nullptr) return otherwise;
    if (value->is_boolean()) return value->get<bool>();
    Fail(key, Shortened(*value), "true or false");
    return otherwise;
  }

  std::string Text(const char* key, const char* otherwise) {
    const json* value = Find(key);
    if (value == nullptr) return otherwise;
    if (value->is_string()) return value->get<std::string>();
    Fail(key, Shortened(*value), "text");
    return otherwise;
  }

  // Refuses any other value; the key may be absent.
  void MustBe(const char* key, const json& expected) {
    const json* value = Find(key);
    if (value != nullptr && *value != expected) Fail(key, Shortened(*value), expected.dump());
  }

  void MustBeOneOf(const char* key, absl::string_view found, const std::vector<std::string>& known,
                   absl::string_view expected) {
    for (const std::string& one : known) {
      if (found == one) return;
    }
    Fail(key, Shortened(std::string(found)), expected);
  }

  void Fail(const char* key, absl::string_view found, absl::string_view expected) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(
        absl::StrCat(path_, ": ", prefix_, key, ": found ", found, ", expected ", expected));
  }

  const absl::Status& status() const { return status_; }

 private:
  const json* Take(const char* key, bool optional, absl::string_view expected) {
    const json* value = Find(key);
    if (value == nullptr && !optional) Fail(key, "nothing", expected);
    return value;
  }

  const json& object_;
  const std::string path_;
  const std::string prefix_;
  absl::Status status_;
};

// Checks keys that apply to any model. A model with its own code need not be what its type claims.
void CheckCommon(ConfigObject* config) {
  if (const json* value = config->Find("quantization_config")) {
    config->Fail("quantization_config", Shortened(*value), "none: weights in F32, BF16 or F16");
  }
  const json* own_code = config->Find("auto_map");
  if (own_code != nullptr && own_code->contains("AutoModelForCausalLM")) {
    config->Fail("auto_map.AutoModelForCausalLM", Shortened((*own_code)["AutoModelForCausalLM"]),
                 "none: a model without code of its own");
  }
  config->MustBe("is_encoder_decoder", false);
  config->MustBe("add_cross_attention", false);
}

void CheckHeads(ConfigObject* config, const char* key, const ModelSpec& model) {
  if (model.hidden % model.heads == 0) return;
  config->Fail(key, absl::StrCat(model.heads),
               absl::StrCat("a divisor of the hidden size ", model.hidden));
}

const char* Gpt2Key(const char* field) { return HfKey(Family::kGpt, field); }
const char* LlamaKey(const char* field) { return HfKey(Family::kLlama, field); }

ModelSpec GptFrom(ConfigObject* config) {
  ModelSpec model{.architecture = ArchitectureOf(Family::kGpt)};
  model.hidden = config->Whole(Gpt2Key("hidden"), MaxOf("hidden"));
  model.layers = config->Whole(Gpt2Key("layers"), MaxOf("layers"));
  model.heads = config->Whole(Gpt2Key("heads"), kMaxForeignHeads);
  CheckHeads(config, Gpt2Key("heads"), model);
  model.ffn_hidden = config->Whole(Gpt2Key("ffn_hidden"), MaxOf("ffn_hidden"), 4 * model.hidden);
  model.sequence_length = config->Whole(Gpt2Key("sequence_length"), MaxOf("sequence_length"));
  model.vocab_size = config->Whole(Gpt2Key("vocab_size"), MaxOf("vocab_size"));
  model.norm_epsilon = config->Number(Gpt2Key("norm_epsilon"), 0, 1, 1e-5);
  model.tied_head = config->Flag(Gpt2Key("tied_head"), true);
  // Two names of one formula.
  config->MustBeOneOf("activation_function", config->Text("activation_function", "gelu_new"),
                      {"gelu_new", "gelu_pytorch_tanh"}, "\"gelu_new\" (GELU by tanh)");
  config->MustBe("scale_attn_weights", true);
  // reorder_and_upcast_attn changes only the order of rounding.
  config->MustBe("scale_attn_by_inverse_layer_idx", false);
  config->MustBe("pruned_heads", json::object());
  return model;
}

// Like transformers, takes the original length from the outer object if it is there.
void ReadLlama3(ConfigObject* top, ConfigObject* rope, ModelSpec* model) {
  const char* const low = LlamaKey("rotary_scaling.low_frequency_factor");
  const char* const high = LlamaKey("rotary_scaling.high_frequency_factor");
  const char* const length = LlamaKey("rotary_scaling.original_sequence_length");
  RotaryScaling& scaling = model->rotary_scaling;
  scaling.kind = RotaryScaling::Kind::kLlama3;
  scaling.low_frequency_factor = rope->Number(low, 0, 1e6);
  scaling.high_frequency_factor = rope->Number(high, 0, 1e6);
  scaling.original_sequence_length =
      (top->Find(length) != nullptr ? top : rope)
          ->Whole(length, MaxOf("sequence_length"), model->sequence_length);
  if (scaling.high_frequency_factor <= scaling.low_frequency_factor) {
    rope->Fail(high, absl::StrCat(scaling.high_frequency_factor),
               absl::StrCat("more than ", low, " ", scaling.low_frequency_factor));
  }
}

// Like transformers 5, prefers the older key if both are present.
absl::Status ReadRotary(const std::string& path, ConfigObject* top, ModelSpec* model) {
  model->rotary_base =
      top->Whole(LlamaKey("rotary_base"), MaxOf("rotary_base"), model->rotary_base);
  top->MustBe("partial_rotary_factor", 1.0);
  const char* key = LlamaKey("rotary_scaling");
  const json* found = top->Find(key);
  if (found == nullptr || found->empty()) found = top->Find(key = "rope_parameters");
  if (found == nullptr) return top->status();
  if (!found->is_object()) {
    top->Fail(key, Shortened(*found), "an object or null");
    return top->status();
  }
  ConfigObject rope(*found, path, absl::StrCat(key, "."));
  for (const auto& [name, value] : found->items()) {
    if (value.is_object()) rope.Fail(name.c_str(), Shortened(value), "the same for all layers");
  }
  model->rotary_base =
      rope.Whole(LlamaKey("rotary_base"), MaxOf("rotary_base"), model->rotary_base);
  rope.MustBe("partial_rotary_factor", 1.0);
  const char* type_key = LlamaKey("rotary_scaling.kind");
  if (rope.Find(type_key) == nullptr) type_key = "type";  // as older releases wrote it
  const std::string type = rope.Text(type_key, "default");
  rope.MustBeOneOf(type_key, type, {"default", "linear", "llama3"},
                   "\"default\", \"linear\" or \"llama3\"");
  if (type != "default") {
    const char* const factor = LlamaKey("rotary_scaling.factor");
    model->rotary_scaling.kind = RotaryScaling::Kind::kLinear;
    model->rotary_scaling.factor =
        rope.Number(factor, 0, static_cast<double>(MaxOf("rotary_scaling.factor")));
    if (model->rotary_scaling.factor < 1) {
      rope.Fail(factor, absl::StrCat(model->rotary_scaling.factor), "at least 1");
    }
  }
  if (type == "llama3") ReadLlama3(top, &rope, model);
  RETURN_IF_ERROR(rope.status());
  return top->status();
}

absl::StatusOr<ModelSpec> LlamaFrom(ConfigObject* config, const std::string& path) {
  ModelSpec model{.architecture = ArchitectureOf(Family::kLlama)};
  model.hidden = config->Whole(LlamaKey("hidden"), MaxOf("hidden"));
  model.layers = config->Whole(LlamaKey("layers"), MaxOf("layers"));
  model.heads = config->Whole(LlamaKey("heads"), kMaxForeignHeads);
  CheckHeads(config, LlamaKey("heads"), model);
  model.kv_heads = config->Whole(LlamaKey("kv_heads"), kMaxForeignHeads, model.heads);
  model.ffn_hidden = config->Whole(LlamaKey("ffn_hidden"), MaxOf("ffn_hidden"));
  model.sequence_length = config->Whole(LlamaKey("sequence_length"), MaxOf("sequence_length"));
  model.vocab_size = config->Whole(LlamaKey("vocab_size"), MaxOf("vocab_size"));
  model.norm_epsilon = config->Number(LlamaKey("norm_epsilon"), 0, 1, 1e-6);
  model.tied_head = config->Flag(LlamaKey("tied_head"), false);
  config->MustBeOneOf("hidden_act", config->Text("hidden_act", "silu"), {"silu", "swish"},
                      "\"silu\"");
  config->MustBe("attention_bias", false);
  config->MustBe("mlp_bias", false);
  if (const json* value = config->Find("sliding_window")) {
    config->Fail("sliding_window", Shortened(*value), "none: attention to all before");
  }
  RETURN_IF_ERROR(config->status());
  if (model.heads % model.kv_heads != 0) {
    config->Fail(LlamaKey("kv_heads"), absl::StrCat(model.kv_heads),
                 absl::StrCat("a divisor of num_attention_heads ", model.heads));
  }
  if (model.head_dim() % 2 != 0) {
    config->Fail(LlamaKey("heads"), absl::StrCat(model.heads),
                 absl::StrCat("heads of an even dimension, not ", model.head_dim()));
  }
  // pretraining_tp only divides the products; their sum is the same.
  config->MustBe("head_dim", model.head_dim());
  RETURN_IF_ERROR(config->status());
  RETURN_IF_ERROR(ReadRotary(path, config, &model));
  return model;
}

Family FamilyFrom(ConfigObject* config) {
  const std::string type = config->Text("model_type", "");
  std::vector<std::string> known, quoted;
  for (const Architecture& architecture : kArchitectures) {
    known.push_back(HfFamilyOf(architecture.family).model_type);
    if (type == known.back()) return architecture.family;
    quoted.push_back(absl::StrCat("\"", known.back(), "\""));
  }
  config->MustBeOneOf("model_type", type, known, absl::StrJoin(quoted, " or "));
  return kDefaultFamily;
}

absl::StatusOr<ModelSpec> ModelFrom(Family family, ConfigObject* config, const std::string& path) {
  switch (family) {
    case Family::kGpt:
      return GptFrom(config);
    case Family::kLlama:
      return LlamaFrom(config, path);
  }
  STRETTO_CHECK(false);
}

}  // namespace

absl::StatusOr<ModelSpec> ParseHfConfig(absl::string_view text, const std::string& path) {
  ASSIGN_OR_RETURN(const json document, ParseStrictJson(text, path));
  if (!document.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": found ", document.type_name(), ", expected an object"));
  }
  ConfigObject config(document, path, "");
  const Family family = FamilyFrom(&config);
  CheckCommon(&config);
  RETURN_IF_ERROR(config.status());
  ASSIGN_OR_RETURN(const ModelSpec model, ModelFrom(family, &config, path));
  RETURN_IF_ERROR(config.status());
  RETURN_IF_ERROR(CheckModel(model, path));
  return model;
}

}  // namespace stretto
