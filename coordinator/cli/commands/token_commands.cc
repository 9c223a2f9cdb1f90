// SPDX-License-Identifier: Apache-2.0

// As ca_commands.cc: every command shows the tokens that it concerns in one table or document.

#include "coordinator/cli/commands/token_commands.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "coordinator/ca/token_issuer.h"
#include "coordinator/cli/text/table.h"
#include "proto/base/printable.h"

namespace stretto::cli {
namespace {

ExitCode ReportToken(const Terminal& terminal, const absl::Status& status) {
  terminal.err << "error: " << Printable(status.message()) << "\n";
  return kError;
}

std::string TimeOf(absl::Time time, const char* form) {
  return absl::FormatTime(form, time, absl::UTCTimeZone());
}

const char* StateOfToken(const ca::Issued& token, absl::Time now) {
  if (token.revoked) return "revoked";
  return now < token.end ? "valid" : "expired";
}

void ShowTokens(const Terminal& terminal, OutputFormat format,
                const std::vector<ca::Issued>& tokens, absl::Time now) {
  constexpr char kDay[] = "%Y-%m-%d", kSecond[] = "%Y-%m-%dT%H:%M:%SZ";
  std::vector<std::vector<std::string>> rows;
  Document list = Document::array();
  for (const ca::Issued& one : tokens) {
    const std::string holder(absl::StripPrefix(one.alternative_names, "URI:"));
    rows.push_back({one.name, StateOfToken(one, now), TimeOf(one.end, kDay), one.serial, holder});
    Document token = {{"name", one.name},
                      {"state", StateOfToken(one, now)},
                      {"id", one.serial},
                      {"holder", holder},
                      {"begin_time", TimeOf(one.begin, kSecond)},
                      {"end_time", TimeOf(one.end, kSecond)}};
    if (one.revoked) {
      token["revoke_time"] = TimeOf(*one.revoked, kSecond);
      token["reason"] = one.reason;
    }
    list.push_back(std::move(token));
  }
  if (format == OutputFormat::kTable) {
    terminal.out << Table({"NAME", "STATE", "UNTIL", "ID", "FOR"}, rows);
    return;
  }
  Document answer = Document::object();
  answer["tokens"] = std::move(list);
  terminal.out << TextOf(answer, format);
}

}  // namespace

ExitCode IssueTokens(const Terminal& terminal, const std::string& folder,
                     const std::vector<std::string>& users, int days, OutputFormat format,
                     absl::Time now) {
  std::vector<ca::Holder> holders;
  for (const std::string& user : users) {
    absl::StatusOr<ca::Holder> holder = ca::UserHolder(user);
    if (!holder.ok()) return ReportToken(terminal, holder.status());
    holders.push_back(*std::move(holder));
  }
  absl::StatusOr<ca::TokenIssuer> issuer = ca::TokenIssuer::Open(folder, now);
  if (!issuer.ok()) return ReportToken(terminal, issuer.status());
  std::vector<ca::Issued> made;
  for (const ca::Holder& holder : holders) {
    const auto issued = issuer->Issue(holder, absl::Hours(24) * days, now);
    if (!issued.ok()) return ReportToken(terminal, issued.status());
    made.push_back(*issued);
  }
  ShowTokens(terminal, format, made, now);
  if (issuer->made_key()) {
    terminal.err << Printable(absl::StrCat("the key that signs tokens is ", folder,
                                           "/token.key, made now; the coordinator needs --tokens ",
                                           folder, "/tokens"))
                 << "\n";
  }
  for (const ca::Issued& one : made) {
    terminal.err << Printable(absl::StrCat("the token is in ", folder, "/", one.name,
                                           ".token; give it to its user alone"))
                 << "\n";
  }
  return kOk;
}

ExitCode ListTokens(const Terminal& terminal, const std::string& folder, OutputFormat format,
                    absl::Time now) {
  const absl::StatusOr<ca::Index> index = ca::ReadTokenIndex(folder);
  if (!index.ok()) return ReportToken(terminal, index.status());
  ShowTokens(terminal, format, index->issued, now);
  return kOk;
}

ExitCode RevokeTokens(const Terminal& terminal, const std::string& folder,
                      const std::vector<std::string>& what, const std::string& reason,
                      OutputFormat format, absl::Time now) {
  // A folder without tokens does not get a key by this.
  if (const auto index = ca::ReadTokenIndex(folder); !index.ok()) {
    return ReportToken(terminal, index.status());
  }
  absl::StatusOr<ca::TokenIssuer> issuer = ca::TokenIssuer::Open(folder, now);
  if (!issuer.ok()) return ReportToken(terminal, issuer.status());
  std::vector<ca::Issued> revoked;
  for (const std::string& one : what) {
    const absl::StatusOr<std::vector<ca::Issued>> meant = issuer->Revoke(one, reason, now);
    if (!meant.ok()) return ReportToken(terminal, meant.status());
    revoked.insert(revoked.end(), meant->begin(), meant->end());
  }
  ShowTokens(terminal, format, revoked, now);
  terminal.err << Printable(absl::StrCat(
                      "copy ", folder, "/tokens to the file that the coordinator has as --tokens"))
               << "\n";
  return kOk;
}

}  // namespace stretto::cli
