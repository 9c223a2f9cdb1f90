// SPDX-License-Identifier: Apache-2.0
#pragma once
// What parity tests expect of trainings, and the bounds they expect it within (DESIGN section 5).

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "tests/parity/harness.h"

namespace stretto::parity {

inline void ExpectSameBits(const Result& a, const Result& b) {
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (size_t i = 0; i < a.steps.size(); ++i) {
    EXPECT_TRUE(SameBits(a.steps[i].token_losses, b.steps[i].token_losses))
        << "losses of step " << i;
    EXPECT_EQ(a.steps[i].gradient_norm, b.steps[i].gradient_norm) << "step " << i;
    EXPECT_TRUE(a.steps[i].updated && b.steps[i].updated) << "step " << i;
  }
  EXPECT_TRUE(SameBits(a.gradients, b.gradients));
  EXPECT_TRUE(SameBits(a.weights, b.weights));
  EXPECT_TRUE(SameBits(a.moment1, b.moment1));
  EXPECT_TRUE(SameBits(a.moment2, b.moment2));
}

// For programs of the same activations and gradients of activations, bit for bit. A parameter's
// gradient adds the same n products (n tokens) in another order, so each of the two is off by at
// most n * 2^-24 * sum|products| (Higham 2002, section 4.2), and sum|products| <= sqrt(n) * root of
// the sum of squares, which for products that do not cancel more than independent ones is the
// gradient itself: 2 n sqrt(n) 2^-24 of its norm.
inline double WgradOrderBound(const EngineSpec& spec) {
  const double tokens = static_cast<double>(spec.sequences_per_step() * spec.model.sequence_length);
  return 2 * tokens * std::sqrt(tokens) * 0x1p-24;
}

// For another order of all sums, in f32: another TP size, another implementation.
inline constexpr double kF32GradientBound = 1e-4, kF32LossBound = 1e-5;

// For other roundings to bf16, each of at most 2^-9. A gradient is about thirty of them deep, which
// add up like independent ones; three times that is 3 sqrt(30) 2^-9 = 2^-5. Logits of the tiny
// models stay below 1/2, so that their rounding moves a token's loss by 2^-10 or less, which is
// 2^-12 of it.
inline constexpr double kBF16GradientBound = 0x1p-5, kBF16LossBound = 0x1p-12;

// That is of models of up to five layers. The roundings of more add up in the same way.
inline double DepthOf(const EngineSpec& spec) {
  return std::sqrt(std::max(1.0, spec.model.layers / 5.0));
}

inline void ExpectGradientsWithin(double bound, const ModelSpec& model, const Tensors& gradients,
                                  const Tensors& reference) {
  const std::vector<Parameter> parameters = ParametersOf(model, 1, 0);
  ASSERT_EQ(gradients.size(), parameters.size());
  ASSERT_EQ(reference.size(), parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    ASSERT_EQ(gradients[i].size(), reference[i].size()) << parameters[i].name;
    EXPECT_LE(Distance(gradients[i], reference[i]), bound * ScaleOf(reference[i], reference))
        << parameters[i].name;
  }
}

// Whether the element is in the K part of a QKV bias that is not turned by its position: per
// key/value head its queries, key, value.
inline bool IsKBias(const ModelSpec& model, const Parameter& parameter, size_t element) {
  if (model.architecture.positions == PositionKind::kRotary) return false;
  if (!parameter.name.ends_with("qkv.bias")) return false;
  const int column = static_cast<int>(element) % static_cast<int>(parameter.shape[1]);
  const int queries = model.heads / model.key_heads();
  return column / model.head_dim() == queries;
}

// Rows of the token embedding or the head whose gradient is exactly zero in step 0: padding, and in
// an untied embedding tokens that the batch does not have.
inline bool IsUntouchedRow(const EngineSpec& spec, const ModelParameters& index, int parameter,
                           int row) {
  if (parameter != index.token_embedding && parameter != index.head) return false;
  if (row >= spec.model.vocab_size) return true;
  if (parameter == index.head) return false;
  for (int sequence = 0; sequence < spec.sequences_per_step(); ++sequence) {
    for (int s = 0; s < spec.model.sequence_length; ++s) {
      if (TokenAt(spec.model, 0, sequence, s) == row) return false;
    }
  }
  return true;
}

// Whether any number between embedding and loss is rounded to bf16.
inline bool Rounds(const EngineSpec& spec) {
  return spec.dtype == DType::kBF16 ||
         (spec.wire_dtype == DType::kBF16 && spec.tp_size * spec.pp_size > 1);
}

// Gradients of step 0. Zero are only: untouched rows, exactly; the K part of a QKV bias, which
// shifts every score of a query alike and so changes nothing, up to rounding; by chance sums of a
// few bf16 values; what dropout takes from a token that an untied embedding sees once.
inline void ExpectNonZero(const EngineSpec& spec, const Tensors& gradients) {
  const ModelSpec& model = spec.model;
  const std::vector<Parameter> parameters = ParametersOf(model, 1, 0);
  const ModelParameters index = IndexOf(parameters, model.layers);
  const bool tied = index.head == index.token_embedding;
  const double k_bias = (Rounds(spec) ? 0x1p-8 : 1e-7) * Norm(gradients);
  ASSERT_EQ(gradients.size(), parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const int parameter = static_cast<int>(i);
    const size_t columns = static_cast<size_t>(parameters[i].shape.back());
    double elements = 0, zeros = 0;
    for (size_t row = 0; row < gradients[i].size() / columns; ++row) {
      const bool untouched = IsUntouchedRow(spec, index, parameter, static_cast<int>(row));
      for (size_t e = row * columns; e < (row + 1) * columns; ++e) {
        const float g = gradients[i][e];
        if (untouched) {
          EXPECT_EQ(g, 0) << parameters[i].name << " " << e;
        } else if (IsKBias(model, parameters[i], e)) {
          EXPECT_LT(std::abs(g), k_bias) << parameters[i].name << " " << e;
        } else {
          ++elements;
          zeros += g == 0;
        }
      }
    }
    const bool dropped = !tied && parameter == index.token_embedding && model.dropout > 0;
    const double share = dropped ? 2 * model.dropout : Rounds(spec) ? 0.01 : 0;
    EXPECT_LE(zeros, share * elements) << parameters[i].name;
  }
}

}  // namespace stretto::parity
