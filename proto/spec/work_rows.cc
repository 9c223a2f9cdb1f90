// SPDX-License-Identifier: Apache-2.0

// The rows of `data`, `parallelism` and `schedule`: the input of the model, and its division among
// ranks.
#include "proto/spec/pipelines.h"
#include "proto/spec/rows.h"

namespace stretto {
namespace {

constexpr char kNotYet[] = "values above 1 are not implemented yet";

}  // namespace

std::vector<Field> WorkRows() {
  return {
      {.path = "data", .help = "The tokens to train on.", .required = "always"},
      {.path = "data.prefix",
       .help =
           "PREFIX of a data set's files, PREFIX.bin and PREFIX.idx, or llmc:FILES, where a `*` "
           "in the last part of the path stands for any text. The path is relative to the "
           "workers' data root, has no \"..\" and at most 1024 characters.",
       .required = "without blend"},
      {.path = "data.blend",
       .help = "Several data sets instead of one: 1 to 1024, each once. The number of a sample "
               "alone decides which data set it comes from. Each data set has epochs of its own.",
       .derived = "none"},
      {.path = "data.blend.prefix",
       .help = "Name of a data set, as in data.prefix.",
       .required = "always"},
      {.path = "data.blend.weight",
       .help = "Share of the samples, relative to the other weights.",
       .range = {0, 1e9, true, false},
       .required = "always",
       .in_hash = InHash::kYes},
      {.path = "data.held_out",
       .help = "Share of each data set, at its end, that is never trained on; at least one "
               "sequence. It begins with a document if one begins in its first half. `eval` "
               "measures on it.",
       .range = {0, 0.5},
       .value = "0",
       .in_hash = InHash::kYes},
      {.path = "data.allow_other_tokenizer",
       .help = "Trains although the tokenizer of the data is not the one of the initial weights or "
               "of the checkpoint. Without it such a job is refused: the same number would mean "
               "different text. Checkpoints then carry the tokenizer of the data.",
       .value = "false"},
      {.path = "data.document_mask",
       .help = "Lets a token attend to its own document alone where a sequence has several. "
               "Positions count on over the sequence. On GPUs our own kernels then compute "
               "attention, not cuDNN's.",
       .value = "false",
       .in_hash = InHash::kAdded},

      {.path = "parallelism",
       .help = "How many ranks share the model, and how many copies of it train.",
       .derived = "one rank"},
      {.path = "parallelism.tp_size",
       .help = "Number of ranks that share every layer (tensor parallelism). It divides kv_heads, "
               "ffn_hidden and the padded vocabulary.",
       .range = {1, 1024},
       .unit = "ranks",
       .value = "1",
       .in_hash = InHash::kYes},
      {.path = "parallelism.pp_size",
       .help = "Number of stages, each of which has consecutive layers (pipeline parallelism); at "
               "most the number of layers. The first stage also has the embeddings, the last one "
               "(order folded: the first) the head. Micro-batches run through the stages one "
               "behind the other, so a step "
               "needs several times as many of them as there are stages. With a list of stages it "
               "is their number.",
       .range = {1, 1024},
       .unit = "stages",
       .value = "1",
       .in_hash = InHash::kLayout},
      {.path = "parallelism.chunks_per_stage",
       .help =
           "Number of chunks of consecutive layers that each stage has (interleaved stages). A "
           "micro-batch then runs through the stages as many times, so a stage is idle for a "
           "shorter time at the begin and the end of a step, and boundaries are crossed as many "
           "times as often. More than 1 needs an order that takes them, pp_size x "
           "chunks_per_stage layers or more, and micro-batches that pp_size divides. Order folded "
           "has 2, which is then the default, of equally many layers, and takes more micro-batches "
           "than stages.",
       .range = {1, 1024},
       .unit = "chunks",
       .value = "1",
       .taker = Taker::kStaged,
       .in_hash = InHash::kLayout},
      {.path = "parallelism.stages",
       .help = "All stages, where they are not alike: consecutive layers each, of their own number "
               "and with their own tensor parallel size and number of replicas.",
       .derived = "pp_size stages of tp_size ranks, which share the layers evenly"},
      {.path = "parallelism.stages.layers",
       .help = "Number of layers of the stage. All stages together have those of the model.",
       .range = {1, 256},
       .unit = "layers",
       .required = "always",
       .in_hash = InHash::kYes},
      {.path = "parallelism.stages.tp_size",
       .help = "Number of ranks that share every layer of the stage, in place of "
               "parallelism.tp_size. It divides kv_heads and ffn_hidden; that of the first and "
               "the last stage also divides the padded vocabulary.",
       .range = {1, 1024},
       .unit = "ranks",
       .derived = "parallelism.tp_size",
       .in_hash = InHash::kYes},
      {.path = "parallelism.stages.dp_size",
       .help = "Number of replicas of the stage, a divisor of parallelism.dp_size. A stage with "
               "fewer replicas computes larger micro-batches.",
       .range = {1, 1024},
       .unit = "replicas",
       .derived = "parallelism.dp_size",
       .in_hash = InHash::kYes},
      {.path = "parallelism.dp_size",
       .help =
           "Number of shares to which the sequences of each micro-batch are dealt. A stage has as "
           "many replicas, which compute them and add up their gradients (data parallelism), "
           "unless it has a number of its own. A job has pp_size x dp_size x "
           "tp_size ranks, or the sum of dp_size x tp_size over its stages.",
       .range = {1, 1024},
       .unit = "replicas",
       .value = "1",
       .in_hash = InHash::kLayout},
      {.path = "parallelism.zero",
       .help = "1 shares the optimizer's state among the replicas (ZeRO stage 1): each keeps the "
               "state of a part of the parameters and updates that part. Gradients are then "
               "reduce-scattered instead of all-reduced, and weights are gathered under the next "
               "forward pass. On CPUs the results are bitwise equal to those of 0.",
       .range = {0, 1},
       .value = "0",
       .taker = Taker::kReplicated,
       .in_hash = InHash::kLayout},
      {.path = "parallelism.ep_size",
       .help = "Expert parallelism. Not implemented yet.",
       .range = {1, 1},
       .value = "1",
       .why = kNotYet},
      {.path = "parallelism.cp_size",
       .help = "Context parallelism. Not implemented yet.",
       .range = {1, 1},
       .value = "1",
       .why = kNotYet},
      {.path = "parallelism.wire",
       .help = "Type of activations on their way between ranks; never wider than precision. bf16 "
               "with precision f32 halves the bytes and rounds what travels.",
       .derived = "precision",
       .in_hash = InHash::kYes},

      {.path = "schedule",
       .help = "The order in which a rank computes and communicates.",
       .derived = "megatron_sync"},
      {.path = "schedule.name",
       .help = "Name of the schedule.",
       .value = "megatron_sync",
       .values = ScheduleValues},
      {.path = "schedule.plan",
       .help =
           "How the two passes of a cell take turns, as text of several lines: a weave plan, "
           "for example one that `stretto-bench sim --print-plan` prints. It changes no number, "
           "so a job may resume with another one.",
       .derived = "a plan that needs no measurement",
       .taker = Taker::kWeaving},
      {.path = "schedule.parameters",
       .help =
           "Parameters of the schedule. A parameter that the schedule does not take is refused.",
       .derived = "the defaults of its fields"},
      {.path = "schedule.parameters.slices",
       .help = "Number of slices of a micro-batch, of sizes as equal as possible; at most "
               "micro_batch_size. Published orders take 2 only.",
       .range = {1, 65536},
       .derived = "the number of slice_sizes, or 2 (helix: 1)",
       .taker = Taker::kSliced,
       .in_hash = InHash::kYes},
      {.path = "schedule.parameters.slice_sizes",
       .help = "Number of sequences of each slice, instead of slices; the sum is micro_batch_size.",
       .range = {1, 65536},
       .unit = "sequences",
       .derived = "equal slices",
       .taker = Taker::kSliced,
       .in_hash = InHash::kYes},
      {.path = "schedule.parameters.splits",
       .help = "Number of column pieces of each product before a collective; it divides hidden.",
       .range = {1, 65536},
       .value = "2",
       .taker = Taker::kSplit,
       .in_hash = InHash::kYes},
      {.path = "schedule.parameters.sequence_parallel",
       .help = "Uses reduce-scatter and all-gather instead of all-reduce, so that norms see "
               "1/tp_size of the rows. tp_size divides sequence_length.",
       .value = "false",
       .in_hash = InHash::kYes},
      {.path = "schedule.parameters.recompute",
       .help = "What backward computes again instead of keeping it.",
       .value = "none"},
      {.path = "schedule.parameters.defer_wgrads",
       .help = "Number of collectives by which weight gradients are deferred.",
       .range = {0, 65536},
       .unit = "collectives",
       .value = "0",
       .taker = Taker::kDeferring},
      {.path = "schedule.parameters.merge_wgrads",
       .help =
           "Number of micro-batches whose slices share one weight gradient product; it divides "
           "the micro-batches of a step. With 0 each slice of each micro-batch has its own "
           "product, with 1 the slices of a micro-batch share one. Sharing makes products fewer "
           "and larger, and takes more memory. A schedule that weaves takes 0 or 1.",
       .range = {0, 65536},
       .unit = "micro-batches",
       .value = "0",
       .in_hash = InHash::kYes},
      {.path = "schedule.parameters.auto_merge_wgrads",
       .help = "Chooses the largest merge_wgrads for which the nodes have memory when the ranks "
               "prepare. merge_wgrads is then left out. Only with pp_size 1.",
       .value = "false",
       .taker = Taker::kUnwoven,
       .in_hash = InHash::kYes},
      {.path = "schedule.pipeline",
       .help = "The order of micro-batches in a pipeline.",
       .derived = "the defaults of its fields"},
      {.path = "schedule.pipeline.order",
       .help = "Name of the order.",
       .value = kDefaultPipeline,
       .taker = Taker::kStaged,
       .values = PipelineValues},
      {.path = "schedule.pipeline.warm_up",
       .help = "Number of micro-batches in flight in each stage, in place of those of the order: "
               "the forward passes up to its first backward pass. The last stage has 1 and every "
               "other at least one more than the next, or all micro-batches of a step. More of "
               "them hide longer transfers and take more memory.",
       .range = {1, 65536},
       .unit = "micro-batches",
       .derived = "those of the order",
       .taker = Taker::kAdjusting},
      {.path = "schedule.pipeline.auto_warm_up",
       .help =
           "Chooses warm_up when the ranks prepare, from the times of passes and transfers that "
           "they measure: as few micro-batches as hide the transfers, and no more than the "
           "nodes have memory for. warm_up is then left out.",
       .value = "false",
       .taker = Taker::kAdjusting},
      {.path = "schedule.pipeline.wgrad_delay",
       .help =
           "What weight gradients of layers wait for, except those under which the schedule "
           "hides collectives. The longer they wait, the sooner other stages can go on, and the "
           "more memory their operands take.",
       .value = "none",
       .taker = Taker::kDelaying},
      {.path = "schedule.pipeline.transfer",
       .help = "How the residual stream and its gradient reach the ranks of another stage. It "
               "matters where several ranks of a stage need the same, which they do without "
               "sequence_parallel. On a slow link gather sends the least; the ranks of the stage "
               "then exchange what they got.",
       .value = "auto",
       .taker = Taker::kStaged},
  };
}

}  // namespace stretto
