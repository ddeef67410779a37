#include "runtime/kernel_file.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <concepts>
#include <cstring>
#include <type_traits>
#include <variant>

#include "ir/error.h"
#include "runtime/dim_codec.h"

namespace anydim::runtime {

namespace {

using Hash = std::array<std::uint8_t, 16>;

constexpr std::string_view magic = "anydimk\n";
constexpr std::uint32_t version = 7;
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

[[noreturn]] void reject(const std::string& why) {
  throw Error(ErrorKind::Malformed, "a cached kernel " + why);
}

// What is kept of a kernel is said once, in the functions fields(): over a Writer and a constant
// kernel they write it, over a Reader and an empty kernel they read it.
class Writer {
 public:
  template <typename Number>
    requires std::is_arithmetic_v<Number>
  void operator()(const Number& number) {
    bytes_.number(number);
  }
  void operator()(const std::string& text) { bytes_.text(text); }
  void operator()(const ir::Dim& dim) { bytes_.dim(dim); }
  // An enumerator up to `last`.
  template <typename Enum>
  void choice(const Enum& value, Enum, const char*) {
    bytes_.number(static_cast<std::uint8_t>(value));
  }
  template <typename Element, typename Each>
  void list(const std::vector<Element>& elements, std::uint32_t, const char*, Each each) {
    bytes_.number(static_cast<std::uint32_t>(elements.size()));
    for (const Element& element : elements) each(element);
  }
  template <typename Value, typename Each>
  void optional(const std::optional<Value>& value, Each each) {
    (*this)(value.has_value());
    if (value) each(*value);
  }
  template <typename Variant, typename Each>
  void variant(const Variant& value, Each each) {
    bytes_.number(static_cast<std::uint8_t>(value.index()));
    std::visit(each, value);
  }
  void rest(const std::vector<std::byte>& code) { bytes_.raw(code); }
  std::span<const std::byte> bytes() { return bytes_.bytes(); }

 private:
  ByteWriter bytes_;
};

// Throws Error{Malformed} for what no Writer wrote.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename Number>
    requires std::is_arithmetic_v<Number>
  void operator()(Number& number) {
    if constexpr (std::is_same_v<Number, bool>) number = bytes_.number<std::uint8_t>() != 0;
    else number = bytes_.number<Number>();
  }
  void operator()(std::string& text) { text = bytes_.text(); }
  void operator()(ir::Dim& dim) { dim = bytes_.dim(); }
  template <typename Enum>
  void choice(Enum& value, Enum last, const char* what) {
    const auto number = bytes_.number<std::uint8_t>();
    if (number > static_cast<std::uint8_t>(last)) reject(fmt::format("has an unknown {}", what));
    value = static_cast<Enum>(number);
  }
  template <typename Element, typename Each>
  void list(std::vector<Element>& elements, std::uint32_t most, const char* what, Each each) {
    const auto count = bytes_.number<std::uint32_t>();
    if (count > most) reject(fmt::format("has more than {} {}", most, what));
    elements.resize(count);
    for (Element& element : elements) each(element);
  }
  template <typename Value, typename Each>
  void optional(std::optional<Value>& value, Each each) {
    bool there = false;
    (*this)(there);
    if (there) each(value.emplace());
  }
  template <typename... Kinds, typename Each>
  void variant(std::variant<Kinds...>& value, Each each) {
    const std::size_t index = bytes_.number<std::uint8_t>();
    std::size_t at = 0;
    ((at++ == index ? each(value.template emplace<Kinds>()) : void()), ...);
    if (index >= sizeof...(Kinds)) reject("is of an unknown kind of device");
  }
  void rest(std::vector<std::byte>& code) {
    code.assign(bytes_.rest().begin(), bytes_.rest().end());
  }

