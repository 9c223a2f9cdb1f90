// SPDX-License-Identifier: Apache-2.0
#pragma once
// The loss of a GPT in f64, written down once more: no kernels, slices, ranks or micro-batches. Its
// gradient is that of finite differences, which f64 gives to about 1e-9.

#include <cmath>
#include <cstdint>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include "kernels/target.h"
#include "tests/parity/tensors.h"
#include "worker/engine/model/parameters.h"

namespace stretto::parity {

using Doubles = std::vector<double>;

// Tokens and targets of a step, sequence after sequence, and where each token's document begins;
// empty: a sequence is one document.
struct Batch {
  std::vector<int32_t> tokens, targets, documents;
};

class ReferenceLoss {
 public:
  ReferenceLoss(const ModelSpec& model, const Tensors& weights) : m_(model) {
    const std::vector<Parameter> parameters = ParametersOf(model, 1, 0);
    for (size_t i = 0; i < parameters.size(); ++i) {
      names_.push_back(parameters[i].name);
      w_[parameters[i].name] = Doubles(weights[i].begin(), weights[i].end());
    }
  }

  // The mean over the targets that are not kNoTarget.
  double Loss(const Batch& batch) const {
    double sum = 0;
    int64_t targets = 0;
    const auto length = static_cast<size_t>(m_.sequence_length);
    for (size_t first = 0; first < batch.tokens.size(); first += length) {
      const Doubles logits =
          Logits(&batch.tokens[first], batch.documents.empty() ? nullptr : &batch.documents[first]);
      for (size_t s = 0; s < length; ++s) {
        const int32_t target = batch.targets[first + s];
        if (target == kNoTarget) continue;
        const double* row = &logits[s * static_cast<size_t>(m_.vocab_size)];
        double exponentials = 0;
        for (int v = 0; v < m_.vocab_size; ++v) exponentials += std::exp(row[v]);
        sum += std::log(exponentials) - row[target];
        ++targets;
      }
    }
    return sum / static_cast<double>(targets);
  }

  // By central differences. Padding is not moved: its gradient is 0.
  Tensors Gradient(const Batch& batch) {
    constexpr double kMove = 1e-5;
    Tensors gradient;
    for (const std::string& name : names_) {
      Doubles& values = w_[name];
      Floats& of_tensor = gradient.emplace_back(values.size());
      const bool padded = name == "embedding.token.weight";
      const size_t moved = padded ? static_cast<size_t>(m_.vocab_size * m_.hidden) : values.size();
      for (size_t i = 0; i < moved; ++i) {
        const double value = values[i];
        values[i] = value + kMove;
        const double up = Loss(batch);
        values[i] = value - kMove;
        of_tensor[i] = static_cast<float>((up - Loss(batch)) / (2 * kMove));
        values[i] = value;
      }
    }
    return gradient;
  }

 private:
  const Doubles& W(const std::string& name) const { return w_.at(name); }

  // x [rows, in] times the transposed weight [out, in], plus the bias.
  Doubles Linear(const Doubles& x, const std::string& name) const {
    const Doubles &weight = W(name + ".weight"), &bias = W(name + ".bias");
    const size_t out = bias.size(), in = weight.size() / out, rows = x.size() / in;
    Doubles y(rows * out);
    for (size_t row = 0; row < rows; ++row) {
      for (size_t o = 0; o < out; ++o) {
        double sum = bias[o];
        for (size_t i = 0; i < in; ++i) sum += x[row * in + i] * weight[o * in + i];
        y[row * out + o] = sum;
      }
    }
    return y;
  }

  Doubles Norm(const Doubles& x, const std::string& name) const {
    const Doubles &weight = W(name + ".weight"), &bias = W(name + ".bias");
    const size_t columns = weight.size();
    Doubles y(x.size());
    for (size_t row = 0; row < x.size(); row += columns) {
      double mean = 0, variance = 0;
      for (size_t i = 0; i < columns; ++i) mean += x[row + i] / static_cast<double>(columns);
      for (size_t i = 0; i < columns; ++i)
        variance += (x[row + i] - mean) * (x[row + i] - mean) / static_cast<double>(columns);
      const double scale = 1 / std::sqrt(variance + m_.norm_epsilon);
      for (size_t i = 0; i < columns; ++i)
        y[row + i] = (x[row + i] - mean) * scale * weight[i] + bias[i];
    }
    return y;
  }

  // Per head the columns of its query, key and value follow each other.
  Doubles Attention(const Doubles& qkv, const int32_t* documents) const {
    const auto length = static_cast<size_t>(m_.sequence_length),
               heads = static_cast<size_t>(m_.heads), dim = static_cast<size_t>(m_.head_dim());
    const auto at = [&](size_t s, size_t head, size_t part) {
      return &qkv[s * 3 * heads * dim + (head * 3 + part) * dim];
    };
    Doubles context(length * heads * dim, 0.0);
    for (size_t head = 0; head < heads; ++head) {
      for (size_t s = 0; s < length; ++s) {
        Doubles weights;
        double sum = 0;
        const size_t first = documents == nullptr ? 0 : static_cast<size_t>(documents[s]);
        for (size_t t = first; t <= s; ++t) {
          double score = 0;
          for (size_t d = 0; d < dim; ++d) score += at(s, head, 0)[d] * at(t, head, 1)[d];
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
          sum += weights.back();
        }
        for (size_t t = first; t <= s; ++t) {
          for (size_t d = 0; d < dim; ++d)
            context[(s * heads + head) * dim + d] += weights[t - first] / sum * at(t, head, 2)[d];
        }
      }
    }
    return context;
  }

  static double Gelu(double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  }

  static void AddTo(const Doubles& y, Doubles* x) {
    for (size_t i = 0; i < x->size(); ++i) (*x)[i] += y[i];
  }

  Doubles Logits(const int32_t* tokens, const int32_t* documents) const {
    const auto length = static_cast<size_t>(m_.sequence_length),
               hidden = static_cast<size_t>(m_.hidden), vocab = static_cast<size_t>(m_.vocab_size);
    const Doubles &embedding = W("embedding.token.weight"),
                  &positions = W("embedding.position.weight");
    Doubles x(length * hidden);
    for (size_t s = 0; s < length; ++s) {
      for (size_t i = 0; i < hidden; ++i) {
        x[s * hidden + i] =
            embedding[static_cast<size_t>(tokens[s]) * hidden + i] + positions[s * hidden + i];
      }
    }
    for (int layer = 0; layer < m_.layers; ++layer) {
      const std::string prefix = "layers." + std::to_string(layer) + ".";
      const Doubles qkv = Linear(Norm(x, prefix + "ln1"), prefix + "attention.qkv");
      AddTo(Linear(Attention(qkv, documents), prefix + "attention.proj"), &x);
      Doubles inner = Linear(Norm(x, prefix + "ln2"), prefix + "mlp.fc1");
      for (double& value : inner) value = Gelu(value);
      AddTo(Linear(inner, prefix + "mlp.fc2"), &x);
    }
    const Doubles y = Norm(x, "final_norm");
    Doubles logits(length * vocab, 0.0);
    for (size_t s = 0; s < length; ++s) {
      for (size_t v = 0; v < vocab; ++v) {
        for (size_t i = 0; i < hidden; ++i)
          logits[s * vocab + v] += y[s * hidden + i] * embedding[v * hidden + i];
      }
    }
    return logits;
  }

  const ModelSpec m_;
  std::vector<std::string> names_;
  std::map<std::string, Doubles> w_;
};

}  // namespace stretto::parity
