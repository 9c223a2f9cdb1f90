// Commands about the commands: help, completion, man page, version.
#include <algorithm>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/app_tree.h"
#include "coordinator/cli/client/client.h"
#include "coordinator/cli/other_programs.h"
#include "coordinator/cli/text/names.h"
#include "proto/base/version.h"
#include "proto/spec/presets.h"

namespace stretto::cli {
namespace {

// A shell that completes waits no longer for names.
constexpr absl::Duration kNamesDeadline = absl::Seconds(1);
constexpr int kMaxNames = 200;

ExitCode PrintVersion(const Terminal& terminal, OutputFormat format) {
  std::vector<std::string> presets;
  for (const ModelPreset& preset : kModelPresets) presets.push_back(preset.name);
  switch (format) {
    case OutputFormat::kJson:
      terminal.out << "{\"version\":\"" << kBuildVersion << "\",\"protocol\":" << kProtocolVersion
                   << ",\"presets\":[\"" << absl::StrJoin(presets, "\",\"") << "\"]}\n";
      break;
    case OutputFormat::kYaml:
      terminal.out << "version: " << kBuildVersion << "\nprotocol: " << kProtocolVersion
                   << "\npresets: [" << absl::StrJoin(presets, ", ") << "]\n";
      break;
    case OutputFormat::kTable:
      terminal.out << "stretto " << kBuildVersion << "\nprotocol " << kProtocolVersion
                   << "\nmodel presets: " << absl::StrJoin(presets, ", ") << "\n";
  }
  return kOk;
}

}  // namespace

void App::AddHelp() {
  for (const OtherProgram& other : kOtherPrograms) {
    CLI::App* command = AddLocal(&app_, other.command, other.help,
                                 [this, &other] {
                                   terminal_.err << "error: flags before `" << other.command
                                                 << "`, expected `stretto " << other.command
                                                 << " ...`\n";
                                   return kUsage;
                                 },
                                 {std::begin(other.examples), std::end(other.examples)});
    command->fallthrough(false)->allow_extras();
    command->add_option("FILE", names_, "its own arguments");
  }
  AddLocal(&app_, "version", "Print version and model presets",
           [this] { return PrintVersion(terminal_, format()); },
           {"stretto version", "stretto version -o json"});
  AddCompletion();
  AddLocal(&app_, "help", "Print help of a command", [this] { return PrintHelp(); },
           {"stretto help job", "stretto help job submit"})
      ->add_option("COMMAND", names_, "its words; none: the whole program");
}

void App::AddCompletion() {
  Choice(
      AddLocal(&app_, "completion", "Print a script that completes commands in a shell",
               [this] {
                 terminal_.out << CompletionScript(shell_);
                 return kOk;
               },
               {"source <(stretto completion bash)", "stretto completion zsh > ~/.zfunc/_stretto",
                "stretto completion fish > ~/.config/fish/completions/stretto.fish"})
          ->add_option("SHELL", shell_, "one of")
          ->required(),
      "bash|zsh|fish");
}

// From the root along `names_`; ends early where one is unknown.
std::vector<const CommandInfo*> App::FindCommands(const CommandInfo& root) const {
  std::vector<const CommandInfo*> path = {&root};
  for (const std::string& name : names_) {
    const std::vector<CommandInfo>& commands = path.back()->commands;
    const auto found = std::find_if(commands.begin(), commands.end(),
                                    [&](const auto& command) { return command.name == name; });
    if (found == commands.end()) break;
    path.push_back(&*found);
  }
  return path;
}

ExitCode App::PrintHelp() {
  const std::string unknown = UnknownWord(names_);
  const CommandInfo root = ReadCommands(app_);
  const std::vector<const CommandInfo*> path = FindCommands(root);
  if (path.size() <= names_.size()) {
    terminal_.err << "error: "
                  << (unknown.empty()
                          ? absl::StrCat("unknown command \"", absl::StrJoin(names_, " "), "\"")
                          : unknown)
                  << "\n";
    return kUsage;
  }
  terminal_.out << HelpText(path);
  return kOk;
}

ExitCode App::PrintManPage() {
  terminal_.out << ManPage(ReadCommands(app_), kBuildVersion);
  return kOk;
}

ExitCode App::PrintCompletion(const std::vector<std::string>& words) {
  const Completion completion = Complete(
      ReadCommands(app_), words,
      [this](const ValueKind& kind, const GivenFlags& given) { return AskNames(kind, given); });
  for (const Reply& reply : completion.replies) {
    terminal_.out << reply.word << (reply.help.empty() ? "" : "\t") << reply.help << "\n";
  }
  if (completion.files) terminal_.out << ":files\n";
  return kOk;
}

// None when the cluster, or the config, does not answer: completion keeps silent.
std::vector<std::string> App::AskNames(const ValueKind& kind, const GivenFlags& given) {
  const auto value = [&](const char* flag) {
    const auto found = given.find(flag);
    return found == given.end() ? "" : found->second;
  };
  std::vector<std::string> names;
  if (kind == "CONTEXT") {
    const absl::StatusOr<ConfigFile> config = ReadConfig(ConfigPath(environment_.variable));
    return config.ok() ? ContextNames(*config) : names;
  }
  const absl::StatusOr<Cluster> cluster =
      ChooseCluster({.context = value("--context"),
                     .cluster = {.coordinator = value("--coordinator"),
                                 .tls = {.ca = value("--tls-ca"),
                                         .certificate = value("--tls-certificate"),
                                         .key = value("--tls-key")}}},
                    environment_.variable);
  if (!cluster.ok()) return names;
  Client client(cluster->coordinator, cluster->tls, environment_.interrupt);
  client.set_call_deadline(kNamesDeadline);
  if (kind == "JOB") {
    v1alpha1::ListJobsRequest request;
    request.set_page_size(kMaxNames);
    const auto jobs = client.ListJobs(request);
    if (!jobs.ok()) return names;
    for (const v1alpha1::Job& job : jobs->jobs()) names.push_back(ShortResourceName(job.name()));
  } else {
    v1alpha1::ListWorkersRequest request;
    request.set_page_size(kMaxNames);
    const auto workers = client.ListWorkers(request);
    if (!workers.ok()) return names;
    for (const v1alpha1::Worker& worker : workers->workers()) {
      names.push_back(ShortResourceName(worker.name()));
    }
  }
  return names;
}

}  // namespace stretto::cli
