// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>

#include "kernels/cpu/cpu_ops_impl.h"
#include "kernels/cpu/vector_math.h"

namespace stretto::cpu::STRETTO_CPU_OPS {

namespace {

struct Step {
  float clip_scale, beta1, beta2, epsilon, keep, step_size, root_correction2;
};

Step StepOf(const float* state, const float* scalars, bool decay) {
  const float rate = scalars[kLearningRate];
  return {.clip_scale = state[kClipScale],
          .beta1 = scalars[kBeta1],
          .beta2 = scalars[kBeta2],
          .epsilon = scalars[kEpsilon],
          .keep = decay ? 1.0f - rate * scalars[kWeightDecay] : 1.0f,
          .step_size = rate / scalars[kBiasCorrection1],
          .root_correction2 = std::sqrt(scalars[kBiasCorrection2])};
}

void Update(const Step& step, int64_t count, const float* grad, float* master, float* m, float* v) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float g = grad[i] * step.clip_scale;
    m[i] = step.beta1 * m[i] + (1.0f - step.beta1) * g;
    v[i] = step.beta2 * v[i] + (1.0f - step.beta2) * g * g;
    const float denominator = std::sqrt(v[i]) / step.root_correction2 + step.epsilon;
    master[i] = master[i] * step.keep - step.step_size * (m[i] / denominator);
  }
}

}  // namespace

void CpuOps::Zero(TensorView x) { std::memset(x.data, 0, x.bytes()); }

void CpuOps::SumSquares(TensorView x, TensorView out) {
  const float* values = x.as<float>();
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < x.count(); ++i) {
    sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  *out.as<float>() = static_cast<float>(sum);
}

void CpuOps::Sum(TensorView parts, TensorView out) {
  double sum = 0;
  for (int64_t i = 0; i < parts.count(); ++i) sum += static_cast<double>(parts.as<float>()[i]);
  *out.as<float>() = static_cast<float>(sum);
}

void CpuOps::Clip(TensorView sum_squares, TensorView scalars, TensorView state) {
  STRETTO_CHECK(state.dtype == DType::kF32 && state.count() == kClipStateCount);
  STRETTO_CHECK(scalars.dtype == DType::kF32 && scalars.count() >= kScalarCount);
  const float norm = std::sqrt(*sum_squares.as<float>());
  const float limit = scalars.as<float>()[kClipNorm];
  const bool finite = std::isfinite(norm);
  float* out = state.as<float>();
  out[kGradNorm] = norm;
  out[kClipScale] = finite && limit > 0 ? std::fmin(1.0f, limit / (norm + 1e-6f)) : 1.0f;
  out[kUpdate] = finite ? 1.0f : 0.0f;
}

void CpuOps::AdamW(TensorView grad, TensorView state, TensorView scalars, bool decay,
                   TensorView master, TensorView m, TensorView v, TensorView weight) {
  STRETTO_CHECK(grad.count() == master.count() && m.count() == master.count());
  STRETTO_CHECK(v.count() == master.count() && weight.count() == master.count());
  STRETTO_CHECK(grad.dtype == DType::kF32 && master.dtype == DType::kF32);
  STRETTO_CHECK(state.count() == kClipStateCount && scalars.count() >= kScalarCount);
  if (state.as<float>()[kUpdate] == 0.0f) return;
  Update(StepOf(state.as<float>(), scalars.as<float>(), decay), master.count(), grad.as<float>(),
         master.as<float>(), m.as<float>(), v.as<float>());
  packed_.Changed(weight.data, weight.bytes());
  if (weight.data == master.data) return;
  WithType(weight.dtype, [&](auto type) {
    FromFloats(master.as<float>(), master.count(), weight.as<decltype(type)>());
  });
}

}  // namespace stretto::cpu::STRETTO_CPU_OPS
