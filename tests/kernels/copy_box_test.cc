// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "tests/kernels/testing.h"

namespace stretto {
namespace {

using CopyBoxTest = OpsTest;
STRETTO_ALL_MODES(CopyBoxTest);

TensorView Shaped(Tensor& tensor, const std::array<int64_t, 4>& shape) {
  TensorView view = tensor.view();
  view.shape = shape;
  view.rank = 4;
  return view;
}

TEST_P(CopyBoxTest, MovesTheBoxAndNothingElse) {
  const std::array<int64_t, 4> from = {3, 5, 4, 33}, to = {2, 6, 7, 40};
  const BoxCopy box = {.from = {1, 2, 0, 3}, .to = {0, 3, 4, 8}, .extents = {2, 3, 3, 29}};
  for (const DType dtype : {GetParam().dtype, DType::kI32}) {
    Tensor x(dtype, 3 * 5, 4 * 33), y(dtype, 2 * 6, 7 * 40);
    for (int64_t i = 0; i < x.count(); ++i) x.Set(i, static_cast<double>(i % 251));
    for (int64_t i = 0; i < y.count(); ++i) y.Set(i, -1);
    ops_->CopyBox(Shaped(x, from), box, Shaped(y, to));
    for (int64_t i = 0; i < y.count(); ++i) {
      int64_t rest = i, source = 0, stride = 1;
      bool inside = true;
      for (size_t d = 4; d-- > 0; rest /= to[d]) {
        const int64_t at = rest % to[d] - box.to[d];
        inside = inside && at >= 0 && at < box.extents[d];
        source += (box.from[d] + at) * stride;
        stride *= from[d];
      }
      ASSERT_EQ(y.At(i), inside ? x.At(source) : -1) << i;
    }
  }
}

TEST_P(CopyBoxTest, ATensorOfOneDimensionIsOneRow) {
  Tensor x = Of(1, 8).Fill(1), y = Of(1, 8).Fill(2);
  const double kept = y.At(4);
  TensorView from = x.view(), to = y.view();
  from.shape = to.shape = {8, 1, 1, 1};
  from.rank = to.rank = 1;
  ops_->CopyBox(from, {.from = {2}, .to = {0}, .extents = {4, 1, 1, 1}}, to);
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(y.At(i), x.At(i + 2));
  EXPECT_EQ(y.At(4), kept);
}

}  // namespace
}  // namespace stretto
