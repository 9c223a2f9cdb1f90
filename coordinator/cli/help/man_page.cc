// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/help/man_page.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "coordinator/cli/base/exit_codes.h"
#include "proto/commands/usage.h"

namespace stretto::cli {
namespace {

// Escapes text so that groff prints it literally, whatever its first character.
std::string Roff(const std::string& text) {
  const std::string escaped = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}});
  const bool control = !escaped.empty() && (escaped[0] == '.' || escaped[0] == '\'');
  return control ? "\\&" + escaped : escaped;
}

std::string RoffEntry(const std::string& name, const std::string& text) {
  return absl::StrCat(".TP\n\\fB", Roff(name), "\\fR\n", Roff(text), "\n");
}

std::string RoffExamples(const CommandInfo& command) {
  if (command.examples.empty()) return "";
  std::string out = ".PP\n.RS 4\n.nf\n";
  for (const std::string& line : command.examples) absl::StrAppend(&out, Roff(line), "\n");
  return out + ".fi\n.RE\n";
}

std::string RoffCommand(const CommandInfo& command) {
  std::string out;
  if (command.commands.empty()) {
    out = absl::StrCat(".SS \"", Roff(Usage(command)), "\"\n", Roff(command.help), ".\n");
    for (const FlagInfo& argument : command.arguments) {
      out += RoffEntry(argument.names[0], ArgumentHelp(argument));
    }
    for (const FlagInfo& flag : command.flags) out += RoffEntry(FlagName(flag), FlagHelp(flag));
    out += RoffExamples(command);
  }
  for (const CommandInfo& sub : command.commands) out += RoffCommand(sub);
  return out;
}

struct VariableHelp {
  const char* name;
  const char* meaning;
};
constexpr VariableHelp kVariables[] = {
    {"STRETTO_COORDINATOR",
     "address of the coordinator, HOST:PORT, or of several, separated by commas; --coordinator "
     "overrides it"},
    {"STRETTO_CONTEXT", "context of the config file to use; --context overrides it"},
    {"STRETTO_TLS_CA, STRETTO_TLS_CERTIFICATE, STRETTO_TLS_KEY",
     "files for TLS; --tls-ca, --tls-certificate and --tls-key override them"},
    {"STRETTO_TOKEN_FILE", "file with a token; --token-file overrides it"},
    {"NO_COLOR", "disables colours if it is set"},
    {"XDG_CONFIG_HOME", "folder that contains stretto/config.yaml (default: ~/.config)"},
};

}  // namespace

std::string ManPage(const CommandInfo& root, const std::string& version) {
  std::string out = absl::StrCat(
      ".\\\" Written by `stretto __man`.\n.TH STRETTO 1 \"\" \"stretto ", version,
      "\" \"User Commands\"\n.SH NAME\nstretto \\- train transformers and hide communication "
      "behind compute\n"
      ".SH SYNOPSIS\n.B stretto\n[\\fIFLAGS\\fR] \\fICOMMAND\\fR ...\n.SH DESCRIPTION\n",
      Roff(root.help), "\n", RoffExamples(root), ".SH COMMANDS\n", RoffCommand(root),
      ".SH OPTIONS\nEvery command accepts these flags, except for data, checkpoint and sample:\n");
  for (const FlagInfo& flag : root.flags) out += RoffEntry(FlagName(flag), FlagHelp(flag));
  out += RoffEntry("-h, --help", "print help for a command");
  out += ".SH ENVIRONMENT\n";
  for (const VariableHelp& variable : kVariables) out += RoffEntry(variable.name, variable.meaning);
  absl::StrAppend(&out, ".SH FILES\n",
                  RoffEntry("$XDG_CONFIG_HOME/stretto/config.yaml",
                            "contexts, which are names for clusters; see stretto config --help"),
                  ".SH EXIT STATUS\n.nf\n", Roff(kExitCodeHelp), "\n.fi\n");
  return out;
}

}  // namespace stretto::cli
