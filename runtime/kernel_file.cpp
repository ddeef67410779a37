#include "runtime/kernel_file.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "ir/error.h"
#include "runtime/dim_codec.h"

namespace anydim::runtime {

namespace {

using Hash = std::array<std::uint8_t, 16>;

constexpr std::string_view magic = "anydimk\n";
constexpr std::uint32_t version = 1;
constexpr std::size_t checked_header = magic.size() + 4 + 4 + sizeof(Hash) + 8;
constexpr std::size_t header = checked_header + sizeof(Hash);

Hash canonical(XXH128_hash_t hash) {
  XXH128_canonical_t big_endian;
  XXH128_canonicalFromHash(&big_endian, hash);
  Hash bytes;
  std::copy(std::begin(big_endian.digest), std::end(big_endian.digest), bytes.begin());
  return bytes;
}

Hash hash_of(std::span<const std::byte> first, std::span<const std::byte> second) {
  const std::uint64_t seed = XXH3_64bits(first.data(), first.size());
  return canonical(XXH3_128bits_withSeed(second.data(), second.size(), seed));
}

std::span<const std::byte> bytes_of(const Hash& hash) { return std::as_bytes(std::span(hash)); }

void write_payload(ByteWriter& writer, const ir::CompiledKernel& kernel) {
  writer.number(kernel.entry_offset);
  writer.number(kernel.resources.code_bytes);
  writer.number(kernel.resources.instructions);
  writer.number(kernel.resources.spills);
  writer.dim(kernel.tasks);
  writer.dim(kernel.scratch_bytes);
  writer.raw(kernel.code);
}

ir::CompiledKernel read_payload(std::span<const std::byte> payload) {
  ByteReader reader(payload);
  ir::CompiledKernel kernel;
  kernel.entry_offset = reader.number<std::int64_t>();
  kernel.resources.code_bytes = reader.number<std::int64_t>();
  kernel.resources.instructions = reader.number<std::int64_t>();
  kernel.resources.spills = reader.number<std::int64_t>();
  kernel.tasks = reader.dim();
  kernel.scratch_bytes = reader.dim();
  kernel.code.assign(reader.rest().begin(), reader.rest().end());
  if (kernel.entry_offset < 0 || static_cast<std::size_t>(kernel.entry_offset) >= kernel.code.size()) {
    throw Error(ErrorKind::Malformed, "a cached kernel's entry lies outside its code");
  }
  return kernel;
}

}  // namespace

std::string to_string(const KernelKey& key) {
  std::string text;
  for (const std::uint8_t byte : key.bytes) text += fmt::format("{:02x}", byte);
  return text;
}

KernelKey kernel_key(std::string_view kind, std::string_view identity, std::string_view bucket, std::string_view schedule,
                     std::string_view target, std::string_view generator) {
  ByteWriter writer;
  for (const std::string_view part : {kind, identity, bucket, schedule, target, generator}) writer.text(part);
  return {canonical(XXH3_128bits(writer.bytes().data(), writer.bytes().size()))};
}

std::vector<std::byte> encode_kernel(const KernelKey& key, const ir::CompiledKernel& kernel) {
  ByteWriter payload;
  write_payload(payload, kernel);
  ByteWriter file;
  file.raw(std::as_bytes(std::span(magic)));
  file.number(version);
  file.number(std::uint32_t{0});
  file.raw(bytes_of(key.bytes));
  file.number(static_cast<std::uint64_t>(payload.bytes().size()));
  const Hash hash = hash_of(file.bytes(), payload.bytes());
  file.raw(bytes_of(hash));
  file.raw(payload.bytes());
  return std::move(file.bytes());
}

DecodedKernel decode_kernel(const KernelKey& key, std::span<const std::byte> bytes) {
  const auto fault = [](std::string why) { return DecodedKernel{std::nullopt, std::move(why)}; };
  if (bytes.size() < header) return fault("it is truncated");
  ByteReader reader(bytes);
  if (std::memcmp(reader.raw(magic.size()).data(), magic.data(), magic.size()) != 0) return fault("it is no kernel file");
  if (reader.number<std::uint32_t>() != version) return fault("it has another version's form");
  reader.number<std::uint32_t>();
  if (!std::ranges::equal(reader.raw(sizeof(Hash)), bytes_of(key.bytes))) return fault("it holds another kernel");
  const auto length = reader.number<std::uint64_t>();
  const auto hash = reader.raw(sizeof(Hash));
  if (reader.rest().size() != length) return fault("it is truncated");
  if (!std::ranges::equal(hash, bytes_of(hash_of(bytes.first(checked_header), reader.rest())))) return fault("its hash does not fit");
  try {
    return {read_payload(reader.rest()), {}};
  } catch (const Error& error) {
    return fault(error.what());
  }
}

}  // namespace anydim::runtime
