#include "lathe/io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "lathe/io/foreign_content.h"
#include "lathe/io/git_lfs.h"
#include "lathe/io/json_file.h"

namespace lathe {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format and the views are little-endian");

constexpr uint64_t kLengthBytes = 8;
// The format allows 100 MB; a header of that size takes 2 GB as JSON.  A shard of a large model has 10,000
// tensors in 2 MiB.
constexpr uint64_t kMaxHeaderBytes = uint64_t{32} << 20;
constexpr int64_t kMaxTensors = 200'000;
constexpr const char* kMetadataKey = "__metadata__";
constexpr const char* kDamaged = "the file is damaged: fetch or save it again";

struct StoredType {
  std::string_view name;
  int bits;
  std::optional<DType> dtype;  ///< how Lathe reads it, if it does
};

// In the order of the reference's enum, which decides where the writer puts a tensor.
constexpr std::array<StoredType, 22> kStoredTypes = {{
    {"BOOL", 8, DType::u8},  {"F4", 4, {}},           {"F6_E2M3", 6, {}},        {"F6_E3M2", 6, {}},
    {"U8", 8, DType::u8},    {"I8", 8, {}},           {"F8_E5M2", 8, {}},        {"F8_E4M3", 8, {}},
    {"F8_E8M0", 8, {}},      {"F8_E4M3FNUZ", 8, {}},  {"F8_E5M2FNUZ", 8, {}},    {"I16", 16, {}},
    {"U16", 16, {}},         {"F16", 16, DType::f16}, {"BF16", 16, DType::bf16}, {"I32", 32, DType::i32},
    {"U32", 32, {}},         {"F32", 32, DType::f32}, {"C64", 64, {}},           {"F64", 64, DType::f64},
    {"I64", 64, DType::i64}, {"U64", 64, {}},
}};

const StoredType* find_stored_type(std::string_view name) {
  for (const StoredType& type : kStoredTypes)
    if (type.name == name) return &type;
  return nullptr;
}

/// Place in kStoredTypes of what this dtype is written as.
size_t rank_of(DType dtype) {
  for (size_t i = 1; i < kStoredTypes.size(); ++i)  // 0 is BOOL, which u8 is not written as
    if (kStoredTypes[i].dtype == dtype) return i;
  fail(ErrorCode::kInternal, "safetensors: no stored type for {}", name_of(dtype));
}

/// A tensor as the header declares it.
struct Declared {
  std::string name;
  const StoredType* type = nullptr;
  std::string type_name;
  Shape shape;
  uint64_t begin = 0, end = 0;
};

/// A list of non-negative integers.
std::vector<uint64_t> sizes(const json& entry, const char* key, const std::string& where) {
  const json list = required<json>(entry, key, where);
  std::vector<uint64_t> out;
  bool good = list.is_array();
  for (size_t i = 0; good && i < list.size(); ++i) {
    good = list[i].is_number_unsigned();
    if (good) out.push_back(list[i].get<uint64_t>());
  }
  if (!good)
    fail(ErrorCode::kInvalidData, "{}: \"{}\": found {}, expected a list of integers from 0; {}", where, key,
         list.dump(-1, ' ', true).substr(0, 80), kDamaged);
  return out;
}

/// Nothing where they are more than 2^64, or a dimension is beyond an int64_t or negative.
std::optional<uint64_t> bits_of(const Shape& shape, int bits_of_one) {
  uint64_t bits = static_cast<uint64_t>(bits_of_one);
  for (const int64_t d : shape)
    if (d < 0 || __builtin_mul_overflow(bits, static_cast<uint64_t>(d), &bits)) return {};
  return bits;
}

Declared declared(const std::string& name, const json& entry, const std::string& where) {
  Declared out{.name = name};
  out.type_name = required<std::string>(entry, "dtype", where);
  out.type = find_stored_type(out.type_name);
  if (out.type == nullptr)
    fail(ErrorCode::kUnsupported,
         "{}: unknown dtype \"{}\"; expected one of the safetensors dtypes (F32, BF16, …); the file is "
         "damaged "
         "or newer than this Lathe",
         where, out.type_name.substr(0, 40));
  for (const uint64_t d : sizes(entry, "shape", where)) out.shape.push_back(static_cast<int64_t>(d));
  const std::optional<uint64_t> bits = bits_of(out.shape, out.type->bits);
  if (!bits)
    fail(ErrorCode::kInvalidData, "{}: the shape {} is larger than any memory; {}", where,
         entry["shape"].dump().substr(0, 80), kDamaged);
  const std::vector<uint64_t> offsets = sizes(entry, "data_offsets", where);
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    fail(ErrorCode::kInvalidData,
         "{}: \"data_offsets\": found {}, expected [begin, end] with begin ≤ end; {}", where,
         entry["data_offsets"].dump().substr(0, 80), kDamaged);
  out.begin = offsets[0];
  out.end = offsets[1];
  if (*bits % 8 != 0 || out.end - out.begin != *bits / 8)
    fail(ErrorCode::kInvalidData, "{}: found {} bytes at [{}, {}), expected {} for {} {}; {}", where,
         out.end - out.begin, out.begin, out.end, *bits / 8, out.type_name, to_string(out.shape), kDamaged);
  return out;
}

/// Sorted by offset, the tensors cover the data exactly.
void check_layout(std::vector<Declared>& tensors, uint64_t data_bytes, const std::string& path) {
  std::sort(tensors.begin(), tensors.end(), [](const Declared& a, const Declared& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  uint64_t covered = 0;
  for (const Declared& tensor : tensors) {
    if (tensor.begin != covered)
      fail(ErrorCode::kInvalidData,
           "{}: tensor \"{}\": found it at byte {}, expected {} ({} the tensor before); {}", path,
           tensor.name, tensor.begin, covered, tensor.begin < covered ? "overlaps" : "leaves a hole after",
           kDamaged);
    covered = tensor.end;
  }
  if (covered != data_bytes)
    fail(ErrorCode::kInvalidData, "{}: found {} bytes of tensor data, expected {} as its header declares; {}",
         path, data_bytes, covered,
         covered > data_bytes ? "the file is cut short: fetch it again" : kDamaged);
}

/// The JSON header of a file, bounds checked.
std::string_view header_of(const MappedFile& file, const std::string& path) {
  const std::string_view text = file.text();
  refuse_git_lfs_pointer(text, path);
  if (text.size() < kLengthBytes)
    fail(ErrorCode::kInvalidData, "{}: found {} bytes, expected a safetensors file (at least {}); {}", path,
         text.size(), kLengthBytes, kDamaged);
  uint64_t length = 0;
  std::memcpy(&length, text.data(), sizeof(length));
  // Only then: the length of a header may begin as gzip data does.
  if (length == 0 || length > kMaxHeaderBytes ||
      (length > text.size() - kLengthBytes && text.starts_with("PK\x03\x04")))
    refuse_foreign_content(text, path, "a safetensors file");
  if (length > kMaxHeaderBytes)
    fail(ErrorCode::kInvalidData,
         "{}: the header claims {} bytes, expected at most {}: not a safetensors file, or damaged: fetch it "
         "again",
         path, length, kMaxHeaderBytes);
  if (length > text.size() - kLengthBytes)
    fail(ErrorCode::kInvalidData,
         "{}: the header claims {} bytes, found {}: the file is cut short: fetch it again", path, length,
         text.size() - kLengthBytes);
  const std::string_view header = text.substr(kLengthBytes, length);
  if (!header.starts_with('{'))  // the format requires this; JSON allows a byte-order mark and blanks
    fail(ErrorCode::kInvalidData, "{}: the header begins with {}, expected '{{'; {}", path,
         header.starts_with("\xEF\xBB\xBF") ? "a byte-order mark"
         : header.empty()
             ? "nothing"
             : fmt::format("the byte 0x{:02x}", static_cast<unsigned>(static_cast<uint8_t>(header[0]))),
         kDamaged);
  // Of each tensor: its object, two lists, five texts, some numbers.  Texts of the metadata have some, too.
  for (const auto& [mark, of_each] : {std::pair('{', 1), {'[', 2}, {'"', 12}, {',', 16}})
    if (std::count(header.begin(), header.end(), mark) > of_each * kMaxTensors)
      fail(ErrorCode::kInvalidData,
           "{}: the header declares more than {} tensors, or as much other data; save the model in shards",
           path, kMaxTensors);
  return header;
}

std::map<std::string, std::string> metadata_of(const json& header, const std::string& path) {
  std::map<std::string, std::string> out;
  const auto found = header.find(kMetadataKey);
  if (found == header.end() || found->is_null()) return out;
  const std::string where = fmt::format("{}: header: {}", path, kMetadataKey);
  if (!found->is_object()) fail(ErrorCode::kInvalidData, "{}: expected an object of strings", where);
  for (const auto& item : found->items()) out[item.key()] = required<std::string>(*found, item.key(), where);
  return out;
}

}  // namespace

SafetensorsFile SafetensorsFile::open(FileSystem& fs, const std::string& path) {
  return parse(fs.map(path).value(), path);
}

SafetensorsFile SafetensorsFile::parse(MappedFile file, const std::string& path) {
  SafetensorsFile out;
  out.path_ = path;
  out.file_ = std::move(file);
  const std::string_view text = header_of(out.file_, path);
  const json header = parse_json(text, path + ": header", {.duplicate_keys = false});
  out.metadata_ = metadata_of(header, path);
  std::vector<Declared> tensors;
  for (const auto& item : header.items()) {
    if (item.key() == kMetadataKey) continue;
    tensors.push_back(declared(item.key(), item.value(), fmt::format("{}: tensor \"{}\"", path, item.key())));
  }
  const std::span<const std::byte> data = out.file_.bytes().subspan(kLengthBytes + text.size());
  check_layout(tensors, data.size(), path);
  for (const Declared& tensor : tensors) {
    const DType dtype = tensor.type->dtype.value_or(DType::u8);
    out.entries_[tensor.name] = {{dtype, tensor.shape, data.subspan(tensor.begin, tensor.end - tensor.begin)},
                                 tensor.type_name,
                                 tensor.type->dtype.has_value()};
  }
  for (const auto& [name, entry] : out.entries_) out.names_.push_back(name);
  return out;
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return nullptr;
  if (!found->second.readable)
    fail(ErrorCode::kUnsupported,
         "{}: tensor \"{}\": found dtype {}, expected F32, BF16, F16, F64, I64, I32, U8 or BOOL; save the "
         "model "
         "in one "
         "of these",
         path_, name, found->second.dtype);
  return &found->second.view;
}

void SafetensorsFile::release(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found != entries_.end()) file_.release(found->second.view.bytes);
}

namespace {

/// A string as JSON text; not ok if it is not UTF-8.
Result<std::string> quoted(const std::string& text, const std::string& path) {
  try {
    return json(text).dump();
  } catch (const json::exception&) {
    return Status(ErrorCode::kInvalidData, fmt::format("{}: a name or metadata text is not UTF-8", path));
  }
}

using Ordered = std::vector<const TensorSources::value_type*>;

Ordered in_file_order(const TensorSources& tensors) {
  Ordered out;
  for (const auto& item : tensors) out.push_back(&item);
  std::stable_sort(out.begin(), out.end(), [](const auto* a, const auto* b) {
    return rank_of(a->second.dtype) > rank_of(b->second.dtype);
  });
  return out;
}

Status check_tensor(const std::string& name, const TensorSource& tensor, const std::string& path) {
  if (name == kMetadataKey)
    return Status(ErrorCode::kInvalidData, fmt::format("{}: a tensor may not be named {}", path, name));
  if (!bits_of(tensor.shape, 8))
    return Status(ErrorCode::kShape, fmt::format("{}: tensor \"{}\": the shape {} is larger than any memory",
                                                 path, name, to_string(tensor.shape)));
  return {};
}

size_t bytes_in(const TensorSource& tensor) { return bytes_of(Type{tensor.dtype, tensor.shape}); }

/// Length and JSON, padded.  Keys and spaces as the Python package writes them.
Result<std::string> make_header(const Ordered& tensors, const std::map<std::string, std::string>& metadata,
                                const std::string& path) {
  std::string text = "{";
  const auto add = [&text](const std::string& key, const std::string& value) {
    text += fmt::format("{}{}:{}", text.size() > 1 && text.back() != '{' ? "," : "", key, value);
  };
  if (!metadata.empty()) {
    text += fmt::format("\"{}\":{{", kMetadataKey);
    for (const auto& [key, value] : metadata) {
      const Result<std::string> k = quoted(key, path), v = quoted(value, path);
      if (!k.ok() || !v.ok()) return k.ok() ? v.status() : k.status();
      add(Result<std::string>(k).value(), Result<std::string>(v).value());
    }
    text += "}";
  }
  uint64_t offset = 0;
  for (const auto* item : tensors) {
    const auto& [name, tensor] = *item;
    Result<std::string> key = quoted(name, path);
    if (!key.ok()) return key;
    const uint64_t end = offset + bytes_in(tensor);
    add(key.value(),
        fmt::format("{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                    kStoredTypes[rank_of(tensor.dtype)].name, fmt::join(tensor.shape, ","), offset, end));
    offset = end;
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string out(reinterpret_cast<const char*>(&length), sizeof(length));
  return out + text;
}

}  // namespace

Status write_safetensors(FileSystem& fs, const std::string& path, const TensorMap& tensors,
                         const std::map<std::string, std::string>& metadata) {
  TensorSources sources;
  for (const auto& [name, tensor] : tensors) {
    const TensorSource& source = sources[name] = source_of(tensor);
    if (Status status = check_tensor(name, source, path); !status.ok()) return status;
    if (const size_t wanted = bytes_in(source); tensor.bytes.size() != wanted)
      return {ErrorCode::kShape,
              fmt::format("{}: tensor \"{}\": found {} bytes, expected {} for {}", path, name,
                          tensor.bytes.size(), wanted, to_string(Type{tensor.dtype, tensor.shape}))};
  }
  return write_safetensors(fs, path, sources, metadata);
}

Status write_safetensors(FileSystem& fs, const std::string& path, const TensorSources& tensors,
                         const std::map<std::string, std::string>& metadata) {
  for (const auto& [name, tensor] : tensors)
    if (Status status = check_tensor(name, tensor, path); !status.ok()) return status;
  const Ordered ordered = in_file_order(tensors);
  Result<std::string> header = make_header(ordered, metadata, path);
  if (!header.ok()) return header.status();
  if (header.value().size() > kMaxHeaderBytes || std::ssize(tensors) > kMaxTensors)
    return {
        ErrorCode::kUnsupported,
        fmt::format(
            "{}: found {} tensors and a header of {} bytes, expected at most {} and {}; save the model in "
            "shards",
            path, tensors.size(), header.value().size(), kMaxTensors, kMaxHeaderBytes)};
  return fs.write_atomic(path, [&](const Sink& sink) {
    Status status = sink(as_bytes(header.value()));
    for (size_t i = 0; i < ordered.size() && status.ok(); ++i)
      status = write_tensor(ordered[i]->second, sink);
    return status;
  });
}

}  // namespace lathe
