// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a pass can be cut so that its ends overlap with those of its neighbours.

#include <vector>

#include "worker/engine/program/program.h"

namespace stretto {

using OpList = IdVector<OpId, Op>;

// The parts of a pass of one micro-batch, in their order. Collectives are those of a replica's
// ranks; transfers between stages are none. A pass without a collective of a layer has only a body.
struct Parts {
  OpList opening;  // up to the first collective, if that is an all-gather; otherwise empty
  OpList head;     // up to the next one: the embedding, or the first half-block of a slice
  OpList body;
  OpList last;  // from the last product of a layer to the launch of its collective
  OpList tail;  // what follows: weight gradients that are left, the last residual, sends
};

// Returns the parts of each micro-batch of a unit, at least one. Its operations are in the order of
// its roles.
std::vector<Parts> PartsOf(const Unit& unit);

}  // namespace stretto
