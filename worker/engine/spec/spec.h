#pragma once
// What to train, validated and plain: the engine's only input besides weights and tokens.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/dtype.h"

namespace stretto {

struct ModelSpec {
  int layers = 0;
  int hidden = 0;
  int heads = 0;
  int ffn_hidden = 0;
  int sequence_length = 0;
  int vocab_size = 0;  // of the tokenizer

  int head_dim() const { return hidden / heads; }
  // Multiple of 128, whatever the TP size, so that every layout has the same full tensors.
  int padded_vocab() const { return (vocab_size + 127) / 128 * 128; }
};

struct ScheduleSpec {
  std::string name = "megatron_sync";
  // Sequences of each slice of a micro-batch; sums to micro_batch_size. One entry: not sliced.
  std::vector<int> slices;
};

struct EngineSpec {
  ModelSpec model;
  ScheduleSpec schedule;
  int tp_size = 1;
  DType dtype = DType::kF32;
  int micro_batch_size = 1;  // sequences
  int micro_batches = 1;     // per step
};

// Cuts `sequences` into `slices` parts as equal as can be, larger ones first.
std::vector<int> EvenSlices(int sequences, int slices);

// InvalidArgument naming the field, found and expected. The schedule's own conditions are checked
// by its pass.
absl::Status Validate(const EngineSpec& spec);

}  // namespace stretto
