# Sourced by scripts/autotrain and scripts/test: installs what is missing, configures, builds.
# Everything that is downloaded beyond Debian's packages goes to .deps, which git ignores.
#
# AUTOTRAIN_PYTHON   the Python that makes .deps/python (default: /usr/bin/python3, else python3)
# CMAKE_PREFIX_PATH  a LibTorch of your own; then none is installed
# CUDACXX            a CUDA compiler of your own; then none is installed
# AUTOTRAIN_NO_INSTALL   set by tests: what is missing is an error

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps="$root/.deps"

build_packages=(g++ cmake ninja-build python3 python3-venv libyaml-cpp-dev libspdlog-dev libcli11-dev
  nlohmann-json3-dev zlib1g-dev libjpeg-dev libpng-dev libtiff-dev libwebp-dev libjs-chart.js libprotozero-dev libboost-dev libgloo-dev dataset-fashion-mnist)
test_packages=(libgtest-dev clang-format chromium fonts-dejavu-core)
fuzz_packages=(clang libclang-rt-dev)
lint_packages=(clang-tidy)
torch_version=2.11.0
torchvision_requirement=torchvision==0.26.0 # which belongs to it; for long tests
# A newer nvvm than the compiler's breaks its assembler, hence the pin.
nvml_requirement=nvidia-nvml-dev==13.0.87 # the header only
cuda_requirements=("cuda-toolkit[nvcc,cudart,nvrtc,nvtx,cublas,cufft,curand,cusolver,cusparse,cccl,nvml,profiler,cupti,crt]==13.0.2"
  "nvidia-nvvm==13.0.88")
test_requirements=(numpy==2.4.6 PyYAML==6.0.3 jsonschema==4.26.0 safetensors==0.8.0 pillow==13.0.0
  playwright==1.65.2 tensorboard==2.21.0)

say() { printf '[setup] %s\n' "$*" >&2; }
fail() { printf '[setup] error: %s\n' "$*" >&2; exit 69; }

missing_packages() {
  command -v dpkg-query >/dev/null || return 0 # not Debian: CMake will say what it lacks
  local installed package
  installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep -qx "$package installed" <<<"$installed" || printf '%s\n' "$package"
  done
}

install_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  [ -z "${AUTOTRAIN_NO_INSTALL:-}" ] || fail "not installed: ${missing[*]}; scripts/test installs what tests need"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "as root, run: apt-get update && apt-get install -y ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing Debian packages: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq || say "apt-get update failed; trying with the package lists at hand"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2 ||
    fail "apt-get could not install: ${missing[*]}"
}

make_python() {
  [ -x "$deps/python/bin/pip" ] && return 0
  local python=${AUTOTRAIN_PYTHON:-/usr/bin/python3}
  [ -x "$python" ] || python=$(command -v python3) || fail "no python3"
  say "making a Python environment in .deps/python"
  "$python" -m venv "$deps/python" || fail "python3 -m venv failed; is python3-venv installed?"
}

pip_install() {
  [ -z "${AUTOTRAIN_NO_INSTALL:-}" ] || fail "not installed: $*; scripts/test installs what tests need"
  make_python
  say "installing from PyPI: $*"
  "$deps/python/bin/pip" install --quiet --disable-pip-version-check --no-compile "$@" >&2 || fail "pip could not install: $*"
}

site_packages() { "$deps/python/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

install_torch() {
  [ -n "${CMAKE_PREFIX_PATH:-}" ] && return 0
  [ -e "$deps/torch/share/cmake/Torch/TorchConfig.cmake" ] && return 0
  pip_install "torch==$torch_version"
  ln -sfn "$(site_packages)/torch" "$deps/torch"
}

find_nvcc() {
  local nvcc
  for nvcc in "${CUDACXX:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc "$deps/cuda/bin/nvcc"; do
    [ -n "$nvcc" ] && [ -x "$nvcc" ] && { printf '%s' "$nvcc"; return 0; }
  done
  return 1
}

# LibTorch's CMake files want a CUDA toolkit wherever they come from a CUDA build.
install_cuda_toolkit() {
  [ -e "$deps/torch/lib/libtorch_cuda.so" ] || return 0
  local nvcc
  if nvcc=$(find_nvcc); then
    [ -e "${nvcc%/bin/nvcc}/include/nvml.h" ] || [ -e "$(site_packages)/nvidia/cu13/include/nvml.h" ] ||
      pip_install "$nvml_requirement"
    return 0
  fi
  pip_install "${cuda_requirements[@]}"
  local toolkit library
  toolkit="$(site_packages)/nvidia/cu13"
  for library in "$toolkit"/lib/lib*.so.*; do # the linker looks for names without a version
    [ -e "${library%%.so.*}.so" ] || ln -s "$(basename "$library")" "${library%%.so.*}.so"
  done
  [ -e "$toolkit/lib64" ] || ln -s lib "$toolkit/lib64"
  ln -sfn "$toolkit" "$deps/cuda"
}

# configure PRESET [CMAKE OPTION…]
configure() {
  local preset=$1 log nvcc
  shift
  mkdir -p "$root/build"
  log="$root/build/$preset-configure.log"
  say "configuring build/$preset"
  nvcc=$(find_nvcc) && export CUDACXX="$nvcc"
  (cd "$root" && cmake --preset "$preset" "$@") >"$log" 2>&1 || { cat "$log" >&2; fail "configuring failed"; }
}

# build PRESET TARGET…; silent when there is nothing to do.
build() {
  local folder="$root/build/$1" log="$root/build/$1-build.log"
  shift
  ninja -C "$folder" -n "$@" 2>/dev/null | grep -q 'no work to do' && return 0
  say "building ${folder#"$root/"} (the first time takes minutes)"
  if [ -t 2 ]; then
    ninja -C "$folder" "$@" >&2 || fail "building failed"
  else
    ninja -C "$folder" "$@" >"$log" 2>&1 || { cat "$log" >&2; fail "building failed"; }
  fi
}
