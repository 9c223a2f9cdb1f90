// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/token_flags.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "coordinator/ca/index.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/commands/token_commands.h"
#include "proto/base/clock.h"
#include "proto/commands/choice.h"
#include "proto/commands/ranges.h"

namespace stretto::cli {
namespace {

constexpr int kMostTokenDays = 366;
constexpr char kFolderHelp[] = "folder of the CA";

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
  command->add_option("DIR", flags->folder, kFolderHelp)->required();
  command
      ->add_option("--user", flags->users,
                   "users with their roles, as NAME[/ROLE/PROJECT]...[/ROLE]: each role in a "
                   "project, the last one in all; without any, submitter in project default")
      ->type_name("USER")
      ->required();
  command->add_option("--days", flags->days, "days for which the tokens are valid")
      ->check(Integer(1, kMostTokenDays))
      ->capture_default_str();
}

void AddTokenList(CommandLine& line, CLI::App* parent) {
  const auto folder = std::make_shared<std::string>();
  line.AddLocal(parent, "list", "List the tokens that were issued in a folder",
                [&line, folder] {
                  return ListTokens(line.terminal(), *folder, line.format(), Clock::Real().Now());
                },
                {"stretto ca token list tls", "stretto ca token list tls -o json"})
      ->add_option("DIR", *folder, kFolderHelp)
      ->required();
}

void AddTokenRevoke(CommandLine& line, CLI::App* parent) {
  struct Flags {
    std::string folder, reason = ca::kReasons[0];
    std::vector<std::string> what;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* command =
      line.AddLocal(parent, "revoke", "Revoke tokens, and write DIR/tokens for the coordinator",
                    [&line, flags] {
                      return RevokeTokens(line.terminal(), flags->folder, flags->what,
                                          flags->reason, line.format(), Clock::Real().Now());
                    },
                    {"stretto ca token revoke tls user-bob --reason keyCompromise",
                     "stretto ca token revoke tls 4f0c62b19b1d6b3a7f0e5f5a1c2d3e4f"});
  command->add_option("DIR", flags->folder, kFolderHelp)->required();
  command
      ->add_option("WHAT", flags->what,
                   "names, which mean all valid tokens of that name, or ids of tokens")
      ->required();
  CLI::Option* const reason =
      command->add_option("--reason", flags->reason, "reason to record")->capture_default_str();
  Choice(reason, absl::StrJoin(ca::kReasons, "|"));
}

}  // namespace

void AddTokenCommands(CommandLine& line, CLI::App* ca) {
  CLI::App* group = line.AddGroup(
      ca, "token", "Make and revoke tokens, by which users call without certificates",
      {"stretto ca token issue tls --user ann/submitter/speech", "stretto ca token list tls"});
  AddTokenIssue(line, group);
  AddTokenList(line, group);
  AddTokenRevoke(line, group);
}

}  // namespace stretto::cli
