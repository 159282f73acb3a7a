#include "lathe/data/parquet_part.h"

#include <arrow/api.h>
#include <arrow/util/float16.h>
#include <arrow/util/utf8.h>
#include <parquet/file_reader.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/data/parquet_arrow.h"

using namespace lathe_parquet;

namespace {

constexpr int kMostDepth = 50;  // of nested types
constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr int64_t kBatchRows =
    4096;  // a dictionary makes long texts of few bytes: this many are in memory at once

void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\', out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_bytes(std::string& out, std::string_view bytes) {
  if (arrow::util::ValidateUTF8(bytes))
    append_string(out, bytes);
  else
    out += "{\"bytes\":" + std::to_string(bytes.size()) + "}";
}

template <typename T>
void append_number(std::string& out, T value) {
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  const std::string_view text(digits, static_cast<size_t>(end - digits));
  out += text;
  if (std::is_floating_point_v<T> && text.find_first_of(".e") == std::string_view::npos) out += ".0";
}

template <typename T>
void append_float(std::string& out, T value) {
  if (std::isfinite(value))
    append_number(out, value);
  else
    out += "null";
}

void append_value(std::string& out, const arrow::Array& array, int64_t row, int depth);

/// Values [begin, end) of a list.
void append_list(std::string& out, const arrow::Array& values, int64_t begin, int64_t end, int depth) {
  out += '[';
  for (int64_t i = begin; i < end; ++i) {
    if (i > begin) out += ',';
    append_value(out, values, i, depth + 1);
  }
  out += ']';
}

template <typename List>
void append_list(std::string& out, const arrow::Array& array, int64_t row, int depth) {
  const auto& list = static_cast<const List&>(array);
  append_list(out, *list.values(), list.value_offset(row), list.value_offset(row) + list.value_length(row),
              depth);
}

void append_struct(std::string& out, const arrow::StructArray& array, int64_t row, int depth) {
  out += '{';
  for (int i = 0; i < array.num_fields(); ++i) {
    if (i > 0) out += ',';
    append_string(out, array.struct_type()->field(i)->name());
    out += ':';
    append_value(out, *array.field(i), row, depth + 1);
  }
  out += '}';
}

template <typename A>
auto at(const arrow::Array& array, int64_t row) {
  return static_cast<const A&>(array).Value(row);
}

template <typename A>
std::string_view view_at(const arrow::Array& array, int64_t row) {
  return static_cast<const A&>(array).GetView(row);
}

void append_value(std::string& out, const arrow::Array& array, int64_t row, int depth) {
  if (depth > kMostDepth) throw std::runtime_error("types are nested too deeply");
  if (array.IsNull(row)) {
    out += "null";
    return;
  }
  using arrow::Type;
  switch (array.type_id()) {
    case Type::BOOL:
      out += at<arrow::BooleanArray>(array, row) ? "true" : "false";
      return;
    case Type::INT8:
      return append_number(out, int{at<arrow::Int8Array>(array, row)});
    case Type::INT16:
      return append_number(out, at<arrow::Int16Array>(array, row));
    case Type::INT32:
      return append_number(out, at<arrow::Int32Array>(array, row));
    case Type::INT64:
      return append_number(out, at<arrow::Int64Array>(array, row));
    case Type::UINT8:
      return append_number(out, unsigned{at<arrow::UInt8Array>(array, row)});
    case Type::UINT16:
      return append_number(out, at<arrow::UInt16Array>(array, row));
    case Type::UINT32:
      return append_number(out, at<arrow::UInt32Array>(array, row));
    case Type::UINT64:
      return append_number(out, at<arrow::UInt64Array>(array, row));
    case Type::HALF_FLOAT:
      return append_float(out,
                          arrow::util::Float16::FromBits(at<arrow::HalfFloatArray>(array, row)).ToFloat());
    case Type::FLOAT:
      return append_float(out, at<arrow::FloatArray>(array, row));
    case Type::DOUBLE:
      return append_float(out, at<arrow::DoubleArray>(array, row));
    case Type::STRING:
      return append_string(out, view_at<arrow::StringArray>(array, row));
    case Type::LARGE_STRING:
      return append_string(out, view_at<arrow::LargeStringArray>(array, row));
    case Type::BINARY:
      return append_bytes(out, view_at<arrow::BinaryArray>(array, row));
    case Type::LARGE_BINARY:
      return append_bytes(out, view_at<arrow::LargeBinaryArray>(array, row));
    case Type::BINARY_VIEW:
      return append_bytes(out, view_at<arrow::BinaryViewArray>(array, row));
    case Type::FIXED_SIZE_BINARY:
      return append_bytes(out, view_at<arrow::FixedSizeBinaryArray>(array, row));
    case Type::LIST:
      return append_list<arrow::ListArray>(out, array, row, depth);
    case Type::LARGE_LIST:
      return append_list<arrow::LargeListArray>(out, array, row, depth);
    case Type::FIXED_SIZE_LIST:
      return append_list<arrow::FixedSizeListArray>(out, array, row, depth);
    case Type::LIST_VIEW:
      return append_list<arrow::ListViewArray>(out, array, row, depth);
    case Type::LARGE_LIST_VIEW:
      return append_list<arrow::LargeListViewArray>(out, array, row, depth);
    case Type::MAP:
      return append_list<arrow::MapArray>(out, array, row, depth);
    case Type::STRUCT:
      return append_struct(out, static_cast<const arrow::StructArray&>(array), row, depth);
    case Type::DICTIONARY: {
      const auto& coded = static_cast<const arrow::DictionaryArray&>(array);
      return append_value(out, *coded.dictionary(), coded.GetValueIndex(row), depth + 1);
    }
    case Type::EXTENSION:
      return append_value(out, *static_cast<const arrow::ExtensionArray&>(array).storage(), row, depth + 1);
    default: {
      const std::string text = checked(array.GetScalar(row))->ToString();
      if (arrow::is_decimal(array.type_id()))
        out += text;
      else
        append_string(out, text);
    }
  }
}

