// SPDX-License-Identifier: Apache-2.0

// Every command reads the whole config file. Commands that change it write it back through Store,
// which reports the path if that fails. Paths of certificates are stored as absolute paths, so that
// a context works from any folder.

#include "coordinator/cli/commands/config_commands.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/text/table.h"
#include "coordinator/cli/yaml/message_text.h"
#include "proto/base/ids.h"
#include "proto/base/printable.h"

namespace stretto::cli {
namespace {

ExitCode Report(const Terminal& terminal, const absl::Status& status) {
  terminal.err << "error: " << Printable(status.message()) << "\n";
  return kError;
}

// Writes the changed config and reports what was done.
ExitCode Store(const Terminal& terminal, const std::string& path, const ConfigFile& config,
               const std::string& done) {
  if (const absl::Status status = WriteConfig(path, config); !status.ok()) {
    return Report(terminal, status);
  }
  terminal.err << done << "\n";
  return kOk;
}

// Stores a path that is relative to the shell's folder as an absolute one.
void SetPath(const std::string& from, std::string* to) {
  std::error_code error;
  if (!from.empty()) *to = std::filesystem::absolute(from, error).lexically_normal().string();
}

}  // namespace

ExitCode ViewConfig(const Terminal& terminal, const std::string& path, OutputFormat format) {
  const absl::StatusOr<ConfigFile> config = ReadConfig(path);
  if (!config.ok()) return Report(terminal, config.status());
  terminal.out << TextOf(ToDocument(*config, Zeros::kOmitted),
                         format == OutputFormat::kTable ? OutputFormat::kYaml : format);
  return kOk;
}

ExitCode ListContexts(const Terminal& terminal, const std::string& path, OutputFormat format) {
  if (format != OutputFormat::kTable) return ViewConfig(terminal, path, format);
  const absl::StatusOr<ConfigFile> config = ReadConfig(path);
  if (!config.ok()) return Report(terminal, config.status());
  std::vector<std::vector<std::string>> rows;
  for (const std::string& name : ContextNames(*config)) {
    const Context& context = config->contexts().at(name);
    rows.push_back({name == config->current_context() ? "*" : "", Printable(name),
                    Printable(context.coordinator()), context.has_tls() ? "yes" : "no"});
  }
  if (rows.empty()) {
    terminal.err << "no contexts yet\nNext:\n  stretto config set-context NAME --coordinator "
                    "HOST:PORT\n";
  } else {
    terminal.out << Table({"CURRENT", "NAME", "COORDINATOR", "TLS"}, rows);
  }
  return kOk;
}

ExitCode UseContext(const Terminal& terminal, const std::string& path, const std::string& name) {
  absl::StatusOr<ConfigFile> config = ReadConfig(path);
  if (!config.ok()) return Report(terminal, config.status());
  const absl::StatusOr<Context> context = FindContext(*config, name, path);
  if (!context.ok()) return Report(terminal, context.status());
  config->set_current_context(name);
  return Store(
      terminal, path, *config,
      absl::StrCat("the current context is now ", name, ": ", Printable(context->coordinator())));
}

ExitCode SetContext(const Terminal& terminal, const std::string& path, const std::string& name,
                    const Cluster& cluster) {
  absl::StatusOr<ConfigFile> config = ReadConfig(path);
  if (!config.ok()) return Report(terminal, config.status());
  const bool known = config->contexts().count(name) > 0;
  if (!known && !IsValidName(name)) {
    terminal.err << "error: context name: found \"" << Printable(name)
                 << "\", expected 1 to 63 characters of a-z, 0-9 and '-', starting with a letter "
                    "and not ending with '-'\n";
    return kError;
  }
  if (!known && cluster.coordinator.empty()) {
    terminal.err << "error: context " << name
                 << ": found no coordinator, expected --coordinator HOST:PORT\n";
    return kError;
  }
  const absl::Status valid =
      cluster.coordinator.empty() ? absl::OkStatus() : CheckCoordinator(cluster.coordinator);
  if (!valid.ok()) {
    terminal.err << "error: --coordinator: " << Printable(valid.message()) << "\n";
    return kError;
  }
  Context& context = (*config->mutable_contexts())[name];
  if (!cluster.coordinator.empty()) context.set_coordinator(cluster.coordinator);
  if (!cluster.tls.empty()) {
    // As in ChooseCluster, the one takes the place of the other.
    if (!cluster.tls.token.empty()) {
      context.mutable_tls()->clear_certificate();
      context.mutable_tls()->clear_key();
    } else if (!cluster.tls.certificate.empty() || !cluster.tls.key.empty()) {
      context.mutable_tls()->clear_token_file();
    }
    SetPath(cluster.tls.ca, context.mutable_tls()->mutable_ca());
    SetPath(cluster.tls.certificate, context.mutable_tls()->mutable_certificate());
    SetPath(cluster.tls.key, context.mutable_tls()->mutable_key());
    SetPath(cluster.tls.token, context.mutable_tls()->mutable_token_file());
  }
  const std::string next = config->current_context() == name
                               ? ""
                               : absl::StrCat("\nNext:\n  stretto config use-context ", name);
  return Store(terminal, path, *config,
               absl::StrCat("context ", name, known ? " changed" : " created", next));
}

ExitCode DeleteContext(const Terminal& terminal, const std::string& path, const std::string& name) {
  absl::StatusOr<ConfigFile> config = ReadConfig(path);
  if (!config.ok()) return Report(terminal, config.status());
  const absl::StatusOr<Context> context = FindContext(*config, name, path);
  if (!context.ok()) return Report(terminal, context.status());
  config->mutable_contexts()->erase(name);
  const bool current = config->current_context() == name;
  if (current) config->clear_current_context();
  return Store(terminal, path, *config,
               absl::StrCat("context ", name, " deleted",
                            current ? "; there is no current context now" : ""));
}

}  // namespace stretto::cli
