// SPDX-License-Identifier: Apache-2.0

// Words that people and peers give: addresses, names of resources, quotas, ranges of steps, page
// tokens, names of checkpoint folders, process ids. Each is read or refused, and whatever is shown
// of them is printable.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "coordinator/cli/commands/step_range.h"
#include "coordinator/cli/text/times.h"
#include "coordinator/core/quota.h"
#include "coordinator/service/unary_call.h"
#include "coordinator/service/validate_request.h"
#include "proto/base/address.h"
#include "proto/base/check.h"
#include "proto/base/ids.h"
#include "proto/base/printable.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/checkpoint/job_folder.h"
#include "worker/daemon/process.h"

namespace {

void CheckPrintable(absl::string_view text) {
  STRETTO_CHECK(stretto::IsPrintable(stretto::Escaped(text)));
  const std::string printable = stretto::Printable(text);
  for (const absl::string_view line : absl::StrSplit(printable, absl::ByAnyChar("\n\t"))) {
    STRETTO_CHECK(stretto::IsPrintable(line));
  }
  STRETTO_CHECK(!stretto::IsPrintable(text) || printable == text);
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{7}, text.size()}) {
    const absl::string_view prefix = stretto::Prefix(text, bytes);
    STRETTO_CHECK(prefix.size() <= bytes && text.substr(0, prefix.size()) == prefix);
    STRETTO_CHECK(!stretto::IsPrintable(text) || stretto::IsPrintable(prefix));
  }
}

// An error names what was found, so its text has the input in it.
void CheckMessage(const absl::Status& status) {
  STRETTO_CHECK(stretto::IsPrintable(status.message()));
}

void CheckQuotas(const stretto::coordinator::Quotas& quotas) {
  for (const std::string& project : {std::string("none"), quotas.begin()->first}) {
    const int64_t devices = stretto::coordinator::DevicesOf(quotas, project);
    STRETTO_CHECK(devices > 0);
    for (const int64_t ranks : {int64_t{1}, devices}) {
      for (const int64_t waiting : {0, 1, 2, 1'000'000}) {
        CheckMessage(stretto::coordinator::CheckQuota(quotas, project, ranks, waiting));
      }
    }
    if (devices == INT64_MAX) continue;
    const absl::Status over = stretto::coordinator::CheckQuota(quotas, project, devices + 1, 0);
    STRETTO_CHECK(!over.ok());
  }
  STRETTO_CHECK(stretto::coordinator::CheckQuota({}, "any", INT64_MAX, INT64_MAX).ok());
}

// A time that was given by its age, or as itself, is shown as one that is read the same.
void CheckPast(const std::string& text) {
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  const auto past = stretto::cli::ParsePast(text, now);
  if (!past.ok()) return;  // the command line escapes what it found
  const google::protobuf::Timestamp stamp = stretto::cli::ToTimestamp(*past);
  STRETTO_CHECK(stretto::IsPrintable(stretto::cli::Age(stamp, now)));
  const std::string shown = stretto::cli::TimeText(stamp);
  google::protobuf::Duration since;
  since.set_seconds(stamp.seconds());
  since.set_nanos(stamp.nanos());
  if (absl::UnixEpoch() + stretto::cli::ToDuration(since) != *past) return;  // before year 1
  const auto again = stretto::cli::ParsePast(shown, now);
  STRETTO_CHECK(stamp.seconds() <= 0 || stamp.seconds() >= 253402300800 ||
                (again.ok() && absl::ToUnixSeconds(*again) == stamp.seconds()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(stretto::fuzz::TextOf(data, size));
  CheckPrintable(text);
  const auto address = stretto::ParseAddress(text);
  CheckMessage(address.status());
  if (address.ok()) {
    STRETTO_CHECK(address->port >= 0 && address->port <= 65535 && !address->host.empty());
    stretto::IsLoopback(*address);
  }
  CheckMessage(stretto::ParseAddressList(text).status());
  const auto name = stretto::service::ParseName("jobs", text);
  CheckMessage(name.status());
  STRETTO_CHECK(!name.ok() || stretto::IsValidName(*name));
  STRETTO_CHECK(!stretto::IsValidName(stretto::NewUid() + "-"));
  const auto token = stretto::service::ReadToken("jobs", text);
  CheckMessage(token.status());
  if (token.ok() && !token->empty()) {
    const std::string again = stretto::service::MakeToken("jobs", *token);
    STRETTO_CHECK(*stretto::service::ReadToken("jobs", again) == *token);
  }
  const auto quotas = stretto::coordinator::ParseQuotas(absl::StrSplit(text, ' '));
  CheckMessage(quotas.status());
  if (quotas.ok()) CheckQuotas(*quotas);
  CheckMessage(stretto::cli::ParseSteps(text).status());
  CheckPast(text);
  const auto folder = stretto::ParseFolderName(text);
  STRETTO_CHECK(!folder || (folder->step >= 0 && text.find('/') == std::string::npos));
  const auto process = stretto::daemon::ParseProcessId(text);
  if (process.ok()) {
    const std::string again = stretto::daemon::FormatProcessId(*process);
    STRETTO_CHECK(*stretto::daemon::ParseProcessId(again) == *process);
  }
  return 0;
}
