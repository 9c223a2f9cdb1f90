// SPDX-License-Identifier: Apache-2.0

// Builds the tree of commands with CLI11, parses a command line and runs its command with its
// invocation: the client, the terminal and the interrupt. Unknown words and flags are looked up
// here, so that the error can suggest the nearest name.

#include "coordinator/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "coordinator/cli/base/exit_codes.h"
#include "coordinator/cli/client/client.h"
#include "coordinator/cli/other_programs.h"
#include "proto/base/clock.h"
#include "proto/base/nearest_name.h"
#include "proto/base/printable.h"
#include "proto/base/version.h"
#include "proto/commands/choice.h"
#include "proto/commands/help_text.h"
#include "proto/commands/read_commands.h"
#include "proto/tls/files.h"

namespace stretto::cli {
namespace {

// Walks from the root along `words` and stops at the first unknown one.
std::vector<const CommandInfo*> FindCommands(const CommandInfo& root,
                                             const std::vector<std::string>& words) {
  std::vector<const CommandInfo*> path = {&root};
  for (const std::string& word : words) {
    const std::vector<CommandInfo>& commands = path.back()->commands;
    const auto found = std::find_if(commands.begin(), commands.end(),
                                    [&](const auto& command) { return command.name == word; });
    if (found == commands.end()) break;
    path.push_back(&*found);
  }
  return path;
}

std::string HelpOfPath(const std::vector<const CommandInfo*>& path) {
  return HelpText(path, path.size() == 1 ? kExitCodeHelp : "");
}

std::string UnknownCommand(const std::string& word, const std::vector<std::string>& names) {
  const std::string near = NearestName(word, names);
  return absl::StrCat("unknown command \"", word, "\"; ",
                      near.empty() ? absl::StrCat("expected one of: ", absl::StrJoin(names, ", "))
                                   : absl::StrCat("did you mean \"", near, "\"?"));
}

std::string FullName(const CLI::App* command) {
  std::string name = command->get_name();
  for (const CLI::App* up = command->get_parent(); up != nullptr; up = up->get_parent()) {
    name = absl::StrCat(up->get_name(), " ", name);
  }
  return name;
}

void AddExamples(CLI::App* command, const std::vector<std::string>& examples) {
  command->footer(absl::StrJoin(examples, "\n"));
}

}  // namespace

CommandLine::CommandLine(const AppEnvironment& environment)
    : environment_(environment),
      app_(std::make_unique<CLI::App>(
          "Stretto trains transformers and hides communication behind compute.", "stretto")) {
  app_->require_subcommand(1);
  app_->fallthrough();
  app_->formatter_fn([this](const CLI::App* command, const std::string&, CLI::AppFormatMode) {
    std::vector<std::string> words;
    for (; command->get_parent() != nullptr; command = command->get_parent()) {
      words.insert(words.begin(), command->get_name());
    }
    const CommandInfo root = CommandsFor(words);
    return HelpOfPath(FindCommands(root, words));
  });
  app_->add_option(
          "--coordinator", cluster_.cluster.coordinator,
          absl::StrCat(
              "coordinator to talk to, as HOST:PORT; of several, separated by commas, the one that "
              "leads (default: STRETTO_COORDINATOR, then the context's, then ",
              kDefaultCoordinator, ")"))
      ->type_name("ADDRESS")
      ->check(CLI::Validator(
          [](const std::string& addresses) {
            return std::string(CheckCoordinator(addresses).message());
          },
          ""));
  app_->add_option("--context", cluster_.context,
                   "context of the config file to use (default: STRETTO_CONTEXT, then the current "
                   "context)")
      ->type_name("CONTEXT");
  tls::Files& tls = cluster_.cluster.tls;
  app_->add_option(
          "--tls-ca", tls.ca,
          "PEM file with the CA of the coordinator's certificate (default: STRETTO_TLS_CA)")
      ->type_name("FILE");
  app_->add_option("--tls-certificate", tls.certificate,
                   "PEM file with your certificate (default: STRETTO_TLS_CERTIFICATE)")
      ->type_name("FILE");
  app_->add_option("--tls-key", tls.key,
                   "PEM file with the private key of your certificate (default: STRETTO_TLS_KEY)")
      ->type_name("FILE");
  app_->add_option(tls::kTokenFlag, tls.token,
                   "file with your token, in place of certificate and key (default: "
                   "STRETTO_TOKEN_FILE)")
      ->type_name("FILE");
  AddFormat(app_.get(), &format_);
  app_->add_flag("--no-color", no_color_, "print without colours, as if NO_COLOR were set");
  app_->set_version_flag("--version", absl::StrCat("stretto ", kBuildVersion), "print the version");
  AddExamples(app_.get(), {"stretto up --workers 2", "stretto job submit gpt.yaml --follow",
                           "stretto help job submit"});
}

CommandLine::~CommandLine() = default;

ExitCode CommandLine::Run(std::vector<std::string> arguments) {
  if (!environment_.variable("NO_COLOR").empty()) terminal().color = false;
  if (arguments.empty()) {
    terminal().out << *HelpOf({});
    return kOk;
  }
  const std::string unknown = UnknownWord(arguments);
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 wants the last one first
    app_->parse(arguments);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      const std::string flag = UnknownFlag();
      return ReportUsage(!unknown.empty() ? unknown : !flag.empty() ? flag : error.what());
    }
    std::ostringstream help;
    app_->exit(error, help, help);
    terminal().out << help.str();
    return kOk;
  }
  if (no_color_) terminal().color = false;
  return action_();
}

