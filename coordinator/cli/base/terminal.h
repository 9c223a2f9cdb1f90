// SPDX-License-Identifier: Apache-2.0
#pragma once
// The terminal of a command. Output goes to `out`, messages to `err`.

#include <ostream>
#include <string>

#include "proto/document/document.h"

namespace stretto::cli {

// Borrowed streams and their abilities. One thread.
struct Terminal {
  std::ostream& out;
  std::ostream& err;
  bool live = false;     // `out` is a terminal, so a line may be rewritten
  bool screen = false;   // input is a terminal too, so a view may fill it
  bool color = false;    // live, NO_COLOR unset, --no-color not given
  bool unicode = false;  // the locale is UTF-8
  int width = 80;
};

}  // namespace stretto::cli
