#include "lathe/io/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "lathe/core/float16.h"
#include "lathe/io/foreign_content.h"

namespace lathe {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;
constexpr size_t kValuesAtOnce = size_t{1} << 16;

const char* descr_of(DType dtype) { return dtype == DType::f16 ? "<f2" : "<f4"; }

std::string npy_header(const NpyArray& array) {
  std::string shape = fmt::format("{},", array.shape[0]);
  if (array.shape.size() == 2) shape += fmt::format(" {}", array.shape[1]);
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr_of(array.dtype), shape);
  // numpy leaves room for a first dimension of 21 digits.
  text.append(21 - std::min<size_t>(std::to_string(array.shape[0]).size(), 21), ' ');
  const size_t fixed = kMagic.size() + 4;
  text.append(kAlignment - 1 - (fixed + text.size()) % kAlignment, ' ');
  text += '\n';
  std::string out(kMagic);
  out += {'\x01', '\x00', static_cast<char>(text.size() & 0xFF), static_cast<char>(text.size() >> 8)};
  return out + text;
}

Status put_values(const Sink& sink, DType dtype, std::span<const float> values) {
  if (dtype == DType::f32) return sink(std::as_bytes(values));
  std::vector<f16> half;
  for (size_t i = 0; i < values.size(); i += kValuesAtOnce) {
    const auto part = values.subspan(i, std::min(kValuesAtOnce, values.size() - i));
    half.clear();
    for (const float value : part) half.push_back(to_f16(value));
    if (Status status = sink(std::as_bytes(std::span<const f16>(half))); !status.ok()) return status;
  }
  return {};
}

// What follows 'key': in the header's dictionary, without blanks in front.
std::optional<std::string_view> value_after(std::string_view header, std::string_view key) {
  const size_t at = header.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = header.substr(at + key.size() + 3);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest;
}

// "(3, 4)" or "(3,)"; nothing where it is malformed.
std::optional<std::vector<int64_t>> shape_of(std::string_view text) {
  if (text.empty() || text[0] != '(') return std::nullopt;
  std::vector<int64_t> out;
  text.remove_prefix(1);
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(" ,"), text.size()));
    if (!text.empty() && text[0] == ')') return out;
    int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 0) return std::nullopt;
    out.push_back(size);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
  }
}

[[noreturn]] void fail_as_damaged(const std::string& path, const char* what) {
  fail(ErrorCode::kInvalidData, "{}: {}: it is damaged or no file of numpy.save; save the array again", path,
       what);
}

// The header's text, and where the values begin.
std::pair<std::string_view, size_t> header_of(std::string_view bytes, const std::string& path) {
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
  if (bytes.size() < 12) fail_as_damaged(path, "the header is cut short");
  const bool first_version = bytes[6] == 1;
  if (bytes[6] < 1 || bytes[6] > 3) fail_as_damaged(path, "the version is unknown");
  const size_t begins = first_version ? 10 : 12;
  const size_t length = byte(8) + (byte(9) << 8) + (first_version ? 0 : (byte(10) << 16) + (byte(11) << 24));
  if (length > bytes.size() - begins) fail_as_damaged(path, "the header is cut short");
  return {bytes.substr(begins, length), begins + length};
}

NpyArray array_of(std::string_view header, const std::string& path) {
  const auto descr = value_after(header, "descr"), order = value_after(header, "fortran_order"),
             shape = value_after(header, "shape");
  if (!descr || !order || !shape) fail_as_damaged(path, "descr, fortran_order or shape is missing");
  const auto sizes = shape_of(*shape);
  if (!sizes) fail_as_damaged(path, "the shape is malformed");
  NpyArray out{.dtype = DType::f32, .shape = *sizes};
  if (descr->starts_with("'<f2'")) {
    out.dtype = DType::f16;
  } else if (!descr->starts_with("'<f4'")) {
    fail(ErrorCode::kUnsupported,
         "{}: found numbers of type {}, expected float32 or float16: save array.astype(\"float32\")", path,
         descr->substr(0, std::min<size_t>(descr->find(','), 12)));
  }
  if (!order->starts_with("False"))
    fail(ErrorCode::kUnsupported,
         "{}: found an array in Fortran's order: save numpy.ascontiguousarray(array)", path);
  if (out.shape.size() != 1 && out.shape.size() != 2)
    fail(ErrorCode::kUnsupported, "{}: found an array of {} dimensions, expected one or two", path,
         out.shape.size());
  return out;
}

}  // namespace

