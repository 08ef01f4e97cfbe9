# Shared by deploy/quickstart, deploy/check, deploy/bundle and deploy/lint: source it from bash, it is not a program.
# Every function either succeeds or ends the script with ONE last line that says what to do.
# shellcheck shell=bash

set -Eeuo pipefail

PIKE_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
PIKE_VENV="$PIKE_ROOT/.venv"
PIKE_LOG_DIR="$PIKE_ROOT/build/log"
PIKE_TORCH_VERSION=2.11.0
PIKE_CUDA_VERSION=13.0.2
PIKE_DISK_GB=12            # PyTorch with its CUDA libraries 5 GB, packages 2 GB, builds, room to unpack
APT_LOCK_WAIT_S=180
INSTALL=yes
PYTHON_CHOSEN_BY=script    # or user, by PIKE_PYTHON

STEP_NAME="start"
STEP_BEGAN_S=$SECONDS
STEP_TABLE=""

# ---- talking -----------------------------------------------------------------------------------

say() { printf '[%4ss] %s\n' "$SECONDS" "$*"; }

die() {
  trap - ERR
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

usage_error() {
  printf '%s: %s (see %s --help)\n' "$(basename "$0")" "$*" "$0" >&2
  exit 2
}

trap 'die "step \"$STEP_NAME\" failed (line $LINENO of ${BASH_SOURCE[0]##*/}): read the lines above, then run the same command again"' ERR

finish_step() {
  [ "$STEP_NAME" = "start" ] ||
    STEP_TABLE+="$(printf '%8s s  %s' "$((SECONDS - STEP_BEGAN_S))" "$STEP_NAME")"$'\n'
}

step() {
  finish_step
  STEP_NAME="$1"
  STEP_BEGAN_S=$SECONDS
  say "== $1"
}

print_steps() {
  finish_step
  STEP_NAME="start"
  printf '\nSeconds per step:\n%s%8s s  in all\n' "$STEP_TABLE" "$SECONDS"
}

# logged NAME COMMAND...: output to build/log/NAME.log; on failure its last lines are shown and 1 is returned.
logged() {
  local log="$PIKE_LOG_DIR/$1.log"
  shift
  mkdir -p "$PIKE_LOG_DIR"
  printf '$ %s\n' "$*" >>"$log"
  if "$@" </dev/null >>"$log" 2>&1; then return 0; fi
  printf '%s\n' "---- end of $log" >&2
  tail -n 40 "$log" >&2
  printf '%s\n' "----" >&2
  return 1
}

# ---- the machine -------------------------------------------------------------------------------

distribution() {
  # shellcheck disable=SC1091
  (. /etc/os-release 2>/dev/null && printf '%s-%s' "${ID:-unknown}" "${VERSION_ID:-0}") || printf 'unknown-0'
}

is_supported_distribution() {
  case "$1" in debian-12 | ubuntu-24.04) return 0 ;; *) return 1 ;; esac
}

require_disk() {
  local free_gb
  free_gb=$(($(df -Pk "$PIKE_ROOT" | awk 'NR == 2 {print $4}') / 1048576))
  [ "$free_gb" -ge "$1" ] ||
    die "only $free_gb GB free under $PIKE_ROOT: free at least $1 GB there or clone to a larger disk"
}

# How many compilations at once: one per core, but 1.5 GB of memory for each.
build_jobs() {
  local cores memory_gb
  cores=$(nproc)
  memory_gb=$(($(awk '/^MemAvailable:/ {print $2}' /proc/meminfo) / 1048576))
  local by_memory=$((memory_gb * 2 / 3))
  [ "$by_memory" -ge 1 ] || by_memory=1
  if [ "$by_memory" -lt "$cores" ]; then echo "$by_memory"; else echo "$cores"; fi
}

# ---- apt ---------------------------------------------------------------------------------------

