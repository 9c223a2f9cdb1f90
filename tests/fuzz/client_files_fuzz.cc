// SPDX-License-Identifier: Apache-2.0

// Files and output that the client reads besides job files: its config file, and the commands that
// the other programs print. Every context of a config is found, and so is the cluster that it
// names; what was read is written and read the same. The bytes are also taken for the coordinator
// that a flag or the environment names, and for the help of a command.
#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "coordinator/cli/base/local_cluster.h"
#include "coordinator/cli/client/config.h"
#include "google/protobuf/util/message_differencer.h"
#include "proto/base/check.h"
#include "proto/commands/program.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

constexpr int kLocalPort = 7070;

using google::protobuf::util::MessageDifferencer;
using namespace stretto;  // NOLINT: all of this target is about it

void ReadClusters(const std::string& text, const cli::ConfigFile& config) {
  const fuzz::Folder& folder = fuzz::Folder::Get();
  std::filesystem::create_directory(folder.Path("stretto"));
  folder.Write("stretto/config.yaml", text);
  const cli::Variable variable = [&](const std::string& name) {
    return name == "XDG_CONFIG_HOME" || name == "XDG_STATE_HOME" ? folder.Path("") : std::string();
  };
  // A `stretto up` of this user runs at its port.
  static const auto local =
      *cli::AnnounceLocalCluster(cli::UserStateDir(variable), kLocalPort, "up");
  const std::string path = cli::ConfigPath(variable);
  STRETTO_CHECK(cli::ReadConfig(path).ok());
  for (const std::string& name : cli::ContextNames(config)) {
    STRETTO_CHECK(cli::FindContext(config, name, path).ok());
    const auto cluster = cli::ChooseCluster({.context = name, .cluster = {}}, variable);
    STRETTO_CHECK(cluster.ok() || name.empty());
    if (name.empty()) continue;
    const cli::Context& context = config.contexts().at(name);
    STRETTO_CHECK(cluster->coordinator == context.coordinator());
    const bool alone = context.coordinator() == "127.0.0.1:7070" && !context.has_tls();
    STRETTO_CHECK(!alone || cluster->tls.ca == "up/ca.crt");
  }
  cli::ChooseCluster({}, variable).status().IgnoreError();
  cli::FindContext(config, config.current_context(), path).status().IgnoreError();
  const auto none = cli::FindContext(config, config.current_context() + "x", "");
  STRETTO_CHECK(none.ok() == config.contexts().contains(config.current_context() + "x"));
  STRETTO_CHECK(cli::WriteConfig(path, config).ok());
  const auto again = cli::ReadConfig(path);
  STRETTO_CHECK(again.ok() && MessageDifferencer::Equals(*again, config));
}

void NameCoordinator(const std::string& address) {
  const cli::Variable environment = [&](const std::string& name) -> std::string {
    if (name == "STRETTO_COORDINATOR") return address;
    if (name == "STRETTO_TOKEN_FILE") return "token";
    return name == "HOME" ? fuzz::Folder::Get().Path("home") : "";
  };
  const auto named = cli::ChooseCluster({}, environment);
  const bool good = address.empty() || cli::CheckCoordinator(address).ok();
  STRETTO_CHECK(named.ok() == good && (!good || named->tls.token == "token"));
  // A flag says something else, and calls in another way.
  cli::ClusterFlags flags;
  flags.cluster = {.coordinator = address, .tls = {.ca = "ca", .certificate = "c", .key = "k"}};
  const auto by_flag = cli::ChooseCluster(flags, environment);
  STRETTO_CHECK(by_flag.ok() == good && (!good || by_flag->tls.token.empty()));
  STRETTO_CHECK(cli::ReadConfig(cli::ConfigPath(environment)).ok());  // there is none
  const cli::Variable nothing = [](const std::string&) { return std::string(); };
  STRETTO_CHECK(!cli::WriteConfig(cli::ConfigPath(nothing), {}).ok());
}

void ShowHelp(const std::string& text) {
  CLI::App app(text, "fuzz");
  UseHelpText(&app, "stretto");
  app.add_subcommand("inner", text)->add_option("--flag", text);
  STRETTO_CHECK(!app.get_subcommand("inner")->help().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(stretto::fuzz::TextOf(data, size));
  NameCoordinator(text);
  ShowHelp(text);
  const auto config = cli::ParseConfig(text, "config.yaml");
  if (config.ok()) ReadClusters(text, *config);
  const auto commands = ParseCommands(text);
  if (!commands.ok()) return 0;
  const std::string shown = CommandsDocument(*commands).dump();
  const auto again = ParseCommands(shown);
  STRETTO_CHECK(again.ok() && CommandsDocument(*again).dump() == shown);
  return 0;
}