Status write_npy(FileSystem& fs, const std::string& path, const NpyArray& array, const NpyRows& rows) {
  if (array.dtype != DType::f32 && array.dtype != DType::f16)
    return {ErrorCode::kUnsupported,
            fmt::format("{}: expected f32 or f16, found {}", path, name_of(array.dtype))};
  if (array.shape.size() != 1 && array.shape.size() != 2)
    return {ErrorCode::kShape,
            fmt::format("{}: found {} dimensions, expected one or two", path, array.shape.size())};
  const int64_t wanted = array.shape[0] * array.width();
  int64_t found = 0;
  return fs.write_atomic(path, [&](const Sink& sink) {
    Status status = sink(as_bytes(npy_header(array)));
    if (!status.ok()) return status;
    status = rows([&](std::span<const float> values) {
      found += static_cast<int64_t>(values.size());
      return put_values(sink, array.dtype, values);
    });
    if (status.ok() && found != wanted)
      status = {ErrorCode::kShape, fmt::format("{}: found {} numbers, expected {}", path, found, wanted)};
    return status;
  });
}

Status write_npy(FileSystem& fs, const std::string& path, const NpyArray& array,
                 std::span<const float> values) {
  return write_npy(fs, path, array, [&](const NpySink& sink) { return sink(values); });
}

NpyStream::NpyStream(FileSystem& fs, std::string path, int64_t width)
    : fs_(fs), path_(std::move(path)), waiting_(temporary_name(path_)), width_(width) {
  fs_.create_directories(parent_folder(path_)).check();
  file_ = fs_.create(waiting_).value();
}

NpyStream::~NpyStream() {
  file_.reset();
  static_cast<void>(fs_.remove_all(waiting_));  // nothing can be said of an error here
}

void NpyStream::put(std::span<const float> rows) {
  file_->append(std::as_bytes(rows)).check();
  values_ += std::ssize(rows);
}

void NpyStream::finish() {
  file_->close().check();
  const NpyArray array{.dtype = DType::f32, .shape = {values_ / width_, width_}};
  const auto copy = [&](const NpySink& sink) -> Status {
    if (values_ == 0) return {};
    const MappedFile waiting = fs_.map(waiting_).value();
    const auto* values = reinterpret_cast<const float*>(waiting.bytes().data());
    for (size_t i = 0; i < static_cast<size_t>(values_); i += kValuesAtOnce) {
      const std::span part(values + i, std::min(kValuesAtOnce, static_cast<size_t>(values_) - i));
      if (Status status = sink(part); !status.ok()) return status;
      waiting.release(std::as_bytes(part));
    }
    return {};
  };
  write_npy(fs_, path_, array, copy).check();
}

NpyFile NpyFile::open(FileSystem& fs, const std::string& path) {
  NpyFile out;
  out.file_ = fs.map(path).value();
  const std::string_view bytes = out.file_.text();
  if (!bytes.starts_with(kMagic)) {
    refuse_foreign_content(bytes, path, "an array that numpy.save wrote");
    fail_as_damaged(path, "it does not begin as a .npy file does");
  }
  const auto [header, begins] = header_of(bytes, path);
  out.array_ = array_of(header, path);
  out.begins_ = begins;
  const size_t have = (bytes.size() - begins) / size_of(out.array_.dtype);
  const auto rows = static_cast<size_t>(out.rows()), width = static_cast<size_t>(out.array_.width());
  if (width > 0 && rows > have / width)
    fail(ErrorCode::kInvalidData,
         "{}: cut short: found {} numbers, expected {} rows of {}; copy the file again", path, have, rows,
         width);
  return out;
}

std::vector<float> NpyFile::read(int64_t first, int64_t count) const {
  if (first < 0 || count < 0 || first > rows() - count)
    fail(ErrorCode::kUsage, "rows {} to {} of an array of {}", first, first + count, rows());
  const auto width = static_cast<size_t>(array_.width());
  const auto values = static_cast<size_t>(count) * width;
  const std::byte* from = file_.bytes().data() + begins_;
  from += static_cast<size_t>(first) * width * size_of(array_.dtype);
  std::vector<float> out(values);
  if (array_.dtype == DType::f32) {
    if (values > 0) std::memcpy(out.data(), from, values * sizeof(float));
    return out;
  }
  for (size_t i = 0; i < values; ++i) {
    f16 half{};
    std::memcpy(&half, from + i * sizeof half, sizeof half);
    out[i] = to_float(half);
  }
  return out;
}

}  // namespace lathe
