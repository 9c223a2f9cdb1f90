// The rules for the model and its layout: sizes within bounds, a preset not contradicted, features
// that belong to the family, and a number of parameters that can be counted.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/service/spec_checks.h"
#include "coordinator/service/validate_request.h"

namespace stretto::service {
namespace {

constexpr int kMaxLayers = 256;
constexpr int kMaxHidden = 65536;
constexpr int kMaxFfnHidden = 1 << 20;
constexpr int kMaxSequence = 1 << 20;
constexpr int kMaxRotaryBase = 1'000'000'000;
constexpr double kMinFrequencyFactor = 1e-6, kMaxScaling = 1024;
constexpr double kMinEpsilon =
    1.2e-38;  // above it a float is no subnormal number, which may count as 0
constexpr int64_t kMaxParameters = 1'000'000'000'000;

std::string PresetNames() {
  return absl::StrJoin(kModelPresets, ", ", [](std::string* out, const ModelPreset& preset) {
    out->append(preset.name);
  });
}

bool CheckAgainstPreset(const v1alpha1::ModelSpec& model, Violations* violations) {
  const ModelPreset* preset = FindPreset(model.preset().c_str());
  if (!violations->Expect(preset != nullptr, "spec.model.preset", Quoted(model.preset()),
                          absl::StrCat("one of ", PresetNames(), ", or dimensions"))) {
    return false;
  }
  bool ok = true;
  const auto same = [&](const char* field, const auto& found, const auto& expected) {
    ok &= violations->Expect(found == expected, absl::StrCat("spec.model.", field), found,
                             absl::StrCat("nothing, because preset ", preset->name, " sets ",
                                          expected, " (a preset or dimensions, not both)"));
  };
  same("family", v1alpha1::Family_Name(model.family()), v1alpha1::Family_Name(FamilyOf(*preset)));
  same("layers", model.layers(), preset->layers);
  same("hidden", model.hidden(), preset->hidden);
  same("heads", model.heads(), preset->heads);
  same("kv_heads", model.kv_heads(), preset->kv_heads);
  same("ffn_hidden", model.ffn_hidden(), preset->ffn_hidden);
  same("vocab_size", model.vocab_size(), preset->vocab_size);
  same("rotary_base", model.rotary_base(), preset->rotary_base);
  return ok;
}

void CheckRotaryScaling(const v1alpha1::RotaryScaling& scaling, Violations* violations) {
  using v1alpha1::RotaryScaling;
  const auto path = [](const char* field) {
    return absl::StrCat("spec.model.rotary_scaling.", field);
  };
  const auto kind = scaling.kind();
  if (!violations->Expect(kind == RotaryScaling::LINEAR || kind == RotaryScaling::LLAMA3,
                          path("kind"), static_cast<int>(kind), "LINEAR or LLAMA3")) {
    return;
  }
  const double factor = scaling.factor();
  violations->Number(path("factor"), factor, factor >= 1 && factor <= kMaxScaling,
                     absl::StrCat("a number from 1 to ", kMaxScaling));
  const double low = scaling.low_frequency_factor(), high = scaling.high_frequency_factor();
  const int original = scaling.original_sequence_length();
  if (kind == RotaryScaling::LINEAR) {
    const absl::string_view nothing = "nothing, because LINEAR stretches all wavelengths alike";
    violations->Expect(!scaling.has_low_frequency_factor(), path("low_frequency_factor"), low,
                       nothing);
    violations->Expect(!scaling.has_high_frequency_factor(), path("high_frequency_factor"), high,
                       nothing);
    violations->Expect(original == 0, path("original_sequence_length"), original, nothing);
    return;
  }
  if (violations->Number(path("low_frequency_factor"), low, low >= kMinFrequencyFactor,
                         absl::StrCat("a number from ", kMinFrequencyFactor))) {
    violations->Number(
        path("high_frequency_factor"), high, high > low && high <= kMaxScaling,
        absl::StrCat("a number above low_frequency_factor ", low, ", at most ", kMaxScaling));
  }
  violations->InRange(path("original_sequence_length"), original, 1, kMaxSequence);
}

void CheckFamily(const v1alpha1::ModelSpec& model, Violations* violations) {
  const bool llama = model.family() == v1alpha1::FAMILY_LLAMA;
  if (!violations->Expect(llama || model.family() == v1alpha1::FAMILY_GPT, "spec.model.family",
                          static_cast<int>(model.family()), "FAMILY_GPT or FAMILY_LLAMA")) {
    return;
  }
  if (!llama) {
    violations->Expect(model.rotary_base() == 0, "spec.model.rotary_base", model.rotary_base(),
                       "nothing, because family gpt learns its positions");
    violations->Expect(!model.has_rotary_scaling(), "spec.model.rotary_scaling",
                       v1alpha1::RotaryScaling::Kind_Name(model.rotary_scaling().kind()),
                       "nothing, because family gpt learns its positions");
    return;
  }
  if (model.has_rotary_scaling()) CheckRotaryScaling(model.rotary_scaling(), violations);
  violations->InRange("spec.model.rotary_base", model.rotary_base(), 1, kMaxRotaryBase);
  const int head_dim = model.hidden() / model.heads();
  violations->Expect(
      head_dim % 2 == 0, "spec.model.heads", model.heads(),
      absl::StrCat("heads of an even dimension, which rotary positions need, not ", head_dim));
}

int64_t CountParameters(const v1alpha1::ModelSpec& model) {
  const bool llama = model.family() == v1alpha1::FAMILY_LLAMA;
  const int64_t hidden = model.hidden(), vocabulary = PaddedVocabulary(model.vocab_size());
  const int64_t keys = hidden / model.heads() * model.kv_heads();
  const int64_t layer =
      2 * hidden * (hidden + keys) + (llama ? 3 : 2) * hidden * model.ffn_hidden();
  const int64_t ends =
      (model.tied_head() ? 1 : 2) * vocabulary + (llama ? 0 : model.sequence_length());
  return model.layers() * layer + ends * hidden;
}

}  // namespace

void CheckModel(const v1alpha1::ModelSpec& model, Violations* violations) {
  if (!model.preset().empty()) {
    if (!CheckAgainstPreset(model, violations)) return;
  } else if (model.layers() == 0 && model.hidden() == 0 && model.heads() == 0) {
    violations->Require(false, "spec.model",
                        absl::StrCat("found neither preset nor dimensions, expected a preset (",
                                     PresetNames(), ") or layers, hidden, heads, ..."));
    return;
  }
  bool ok = violations->InRange("spec.model.layers", model.layers(), 1, kMaxLayers);
  ok &= violations->InRange("spec.model.hidden", model.hidden(), 1, kMaxHidden);
  ok &= violations->InRange("spec.model.heads", model.heads(), 1, kMaxHidden);
  ok &= violations->InRange("spec.model.ffn_hidden", model.ffn_hidden(), 1, kMaxFfnHidden);
  ok &= violations->InRange("spec.model.sequence_length", model.sequence_length(), 1, kMaxSequence);
  ok &= violations->InRange("spec.model.vocab_size", model.vocab_size(), 2, kMaxVocabulary);
  violations->Number("spec.model.dropout", model.dropout(),
                     model.dropout() >= 0 && model.dropout() < 1, "a number from 0 to below 1");
  const double epsilon = model.norm_epsilon();
  violations->Number("spec.model.norm_epsilon", epsilon, epsilon >= kMinEpsilon && epsilon <= 1,
                     absl::StrCat("a number from ", kMinEpsilon, " to 1"));
  if (!ok) return;
  const int heads = model.heads(), keys = model.kv_heads();
  ok = violations->Expect(model.hidden() % heads == 0, "spec.model.heads", heads,
                          absl::StrCat("a divisor of hidden ", model.hidden()));
  ok &= violations->Expect(keys >= 1 && heads % keys == 0, "spec.model.kv_heads", keys,
                           absl::StrCat("a divisor of heads ", heads));
  if (!ok) return;
  CheckFamily(model, violations);
  const int64_t parameters = CountParameters(model);
  violations->Expect(parameters <= kMaxParameters, "spec.model",
                     absl::StrCat("about ", parameters, " parameters"),
                     absl::StrCat("at most ", kMaxParameters));
}

void CheckParallelism(const v1alpha1::JobSpec& spec, Violations* violations) {
  const auto& sizes = spec.parallelism();
  const auto only_one = [&](const char* name, int found) {
    const std::string field = absl::StrCat("spec.parallelism.", name);
    if (!violations->Expect(found >= 1, field, found, "1")) return;
    violations->Expect(found == 1, field, found,
                       absl::StrCat("1: ", name, " above 1 is not implemented yet"));
  };
  only_one("pp_size", sizes.pp_size());
  only_one("dp_size", sizes.dp_size());
  only_one("ep_size", sizes.ep_size());
  only_one("cp_size", sizes.cp_size());
  const int tp = sizes.tp_size();
  const char* field = "spec.parallelism.tp_size";
  if (!violations->InRange(field, tp, 1, kMaxTpSize)) return;
  const auto divides = [&](const char* name, int total) {
    if (total < 1) return;  // refused where the model is checked
    violations->Expect(total % tp == 0, field, tp, absl::StrCat("a divisor of ", name, " ", total));
  };
  const bool shared = spec.model().kv_heads() != spec.model().heads();
  divides(shared ? "kv_heads" : "heads", spec.model().kv_heads());
  divides("ffn_hidden", spec.model().ffn_hidden());
  if (spec.model().vocab_size() <= kMaxVocabulary) {
    divides("the padded vocabulary", PaddedVocabulary(spec.model().vocab_size()));
  }
}

}  // namespace stretto::service
