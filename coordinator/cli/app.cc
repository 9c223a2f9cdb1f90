// Builds the tree of commands with CLI11, parses a command line and runs the command that it names,
// with a session: the cluster, the terminal and the interrupt. Words and flags that no command
// knows are looked up here, so that the error names them.

#include "coordinator/cli/app.h"

#include <algorithm>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "coordinator/cli/app_tree.h"
#include "coordinator/cli/client/client.h"
#include "coordinator/cli/text/names.h"
#include "coordinator/cli/text/print.h"
#include "proto/base/clock.h"
#include "proto/tls/files.h"

namespace stretto::cli {

App::App(const AppEnvironment& environment)
    : environment_(environment), terminal_(environment.terminal) {
  app_.require_subcommand(1);
  app_.fallthrough();
  app_.formatter_fn([this](const CLI::App* command, const std::string&, CLI::AppFormatMode) {
    names_.clear();
    for (; command->get_parent() != nullptr; command = command->get_parent()) {
      names_.insert(names_.begin(), command->get_name());
    }
    const CommandInfo root = ReadCommands(app_);
    return HelpText(FindCommands(root));
  });
  app_.add_option("--coordinator", cluster_.cluster.coordinator,
                  absl::StrCat("HOST:PORT; else STRETTO_COORDINATOR, else that of the context, "
                               "else ",
                               kDefaultCoordinator))
      ->type_name("ADDRESS");
  app_.add_option("--context", cluster_.context,
                  "cluster by its name in the config file; else STRETTO_CONTEXT, else the current "
                  "one")
      ->type_name("CONTEXT");
  tls::Files& tls = cluster_.cluster.tls;
  app_.add_option("--tls-ca", tls.ca, "PEM file with the coordinator's CA; else STRETTO_TLS_CA")
      ->type_name("FILE");
  app_.add_option("--tls-certificate", tls.certificate,
                  "PEM file with your certificate; else STRETTO_TLS_CERTIFICATE")
      ->type_name("FILE");
  app_.add_option("--tls-key", tls.key, "PEM file with its private key; else STRETTO_TLS_KEY")
      ->type_name("FILE");
  Choice(app_.add_option("-o,--output", output_, "form of what is printed"), "table|json|yaml");
  app_.add_flag("--no-color", no_color_, "plain text, as NO_COLOR does");
  AddUp();
  AddJob();
  AddWorker();
  AddConfig();
  AddExplain();
  AddHelp();
  AddExamples(&app_, {"stretto up --workers 2", "stretto job submit gpt.yaml --follow",
                      "stretto help job submit"});
}

ExitCode App::Run(std::vector<std::string> arguments) {
  if (!environment_.variable("NO_COLOR").empty()) terminal_.color = false;
  // For shells and packages, not for people.
  if (!arguments.empty() && arguments[0] == "__man") return PrintManPage();
  if (!arguments.empty() && arguments[0] == "__complete") {
    return PrintCompletion({arguments.begin() + 1, arguments.end()});
  }
  const std::string unknown = UnknownWord(arguments);
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 wants the last one first
    app_.parse(arguments);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      const std::string flag = UnknownFlag();
      terminal_.err << "error: "
                    << Printable(!unknown.empty() ? unknown
                                 : !flag.empty()  ? flag
                                                  : error.what())
                    << "\n`stretto --help` and `stretto COMMAND --help` say more\n";
      return kUsage;
    }
    std::ostringstream help;
    app_.exit(error, help, help);
    terminal_.out << help.str();
    return kOk;
  }
  if (no_color_) terminal_.color = false;
  return action_();
}

// What CLI11 only calls a missing subcommand; empty when every command word is known.
std::string App::UnknownWord(const std::vector<std::string>& arguments) const {
  const CLI::App* command = &app_;
  for (const std::string& word : arguments) {
    const std::vector<const CLI::App*> subcommands = command->get_subcommands(nullptr);
    if (subcommands.empty() || word.empty() || word[0] == '-') return "";
    std::vector<std::string> names;
    const CLI::App* next = nullptr;
    for (const CLI::App* sub : subcommands) {
      names.push_back(sub->get_name());
      if (sub->get_name() == word) next = sub;
    }
    if (next == nullptr) {
      const std::string near = NearestName(word, names);
      return absl::StrCat("unknown command \"", word, "\"; ",
                          near.empty()
                              ? absl::StrCat("expected one of: ", absl::StrJoin(names, ", "))
                              : absl::StrCat("did you mean \"", near, "\"?"));
    }
    command = next;
  }
  return "";
}

