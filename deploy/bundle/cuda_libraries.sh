# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh and gpu.sh: where this machine has the libraries of CUDA that a bundle does not pack.

# cuda_libraries PLUGIN [PYTHON]: prints folders, separated by colons: those of STRETTO_CUDA_LIBRARIES, then those of the
# libraries that are in none of them and that the system's loader does not know. Looks in CUDA's installation (CUDA_HOME,
# else /usr/local/cuda) and in the wheels of the Python. The plug-in knows which cuBLASLt it needs, whose major version the
# others share. cuDNN comes from a wheel also where the system's is older: attention needs a new one.
cuda_libraries() {
  local plugin=$1 python=${2:-python3} major known name folder folders=() found=()
  major=$(ldd "$plugin" 2>/dev/null | sed -n 's/.*libcublasLt\.so\.\([0-9]*\).*/\1/p' | head -1)
  known=$(PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null)
  IFS=: read -ra found <<<"${STRETTO_CUDA_LIBRARIES:-}"
  for folder in "${CUDA_HOME:-/usr/local/cuda}"/{lib64,lib,targets/x86_64-linux/lib,extras/CUPTI/lib64}; do
    folders+=("$folder")
  done
  while IFS= read -r folder; do folders+=("$folder"); done < <("$python" - 2>/dev/null <<'PYTHON'
import glob
import sys
for path in sys.path:
    for folder in sorted(glob.glob(path + "/nvidia/*/lib")):
        print(folder)
PYTHON
  )
  for name in ${major:+"libcublasLt.so.$major" "libnvrtc.so.$major" "libcupti.so.$major"} libcudnn.so.9 libnccl.so.2; do
    for folder in "${found[@]}" "${folders[@]}"; do
      [[ -e $folder/$name ]] || continue
      [[ " ${found[*]} " != *" $folder "* ]] || break
      # The loader finds what the system knows; a folder of ours would come before its other libraries.
      if grep -qF "$name " <<<"$known"; then
        [[ $name == libcudnn* ]] || break
        (($(cudnn_version "$folder/$name" "$python") > $(cudnn_version "$name" "$python"))) || continue
      fi
      found+=("$folder")
      break
    done
  done
  (IFS=: && printf '%s' "${found[*]}")
}

# cudnn_version LIBRARY PYTHON: 91900 for 9.19.0; 0 if it cannot be opened.
cudnn_version() {
  "$2" -c 'import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).cudnnGetVersion())' "$1" 2>/dev/null || echo 0
}
