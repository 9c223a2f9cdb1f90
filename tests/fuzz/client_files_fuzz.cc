// SPDX-License-Identifier: Apache-2.0

// Files and output that the client reads besides job files: its config file, and the commands that
// the other programs print. Every context of a config is found, and so is the cluster that it names;
// what was read is written and read the same.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "coordinator/cli/client/config.h"
#include "google/protobuf/util/message_differencer.h"
#include "proto/base/check.h"
#include "proto/commands/program.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using google::protobuf::util::MessageDifferencer;
using namespace stretto;  // NOLINT: all of this target is about it

void ReadClusters(const std::string& text, const cli::ConfigFile& config) {
  const fuzz::Folder& folder = fuzz::Folder::Get();
  std::filesystem::create_directory(folder.Path("stretto"));
  folder.Write("stretto/config.yaml", text);
  const cli::Variable variable = [&](const std::string& name) {
    return name == "XDG_CONFIG_HOME" ? folder.Path("") : std::string();
  };
  const std::string path = cli::ConfigPath(variable);
  STRETTO_CHECK(cli::ReadConfig(path).ok());
  for (const std::string& name : cli::ContextNames(config)) {
    STRETTO_CHECK(cli::FindContext(config, name, path).ok());
    const auto cluster = cli::ChooseCluster({.context = name, .cluster = {}}, variable);
    STRETTO_CHECK(cluster.ok() || name.empty());
    STRETTO_CHECK(name.empty() || cluster->coordinator == config.contexts().at(name).coordinator());
  }
  cli::ChooseCluster({}, variable).status().IgnoreError();
  cli::FindContext(config, config.current_context(), path).status().IgnoreError();
  STRETTO_CHECK(cli::WriteConfig(path, config).ok());
  const auto again = cli::ReadConfig(path);
  STRETTO_CHECK(again.ok() && MessageDifferencer::Equals(*again, config));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(stretto::fuzz::TextOf(data, size));
  const auto config = cli::ParseConfig(text, "config.yaml");
  if (config.ok()) ReadClusters(text, *config);
  const auto commands = ParseCommands(text);
  if (!commands.ok()) return 0;
  const std::string shown = CommandsDocument(*commands).dump();
  const auto again = ParseCommands(shown);
  STRETTO_CHECK(again.ok() && CommandsDocument(*again).dump() == shown);
  return 0;
}