# packages_for USE... : the names from packages-debian.txt for this distribution.
packages_for() {
  awk -v uses=" $* " -v here="$(distribution)" '
    /^[[:space:]]*(#|$)/ { next }
    index(uses, " " $2 " ") {
      if (NF < 3) { print $1; next }
      for (i = 3; i <= NF; i++) if ($i == here) print $1
    }' "$PIKE_ROOT/deploy/packages-debian.txt"
}

missing_packages() {
  local name
  for name in $(packages_for "$@"); do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null || true)" = installed ] || printf '%s ' "$name"
  done
}

# as_root COMMAND...: directly, or by sudo with the proxy settings kept.
as_root() {
  local keep=() name
  for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    [ -z "${!name:-}" ] || keep+=("$name=${!name}")
  done
  keep+=("DEBIAN_FRONTEND=noninteractive" "NEEDRESTART_MODE=a" "LC_ALL=C.UTF-8")
  if [ "$(id -u)" = 0 ]; then env "${keep[@]}" "$@"; else sudo env "${keep[@]}" "$@"; fi
}

require_root_or_sudo() {
  local wanted="$1"
  [ "$(id -u)" != 0 ] || return 0
  command -v sudo >/dev/null ||
    die "no sudo here: run as root 'apt-get install -y $wanted', then run this again with --no-install or as yourself"
  if ! sudo -n true 2>/dev/null; then
    [ -t 0 ] || die "sudo wants a password and there is no terminal: run 'sudo -v' first, or as root 'apt-get install -y $wanted'"
    sudo -v || die "sudo did not accept you: as root run 'apt-get install -y $wanted', then run this again"
  fi
}

# The index lock is not covered by DPkg::Lock::Timeout, so it is waited for here.
apt_update() {
  local waited=0 log="$PIKE_LOG_DIR/apt-update.log"
  mkdir -p "$PIKE_LOG_DIR"
  while ! as_root timeout 300 apt-get update -o Acquire::Retries=3 </dev/null >"$log" 2>&1; do
    grep -q "Could not get lock" "$log" || return 1
    [ "$waited" -lt "$APT_LOCK_WAIT_S" ] ||
      die "another package manager has held the apt lock for $APT_LOCK_WAIT_S s: wait for it to end, then run this again"
    [ "$waited" -gt 0 ] || say "waiting for another package manager to end"
    sleep 5
    waited=$((waited + 5))
  done
  # apt-get update only warns when a mirror cannot be reached.
  ! grep -qE '^(Err|W: Failed to fetch)' "$log"
}

apt_install() {
  # shellcheck disable=SC2086  # a list of package names
  logged apt-install as_root timeout 1200 apt-get install -y --no-install-recommends \
    -o "DPkg::Lock::Timeout=$APT_LOCK_WAIT_S" -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 \
    -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold $1
}

# ensure_packages USE...: installs what is missing of packages-debian.txt.
ensure_packages() {
  local here missing name known=yes
  here=$(distribution)
  if ! command -v dpkg-query >/dev/null || ! is_supported_distribution "$here"; then
    [ "$INSTALL" = no ] ||
      die "this is $here, and only debian-12 and ubuntu-24.04 are installed by script: install the counterparts of deploy/packages-debian.txt, then run this again with --no-install"
    say "$here: packages are not checked, the build will tell what is missing"
    return 0
  fi
  missing=$(missing_packages "$@")
  missing=${missing% }
  if [ -z "$missing" ]; then
    say "all packages are there"
    return 0
  fi
  [ "$INSTALL" = yes ] || die "with --no-install these packages must be there already: apt-get install -y $missing"
  require_root_or_sudo "$missing"
  say "installing $(wc -w <<<"$missing") packages: $missing"
  for name in $missing; do
    apt-cache show "$name" >/dev/null 2>&1 || known=no
  done
  if [ "$known" = yes ] && apt_install "$missing"; then return 0; fi
  say "updating the package index"
  apt_update || { tail -n 5 "$PIKE_LOG_DIR/apt-update.log" >&2
    die "apt-get cannot reach a package mirror: connect this machine or fix /etc/apt/sources.list, or install '$missing' by other means and use --no-install"; }
  for name in $missing; do
    apt-cache show "$name" >/dev/null 2>&1 ||
      die "this machine's package sources do not have '$name': enable 'main' (and on Ubuntu 'universe') in /etc/apt, then run this again"
  done
  apt_install "$missing" ||
    die "apt-get could not install packages: read $PIKE_LOG_DIR/apt-install.log, repair with 'apt-get -f install', then run this again"
}

