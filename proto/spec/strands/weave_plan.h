// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the two strands of a cell take turns: a list of lines, each of which plays words
// (worker/engine/schedule/weave.h) of one strand in one layer and slice. A plan is data that
// nothing but the weave sees. Every plan gives a correct program, because a word is played behind
// all that it depends on; a plan can only be slow. Words that are left out are played where they
// are needed or at the end, and a word that a job does not have plays nothing: "r.qkv" where
// nothing is computed again.
//
//   weave f0|b0 pace=1
//     f ln1 qkv attention proj L0
//     b d.fc2 d.act d.fc1 L5 s1
//     b d.head
//
// The first line names the cell, forward and backward of chunk 0, and its pace. Then "f" or "b"
// says of which strand the words are, "L" of which layer of its chunk, from 0 (none: outside the
// layers), and "s" of which slice (none: of all slices in turn). A cell may have the embedding of
// the next micro-batch in place of its own; "f embed" then plays that one. Stages that are folded
// have two cells, f0|b1 and f1|b0; the text of a job then has a plan for each, or for one of them,
// and all ranks weave by it.
//
// A line "|" is a barrier, where both strands wait for each other: what is played behind it begins
// when all that was played before is done. Collectives that the lines since the last barrier end
// with begin there, beside what is played next. A plan without barriers is never longer where
// nothing contends; they are the published form (Wang et al. 2024, "DHelix"), to compare with.
//
// Pace bounds memory: forward enters a layer when backward has left the layer that is as far from
// the end, `pace` layers further up. With L layers in a chunk, forward of its layer l waits for
// backward of layer L - 1 - l + pace of the other chunk, weight gradients included, so that
// activations of forward come where those of backward were. The first norm of a layer counts as
// part of the layer before, for both strands.

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
  std::vector<std::string> words = {};  // none: a barrier
  int layer = -1;                       // of the chunk; -1: outside the layers
  int slice = -1;                       // -1: all, in turn
  bool is_barrier() const { return words.empty(); }
  bool operator==(const WeaveLine&) const = default;
};

struct WeavePlan {
  int forward_chunk = 0, backward_chunk = 0;  // the cell
  int pace = 1;
  std::vector<WeaveLine> lines = {};
  bool operator==(const WeavePlan&) const = default;
};

// Returns the canonical text: lines as above, words and parts with one space in between.
std::string PrintWeavePlan(const WeavePlan& plan);

// The inverse of PrintWeavePlan; any white space separates words. Errors: InvalidArgument: "found
// ... in line 4 of the plan, expected ...". Whether there are such words is not its question.
absl::StatusOr<WeavePlan> ParseWeavePlan(absl::string_view text);

// The same of a text with a plan for each of several cells, one behind the other. Each cell has one
// plan at most.
absl::StatusOr<std::vector<WeavePlan>> ParseWeavePlans(absl::string_view text);

// What the plans of a job are for.
struct WeaveShape {
  int chunks = 1;  // of a stage: one, or the two of folded stages
  int layers = 1;  // of a chunk
  int slices = 1;
};

// Checks that the plans of a text were made for a job of this shape: its cells exist; the words of
// a plan exist, each on a line with a layer or without one as the word is in layers or not; layers
// and slices exist; and if a plan has lines with a layer or a slice, the last one is among them.
// Errors: InvalidArgument, with the line.
absl::Status CheckWeavePlans(const std::vector<WeavePlan>& plans, const WeaveShape& shape);

// The words of a strand inside or outside the layers, of all models and ways of recomputation.
std::vector<std::string> WeaveWords(Strand strand, bool in_layers);

}  // namespace stretto
