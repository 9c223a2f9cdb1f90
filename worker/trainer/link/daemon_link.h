// SPDX-License-Identifier: Apache-2.0
#pragma once
// A trainer's connection to the daemon of its node: task, reports, stop requests, lease,
// rendezvous.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stretto/v1alpha1/trainer.pb.h"
#include "worker/comm/store.h"

namespace stretto::trainer {

// A request to stop before the next step.
struct StopRequest {
  bool stop = false;
  bool checkpoint = false;   // write a checkpoint first
  bool daemon_lost = false;  // nobody requested it: the daemon was silent for longer than its lease
  std::string reason;        // for people
};

// Thread-safe; no call waits for another one's network. The link survives a restart of the daemon:
// it reconnects by itself, and the daemon reads reports that could not be sent in the rank's report
// log. The destructor waits up to two seconds until the daemon has read what was sent.
class DaemonLink {
 public:
  DaemonLink(const std::string& socket_path, std::string job_uid, int64_t epoch, int rank);
  ~DaemonLink();

  // Errors: Aborted (the epoch is not the current one: exit), Unavailable (no daemon within ten
  // seconds).
  absl::StatusOr<v1alpha1::AttachResponse> Attach(int64_t last_sequence);

  // Opens the stream and keeps it open. Call once, after Attach.
  void Start();
  // Ends the stream when the daemon has read all reports, or after two seconds. Returns false if it
  // has not ended two seconds later: gRPC ends no write, even a cancelled one, before a daemon that
  // stands still reads, and the destructor waits for that. Send nothing afterwards.
  bool Close();
  // Queues a report for the stream. Never waits: if the daemon does not read, old reports leave the
  // queue, and the daemon finds them in the log.
  void Send(const v1alpha1::RankReport& report);

  // Takes a message of the daemon, as the stream does.
  void Take(const v1alpha1::DaemonMessage& message);

  // Adds `passed` to the time without a sign of life of the daemon. The caller leaves out the time
  // in which this process itself stood still, because nobody could hear anything then.
  void CountSilence(absl::Duration passed);
  absl::Duration silence() const;

  // Returns the daemon's request, or, if the daemon has been silent for longer than `lease`, a
  // request to stop with a checkpoint.
  StopRequest stop_request(absl::Duration lease) const;

  // Returns the number of the daemon's newest request for a checkpoint; 0: none. Numbers grow.
  int64_t save_request() const;

  // Rendezvous through the daemon. Borrowed; lives as long as the link.
  Store& store();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto::trainer
