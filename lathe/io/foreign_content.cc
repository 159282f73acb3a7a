#include "lathe/io/foreign_content.h"

#include <algorithm>

#include "lathe/core/error.h"

namespace lathe {
namespace {

using namespace std::string_view_literals;

struct Kind {
  std::string_view begins, is;
};

constexpr Kind kKinds[] = {
    {"version https://git-lfs"sv, "a Git LFS pointer: run `git lfs pull` there"sv},
    {"\x1f\x8b"sv, "gzip data: unpack it with gunzip"sv},
    {"PK\x03\x04"sv, "a zip archive, as torch.save and Excel write: unpack or name it as what it is"sv},
    {"\xFF\xFE"sv, "UTF-16 text: convert it, e.g. with iconv -f utf-16 -t utf-8"sv},
    {"\xFE\xFF"sv, "UTF-16 text: convert it, e.g. with iconv -f utf-16 -t utf-8"sv},
    {"PAR1"sv, "Parquet: give the file a name that ends in .parquet"sv},
    {"\x80\x02"sv, "a Python pickle: save or fetch the file itself again"sv},
    {"\x80\x04"sv, "a Python pickle: save or fetch the file itself again"sv},
    {"\x80\x05"sv, "a Python pickle: save or fetch the file itself again"sv},
    {"\x89HDF"sv, "HDF5: save the model as safetensors"sv},
    {"\x28\xB5\x2F\xFD"sv, "zstd data: unpack it with unzstd"sv},
    {"\xFD"
     "7zXZ"sv,
     "xz data: unpack it with unxz"sv},
    {"BZh"sv, "bzip2 data: unpack it with bunzip2"sv},
    {"%PDF"sv, "a PDF: save its text"sv},
};

constexpr std::string_view kPages[] = {"<!doctype", "<html", "<head", "<body", "<script", "<?xml"};

/// `text` in small letters, as far as `size`.
std::string small_letters(std::string_view text, size_t size) {
  std::string out(text.substr(0, size));
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

}  // namespace

std::string_view foreign_content(std::string_view bytes) {
  for (const auto& [begins, is] : kKinds)
    if (bytes.starts_with(begins)) return is;
  if (bytes.starts_with("\xEF\xBB\xBF")) bytes.remove_prefix(3);
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return "an empty file: fetch or save it again";
  const std::string begin = small_letters(bytes.substr(first), 16);
  for (const std::string_view page : kPages)
    if (begin.starts_with(page))
      return "a web page, as a login, a proxy or a server's error sends it: open the address in a browser, "
             "then fetch the file again";
  const std::string_view head = bytes.substr(0, 64);
  if (std::all_of(head.begin(), head.end(), [](char c) { return c == '\0'; }))
    return "zero bytes, as a full disk or a crash leaves them: fetch or save the file again";
  if (head.size() >= 4 && (head[0] == '\0') != (head[1] == '\0') && (head[0] == '\0') == (head[2] == '\0') &&
      (head[1] == '\0') == (head[3] == '\0'))
    return "UTF-16 text: convert it, e.g. with iconv -f utf-16 -t utf-8";
  return {};
}

void refuse_foreign_content(std::string_view bytes, const std::string& file, std::string_view wanted) {
  const std::string_view is = foreign_content(bytes);
  if (!is.empty()) fail(ErrorCode::kInvalidData, "{}: expected {}, found {}", file, wanted, is);
}

}  // namespace lathe
