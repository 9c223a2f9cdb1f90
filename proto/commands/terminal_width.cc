// SPDX-License-Identifier: Apache-2.0
#include "proto/commands/terminal_width.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace stretto {

int TerminalWidth() {
  winsize size = {};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kPlainWidth;
}

}  // namespace stretto