ExitCode CommandLine::ReportUsage(const std::string& what) {
  terminal().err << "error: " << Printable(what)
                 << "\nRun `stretto --help` or `stretto COMMAND --help` for usage.\n";
  return kUsage;
}

CommandInfo CommandLine::Commands() const {
  CommandInfo root = ReadCommands(*app_);
  AddTheirCommands(nullptr, environment_, &root);
  return root;
}

CommandInfo CommandLine::CommandsFor(const std::vector<std::string>& words) const {
  CommandInfo root = ReadCommands(*app_);
  AddTheirCommands(&words, environment_, &root);
  return root;
}

absl::StatusOr<std::string> CommandLine::HelpOf(const std::vector<std::string>& words) const {
  const CommandInfo root = CommandsFor(words);
  const std::vector<const CommandInfo*> path = FindCommands(root, words);
  if (path.size() > words.size()) return HelpOfPath(path);
  std::vector<std::string> names;
  for (const CommandInfo& command : path.back()->commands) names.push_back(command.name);
  if (names.empty())
    return absl::NotFoundError(absl::StrCat("unknown command \"", absl::StrJoin(words, " "), "\""));
  return absl::NotFoundError(UnknownCommand(words[path.size() - 1], names));
}

// Returns the word that CLI11 reports only as a missing subcommand; empty if every command word is
// known.
std::string CommandLine::UnknownWord(const std::vector<std::string>& arguments) const {
  const CLI::App* command = app_.get();
  for (const std::string& word : arguments) {
    const std::vector<const CLI::App*> subcommands =
        static_cast<const CLI::App*>(command)->get_subcommands(nullptr);
    if (subcommands.empty() || word.empty() || word[0] == '-') return "";
    std::vector<std::string> names;
    const CLI::App* next = nullptr;
    for (const CLI::App* sub : subcommands) {
      names.push_back(sub->get_name());
      if (sub->get_name() == word) next = sub;
    }
    if (next == nullptr) {
      return UnknownCommand(word, names);
    }
    command = next;
  }
  return "";
}

