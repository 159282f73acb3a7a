#include "lathe/io/foreign_content.h"

#include <gtest/gtest.h>

#include "lathe/io/testdata.h"

namespace lathe {
namespace {

using namespace std::string_literals;

TEST(ForeignContent, IsToldByTheFirstBytes) {
  const auto expect = [](const std::string& bytes, const std::string& wanted) {
    const std::string_view is = foreign_content(bytes);
    if (wanted.empty())
      EXPECT_EQ(is, "") << bytes;
    else
      EXPECT_NE(is.find(wanted), std::string_view::npos) << bytes << ": " << is;
  };
  expect("", "empty");
  expect("\xEF\xBB\xBF \r\n\t", "empty");
  expect("\n <!DOCTYPE html>", "a web page");
  expect("\xEF\xBB\xBF<HTML lang=en>", "a web page");
  expect("<?xml version='1.0'?><Error><Code>AccessDenied", "a web page");
  expect("version https://git-lfs.github.com/spec/v1\n", "git lfs pull");
  expect("\x1f\x8b\x08", "gunzip");
  expect("PK\x03\x04", "zip");
  expect("\xFF\xFE{\0}\0"s, "UTF-16");
  expect("{\0\"\0a\0"s, "UTF-16");
  expect("\0{\0\"\0a"s, "UTF-16");
  expect(std::string(1000, '\0'), "zero bytes");
  expect("\x80\x04\x95", "pickle");
  expect("PAR1\x15", "Parquet");
  expect("\x89HDF\r\n", "HDF5");
  for (const char* text : {"{", "[1]", "a,b\n1,2\n", "<s>", "<a>\tlabel\n", "sentence\tlabel", "0", "BERT"})
    expect(text, "");
  EXPECT_EQ(error_of([] { refuse_foreign_content("%PDF-1.7", "a.csv", "a table"); }, ErrorCode::kInvalidData),
            "a.csv: expected a table, found a PDF: save its text");
}

}  // namespace
}  // namespace lathe
