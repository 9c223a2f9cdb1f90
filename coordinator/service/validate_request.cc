// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/validate_request.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "coordinator/service/errors.h"
#include "proto/base/ids.h"

namespace stretto::service {
namespace {

constexpr int kDefaultPageSize = 50;
constexpr int kMaxPageSize = 1000;
constexpr char kNameRule[] = "1 to 63 of [a-z0-9-], starting with a letter and not ending with '-'";

}  // namespace

absl::Status ValidateCreateRequest(const v1alpha1::CreateJobRequest& request) {
  std::vector<FieldViolation> violations;
  if (!IsValidName(request.job_id())) {
    violations.push_back(
        {"job_id", absl::StrCat("found ", Quoted(request.job_id()), ", expected ", kNameRule)});
  }
  const std::string& id = request.request_id();
  const bool printable =
      std::all_of(id.begin(), id.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  if (id.size() > 128 || !printable) {
    violations.push_back(
        {"request_id", absl::StrCat("found ", Quoted(id),
                                    ", expected at most 128 printable characters, no spaces")});
  }
  if (!request.job().has_spec()) {
    violations.push_back({"spec", "found none, expected a job spec"});
  }
  return violations.empty() ? absl::OkStatus() : FieldErrors(violations);
}

absl::StatusOr<int> PageSize(int32_t page_size) {
  if (page_size < 0) {
    return FieldError("page_size", absl::StrCat("found ", page_size, ", expected 0 or more"));
  }
  return page_size == 0 ? kDefaultPageSize : std::min<int>(page_size, kMaxPageSize);
}

absl::StatusOr<std::string> ParseName(absl::string_view collection, absl::string_view name) {
  absl::string_view id = name;
  const std::string prefix = absl::StrCat(collection, "/");
  if (!absl::ConsumePrefix(&id, prefix) || !IsValidName(std::string(id))) {
    return FieldError("name", absl::StrCat("found ", Quoted(name), ", expected \"", prefix,
                                           "ID\" where ID is ", kNameRule));
  }
  return std::string(id);
}

}  // namespace stretto::service
