// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/etcd/job_keys.h"

#include "absl/strings/str_cat.h"

namespace stretto::coordinator {

absl::Status JobKeys::Put(const JobRecord& job) {
  const auto uid = by_uid_.find(job.uid);
  const auto number = by_number_.find(job.number);
  if ((uid != by_uid_.end() && uid->second != job.id) ||
      (number != by_number_.end() && number->second != job.id)) {
    return absl::AlreadyExistsError(absl::StrCat("job \"", job.id, "\" (uid ", job.uid, ", number ",
                                                 job.number,
                                                 ") repeats a stored job's uid or number"));
  }
  const auto old = jobs_.find(job.id);
  if (old != jobs_.end() && old->second.uid == job.uid && old->second.number == job.number) {
    return absl::OkStatus();
  }
  before_.emplace_back(job.id,
                       old == jobs_.end() ? std::nullopt : std::optional<Keys>(old->second));
  Set(job.id, Keys{job.uid, job.number});
  return absl::OkStatus();
}

void JobKeys::Erase(const std::string& id) {
  const auto old = jobs_.find(id);
  if (old == jobs_.end()) return;
  before_.emplace_back(id, old->second);
  Set(id, std::nullopt);
}

void JobKeys::Undo() {
  for (; !before_.empty(); before_.pop_back()) Set(before_.back().first, before_.back().second);
}

void JobKeys::Set(const std::string& id, std::optional<Keys> keys) {
  if (const auto old = jobs_.find(id); old != jobs_.end()) {
    by_uid_.erase(old->second.uid);
    by_number_.erase(old->second.number);
    jobs_.erase(old);
  }
  if (!keys.has_value()) return;
  by_uid_[keys->uid] = id;
  by_number_[keys->number] = id;
  jobs_[id] = *std::move(keys);
}

}  // namespace stretto::coordinator
