// SPDX-License-Identifier: Apache-2.0
#pragma once
// Fresh randomness, which nobody can guess; random.h has the numbers that every run draws alike.

#include <cstddef>
#include <string>

namespace stretto {

// Returns that many bytes (at most 256) of the kernel's generator. Thread-safe.
std::string RandomBytes(size_t count);

}  // namespace stretto
