// SPDX-License-Identifier: Apache-2.0

// As cluster_flags.cc: one function per command declares the flags, binds each to a value that the
// command's callback keeps alive, and calls the command with them. Certificates and tokens are
// listed and revoked in the same way.

#include "coordinator/cli/ca_flags.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "coordinator/ca/index.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/commands/ca_commands.h"
#include "coordinator/cli/commands/token_commands.h"
#include "proto/base/clock.h"
#include "proto/commands/choice.h"
#include "proto/commands/ranges.h"

namespace stretto::cli {
namespace {

// Certificates that live longer are not taken back in time by their end.
constexpr int kMostDays = 825;
constexpr int kMostCaDays = 7300;
constexpr int kMostTokenDays = 366;

void AddFolder(CLI::App* command, std::string* folder) {
  command->add_option("DIR", *folder, "folder of the CA")->required();
}

CLI::Option* AddUsers(CLI::App* command, std::vector<std::string>* users) {
  return command
      ->add_option("--user", *users,
                   "users with their roles, as NAME[/ROLE/PROJECT]...[/ROLE]: each role in a "
                   "project, the last one in all; without any, submitter in project default")
      ->type_name("USER");
}

void AddDays(CLI::App* command, int* days, int most, const char* what) {
  command->add_option("--days", *days, absl::StrCat("days for which ", what, " valid"))
      ->check(Integer(1, most))
      ->capture_default_str();
}

void AddInit(CommandLine& line, CLI::App* parent) {
  struct Flags {
    std::string folder, name;
    int days = 3650;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* command =
      line.AddLocal(parent, "init", "Make a certificate authority in a folder",
                    [&line, flags] {
                      return InitCa(line.terminal(), flags->folder, flags->name, flags->days,
                                    Clock::Real().Now());
                    },
                    {"stretto ca init tls", "stretto ca init tls --name 'CA of lab' --days 1825"});
  AddFolder(command, &flags->folder);
  command
      ->add_option("--name", flags->name, "name of the CA (default: a name with a random number)")
      ->type_name("NAME");
  AddDays(command, &flags->days, kMostCaDays, "the CA is");
}

void AddIssue(CommandLine& line, CLI::App* parent) {
  const auto flags = std::make_shared<IssueOptions>();
  CLI::App* command = line.AddLocal(
      parent, "issue", "Make keys and certificates of the coordinator, workers and users",
      [&line, flags] {
        return IssueCertificates(line.terminal(), *flags, line.format(), Clock::Real().Now());
      },
      {"stretto ca issue tls --coordinator-host 10.0.0.1 --worker node-a node-b",
       "stretto ca issue tls --user alice/submitter/speech ada/admin --days 30"});
  AddFolder(command, &flags->folder);
  command
      ->add_option("--coordinator-host", flags->hosts,
                   "names and addresses that clients reach the coordinator by; all of them are "
                   "in one certificate")
      ->type_name("HOST");
  command->add_option("--worker", flags->workers, "the --name of each worker")->type_name("NAME");
  command->add_flag("--any-worker", flags->any_worker,
                    "one certificate without a name for all workers, as pods of Kubernetes share "
                    "it: each of them can then pass for any other");
  AddUsers(command, &flags->users);
  AddDays(command, &flags->days, kMostDays, "the certificates are");
}

void AddRotate(CommandLine& line, CLI::App* parent) {
  struct Flags {
    std::string folder;
    std::vector<std::string> names;
    int days = 0;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* command = line.AddLocal(
      parent, "rotate", "Make new keys and certificates in place of those that will expire",
      [&line, flags] {
        return RotateCertificates(line.terminal(), flags->folder, flags->names, flags->days,
                                  line.format(), Clock::Real().Now());
      },
      {"stretto ca rotate tls", "stretto ca rotate tls worker-node-a user-alice"});
  AddFolder(command, &flags->folder);
  command->add_option("NAME", flags->names,
                      "names that `stretto ca list` shows (default: those with less than a third "
                      "of their lifetime left)");
  command
      ->add_option("--days", flags->days,
                   "days for which the certificates are valid (default: as many as before)")
      ->check(Integer(1, kMostDays));
}

void AddTokenIssue(CommandLine& line, CLI::App* parent) {
  struct Flags {
    std::string folder;
    std::vector<std::string> users;
    int days = 30;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* command =
      line.AddLocal(parent, "issue", "Make tokens of users, in DIR/user-NAME.token",
                    [&line, flags] {
                      return IssueTokens(line.terminal(), flags->folder, flags->users, flags->days,
                                         line.format(), Clock::Real().Now());
                    },
                    {"stretto ca token issue tls --user alice/submitter/speech",
                     "stretto ca token issue tls --user dash/viewer --days 7"});
  AddFolder(command, &flags->folder);
  AddUsers(command, &flags->users)->required();
  AddDays(command, &flags->days, kMostTokenDays, "the tokens are");
}

using ListCommand = ExitCode (*)(const Terminal&, const std::string& folder, OutputFormat,
                                 absl::Time now);

void AddCaList(CommandLine& line, CLI::App* parent, const char* help, ListCommand list,
               const std::vector<std::string>& examples) {
  const auto folder = std::make_shared<std::string>();
  const auto command = [&line, list, folder] {
    return list(line.terminal(), *folder, line.format(), Clock::Real().Now());
  };
  AddFolder(line.AddLocal(parent, "list", help, command, examples), folder.get());
}

using RevokeCommand = ExitCode (*)(const Terminal&, const std::string& folder,
                                   const std::vector<std::string>& what, const std::string& reason,
                                   OutputFormat, absl::Time now);

void AddRevoke(CommandLine& line, CLI::App* parent, const char* help, const char* what,
               RevokeCommand revoke, const std::vector<std::string>& examples) {
  struct Flags {
    std::string folder, reason = ca::kReasons[0];
    std::vector<std::string> what;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* command = line.AddLocal(
      parent, "revoke", help,
      [&line, revoke, flags] {
        return revoke(line.terminal(), flags->folder, flags->what, flags->reason, line.format(),
                      Clock::Real().Now());
      },
      examples);
  AddFolder(command, &flags->folder);
  command->add_option("WHAT", flags->what, what)->required();
  CLI::Option* const reason =
      command->add_option("--reason", flags->reason, "reason to record")->capture_default_str();
  Choice(reason, absl::StrJoin(ca::kReasons, "|"));
}

void AddTokenCommands(CommandLine& line, CLI::App* ca) {
  CLI::App* group = line.AddGroup(
      ca, "token", "Make and revoke tokens, by which users call without certificates",
      {"stretto ca token issue tls --user ann/submitter/speech", "stretto ca token list tls"});
  AddTokenIssue(line, group);
  AddCaList(line, group, "List the tokens that were issued in a folder", &ListTokens,
            {"stretto ca token list tls", "stretto ca token list tls -o json"});
  AddRevoke(line, group, "Revoke tokens, and write DIR/tokens for the coordinator",
            "names, which mean all valid tokens of that name, or ids of tokens", &RevokeTokens,
            {"stretto ca token revoke tls user-bob --reason keyCompromise",
             "stretto ca token revoke tls 4f0c62b19b1d6b3a7f0e5f5a1c2d3e4f"});
}

}  // namespace

void AddCaCommands(CommandLine& line) {
  CLI::App* group = line.AddGroup(
      "ca", "Make and revoke certificates for a small cluster",
      {"stretto ca init tls", "stretto ca issue tls --coordinator-host 10.0.0.1 --user ann"});
  AddInit(line, group);
  AddIssue(line, group);
  AddRotate(line, group);
  AddCaList(line, group, "List the certificates that a CA has issued", &ListCertificates,
            {"stretto ca list tls", "stretto ca list tls -o json"});
  AddRevoke(line, group, "Revoke certificates, and write the revocation list DIR/ca.crl",
            "names, which mean all valid certificates of that name, or serial numbers",
            &RevokeCertificates,
            {"stretto ca revoke tls user-bob --reason cessationOfOperation",
             "stretto ca revoke tls 4f0c62b19b1d6b3a7f0e5f5a1c2d3e4f"});
  AddTokenCommands(line, group);
}

}  // namespace stretto::cli
