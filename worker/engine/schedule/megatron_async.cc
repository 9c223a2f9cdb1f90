// SPDX-License-Identifier: Apache-2.0

// megatron_async (Megatron-LM 23.08, LinearWithGradAccumulationAndAsyncCommunication): the
// all-reduce of a column-parallel linear's dX runs under that linear's own weight gradient. Forward
// stays exposed.
//
//   backward  compute | d,w(FC2) d(FC1) | w(FC1) |     | d,w(PROJ) d(CORE) d(QKV) | w(QKV) |     |
//             comm.tp |                 | ARm ........ |                          | ARa ........ |

#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/weave.h"

namespace stretto {
namespace megatron_async {

void Forward(Weaver& weaver, int layer) {
  weaver.Play("ln1 qkv attention proj res1 ln2 fc1 act fc2", layer, 0);
}

void Backward(Weaver& weaver, int layer) {
  weaver.Play("d.fc2 w.fc2 d.act d.fc1 w.fc1", layer, 0);
  weaver.Play("d.ln2 d.proj w.proj d.attention d.qkv w.qkv", layer, 0);
}

}  // namespace megatron_async

absl::Status MegatronAsync(const EngineSpec&, StepProgram* step) {
  return Arrange({megatron_async::Forward, megatron_async::Backward}, step);
}

}  // namespace stretto
