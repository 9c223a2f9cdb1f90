#pragma once
// The operations of one rank in a GPT step, in the order of the program, to be timed one by one.

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "kernels/ops.h"

namespace stretto {

struct LayerConfig {
  DType dtype = DType::kF32;
  int64_t hidden = 768;
  int64_t heads = 12;  // over all ranks
  int64_t sequence = 256;
  int64_t tokens = 2048;
  int64_t tp = 1;
  int64_t slices = 1;
  int64_t vocab = 8192;  // over all ranks
  double dropout = 0;

  int64_t slice_rows() const { return tokens / slices; }
};

struct TimedOp {
  std::string name;
  bool gemm = false;
  int64_t work = 0;  // gemm and attention: floating-point operations; else bytes, each operand once
  std::function<void()> run;
};

// Owns the tensors of a bench.
class Memory {
 public:
  // [rows, columns] of pseudo-random numbers in [-scale, scale); i32: in [0, 4096).
  TensorView Make(DType dtype, int64_t rows, int64_t columns, float scale = 1);

 private:
  std::deque<std::vector<float>> storage_;
};

// Forward, then backward, slice after slice in each place.
std::vector<TimedOp> GptLayer(const LayerConfig& config, Ops* ops, Memory* memory);
// Embedding, head, loss and their gradients, and the optimizer on one layer's largest weight.
std::vector<TimedOp> GptEnds(const LayerConfig& config, Ops* ops, Memory* memory);

}  // namespace stretto
