# SPDX-License-Identifier: Apache-2.0
# Reads the names of a file's kernels ("SYMBOL NAME"), ptxas' report of them, then their disassembly.
# Prints a row for each name, which forms of one template share: the name, forms, the most registers,
# stack, spilled and shared memory, HMMA and LDG.128 instructions in all forms, the lowest occupancy
# in percent, and the fewest blocks of another kernel that fit beside one of these.
#
#   awk -v registers=N -v threads=N -v spilling=FILE -f kernel_resources.awk NAMES PTXAS_LOG DISASSEMBLY
#
# The other kernel has blocks of `threads` threads with `registers` registers, and no shared memory.
# FILE gets a line "SYMBOL BYTES" for each kernel that spills.

function up(value, unit) { return int((value + unit - 1) / unit) * unit }
function least(a, b) { return a < b ? a : b }
function most(what, value) { if (value + 0 > top[name_of[kernel], what]) top[name_of[kernel], what] = value + 0 }

# What a block takes of an SM of compute capability 9.0, and how many of it fit into a rest. Each
# warp has registers in units of 256; a block has 1 KiB of shared memory for the system.
function warps_of(threads) { return int((threads + 31) / 32) }
function registers_of(registers, threads) { return warps_of(threads) * up(registers * 32, 256) }
function shared_of(shared) { return up(shared + 1024, 128) }
function fit(registers, threads, shared, free_registers, free_warps, free_shared, free_blocks) {
  return least(least(free_blocks, int(free_warps / warps_of(threads))),
               least(int(free_registers / registers_of(registers, threads)), int(free_shared / shared_of(shared))))
}
BEGIN { kSmRegisters = 65536; kSmWarps = 64; kSmShared = 233472; kSmBlocks = 32 }

FNR == 1 { ++file }

file == 1 {
  name_of[$1] = $2
  if (!forms[$2]++) names[++groups] = $2
  order[++kernels] = $1
}

file == 2 && /Compiling entry function/ { split($0, quoted, "'"); kernel = quoted[2] }
file == 2 && /bytes stack frame/ {
  most("stack", $1)
  most("spilled", $5 + $9)
  if ($5 + $9 > 0) print kernel, $5 + $9 > spilling
}
file == 2 && match($0, /Used [0-9]+ registers/) { of_registers[kernel] = substr($0, RSTART + 5) + 0 }
file == 2 && match($0, /[0-9]+ bytes smem/) { of_shared[kernel] = substr($0, RSTART) + 0 }

# The threads of __launch_bounds__, in the words after their label.
file == 3 && /\.section[ \t]+\.nv\.info\./ { split($0, named, /\.nv\.info\.|[",]/); kernel = named[2]; bound = 0 }
file == 3 && /nvinfo : / { bound = /EIATTR_MAX_THREADS/ }
file == 3 && bound && /\.word/ { sub(/.*0x/, ""); of_threads[kernel] = hex($0); bound = 0 }
file == 3 && /\.section[ \t]+\.text\./ { split($0, named, /\.text\.|[",]/); kernel = named[2] }
file == 3 && /[ \t]HG?MMA\./ { ++products[name_of[kernel]] }
file == 3 && /[ \t]LDG\.E\.128/ { ++loads[name_of[kernel]] }

function hex(text,    value, i) {
  for (i = 1; i <= 8; ++i) value = value * 16 + index("0123456789abcdef", substr(text, i, 1)) - 1
  return value
}

END {
  for (g = 1; g <= groups; ++g) { occupancy[names[g]] = 100; beside[names[g]] = kSmBlocks }
  for (k = 1; k <= kernels; ++k) {
    kernel = order[k]
    name = name_of[kernel]
    own = of_threads[kernel] ? of_threads[kernel] : 256
    most("registers", of_registers[kernel])
    most("shared", of_shared[kernel])
    blocks = fit(of_registers[kernel], own, of_shared[kernel], kSmRegisters, kSmWarps, kSmShared, kSmBlocks)
    occupancy[name] = least(occupancy[name], 100 * blocks * warps_of(own) / kSmWarps)
    beside[name] = least(beside[name], fit(registers, threads, 0, kSmRegisters - registers_of(of_registers[kernel], own), \
      kSmWarps - warps_of(own), kSmShared - shared_of(of_shared[kernel]), kSmBlocks - 1))
  }
  for (g = 1; g <= groups; ++g) {
    name = names[g]
    printf "%s | %d | %d | %d | %d | %d | %d | %d | %d %% | %d\n", name, forms[name], top[name, "registers"], \
      top[name, "stack"], top[name, "spilled"], top[name, "shared"], products[name], loads[name], occupancy[name], beside[name]
  }
}
