// SPDX-License-Identifier: Apache-2.0

// Products as cuBLASLt would compute them, by its definition of a column-major product, give what
// Ops defines.
#include "kernels/cuda/tuning/product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace stretto::cuda {
namespace {

using Floats = std::vector<float>;

// d = op(a) op(b) + bias + beta d, by the letter; f32.
void Compute(const ProductCall& call) {
  const Product& p = call.product;
  const auto* a = static_cast<const float*>(call.a);
  const auto* b = static_cast<const float*>(call.b);
  const auto* bias = static_cast<const float*>(call.bias);
  auto* d = static_cast<float*>(call.d);
  for (int64_t j = 0; j < p.n; ++j) {
    for (int64_t i = 0; i < p.m; ++i) {
      float sum = p.accumulate ? d[i + j * p.ldd] : 0;
      for (int64_t l = 0; l < p.k; ++l)
        sum += a[p.transpose_a ? l + i * p.lda : i + l * p.lda] *
               b[p.transpose_b ? j + l * p.ldb : l + j * p.ldb];
      d[i + j * p.ldd] = sum + (p.bias ? bias[i] : 0);
    }
  }
}

// Small integers, so that sums are exact in any order.
Floats Integers(int64_t count, int seed) {
  Floats values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>((i * 7 + seed * 13 + i * i % 5) % 9 - 4));
  return values;
}
Floats Poison(int64_t count) {
  return Floats(static_cast<size_t>(count), std::numeric_limits<float>::quiet_NaN());
}
TensorView View(Floats& values, int64_t columns) {
  return {.data = values.data(),
          .shape = {static_cast<int64_t>(values.size()) / columns, columns, 1, 1},
          .rank = 2};
}

constexpr int64_t kTokens = 5, kOut = 3, kIn = 4;

TEST(ProductTest, ForwardIsRowsTimesWeightTransposed) {
  Floats x = Integers(kTokens * kIn, 1), w = Integers(kOut * kIn, 2), bias = Integers(kOut, 3);
  for (const bool biased : {false, true}) {
    Floats y = Poison(kTokens * kOut);
    Compute(ForwardProduct(View(x, kIn), View(w, kIn), biased ? View(bias, kOut) : TensorView{},
                           View(y, kOut)));
    for (size_t r = 0; r < kTokens; ++r) {
      for (size_t c = 0; c < kOut; ++c) {
        float want = biased ? bias[c] : 0;
        for (size_t i = 0; i < kIn; ++i) want += x[r * kIn + i] * w[c * kIn + i];
        EXPECT_EQ(y[r * kOut + c], want) << r << "," << c;
      }
    }
  }
}

TEST(ProductTest, DgradIsRowsTimesARangeOfTheWeightsColumns) {
  Floats dy = Integers(kTokens * kOut, 1), w = Integers(kOut * kIn, 2);
  for (const auto& [first, width] :
       {std::pair<int64_t, int64_t>{0, kIn}, {0, 2}, {2, 2}, {1, 1}, {1, 3}}) {
    Floats dx = Poison(kTokens * width);
    Compute(DgradProduct(View(dy, kOut), View(w, kIn), first, View(dx, width)));
    for (int64_t r = 0; r < kTokens; ++r) {
      for (int64_t i = 0; i < width; ++i) {
        float want = 0;
        for (int64_t c = 0; c < kOut; ++c)
          want +=
              dy[static_cast<size_t>(r * kOut + c)] * w[static_cast<size_t>(c * kIn + first + i)];
        EXPECT_EQ(dx[static_cast<size_t>(r * width + i)], want) << first << ": " << r << "," << i;
      }
    }
  }
}

TEST(ProductTest, WgradAddsTheProductOverTokens) {
  Floats dy = Integers(kTokens * kOut, 1), x = Integers(kTokens * kIn, 2);
  const Floats start = Integers(kOut * kIn, 3);
  Floats dw = start;
  Compute(WgradProduct(View(dy, kOut), View(x, kIn), View(dw, kIn)));
  for (size_t c = 0; c < kOut; ++c) {
    for (size_t i = 0; i < kIn; ++i) {
      float want = start[c * kIn + i];
      for (size_t r = 0; r < kTokens; ++r) want += dy[r * kOut + c] * x[r * kIn + i];
      EXPECT_EQ(dw[c * kIn + i], want) << c << "," << i;
    }
  }
}

TEST(ProductTest, AlignmentIsWhatEveryAddressAndColumnKeeps) {
  alignas(16) static uint16_t memory[1024];
  const auto view = [](int at, int64_t rows, int64_t columns) {
    return TensorView{
        .data = memory + at, .dtype = DType::kBF16, .shape = {rows, columns, 1, 1}, .rank = 2};
  };
  const auto forward = [&](int at, int64_t out) {
    return ForwardProduct(view(at, 2, 16), view(64, out, 16), {}, view(512, 2, out))
        .product.alignment;
  };
  EXPECT_EQ(forward(0, 8), 16);
  EXPECT_EQ(forward(4, 8), 8);
  EXPECT_EQ(forward(0, 12), 8);
  EXPECT_EQ(forward(1, 12), 2);
  EXPECT_EQ(forward(0, 7), 2);
  EXPECT_EQ(DgradProduct(view(0, 2, 8), view(64, 8, 16), 3, view(512, 2, 8)).product.alignment, 2);
}

TEST(ProductTest, SlicesOfABatchDifferInTokensAlone) {
  Floats x = Integers(8 * kIn, 1), w = Integers(kOut * kIn, 2), y = Poison(8 * kOut);
  Product whole = ForwardProduct(View(x, kIn), View(w, kIn), {}, View(y, kOut)).product;
  Floats part_x(x.begin(), x.begin() + 3 * kIn), part_y = Poison(3 * kOut);
  Product part = ForwardProduct(View(part_x, kIn), View(w, kIn), {}, View(part_y, kOut)).product;
  EXPECT_NE(whole, part);
  whole.n = part.n = 0;
  EXPECT_EQ(whole, part);
}

TEST(ProductDeathTest, WrongShapesAndTypesAreOurBug) {
  Floats x(8), w(12), y(6);
  EXPECT_DEATH(ForwardProduct(View(x, 4), View(w, 3), {}, View(y, 3)), "CHECK failed: w.columns");
  EXPECT_DEATH(DgradProduct(View(y, 3), View(w, 4), 1, View(x, 4)), "CHECK failed: first_column");
  TensorView bf16 = View(x, 4);
  bf16.dtype = DType::kBF16;
  EXPECT_DEATH(WgradProduct(View(y, 3), View(x, 4), bf16), "CHECK failed");
}

}  // namespace
}  // namespace stretto::cuda
