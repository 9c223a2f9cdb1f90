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

}  // namespace
}  // namespace stretto
