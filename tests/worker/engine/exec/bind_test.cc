// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/bind.h"

#include <vector>

#include "gtest/gtest.h"

namespace stretto {
namespace {

// y = x + r, then the norm of y, of one row.
class BindPairTest : public ::testing::Test {
 protected:
  BindPairTest() {
    residual_.kind = OpKind::kBiasResidual;
    residual_.in = {0, 1, 2};
    residual_.out = {3};
    residual_.attributes = {0, 0, 0};
    norm_.kind = OpKind::kRmsNorm;
    norm_.in = {3, 4};
    norm_.out = {5, 6};
    norm_.attributes = {0};
  }
  TensorView At(int element) {
    return {.data = &memory_[element], .dtype = DType::kF32, .shape = {1, 4, 1, 1}, .rank = 2};
  }
  bool Binds(int y) {
    return BindPair(residual_, norm_, {At(0), At(4), At(8)}, {At(12)}, {At(12), At(16)},
                    {At(y), At(28)}, nullptr) != nullptr;
  }

  std::vector<float> memory_ = std::vector<float>(32);
  Op residual_, norm_;
};

TEST_F(BindPairTest, AResidualAndTheNormThatReadsItAreOneCall) {
  EXPECT_TRUE(Binds(20));
  norm_.kind = OpKind::kLayerNorm;
  EXPECT_TRUE(Binds(20));
}

TEST_F(BindPairTest, NotWhereTheNormWritesWhatTheResidualReads) {
  EXPECT_FALSE(Binds(0));
  EXPECT_FALSE(Binds(2));
  EXPECT_FALSE(Binds(7));
  EXPECT_FALSE(Binds(11));
}

TEST_F(BindPairTest, NorOtherOperations) {
  norm_.in[0] = 1;
  EXPECT_FALSE(Binds(20));
  norm_.in[0] = 3;
  norm_.kind = OpKind::kGelu;
  EXPECT_FALSE(Binds(20));
  norm_.kind = OpKind::kRmsNorm;
  residual_.kind = OpKind::kDropout;
  EXPECT_FALSE(Binds(20));
}

// dx = residual + the gradient of the norm of x; dw and db.
class BindGradientsTest : public ::testing::Test {
 protected:
  BindGradientsTest() {
    dgrad_.kind = OpKind::kRmsNormDgrad;
    dgrad_.in = {0, 1, 2, 3, 4};  // dy, x, w, rstd, residual
    dgrad_.out = {5};
    wgrad_.kind = OpKind::kRmsNormWgrad;
    wgrad_.in = {0, 1, 3, 6};  // dy, x, rstd, dw
    wgrad_.out = {6};
  }
  TensorView At(int element) {
    return {.data = &memory_[element], .dtype = DType::kF32, .shape = {1, 4, 1, 1}, .rank = 2};
  }
  // With dx in place of the residual.
  bool Binds(int dw) {
    std::vector<TensorView> second_in, second_out;
    for (BufferId id : wgrad_.in) second_in.push_back(id == 6 ? At(dw) : At(4 * id.position()));
    for (BufferId id : wgrad_.out) second_out.push_back(id == 6 ? At(dw) : At(4 * id.position()));
    return BindPair(dgrad_, wgrad_, {At(0), At(4), At(8), At(12), At(16)}, {At(16)}, second_in,
                    second_out, nullptr) != nullptr;
  }

  std::vector<float> memory_ = std::vector<float>(40);
  Op dgrad_, wgrad_;
};

TEST_F(BindGradientsTest, ThoseOfOneNormAreOneCall) {
  EXPECT_TRUE(Binds(24));
  dgrad_.kind = OpKind::kLayerNormDgrad;
  EXPECT_FALSE(Binds(24));
  wgrad_.kind = OpKind::kLayerNormWgrad;
  wgrad_.in = {0, 1, 3, 6, 7};
  wgrad_.out = {6, 7};
  EXPECT_TRUE(Binds(24));
}

TEST_F(BindGradientsTest, NotThoseOfTwoNorms) {
  for (const size_t operand : {0, 1, 2}) {
    const BufferId own = wgrad_.in[operand];
    wgrad_.in[operand] = 8;
    EXPECT_FALSE(Binds(24)) << operand;
    wgrad_.in[operand] = own;
  }
  EXPECT_TRUE(Binds(24));
}

TEST_F(BindGradientsTest, NotWhereTheGradientOfWeightsReplacesAnInput) {
  for (const int dw : {0, 4, 8, 12, 16}) EXPECT_FALSE(Binds(dw)) << dw;
}

}  // namespace
}  // namespace stretto
