// SPDX-License-Identifier: Apache-2.0
#pragma once
// How wide what a program prints may be.

namespace stretto {

// What fits every terminal; files and pipes get as much.
inline constexpr int kPlainWidth = 80;

// Returns the columns of the terminal that standard output is; kPlainWidth if it is none, or does
// not say.
int TerminalWidth();

}  // namespace stretto
