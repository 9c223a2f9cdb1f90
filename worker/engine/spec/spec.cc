// SPDX-License-Identifier: Apache-2.0

// Names of enums, and the rules that a spec must satisfy before anything is built from it. Each
// rule names its field, what was found and what was expected.

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

}  // namespace stretto
