// SPDX-License-Identifier: Apache-2.0
#pragma once
// docs/reference as Markdown. It is generated, and a test compares it, so it always matches the
// program.

#include <string>

namespace stretto::cli {

// Everything that a job file can contain.
std::string JobSpecReference();
// Services, methods with their errors, and messages.
std::string ApiReference();

}  // namespace stretto::cli
