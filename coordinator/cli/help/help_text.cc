// Commands as people read them: help in the terminal, and the man page.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "coordinator/cli/base/exit_codes.h"
#include "coordinator/cli/help/command_tree.h"

namespace stretto::cli {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kColumn = 26;  // where descriptions begin

// "  NAME          text", the text wrapped beneath itself.
std::string Entry(const std::string& name, const std::string& text) {
  std::string out = absl::StrCat("  ", name);
  size_t column = out.size();
  const auto new_line = [&] {
    absl::StrAppend(&out, "\n", std::string(kColumn, ' '));
    column = kColumn;
  };
  if (column + 2 > kColumn) {
    new_line();
  } else {
    out.append(kColumn - column, ' ');
    column = kColumn;
  }
  bool first = true;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!first && column + 1 + word.size() > kWidth) {
      new_line();
      first = true;
    }
    absl::StrAppend(&out, first ? "" : " ", word);
    column += word.size() + (first ? 0 : 1);
    first = false;
  }
  return out + "\n";
}

std::string FlagName(const FlagInfo& flag) {
  return absl::StrCat(absl::StrJoin(flag.names, ", "), flag.value.empty() ? "" : " ", flag.value);
}

std::string FlagHelp(const FlagInfo& flag) {
  return flag.default_value.empty() ? flag.help
                                    : absl::StrCat(flag.help, " [", flag.default_value, "]");
}

std::string ArgumentName(const FlagInfo& argument) {
  const std::string name = absl::StrCat(argument.names[0], argument.repeats ? "..." : "");
  return argument.required ? name : absl::StrCat("[", name, "]");
}

std::string ArgumentHelp(const FlagInfo& argument) {
  const bool choice = argument.value.find('|') != std::string::npos;
  return choice
             ? absl::StrCat(argument.help, ": ", absl::StrReplaceAll(argument.value, {{"|", ", "}}))
             : FlagHelp(argument);
}

std::string Usage(const CommandInfo& command) {
  std::string usage = command.path;
  if (!command.flags.empty()) usage += " [FLAGS]";
  if (!command.commands.empty()) usage += " COMMAND";
  for (const FlagInfo& argument : command.arguments) {
    absl::StrAppend(&usage, " ", ArgumentName(argument));
  }
  return usage;
}

// ---- roff

// Text that groff takes as it stands, whatever its first character.
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
    {"STRETTO_COORDINATOR", "HOST:PORT of the coordinator, unless --coordinator is given"},
    {"STRETTO_CONTEXT", "context of the config file, unless --context is given"},
    {"STRETTO_TLS_CA, STRETTO_TLS_CERTIFICATE, STRETTO_TLS_KEY",
     "files for TLS, unless their flags are given"},
    {"NO_COLOR", "no colours when set to anything"},
    {"XDG_CONFIG_HOME", "folder of the config file's folder, ~/.config unless set"},
};

}  // namespace

std::string HelpText(const std::vector<const CommandInfo*>& path) {
  const CommandInfo& command = *path.back();
  std::string out = absl::StrCat(command.help, "\n\nUsage: ", Usage(command), "\n");
  if (!command.arguments.empty()) out += "\nArguments:\n";
  for (const FlagInfo& argument : command.arguments) {
    out += Entry(ArgumentName(argument), ArgumentHelp(argument));
  }
  if (!command.commands.empty()) out += "\nCommands:\n";
  for (const CommandInfo& sub : command.commands) out += Entry(sub.name, sub.help);
  out += "\nFlags:\n";
  for (const FlagInfo& flag : command.flags) out += Entry(FlagName(flag), FlagHelp(flag));
  out += Entry("-h, --help", "print this text");
  if (path.size() > 1) out += "\nGlobal flags:\n";
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    for (const FlagInfo& flag : path[i]->flags) out += Entry(FlagName(flag), FlagHelp(flag));
  }
  if (!command.examples.empty()) out += "\nExamples:\n";
  for (const std::string& example : command.examples) absl::StrAppend(&out, "  ", example, "\n");
  if (path.size() == 1) absl::StrAppend(&out, "\n", kExitCodeHelp, "\n");
  return out;
}

std::string ManPage(const CommandInfo& root, const std::string& version) {
  std::string out = absl::StrCat(
      ".\\\" Written by `stretto __man`.\n.TH STRETTO 1 \"\" \"stretto ", version,
      "\" \"User Commands\"\n.SH NAME\nstretto \\- train transformers and hide the communication\n"
      ".SH SYNOPSIS\n.B stretto\n[\\fIFLAGS\\fR] \\fICOMMAND\\fR ...\n.SH DESCRIPTION\n",
      Roff(root.help), "\n", RoffExamples(root), ".SH COMMANDS\n", RoffCommand(root),
      ".SH OPTIONS\nFlags that every command takes:\n");
  for (const FlagInfo& flag : root.flags) out += RoffEntry(FlagName(flag), FlagHelp(flag));
  out += RoffEntry("-h, --help", "print help of a command");
  out += ".SH ENVIRONMENT\n";
  for (const VariableHelp& variable : kVariables) out += RoffEntry(variable.name, variable.meaning);
  absl::StrAppend(&out, ".SH FILES\n",
                  RoffEntry("$XDG_CONFIG_HOME/stretto/config.yaml",
                            "contexts: names for clusters, see stretto config --help"),
                  ".SH EXIT STATUS\n.nf\n", Roff(kExitCodeHelp), "\n.fi\n");
  return out;
}

}  // namespace stretto::cli
