// SPDX-License-Identifier: Apache-2.0
#pragma once
// Commands for a Scene, one per line, and what they lead to. See tests/golden/coordinator.
//
//   worker ID slots=N [incarnation=I] [host=H] [held=JOB/RANK[:ended][:epoch=E],...]
//   submit ID ranks=N [request=R] [body=B]          cancel ID
//          [priority=N] [project=P] [unsaved]       events ID
//   quota PROJECT:devices=N,queued=N[;...] (first, for the others of the transcript)
//   heartbeat ID   disconnect ID                    advance SECONDSs [alive=ID,...]
//   report JOB rank=R prepared | step=N | checkpoint=N | warning=REASON | exit [code=C] [signal=S]
//          [reason=R] [stopped] ; each with [epoch=E] [sequence=N]
//   replay JOB rank=R                               restart
//   store fails next

#include <string>

namespace stretto::coordinator::testing {

// `text` is a transcript: lines starting with "> " are commands, "#" starts a comment, all other
// lines are ignored. Returns the same commands and comments with what was observed under each
// command.
std::string RunTranscript(const std::string& text);

}  // namespace stretto::coordinator::testing
