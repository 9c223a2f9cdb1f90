// SPDX-License-Identifier: Apache-2.0
#pragma once
// The flags of `stretto up`, `stretto worker ...` and `stretto config ...`.

namespace stretto::cli {

class CommandLine;

void AddUpCommand(CommandLine& line);
void AddTopCommand(CommandLine& line);
void AddWorkerCommands(CommandLine& line);
void AddConfigCommands(CommandLine& line);

}  // namespace stretto::cli
