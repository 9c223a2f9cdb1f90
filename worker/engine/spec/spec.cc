// SPDX-License-Identifier: Apache-2.0

// Names of the engine's enums.

#include "worker/engine/spec/spec.h"

namespace stretto {
const char* NameOf(RotaryScaling::Kind kind) {
  switch (kind) {
    case RotaryScaling::Kind::kNone:
      return "none";
    case RotaryScaling::Kind::kLinear:
      return "linear";
    case RotaryScaling::Kind::kLlama3:
      return "llama3";
  }
  return "?";
}

const char* NameOf(Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone:
      return "none";
    case Recompute::kSelective:
      return "selective";
    case Recompute::kFull:
      return "full";
  }
  return "?";
}

const char* NameOf(WgradDelay delay) {
  switch (delay) {
    case WgradDelay::kNone:
      return "none";
    case WgradDelay::kSend:
      return "send";
    case WgradDelay::kBubble:
      return "bubble";
  }
  return "?";
}

const char* NameOf(Transfer transfer) {
  switch (transfer) {
    case Transfer::kAuto:
      return "auto";
    case Transfer::kSend:
      return "send";
    case Transfer::kChain:
      return "chain";
    case Transfer::kGather:
      return "gather";
  }
  return "?";
}

EngineSpec EngineSpec::Repeatable() const {
  EngineSpec spec = *this;
  if (library_attention == LibraryAttention::kVarying)
    spec.library_attention = LibraryAttention::kNone;
  return spec;
}

int EngineSpec::world_size() const {
  int ranks = stages.empty() ? pp_size * tp_size * dp_size : 0;
  for (const StageSpec& stage : stages) ranks += stage.tp_size * stage.ReplicasOf(dp_size);
  return ranks;
}

}  // namespace stretto
