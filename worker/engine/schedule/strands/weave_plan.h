// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the two strands of a cell take turns: a list of lines, each of which plays words (weave.h) of
// one strand in one layer and slice. A plan is data that nothing but the weave sees. Every plan
// gives a correct program, because a word is played behind all that it depends on; a plan can only
// be slow.
//
//   weave f0|b0 pace=1
//     f ln1 qkv attention proj L0
//     b d.fc2 d.act d.fc1 L5 s1
//     b d.head
//
// The first line names the cell, forward and backward of chunk 0, and its pace. Then "f" or "b"
// says of which strand the words are, "L" of which layer (none: outside the layers) and "s" of
// which slice (none: of all slices in turn).
//
// Pace bounds memory: forward enters a layer when backward has left the layer that is as far from
// the end, `pace` layers further up. With L layers, forward of layer l waits for backward of layer
// L - 1 - l + pace, weight gradients included, so that activations of forward come where those of
// backward were. The first norm of a layer counts as part of the layer before, for both strands.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stretto {

enum class Strand : uint8_t { kForward, kBackward };  // f and b, the roles of a cell in this order

struct WeaveLine {
  Strand strand = Strand::kForward;
  std::vector<std::string> words = {};
  int layer = -1;  // -1: outside the layers
  int slice = -1;  // -1: all, in turn
  bool operator==(const WeaveLine&) const = default;
};

struct WeavePlan {
  int pace = 1;
  std::vector<WeaveLine> lines = {};
  bool operator==(const WeavePlan&) const = default;
};

// Returns the canonical text: lines as above, words and parts with one space in between.
std::string PrintWeavePlan(const WeavePlan& plan);

// The inverse of PrintWeavePlan; any white space separates words. Errors: InvalidArgument, with the
// number of the line. Whether a program has the words is not its question.
absl::StatusOr<WeavePlan> ParseWeavePlan(absl::string_view text);

// The error about line `index` of plan.lines, counted from 0: "weave plan, line 4: found ...,
// expected ...".
absl::Status WeavePlanError(size_t index, absl::string_view found, absl::string_view expected);

}  // namespace stretto
