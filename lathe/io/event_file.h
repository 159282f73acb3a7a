#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lathe/io/file_system.h"

namespace lathe {

/// CRC-32C (Castagnoli) of bytes.  Source: RFC 3720, appendix B.4.
uint32_t crc32c(std::string_view bytes);

/// A file of TensorBoard events, written record by record: what is added is in the file when the call
/// returns, so that a page that is open shows it.  Values are rounded to float, as TensorBoard keeps them.
/// Source: tensorflow/core/util/event.proto, framework/{summary,tensor}.proto and lib/io/record_writer.cc.
class EventFile {
 public:
  /// Makes the folder, and in it events.out.tfevents.<seconds>.<host>.<pid>.0.
  static Result<EventFile> create(FileSystem& fs, const std::string& folder);

  Status add_scalar(const std::string& tag, double value, int64_t step);
  /// Text that TensorBoard shows as Markdown.
  Status add_text(const std::string& tag, const std::string& text, int64_t step);

  const std::string& path() const { return path_; }

 private:
  EventFile(std::unique_ptr<WritableFile> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}
  Status add_record(const std::string& event);

  std::unique_ptr<WritableFile> file_;
  std::string path_;
};

/// The name of this machine; "localhost" where it has none.
std::string host_name();

}  // namespace lathe
