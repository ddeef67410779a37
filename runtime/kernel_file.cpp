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
constexpr std::uint32_t version = 5;
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

void write_launch(ByteWriter& writer, const ir::DeviceLaunch& launch) {
  writer.text(launch.entry);
  for (const ir::Dim& blocks : launch.grid) writer.dim(blocks);
  for (const std::int32_t threads : launch.block) writer.number(threads);
  for (const std::int32_t blocks : launch.cluster) writer.number(blocks);
  writer.number(launch.shared_bytes);
  writer.number(static_cast<std::uint8_t>(launch.dependent));
  writer.number(static_cast<std::uint32_t>(launch.tensor_maps.size()));
  for (const ir::TensorMap& map : launch.tensor_maps) {
    writer.number(map.buffer);
    writer.number(static_cast<std::uint8_t>(map.dtype));
    writer.number(map.swizzle_bytes);
    writer.number(static_cast<std::uint32_t>(map.dims.size()));
    for (const ir::Dim& dim : map.dims) writer.dim(dim);
    for (const ir::Dim& stride : map.strides) writer.dim(stride);
    for (const std::int32_t elements : map.box) writer.number(elements);
  }
  writer.number(static_cast<std::uint8_t>(launch.product.has_value()));
  if (!launch.product) return;
  const ir::LibraryProduct& product = *launch.product;
  for (const std::int32_t buffer : {product.x, product.w, product.bias, product.d}) writer.number(buffer);
  writer.number(static_cast<std::uint8_t>(product.dtype));
  writer.number(product.n);
  writer.number(product.k);
  writer.number(static_cast<std::uint8_t>(product.w_by_columns));
  writer.number(static_cast<std::uint8_t>(product.activation));
  writer.number(static_cast<std::uint8_t>(product.tf32));
}

[[noreturn]] void reject(const char* why) { throw Error(ErrorKind::Malformed, why); }

ir::LibraryProduct read_product(ByteReader& reader) {
  ir::LibraryProduct product;
  for (std::int32_t* buffer : {&product.x, &product.w, &product.bias, &product.d}) *buffer = reader.number<std::int32_t>();
  const auto dtype = reader.number<std::uint8_t>();
  product.n = reader.number<std::int64_t>();
  product.k = reader.number<std::int64_t>();
  product.w_by_columns = reader.number<std::uint8_t>() != 0;
  const auto activation = reader.number<std::uint8_t>();
  product.tf32 = reader.number<std::uint8_t>() != 0;
  if (dtype > static_cast<std::uint8_t>(ir::DType::Bool) ||
      activation > static_cast<std::uint8_t>(ir::LibraryProduct::Activation::GeluTanh) || product.n < 1 || product.k < 1)
    reject("a cached kernel's product is not one of a library");
  product.dtype = static_cast<ir::DType>(dtype);
  product.activation = static_cast<ir::LibraryProduct::Activation>(activation);
  return product;
}

ir::DeviceLaunch read_launch(ByteReader& reader) {
  constexpr std::uint32_t most_maps = 16, most_dims = 5;
  ir::DeviceLaunch launch;
  launch.entry = reader.text();
  for (ir::Dim& blocks : launch.grid) blocks = reader.dim();
  for (std::int32_t& threads : launch.block) threads = reader.number<std::int32_t>();
  for (std::int32_t& blocks : launch.cluster) blocks = reader.number<std::int32_t>();
  launch.shared_bytes = reader.number<std::int64_t>();
  launch.dependent = reader.number<std::uint8_t>() != 0;
  const auto maps = reader.number<std::uint32_t>();
  if (maps > most_maps) reject("a cached kernel's launch has too many tensor maps");
  for (std::uint32_t i = 0; i < maps; ++i) {
    ir::TensorMap map;
    map.buffer = reader.number<std::int32_t>();
    const auto dtype = reader.number<std::uint8_t>();
    if (dtype > static_cast<std::uint8_t>(ir::DType::Bool)) reject("a cached kernel's tensor map has an unknown element type");
    map.dtype = static_cast<ir::DType>(dtype);
    map.swizzle_bytes = reader.number<std::int32_t>();
    const auto rank = reader.number<std::uint32_t>();
    if (rank == 0 || rank > most_dims) reject("a cached kernel's tensor map has 1 to 5 dims");
    for (std::uint32_t dim = 0; dim < rank; ++dim) map.dims.push_back(reader.dim());
    for (std::uint32_t dim = 1; dim < rank; ++dim) map.strides.push_back(reader.dim());
    for (std::uint32_t dim = 0; dim < rank; ++dim) map.box.push_back(reader.number<std::int32_t>());
    launch.tensor_maps.push_back(std::move(map));
  }
  if (reader.number<std::uint8_t>() != 0) launch.product = read_product(reader);
  return launch;
}

