// SPDX-License-Identifier: Apache-2.0
#pragma once
// The SHA-256 of a text in lower-case hexadecimal.

#include <string>

namespace stretto {

std::string Sha256(const std::string& content);

}  // namespace stretto
