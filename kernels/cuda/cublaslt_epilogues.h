// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long cuBLASLt takes for what its epilogues could fuse.

#include "absl/status/statusor.h"
#include "kernels/epilogue.h"

namespace stretto {

// Seconds of the fastest algorithm without split sums, as products of a step are timed, on a stream
// and memory of its own on the current device. Errors: Unimplemented (the library has none that
// runs), ResourceExhausted, Unavailable (the library's words).
absl::StatusOr<double> TimeEpilogue(const EpilogueProduct& product);

}  // namespace stretto
