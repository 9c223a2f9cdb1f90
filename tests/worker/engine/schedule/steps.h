// SPDX-License-Identifier: Apache-2.0
#pragma once
// Step programs written by hand: one unit on one lane.

#include <string>
#include <utility>
#include <vector>

#include "worker/engine/program/program.h"

namespace stretto {

// Buffers 0..5 of four elements; 4 and 5 are the halves of 3.
inline StepProgram StepOf(IdVector<OpId, Op> ops) {
  StepProgram step;
  step.lanes = {Lane{"serial"}};
  for (int i = 0; i < 4; ++i)
    step.buffers.push_back({.name = std::string(1, static_cast<char>('a' + i)), .shape = {4}});
  step.buffers.push_back({.name = "low", .shape = {2}, .alias = 3, .alias_offset = 0});
  step.buffers.push_back({.name = "high", .shape = {2}, .alias = 3, .alias_offset = 2});
  step.units = {{"forward", std::move(ops)}};
  return step;
}

inline Op OpOf(std::string name, BufferList in, BufferList out, int slice = 0, int layer = 0,
               Phase phase = Phase::kForward, OpKind kind = OpKind::kGelu) {
  Op op;
  op.kind = kind;
  op.tag = {.layer = layer, .name = std::move(name), .phase = phase, .slice = slice};
  op.in = std::move(in);
  op.out = std::move(out);
  return op;
}

// Every name in the order of the unit.
inline std::string NamesOf(const StepProgram& step) {
  std::string names;
  for (const Op& op : step.units[0].ops) names += op.tag.name;
  return names;
}

}  // namespace stretto
