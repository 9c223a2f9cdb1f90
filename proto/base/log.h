// SPDX-License-Identifier: Apache-2.0
#pragma once
// One line per event on stderr: time, level, then "key=value" pairs after the message.
//   2026-01-02T03:04:05.678Z INFO  trainer exited job=gpt epoch=7 rank=1 signal=9
// Whatever text of others is in a message, it stays one line (printable.h).
// Use the spdlog calls (spdlog::info("...{}", x)); this header only sets their format, once per
// process.

#include <string>

namespace stretto {

// Sets the level from STRETTO_LOG (trace, debug, info, warn, error; default info). Call first in
// main.
void InitLogging(const std::string& program);

}  // namespace stretto
