// SPDX-License-Identifier: Apache-2.0

// `stretto`, the command-line client.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "coordinator/cli/app.h"
#include "coordinator/cli/other_programs.h"
#include "proto/commands/terminal_width.h"

namespace {

std::string Variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

bool Utf8Locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value = Variable(name);
    if (value.empty()) continue;
    return value.find("UTF-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

// Returns only if the program cannot be run.
int RunOther(const stretto::cli::OtherProgram& other, const std::string& binary_dir, char** argv) {
  const std::string binary = binary_dir + "/" + other.program;
  execv(binary.c_str(), argv + other.skipped_words);
  std::cerr << "error: cannot run " << binary << ": " << std::strerror(errno) << "\n";
  return stretto::cli::kError;
}

std::string ReplaceProcess(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  return std::strerror(errno);
}

}  // namespace

int main(int argc, char** argv) {
  using stretto::cli::AppEnvironment;
  using stretto::cli::Interrupt;
  using stretto::cli::Terminal;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string binary_dir = self.parent_path().string();
  for (const auto& other : stretto::cli::kOtherPrograms) {
    if (argc > 1 && std::string(argv[1]) == other.command) return RunOther(other, binary_dir, argv);
  }
  const bool live = isatty(STDOUT_FILENO) == 1 && Variable("TERM") != "dumb";
  Terminal terminal{.out = std::cout,
                    .err = std::cerr,
                    .live = live,
                    .screen = live && isatty(STDIN_FILENO) == 1,
                    .color = live,
                    .unicode = Utf8Locale(),
                    .width = stretto::TerminalWidth()};
  Interrupt interrupt;
  const AppEnvironment environment{.terminal = terminal,
                                   .interrupt = interrupt,
                                   .variable = Variable,
                                   .binary_dir = binary_dir,
                                   .replace_process = ReplaceProcess,
                                   .handle_signals = true};
  return stretto::cli::RunApp(std::vector<std::string>(argv + 1, argv + argc), environment);
}