// The first flag that no command on the line takes; empty when there is none.
std::string App::UnknownFlag() const {
  for (const std::string& word : app_.remaining(true)) {
    if (word.size() < 2 || word[0] != '-' || word == "--") continue;
    const std::string flag = word.substr(0, word.find('='));
    std::vector<std::string> names = {"--help"};
    const CLI::App* command = &app_;
    while (true) {
      for (const CLI::Option* option : command->get_options()) {
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
      }
      if (command->get_subcommands().empty()) break;
      command = command->get_subcommands().front();
    }
    std::string path = command->get_name();
    for (const CLI::App* up = command->get_parent(); up != nullptr; up = up->get_parent()) {
      path = absl::StrCat(up->get_name(), " ", path);
    }
    const std::string near = NearestName(flag, names);
    return absl::StrCat("unknown flag \"", flag, "\"; ",
                        near.empty() ? absl::StrCat("`", path, " --help` lists those there are")
                                     : absl::StrCat("did you mean \"", near, "\"?"));
  }
  return "";
}

OutputFormat App::format() const {
  return output_ == "json"   ? OutputFormat::kJson
         : output_ == "yaml" ? OutputFormat::kYaml
                             : OutputFormat::kTable;
}

ExitCode App::WithSession(const std::function<ExitCode(const Session&)>& command) {
  const absl::StatusOr<Cluster> cluster = ChooseCluster(cluster_, environment_.variable);
  if (!cluster.ok()) {
    terminal_.err << "error: " << Printable(cluster.status().message()) << "\n";
    return kError;
  }
  if (!cluster->tls.empty()) {
    const auto identity = tls::CheckFiles(cluster->tls, tls::Role::kUser, Clock::Real().Now());
    if (!identity.ok()) {
      terminal_.err << "error: " << identity.status().message() << "\n";
      return kError;
    }
  }
  std::string flags;  // those that were given, for hints
  for (const auto& [flag, value] :
       {std::pair("--context", cluster_.context),
        std::pair("--coordinator", cluster_.cluster.coordinator),
        std::pair("--tls-ca", cluster_.cluster.tls.ca),
        std::pair("--tls-certificate", cluster_.cluster.tls.certificate),
        std::pair("--tls-key", cluster_.cluster.tls.key)}) {
    if (!value.empty()) absl::StrAppend(&flags, " ", flag, " ", value);
  }
  std::optional<SignalThread> signals;
  if (environment_.handle_signals) signals.emplace(environment_.interrupt);
  Client client(cluster->coordinator, cluster->tls, environment_.interrupt);
  return command({.client = client,
                  .interrupt = environment_.interrupt,
                  .terminal = terminal_,
                  .format = format(),
                  .hint_flags = flags,
                  .give_up = environment_.give_up,
                  .retry_interval = environment_.retry_interval});
}

void App::AddExamples(CLI::App* command, const std::vector<std::string>& examples) {
  command->footer(absl::StrJoin(examples, "\n"));
}

CLI::App* App::AddGroup(const char* name, const char* help, std::vector<std::string> examples) {
  CLI::App* group = app_.add_subcommand(name, help);
  group->require_subcommand(1);
  group->fallthrough();
  AddExamples(group, examples);
  return group;
}

CLI::App* App::AddLocal(CLI::App* parent, const char* name, const char* help,
                        std::function<ExitCode()> command, std::vector<std::string> examples) {
  CLI::App* sub = parent->add_subcommand(name, help);
  sub->fallthrough();
  sub->callback([this, command] { action_ = command; });
  AddExamples(sub, examples);
  return sub;
}

CLI::App* App::AddCommand(CLI::App* parent, const char* name, const char* help,
                          std::function<ExitCode(const Session&)> command,
                          std::vector<std::string> examples) {
  return AddLocal(
      parent, name, help, [this, command] { return WithSession(command); }, std::move(examples));
}

void App::AddName(CLI::App* command, const ValueKind& kind) {
  command->add_option(kind, name_, "its name")->required();
}

void App::Choice(CLI::Option* option, const ValueKind& words) {
  const std::vector<std::string> choices = absl::StrSplit(words, '|');
  option->type_name(words)->check(CLI::Validator(
      [choices](std::string& word) -> std::string {
        if (std::count(choices.begin(), choices.end(), word) > 0) return "";
        const std::string near = NearestName(word, choices);
        return absl::StrCat("found \"", word, "\", expected one of: ", absl::StrJoin(choices, ", "),
                            near.empty() ? "" : absl::StrCat("; did you mean \"", near, "\"?"));
      },
      ""));
}

ExitCode RunApp(const std::vector<std::string>& arguments, const AppEnvironment& environment) {
  return App(environment).Run(arguments);
}

}  // namespace stretto::cli
