// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures cuBLASLt's epilogues.

#include "absl/status/statusor.h"
#include "kernels/epilogue.h"

namespace stretto {

// Returns the seconds of the fastest algorithm without split sums, timed as products of a step are,
// on a stream and memory of its own on the current device. Errors: Unimplemented (the library has
// no algorithm that runs), ResourceExhausted, Unavailable (with the library's message).
absl::StatusOr<double> TimeEpilogue(const EpilogueProduct& product);

}  // namespace stretto
