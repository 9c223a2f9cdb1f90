// SPDX-License-Identifier: Apache-2.0

// Draws random numbers lane by lane: Philox4x32-10 on vectors of counters, each of which gives four
// words. A word below the threshold drops its element; any other keeps it and scales it up. The
// counter consists of the block of columns, the global token, the site and the step, so a draw does
// not depend on slices, threads or ranks.

#include "kernels/cpu/dropout.h"

#include <immintrin.h>

#include <cstring>
#include <optional>

#include "kernels/cpu/blocked.h"
#include "kernels/cpu/thread_buffers.h"
#include "kernels/cpu/vector_math.h"

namespace stretto::cpu::STRETTO_CPU_OPS {

namespace {

constexpr int kBlocks = kLanes / 2;        // counters at a time
constexpr int64_t kColumns = 4 * kBlocks;  // and their draws
constexpr uint64_t kLow = 0xffffffff;

// Interleaves two vectors: lane kFrom of the one and of the other, then their next lanes.
template <int kFrom>
constexpr int Alternate(int lane) {
  return kFrom + lane / 2 + lane % 2 * kBlocks;
}

// The product of the low halves.
Words MultiplyLow(Words a, uint64_t b) {
#ifdef __AVX512F__
  constexpr __mmask8 kAll = 0xff;  // the form without a mask makes GCC 12 warn
  return reinterpret_cast<Words>(_mm512_maskz_mul_epu32(kAll, reinterpret_cast<__m512i>(a),
                                                        reinterpret_cast<__m512i>(Words{} + b)));
#else
  return reinterpret_cast<Words>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(Words{} + b)));
#endif
}

// Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). Turns each
// counter into four random words. Only the low halves are valid; the high ones are undefined.
void Philox(Words counter[4], uint32_t key_low, uint32_t key_high) {
  for (int round = 0; round < 10; ++round) {
    const Words first = MultiplyLow(counter[0], 0xD2511F53);
    const Words second = MultiplyLow(counter[2], 0xCD9E8D57);
    counter[0] = (second >> 32) ^ counter[1] ^ key_low;
    counter[1] = second;
    counter[2] = (first >> 32) ^ counter[3] ^ key_high;
    counter[3] = first;
    key_low += 0x9E3779B9;
    key_high += 0xBB67AE85;
  }
}

uint32_t SiteWord(int64_t site, int64_t global_head) {
  return static_cast<uint32_t>(site) + (static_cast<uint32_t>(global_head + 1) << 16);
}

// y = x + factor (r + bias)
template <bool kBias, bool kDrop, class T>
void BiasResidualRow(const T* r, const T* bias, const T* x, const float* factors, int64_t columns,
                     T* y) {
#pragma omp simd
  for (int64_t i = 0; i < columns; ++i) {
    float value = ToFloat(r[i]);
    if constexpr (kBias) value += ToFloat(bias[i]);
    if constexpr (kDrop) value *= factors[i];
    y[i] = FromFloat<T>(ToFloat(x[i]) + value);
  }
}

template <class T>
void DropRow(const T* x, const float* factors, int64_t columns, T* y) {
#pragma omp simd
  for (int64_t i = 0; i < columns; ++i) y[i] = FromFloat<T>(ToFloat(x[i]) * factors[i]);
}

template <bool kBias, bool kDrop, class T>
void BiasResidualRows(const TensorView& r, const TensorView& bias, const TensorView& x,
                      const Dropout& dropout, const TensorView& keys, const TensorView& y) {
  const int64_t columns = x.columns();
  const DenseRows<T> rs(r, columns);
  float* factors = nullptr;
  std::optional<Draws> draws;
  if constexpr (kDrop) {
    factors = FactorBuffer(columns);
    draws.emplace(dropout, keys);
  }
  for (int64_t row = 0; row < x.rows(); ++row) {
    if constexpr (kDrop) draws->Factors(row, columns, factors);
    const int64_t at = row * columns;
    BiasResidualRow<kBias, kDrop>(rs.Row(row), kBias ? bias.as<T>() : nullptr, x.as<T>() + at,
                                  factors, columns, y.as<T>() + at);
  }
}

}  // namespace

