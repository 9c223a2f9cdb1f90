// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the messages of a worker may contain. The coordinator admits a message before anything of it
// reaches the loop that all calls share, and ends the session of a worker that breaks a bound. A
// daemon fits what it sends, which trainers and libraries may have written, so that no rank can
// cost its node the session.
//
// Texts are names, which must be printable (printable.h), or prose such as the message of an error,
// which is escaped. Times must be valid, numbers finite unless they are results of training, enums
// known. Fields that this build does not know are dropped, because a history would keep them.

#include <string>

#include "absl/status/status.h"
#include "stretto/v1alpha1/worker.pb.h"

namespace stretto {

// Checks `message` and escapes its prose. The time that it takes grows with the message, which is
// bounded by kMessageBytes. Errors: INVALID_ARGUMENT with the first field at fault, what was found
// and what was expected; the message is then of no use.
absl::Status AdmitWorkerMessage(v1alpha1::WorkerMessage* message);

// Changes what AdmitWorkerMessage would refuse: long texts are cut, lists lose their end, and
// impossible numbers become 0. Returns the first fault, or OK if nothing but prose has changed.
absl::Status FitWorkerMessage(v1alpha1::WorkerMessage* message);

}  // namespace stretto