// Returns the first flag that no command on the line takes; empty if there is none.
std::string CommandLine::UnknownFlag() const {
  for (const std::string& word : app_->remaining(true)) {
    if (word.size() < 2 || word[0] != '-' || word == "--") continue;
    const std::string flag = word.substr(0, word.find('='));
    std::vector<std::string> names = {"--help"};
    const CLI::App* command = app_.get();
    while (true) {
      for (const CLI::Option* option : command->get_options()) {
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
      }
      if (command->get_subcommands().empty()) break;
      command = command->get_subcommands().front();
    }
    const std::string near = NearestName(flag, names);
    return absl::StrCat("unknown flag \"", flag, "\"; ",
                        near.empty()
                            ? absl::StrCat("`", FullName(command), " --help` lists the flags")
                            : absl::StrCat("did you mean \"", near, "\"?"));
  }
  return "";
}

OutputFormat CommandLine::format() const { return FormatOf(format_); }

// Returns the flags that name the cluster, as the user gave them, with their values.
std::vector<std::pair<std::string, std::string>> CommandLine::GivenClusterFlags() const {
  const Cluster& cluster = cluster_.cluster;
  std::vector<std::pair<std::string, std::string>> flags = {
      {"--context", cluster_.context}, {"--coordinator", cluster.coordinator},
      {"--tls-ca", cluster.tls.ca},    {"--tls-certificate", cluster.tls.certificate},
      {"--tls-key", cluster.tls.key},  {tls::kTokenFlag, cluster.tls.token}};
  std::erase_if(flags, [](const auto& flag) { return flag.second.empty(); });
  return flags;
}

std::vector<std::string> CommandLine::ClusterWords() const {
  std::vector<std::string> words;
  for (const auto& [flag, value] : GivenClusterFlags())
    words.push_back(absl::StrCat(flag, "=", value));
  return words;
}

ExitCode CommandLine::WithInvocation(const std::function<ExitCode(const Invocation&)>& command) {
  const absl::StatusOr<Cluster> cluster = ChooseCluster(cluster_, environment_.variable);
  if (!cluster.ok()) {
    terminal().err << "error: " << Printable(cluster.status().message()) << "\n";
    return kError;
  }
  if (!cluster->tls.empty()) {
    const auto identity = tls::CheckFiles(cluster->tls, tls::Role::kUser, Clock::Real().Now());
    if (!identity.ok()) {
      terminal().err << "error: " << identity.status().message() << "\n";
      return kError;
    }
  }
  std::optional<SignalThread> signals;
  if (environment_.handle_signals) signals.emplace(environment_.interrupt);
  Client client(cluster->coordinator, cluster->tls, environment_.interrupt);
  std::string hint_flags;
  for (const auto& [flag, value] : GivenClusterFlags())
    absl::StrAppend(&hint_flags, " ", flag, " ", value);
  return command({.client = client,
                  .interrupt = environment_.interrupt,
                  .terminal = terminal(),
                  .format = format(),
                  .hint_flags = hint_flags,
                  .give_up = environment_.give_up,
                  .retry_interval = environment_.retry_interval,
                  .refresh = environment_.refresh});
}

CLI::App* CommandLine::AddGroup(const char* name, const char* help,
                                const std::vector<std::string>& examples) {
  return AddGroup(app_.get(), name, help, examples);
}

CLI::App* CommandLine::AddGroup(CLI::App* parent, const char* name, const char* help,
                                const std::vector<std::string>& examples) {
  CLI::App* group = parent->add_subcommand(name, help);
  group->require_subcommand(1);
  group->fallthrough();
  AddExamples(group, examples);
  return group;
}

CLI::App* CommandLine::AddLocal(CLI::App* parent, const char* name, const char* help,
                                const std::function<ExitCode()>& command,
                                const std::vector<std::string>& examples) {
  CLI::App* sub = parent->add_subcommand(name, help);
  sub->fallthrough();
  sub->callback([this, command] { action_ = command; });
  AddExamples(sub, examples);
  return sub;
}

CLI::App* CommandLine::AddCommand(CLI::App* parent, const char* name, const char* help,
                                  const std::function<ExitCode(const Invocation&)>& command,
                                  const std::vector<std::string>& examples) {
  return AddLocal(
      parent, name, help, [this, command] { return WithInvocation(command); }, examples);
}

}  // namespace stretto::cli
