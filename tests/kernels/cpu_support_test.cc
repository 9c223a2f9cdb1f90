// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/cpu_support.h"

#include "tests/kernels/testing.h"

namespace stretto {
namespace {

TEST(CpuSupportTest, ACpuWithEverythingIsSupported) {
  EXPECT_EQ(cpu::MissingFeatures({.avx2 = true, .fma = true, .bmi = true, .bmi2 = true}), "");
}

TEST(CpuSupportTest, TheMessageNamesWhatIsMissing) {
  EXPECT_EQ(cpu::MissingFeatures({.avx2 = false, .fma = true, .bmi = true, .bmi2 = false}),
            "this CPU lacks AVX2 BMI2; the CPU kernels need x86-64-v3 (AVX2, FMA, BMI1, BMI2)");
}

TEST(CpuSupportTest, ThisMachineRunsTheTests) {
  std::string why;
  EXPECT_TRUE(CpuSupported(&why)) << why;
  EXPECT_THAT(CpuIsa(), testing::MatchesRegex("oneDNN [0-9.]+ [a-z0-9_]+, bf16 (native|in f32)"));
}

// e^x as the kernels compute it: the softmax sum of eight equal logits, which adds without
// rounding.
double Exp(double x) {
  static const std::unique_ptr<Ops> ops = MakeCpuOps();
  Tensor logits(DType::kF32, 1, 8), max(DType::kF32, 1, 1), sums(DType::kF32, 1, 2);
  Tensor targets(DType::kI32, 1, 1);
  for (int64_t i = 0; i < 8; ++i) logits.Set(i, x);
  max.Zero();
  targets.Zero();
  ops->CrossEntropySum(logits.view(), max.view(), targets.view(), {.start = 0, .size = 8},
                       sums.view());
  return sums.At(0) / 8;
}

TEST(ExpTest, IsWithinItsBound) {
  for (double x = -87; x <= 85; x += 0.0137) {
    const double exact = std::exp(static_cast<double>(static_cast<float>(x)));
    ASSERT_NEAR(Exp(x) / exact, 1.0, 2e-7) << x;
  }
}

TEST(ExpTest, EndsAreZeroInfinityAndNan) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Exp(0), 1.0);
  EXPECT_EQ(Exp(-kInfinity), 0.0);
  EXPECT_EQ(Exp(-88.5), 0.0);
  EXPECT_EQ(Exp(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(Exp(std::nan(""))));
}

}  // namespace
}  // namespace stretto
