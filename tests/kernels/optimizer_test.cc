// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/testing.h"

namespace stretto {
namespace {

using OptimizerTest = OpsTest;
STRETTO_ALL_MODES(OptimizerTest);

constexpr int64_t kCount = 133;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_P(OptimizerTest, ZeroAndSums) {
  Tensor x = Of(3, 11);
  ops_->Zero(x.view());
  for (int64_t i = 0; i < x.count(); ++i) EXPECT_EQ(x.At(i), 0.0);
  Tensor values = F32(1, kCount).Fill(1), out = F32(1, 1), total = F32(1, 1);
  const Doubles v = values.doubles();
  ops_->SumSquares(values.view(), out.view());
  EXPECT_NEAR(out.At(0), Dot(v, v), 1e-6 * Dot(v, v));
  ops_->Sum(values.view(), total.view());
  EXPECT_NEAR(total.At(0), Dot(v, Doubles(v.size(), 1.0)), 1e-6);
}

struct ClipCase {
  double sum_squares, limit, scale, update;
};

TEST_P(OptimizerTest, ClipScalesLargeNormsAndSkipsNonFiniteOnes) {
  for (const ClipCase& c :
       {ClipCase{16, 1, 1 / (4 + 1e-6), 1}, ClipCase{16, 8, 1, 1}, ClipCase{16, 0, 1, 1},
        ClipCase{0, 1, 1, 1}, ClipCase{kInfinity, 1, 1, 0}, ClipCase{std::nan(""), 1, 1, 0}}) {
    Tensor squares = F32(1, 1), scalars = F32(1, kScalarCount), state = F32(1, kClipStateCount);
    squares.Set(0, c.sum_squares);
    scalars.Set(kClipNorm, c.limit);
    ops_->Clip(squares.view(), scalars.view(), state.view());
    EXPECT_EQ(state.At(kUpdate), c.update) << c.sum_squares;
    EXPECT_NEAR(state.At(kClipScale), c.scale, 1e-6) << c.sum_squares;
    if (c.update == 1) {
      EXPECT_EQ(state.At(kGradNorm), std::sqrt(c.sum_squares));
    } else {
      EXPECT_FALSE(std::isfinite(state.At(kGradNorm)));
    }
  }
}

class Adam {
 public:
  Adam(Ops& ops, DType weight, bool decay, double epsilon)
      : ops_(ops), decay_(decay), epsilon_(epsilon), weight_(weight, 1, kCount) {
    master_.Fill(1);
    m_.Zero();
    v_.Zero();
    state_.Set(kGradNorm, 1);
    state_.Set(kClipScale, 0.5);
    state_.Set(kUpdate, 1);
    want_master_ = master_.doubles();
  }

  void Step(int t) {
    Tensor grad(DType::kF32, 1, kCount);
    grad.Fill(static_cast<uint32_t>(100 + t));
    const double rate = 1e-2, beta1 = 0.9, beta2 = 0.95, decay = 0.1;
    const double correction1 = 1 - std::pow(beta1, t), correction2 = 1 - std::pow(beta2, t);
    scalars_.Set(kLearningRate, rate);
    scalars_.Set(kBeta1, beta1);
    scalars_.Set(kBeta2, beta2);
    scalars_.Set(kEpsilon, epsilon_);
    scalars_.Set(kWeightDecay, decay);
    scalars_.Set(kBiasCorrection1, correction1);
    scalars_.Set(kBiasCorrection2, correction2);
    TensorView weight = weight_.dtype() == DType::kF32 ? master_.view() : weight_.view();
    ops_.AdamW(grad.view(), state_.view(), scalars_.view(), decay_, master_.view(), m_.view(),
               v_.view(), weight);
    for (size_t i = 0; i < want_master_.size(); ++i) {
      const double g = grad.At(static_cast<int64_t>(i)) * 0.5;
      if (decay_) want_master_[i] *= 1 - rate * decay;
      want_m_[i] = beta1 * want_m_[i] + (1 - beta1) * g;
      want_v_[i] = beta2 * want_v_[i] + (1 - beta2) * g * g;
      want_master_[i] -=
          rate * (want_m_[i] / correction1) / (std::sqrt(want_v_[i] / correction2) + epsilon_);
    }
  }

  Ops& ops_;
  bool decay_;
  double epsilon_;
  Tensor weight_;
  Tensor master_{DType::kF32, 1, kCount}, m_{DType::kF32, 1, kCount}, v_{DType::kF32, 1, kCount};
  Tensor state_{DType::kF32, 1, kClipStateCount}, scalars_{DType::kF32, 1, kScalarCount};
  Doubles want_master_, want_m_ = Doubles(kCount, 0), want_v_ = Doubles(kCount, 0);
};

// A large epsilon shows whether it is added after the bias correction or within it.
TEST_P(OptimizerTest, AdamWFollowsTheReference) {
  for (const double epsilon : {1e-8, 1e-2}) {
    for (const bool decay : {false, true}) {
      Adam adam(*ops_, GetParam().dtype, decay, epsilon);
      for (int t = 1; t <= 5; ++t) adam.Step(t);
      ExpectNear(adam.master_, adam.want_master_, 2e-6);
      ExpectNear(adam.m_, adam.want_m_, 2e-6);
      ExpectNear(adam.v_, adam.want_v_, 2e-6);
      if (GetParam().dtype == DType::kBF16) {
        Tensor rounded = Of(1, kCount);
        for (int64_t i = 0; i < kCount; ++i) rounded.Set(i, adam.master_.At(i));
        EXPECT_EQ(adam.weight_.bytes(), rounded.bytes());
      }
    }
  }
}

TEST_P(OptimizerTest, AdamWWithoutUpdateLeavesEverythingUntouched) {
  Adam adam(*ops_, GetParam().dtype, true, 1e-8);
  adam.state_.Set(kUpdate, 0);
  adam.state_.Set(kClipScale, std::nan(""));
  const auto before =
      std::tuple(adam.master_.bytes(), adam.m_.bytes(), adam.v_.bytes(), adam.weight_.bytes());
  adam.Step(1);
  EXPECT_EQ(before, std::tuple(adam.master_.bytes(), adam.m_.bytes(), adam.v_.bytes(),
                               adam.weight_.bytes()));
}

}  // namespace
}  // namespace stretto