void read_entry(const char* path, const char* key, LatheTextSink sink, void* context) {
  const auto reader = open_file(path);
  const auto entries = reader->parquet_reader()->metadata()->key_value_metadata();
  if (entries == nullptr || !entries->Contains(key)) return;
  const std::string value = checked(entries->Get(key));
  if (sink(context, value.data(), value.size()) != 0) throw std::runtime_error("stopped");
}

/// The columns of a file, and the leaves of those that are wanted.
struct Columns {
  std::vector<std::string> names;
  std::vector<bool> wanted;
  std::vector<int> leaves;
};

Columns choose(const parquet::SchemaDescriptor& schema, LatheColumnWanted wanted, void* context) {
  Columns columns;
  const auto* root = schema.group_node();
  for (int i = 0; i < root->field_count(); ++i) columns.names.push_back(root->field(i)->name());
  columns.wanted.resize(columns.names.size());
  for (int leaf = 0; leaf < schema.num_columns(); ++leaf) {
    const auto* column = schema.GetColumnRoot(leaf);
    if (wanted(context, column->name().c_str(), column->is_group() || column->is_repeated()) == 0) continue;
    columns.wanted[static_cast<size_t>(root->FieldIndex(*column))] = true;
    columns.leaves.push_back(leaf);
  }
  return columns;
}

/// Names the first row that is not as its type says: offsets and codes of a damaged file lead anywhere.
void check_values(const arrow::RecordBatch& batch, int64_t rows_before) {
  for (int i = 0; i < batch.num_columns(); ++i) {
    const auto& column = *batch.column(i);
    const arrow::Status fault = column.ValidateFull();
    if (fault.ok()) continue;
    int64_t sound = 0, unsound = column.length();  // so many rows of the beginning
    while (unsound - sound > 1) {
      const int64_t rows = (sound + unsound) / 2;
      (column.Slice(0, rows)->ValidateFull().ok() ? sound : unsound) = rows;
    }
    throw std::runtime_error("row " + std::to_string(rows_before + unsound) + ", column '" +
                             batch.column_name(i) + "': " + fault.message());
  }
}

void append_row(std::string& out, const Columns& columns, const arrow::RecordBatch& batch, int64_t row) {
  int next = 0;
  for (size_t i = 0; i < columns.names.size(); ++i) {
    out += i > 0 ? ',' : '{';
    append_string(out, columns.names[i]);
    out += ':';
    if (columns.wanted[i])
      append_value(out, *batch.column(next++), row, 1);
    else
      out += "{}";
  }
  out += "}\n";
}

void read_rows(const char* path, LatheColumnWanted wanted, void* wanted_context, LatheTextSink sink,
               void* context) {
  arrow::util::InitializeUTF8();
  const auto reader = open_file(path);
  reader->set_batch_size(kBatchRows);
  const Columns columns = choose(*reader->parquet_reader()->metadata()->schema(), wanted, wanted_context);
  std::vector<int> groups(static_cast<size_t>(reader->num_row_groups()));
  std::iota(groups.begin(), groups.end(), 0);
  const auto batches = checked(reader->GetRecordBatchReader(groups, columns.leaves));
  const auto kept = std::count(columns.wanted.begin(), columns.wanted.end(), true);
  int64_t rows_before = 0;
  std::string text;
  const auto flush = [&] {
    if (!text.empty() && sink(context, text.data(), text.size()) != 0) throw std::runtime_error("stopped");
    text.clear();
  };
  for (;;) {
    std::shared_ptr<arrow::RecordBatch> batch;
    check(batches->ReadNext(&batch));
    if (batch == nullptr) break;
    if (batch->num_columns() != kept) throw std::runtime_error("its schema does not fit its columns");
    check(batch->Validate());
    check_values(*batch, rows_before);
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      append_row(text, columns, *batch, row);
      if (text.size() >= kChunkBytes) flush();
    }
    rows_before += batch->num_rows();
  }
  flush();
}

}  // namespace

LATHE_DOOR int lathe_parquet_chosen(const char* path, LatheColumnWanted wanted, void* wanted_context,
                                    LatheTextSink sink, void* context, char* error, size_t error_bytes) {
  return guarded(error, error_bytes, [&] { read_rows(path, wanted, wanted_context, sink, context); });
}

LATHE_DOOR int lathe_parquet_entry(const char* path, const char* key, LatheTextSink sink, void* context,
                                   char* error, size_t error_bytes) {
  return guarded(error, error_bytes, [&] { read_entry(path, key, sink, context); });
}

LATHE_DOOR int lathe_parquet_count(const char* path, int64_t* rows, char* error, size_t error_bytes) {
  return guarded(error, error_bytes,
                 [&] { *rows = open_file(path)->parquet_reader()->metadata()->num_rows(); });
}