# ---- sandbox -----------------------------------------------------------------------------------

# ensure_sandbox: candidates run behind bubblewrap; better to know before an hour of building that it is refused here.
ensure_sandbox() {
  local options=(--unshare-pid --unshare-net --unshare-ipc --unshare-uts)
  [ "$(id -u)" = 0 ] || options=(--unshare-all)
  command -v bwrap >/dev/null || die "no bubblewrap here: apt-get install -y bubblewrap"
  if logged sandbox bwrap "${options[@]}" --ro-bind / / --proc /proc true; then
    say "sandboxes work here"
    return 0
  fi
  if [ "$(id -u)" = 0 ]; then
    die "bubblewrap is refused here: root needs CAP_SYS_ADMIN (in Docker: docker run --privileged)"
  elif [ "$(cat /proc/sys/kernel/apparmor_restrict_unprivileged_userns 2>/dev/null || echo 0)" != 0 ]; then
    die "AppArmor refuses user namespaces to users: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, then run this again"
  fi
  die "bubblewrap is refused here (see above): allow user namespaces (sysctl user.max_user_namespaces), or run this as root"
}

# ---- Python and PyTorch ------------------------------------------------------------------------

has_torch() { [ -x "$1" ] && "$1" -c 'import torch' >/dev/null 2>&1; }

is_python_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# The Python of an activated virtual or conda environment, if there is one.
active_python() {
  local folder
  for folder in "${VIRTUAL_ENV:-}" "${CONDA_PREFIX:-}"; do
    if [ -n "$folder" ] && [ -x "$folder/bin/python" ]; then
      printf '%s' "$folder/bin/python"
      return 0
    fi
  done
  return 1
}

# pip_install VENV PACKAGE...
pip_install() {
  local venv="$1"
  shift
  logged pip timeout 1800 "$venv/bin/python" -m pip install --disable-pip-version-check --no-input \
    --retries 5 --timeout 60 "$@" ||
    die "pip could not install '$*': check the network and this machine's pip settings ('pip config list'), or use --no-install with PIKE_PYTHON naming a Python that has PyTorch"
}

make_venv() {
  local venv="$1" python
  python=$(command -v /usr/bin/python3 || command -v python3) || die "no python3 here: install Python 3.11 or newer"
  is_python_new_enough "$python" ||
    die "$python is $("$python" --version 2>&1), too old: set PIKE_PYTHON to a Python >= 3.11 that has PyTorch"
  if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    logged pip "$python" -m venv --clear "$venv" ||
      die "cannot make $venv: install python3-venv and check that $PIKE_ROOT is writable"
  fi
}

# ensure_python: sets PIKE_PYTHON to a Python with PyTorch: the one asked for, the active one, or our own in .venv.
ensure_python() {
  local active
  if [ -n "${PIKE_PYTHON:-}" ]; then
    is_python_new_enough "$PIKE_PYTHON" || die "PIKE_PYTHON=$PIKE_PYTHON is no Python >= 3.11: correct or unset it"
    has_torch "$PIKE_PYTHON" || die "PIKE_PYTHON=$PIKE_PYTHON cannot import torch: install PyTorch there or unset PIKE_PYTHON"
    PYTHON_CHOSEN_BY=user
  elif active=$(active_python) && is_python_new_enough "$active" && has_torch "$active"; then
    PIKE_PYTHON="$active"
  else
    PIKE_PYTHON="$PIKE_VENV/bin/python"
    ensure_venv
  fi
  export PIKE_PYTHON
  say "PyTorch $("$PIKE_PYTHON" -c 'import torch; print(torch.__version__)') in $PIKE_PYTHON"
  "$PIKE_PYTHON" -c 'import einops, numpy' >/dev/null 2>&1 ||
    say "note: numpy or einops is missing in that Python; candidates that import them will end as load_error"
}

