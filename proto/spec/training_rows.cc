// SPDX-License-Identifier: Apache-2.0

// The rows of the optimizer, of batches and of everything around the steps: checkpoints, devices,
// measurements.
#include "proto/spec/rows.h"

namespace stretto {

std::vector<Field> TrainingRows() {
  return {
      {.path = "optimizer",
       .help = "How weights follow gradients.",
       .derived = "AdamW with the defaults of its fields"},
      {.path = "optimizer.name",
       .help = "The algorithm.",
       .value = "adamw",
       .values = OptimizerValues},
      {.path = "optimizer.learning_rate",
       .help = "The highest learning rate, which is reached after the warm-up.",
       .range = {0, 1000, true, false},
       .value = "1e-3",
       .in_hash = InHash::kYes},
      {.path = "optimizer.min_learning_rate",
       .help = "The learning rate after the decay; at most learning_rate.",
       .range = {0, 1000},
       .derived = "0.1 * learning_rate",
       .in_hash = InHash::kYes},
      {.path = "optimizer.beta1",
       .help = "Decay of the first moment.",
       .range = {0, 1, false, true},
       .value = "0.9",
       .in_hash = InHash::kYes},
      {.path = "optimizer.beta2",
       .help = "Decay of the second moment.",
       .range = {0, 1, false, true},
       .value = "0.95",
       .in_hash = InHash::kYes},
      {.path = "optimizer.epsilon",
       .help = "Number that is added to the root of the second moment.",
       .range = {0, 1, true, false},
       .value = "1e-8",
       .in_hash = InHash::kYes},
      {.path = "optimizer.weight_decay",
       .help = "Decoupled weight decay, of matrices only.",
       .range = {0, 1000},
       .value = "0.1",
       .in_hash = InHash::kYes},
      {.path = "optimizer.warmup_steps",
       .help = "Number of steps over which the learning rate rises from 0; at most decay_steps.",
       .range = {0, 1e9},
       .unit = "steps",
       .value = "0",
       .in_hash = InHash::kYes},
      {.path = "optimizer.decay_steps",
       .help = "The step at which the decay ends; the learning rate then stays. If a job will be "
               "continued for more steps, and the learning rate is to fall until the last of them, "
               "give their total from the start.",
       .range = {1, 1e9},
       .unit = "steps",
       .derived = "steps; of a job that resumes, that of the checkpoint",
       .in_hash = InHash::kYes},
      {.path = "optimizer.clip_norm",
       .help = "Norm to which larger gradients are scaled down. 0 does not clip.",
       .range = {0, 1e9},
       .value = "1.0",
       .in_hash = InHash::kYes},
      {.path = "optimizer.max_skipped_updates",
       .help = "Number of gradient norms in a row that are not finite after which the job fails.",
       .range = {1, 1e6},
       .value = "5"},

      {.path = "precision",
       .help = "Type of weights and activations. Gradients and master weights are f32.",
       .value = "f32",
       .in_hash = InHash::kYes},
      {.path = "steps",
       .help = "Total number of optimizer steps, including those before a resume. 0, with "
               "model.initial_weights, only writes these weights as a checkpoint.",
       .range = {0, 1e9},
       .unit = "steps",
       .required = "without tokens or epochs"},
      {.path = "tokens",
       .help =
           "The length of the job in tokens, instead of steps: as many steps as consume them, the "
           "last one whole.",
       .range = {0, 1e15},
       .unit = "tokens",
       .derived = "none: steps or epochs give the length"},
      {.path = "epochs",
       .help =
           "The length of the job in passes over its training data, instead of steps. A worker "
           "counts the steps of an epoch when the job is submitted. Of a blend, an epoch has as "
           "many samples as all its parts together.",
       .range = {0, 1e6},
       .unit = "epochs",
       .derived = "none: steps or tokens give the length"},
      {.path = "micro_batch_size",
       .help = "Number of sequences that run through the model at once; at least 2 for schedules "
               "with slices. Memory for activations grows with it.",
       .range = {1, 65536},
       .unit = "sequences",
       .required = "always",
       .in_hash = InHash::kYes},
      {.path = "global_batch_size",
       .help =
           "Number of sequences of a step, a multiple of micro_batch_size x dp_size with at most "
           "2147483648 tokens. A step adds up the gradients of its micro-batches.",
       .range = {1, 65536},
       .unit = "sequences",
       .derived = "micro_batch_size x dp_size",
       .in_hash = InHash::kYes},
      {.path = "seed",
       .help = "Seed of initial weights, of the order of the data and of dropout. Every schedule "
               "and number of ranks draws the same numbers.",
       .value = "1234",
       .in_hash = InHash::kYes},

      {.path = "checkpoint",
       .help = "When to write checkpoints, and which one to resume from.",
       .derived = "one at the end"},
      {.path = "checkpoint.interval_steps",
       .help = "Number of steps between checkpoints; one is also written at the end. 0 writes only "
               "that one.",
       .range = {0, 1e9},
       .unit = "steps",
       .value = "0"},
      {.path = "checkpoint.keep",
       .help = "Number of checkpoints to keep, the newest ones. 0 keeps all.",
       .range = {0, 1e6},
       .value = "2"},
      {.path = "checkpoint.keep_best",
       .help = "Keeps the checkpoint with the lowest held-out loss too, the earliest of several. "
               "JOB/best is its name in checkpoint.resume_from and for `stretto checkpoint`. Needs "
               "eval. A job with eval.early_stop keeps it in any case.",
       .value = "false"},
      {.path = "checkpoint.resume_from",
       .help =
           "Checkpoint to resume from. \"JOB\" is the newest valid checkpoint of that job, "
           "\"JOB/best\" that with the lowest held-out loss, and \"JOB/step-00000020\" that one, "
           "in the workers' checkpoint root. One of another project needs the name of that after "
           "it, \"JOB@PROJECT\", and role operator there. \"hf:FOLDER\", in their data root, is "
           "what `stretto checkpoint export --optimizer` wrote. Fields that change what a step "
           "computes must be equal in both jobs; how it is spread over ranks may differ.",
       .derived = "a fresh start"},
      {.path = "checkpoint.disabled",
       .help = "Writes no checkpoint, not even at the end.",
       .value = "false"},
      {.path = "checkpoint.asynchronous",
       .help =
           "Writes checkpoints while training continues, from a copy of weights and moments in the "
           "memory of the node: a step waits for the copy alone. true refuses to train where "
           "memory does not suffice for it, false lets training wait for the files. One at the "
           "end or at a stop is always waited for. Numbers do not depend on it.",
       .derived = "true where the copies take at most half of the memory that is left, else false"},

      {.path = "device",
       .help = "What a rank computes on.",
       .value = "cpu",
       .in_hash = InHash::kYes},
      {.path = "deterministic",
       .help =
           "Gives the gradients of attention the same bits in every run. On GPUs cuDNN otherwise "
           "adds them up in an order that varies; its form with a fixed order is slower and takes "
           "more memory (at 4096 tokens 1 GiB for 32 heads of a rank). On CPUs they always have "
           "the same bits. Only rounding depends on it, so a job may resume with another value.",
       .value = "false"},
      {.path = "placement",
       .help = "Which workers the ranks may be on.",
       .derived = "the defaults of its fields"},
      {.path = "placement.split_blocks",
       .help =
           "Lets the tp_size ranks that share a replica of a stage be on several workers, where "
           "the job would otherwise wait for one with room for all of them. They exchange "
           "activations all the time, so a link between workers makes each step slower.",
       .value = "false"},
      {.path = "queue",
       .help = "The place of the job among those that wait for slots.",
       .derived = "the defaults of its fields"},
      {.path = "queue.priority",
       .help = "Jobs of higher priority are placed first; jobs of one priority in the order in "
               "which they were submitted. A job that waits has jobs of lower priority write a "
               "checkpoint and make room, if it fits then; they continue by themselves later. A "
               "job whose checkpoints are disabled is never asked to.",
       .range = {-1000, 1000},
       .value = "0"},
      {.path = "queue.project",
       .help = "Project whose quota the job uses: 1 to 63 of a-z, 0-9 and \"-\", starting with a "
               "letter and not ending with \"-\".",
       .value = "default"},
      {.path = "labels",
       .help = "Words by which to find the job, as `stretto job list --label` does: a mapping of "
               "at most 64 names to values. A name has 1 to 63 letters, digits, \"-\", \"_\" and "
               "\".\", begins and ends with a letter or digit, and may have a domain and \"/\" "
               "before it. A value is the same or empty. They change nothing else.",
       .derived = "none"},
      {.path = "restart",
       .help = "Starts the job again when an attempt fails: as a new attempt on workers that are "
               "alive, from the newest checkpoint of the job, or from its first state if there is "
               "none. Training continues with the same numbers.",
       .derived = "never",
       .optional = true},
      {.path = "restart.max",
       .help = "Number of restarts, after which the job fails. Preemptions are not counted.",
       .range = {0, 1000},
       .unit = "restarts",
       .value = "3"},
      {.path = "restart.backoff",
       .help = "Time from the end of an attempt to the next. It doubles with each attempt in a row "
               "that saved no checkpoint, up to 5 minutes.",
       .range = {0, 3600},
       .unit = "seconds",
       .value = "1"},
      {.path = "restart.on",
       .help = "The causes that a restart can cure. Bad input is never retried.",
       .derived = "crash, node_loss, hang and preemption"},
      {.path = "restart.layouts",
       .help =
           "Other ways to spread the job over ranks, in order of preference. A restart uses the "
           "first layout that fits on the workers that remain, beginning with that of the "
           "parallelism section. The batch of a step stays the same; sums in another order "
           "round differently (condition ResumedExactly).",
       .derived = "none: the job waits for as many slots as it had"},
      {.path = "restart.layouts.tp_size",
       .help = "Number of ranks that share every layer, as parallelism.tp_size.",
       .range = {1, 1024},
       .unit = "ranks",
       .derived = "1"},
      {.path = "restart.layouts.pp_size",
       .help =
           "Number of stages, as parallelism.pp_size. With 1, schedule.pipeline has no meaning.",
       .range = {1, 1024},
       .unit = "stages",
       .derived = "1"},
      {.path = "restart.layouts.dp_size",
       .help =
           "Number of replicas, as parallelism.dp_size. With 1, parallelism.zero has no meaning.",
       .range = {1, 1024},
       .unit = "replicas",
       .derived = "1"},
      {.path = "emulated_link",
       .help = "A slower link than the real one, for experiments.",
       .derived = "the real link",
       .taker = Taker::kOnCpu,
       .optional = true},
      {.path = "emulated_link.gigabits_per_second",
       .help = "Bandwidth of the link, in gigabits per second.",
       .range = {0, 1e6, true, false},
       .unit = "Gbit/s",
       .required = "always"},
      {.path = "emulated_link.latency_microseconds",
       .help = "Latency of each step of a ring, in microseconds.",
       .range = {0, 1e7},
       .unit = "microseconds",
       .value = "0"},
      {.path = "profile",
       .help = "Measures, before step 1, the times by which the schedule is judged.",
       .derived = "no measurement",
       .optional = true},
      {.path = "profile.steps",
       .help = "Number of steps for each measured time. 0 measures nothing.",
       .range = {0, 1000},
       .unit = "steps",
       .value = "0"},
      {.path = "eval",
       .help = "Measures the loss on held-out data during the training.",
       .derived = "never",
       .optional = true},
      {.path = "eval.interval_steps",
       .help = "Number of steps between measurements.",
       .range = {1, 1e9},
       .unit = "steps",
       .required = "always"},
      {.path = "eval.batches",
       .help =
           "Number of batches to measure on, each of micro_batch_size sequences, from the start "
           "of the data.",
       .range = {1, 1e6},
       .unit = "batches",
       .value = "10"},
      {.path = "eval.prefix",
       .help = "Name of a data set that is not trained on, as in data.prefix.",
       .derived = "the held-out part of data, for which data.held_out is above 0"},
      {.path = "eval.early_stop",
       .help = "Ends the job, as SUCCEEDED, when the held-out loss stops improving. The checkpoint "
               "with the lowest held-out loss is kept.",
       .derived = "all steps",
       .optional = true},
      {.path = "eval.early_stop.patience",
       .help = "Number of measurements in a row without a better loss after which the job ends.",
       .range = {1, 1e6},
       .required = "always"},
      {.path = "eval.early_stop.min_improvement",
       .help = "A loss counts as better only if it is lower than the last better one by more than "
               "this.",
       .range = {0, Range::kUnbounded},
       .value = "0"},
      {.path = "sample",
       .help =
           "Continues prompts with the model of a checkpoint, while training continues. `stretto "
           "job watch` and `stretto job describe` show the texts.",
       .derived = "never",
       .optional = true},
      {.path = "sample.interval_steps",
       .help = "Number of steps between samples, a multiple of checkpoint.interval_steps, because "
               "text comes from checkpoints. The last checkpoint is sampled too.",
       .range = {1, 1e9},
       .unit = "steps",
       .required = "always"},
      {.path = "sample.prompts",
       .help = "Texts to continue: 1 to 8, of at most 2048 bytes each.",
       .required = "always"},
      {.path = "sample.tokens",
       .help =
           "Maximum number of tokens of each text. It ends earlier with the document, and at the "
           "sequence length of the model.",
       .range = {1, 512},
       .unit = "tokens",
       .value = "40"},
      {.path = "sample.temperature",
       .help =
           "0 always chooses the likeliest token; above 1 flattens the distribution. The seed of "
           "the choices is that of the job.",
       .range = {0, 100},
       .value = "0.8"},
  };
}

}  // namespace stretto