Draws::Draws(const Dropout& dropout, const TensorView& keys, int64_t global_head)
    : site_(SiteWord(dropout.site, global_head)),
      threshold_(static_cast<uint32_t>(dropout.threshold)),
      scale_(dropout.scale()) {
  STRETTO_CHECK(keys.dtype == DType::kI32 && keys.count() >= kKeyCount);
  STRETTO_CHECK(dropout.threshold < (int64_t{1} << 32) && dropout.site < (1 << 16));
  const auto* words = keys.as<uint32_t>();
  key_low_ = words[kSeedLow];
  key_high_ = words[kSeedHigh];
  step_ = words[kStepNumber];
  first_token_ = words[kFirstToken] + static_cast<uint32_t>(dropout.first_token);
}

void Draws::Factors(int64_t row, int64_t count, float* factors) const {
  Words block;
  for (int lane = 0; lane < kBlocks; ++lane) block[lane] = static_cast<uint64_t>(lane);
  const Words token = Words{} + (first_token_ + static_cast<uint32_t>(row));
  for (int64_t column = 0; column < count; column += kColumns, block += kBlocks) {
    Words counter[4] = {block, token, Words{} + site_, Words{} + step_};
    Philox(counter, key_low_, key_high_);
    const Words front = (counter[0] & kLow) | counter[1] << 32;
    const Words back = (counter[2] & kLow) | counter[3] << 32;
    Store(Shuffle<Alternate<0>>(front, back), factors + column);
    Store(Shuffle<Alternate<kBlocks / 2>>(front, back), factors + column + kLanes);
  }
}

void Draws::Store(Words draws, float* factors) const {
  typedef uint32_t Draw __attribute__((vector_size(4 * kLanes)));
  const Lanes kept = Lanes{} + scale_;
  const Lanes values = reinterpret_cast<Draw>(draws) < threshold_ ? Lanes{} : kept;
  std::memcpy(factors, &values, sizeof(values));
}

float* FactorBuffer(int64_t columns) {
  return static_cast<float*>(
      ThreadBuffer(Buffer::kDropFactors, (columns + kColumns) * sizeof(float)));
}

void CpuOps::BiasResidual(TensorView r, TensorView bias, TensorView x, Dropout dropout,
                          TensorView keys, TensorView y) {
  STRETTO_CHECK(r.dtype == x.dtype && r.dtype == y.dtype);
  STRETTO_CHECK(bias.data == nullptr || (bias.dtype == x.dtype && bias.count() == x.columns()));
  STRETTO_CHECK(r.count() == x.count() && y.count() == x.count());
  WithType(x.dtype, [&](auto type) {
    using T = decltype(type);
    const auto run =
        bias.data != nullptr
            ? (dropout.on() ? BiasResidualRows<true, true, T> : BiasResidualRows<true, false, T>)
            : (dropout.on() ? BiasResidualRows<false, true, T> : BiasResidualRows<false, false, T>);
    run(r, bias, x, dropout, keys, y);
  });
}

void CpuOps::DropElements(TensorView x, Dropout dropout, TensorView keys, TensorView y) {
  STRETTO_CHECK(x.dtype == y.dtype && x.count() == y.count());
  if (!dropout.on()) {
    if (x.data != y.data) std::memcpy(y.data, x.data, x.bytes());
    return;
  }
  const int64_t columns = x.columns();
  const Draws draws(dropout, keys);
  float* factors = FactorBuffer(columns);
  WithType(x.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = 0; row < x.rows(); ++row) {
      draws.Factors(row, columns, factors);
      DropRow(x.as<T>() + row * columns, factors, columns, y.as<T>() + row * columns);
    }
  });
}

}  // namespace stretto::cpu::STRETTO_CPU_OPS
