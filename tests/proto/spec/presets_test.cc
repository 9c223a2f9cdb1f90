// SPDX-License-Identifier: Apache-2.0
#include "proto/spec/presets.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace stretto {
namespace {

// Weights, norms and biases left out, of the whole model.
double BillionParameters(const ModelPreset& p) {
  const Architecture& architecture = ArchitectureOf(p.family);
  const bool learned = architecture.positions == PositionKind::kLearned;
  const int64_t h = p.hidden, kv = h / p.heads * p.kv_heads;
  const int64_t mlp = (IsGated(architecture.activation) ? 3 : 2) * h * p.ffn_hidden;
  const int64_t layer = 2 * h * h + 2 * h * kv + mlp;
  const int64_t ends =
      ((architecture.tied_head ? 1 : 2) * p.vocab_size + (learned ? p.sequence_length : 0)) * h;
  return static_cast<double>(p.layers * layer + ends) * 1e-9;
}

TEST(PresetsTest, AreFoundByTheirNamesAlone) {
  std::set<std::string> names;
  for (const ModelPreset& preset : kModelPresets) {
    EXPECT_EQ(FindPreset(preset.name), &preset);
    EXPECT_TRUE(names.insert(preset.name).second) << preset.name;
  }
  EXPECT_EQ(FindPreset("gpt3"), nullptr);
  EXPECT_EQ(FindPreset(""), nullptr);
}

TEST(PresetsTest, DimensionsDivide) {
  for (const ModelPreset& preset : kModelPresets) {
    SCOPED_TRACE(preset.name);
    EXPECT_EQ(preset.hidden % preset.heads, 0);
    EXPECT_EQ(preset.heads % preset.kv_heads, 0);
    // Two ranks are the least that hide anything.
    EXPECT_EQ(preset.kv_heads % 2, 0);
    EXPECT_EQ(preset.ffn_hidden % 2, 0);
    const Architecture& architecture = ArchitectureOf(preset.family);
    const bool rotary = architecture.positions == PositionKind::kRotary;
    EXPECT_EQ(rotary, preset.rotary_base > 0);
    if (rotary) {
      EXPECT_EQ(preset.hidden / preset.heads % 2, 0);
    }
    // Published gated models choose widths of their own.
    if (!IsGated(architecture.activation)) {
      EXPECT_EQ(preset.ffn_hidden, DefaultFfnHidden(architecture, preset.hidden));
    }
  }
}

// The names promise a size; papers round, and count the ends of a model or not.
TEST(PresetsTest, ParametersAreWhatTheNameSays) {
  const std::map<std::string, double> published = {
      {"gpt-10m", 0.0108},   {"gpt3-125m", 0.125},  {"gpt3-350m", 0.356},  {"gpt3-760m", 0.760},
      {"gpt3-1.3b", 1.3},    {"gpt3-2.7b", 2.65},   {"gpt3-6.7b", 6.66},   {"gpt3-13b", 12.85},
      {"gpt3-30b", 29.3},    {"gpt3-175b", 174.6},  {"llama-10m", 0.0096}, {"llama2-7b", 6.74},
      {"llama2-13b", 13.02}, {"llama2-70b", 68.98}, {"llama3-8b", 8.03},   {"llama3-70b", 70.6},
  };
  for (const auto& [name, billions] : published) {
    const ModelPreset* preset = FindPreset(name.c_str());
    ASSERT_NE(preset, nullptr) << name;
    EXPECT_NEAR(BillionParameters(*preset) / billions, 1, 0.02) << name;
  }
}

}  // namespace
}  // namespace stretto
