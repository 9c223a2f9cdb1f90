// SPDX-License-Identifier: Apache-2.0

// Decides who may look, finds what a path names, and adds the headers that confine the page: it
// loads and runs nothing but its own files, sends nothing, and no other page may read or frame it.

#include "coordinator/page/page.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "coordinator/page/answers.h"
#include "coordinator/page/files.h"
#include "proto/base/address.h"
#include "proto/base/files.h"
#include "proto/base/printable.h"
#include "proto/base/random_bytes.h"
#include "proto/base/status_macros.h"
#include "proto/tls/callers.h"
#include "proto/tls/x509.h"

namespace stretto::page {
namespace {

using monitoring::Answer;
using monitoring::Request;

constexpr char kJson[] = "application/json; charset=utf-8";
constexpr char kSvg[] = "image/svg+xml; charset=utf-8";
// What a browser may do with an answer besides showing it.
constexpr char kPagePolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
// A picture has its style inside, and nothing to load.
constexpr char kPicturePolicy[] = "default-src 'none'; style-src 'unsafe-inline'";

std::string Confined(const char* policy) {
  return absl::StrCat("Content-Security-Policy: ", policy,
                      "\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
                      "Cross-Origin-Resource-Policy: same-origin\r\n"
                      "Cross-Origin-Opener-Policy: same-origin\r\n");
}

int CodeOf(const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) return 400;
  if (absl::IsUnauthenticated(status)) return 401;
  if (absl::IsPermissionDenied(status)) return 403;
  if (absl::IsNotFound(status)) return 404;
  return absl::IsFailedPrecondition(status) ? 409 : 503;
}

// A page of somebody else, whose name leads to this address for a moment, could read what this port
// shows to its reader. Its requests have that name.
absl::Status CheckHost(const std::string& host) {
  if (host.empty()) return absl::OkStatus();  // no browser
  absl::string_view name = host;
  if (const size_t end = name.rfind(']'); end != absl::string_view::npos) {
    name = name.substr(0, end);
    absl::ConsumePrefix(&name, "[");
  } else {
    name = name.substr(0, name.find(':'));
  }
  in6_addr address;
  const std::string text(name);
  if (absl::EqualsIgnoreCase(name, "localhost") ||
      inet_pton(AF_INET, text.c_str(), &address) == 1 ||
      inet_pton(AF_INET6, text.c_str(), &address) == 1) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      absl::StrCat("the page: found Host ", Escaped(host), ", expected localhost or a number"));
}

// A browser shows a certificate to whatever asks for this address, also to a page of somebody else.
// Such a page can send this header only after a question of the browser (CORS), which is refused as
// every method but GET and HEAD is.
absl::Status CheckOwnScript(const Request& request) {
  if (!request.stretto_page.empty()) return absl::OkStatus();
  return absl::PermissionDeniedError(
      "the page: found a certificate without the header Stretto-Page, expected both, as the page's "
      "own script sends them: browsers show a certificate to requests of other pages too");
}

tls::Shown ShownBy(const Request& request) {
  tls::Shown shown{.certificate = request.certificate};
  for (const tls::X509Pointer& own : tls::ReadCertificates(request.certificate)) {
    shown.uris = tls::UrisOf(*own);
  }
  if (!request.authorization.empty()) shown.authorizations.push_back(request.authorization);
  return shown;
}

// Returns the value of a parameter of a query; empty if it is not there.
std::string Parameter(const std::string& query, absl::string_view name) {
  for (absl::string_view part : absl::StrSplit(query, '&')) {
    if (absl::ConsumePrefix(&part, name) && absl::ConsumePrefix(&part, "=")) {
      return std::string(part);
    }
  }
  return "";
}

absl::StatusOr<int64_t> StepIn(const std::string& query) {
  const std::string text = Parameter(query, "step");
  int64_t step = 0;
  if (text.empty() || (absl::SimpleAtoi(text, &step) && step > 0)) return step;
  return absl::InvalidArgumentError(
      absl::StrCat("step: found ", Escaped(text), ", expected a number from 1"));
}

absl::Status NoSuchPath(const std::string& path) {
  return absl::NotFoundError(absl::StrCat("found ", Escaped(path),
                                          ", expected a path of the page (/), /metrics, /healthz "
                                          "or /readyz"));
}

absl::StatusOr<Answer> JsonAnswer(absl::StatusOr<std::string> json) {
  if (!json.ok()) return json.status();
  return Answer{.type = kJson, .body = *std::move(json), .headers = Confined(kPagePolicy)};
}

absl::StatusOr<Answer> Picture(absl::StatusOr<std::string> svg) {
  if (!svg.ok()) return svg.status();
  return Answer{.type = kSvg, .body = *std::move(svg), .headers = Confined(kPicturePolicy)};
}

}  // namespace

absl::Status PageAccess(const service::ServerOptions& options, const std::string& metrics_listen) {
  const absl::StatusOr<Address> address = ParseAddress(metrics_listen);
  if (address.ok() && IsLoopback(*address)) return absl::OkStatus();
  if (!options.tls.empty()) {
    return absl::PermissionDeniedError(
        absl::StrCat("the page: found --metrics-listen ", metrics_listen,
                     ", expected a loopback address, because this port encrypts nothing. "
                     "--page-listen serves the page with TLS to other machines"));
  }
  if (options.insecure_listen_beyond_loopback) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("the page: found --metrics-listen ", metrics_listen,
                   ", expected a loopback address, because the page shows more than metrics. "
                   "--insecure-listen-beyond-loopback allows it, and opens the API as well"));
}