 private:
  ByteReader bytes_;
};

template <typename T, typename Kind>
concept Of = std::same_as<std::remove_const_t<T>, Kind>;

void fields(auto& bytes, Of<ir::KernelResources> auto& resources) {
  for (auto* number : {&resources.code_bytes, &resources.instructions, &resources.spills,
                       &resources.registers, &resources.stack_bytes, &resources.shared_bytes})
    bytes(*number);
  bytes(resources.remarks);
}

void fields(auto& bytes, Of<ir::TensorMap> auto& map) {
  constexpr std::uint32_t most_dims = 5;
  bytes(map.buffer);
  bytes.choice(map.dtype, ir::DType::Bool, "element type of a tensor map");
  bytes(map.swizzle_bytes);
  bytes.list(map.dims, most_dims, "dims of a tensor map", [&](auto& dim) { bytes(dim); });
  bytes.list(map.strides, most_dims - 1, "strides of a tensor map",
             [&](auto& stride) { bytes(stride); });
  bytes.list(map.box, most_dims, "extents of a tensor map's box",
             [&](auto& elements) { bytes(elements); });
  if (map.dims.empty() || map.strides.size() + 1 != map.dims.size() ||
      map.box.size() != map.dims.size())
    reject("has a tensor map whose dims, strides and box do not fit each other");
}

void fields(auto& bytes, Of<ir::LibraryProduct> auto& product) {
  for (auto* buffer : {&product.x, &product.w, &product.bias, &product.d}) bytes(*buffer);
  bytes.choice(product.dtype, ir::DType::Bool, "element type of a library's product");
  bytes(product.n);
  bytes(product.k);
  bytes(product.w_by_columns);
  bytes.choice(product.activation, ir::LibraryProduct::Activation::GeluTanh,
               "activation of a library's product");
  bytes(product.tf32);
  if (product.n < 1 || product.k < 1) reject("has a library's product without columns or terms");
}

void fields(auto& bytes, Of<ir::DeviceLaunch> auto& launch) {
  constexpr std::uint32_t most_maps = 16;
  bytes(launch.entry);
  for (auto& blocks : launch.grid) bytes(blocks);
  for (auto& threads : launch.block) bytes(threads);
  for (auto& blocks : launch.cluster) bytes(blocks);
  bytes(launch.shared_bytes);
  bytes(launch.dependent);
  bytes.list(launch.tensor_maps, most_maps, "tensor maps", [&](auto& map) { fields(bytes, map); });
  bytes.optional(launch.product, [&](auto& product) { fields(bytes, product); });
}

void fields(auto& bytes, Of<ir::CpuEntries> auto& entries) {
  bytes(entries.kernel);
  bytes(entries.sizes);
}

void fields(auto& bytes, Of<ir::CudaLaunches> auto& launches) {
  constexpr std::uint32_t most_launches = 64;
  bytes.list(launches.launches, most_launches, "launches",
             [&](auto& launch) { fields(bytes, launch); });
  bytes(launches.waits);
}

void fields(auto& bytes, Of<ir::CompiledKernel> auto& kernel) {
  fields(bytes, kernel.resources);
  bytes(kernel.tasks);
  bytes(kernel.scratch_bytes);
  bytes.variant(kernel.device, [&](auto& device) { fields(bytes, device); });
  bytes.rest(kernel.code);
}

// That code is where it is said to be.
void check(const ir::CompiledKernel& kernel, const ir::CpuEntries& entries) {
  const auto size = static_cast<std::int64_t>(kernel.code.size());
  if (entries.kernel < 0 || entries.kernel >= size || entries.sizes < -1 || entries.sizes >= size)
    reject("has an entry outside of its code");
}

void check(const ir::CompiledKernel& kernel, const ir::CudaLaunches& cuda) {
  if (kernel.code.empty() && std::ranges::any_of(cuda.launches, [](const ir::DeviceLaunch& launch) {
        return !launch.product;
      }))
    reject("has launches and no code");
}

}  // namespace

std::string to_string(const KernelKey& key) {
  std::string text;
  for (const std::uint8_t byte : key.bytes) text += fmt::format("{:02x}", byte);
  return text;
}

KernelKey kernel_key(std::string_view kind, std::string_view identity, std::string_view bucket,
                     std::string_view schedule, std::string_view target,
                     std::string_view generator) {
  ByteWriter writer;
  for (const std::string_view part : {kind, identity, bucket, schedule, target, generator})
    writer.text(part);
  return {canonical(XXH3_128bits(writer.bytes().data(), writer.bytes().size()))};
}

std::vector<std::byte> encode_kernel(const KernelKey& key, const ir::CompiledKernel& kernel) {
  Writer payload;
  fields(payload, kernel);
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
  if (std::memcmp(reader.raw(magic.size()).data(), magic.data(), magic.size()) != 0)
    return fault("it is no kernel file");
  if (reader.number<std::uint32_t>() != version) return fault("it has another version's form");
  reader.number<std::uint32_t>();
  if (!std::ranges::equal(reader.raw(sizeof(Hash)), bytes_of(key.bytes)))
    return fault("it holds another kernel");
  const auto length = reader.number<std::uint64_t>();
  const auto hash = reader.raw(sizeof(Hash));
  if (reader.rest().size() != length) return fault("it is truncated");
  if (!std::ranges::equal(hash, bytes_of(hash_of(bytes.first(checked_header), reader.rest()))))
    return fault("its hash does not fit");
  try {
    ir::CompiledKernel kernel;
    Reader payload(reader.rest());
    fields(payload, kernel);
    std::visit([&](const auto& device) { check(kernel, device); }, kernel.device);
    return {std::move(kernel), {}};
  } catch (const Error& error) {
    return fault(error.what());
  }
}

}  // namespace anydim::runtime
