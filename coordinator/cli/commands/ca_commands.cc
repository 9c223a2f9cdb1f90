// SPDX-License-Identifier: Apache-2.0

// Every command opens the CA, which is locked meanwhile, and shows the certificates that it
// concerns in one table or document. All of a command line is checked before anything is issued.

#include "coordinator/cli/commands/ca_commands.h"

#include <map>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "coordinator/ca/authority.h"
#include "coordinator/cli/text/table.h"
#include "proto/base/nearest_name.h"
#include "proto/base/printable.h"
#include "proto/base/status_macros.h"

namespace stretto::cli {
namespace {

using ca::Authority;
using ca::Issued;

ExitCode ReportCa(const Terminal& terminal, const absl::Status& status) {
  terminal.err << "error: " << Printable(status.message()) << "\n";
  return kError;
}

std::string Day(absl::Time time) { return absl::FormatTime("%Y-%m-%d", time, absl::UTCTimeZone()); }

std::string Second(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

// The newest certificate of each name.
std::map<std::string, Issued> Newest(const std::vector<Issued>& issued) {
  std::map<std::string, Issued> newest;
  for (const Issued& one : issued) newest.insert_or_assign(one.name, one);
  return newest;
}

const char* StateOf(const Issued& issued, const std::map<std::string, Issued>& newest,
                    absl::Time now) {
  if (issued.revoked) return "revoked";
  if (now > issued.end) return "expired";
  const auto found = newest.find(issued.name);
  if (found != newest.end() && found->second.serial != issued.serial) return "replaced";
  return issued.DueAt(now) ? "due" : "valid";
}

// Shows `shown` of the certificates of the CA.
void Show(const Terminal& terminal, OutputFormat format, const std::vector<Issued>& shown,
          const std::vector<Issued>& all, absl::Time now) {
  const std::map<std::string, Issued> newest = Newest(all);
  if (format == OutputFormat::kTable) {
    std::vector<std::vector<std::string>> rows;
    for (const Issued& one : shown) {
      rows.push_back(
          {one.name, StateOf(one, newest, now), Day(one.end), one.serial, one.alternative_names});
    }
    terminal.out << Table({"NAME", "STATE", "UNTIL", "SERIAL", "FOR"}, rows);
    return;
  }
  Document certificates = Document::array();
  for (const Issued& one : shown) {
    Document certificate = {{"name", one.name},
                            {"state", StateOf(one, newest, now)},
                            {"serial", one.serial},
                            {"alternative_names", one.alternative_names},
                            {"begin_time", Second(one.begin)},
                            {"end_time", Second(one.end)}};
    if (one.revoked) {
      certificate["revoke_time"] = Second(*one.revoked);
      certificate["reason"] = one.reason;
    }
    certificates.push_back(std::move(certificate));
  }
  Document answer = Document::object();
  answer["certificates"] = std::move(certificates);
  terminal.out << TextOf(answer, format);
}

absl::StatusOr<std::vector<ca::Holder>> HoldersOf(const IssueOptions& options) {
  std::vector<ca::Holder> holders;
  if (!options.hosts.empty()) {
    ASSIGN_OR_RETURN(ca::Holder coordinator, ca::CoordinatorHolder(options.hosts));
    holders.push_back(std::move(coordinator));
  }
  for (const std::string& worker : options.workers) {
    ASSIGN_OR_RETURN(ca::Holder holder, ca::WorkerHolder(worker));
    holders.push_back(std::move(holder));
  }
  if (options.any_worker) holders.push_back(ca::AnyWorkerHolder());
  for (const std::string& user : options.users) {
    ASSIGN_OR_RETURN(ca::Holder holder, ca::UserHolder(user));
    holders.push_back(std::move(holder));
  }
  if (!holders.empty()) return holders;
  return absl::InvalidArgumentError(
      "found nobody to issue a certificate for, expected --coordinator-host HOST..., --worker "
      "NAME..., --any-worker or --user NAME[/ROLE/PROJECT]...[/ROLE]");
}

// Without names: those whose newest certificate is due, and not revoked.
absl::StatusOr<std::vector<Issued>> ToRotate(const std::vector<Issued>& issued,
                                             const std::vector<std::string>& names,
                                             absl::Time now) {
  const std::map<std::string, Issued> newest = Newest(issued);
  std::vector<Issued> chosen;
  std::vector<std::string> known;
  for (const auto& [name, one] : newest) {
    known.push_back(name);
    if (names.empty() && !one.revoked && one.DueAt(now)) chosen.push_back(one);
  }
  for (const std::string& name : names) {
    const auto found = newest.find(name);
    if (found == newest.end()) {
      const std::string near = NearestName(name, known);
      return absl::NotFoundError(
          absl::StrCat("found no certificate with the name \"", name,
                       "\", expected one that `stretto ca list` shows",
                       near.empty() ? "" : absl::StrCat("; did you mean \"", near, "\"?")));
    }
    chosen.push_back(found->second);
  }
  return chosen;
}

}  // namespace

ExitCode InitCa(const Terminal& terminal, const std::string& folder, const std::string& name,
                int days, absl::Time now) {
  std::string own_name = name;
  if (own_name.empty()) own_name = absl::StrCat("Stretto CA ", ca::NewSerial().substr(0, 8));
  const absl::StatusOr<Authority> authority =
      Authority::Create(folder, own_name, absl::Hours(24) * days, now);
  if (!authority.ok()) return ReportCa(terminal, authority.status());
  terminal.err << Printable(absl::StrCat(authority->name(), " made in ", folder, ", valid until ",
                                         Day(authority->end())))
               << "\nca.key signs for the whole cluster: keep it away from the nodes\nNext:\n"
               << Printable(
                      absl::StrCat("  stretto ca issue ", folder,
                                   " --coordinator-host HOST --worker NAME --user NAME/admin"))
               << "\n";
  return kOk;
}

ExitCode IssueCertificates(const Terminal& terminal, const IssueOptions& options,
                           OutputFormat format, absl::Time now) {
  const absl::StatusOr<std::vector<ca::Holder>> holders = HoldersOf(options);
  if (!holders.ok()) return ReportCa(terminal, holders.status());
  absl::StatusOr<Authority> authority = Authority::Open(options.folder);
  if (!authority.ok()) return ReportCa(terminal, authority.status());
  std::vector<Issued> made;
  for (const ca::Holder& holder : *holders) {
    const auto issued = authority->Issue(holder, absl::Hours(24) * options.days, now);
    if (!issued.ok()) return ReportCa(terminal, issued.status());
    made.push_back(*issued);
  }
  Show(terminal, format, made, authority->issued(), now);
  return kOk;
}

ExitCode RotateCertificates(const Terminal& terminal, const std::string& folder,
                            const std::vector<std::string>& names, int days, OutputFormat format,
                            absl::Time now) {
  absl::StatusOr<Authority> authority = Authority::Open(folder);
  if (!authority.ok()) return ReportCa(terminal, authority.status());
  const absl::StatusOr<std::vector<Issued>> chosen = ToRotate(authority->issued(), names, now);
  if (!chosen.ok()) return ReportCa(terminal, chosen.status());
  std::vector<Issued> made;
  for (const Issued& old : *chosen) {
    const absl::Duration lifetime =
        days > 0 ? absl::Hours(24) * days : old.end - old.begin - ca::kBackdate;
    const auto issued = authority->Issue({old.name, old.alternative_names}, lifetime, now);
    if (!issued.ok()) return ReportCa(terminal, issued.status());
    made.push_back(*issued);
  }
  if (made.empty() && format == OutputFormat::kTable) {
    terminal.err << "no certificate is due: each has a third of its lifetime left\n";
    return kOk;
  }
  Show(terminal, format, made, authority->issued(), now);
  return kOk;
}

ExitCode ListCertificates(const Terminal& terminal, const std::string& folder, OutputFormat format,
                          absl::Time now) {
  const absl::StatusOr<ca::Index> index = ca::ReadIndex(folder);
  if (!index.ok()) return ReportCa(terminal, index.status());
  Show(terminal, format, index->issued, index->issued, now);
  return kOk;
}

ExitCode RevokeCertificates(const Terminal& terminal, const std::string& folder,
                            const std::vector<std::string>& what, const std::string& reason,
                            OutputFormat format, absl::Time now) {
  absl::StatusOr<Authority> authority = Authority::Open(folder);
  if (!authority.ok()) return ReportCa(terminal, authority.status());
  std::vector<Issued> revoked;
  for (const std::string& one : what) {
    const absl::StatusOr<std::vector<Issued>> meant = authority->Revoke(one, reason, now);
    if (!meant.ok()) return ReportCa(terminal, meant.status());
    revoked.insert(revoked.end(), meant->begin(), meant->end());
  }
  Show(terminal, format, revoked, authority->issued(), now);
  terminal.err << Printable(absl::StrCat(
                      "the revocation list is ", folder,
                      "/ca.crl; copy it to the file that the coordinator has as --tls-crl"))
               << "\n";
  return kOk;
}

}  // namespace stretto::cli
