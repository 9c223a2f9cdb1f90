// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/testing.h"

namespace stretto {
namespace {

using RotaryTest = OpsTest;
STRETTO_ALL_MODES(RotaryTest);

constexpr AttentionShape kRotatedShape{
    .sequence_length = 5, .heads = 6, .kv_heads = 2, .head_dim = 6, .first_head = 0};
constexpr int64_t kRotatedRows = 2 * kRotatedShape.sequence_length;
constexpr RotarySpeed kSpeed{.base = 10000};

Doubles Reference(const Doubles& qkv, size_t length, double slower = 1) {
  const auto d = static_cast<size_t>(kRotatedShape.head_dim), half = d / 2;
  Doubles out = qkv;
  for (size_t at = 0; at < qkv.size(); at += d) {  // every head of every row
    const size_t row = at / static_cast<size_t>(kRotatedShape.qkv_columns());
    if (at / d % 5 == 4) continue;  // three queries and a key, then a value
    for (size_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(row % length) *
          std::pow(kSpeed.base, -2.0 * static_cast<double>(i) / static_cast<double>(d)) / slower;
      out[at + i] = qkv[at + i] * std::cos(angle) - qkv[at + i + half] * std::sin(angle);
      out[at + i + half] = qkv[at + i + half] * std::cos(angle) + qkv[at + i] * std::sin(angle);
    }
  }
  return out;
}

// Llama 3.2 1B, heads of 64: from transformers 5.23, ROPE_INIT_FUNCTIONS["llama3"], in f32.
TEST(RotaryFrequencyTest, IsThatOfLlama3) {
  const RotarySpeed speed{.base = 500000,
                          .scaling = {.kind = RotaryScaling::Kind::kLlama3,
                                      .factor = 32,
                                      .low_frequency_factor = 1,
                                      .high_frequency_factor = 4,
                                      .original_sequence_length = 8192}};
  const double want[] = {1,
                         0.663601279,
                         0.440366626,
                         0.292227834,
                         0.193922758,
                         0.128687382,
                         0.0853971019,
                         0.0566696189,
                         0.0376060307,
                         0.0249554086,
                         0.0165604409,
                         0.0109895291,
                         0.00729266508,
                         0.00483942125,
                         0.00321144611,
                         0.00129054801,
                         0.000429556705,
                         9.70828623e-05,
                         1.94616387e-05,
                         1.29147675e-05,
                         8.57025589e-06,
                         5.68723226e-06,
                         3.77405445e-06,
                         2.50446715e-06,
                         1.66196742e-06,
                         1.10288363e-06,
                         7.31874934e-07,
                         4.85673127e-07,
                         3.22293289e-07,
                         2.1387423e-07,
                         1.41927202e-07,
                         9.41830649e-08};
  for (int64_t i = 0; i < 32; ++i)
    EXPECT_NEAR(RotaryFrequency(speed, i, 32) / want[i], 1, 2e-6) << i;
}

TEST_P(RotaryTest, TurnsQueriesAndKeysByTheirPosition) {
  Tensor qkv = Of(kRotatedRows, kRotatedShape.qkv_columns()).Fill(1);
  const Doubles want = Reference(qkv.doubles(), 5);
  ops_->Rotary(kRotatedShape, kSpeed, false, qkv.view());
  ExpectNear(qkv, want);
}

TEST_P(RotaryTest, InverseMatchesFiniteDifferences) {
  Tensor qkv = Of(kRotatedRows, kRotatedShape.qkv_columns()).Fill(1);
  Tensor gradient = Of(kRotatedRows, kRotatedShape.qkv_columns()).Fill(2);
  Doubles values = qkv.doubles();
  const Doubles dys = gradient.doubles();
  const Doubles want = Differences([&] { return Dot(Reference(values, 5), dys); }, &values);
  ops_->Rotary(kRotatedShape, kSpeed, true, gradient.view());
  ExpectNear(gradient, want);
}

TEST_P(RotaryTest, LinearScalingTurnsAsManyTimesSlower) {
  Tensor qkv = Of(kRotatedRows, kRotatedShape.qkv_columns()).Fill(1);
  const Doubles want = Reference(qkv.doubles(), 5, 2.5);
  ops_->Rotary(
      kRotatedShape,
      {.base = kSpeed.base, .scaling = {.kind = RotaryScaling::Kind::kLinear, .factor = 2.5}},
      false, qkv.view());
  ExpectNear(qkv, want);
}

// The table of turns is kept between calls.
TEST_P(RotaryTest, AnotherShapeOrBaseTurnsByItsOwnAngles) {
  Tensor first = Of(kRotatedRows, kRotatedShape.qkv_columns()).Fill(1), again = first,
         other = first;
  ops_->Rotary(kRotatedShape, kSpeed, false, first.view());
  ops_->Rotary(kRotatedShape, {.base = 500000}, false, other.view());
  ops_->Rotary(kRotatedShape, kSpeed, false, again.view());
  EXPECT_EQ(first.bytes(), again.bytes());
  EXPECT_NE(first.bytes(), other.bytes());
  Tensor stretched = Of(kRotatedRows, kRotatedShape.qkv_columns()).Fill(1);
  RotarySpeed slow = kSpeed;
  slow.scaling = {.kind = RotaryScaling::Kind::kLinear, .factor = 2};
  ops_->Rotary(kRotatedShape, slow, false, stretched.view());
  EXPECT_NE(first.bytes(), stretched.bytes());

  AttentionShape longer = kRotatedShape;
  longer.sequence_length = kRotatedRows;
  Tensor one = Of(kRotatedRows, kRotatedShape.qkv_columns()).Fill(1);
  const Doubles want = Reference(one.doubles(), kRotatedRows);
  ops_->Rotary(longer, kSpeed, false, one.view());
  ExpectNear(one, want);
}

}  // namespace
}  // namespace stretto