ensure_venv() {
  if "$PIKE_VENV/bin/python" -c 'import einops, numpy, torch' >/dev/null 2>&1; then return 0; fi
  [ "$INSTALL" = yes ] ||
    die "with --no-install a Python with PyTorch must be there: set PIKE_PYTHON to it, or activate its environment"
  require_disk "$PIKE_DISK_GB"
  make_venv "$PIKE_VENV"
  say "installing PyTorch $PIKE_TORCH_VERSION, numpy and einops into .venv (about 5 GB)"
  pip_install "$PIKE_VENV" "torch==$PIKE_TORCH_VERSION" numpy einops
}

# ---- CUDA compiler -----------------------------------------------------------------------------

# Prints the nvcc that will be used, if there is one.
find_nvcc() {
  local candidate
  for candidate in "${CUDA_HOME:-}/bin/nvcc" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc \
    "$(dirname "$(dirname "$PIKE_PYTHON")")"/lib/python3*/site-packages/nvidia/cu13/bin/nvcc; do
    if [ -x "$candidate" ]; then
      printf '%s' "$candidate"
      return 0
    fi
  done
  return 1
}

# What makes ensure_python take .venv instead of PIKE_PYTHON: it was set by the user, or found in an active environment.
advice_for_own_venv() {
  local active
  if ! active=$(active_python); then
    printf 'unset PIKE_PYTHON'
  elif [ "$PYTHON_CHOSEN_BY" = user ]; then
    printf "unset PIKE_PYTHON and deactivate the environment of %s ('deactivate' or 'conda deactivate')" "$active"
  else
    printf "deactivate the environment of %s ('deactivate' or 'conda deactivate')" "$active"
  fi
}

# ensure_nvcc: compiles CUDA candidates; needs no GPU.
ensure_nvcc() {
  local nvcc
  if ! nvcc=$(find_nvcc); then
    [ "$INSTALL" = yes ] || die "no nvcc here: with --no-install set CUDA_HOME to a CUDA toolkit"
    [ "$PIKE_PYTHON" = "$PIKE_VENV/bin/python" ] ||
      die "no nvcc here: install a CUDA 13 toolkit in /usr/local/cuda, or $(advice_for_own_venv) so that one is put into .venv"
    say "no CUDA toolkit found: installing nvcc $PIKE_CUDA_VERSION into .venv"
    pip_install "$PIKE_VENV" "cuda-toolkit[nvcc,cccl,crt,nvvm]==$PIKE_CUDA_VERSION"
    nvcc=$(find_nvcc) || die "nvcc is not where cuda-toolkit $PIKE_CUDA_VERSION puts it: set CUDA_HOME to a CUDA 13 toolkit"
  fi
  say "CUDA compiler: $nvcc"
}

# ---- building ----------------------------------------------------------------------------------

# build_preset PRESET [TARGET...]
build_preset() {
  local preset="$1" targets=()
  shift
  [ $# -eq 0 ] || targets=(--target "$@")
  cd "$PIKE_ROOT"
  require_disk 2
  PATH="/usr/bin:$PATH" logged "configure-$preset" cmake --preset "$preset" "-DPIKE_PYTHON=${PIKE_PYTHON:-$PIKE_VENV/bin/python}" ||
    die "cmake could not configure: what it names above is missing or too old (packages: deploy/packages-debian.txt)"
  logged "build-$preset" cmake --build --preset "$preset" --parallel "$(build_jobs)" "${targets[@]}" ||
    die "the build failed: the compiler's message is above and in $PIKE_LOG_DIR/build-$preset.log"
}
