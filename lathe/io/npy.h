#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lathe/core/dtype.h"
#include "lathe/core/error.h"
#include "lathe/io/file_system.h"

namespace lathe {

/// What a .npy file of numpy holds: one array, row after row.
struct NpyArray {
  DType dtype = DType::f32;    ///< f32 or f16
  std::vector<int64_t> shape;  ///< one or two dimensions

  /// The numbers of one row: 1 of an array of one dimension.
  int64_t width() const { return shape.size() == 2 ? shape[1] : 1; }
};

/// Puts rows, all in one call or a few in each: [any number of rows, width].
using NpySink = std::function<Status(std::span<const float>)>;
using NpyRows = std::function<Status(const NpySink&)>;

/// Writes atomically the bytes that numpy.save would.  `rows` gets the sink and puts as many rows as the
/// shape says, so that no more than a few need to be in memory; f16 is rounded to nearest.  Returns kShape
/// for another number of values or dimensions, kUnsupported for another dtype, and what `rows` and the disk
/// return.
Status write_npy(FileSystem& fs, const std::string& path, const NpyArray& array, const NpyRows& rows);
/// The same with all rows at hand.
Status write_npy(FileSystem& fs, const std::string& path, const NpyArray& array,
                 std::span<const float> values);

/// The same where nobody knows yet how many rows there are: they wait in a file of their own next to it,
/// which is gone in the end.
class NpyStream {
 public:
  /// Errors: kIo.
  NpyStream(FileSystem& fs, std::string path, int64_t width);
  ~NpyStream();
  NpyStream(const NpyStream&) = delete;
  NpyStream& operator=(const NpyStream&) = delete;

  /// Whole rows of f32.  Errors: kIo.
  void put(std::span<const float> rows);
  /// Writes the file.  Errors: kIo.
  void finish();

 private:
  FileSystem& fs_;
  std::string path_, waiting_;
  int64_t width_, values_ = 0;
  std::unique_ptr<WritableFile> file_;
};

/// A .npy file, mapped.
class NpyFile {
 public:
  /// Throws kNotFound or kIo when the file cannot be read, kInvalidData when it is none or is cut short,
  /// kUnsupported for an array of other numbers than float32 and float16, of other than one or two
  /// dimensions, or in Fortran's order.
  static NpyFile open(FileSystem& fs, const std::string& path);

  const NpyArray& array() const { return array_; }
  int64_t rows() const { return array_.shape[0]; }
  /// Rows [first, first + count), in float.  Throws kUsage for rows that there are not.
  std::vector<float> read(int64_t first, int64_t count) const;

 private:
  MappedFile file_;
  NpyArray array_;
  size_t begins_ = 0;
};

}  // namespace lathe
