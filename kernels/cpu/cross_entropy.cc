// SPDX-License-Identifier: Apache-2.0

// Softmax cross entropy over a vocabulary that may be split over ranks, in the four parts between
// which collectives run. Each part is a loop over rows; bf16 is converted in pieces.

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/cpu_ops_impl.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/target.h"

namespace stretto::cpu::STRETTO_CPU_OPS {

namespace {

// Returns how many of this rank's columns are tokens; they come first, and the rest is padding.
int64_t RealColumns(const TensorView& logits, const VocabShard& vocab) {
  return std::clamp<int64_t>(vocab.size - vocab.start, 0, logits.columns());
}

float MaxOf(const float* x, int64_t count) { return RowMax(x, count); }

float MaxOf(const BF16* x, int64_t count) {
  // Convert in pieces, so that no memory is needed.
  constexpr int64_t kPiece = 256;
  float piece[kPiece];
  float max = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < count; i += kPiece) {
    const int64_t n = std::min(kPiece, count - i);
    ToFloats(x + i, n, piece);
    max = std::max(max, RowMax(piece, n));
  }
  return max;
}

template <class T>
float SumOfExp(const T* x, int64_t count, float max) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += Exp(ToFloat(x[i]) - max);
  return sum;
}

// (softmax - onehot) * weight over the first `real` columns, 0 after; target: column or -1.
template <class T>
void GradRow(float max, float sum, int64_t target, float weight, int64_t real, int64_t columns,
             T* x) {
  const float scale = weight / sum;
  const float at_target = target >= 0 ? Exp(ToFloat(x[target]) - max) * scale - weight : 0.0f;
#pragma omp simd
  for (int64_t i = 0; i < real; ++i) x[i] = FromFloat<T>(Exp(ToFloat(x[i]) - max) * scale);
  for (int64_t i = real; i < columns; ++i) x[i] = FromFloat<T>(0.0f);
  if (target >= 0) x[target] = FromFloat<T>(at_target);
}

// The sums of a row without a target, whose loss log(1) - 0 is 0 once ranks have added them up.
void NoLoss(const VocabShard& vocab, float* sums) {
  sums[0] = vocab.start == 0 ? 1.0f : 0.0f;
  sums[1] = 0;
}

// Returns the target's column on this rank, or -1.
int64_t LocalTarget(int32_t target, const VocabShard& vocab, int64_t real) {
  const int64_t column = target - vocab.start;
  return column >= 0 && column < real ? column : -1;
}

}  // namespace

void CpuOps::CrossEntropyMax(TensorView logits, VocabShard vocab, TensorView max) {
  STRETTO_CHECK(max.dtype == DType::kF32 && max.count() == logits.rows());
  const int64_t real = RealColumns(logits, vocab);
  WithType(logits.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = 0; row < logits.rows(); ++row) {
      max.as<float>()[row] = MaxOf(logits.as<T>() + row * logits.columns(), real);
    }
  });
}

void CpuOps::CrossEntropySum(TensorView logits, TensorView max, TensorView targets,
                             VocabShard vocab, TensorView sums) {
  STRETTO_CHECK(max.dtype == DType::kF32 && max.count() == logits.rows());
  STRETTO_CHECK(targets.dtype == DType::kI32 && targets.count() == logits.rows());
  STRETTO_CHECK(sums.dtype == DType::kF32 && sums.count() == 2 * logits.rows());
  const int64_t real = RealColumns(logits, vocab);
  WithType(logits.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = 0; row < logits.rows(); ++row) {
      if (targets.as<int32_t>()[row] == kNoTarget) {
        NoLoss(vocab, sums.as<float>() + 2 * row);
        continue;
      }
      const T* x = logits.as<T>() + row * logits.columns();
      const float top = max.as<float>()[row];
      const int64_t target = LocalTarget(targets.as<int32_t>()[row], vocab, real);
      sums.as<float>()[2 * row] = SumOfExp(x, real, top);
      sums.as<float>()[2 * row + 1] = target >= 0 ? ToFloat(x[target]) - top : 0.0f;
    }
  });
}

void CpuOps::CrossEntropyLoss(TensorView sums, TensorView loss) {
  STRETTO_CHECK(sums.dtype == DType::kF32 && loss.dtype == DType::kF32);
  STRETTO_CHECK(sums.count() == 2 * loss.count());
  for (int64_t row = 0; row < loss.count(); ++row) {
    loss.as<float>()[row] = std::log(sums.as<float>()[2 * row]) - sums.as<float>()[2 * row + 1];
  }
}

void CpuOps::CrossEntropyGrad(TensorView max, TensorView sums, TensorView targets,
                              TensorView scalars, VocabShard vocab, TensorView logits) {
  STRETTO_CHECK(max.dtype == DType::kF32 && max.count() == logits.rows());
  STRETTO_CHECK(targets.dtype == DType::kI32 && targets.count() == logits.rows());
  STRETTO_CHECK(sums.dtype == DType::kF32 && sums.count() == 2 * logits.rows());
  STRETTO_CHECK(scalars.dtype == DType::kF32 && scalars.count() >= kScalarCount);
  const float weight = scalars.as<float>()[kLossWeight];
  const int64_t real = RealColumns(logits, vocab);
  WithType(logits.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = 0; row < logits.rows(); ++row) {
      T* const x = logits.as<T>() + row * logits.columns();
      const int32_t target = targets.as<int32_t>()[row];
      if (target == kNoTarget) {
        std::fill_n(x, logits.columns(), FromFloat<T>(0.0f));
        continue;
      }
      GradRow(max.as<float>()[row], sums.as<float>()[2 * row], LocalTarget(target, vocab, real),
              weight, real, logits.columns(), x);
    }
  });
}

}  // namespace stretto::cpu::STRETTO_CPU_OPS
