// SPDX-License-Identifier: Apache-2.0
#pragma once
// docs/reference as Markdown, generated so that it cannot differ from the program: a test compares.

#include <string>

namespace stretto::cli {

// Everything that a job file can contain.
std::string JobSpecReference();
// Services, methods with their errors, messages.
std::string ApiReference();

}  // namespace stretto::cli
