#!/bin/bash
# Installs the Debian 12 packages that building, testing and the quick start need. Does nothing, in a fraction of a
# second, when all are there. Needs root or sudo only when something is missing. With --gate also what only the gate needs: a browser that shows pages to tests (64 MB).
set -euo pipefail

packages=(
  # packages and what holds the ABI
  binutils dpkg-dev file lintian abigail-tools pkg-config
  # compilers and build tools
  clang-19 lld-19 clang-format-19 clang-tidy-19 libclang-rt-19-dev cmake ninja-build ccache git ca-certificates
  # libraries
  llvm-19-dev libxml2-dev libzstd-dev zlib1g-dev libprotobuf-dev protobuf-compiler libonnx-dev libfmt-dev
  libcli11-dev nlohmann-json3-dev libxxhash-dev libsqlite3-dev libopenmpi-dev openmpi-bin
  # tests and measurements
  libgtest-dev libbenchmark-dev fiu-utils librapidcheck-dev libonnx-testdata python3 python3-venv python3-dev fortunes
)

[ "${1:-}" != --gate ] || packages+=(chromium-headless-shell)

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "packages: all ${#packages[@]} Debian packages are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "packages: these are missing, and installing them needs root or sudo: ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "packages: installing ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