absl::Status CheckPageListen(const service::ServerOptions& options,
                             const std::string& page_listen) {
  const absl::StatusOr<Address> address = ParseAddress(page_listen);
  if (!address.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--page-listen: ", address.status().message()));
  }
  if (!options.tls.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("--page-listen: found ", page_listen,
                   " without TLS, expected --tls-ca, --tls-certificate and --tls-key with it"));
}

absl::StatusOr<std::string> PageKey(const std::string& path) {
  constexpr size_t kBytes = 32;
  absl::StatusOr<std::string> found = ReadSmallFile(path, 4 * kBytes);
  if (found.ok()) {
    const absl::string_view key = absl::StripAsciiWhitespace(*found);
    if (key.size() == 2 * kBytes && std::all_of(key.begin(), key.end(), absl::ascii_isxdigit))
      return std::string(key);
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": found ", key.size(), " characters, expected ", 2 * kBytes,
                     " hexadecimal digits; without the file a new key is made"));
  }
  if (!absl::IsNotFound(found.status())) return found.status();
  std::string key = absl::BytesToHexString(RandomBytes(kBytes));
  RETURN_IF_ERROR(WritePrivateFile(path, key + "\n"));
  return key;
}

absl::StatusOr<service::Reader> Page::ReaderFor(const Request& request) {
  ASSIGN_OR_RETURN(const std::shared_ptr<service::Reader> reader, CurrentReader());
  if (reach_ == Reach::kMachine && key_.empty()) return *reader;
  if (!request.certificate.empty()) {
    RETURN_IF_ERROR(CheckOwnScript(request));
    return reader->For(ShownBy(request));
  }
  const std::string& authorization = request.authorization;
  const std::string expected = "Bearer " + key_;
  if (!key_.empty() && authorization.size() == expected.size() &&
      CRYPTO_memcmp(authorization.data(), expected.data(), expected.size()) == 0) {
    return *reader;
  }
  // A token has dots, and a key has none.
  if (absl::StrContains(authorization, '.')) return reader->For(ShownBy(request));
  if (reach_ == Reach::kNetwork) {
    return absl::UnauthenticatedError(absl::StrCat(
        "the page: found no certificate and ", authorization.empty() ? "no token" : "another key",
        ", expected the certificate of a user, for which the browser asks you, or a token, which "
        "`stretto ca token issue` makes: enter it here, or open this address with /#key=TOKEN at "
        "its end"));
  }
  const char* const found = authorization.empty() ? "no key" : "another key";
  return absl::UnauthenticatedError(absl::StrCat(
      "the page: found ", found,
      ", expected that in page.key of the coordinator's state folder, or a token: open "
      "this address with /#key=KEY at its end"));
}

void Page::Show(std::shared_ptr<service::Reader> reader) {
  const MutexLock lock(mu_);
  reader_ = std::move(reader);
}

absl::StatusOr<std::shared_ptr<service::Reader>> Page::CurrentReader() {
  const MutexLock lock(mu_);
  if (reader_ != nullptr) return reader_;
  return absl::UnavailableError("this coordinator starts, ends, or waits as a standby");
}

Answer Page::Get(const Request& request) {
  absl::StatusOr<Answer> answer = Find(request);
  if (answer.ok()) return *std::move(answer);
  return {.code = CodeOf(answer.status()),
          .body = absl::StrCat(answer.status().message(), "\n"),
          .headers = Confined(kPagePolicy)};
}

absl::StatusOr<Answer> Page::Find(const Request& request) {
  RETURN_IF_ERROR(access_);
  // TLS has proved to a browser that the name in its address is ours.
  if (reach_ == Reach::kMachine) RETURN_IF_ERROR(CheckHost(request.host));
  const std::string path = request.path == "/" ? "/index.html" : request.path;
  for (const File& file : Files()) {
    if (path == file.path) {
      return Answer{.type = file.type, .body = file.content, .headers = Confined(kPagePolicy)};
    }
  }
  if (path == "/palette.css") {
    return Answer{
        .type = "text/css; charset=utf-8", .body = PaletteCss(), .headers = Confined(kPagePolicy)};
  }
  const std::vector<std::string> parts = absl::StrSplit(path, '/');  // "", "api", "jobs", ...
  if (parts.size() < 3 || parts[1] != "api") return NoSuchPath(path);
  ASSIGN_OR_RETURN(service::Reader reader, ReaderFor(request));
  if (parts.size() == 3) {
    const std::string token = Parameter(request.query, "page_token");
    if (parts[2] == "jobs") return JsonAnswer(JobsJson(reader, token));
    if (parts[2] == "workers") return JsonAnswer(WorkersJson(reader, token));
    return NoSuchPath(path);
  }
  if (parts[2] != "jobs" || parts.size() > 5) return NoSuchPath(path);
  const std::string name = absl::StrCat("jobs/", parts[3]);
  if (parts.size() == 4) return JsonAnswer(JobJson(reader, name));
  if (parts[4] == "events") return JsonAnswer(EventsJson(reader, name));
  if (parts[4] == "steps") return JsonAnswer(StepsJson(reader, name));
  if (parts[4] != "timeline.svg") return NoSuchPath(path);
  ASSIGN_OR_RETURN(const int64_t step, StepIn(request.query));
  return Picture(TimelineSvg(reader, name, step));
}

}  // namespace stretto::page