void write_payload(ByteWriter& writer, const ir::CompiledKernel& kernel) {
  writer.number(kernel.entry_offset);
  writer.number(kernel.sizes_offset);
  writer.number(kernel.resources.code_bytes);
  writer.number(kernel.resources.instructions);
  writer.number(kernel.resources.spills);
  writer.number(kernel.resources.registers);
  writer.number(kernel.resources.stack_bytes);
  writer.number(kernel.resources.shared_bytes);
  writer.dim(kernel.tasks);
  writer.dim(kernel.scratch_bytes);
  writer.number(static_cast<std::uint32_t>(kernel.launches.size()));
  for (const ir::DeviceLaunch& launch : kernel.launches) write_launch(writer, launch);
  writer.number(static_cast<std::uint8_t>(kernel.waits));
  writer.raw(kernel.code);
}

ir::CompiledKernel read_payload(std::span<const std::byte> payload) {
  ByteReader reader(payload);
  ir::CompiledKernel kernel;
  kernel.entry_offset = reader.number<std::int64_t>();
  kernel.sizes_offset = reader.number<std::int64_t>();
  kernel.resources.code_bytes = reader.number<std::int64_t>();
  kernel.resources.instructions = reader.number<std::int64_t>();
  kernel.resources.spills = reader.number<std::int64_t>();
  kernel.resources.registers = reader.number<std::int64_t>();
  kernel.resources.stack_bytes = reader.number<std::int64_t>();
  kernel.resources.shared_bytes = reader.number<std::int64_t>();
  kernel.tasks = reader.dim();
  kernel.scratch_bytes = reader.dim();
  constexpr std::uint32_t most_launches = 64;
  const auto launches = reader.number<std::uint32_t>();
  if (launches > most_launches) reject("a cached kernel has too many launches");
  for (std::uint32_t i = 0; i < launches; ++i) kernel.launches.push_back(read_launch(reader));
  kernel.waits = reader.number<std::uint8_t>() != 0;
  kernel.code.assign(reader.rest().begin(), reader.rest().end());
  const bool needs_code =
      kernel.launches.empty() || std::ranges::any_of(kernel.launches, [](const ir::DeviceLaunch& launch) { return !launch.product; });
  if (!needs_code) return kernel;
  const auto size = static_cast<std::int64_t>(kernel.code.size());
  if (kernel.entry_offset < 0 || kernel.entry_offset >= size || kernel.sizes_offset < -1 || kernel.sizes_offset >= size)
    reject("a cached kernel's entry lies outside its code");
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
  return seal_payload(key, payload.bytes());
}

std::vector<std::byte> seal_payload(const KernelKey& key, std::span<const std::byte> payload) {
  ByteWriter file;
  file.raw(std::as_bytes(std::span(magic)));
  file.number(version);
  file.number(std::uint32_t{0});
  file.raw(bytes_of(key.bytes));
  file.number(static_cast<std::uint64_t>(payload.size()));
  const Hash hash = hash_of(file.bytes(), payload);
  file.raw(bytes_of(hash));
  file.raw(payload);
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
