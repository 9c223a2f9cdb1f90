#include "tests/kernels/testing.h"

namespace stretto {
namespace {

using RotaryTest = OpsTest;
STRETTO_ALL_MODES(RotaryTest);

constexpr AttentionShape kShape{
    .sequence_length = 5, .heads = 6, .kv_heads = 2, .head_dim = 6, .first_head = 0};
constexpr int64_t kBase = 10000, kRows = 2 * kShape.sequence_length;

Doubles Reference(const Doubles& qkv, size_t length) {
  const auto d = static_cast<size_t>(kShape.head_dim), half = d / 2;
  Doubles out = qkv;
  for (size_t at = 0; at < qkv.size(); at += d) {  // every head of every row
    const size_t row = at / static_cast<size_t>(kShape.qkv_columns());
    if (at / d % 5 == 4) continue;  // three queries and a key, then a value
    for (size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(row % length) *
                           std::pow(kBase, -2.0 * static_cast<double>(i) / static_cast<double>(d));
      out[at + i] = qkv[at + i] * std::cos(angle) - qkv[at + i + half] * std::sin(angle);
      out[at + i + half] = qkv[at + i + half] * std::cos(angle) + qkv[at + i] * std::sin(angle);
    }
  }
  return out;
}

TEST_P(RotaryTest, TurnsQueriesAndKeysByTheirPosition) {
  Tensor qkv = Of(kRows, kShape.qkv_columns()).Fill(1);
  const Doubles want = Reference(qkv.doubles(), 5);
  ops_->Rotary(kShape, kBase, false, qkv.view());
  ExpectNear(qkv, want);
}

TEST_P(RotaryTest, InverseMatchesFiniteDifferences) {
  Tensor qkv = Of(kRows, kShape.qkv_columns()).Fill(1);
  Tensor gradient = Of(kRows, kShape.qkv_columns()).Fill(2);
  Doubles values = qkv.doubles();
  const Doubles dys = gradient.doubles();
  const Doubles want = Differences([&] { return Dot(Reference(values, 5), dys); }, &values);
  ops_->Rotary(kShape, kBase, true, gradient.view());
  ExpectNear(gradient, want);
}

// The table of turns is kept between calls.
TEST_P(RotaryTest, AnotherShapeOrBaseTurnsByItsOwnAngles) {
  Tensor first = Of(kRows, kShape.qkv_columns()).Fill(1), again = first, other = first;
  ops_->Rotary(kShape, kBase, false, first.view());
  ops_->Rotary(kShape, 500000, false, other.view());
  ops_->Rotary(kShape, kBase, false, again.view());
  EXPECT_EQ(first.bytes(), again.bytes());
  EXPECT_NE(first.bytes(), other.bytes());

  AttentionShape longer = kShape;
  longer.sequence_length = kRows;
  Tensor one = Of(kRows, kShape.qkv_columns()).Fill(1);
  const Doubles want = Reference(one.doubles(), kRows);
  ops_->Rotary(longer, kBase, false, one.view());
  ExpectNear(one, want);
}

}  // namespace
}  // namespace stretto
