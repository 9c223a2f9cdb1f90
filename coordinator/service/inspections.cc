// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/inspections.h"

#include <string>
#include <utility>
#include <vector>

namespace stretto::service {

int64_t Inspections::Add(int64_t session, absl::Duration deadline, Done done) {
  questions_[++last_] = {.session = session, .deadline = deadline, .done = std::move(done)};
  return last_;
}

void Inspections::OnAnswer(int64_t session, const v1alpha1::Inspection& answer) {
  const auto found = questions_.find(answer.id());
  if (found == questions_.end() || found->second.session != session) return;
  const Done done = std::move(found->second.done);
  questions_.erase(found);
  done(answer);
}

void Inspections::End(const std::function<bool(const Question&)>& over, absl::string_view why) {
  v1alpha1::Inspection answer;
  answer.set_not_done(std::string(why));
  std::vector<Done> ended;
  for (auto at = questions_.begin(); at != questions_.end();) {
    if (over(at->second)) {
      ended.push_back(std::move(at->second.done));
      at = questions_.erase(at);
    } else {
      ++at;
    }
  }
  for (const Done& done : ended) done(answer);
}

void Inspections::OnSessionEnded(int64_t session) {
  End([&](const Question& question) { return question.session == session; },
      "it lost contact meanwhile");
}

void Inspections::OnTick(absl::Duration now) {
  End([&](const Question& question) { return now >= question.deadline; }, "it did not answer");
}

void Inspections::EndAll() {
  End([](const Question&) { return true; }, "the coordinator is shutting down");
}

}  // namespace stretto::service
