#include <arrow/util/compression.h>
#include <parquet/arrow/writer.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/data/parquet_arrow.h"
#include "lathe/data/parquet_part.h"

using namespace lathe_parquet;

namespace {

constexpr int64_t kGroupRows = 65536;  // a group is in memory until it is full

enum Kind { kTexts, kNumbers, kLists };

/// The file's bytes on their way to the sink.
class SinkStream : public arrow::io::OutputStream {
 public:
  SinkStream(LatheTextSink sink, void* context) : sink_(sink), context_(context) {}
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return written_; }
  arrow::Status Write(const void* data, int64_t bytes) override {
    if (stopped_ || sink_(context_, static_cast<const char*>(data), static_cast<size_t>(bytes)) != 0)
      return arrow::Status::IOError("stopped");
    written_ += bytes;
    return arrow::Status::OK();
  }
  using arrow::io::OutputStream::Write;
  /// Nothing goes to the sink any more.
  void stop() { stopped_ = true; }

 private:
  LatheTextSink sink_;
  void* context_;
  int64_t written_ = 0;
  bool closed_ = false, stopped_ = false;
};

/// The next text of a column's cells.
class Texts {
 public:
  explicit Texts(const LatheParquetCells& cells) : cells_(cells) {}
  std::string_view next() {
    const int64_t begin = count_ == 0 ? 0 : cells_.text_ends[count_ - 1];
    return {cells_.texts + begin, static_cast<size_t>(cells_.text_ends[count_++] - begin)};
  }
  int64_t count() const { return count_; }

 private:
  const LatheParquetCells& cells_;
  int64_t count_ = 0;
};

std::shared_ptr<arrow::DataType> type_of(int kind) {
  return kind == kNumbers ? arrow::float32() : kind == kLists ? arrow::list(arrow::utf8()) : arrow::utf8();
}

std::shared_ptr<arrow::Array> array_of(int kind, int64_t rows, const LatheParquetCells& cells) {
  const auto builder = checked(arrow::MakeBuilder(type_of(kind)));
  Texts texts(cells);
  for (int64_t row = 0; row < rows; ++row) {
    if (kind == kTexts) {
      const std::string_view text = texts.next();
      auto& strings = static_cast<arrow::StringBuilder&>(*builder);
      check(cells.there[row] == 0 ? strings.AppendNull() : strings.Append(text));
    } else if (cells.there[row] == 0) {
      check(builder->AppendNull());
    } else if (kind == kNumbers) {
      check(static_cast<arrow::FloatBuilder&>(*builder).Append(cells.numbers[row]));
    } else {
      auto& lists = static_cast<arrow::ListBuilder&>(*builder);
      check(lists.Append());
      while (texts.count() < cells.list_ends[row])
        check(static_cast<arrow::StringBuilder*>(lists.value_builder())->Append(texts.next()));
    }
  }
  return checked(builder->Finish());
}

class Writer {
 public:
  Writer(const char* like, const LatheParquetColumn* columns, int count, LatheTextSink sink, void* context)
      : stream_(std::make_shared<SinkStream>(sink, context)) {
    std::vector<std::shared_ptr<arrow::Field>> fields;
    if (like != nullptr) {
      like_ = open_file(like);
      std::vector<int> groups(static_cast<size_t>(like_->num_row_groups()));
      std::iota(groups.begin(), groups.end(), 0);
      batches_ = checked(like_->GetRecordBatchReader(groups));
      fields = batches_->schema()->fields();
    }
    for (int i = 0; i < count; ++i) {
      kinds_.push_back(columns[i].kind);
      fields.push_back(arrow::field(columns[i].name, type_of(columns[i].kind)));
    }
    schema_ = arrow::schema(fields);
    parquet::WriterProperties::Builder properties;
    properties.max_row_group_length(kGroupRows);
    if (arrow::util::Codec::IsAvailable(arrow::Compression::SNAPPY))
      properties.compression(arrow::Compression::SNAPPY);
    writer_ = checked(
        parquet::arrow::FileWriter::Open(*schema_, arrow::default_memory_pool(), stream_, properties.build(),
                                         parquet::ArrowWriterProperties::Builder().store_schema()->build()));
  }

  ~Writer() { stream_->stop(); }  // what is not finished is not ended by Arrow

  void append(int64_t rows, const LatheParquetCells* cells) {
    std::vector<std::shared_ptr<arrow::Array>> added;
    for (size_t i = 0; i < kinds_.size(); ++i) added.push_back(array_of(kinds_[i], rows, cells[i]));
    if (batches_ == nullptr)
      check(writer_->WriteRecordBatch(*arrow::RecordBatch::Make(schema_, rows, added)));
    else
      for (int64_t row = 0; row < rows;) row += append_next(row, rows, added);
  }

  void finish() { check(writer_->Close()); }

 private:
  /// Rows from `row` on next to as many of the other file as its batch has.  Returns how many.
  int64_t append_next(int64_t row, int64_t rows, const std::vector<std::shared_ptr<arrow::Array>>& added) {
    while (batch_ == nullptr || taken_ == batch_->num_rows()) {
      check(batches_->ReadNext(&batch_));
      taken_ = 0;
      if (batch_ == nullptr) throw std::runtime_error("the file that is read has fewer rows than before");
    }
    const int64_t count = std::min(rows - row, batch_->num_rows() - taken_);
    std::vector<std::shared_ptr<arrow::Array>> arrays = batch_->Slice(taken_, count)->columns();
    for (const auto& array : added) arrays.push_back(array->Slice(row, count));
    check(writer_->WriteRecordBatch(*arrow::RecordBatch::Make(schema_, count, arrays)));
    taken_ += count;
    return count;
  }

  std::shared_ptr<SinkStream> stream_;
  std::unique_ptr<parquet::arrow::FileReader> like_;
  std::shared_ptr<arrow::RecordBatchReader> batches_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  int64_t taken_ = 0;  // rows of it
  std::vector<int> kinds_;
  std::shared_ptr<arrow::Schema> schema_;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
};

}  // namespace

LATHE_DOOR int lathe_parquet_create(const char* like, const LatheParquetColumn* columns, int count,
                                    LatheTextSink sink, void* context, void** writer, char* error,
                                    size_t error_bytes) {
  return guarded(error, error_bytes, [&] { *writer = new Writer(like, columns, count, sink, context); });
}

LATHE_DOOR int lathe_parquet_append(void* writer, int64_t rows, const LatheParquetCells* cells, char* error,
                                    size_t error_bytes) {
  return guarded(error, error_bytes, [&] { static_cast<Writer*>(writer)->append(rows, cells); });
}

LATHE_DOOR int lathe_parquet_finish(void* writer, char* error, size_t error_bytes) {
  return guarded(error, error_bytes, [&] { static_cast<Writer*>(writer)->finish(); });
}

LATHE_DOOR void lathe_parquet_free(void* writer) { delete static_cast<Writer*>(writer); }
