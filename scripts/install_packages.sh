#!/bin/bash
# usage: install_packages.sh [--build | --gate]
# Installs the Debian 12 packages that building, testing and the quick start need; with --build
# those alone that building and the quick start do, with --gate also what only the gate needs: a
# browser that shows pages to tests (64 MB). Does nothing, in a fraction of a second, when all are
# there. Needs root or sudo only when something is missing.
set -euo pipefail

packages=(
  # compilers and build tools
  binutils clang-19 lld-19 cmake ninja-build ccache git ca-certificates
  # libraries
  llvm-19-dev libxml2-dev libzstd-dev zlib1g-dev libprotobuf-dev protobuf-compiler libonnx-dev
  libfmt-dev libcli11-dev nlohmann-json3-dev libxxhash-dev libsqlite3-dev libopenmpi-dev openmpi-bin
  libgtest-dev libbenchmark-dev librapidcheck-dev libonnx-testdata
  # what the quick start runs
  python3 python3-venv python3-dev fortunes
)
# What only tests run, check the packages with, and hold the ABI by.
[ "${1:-}" = --build ] || packages+=(
  dpkg-dev file lintian abigail-tools pkg-config fiu-utils clang-format-19 clang-tidy-19
  libclang-rt-19-dev
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
