#include "lathe/io/torch/torch_file.h"

#include <fmt/format.h>

#include <functional>

#include "lathe/io/foreign_content.h"
#include "lathe/io/git_lfs.h"
#include "lathe/io/torch/pickle_writer.h"
#include "lathe/io/torch/zip_archive.h"
#include "lathe/io/torch/zip_writer.h"

namespace lathe {
namespace {

constexpr const char* kSaveAgain =
    "load it in Python and save it again: torch.save(torch.load(f, weights_only=True), f), or as safetensors";

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Fails for what is not a zip archive, with what it is where that is known.
void check_form(std::string_view content, const std::string& path) {
  constexpr std::string_view kZip("PK\3\4", 4);
  // Protocol 2, then the magic number 0x1950a86a20f9469cfc6c.
  constexpr std::string_view kBeforeZip("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14);
  constexpr size_t kTarMagicOffset = 257;
  if (content.starts_with(kZip)) return;
  refuse_git_lfs_pointer(content, path);
  const bool tar = content.size() > kTarMagicOffset && content.substr(kTarMagicOffset).starts_with("ustar");
  if (content.starts_with(kBeforeZip) || tar)
    fail(ErrorCode::kUnsupported,
         "{}: found the torch.save format from before torch 1.6, expected the zip format; {}", path,
         kSaveAgain);
  if (!content.starts_with("PK")) refuse_foreign_content(content, path, "a file of torch.save");
  fail(ErrorCode::kInvalidData,
       "{}: not a file of torch.save: expected a zip archive ({} bytes found); fetch it again", path,
       content.size());
}

/// The folder inside the archive that holds the records, with its slash.
std::string find_prefix(const ZipArchive& archive, const std::string& path) {
  constexpr std::string_view kPickle = "data.pkl";
  for (const auto& [name, entry] : archive.entries()) {
    if (!name.ends_with(kPickle)) continue;
    const std::string prefix = name.substr(0, name.size() - kPickle.size());
    if (prefix.ends_with('/') && prefix.find('/') + 1 == prefix.size()) return prefix;
  }
  fail(ErrorCode::kInvalidData, "{}: the zip archive has no <name>/data.pkl: not a file of torch.save", path);
}

}  // namespace

TorchFile TorchFile::open(FileSystem& fs, const std::string& path, bool objects, bool known) {
  return parse(fs.map(path).value(), path, objects, known);
}

TorchFile TorchFile::parse(MappedFile file, const std::string& path, bool objects, bool known) {
  check_form(file.text(), path);
  const ZipArchive archive(file.bytes(), path, known);
  const std::string prefix = find_prefix(archive, path);
  if (archive.entries().contains(prefix + "constants.pkl"))
    fail(ErrorCode::kUnsupported,
         "{}: found a TorchScript program, expected a state dict; save model.state_dict() instead", path);
  if (archive.entries().contains(prefix + "byteorder") &&
      text_of(archive.read(prefix + "byteorder")) != "little")
    fail(ErrorCode::kUnsupported, "{}: found big-endian data, expected little-endian; {}", path, kSaveAgain);
  TorchFile out;
  const auto storage = [&](const std::string& key) {
    const std::span<const std::byte> bytes = archive.read(fmt::format("{}data/{}", prefix, key));
    file.release(bytes);  // the CRC has read all of it
    return bytes;
  };
  out.tree_ = unpickle(archive.read(prefix + "data.pkl"), path, storage, objects);
  out.file_ = std::move(file);
  return out;
}

void TorchFile::release(const TensorView& tensor) const {
  const std::span<const std::byte> all = file_.bytes(), part = tensor.bytes;
  // What was not contiguous is a copy elsewhere.
  const std::less_equal<> before;
  if (before(all.data(), part.data()) && before(part.data() + part.size(), all.data() + all.size()))
    file_.release(part);
}

Status write_torch_file(FileSystem& fs, const std::string& path, const PickleValue& root) {
  std::vector<TensorSource> storages;
  const std::string content = pickle(root, storages);
  // torch names the folder in the archive after the file.
  const std::string name = file_name(path), folder = name.substr(0, name.find_last_of('.')) + "/";
  return fs.write_atomic(path, [&](const Sink& sink) {
    ZipWriter zip(sink);
    Status status = zip.add(folder + "data.pkl", as_bytes(content));
    for (const auto& [record, text] :
         {std::pair(".format_version", "1"), {".storage_alignment", "64"}, {"byteorder", "little"}})
      if (status.ok()) status = zip.add(folder + record, as_bytes(text));
    for (size_t key = 0; key < storages.size() && status.ok(); ++key)
      status = zip.add(fmt::format("{}data/{}", folder, key),
                       [&](const Sink& to) { return write_tensor(storages[key], to); });
    if (status.ok()) status = zip.add(folder + "version", as_bytes("3\n"));
    return status.ok() ? zip.finish() : status;
  });
}

StateDict StateDict::open(FileSystem& fs, const std::string& path) {
  StateDict out(TorchFile::open(fs, path));
  const auto* dict = out.file_.root().as<PickleValue::Dict>();
  if (dict == nullptr)
    fail(ErrorCode::kInvalidData, "{}: found a {}, expected a dict of tensors; save model.state_dict()", path,
         out.file_.root().kind());
  if (const PickleValue* inner = dict->find("state_dict");
      inner != nullptr && inner->as<PickleValue::Dict>() != nullptr)
    dict = inner->as<PickleValue::Dict>();
  for (const auto& [key, value] : dict->items) {
    const auto* name = key->as<std::string>();
    if (name == nullptr)
      fail(ErrorCode::kInvalidData, "{}: found a key that is a {}, expected names of tensors", path,
           key->kind());
    const auto* tensor = value->as<TensorView>();
    if (tensor == nullptr)
      fail(ErrorCode::kInvalidData, "{}: \"{}\": found a {}, expected a tensor; save model.state_dict()",
           path, *name, value->kind());
    if (!out.tensors_.emplace(*name, *tensor).second)
      fail(ErrorCode::kInvalidData, "{}: \"{}\" occurs twice", path, *name);
  }
  return out;
}

}  // namespace lathe
